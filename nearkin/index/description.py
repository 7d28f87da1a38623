"""The parameters of an open index, the place and state of its store, and its statistics."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NotRequired, TypedDict

from nearkin.index.entry import Entry
from nearkin.index.migration.state import Phase
from nearkin.index.opening import IndexHeader, read_header
from nearkin.index.session import Session
from nearkin.index.settings import IndexSettings
from nearkin.settings.spec import Spec

if TYPE_CHECKING:
    from nearkin.index.stats import SearchStats
    from nearkin.runtime.metrics import QualityMetrics
    from nearkin.stages.lsh.slot_bands import Banding
    from nearkin.stages.measures.base import Measure
    from nearkin.stages.sketch.resources import SpecResources

STORES_IN_MEMORY = ("memory:", "redis:", "rediss:")
"""The beginnings of the URLs of stores that hold all documents in memory."""


class IndexStats(TypedDict):
    """The counts of an index and its parameters, as `/v1/stats` returns them."""

    records: int
    leaders: int
    postings: int
    evicted: int
    """The number of postings beyond the capacity of their buckets, which are not read."""
    bytes: int
    bucket_bytes: NotRequired[int]
    """The memory of the buckets that this process maps. Only SQLite reports it."""
    cached: int
    """The number of resolutions in the cache of this process."""
    cached_bytes: int
    threshold: float
    distance: NotRequired[int]
    """The maximum Hamming distance, if it replaces the threshold."""
    related: NotRequired[float]
    """The minimum similarity of related documents, if the index has the setting."""
    passages: NotRequired[int]
    """The smallest number of words of a passage, if the index has the setting."""
    bands: int
    rows: int
    vector_threshold: NotRequired[float]
    """The threshold of the vectors. Only an index of texts and vectors has it and the next ones."""
    vector_bands: NotRequired[int]
    vector_rows: NotRequired[int]
    combine: NotRequired[str]
    spec_fingerprint: str
    retention: str
    """A sentence about how long this process lets the index keep documents."""
    url: str
    """The URL of the store, without a password."""


class IndexDescription:
    """The parameters and statistics of an open index.

    Args:
        session: The open index.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

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
    def resources(self) -> "SpecResources":
        """The hash key and the data that the Spec refers to."""
        return self._session.resources

    @property
    def measure(self) -> "Measure":
        """The measure by which documents are compared."""
        return self._session.measure

    @property
    def banding(self) -> "Banding":
        """The numbers of bands, rows and probes."""
        return self._session.banding

    @property
    def holds_vectors(self) -> bool:
        """True if the documents are vectors, False if they are texts, with or without vectors."""
        return self._session.preparer.vectors

    @property
    def holds_both(self) -> bool:
        """True if a document can have a text and a vector."""
        return self._session.documents.second is not None

    @property
    def vector_banding(self) -> "Banding | None":
        """The bands and rows of the vectors that texts have besides, or None."""
        second = self._session.documents.second
        return None if second is None else second.banding

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

    def is_protected(self) -> bool:
        """Returns True if the index was marked by `Index.protect`."""
        # it keeps the store open if the index moves meanwhile
        searcher = self._session.searcher
        return searcher.store.is_protected()

    def header(self) -> IndexHeader:
        """Returns the header of the store: the Spec and the settings that never change."""
        searcher = self._session.searcher
        return read_header(searcher.store)

    def counts(self) -> dict[str, int]:
        """Returns the counts that the store keeps: records, leaders, postings, bytes and others."""
        searcher = self._session.searcher
        return searcher.store.counts()

    def memory_bytes(self, counts: Mapping[str, int]) -> int:
        """Returns the memory that the index takes, in bytes, as far as it is known.

        It consists of the resolution cache of this process, and of what the store holds in memory.
        Stores on disk count the size of their files, which is not memory; of those, only SQLite has
        buckets in memory.

        Args:
            counts: Result of `counts`.
        """
        memory = self._session.cache.nbytes
        if all(url.startswith(STORES_IN_MEMORY) for url in self.public_urls):
            return memory + counts["bytes"]
        return memory + counts.get("bucket_bytes", 0)

    def stats(self) -> IndexStats:
        """Returns counts of the store and of the cache, and the parameters of the index."""
        session = self._session
        session.refresh_if_due()
        searcher = session.searcher
        counts = searcher.store.counts()
        stats = IndexStats(
            records=counts["records"],
            leaders=counts["leaders"],
            postings=counts["postings"],
            evicted=counts["evicted"],
            bytes=counts["bytes"],
            cached=len(session.cache),
            cached_bytes=session.cache.nbytes,
            threshold=session.threshold,
            bands=session.banding.bands,
            rows=session.banding.rows,
            spec_fingerprint=session.spec.fingerprint,
            retention=session.settings.retention,
            url=searcher.store.url,
        )
        if session.settings.distance is not None:
            stats["distance"] = session.settings.distance
        if session.settings.related is not None:
            stats["related"] = session.settings.related
        if session.settings.passages is not None:
            stats["passages"] = session.settings.passages
        vector = session.settings.vector
        if vector is not None and self.vector_banding is not None:
            assert vector.threshold is not None
            stats["vector_threshold"] = vector.threshold
            stats["vector_bands"] = self.vector_banding.bands
            stats["vector_rows"] = self.vector_banding.rows
            stats["combine"] = session.settings.combine
        if "bucket_bytes" in counts:
            stats["bucket_bytes"] = counts["bucket_bytes"]
        return stats

    @property
    def search_stats(self) -> "SearchStats":
        """The statistics of the searches of this process since it opened the index."""
        return self._session.searcher.stats

    def metrics(self, recall: float | None = None) -> "QualityMetrics":
        """Returns the quality metrics of this process since it opened the index.

        Args:
            recall: Recall on labelled documents, if it was measured.
        """
        return self.search_stats.metrics(recall, self.memory_bytes(self.counts()))

    def hot_buckets(self, limit: int = 20) -> list[tuple[int, Entry]]:
        """Returns the largest buckets that searches read, largest first.

        Args:
            limit: Maximum number of buckets.

        Returns:
            The number of postings and the oldest document of each bucket.
        """
        searcher = self._session.searcher
        hot = searcher.stats.hot_buckets()[:limit]
        entries = searcher.store.by_refs([bucket.oldest for bucket in hot])
        return [
            (bucket.size, entry)
            for bucket, entry in zip(hot, entries, strict=True)
            if entry is not None
        ]
