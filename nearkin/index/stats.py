"""The statistics of the searches of an index: quality metrics and the largest buckets."""

import math
from threading import Lock
from typing import NamedTuple

import numpy as np

from nearkin.index.entry import REF_SHIFT, Postings
from nearkin.runtime.metrics import QualityMetrics, weighted_percentile
from nearkin.sketch.minhash import EMPTY_SLOT, fill_shares

HOT_BUCKET_SIZE = 32
"""The number of postings from which a bucket is remembered."""
MAX_HOT_BUCKETS = 64
"""The number of buckets that are remembered."""
SLOT_SAMPLING = 16
"""One of this many single documents has its slots counted."""
LATENCY_STEPS = 48
"""The number of latency classes, which are powers of 2^(1/2) microseconds, up to 12 s."""


class FullestBucket(NamedTuple):
    """A large bucket."""

    size: int
    """The number of postings when the bucket was last read."""
    oldest: int
    """The number of its oldest document."""


class SearchStats:
    """The counts of searches since the index was opened. Safe for threads.

    Args:
        bucket_capacity: Maximum number of postings of a bucket.

    Examples:
        >>> stats = SearchStats(bucket_capacity=100)
        >>> slots = np.zeros((2, 4), np.uint32)
        >>> stats.record_batch(documents=2, candidates=6, slots=slots, seconds=0.001)
        >>> stats.metrics().candidate_pairs_per_doc
        3.0
    """

    def __init__(self, bucket_capacity: int) -> None:
        self._lock = Lock()
        self._bucket_sizes = np.zeros(bucket_capacity + 2, np.int64)
        self._latencies = np.zeros(LATENCY_STEPS, np.int64)
        self._hot: dict[int, FullestBucket] = {}
        self.documents = 0
        """The number of documents that were searched for."""
        self.candidates = 0
        """The number of stored documents that they were compared with."""
        self.compared = 0
        """The number of exact comparisons."""
        self.reached = 0
        """The number of exact comparisons that reached the threshold."""
        self._slots = 0
        self._later_slots = 0

    def record_buckets(self, keys: np.ndarray, postings: Postings, sizes: np.ndarray) -> None:
        """Records the buckets that a search read.

        Args:
            keys: Keys of the buckets, uint64 (m,).
            postings: Contents of the buckets.
            sizes: Numbers of postings of the buckets, int64 (m,).
        """
        if not len(postings.words):
            return
        counts = np.bincount(np.minimum(sizes[sizes > 0], len(self._bucket_sizes) - 1))
        hot = np.flatnonzero(sizes >= HOT_BUCKET_SIZE)
        with self._lock:
            self._bucket_sizes[: len(counts)] += counts
            for i in hot.tolist():
                oldest = int(postings.words[postings.offsets[i]]) >> REF_SHIFT
                self._hot[int(keys[i])] = FullestBucket(int(sizes[i]), oldest)
            if len(self._hot) > 4 * MAX_HOT_BUCKETS:
                self._hot = dict(self._largest())

    def record_batch(
        self, *, documents: int, candidates: int, slots: np.ndarray, seconds: float
    ) -> None:
        """Records the search of a batch.

        Args:
            documents: Number of documents of the batch.
            candidates: Number of stored documents that they were compared with.
            slots: Signatures of the batch if they have binned slots, uint32 (n, k); otherwise an
                array of shape (0, k).
            seconds: Duration of sketching, in seconds.
        """
        microseconds = seconds / max(documents, 1) * 1e6
        step = min(int(2 * math.log2(max(microseconds, 1.0))), LATENCY_STEPS - 1)
        filled = 0
        later = 0
        if len(slots) >= SLOT_SAMPLING or self.documents % SLOT_SAMPLING == 0:
            filled = int(np.count_nonzero(slots[:, 0] != EMPTY_SLOT)) * slots.shape[1]
            later = round(fill_shares(slots).later_round * filled)
        with self._lock:
            self.documents += documents
            self.candidates += candidates
            self._latencies[step] += documents
            self._slots += filled
            self._later_slots += later

    def record_comparisons(self, compared: int, reached: int) -> None:
        """Records exact comparisons.

        Args:
            compared: Number of comparisons.
            reached: Number of those that reached the threshold.
        """
        with self._lock:
            self.compared += compared
            self.reached += reached

    def hot_buckets(self) -> list[FullestBucket]:
        """Returns the largest buckets that searches read, largest first."""
        with self._lock:
            return [bucket for _, bucket in self._largest()]

    def _largest(self) -> list[tuple[int, FullestBucket]]:
        by_size = sorted(self._hot.items(), key=lambda item: (-item[1].size, item[0]))
        return by_size[:MAX_HOT_BUCKETS]

    def metrics(self, recall: float | None = None, memory: int | None = None) -> QualityMetrics:
        """Returns the metrics of docs/reference/metrics.schema.json.

        Args:
            recall: Recall on labelled documents, if it was measured.
            memory: Memory of the index in bytes, if it is known.
        """
        with self._lock:
            sizes = [(size, int(count)) for size, count in enumerate(self._bucket_sizes) if count]
            latencies = [(step, int(count)) for step, count in enumerate(self._latencies) if count]
            documents = self.documents
            candidates = self.candidates
            compared = self.compared
            reached = self.reached
            later_slots = self._later_slots
            slots = self._slots
        return QualityMetrics(
            candidate_pairs_per_doc=candidates / documents if documents else None,
            bucket_size_p50=weighted_percentile(sizes, 0.5),
            bucket_size_p99=weighted_percentile(sizes, 0.99),
            bucket_size_max=sizes[-1][0] if sizes else None,
            verify_drop_rate=1 - reached / compared if compared else None,
            recall_on_labeled_set=recall,
            signature_build_latency_p50=_seconds_of_step(weighted_percentile(latencies, 0.5)),
            signature_build_latency_p99=_seconds_of_step(weighted_percentile(latencies, 0.99)),
            index_memory_bytes=memory,
            empty_bin_rate=later_slots / slots if slots else None,
        )


def _seconds_of_step(step: int | None) -> float | None:
    """Returns the upper bound of a latency class in seconds."""
    return None if step is None else float(2 ** ((step + 1) / 2)) / 1e6
