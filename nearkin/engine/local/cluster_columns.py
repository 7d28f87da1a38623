"""The columns about clusters that the local engine adds to documents."""

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.cluster_columns import SOURCE_COUNTS, ClusterColumns
from nearkin.engine.local.clustering import Clustering
from nearkin.engine.local.run import LocalRun
from nearkin.engine.result_schema import NONE_LABEL


class LocalClusterColumns:
    """The columns about the clusters of a run, for ranges of its documents."""

    def __init__(self, run: LocalRun, clustering: Clustering, columns: ClusterColumns) -> None:
        self._run = run
        self._leader = np.asarray(clustering.leader)
        self._columns = columns

    @cached_property
    def _sizes(self) -> np.ndarray:
        """The number of documents of each leader's cluster, int64 (n,)."""
        return np.bincount(self._leader, minlength=len(self._leader))

    @cached_property
    def _source_counts(self) -> "SourceCounts":
        assert self._run.options.source is not None
        return SourceCounts(self._leader, self._run.documents().carried[self._run.options.source])

    def rows(self, start: int, end: int) -> pa.RecordBatch:
        """Returns the columns of a range of documents."""
        leaders = self._leader[start:end]
        sources = None
        if self._columns.sources:
            sources = self._source_counts.of_leaders(leaders)
        return self._columns.build(self._sizes[leaders], sources)


class SourceCounts:
    """The number of documents of each source in each cluster.

    Args:
        leader: Leader of each document, uint32 (n,).
        sources: Source of each document, large_string (n,). Null counts as NONE_LABEL.

    Examples:
        >>> sources = pa.chunked_array([["web", "book", None, "web"]], pa.large_string())
        >>> counts = SourceCounts(np.array([0, 0, 2, 0]), sources)
        >>> counts.of_leaders(np.array([0, 2])).to_pylist()
        [[('book', 1), ('web', 2)], [('(none)', 1)]]
    """

    def __init__(self, leader: np.ndarray, sources: pa.ChunkedArray) -> None:
        encoded = pc.fill_null(sources, NONE_LABEL).dictionary_encode().unify_dictionaries()
        names = pa.array([], sources.type)
        codes = np.empty(0, np.int64)
        if encoded.num_chunks:
            names = encoded.chunk(0).dictionary
            codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        order = pc.sort_indices(names).to_numpy()
        rank = np.empty(len(names), np.int64)
        rank[order] = np.arange(len(names))
        keys, self._counts = np.unique(
            leader.astype(np.int64) * max(len(names), 1) + rank[codes], return_counts=True
        )
        self._names = names.take(pa.array(order)).cast(pa.string())
        self._leaders, self._codes = np.divmod(keys, max(len(names), 1))

    def of_leaders(self, leaders: np.ndarray) -> pa.MapArray:
        """Returns the counts of the clusters of some leaders."""
        first = np.searchsorted(self._leaders, leaders, side="left")
        lengths = np.searchsorted(self._leaders, leaders, side="right") - first
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(first - offsets[:-1], lengths) + np.arange(offsets[-1])
        names = self._names.take(pa.array(self._codes[entries]))
        counts = pa.array(self._counts[entries], pa.int64())
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names, counts).cast(
            SOURCE_COUNTS
        )
