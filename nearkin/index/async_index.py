"""The index for coroutines: the same one, in threads; its kernels and its stores give the interpreter away while they work."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from nearkin.index.entry import Cluster, Entry, Match, Outcome
from nearkin.index.index import Index
from nearkin.index.preparation import Document
from nearkin.measures.explanation import Explanation

P = ParamSpec("P")
R = TypeVar("R")


class AsyncIndex:
    """Awaits what `Index` does; see there.

    Examples:
        >>> async def main() -> str:
        ...     async with await AsyncIndex.open("memory://") as index:
        ...         return (await index.upsert("tenant-a", "the cat sat on the mat")).kind.value
        >>> asyncio.run(main())
        'new'
    """

    def __init__(self, index: Index) -> None:
        self.index = index

    @classmethod
    async def open(cls, url: str | Sequence[str], *arguments: Any, **fields: Any) -> Self:
        """As `Index.open`."""
        return cls(await asyncio.to_thread(Index.open, url, *arguments, **fields))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def upsert(self, scope: str, document: Document, id: str | None = None) -> Outcome:
        return await _run(self.index.upsert, scope, document, id)

    async def upsert_many(
        self, scope: str, documents: Sequence[Document], ids: Sequence[str | None] | None = None
    ) -> list[Outcome]:
        return await _run(self.index.upsert_many, scope, documents, ids)

    async def query(self, scope: str, document: Document, top: int = 10) -> list[Match]:
        return await _run(self.index.query, scope, document, top)

    async def get(self, scope: str, id: str) -> Entry | None:
        return await _run(self.index.get, scope, id)

    async def cluster(self, scope: str, id: str) -> Cluster | None:
        return await _run(self.index.cluster, scope, id)

    async def explain(self, scope: str, a: str, b: str) -> Explanation:
        return await _run(self.index.explain, scope, a, b)

    async def remove(self, scope: str, id: str) -> bool:
        return await _run(self.index.remove, scope, id)

    async def expire(self) -> dict[str, int]:
        return await _run(self.index.expire)

    async def export(self, path: str | Path) -> int:
        return await _run(self.index.export, path)

    async def stats(self) -> dict[str, Any]:
        return await _run(self.index.stats)

    async def close(self) -> None:
        await _run(self.index.close)


async def _run(method: Callable[P, R], *arguments: P.args, **fields: P.kwargs) -> R:
    return await asyncio.to_thread(method, *arguments, **fields)
