"""What a fleet of runs and indexes is watched by: one schema, whoever measures (a run, an audit, a service)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

SCHEMA = "nearkin.metrics/1"
"""Of `FleetMetrics.to_dict`; docs/reference/metrics.schema.json describes it."""


@dataclass(frozen=True)
class FleetMetrics:
    """None where nothing was measured.

    Attributes:
        candidate_pairs_per_doc: Pairs scored by estimate, per document.
        bucket_size_p50: Median documents in a bucket, single ones included.
        bucket_size_p99: 99th percentile of it.
        bucket_size_max: Documents in the largest bucket.
        verify_drop_rate: Share of the pairs that passed the estimate but not the exact comparison.
        recall_on_labeled_set: Of the pairs known to be near-duplicates: labelled ones, or those that an audit found.
        signature_build_latency_p50: Median seconds to sketch a document (of its batch, divided by the batch's documents).
        signature_build_latency_p99: 99th percentile of it.
        index_memory_bytes: Of signatures and band keys.
        empty_bin_rate: Share of one-permutation bins that an element of the document did not reach: short documents.

    Examples:
        >>> FleetMetrics(empty_bin_rate=0.25).to_dict()["empty_bin_rate"]
        0.25
    """

    candidate_pairs_per_doc: float | None = None
    bucket_size_p50: int | None = None
    bucket_size_p99: int | None = None
    bucket_size_max: int | None = None
    verify_drop_rate: float | None = None
    recall_on_labeled_set: float | None = None
    signature_build_latency_p50: float | None = None
    signature_build_latency_p99: float | None = None
    index_memory_bytes: int | None = None
    empty_bin_rate: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, with the schema's name."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def of_stages(cls, stages: Mapping[str, Mapping[str, Any]], recall: float | None = None) -> "FleetMetrics":
        """From what the stages of a local run recorded."""
        sketch, candidates, verify = (stages.get(name, {}) for name in ("sketch", "candidates", "verify"))
        documents, (median, tail) = sketch.get("documents", 0), sketch.get("build_latency") or (None, None)
        sizes = candidates.get("bucket_sizes") or []
        p50, p99 = (percentile(sizes, share) for share in (0.5, 0.99))
        compared = verify.get("compared")
        return cls(
            candidates["candidates"] / documents if candidates and documents else None,
            p50,
            p99,
            sizes[-1][0] if sizes else None,
            1 - verify["passed"] / compared if compared else None,
            recall,
            median,
            tail,
            sketch["signature_bytes"] + candidates.get("key_bytes", 0) if "signature_bytes" in sketch else None,
            sketch.get("empty_bin_rate"),
        )


def percentile(counts: Sequence[Sequence[int]], share: float) -> int | None:
    """The smallest value that at least a share of the counted ones do not exceed; None of none.

    Args:
        counts: (value, how often), ascending.
        share: From 0 to 1.

    Examples:
        >>> percentile([(1, 98), (2, 1), (900, 1)], 0.5), percentile([(1, 98), (2, 1), (900, 1)], 0.99)
        (1, 2)
    """
    if not counts:
        return None
    values, times = np.array(counts, np.int64).T
    reached = np.cumsum(times)
    return int(values[np.searchsorted(reached, share * reached[-1])])
