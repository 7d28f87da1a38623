"""What the searches of an index saw: the figures that a fleet is watched by, and the buckets that cost most."""

import math
from threading import Lock
from typing import NamedTuple

import numpy as np

from nearkin.index.entry import REF_SHIFT, Postings
from nearkin.runtime.metrics import QualityMetrics, weighted_percentile
from nearkin.sketch.minhash import EMPTY_SLOT, fill_shares

HOT = 32
"""Postings from which a bucket is worth remembering."""
REMEMBERED = 64
SAMPLED = 16
"""Of single documents, one in so many has its slots looked at."""
LATENCIES = 48
"""Powers of 2^(1/2) microseconds: up to 12 s in steps of 41 %."""


class HotBucket(NamedTuple):
    """A large bucket.

    Attributes:
        size: Its postings when it was last looked into.
        oldest: Number of its oldest document.
    """

    size: int
    oldest: int


class Observed:
    """Counts since the index was opened; safe for threads.

    Examples:
        >>> seen = Observed(bucket_capacity=100)
        >>> seen.searched(2, 6, np.zeros((2, 4), np.uint32), 0.001)
        >>> seen.metrics().candidate_pairs_per_doc
        3.0
    """

    def __init__(self, bucket_capacity: int) -> None:
        self._lock = Lock()
        self._sizes = np.zeros(bucket_capacity + 2, np.int64)
        self._latencies = np.zeros(LATENCIES, np.int64)
        self._hot: dict[int, HotBucket] = {}
        self.documents = self.candidates = self.compared = self.reached = 0
        self._slots = self._later = 0

    def looked(self, keys: np.ndarray, found: Postings, sizes: np.ndarray) -> None:
        """Buckets that a search looked into, with their sizes, int64 (m,)."""
        if not len(found.words):
            return
        there = np.bincount(np.minimum(sizes[sizes > 0], len(self._sizes) - 1))
        hot = np.flatnonzero(sizes >= HOT)
        with self._lock:
            self._sizes[: len(there)] += there
            for at in hot.tolist():
                self._hot[int(keys[at])] = HotBucket(int(sizes[at]), int(found.words[found.offsets[at]]) >> REF_SHIFT)
            if len(self._hot) > 4 * REMEMBERED:
                self._hot = dict(self._hottest())

    def searched(self, documents: int, candidates: int, slots: np.ndarray, seconds: float) -> None:
        """A batch.

        Args:
            documents: Of it.
            candidates: Documents that they were compared with.
            slots: Their signatures where slots are binned, uint32 (n, k); else none of them, (0, k).
            seconds: That sketching took.
        """
        each = seconds / max(documents, 1) * 1e6
        step = min(int(2 * math.log2(max(each, 1.0))), LATENCIES - 1)
        filled = later = 0
        if len(slots) >= SAMPLED or self.documents % SAMPLED == 0:
            filled = int(np.count_nonzero(slots[:, 0] != EMPTY_SLOT)) * slots.shape[1]
            later = round(fill_shares(slots).later_round * filled)
        with self._lock:
            self.documents += documents
            self.candidates += candidates
            self._latencies[step] += documents
            self._slots += filled
            self._later += later

    def verified(self, compared: int, reached: int) -> None:
        """Exact comparisons, and how many of them reached the threshold."""
        with self._lock:
            self.compared += compared
            self.reached += reached

    def hottest(self) -> list[HotBucket]:
        """The largest buckets that searches looked into, largest first."""
        with self._lock:
            return [bucket for _, bucket in self._hottest()]

    def _hottest(self) -> list[tuple[int, HotBucket]]:
        return sorted(self._hot.items(), key=lambda item: (-item[1].size, item[0]))[:REMEMBERED]

    def metrics(self, recall: float | None = None, memory: int | None = None) -> QualityMetrics:
        """The figures of docs/reference/metrics.schema.json, of what was seen."""
        with self._lock:
            sizes = [(size, int(count)) for size, count in enumerate(self._sizes) if count]
            waits = [(step, int(count)) for step, count in enumerate(self._latencies) if count]
            documents, candidates, compared, reached = self.documents, self.candidates, self.compared, self.reached
            later, slots = self._later, self._slots
        halves = [weighted_percentile(waits, share) for share in (0.5, 0.99)]
        latency = [None if step is None else float(2 ** ((step + 1) / 2)) / 1e6 for step in halves]
        return QualityMetrics(
            candidates / documents if documents else None,
            weighted_percentile(sizes, 0.5),
            weighted_percentile(sizes, 0.99),
            sizes[-1][0] if sizes else None,
            1 - reached / compared if compared else None,
            recall,
            latency[0],
            latency[1],
            memory,
            later / slots if slots else None,
        )
