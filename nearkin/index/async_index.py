"""The online index for coroutines.

The work is done in threads. The kernels and the stores release the interpreter while they work.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from nearkin.index.index import Index

P = ParamSpec("P")
R = TypeVar("R")


def _in_thread(
    method: Callable[Concatenate[Index, P], R],
) -> "Callable[Concatenate[AsyncIndex, P], Coroutine[Any, Any, R]]":
    """Returns a method of an index as a coroutine, which runs it in a thread."""

    @wraps(method)
    async def run(self: "AsyncIndex", /, *arguments: P.args, **fields: P.kwargs) -> R:
        own: Callable[P, R] = getattr(self.index, method.__name__)
        return await asyncio.to_thread(own, *arguments, **fields)

    return run


def _open_in_thread(
    method: Callable[P, Index],
) -> "Callable[P, Coroutine[Any, Any, AsyncIndex]]":
    """Returns `Index.open` as a coroutine, which runs it in a thread."""

    @wraps(method)
    async def run(*arguments: P.args, **fields: P.kwargs) -> "AsyncIndex":
        own: Callable[P, Index] = getattr(Index, method.__name__)
        opening = asyncio.create_task(asyncio.to_thread(own, *arguments, **fields))
        try:
            return AsyncIndex(await asyncio.shield(opening))
        except asyncio.CancelledError:
            # the thread goes on, and nobody else closes what it opens
            opening.add_done_callback(_close_opened)
            raise

    return run


class AsyncIndex:
    """An index whose methods are coroutines. See `Index` for their parameters.

    Args:
        index: The open index.

    Examples:
        >>> async def main() -> str:
        ...     async with await AsyncIndex.open("memory://") as index:
        ...         return (await index.upsert("tenant-a", "the cat sat on the mat")).kind
        >>> print(asyncio.run(main()))
        new
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        """The open index."""

    open = staticmethod(_open_in_thread(Index.open))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    upsert = _in_thread(Index.upsert)
    upsert_many = _in_thread(Index.upsert_many)
    query = _in_thread(Index.query)
    passages = _in_thread(Index.passages)
    decide = _in_thread(Index.decide)
    decisions = _in_thread(Index.decisions)
    changes = _in_thread(Index.changes)
    related_many = _in_thread(Index.related_many)
    match_many = _in_thread(Index.match_many)
    near_misses = _in_thread(Index.near_misses)
    get = _in_thread(Index.get)
    cluster = _in_thread(Index.cluster)
    explain = _in_thread(Index.explain)
    remove = _in_thread(Index.remove)
    remove_many = _in_thread(Index.remove_many)
    remove_scope = _in_thread(Index.remove_scope)
    configure_scope = _in_thread(Index.configure_scope)
    scope_status = _in_thread(Index.scope_status)
    expire = _in_thread(Index.expire)
    export = _in_thread(Index.export)
    stats = _in_thread(Index.stats)
    close = _in_thread(Index.close)


def _close_opened(opening: "asyncio.Task[Index]") -> None:
    """Closes the index that a task has opened, if it has opened one."""
    if not opening.cancelled() and opening.exception() is None:
        opening.get_loop().run_in_executor(None, opening.result().close)
