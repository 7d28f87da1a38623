"""The statistics of the searches of an index: quality metrics and the largest buckets."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np

from nearkin.index.entry import REF_SHIFT, Postings
from nearkin.runtime.metrics import QualityMetrics, weighted_percentile
from nearkin.runtime.sliding_window import SlidingWindow
from nearkin.stages.sketch.minhash import EMPTY_SLOT, fill_shares

HOT_BUCKET_SIZE = 32
"""The number of postings from which a bucket is remembered."""
MAX_HOT_BUCKETS = 64
"""The number of buckets that are remembered."""
SLOT_SAMPLING = 16
"""One of this many single documents has its slots counted."""
LATENCY_STEPS = 48
"""The number of latency classes, which are powers of 2^(1/2) microseconds, up to 12 s."""

_UNCOUNTED: ContextVar[bool] = ContextVar("uncounted", default=False)


@contextmanager
def uncounted_searches() -> Iterator[None]:
    """Leaves the searches of the current thread out of all statistics until the context ends.

    Probes use it, because the statistics describe the searches of callers.
    """
    token = _UNCOUNTED.set(True)
    try:
        yield
    finally:
        _UNCOUNTED.reset(token)


class FullestBucket(NamedTuple):
    """A large bucket."""

    size: int
    """The number of postings when the bucket was last read."""
    oldest: int
    """The number of its oldest document."""


@dataclass
class SearchCounts:
    """The counts of some searches.

    Attributes:
        documents: Number of documents that were searched for.
        candidates: Number of stored documents that they were compared with.
        estimated: Number of similarities that were estimated, those of queries included.
        compared: Number of exact comparisons: estimates that passed.
        reached: Number of exact comparisons that reached the threshold.
        ties: Number of documents of which some candidates were left out that agreed as much as
            compared ones.
        slots: Number of slots that were inspected.
        later_slots: Number of those that the last round filled.
        bucket_sizes: How many buckets of each size were read.
        latencies: How many documents were sketched in the time of each latency class.
    """

    documents: int = 0
    candidates: int = 0
    estimated: int = 0
    compared: int = 0
    reached: int = 0
    ties: int = 0
    slots: int = 0
    later_slots: int = 0
    bucket_sizes: dict[int, int] = field(default_factory=dict)
    latencies: dict[int, int] = field(default_factory=dict)

    def add(self, other: "SearchCounts") -> None:
        """Adds the counts of other searches."""
        self.documents += other.documents
        self.candidates += other.candidates
        self.estimated += other.estimated
        self.compared += other.compared
        self.reached += other.reached
        self.ties += other.ties
        self.slots += other.slots
        self.later_slots += other.later_slots
        _add_counts(self.bucket_sizes, other.bucket_sizes)
        _add_counts(self.latencies, other.latencies)

    @property
    def exact_drop_rate(self) -> float | None:
        """The share of the exact comparisons that did not reach the threshold, if there are any."""
        return 1 - self.reached / self.compared if self.compared else None

    def metrics(self, recall: float | None = None, memory: int | None = None) -> QualityMetrics:
        """Returns the metrics of docs/reference/metrics.schema.json.

        Args:
            memory: Memory of the index in bytes, if it is known.
        """
        sizes = sorted(self.bucket_sizes.items())
        latencies = sorted(self.latencies.items())
        return QualityMetrics(
            candidate_pairs_per_doc=self.candidates / self.documents if self.documents else None,
            bucket_size_p50=weighted_percentile(sizes, 0.5),
            bucket_size_p99=weighted_percentile(sizes, 0.99),
            bucket_size_max=sizes[-1][0] if sizes else None,
            verify_drop_rate=1 - self.reached / self.estimated if self.estimated else None,
            recall_on_labeled_set=recall,
            signature_build_latency_p50=_seconds_of_step(weighted_percentile(latencies, 0.5)),
            signature_build_latency_p99=_seconds_of_step(weighted_percentile(latencies, 0.99)),
            index_memory_bytes=memory,
            empty_bin_rate=self.later_slots / self.slots if self.slots else None,
        )


class SearchStats:
    """The counts of searches since the index was opened, and of the last ten minutes.

    Safe for threads. Searches within `uncounted_searches` are not counted.

    Args:
        clock: Returns the time in seconds.

    Examples:
        >>> stats = SearchStats()
        >>> slots = np.zeros((2, 4), np.uint32)
        >>> stats.record_batch(documents=2, candidates=6, slots=slots, seconds=0.001)
        >>> stats.metrics().candidate_pairs_per_doc
        3.0
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        on_comparisons: Callable[[int], None] | None = None,
    ) -> None:
        self._on_comparisons = on_comparisons
        self._lock = Lock()
        self._total = SearchCounts()
        self._recent = SlidingWindow(SearchCounts, clock)
        self._hot: dict[int, FullestBucket] = {}

    @property
    def documents(self) -> int:
        """The number of documents that were searched for since the index was opened."""
        return self._total.documents

    @property
    def compared(self) -> int:
        """The number of exact comparisons since the index was opened."""
        return self._total.compared

    @property
    def ties(self) -> int:
        """The number of documents of which candidates were left out among equal ones."""
        return self._total.ties

    def record_buckets(self, keys: np.ndarray, postings: Postings, sizes: np.ndarray) -> None:
        """Records the buckets that a search read.

        Args:
            keys: Keys of the buckets, uint64 (m,).
            sizes: Numbers of postings of the buckets, int64 (m,).
        """
        if _UNCOUNTED.get() or not len(postings.words):
            return
        # a plain dictionary is filled several times as fast as a Counter of few values
        counts: dict[int, int] = {}
        for size in sizes[sizes > 0].tolist():
            counts[size] = counts.get(size, 0) + 1
        hot = np.flatnonzero(sizes >= HOT_BUCKET_SIZE)
        with self._lock:
            for part in self._current_counts():
                _add_counts(part.bucket_sizes, counts)
            for i in hot.tolist():
                oldest = int(postings.words[postings.offsets[i]]) >> REF_SHIFT
                self._hot[int(keys[i])] = FullestBucket(int(sizes[i]), oldest)
            if len(self._hot) > 4 * MAX_HOT_BUCKETS:
                self._hot = dict(self._sort_buckets())

    def record_batch(
        self, *, documents: int, candidates: int, slots: np.ndarray, seconds: float
    ) -> None:
        """Records the search of a batch.

        Args:
            slots: Signatures of the batch if they have binned slots, uint32 (n, k); otherwise an
                array of shape (0, k).
            seconds: Duration of sketching, in seconds.
        """
        if _UNCOUNTED.get():
            return
        microseconds = seconds / max(documents, 1) * 1e6
        step = min(int(2 * math.log2(max(microseconds, 1.0))), LATENCY_STEPS - 1)
        filled = 0
        later = 0
        if len(slots) >= SLOT_SAMPLING or self.documents % SLOT_SAMPLING == 0:
            filled = int(np.count_nonzero(slots[:, 0] != EMPTY_SLOT)) * slots.shape[1]
            later = round(fill_shares(slots).later_round * filled)
        with self._lock:
            for counts in self._current_counts():
                counts.documents += documents
                counts.candidates += candidates
                counts.latencies[step] = counts.latencies.get(step, 0) + documents
                if filled:
                    counts.slots += filled
                    counts.later_slots += later

    def record_comparisons(self, *, estimated: int, compared: int, reached: int) -> None:
        """Records the comparisons of a document with its candidates."""
        if _UNCOUNTED.get():
            return
        with self._lock:
            for counts in self._current_counts():
                counts.estimated += estimated
                counts.compared += compared
                counts.reached += reached
        if self._on_comparisons is not None:
            self._on_comparisons(compared)

    def record_ties(self, documents: int) -> None:
        """Records documents of which candidates were left out among equal ones."""
        if not documents or _UNCOUNTED.get():
            return
        with self._lock:
            for counts in self._current_counts():
                counts.ties += documents

    def _current_counts(self) -> tuple[SearchCounts, SearchCounts]:
        """Returns the counts to which a search is added, under the lock."""
        return self._total, self._recent.current()

    def hot_buckets(self) -> list[FullestBucket]:
        """Returns the largest buckets that searches read, largest first."""
        with self._lock:
            return [bucket for _, bucket in self._sort_buckets()]

    def _sort_buckets(self) -> list[tuple[int, FullestBucket]]:
        by_size = sorted(self._hot.items(), key=lambda item: (-item[1].size, item[0]))
        return by_size[:MAX_HOT_BUCKETS]

    def metrics(self, recall: float | None = None, memory: int | None = None) -> QualityMetrics:
        """Returns the metrics of all searches since the index was opened.

        Args:
            memory: Memory of the index in bytes, if it is known.
        """
        with self._lock:
            return _sum_counts([self._total]).metrics(recall, memory)

    def recent_counts(self) -> SearchCounts:
        """Returns the counts of the searches of the last ten minutes."""
        with self._lock:
            return _sum_counts(self._recent.slices())


def _add_counts(counts: dict[int, int], added: Mapping[int, int]) -> None:
    for value, times in added.items():
        counts[value] = counts.get(value, 0) + times


def _sum_counts(parts: Iterable[SearchCounts]) -> SearchCounts:
    total = SearchCounts()
    for part in parts:
        total.add(part)
    return total


def _seconds_of_step(step: int | None) -> float | None:
    """Returns the upper bound of a latency class in seconds."""
    return None if step is None else float(2 ** ((step + 1) / 2)) / 1e6
