"""Gauges that describe the index of a server.

Their values come from the store, which is read at most once a second.
"""

import logging
import time
from collections.abc import Callable
from functools import partial

from nearkin.errors import NearkinError
from nearkin.index.index import Index
from nearkin.server.telemetry import Instruments

log = logging.getLogger("nearkin.server")

FLEET_METRICS = {
    "candidate_pairs_per_doc": "Mean number of candidates of a searched document (mean of "
    "nearkin_candidates).",
    "bucket_size_p99": "99th percentile of the postings in the buckets that searches read. It "
    "never exceeds bucket_capacity.",
    "verify_drop_rate": "Share of the candidate pairs that passed the estimate but not the exact "
    "comparison.",
    "empty_bin_rate": "Share of one-permutation bins that no shingle reached. It rises if "
    "documents become shorter.",
    "signature_build_latency_p99": "99th percentile of the time to sketch a document, in seconds.",
    "index_memory_bytes": (
        "Size of the index as its store counts it, in bytes: memory (memory://), the file without "
        "the buckets in memory "
        "(SQLite), used memory (Redis), or the tables (PostgreSQL)."
    ),
    "recall_on_labeled_set": "Share of the golden pairs that were found. Only with --golden.",
}
"""Descriptions of the metrics that fleet monitoring uses, by name without the prefix."""

COUNT_METRICS = {
    "records": "Number of documents in the index.",
    "leaders": "Number of clusters in the index.",
    "postings": "Number of postings in the index.",
    "evicted": "Number of postings that were removed from full buckets.",
}
"""Descriptions of the store's counts, by name without the prefix."""

REFRESH_SECONDS = 1.0
"""Seconds for which the values of a store are reused, so that a scrape reads it once."""


class IndexGauges:
    """The gauges of an index. They have no values while the store fails.

    Args:
        index: Returns the index that answers requests.
        recall: Returns the recall of the golden pairs, or None if it was not measured.
        instruments: Receives the gauges, and counts errors of the store.
    """

    def __init__(
        self,
        index: Callable[[], Index],
        recall: Callable[[], float | None],
        instruments: Instruments,
    ) -> None:
        self._index = index
        self._recall = recall
        self._instruments = instruments
        self._read_at = 0.0
        self._counts = dict[str, int]()
        self._metrics = dict[str, float | None]()

    def register(self) -> None:
        """Registers all gauges."""
        for name, description in FLEET_METRICS.items():
            self._instruments.register_gauge(
                f"nearkin_{name}", description, partial(self._metric, name)
            )
        for name, description in COUNT_METRICS.items():
            self._instruments.register_gauge(
                f"nearkin_{name}", description, partial(self._count, name)
            )

    def _metric(self, name: str) -> float | None:
        self._refresh()
        return self._metrics.get(name)

    def _count(self, name: str) -> float | None:
        self._refresh()
        return self._counts.get(name)

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < REFRESH_SECONDS:
            return
        self._read_at = time.monotonic()
        try:
            index = self._index()
            self._counts = index.counts()
            self._metrics = index.search_stats.metrics(
                self._recall(), self._counts.get("bytes")
            ).values()
        except NearkinError as error:
            # old counts must not be reported as current ones
            self._counts = {}
            self._metrics = {}
            self._instruments.record_store_error("metrics")
            log.warning(
                "cannot read the counts of the index", extra={"error": type(error).__name__}
            )
