"""The online index for coroutines.

The work is done in threads. The kernels and the stores release the interpreter while they work.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from nearkin.index.index import Index
from nearkin.index.settings import IndexSettings, SettingsFields
from nearkin.runtime.argument_types import check_arguments
from nearkin.settings.decisions import Decisions
from nearkin.settings.spec import Spec

if TYPE_CHECKING:
    from nearkin.engine.blocklist.blocklist import Blocklist
    from nearkin.index.stores.base import Store
    from nearkin.stages.sketch.resources import SpecResources

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

    @classmethod
    @check_arguments
    async def open(
        cls,
        url: str | Sequence[str] | None = None,
        spec: Spec | None = None,
        threshold: float | None = None,
        *,
        store: "Store | None" = None,
        settings: IndexSettings | None = None,
        resources: "SpecResources | None" = None,
        spec_resources: str | Path | None = None,
        clock: Callable[[], float] | None = None,
        must_exist: bool = False,
        blocklist: "Blocklist | None" = None,
        decisions: Mapping[str, str | Path | Decisions] | None = None,
        **fields: Unpack[SettingsFields],
    ) -> Self:
        """Opens an index, or creates one if the store is empty, as `Index.open` does."""
        opened = partial(
            Index.open,
            url,
            spec,
            threshold,
            store=store,
            settings=settings,
            resources=resources,
            spec_resources=spec_resources,
            clock=clock,
            must_exist=must_exist,
            blocklist=blocklist,
            decisions=decisions,
            **fields,
        )
        opening = asyncio.create_task(asyncio.to_thread(opened))
        try:
            return cls(await asyncio.shield(opening))
        except asyncio.CancelledError:
            # the thread goes on, and nobody else closes what it opens
            opening.add_done_callback(_close_opened)
            raise

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
    related_many = _in_thread(Index.related_many)
    match_many = _in_thread(Index.match_many)
    near_misses = _in_thread(Index.near_misses)
    get = _in_thread(Index.get)
    cluster = _in_thread(Index.cluster)
    explain = _in_thread(Index.explain)
    remove = _in_thread(Index.remove)
    expire = _in_thread(Index.expire)
    export = _in_thread(Index.export)
    stats = _in_thread(Index.stats)
    close = _in_thread(Index.close)


def _close_opened(opening: "asyncio.Task[Index]") -> None:
    """Closes the index that a task has opened, if it has opened one."""
    if not opening.cancelled() and opening.exception() is None:
        opening.get_loop().run_in_executor(None, opening.result().close)
