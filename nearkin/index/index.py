"""The online index, which resolves each new document to a representative that it resembles.

`Index` is the interface of all of it. The steps are in the modules beside this one: `upsert`,
`lookup`, `search`, `removal`, `expiry` and `parts`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from nearkin.errors import UsageError
from nearkin.index.entry import Cluster, ClusterPart, Entry, Match, MemberPosition, Outcome
from nearkin.index.expiry import Expiry
from nearkin.index.lookup import Lookups
from nearkin.index.migration.state import Phase
from nearkin.index.opening import Opened, open_index
from nearkin.index.parts import DocumentParts
from nearkin.index.preparation import Document
from nearkin.index.removal import Removals
from nearkin.index.session import Session
from nearkin.index.settings import IndexSettings
from nearkin.index.stats import SearchStats
from nearkin.index.upsert import Upserts
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import Measure
from nearkin.measures.base import Payload
from nearkin.runtime.metrics import QualityMetrics
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.spec import Spec

if TYPE_CHECKING:
    from nearkin.measures.explanation import Explanation


class Index:
    """An index of documents in scopes. Documents of different scopes are never compared.

    Open one with `Index.open`. An index is a context manager. It is safe for threads, and for
    processes that share a store.

    Examples:
        >>> index = Index.open("memory://", threshold=0.5)
        >>> print(index.upsert("tenant-a", "the cat sat on the mat", id="one").kind)
        new
        >>> outcome = index.upsert("tenant-a", "the cat sat on the mat today", id="two")
        >>> print(outcome.kind, outcome.representative, outcome.similarity)
        match one 0.8
        >>> print(index.upsert("tenant-b", "the cat sat on the mat").kind)
        new
    """

    def __init__(
        self,
        opened: Opened,
        resources: SpecResources,
        clock: Callable[[], float] | None = None,
        tables: Path | None = None,
        follow: bool = True,
    ) -> None:
        self._session = Session(opened, resources, clock, tables, follow)
        self._removals = Removals(self._session)
        self._expiry = Expiry(self._session)
        self._upserts = Upserts(self._session, self._removals, self._expiry)
        self._lookups = Lookups(self._session)
        self._parts = DocumentParts(self._session, self.upsert)

    @classmethod
    def open(
        cls,
        url: str | Sequence[str],
        spec: Spec | None = None,
        threshold: float | None = None,
        *,
        settings: IndexSettings | None = None,
        resources: SpecResources = NO_RESOURCES,
        tables: str | Path | None = None,
        clock: Callable[[], float] | None = None,
        follow: bool = True,
        **fields: Any,
    ) -> Self:
        """Opens an index, or creates one if the store is empty.

        Args:
            url: URL of the store: `memory://`, `sqlite:///file.db`, `redis://…`, `postgresql://…`
                or `aerospike://…`. Several URLs name the shards of one index.
            spec: Spec of the signatures. By default that of the existing index, or `Spec()`.
            threshold: Minimum similarity of a document to the representative it is resolved to, in
                (0, 1]. By default that of the existing index, or 0.8.
            settings: Further parameters.
            resources: The key and the tables that the Spec names.
            tables: Folder of a run to read the Spec's tables from (document frequencies, frequency
                cut).
            clock: Returns the time in seconds, for times to live, for the window and for the
                interval of refreshes. By default the machine's clock, or the store's if they
                differ.
            follow: False for a copy in the making, whose steps fail (MovedError) if a migration
                begins or ends. By default the index follows migrations to other stores.
            **fields: Fields of IndexSettings that replace those of `settings`.

        Raises:
            UsageError: If a field is unknown or not valid.
            IncompatibleError: If the index was created with another Spec or threshold.
            StoreError: If the store cannot be reached.
        """
        try:
            chosen = replace(settings or IndexSettings(), **fields)
        except TypeError as error:
            known = ", ".join(IndexSettings.__dataclass_fields__)
            raise UsageError(f"{error}; the settings of an index are {known}") from error
        if spec is not None:
            chosen = replace(chosen, spec=spec)
        if threshold is not None:
            chosen = replace(chosen, threshold=threshold)
        opened = open_index(url, chosen, follow=follow)
        folder = None if tables is None else Path(tables)
        return cls(opened, resources, clock, folder, follow)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the store and releases its connections."""
        self._session.store.close()

    # -- What the index is

    @property
    def spec(self) -> Spec:
        """The Spec of the signatures."""
        return self._session.spec

    @property
    def threshold(self) -> float:
        """The minimum similarity of a document to the representative it is resolved to."""
        return self._session.threshold

    @property
    def settings(self) -> IndexSettings:
        """The settings, with the Spec and the threshold that the index was created with."""
        return self._session.settings

    @property
    def resources(self) -> SpecResources:
        """The key and the tables that the Spec names."""
        return self._session.resources

    @property
    def measure(self) -> Measure:
        """The measure by which documents are compared."""
        return self._session.measure

    @property
    def banding(self) -> Banding:
        """The numbers of bands, rows and probes."""
        return self._session.banding

    @property
    def holds_vectors(self) -> bool:
        """True if the documents are vectors, False if they are texts."""
        return self._session.preparer.vectors

    @property
    def url(self) -> str:
        """The URL of the store, without a password."""
        return self._session.store.url

    @property
    def public_urls(self) -> tuple[str, ...]:
        """The URLs of the store (several for shards) without passwords."""
        return self._session.public_urls()

    @property
    def migration_phase(self) -> Phase:
        """The phase of the index's migration when the store's state was last read."""
        return self._session.state.migration.phase

    @property
    def durability(self) -> str:
        """A description of what an acknowledged step survives, as far as the store reports it."""
        return self._session.store.durability

    def now(self) -> float:
        """Returns the time of the index's clock, in seconds."""
        return self._session.clock()

    def refresh(self) -> None:
        """Reads the state of the store. Switches to another store if the index has moved.

        Every method does this by itself if the last time is 5 seconds ago.

        Raises:
            StoreError: If the store, or the one that the index has moved to, cannot be reached.
        """
        self._session.refresh()

    # -- Writing

    def upsert(self, scope: str, document: Document, id: str | None = None) -> Outcome:
        """Inserts a document, or resolves it to a similar representative.

        Args:
            scope: Scope of the document, for example a tenant.
            document: A text or a vector.
            id: Id of the document. By default it is derived from the content. Another content
                under a known id is an update.

        Raises:
            UsageError: If the document is of the wrong kind or too large, or a name is not valid.
            StoreError: If the store fails.
        """
        return self.upsert_many(scope, [document], None if id is None else [id])[0]

    def upsert_many(
        self, scope: str, documents: Sequence[Document], ids: Sequence[str | None] | None = None
    ) -> list[Outcome]:
        """Upserts documents in order, with a few round trips for all of them.

        Args:
            scope: Scope of the documents.
            documents: Texts or vectors, at most `max_batch` of them.
            ids: Ids of the documents; None for one that is derived from the content.

        Raises:
            UsageError: If a document is of the wrong kind or too large, or if there are too many.
                Nothing is written then.
            StoreError: If the store fails. Usually nothing is written then. Documents that change
                what later ones find (updates, buckets that overflow) are written one by one: those
                before the failure are written. The same batch may be sent again.
        """
        return self._upserts.upsert_many(scope, documents, ids)

    def check_document(self, document: Document) -> None:
        """Verifies that a document can be upserted or queried.

        Raises:
            UsageError: If the document is of the wrong kind, too large, or a vector of the wrong
                dimensions.
        """
        self._session.preparer.check(document)

    def require_writable(self, scope: str) -> None:
        """Refuses a new scope whose name could be confused with another one.

        See `nearkin.index.scope_names`. A copy in the making accepts every scope of its source.

        Raises:
            UsageError: If the name is refused.
        """
        self._upserts.require_writable(scope)

    def add_part(self, scope: str, id: str, part: str | Sequence[str]) -> int:
        """Adds a part to a document that arrives in parts.

        Args:
            scope: Scope of the document.
            id: Id of the document.
            part: A text, or tokens. Shingles do not extend from one part into the next one.

        Returns:
            The number of distinct shingles of all parts.

        Raises:
            UsageError: If the documents of the index are not sets of shingles, or the document
                becomes too large.
        """
        self.require_writable(scope)
        return self._parts.add_part(scope, id, part)

    def finish(self, scope: str, id: str) -> Outcome | None:
        """Upserts a document from its parts, which are then deleted.

        If this is interrupted, it can be repeated with the same result.

        Args:
            scope: Scope of the document.
            id: Id of the document.

        Returns:
            The outcome of the upsert, or None if the document has no parts.
        """
        return self._parts.finish(scope, id)

    def remove(self, scope: str, id: str) -> bool:
        """Deletes a document. If it is a representative, its members elect another one.

        Args:
            scope: Scope of the document.
            id: Id of the document.

        Returns:
            False if the document did not exist.
        """
        return self._removals.remove(scope, id)

    def merge_into_older(self, scope: str, id: str) -> int:
        """Resolves a representative, with its members, to a similar older representative.

        Args:
            scope: Scope of the representative.
            id: Id of the representative.

        Returns:
            The number of documents that moved, which is 0 if no older representative is similar.
        """
        return self._removals.merge_into_older(scope, id)

    def expire(self, trust_clock: bool = False) -> dict[str, int]:
        """Deletes documents and postings whose time to live is over.

        Args:
            trust_clock: True if the caller has confirmed that the machine's clock is right,
                although most documents are due at once. A clock that differs from the store's is
                refused all the same.

        Returns:
            The numbers of deleted `records` and `postings`.

        Raises:
            ClockError: If the clock of this process is not plausible. Nothing is deleted then.
        """
        return self._expiry.expire(trust_clock=trust_clock)

    def sweep(self, every: float) -> dict[str, int]:
        """Does what `expire` does, in one of the processes that have the index open.

        Args:
            every: Interval at which a process calls this, in seconds. Another process takes over
                if the sweeping one has not called for one and a half intervals.

        Returns:
            The numbers of deleted `records` and `postings`.

        Raises:
            ClockError: If the clock of this process is not plausible. Nothing is deleted then.
        """
        return self._expiry.sweep(every)

    def protect(self) -> None:
        """Marks the index permanently as one that was served with tokens."""
        self._session.store.protect()

    def is_protected(self) -> bool:
        """Returns True if the index was marked by `protect`."""
        return self._session.store.is_protected()

    # -- Reading

    def query(self, scope: str, document: Document, top: int = 10) -> list[Match]:
        """Finds stored documents at or above the threshold. Nothing is written.

        Args:
            scope: Scope that is searched.
            document: A text or a vector.
            top: Maximum number of matches.

        Returns:
            The matches, most similar first: representatives, or any documents if all are posted.

        Raises:
            UsageError: If the document is not valid, or `top` is less than 1.
        """
        return self._lookups.query(scope, document, top)

    def get(self, scope: str, id: str) -> Entry | None:
        """Returns the entry of a document, or None if it does not exist."""
        return self._lookups.get(scope, id)

    def get_many(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        """Returns the entries of documents, in order, with None for each that does not exist."""
        return self._session.store.entries(scope, ids)

    def get_by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        """Returns the entries of documents by the numbers that the store gave them."""
        return self._session.store.by_refs(refs)

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        """Yields the entries of a scope, or of all, in the order of insertion.

        Args:
            scope: Scope that is read, or None for all.
            content: False to leave signatures, texts and payloads out.
        """
        return self._session.store.scan(scope, content=content)

    def scopes(self) -> list[str]:
        """Returns the scopes that have documents, sorted."""
        return sorted(self.iterate_scopes())

    def iterate_scopes(self) -> Iterator[str]:
        """Yields the scopes that have documents, in no particular order, as they are read."""
        return self._session.store.scopes()

    def cluster(self, scope: str, id: str) -> Cluster | None:
        """Returns the cluster of a document, or None if the document does not exist."""
        return self._lookups.cluster(scope, id)

    def cluster_part(
        self, scope: str, id: str, start: int = 0, limit: int = 100, after: str | None = None
    ) -> ClusterPart | None:
        """Returns a part of a cluster. No text is read.

        Args:
            scope: Scope of the document.
            id: Id of any document of the cluster.
            start: Position of the first document of the part. 0 is the representative.
            limit: Maximum number of documents.
            after: Id of the document after which the part begins. If it still is in the cluster,
                it is looked up by key and `start` is ignored. `start` alone skips all members
                before it.

        Returns:
            The part, or None if the document does not exist.
        """
        return self._lookups.cluster_part(scope, id, start, limit, after)

    def cluster_part_after(
        self, scope: str, id: str, position: MemberPosition, limit: int = 100
    ) -> ClusterPart | None:
        """Returns the part of a cluster after a position.

        Documents that are in the cluster during all calls are listed once each, whatever is
        inserted or deleted between two calls.

        Args:
            scope: Scope of the document.
            id: Id of any document of the cluster.
            position: `ClusterPart.end` of the previous part, from this index in this store.
            limit: Maximum number of documents.

        Returns:
            The part, or None if the document does not exist.
        """
        return self._lookups.cluster_part_after(scope, id, position, limit)

    def explain(self, scope: str, a: str, b: str) -> "Explanation":
        """Explains why two stored documents match, or do not.

        Args:
            scope: Scope of both documents.
            a: Id of the first document.
            b: Id of the second document.

        Raises:
            UsageError: If a document does not exist, or its text is not stored.
        """
        return self._lookups.explain(scope, a, b)

    def payload_of(self, entries: Sequence[Entry]) -> Payload:
        """Returns the data of stored documents that exact comparison needs.

        Args:
            entries: Entries with their content.
        """
        return self._session.preparer.payload_of(entries)

    def stats(self) -> dict[str, Any]:
        """Returns counts of the store and of the cache, and the parameters of the index."""
        return {**self._lookups.stats(), "evicted_cold": self._upserts.evicted_cold}

    def header(self) -> dict[str, Any]:
        """Returns the header of the store: the Spec and the settings that never change."""
        return self._session.store.claim({})

    def counts(self) -> dict[str, int]:
        """Returns the counts that the store keeps: records, leaders, postings, bytes and others."""
        return self._session.store.counts()

    @property
    def search_stats(self) -> SearchStats:
        """The statistics of the searches of this process since it opened the index."""
        return self._session.searcher.stats

    def metrics(self, recall: float | None = None) -> QualityMetrics:
        """Returns the quality metrics of this process since it opened the index.

        Args:
            recall: Recall on labelled documents, if it was measured.
        """
        return self.search_stats.metrics(recall, self.counts().get("bytes"))

    def hot_buckets(self, limit: int = 20) -> list[tuple[int, Entry]]:
        """Returns the largest buckets that searches read, largest first.

        Args:
            limit: Maximum number of buckets.

        Returns:
            The number of postings and the oldest document of each bucket.
        """
        return self._lookups.hot_buckets(limit)

    def export(self, path: str | Path) -> int:
        """Writes all documents to a parquet file, which `nearkin index migrate` can load.

        Args:
            path: Path of the file.

        Returns:
            The number of documents.

        Raises:
            UsageError: If the file is inside the work folder of a run.
            StoreError: If the store fails or the file cannot be written.
        """
        from nearkin.index.exports import write_export

        return write_export(self._session.store, Path(path))
