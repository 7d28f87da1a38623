"""The quality and cost metrics of runs and indexes, in one schema for all that report them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np

SCHEMA = "nearkin.metrics/1"
"""The name of the schema, which docs/reference/metrics.schema.json describes."""


@dataclass(frozen=True)
class QualityMetrics:
    """Metrics of a run or of an index. A metric that was not measured is None.

    Attributes:
        candidate_pairs_per_doc: Number of candidate pairs per document.
        bucket_size_p50: Median number of documents in a bucket, buckets of one included.
        bucket_size_p99: 99th percentile of the number of documents in a bucket.
        bucket_size_max: Number of documents in the largest bucket.
        verify_drop_rate: Share of the compared pairs that verification drops. An index also counts
            candidates that its estimate drops; runs count exact comparisons only.
        recall_on_labeled_set: Recall on the pairs that are known to be near-duplicates, either
            labelled or found by an audit.
        signature_build_latency_p50: Median time to sketch a document, in seconds: the time of its
            batch divided by the number of documents in the batch.
        signature_build_latency_p99: 99th percentile of the time to sketch a document, in seconds.
        index_memory_bytes: Size of the signatures and band keys in bytes.
        empty_bin_rate: Share of the bins of one-permutation MinHash that no shingle reached. It is
            high if documents are short.

    Examples:
        >>> QualityMetrics(empty_bin_rate=0.25).to_dict()["empty_bin_rate"]
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

    def values(self) -> dict[str, float | None]:
        """Returns the metrics by name."""
        return asdict(self)

    def to_dict(self) -> dict[str, object]:
        """Returns the metrics as a JSON object that names its schema."""
        return {"schema": SCHEMA, **self.values()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Restores metrics from what `to_dict` returned. Unknown metrics are ignored."""
        names = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})

    @classmethod
    def from_stages(
        cls, stages: Mapping[str, Mapping[str, Any]], recall: float | None = None
    ) -> "QualityMetrics":
        """Computes the metrics of a run from the statistics that its stages recorded."""
        sketch = stages.get("sketch", {})
        candidates = stages.get("candidates", {})
        verify = stages.get("verify", {})
        documents = sketch.get("documents", 0)
        latency_p50, latency_p99 = sketch.get("build_latency") or (None, None)
        sizes = candidates.get("bucket_sizes") or []
        compared = verify.get("compared")
        memory = None
        if "signature_bytes" in sketch:
            memory = sketch["signature_bytes"] + candidates.get("key_bytes", 0)
        return cls(
            candidate_pairs_per_doc=candidates["candidates"] / documents
            if candidates and documents
            else None,
            bucket_size_p50=weighted_percentile(sizes, 0.5),
            bucket_size_p99=weighted_percentile(sizes, 0.99),
            bucket_size_max=sizes[-1][0] if sizes else None,
            verify_drop_rate=1 - verify["passed"] / compared if compared else None,
            recall_on_labeled_set=recall,
            signature_build_latency_p50=latency_p50,
            signature_build_latency_p99=latency_p99,
            index_memory_bytes=memory,
            empty_bin_rate=sketch.get("empty_bin_rate"),
        )


def weighted_percentile(counts: Sequence[Sequence[int]], share: float) -> int | None:
    """Returns the smallest value that is at least as large as a share of the counted values.

    Args:
        counts: Pairs of a value and how often it occurs, in ascending order of the values.

    Examples:
        >>> counts = [(1, 98), (2, 1), (900, 1)]
        >>> weighted_percentile(counts, 0.5), weighted_percentile(counts, 0.99)
        (1, 2)
    """
    if not counts:
        return None
    values, times = np.array(counts, np.int64).T
    cumulative = np.cumsum(times)
    return int(values[np.searchsorted(cumulative, share * cumulative[-1])])
