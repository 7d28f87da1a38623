"""The online index for coroutines.

The work is done in threads. The kernels and the stores release the interpreter while they work.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, Unpack

from nearkin.index.description import IndexStats
from nearkin.index.documents import Document
from nearkin.index.entry import Cluster, Entry, Match, Outcome
from nearkin.index.index import Index
from nearkin.index.settings import IndexSettings, SettingsFields
from nearkin.runtime.argument_types import check_arguments
from nearkin.settings.decisions import Decision, Decisions
from nearkin.settings.spec import Spec

if TYPE_CHECKING:
    from nearkin.engine.blocklist.blocklist import Blocklist
    from nearkin.index.passage_matches import PassageMatches
    from nearkin.index.stores.base import Store
    from nearkin.stages.measures.explanation import Explanation
    from nearkin.stages.sketch.resources import SpecResources

P = ParamSpec("P")
R = TypeVar("R")


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
        """Opens an index, or creates one if the store is empty. See `Index.open`.

        Args:
            url: URL of the store, or the URLs of the shards of one index.
            spec: Spec of the signatures. By default that of the existing index, or `Spec()`.
            threshold: Minimum similarity of a document to the representative it is resolved to, in
                (0, 1]. By default that of the existing index, or 0.8.
            store: An open store, in place of a URL. The index closes it.
            settings: Further parameters.
            resources: The hash key and the data that the Spec refers to.
            spec_resources: Folder of a run with the data that the Spec refers to.
            clock: Returns the time in seconds. By default the machine's clock, or the store's if
                they differ.
            must_exist: True to open an existing index only, and to write nothing to a store
                without one.
            blocklist: Blocklist of the Spec of the index. Texts that are like one of its entries
                are not stored.
            decisions: People's decisions about pairs of documents, or files of them, by scope.
            **fields: Fields of IndexSettings that replace those of `settings`.

        Raises:
            UsageError: If a field is unknown or not valid.
            MissingIndexError: If the store has no index, and `must_exist` is True.
            IncompatibleError: If the index was created with another Spec or threshold.
            StoreError: If the store cannot be reached.
        """
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

    async def upsert(self, scope: str, document: Document, id: str | None = None) -> Outcome:
        """Does the same as `Index.upsert`, in a thread.

        Args:
            scope: Scope of the document, for example a tenant.
            document: A text, a vector, or a `TextAndVector`, as the index has them.
            id: Id of the document. By default it is derived from the content. Another content
                under a known id is an update.

        Raises:
            UsageError: If the document is of the wrong kind or too large, or a name is not valid.
            StoreError: If the store fails.
        """
        return await _run(self.index.upsert, scope, document, id)

    async def upsert_many(
        self, scope: str, documents: Sequence[Document], ids: Sequence[str | None] | None = None
    ) -> list[Outcome]:
        """Does the same as `Index.upsert_many`, in a thread.

        Args:
            scope: Scope of the documents.
            documents: Texts, vectors or `TextAndVector`, at most `max_batch` of them.
            ids: Ids of the documents; None for one that is derived from the content.

        Raises:
            UsageError: If a document is of the wrong kind or too large, or if there are too many.
                Nothing is written then.
            StoreError: If the store fails. Usually nothing is written then. Documents that change
                what later ones find (updates, buckets that overflow) are written one by one: those
                before the failure are written. The same batch may be sent again.
        """
        return await _run(self.index.upsert_many, scope, documents, ids)

    async def query(
        self, scope: str, document: Document, top: int = 10, *, members: bool = False
    ) -> list[Match]:
        """Does the same as `Index.query`, in a thread.

        Args:
            scope: Scope that is searched.
            document: A text, a vector, or a `TextAndVector`, as the index has them.
            top: Maximum number of matches.
            members: True to compare the members of the matching representatives, too.

        Returns:
            The matches, most similar first. The similarity of each was computed exactly.

        Raises:
            UsageError: If the document is not valid, or `top` is less than 1.
        """
        return await _run(self.index.query, scope, document, top, members=members)

    async def passages(self, scope: str, text: str, top: int = 10) -> "PassageMatches":
        """Does the same as `Index.passages`, in a thread.

        Args:
            scope: Scope that is searched.
            text: The text. If it is stored itself, it is found, too.
            top: Maximum number of documents.

        Returns:
            The documents with the bytes of the passages in both, and whether the search was
            complete.

        Raises:
            UsageError: If the text is not valid, `top` is less than 1, or the index has no setting
                `passages`.
            StoreError: If the store fails.
        """
        return await _run(self.index.passages, scope, text, top)

    async def decide(self, scope: str, decisions: Sequence[Decision]) -> int:
        """Does the same as `Index.decide`, in a thread.

        Args:
            scope: Scope of the documents.
            decisions: Decisions about pairs of ids.

        Returns:
            The number of decisions that were not stored before.

        Raises:
            UsageError: If decisions contradict each other or stored ones, or an id is not valid.
        """
        return await _run(self.index.decide, scope, decisions)

    async def decisions(self, scope: str) -> Decisions:
        """Does the same as `Index.decisions`, in a thread.

        Args:
            scope: Scope of the documents.

        Returns:
            The stored decisions about documents of the scope.
        """
        return await _run(self.index.decisions, scope)

    async def related_many(self, scope: str, documents: Sequence[Document]) -> list[list[Match]]:
        """Does the same as `Index.related_many`, in a thread.

        Args:
            scope: Scope that is searched.
            documents: Texts or vectors, at most `max_batch` of them.

        Returns:
            The related representatives of each document, most similar first.

        Raises:
            UsageError: If a document is not valid, there are too many, or the index has no setting
                `related`.
        """
        return await _run(self.index.related_many, scope, documents)

    async def match_many(self, scope: str, documents: Sequence[Document]) -> list[Match | None]:
        """Does the same as `Index.match_many`, in a thread.

        Args:
            scope: Scope that is searched.
            documents: Texts, vectors or `TextAndVector`, at most `max_batch` of them.

        Returns:
            A match for each document, or None if no stored document reaches the threshold.

        Raises:
            UsageError: If a document is not valid, or there are too many.
        """
        return await _run(self.index.match_many, scope, documents)

    async def near_misses(self, scope: str, document: Document, top: int = 10) -> list[Match]:
        """Does the same as `Index.near_misses`, in a thread.

        Args:
            scope: Scope that is searched.
            document: A text or a vector.
            top: Maximum number of documents.

        Returns:
            The documents below the threshold, most similar first.

        Raises:
            UsageError: If the document is not valid, or `top` is less than 1.
        """
        return await _run(self.index.near_misses, scope, document, top)

    async def get(self, scope: str, id: str) -> Entry | None:
        """Does the same as `Index.get`, in a thread.

        Args:
            scope: Scope of the document.
            id: Id of the document.

        Returns:
            The entry with its content, or None if the document does not exist.

        Raises:
            UsageError: If a name is not valid.
            StoreError: If the store fails.
        """
        return await _run(self.index.get, scope, id)

    async def cluster(self, scope: str, id: str) -> Cluster | None:
        """Does the same as `Index.cluster`, in a thread.

        Args:
            scope: Scope of the document.
            id: Id of any document of the cluster.

        Returns:
            The cluster, or None if the document does not exist. `cluster_part` reads a large
            cluster in parts.

        Raises:
            UsageError: If a name is not valid.
            StoreError: If the store fails.
        """
        return await _run(self.index.cluster, scope, id)

    async def explain(self, scope: str, a: str, b: str) -> "Explanation":
        """Does the same as `Index.explain`, in a thread.

        Args:
            scope: Scope of both documents.
            a: Id of the first document.
            b: Id of the second document.

        Raises:
            UsageError: If a document does not exist, or its text is not stored.
        """
        return await _run(self.index.explain, scope, a, b)

    async def remove(self, scope: str, id: str) -> bool:
        """Does the same as `Index.remove`, in a thread.

        Args:
            scope: Scope of the document.
            id: Id of the document.

        Returns:
            False if the document did not exist.
        """
        return await _run(self.index.remove, scope, id)

    async def expire(self) -> dict[str, int]:
        """Deletes documents and postings whose time to live is over."""
        return await _run(self.index.expire)

    async def export(self, path: str | Path) -> int:
        """Writes all documents to a parquet file."""
        return await _run(self.index.export, path)

    async def stats(self) -> IndexStats:
        """Returns counts of the store and of the cache, and the parameters of the index."""
        return await _run(self.index.stats)

    async def close(self) -> None:
        """Closes the store and releases its connections."""
        await _run(self.index.close)


async def _run(method: Callable[P, R], *arguments: P.args, **fields: P.kwargs) -> R:
    return await asyncio.to_thread(method, *arguments, **fields)


def _close_opened(opening: "asyncio.Task[Index]") -> None:
    """Closes the index that a task has opened, if it has opened one."""
    if not opening.cancelled() and opening.exception() is None:
        opening.get_loop().run_in_executor(None, opening.result().close)
