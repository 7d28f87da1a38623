"""The columns that say how often a document occurs: sizes, sources and weights of clusters."""

import csv
import itertools
import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.clustering import Clustering
from nearkin.engine.result_schema import NONE_LABEL
from nearkin.engine.run import Run
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean

CLUSTER_SIZE = "cluster_size"
CLUSTER_SOURCES = "cluster_sources"
DOCUMENT_WEIGHT = "document_weight"
SOURCE_COUNTS = pa.map_(pa.string(), pa.int64())
"""The type of `cluster_sources`: the number of documents of each source, in the order of names."""


class WeightFunction(StrEnum):
    """The functions of the size of a cluster that are its total weight."""

    ONE = "one"
    SQRT = "sqrt"
    LOG = "log"


@dataclass(frozen=True)
class DocumentWeights:
    """The weight of a document, which follows from the size of its cluster.

    Each of the n documents of a cluster has the weight f(n) / n, so that the weights of a cluster
    add up to f(n).

    Attributes:
        function: The function f: `one` (1), `sqrt` (the square root of n) or `log` (1 + ln n). None
            if f is a table.
        sizes: Sizes of the table, ascending, from 1.
        totals: The value of f from each of these sizes up to the next one.

    Examples:
        >>> DocumentWeights.parse("sqrt").of_sizes(np.array([1, 4])).tolist()
        [1.0, 0.5]
    """

    function: WeightFunction | None
    sizes: tuple[int, ...] = ()
    totals: tuple[float, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "DocumentWeights | None":
        """Returns the weights that an option names, or None for `none`."""
        if text == "none":
            return None
        if text in list(WeightFunction):
            return cls(WeightFunction(text))
        path = Path(text)
        if not path.is_file():
            raise UsageError(
                f"{name_setting('document_weights', text)} is not one of none, "
                f"{', '.join(WeightFunction)}, and not a file; give one of them, or a CSV file "
                f"with the columns size and weight{did_you_mean(text, WeightFunction)}"
            )
        return cls._read_table(path)

    @classmethod
    def _read_table(cls, path: Path) -> "DocumentWeights":
        """Reads a table of weights."""
        advice = (
            "write a header size,weight, then a row for size 1 and further ascending sizes, with "
            "weights of 0 or more"
        )
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = list(csv.DictReader(file))
            sizes = tuple(int(row["size"]) for row in rows)
            totals = tuple(float(row["weight"]) for row in rows)
        except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path} is not a table of weights ({error}); {advice}") from error
        is_ascending = all(first < second for first, second in itertools.pairwise(sizes))
        is_valid = all(math.isfinite(total) and total >= 0 for total in totals)
        if not sizes or sizes[0] != 1 or not is_ascending or not is_valid:
            raise UsageError(f"{path} is not a table of weights; {advice}")
        return cls(None, sizes, totals)

    def of_sizes(self, sizes: np.ndarray) -> np.ndarray:
        """Returns the weight of each document, float64 (n,).

        Args:
            sizes: Size of each document's cluster, int64 (n,).
        """
        counts = np.asarray(sizes, np.float64)
        if self.function is WeightFunction.ONE:
            return 1.0 / counts
        if self.function is WeightFunction.SQRT:
            return np.sqrt(counts) / counts
        if self.function is WeightFunction.LOG:
            return (1.0 + np.log(counts)) / counts
        listed = np.searchsorted(np.array(self.sizes), sizes, side="right") - 1
        return np.asarray(np.array(self.totals)[listed] / counts)

    def to_record(self) -> str:
        """Returns the weights as run.json records them: a name, or the sizes and totals."""
        if self.function is not None:
            return str(self.function)
        rows = zip(self.sizes, self.totals, strict=True)
        return ",".join(f"{size}:{total:g}" for size, total in rows)


@dataclass(frozen=True)
class ClusterColumns:
    """The columns about clusters that are added to documents.

    Attributes:
        sizes: Whether `cluster_size` is added.
        sources: Whether `cluster_sources` is added.
        weights: Weights of `document_weight`, or None if it is not added.
    """

    sizes: bool = False
    sources: bool = False
    weights: DocumentWeights | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns, in their order."""
        is_added = {
            CLUSTER_SIZE: self.sizes,
            CLUSTER_SOURCES: self.sources,
            DOCUMENT_WEIGHT: self.weights is not None,
        }
        return [name for name, added in is_added.items() if added]

    def build(self, sizes: np.ndarray, sources: pa.MapArray | None) -> pa.RecordBatch:
        """Returns the columns of some documents.

        Args:
            sizes: Size of each document's cluster, int64 (n,).
        """
        columns: dict[str, pa.Array] = {}
        if self.sizes:
            columns[CLUSTER_SIZE] = pa.array(sizes, pa.int64())
        if self.sources and sources is not None:
            columns[CLUSTER_SOURCES] = sources
        if self.weights is not None:
            columns[DOCUMENT_WEIGHT] = pa.array(self.weights.of_sizes(sizes))
        return pa.record_batch(list(columns.values()), list(columns))


class LocalClusterColumns:
    """The columns about the clusters of a run, for ranges of its documents."""

    def __init__(self, run: Run, clustering: Clustering, columns: ClusterColumns) -> None:
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
