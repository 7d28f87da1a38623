"""Gauges that describe the index of a server.

Their values come from the store, which is read at most once a second.
"""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial

from nearkin.errors import NearkinError
from nearkin.index.index import Index
from nearkin.service.server.telemetry import Instruments

log = logging.getLogger("nearkin.server")

FLEET_METRICS = {
    "candidate_pairs_per_doc": "Mean number of candidates of a searched document in the last ten "
    "minutes (mean of nearkin_candidates).",
    "bucket_size_p99": "99th percentile of the postings in the buckets that searches of the last "
    "ten minutes read. Probes are left out.",
    "verify_drop_rate": "Share of the candidates of the last ten minutes that were dropped, by the "
    "estimate or by the exact comparison.",
    "exact_drop_rate": "Share of the exact comparisons of the last ten minutes that did not reach "
    "the threshold. It rises if estimates are biased high.",
    "empty_bin_rate": "Share of one-permutation bins that no shingle reached, in documents of the "
    "last ten minutes. It rises if documents become shorter.",
    "signature_build_latency_p99": "99th percentile of the time to sketch a document in the last "
    "ten minutes, in seconds.",
    "index_memory_bytes": (
        "Memory of the index, in bytes: the resolution cache of this process, and the documents "
        "(memory://), the buckets in memory (SQLite) or the used memory of the server (Redis)."
    ),
    "recall_on_labeled_set": "Share of the golden pairs that were found. Only with --golden.",
}
"""Descriptions of the metrics that fleet monitoring uses, by name without the prefix."""

COUNT_METRICS = {
    "store_bytes": "Size of the index as its store counts it, in bytes: memory (memory://), the "
    "file (SQLite), used memory (Redis), or the tables (PostgreSQL).",
    "records": "Number of documents in the index.",
    "leaders": "Number of clusters in the index.",
    "postings": "Number of postings in the index.",
    "evicted": "Number of postings beyond the capacity of their buckets, which are not read.",
}
"""Descriptions of the store's counts, by name without the prefix."""

REFRESH_SECONDS = 1.0
"""Seconds for which the values of a store are reused, so that a scrape reads it once."""


class IndexGauges:
    """The gauges of an index. They have no values while the store fails."""

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
        self._values = dict[str, float | None]()

    def register(self) -> None:
        """Registers a gauge for each metric."""
        for name, description in (FLEET_METRICS | COUNT_METRICS).items():
            self._instruments.register_gauge(
                f"nearkin_{name}", description, partial(self._read, name)
            )

    def _read(self, name: str) -> float | None:
        self._refresh_if_due()
        return self._values.get(name)

    def _refresh_if_due(self) -> None:
        if time.monotonic() - self._read_at < REFRESH_SECONDS:
            return
        self._read_at = time.monotonic()
        try:
            index = self._index()
            counts = index.counts()
            metrics = fleet_metrics(index, counts, self._recall())
            self._values = {**counts, "store_bytes": counts["bytes"], **metrics}
        except NearkinError as error:
            # old counts must not be reported as current ones
            self._values = {}
            self._instruments.record_store_error("metrics")
            log.warning(
                "cannot read the counts of the index", extra={"error": type(error).__name__}
            )


def fleet_metrics(
    index: Index, counts: Mapping[str, int], recall: float | None
) -> dict[str, float | None]:
    """Returns the metrics of `FLEET_METRICS` by name. Metrics without a value are None."""
    recent = index.search_stats.recent_counts()
    metrics = recent.metrics(recall, index.memory_bytes(counts)).values()
    return {**metrics, "exact_drop_rate": recent.exact_drop_rate}
