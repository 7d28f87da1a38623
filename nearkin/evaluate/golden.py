"""Scores a result against golden pairs or golden clusters, whose labels are known.

The scores are pairwise precision and recall and, if the true clusters are known, the adjusted Rand
index (Hubert, Arabie, *Comparing partitions*, 1985) and B-cubed (Bagga, Baldwin, *Entity-based
cross-document coreferencing using the vector space model*, 1998). Intervals of proportions are
Wilson's (1927). The other intervals come from a percentile bootstrap over labelled clusters.

Labelled pairs are judged as pairs: a pair without a label counts neither for nor against a result.
Only with the option `closure`, duplicates of duplicates count as duplicates.
"""

import csv
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from nearkin.argument_types import check_arguments
from nearkin.cluster import kernels
from nearkin.errors import UsageError
from nearkin.evaluate.audit import Proportion, require_seed
from nearkin.setting_names import name_flag
from nearkin.suggestions import did_you_mean

ScoreFunction: TypeAlias = Callable[[np.ndarray, np.ndarray], float]
"""A score of a partition against the true one: a function of the true and the predicted
clusters."""
RESAMPLES = 200
"""The number of resamples of the bootstrap."""
TAIL = 0.025
"""The share of resamples beyond each end of an interval."""
POSITIVE_LABELS = ("1", "true", "yes", "duplicate")
NEGATIVE_LABELS = ("0", "false", "no", "distinct")
_CSV_OPTIONS = pa.csv.ConvertOptions(
    column_types={name: pa.string() for name in ("id", "cluster", "id_a", "id_b", "label")},
    strings_can_be_null=False,
)


@dataclass(frozen=True)
class GoldenSet:
    """Documents of which it is known which ones are duplicates.

    Attributes:
        ids: Ids of the labelled documents in ascending order.
        clusters: Number of the true cluster of each document, int64 (n,). None if only pairs are
            known.
        duplicates: Pairs of positions in `ids` that are labelled as duplicates, int64 (p, 2). None
            if the clusters are known.
        distinct: Pairs of positions in `ids` that are labelled as distinct, int64 (m, 2). None if
            all documents of different clusters are known to be distinct.
        is_closed: True if the clusters are the transitive closure of labelled pairs.
    """

    ids: tuple[str, ...]
    clusters: np.ndarray | None
    duplicates: np.ndarray | None
    distinct: np.ndarray | None
    is_closed: bool = False

    @property
    def measures_precision(self) -> bool:
        """True if pairs of distinct documents are known, without which nothing is imprecise."""
        return self.distinct is None or len(self.distinct) > 0


@dataclass(frozen=True)
class IntervalEstimate:
    """A score and its 95 % interval.

    Attributes:
        value: The score.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """The scores of a result against a golden set.

    Attributes:
        documents: Number of labelled documents.
        duplicates: Number of pairs that are labelled as duplicates.
        distinct: Number of pairs that are labelled as distinct.
        unlabelled: Number of pairs of labelled documents that are in one predicted cluster and have
            no label. They count neither for nor against the result.
        is_closed: True if duplicates of duplicates count as duplicates.
        precision: Share of the labelled pairs in one predicted cluster that are duplicates. None if
            no pair is labelled as distinct.
        recall: Share of the pairs of duplicates that are in one predicted cluster.
        f1: Harmonic mean of precision and recall. None without precision.
        rand: Adjusted Rand index. None if the true clusters are not known.
        bcubed_precision: Mean over documents of the share of their predicted cluster that belongs
            to their true cluster. None if the true clusters are not known.
        bcubed_recall: Mean over documents of the share of their true cluster that is in their
            predicted cluster. None if the true clusters are not known.
    """

    documents: int
    duplicates: int
    distinct: int
    unlabelled: int
    is_closed: bool
    precision: Proportion | None
    recall: Proportion
    f1: float | None
    rand: IntervalEstimate | None = None
    bcubed_precision: IntervalEstimate | None = None
    bcubed_recall: IntervalEstimate | None = None

    def to_dict(self) -> dict[str, object]:
        """Returns the scores as a JSON object."""
        return asdict(self)


@check_arguments
def read_golden_set(path: Path, *, closure: bool = False) -> GoldenSet:
    """Reads a golden set from a CSV or Parquet file.

    The file has the columns `id_a`, `id_b` and optionally `label`, or the columns `id` and
    `cluster`.

    Args:
        path: File to read.
        closure: If True, labelled pairs are closed transitively (see `golden_set_from_pairs`).

    Raises:
        UsageError: If the file does not exist, cannot be read, has other columns, or contains an
            unknown label, contradictory labels or a pair of a document with itself.
    """
    try:
        if path.suffix in (".parquet", ".pq"):
            table = pq.read_table(path)
        else:
            table = pa.csv.read_csv(path, convert_options=_CSV_OPTIONS)
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (OSError, pa.ArrowException, csv.Error) as error:
        reason = " ".join(str(error).split())[:120]
        raise UsageError(f"{path} is neither CSV nor parquet ({reason})") from error
    names = set(table.column_names)
    if {"id", "cluster"} <= names:
        clusters = zip(_read_texts(table, "id"), _read_texts(table, "cluster"), strict=True)
        return golden_set_from_clusters(dict(clusters))
    if {"id_a", "id_b"} <= names:
        pairs = list(zip(_read_texts(table, "id_a"), _read_texts(table, "id_b"), strict=True))
        labels = None
        if "label" in names:
            labels = [_parse_label(text, path) for text in _read_texts(table, "label")]
        else:
            _refuse_unnamed_labels(table, path)
        return golden_set_from_pairs(pairs, labels, closure=closure)
    raise UsageError(
        f"{path} has the columns {', '.join(table.column_names)}; a golden set has the columns "
        "id_a, id_b and optionally label, or id and cluster"
    )


def _read_texts(table: pa.Table, name: str) -> list[str]:
    return [str(value) for value in table[name].to_pylist()]


def _refuse_unnamed_labels(table: pa.Table, path: Path) -> None:
    """Refuses pairs with a column that has the values of labels but another name than `label`.

    Without this check, every pair would count as a pair of duplicates.
    """
    labels = {*POSITIVE_LABELS, *NEGATIVE_LABELS}
    for name in table.column_names:
        values = {value.lower() for value in _read_texts(table, name)}
        if name not in ("id_a", "id_b") and values and values <= labels:
            raise UsageError(
                f"the column {name!r} of {path} has the values of labels; rename it to label, or "
                "delete it if all pairs are duplicates"
            )


def _parse_label(text: str, path: Path) -> bool:
    label = text.lower()
    if label not in (*POSITIVE_LABELS, *NEGATIVE_LABELS):
        raise UsageError(
            f"unknown label {text!r} in {path}; duplicates are labelled "
            f"{', '.join(POSITIVE_LABELS)}, distinct pairs {', '.join(NEGATIVE_LABELS)}"
        )
    return label in POSITIVE_LABELS


@check_arguments
def golden_set_from_clusters(clusters: Mapping[str, str]) -> GoldenSet:
    """Returns a golden set of documents whose clusters are all known.

    Args:
        clusters: Name of the true cluster of each document, by id.
    """
    ids = tuple(sorted(clusters))
    numbers = {name: i for i, name in enumerate(sorted(set(clusters.values())))}
    true = np.array([numbers[clusters[i]] for i in ids], np.int64)
    return GoldenSet(ids, clusters=true, duplicates=None, distinct=None)


@check_arguments
def golden_set_from_pairs(
    pairs: list[tuple[str, str]], labels: list[bool] | None, *, closure: bool = False
) -> GoldenSet:
    """Returns a golden set of labelled pairs. A pair that is listed again counts once.

    Args:
        pairs: Ids of the two documents of each pair.
        labels: True for each pair of duplicates, False for each pair of distinct documents. None if
            all pairs are duplicates.
        closure: If True, duplicates of duplicates are taken to be duplicates, and without labels,
            all other pairs of the documents are taken to be distinct.

    Raises:
        UsageError: If a pair has both labels, is of one document, or is labelled as distinct but
            becomes a pair of duplicates by the closure.

    Examples:
        >>> pairs = [("a", "b"), ("b", "c"), ("c", "d")]
        >>> golden_set_from_pairs(pairs, [True, True, False]).duplicates.tolist()
        [[0, 1], [1, 2]]
        >>> golden_set_from_pairs(pairs, [True, True, False], closure=True).clusters.tolist()
        [0, 0, 0, 3]
    """
    ids = tuple(sorted({name for pair in pairs for name in pair}))
    positions = {name: i for i, name in enumerate(ids)}
    label_of: dict[tuple[int, int], bool] = {}
    given = labels if labels is not None else [True] * len(pairs)
    if len(given) != len(pairs):
        raise UsageError(
            f"there are {len(pairs)} pairs and {len(given)} labels; give one for each pair"
        )
    for (a, b), label in zip(pairs, given, strict=True):
        if a == b:
            raise UsageError(
                f"the golden pair {a!r}, {b!r} is a document with itself; delete this row"
            )
        pair = (min(positions[a], positions[b]), max(positions[a], positions[b]))
        if label_of.setdefault(pair, label) != label:
            raise UsageError(
                f"the golden pair {a!r}, {b!r} is labelled as duplicates and as distinct; delete "
                "one of the rows"
            )
    duplicates = _pair_array(pair for pair, label in label_of.items() if label)
    distinct = _pair_array(pair for pair, label in label_of.items() if not label)
    if not closure:
        return GoldenSet(ids, clusters=None, duplicates=duplicates, distinct=distinct)
    clusters = _close_transitively(duplicates, len(ids))
    for first, second in distinct.tolist():
        if clusters[first] == clusters[second]:
            raise UsageError(
                f"the golden pair {ids[first]!r}, {ids[second]!r} is labelled as distinct, but "
                "other rows join the two documents by duplicates of duplicates; omit "
                f"{name_flag('closure')}"
            )
    return GoldenSet(
        ids,
        clusters=clusters,
        duplicates=None,
        distinct=None if labels is None else distinct,
        is_closed=True,
    )


def _pair_array(pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    return np.array(list(pairs), np.int64).reshape(-1, 2)


def _close_transitively(duplicates: np.ndarray, documents: int) -> np.ndarray:
    """Returns the cluster of each document, which is its smallest connected one, int64 (n,)."""
    parent = np.arange(documents, dtype=np.uint32)
    a, b = duplicates.astype(np.uint32).T
    kernels.unite(np.maximum(a, b), np.minimum(a, b), parent)
    kernels.flatten(parent)
    return parent.astype(np.int64)


@check_arguments
def score_clusters(golden: GoldenSet, clusters: Mapping[str, str], seed: int = 1) -> Scores:
    """Scores a result against a golden set.

    Labelled documents that the result does not have, such as rejected ones, are clusters of one.

    Args:
        golden: Golden set.
        clusters: Name of the predicted cluster of each document, by id.
        seed: Random seed of the bootstrap.

    Examples:
        >>> golden = golden_set_from_clusters({"a": "x", "b": "x", "c": "y"})
        >>> scores = score_clusters(golden, {"a": "1", "b": "1", "c": "1"})
        >>> round(scores.precision.value, 3), scores.recall.value, scores.rand.value
        (0.333, 1.0, 0.0)
    """
    names = [clusters.get(name, f"\\0{name}") for name in golden.ids]
    _, predicted = np.unique(np.array(names, object).astype(str), return_inverse=True)
    counts = _count_labelled_pairs(golden, predicted)
    precision = None
    f1 = None
    recall = Proportion.from_counts(counts.duplicates_together, counts.duplicates)
    if golden.measures_precision:
        together = counts.duplicates_together + counts.distinct_together
        precision = Proportion.from_counts(counts.duplicates_together, together)
        total = precision.value + recall.value
        f1 = 2 * precision.value * recall.value / total if total else 0.0
    labelled_together = counts.duplicates_together + counts.distinct_together
    scores = Scores(
        documents=len(golden.ids),
        duplicates=counts.duplicates,
        distinct=counts.distinct,
        unlabelled=_count_pairs(predicted) - labelled_together,
        is_closed=golden.is_closed,
        precision=precision,
        recall=recall,
        f1=f1,
    )
    if golden.clusters is None:
        return scores
    require_seed(seed)
    bootstrap = _Bootstrap(golden.clusters, predicted, seed)
    return replace(
        scores,
        rand=bootstrap.estimate(adjusted_rand),
        bcubed_precision=bootstrap.estimate(bcubed_precision),
        bcubed_recall=bootstrap.estimate(bcubed_recall),
    )


class _LabelledPairs(NamedTuple):
    """The numbers of labelled pairs, and of those in one predicted cluster."""

    duplicates: int
    duplicates_together: int
    distinct: int
    distinct_together: int


def _count_labelled_pairs(golden: GoldenSet, predicted: np.ndarray) -> _LabelledPairs:
    """Counts the labelled pairs of a golden set.

    Args:
        golden: Golden set.
        predicted: Number of the predicted cluster of each document, int64 (n,).
    """
    if golden.clusters is not None:
        duplicates = _count_pairs(golden.clusters)
        duplicates_together = _count_pairs(_intersect(golden.clusters, predicted))
    else:
        assert golden.duplicates is not None
        duplicates = len(golden.duplicates)
        duplicates_together = _count_together(golden.duplicates, predicted)
    if golden.distinct is not None:
        distinct = len(golden.distinct)
        distinct_together = _count_together(golden.distinct, predicted)
    else:
        documents = len(golden.ids)
        distinct = documents * (documents - 1) // 2 - duplicates
        distinct_together = _count_pairs(predicted) - duplicates_together
    return _LabelledPairs(
        duplicates=duplicates,
        duplicates_together=duplicates_together,
        distinct=distinct,
        distinct_together=distinct_together,
    )


def _count_together(pairs: np.ndarray, predicted: np.ndarray) -> int:
    """Returns the number of pairs whose documents are in one predicted cluster."""
    first, second = pairs.T
    return int((predicted[first] == predicted[second]).sum())


def _intersect(true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Returns the partition in which documents share a part if they do so in both partitions."""
    intersection: np.ndarray = true * (predicted.max(initial=0) + 1) + predicted
    return intersection


def _count_pairs(clusters: np.ndarray) -> int:
    """Returns the number of pairs of documents with the same cluster."""
    counts = np.unique(clusters, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def adjusted_rand(true: np.ndarray, predicted: np.ndarray) -> float:
    """Returns the adjusted Rand index: 1 for equal partitions, 0 for what chance gives.

    Args:
        true: Number of the true cluster of each document, int64 (n,).
        predicted: Number of the predicted cluster of each document, int64 (n,).

    Examples:
        >>> round(adjusted_rand(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])), 4)
        0.5714
    """
    documents = len(true)
    both = _count_pairs(_intersect(true, predicted))
    true_pairs = _count_pairs(true)
    predicted_pairs = _count_pairs(predicted)
    total = documents * (documents - 1) // 2
    chance = true_pairs * predicted_pairs / total if total else 0.0
    largest = (true_pairs + predicted_pairs) / 2
    return 1.0 if largest == chance else (both - chance) / (largest - chance)


def bcubed_precision(true: np.ndarray, predicted: np.ndarray) -> float:
    """Returns the mean share of documents' predicted clusters that belongs to their true ones.

    Args:
        true: Number of the true cluster of each document, int64 (n,).
        predicted: Number of the predicted cluster of each document, int64 (n,).

    Examples:
        >>> bcubed_precision(np.array([0, 0, 1]), np.array([5, 5, 5]))
        0.5555555555555555
        >>> bcubed_precision(np.array([5, 5, 5]), np.array([0, 0, 1]))
        1.0
    """
    if not len(true):
        return 1.0
    shared = _intersect(true, predicted)
    _, both, counts = np.unique(shared, return_inverse=True, return_counts=True)
    _, own, sizes = np.unique(predicted, return_inverse=True, return_counts=True)
    return float((counts[both] / sizes[own]).mean())


def bcubed_recall(true: np.ndarray, predicted: np.ndarray) -> float:
    """Returns the mean share of the true clusters of documents that is in their predicted ones.

    Args:
        true: Number of the true cluster of each document, int64 (n,).
        predicted: Number of the predicted cluster of each document, int64 (n,).
    """
    return bcubed_precision(predicted, true)


class _Bootstrap:
    """A percentile bootstrap, which draws labelled clusters with replacement.

    Copies of one cluster are separate clusters, among the true and among the predicted ones. A
    predicted cluster that spans several true ones spans their first copies, their second copies,
    and so on.
    """

    def __init__(self, true: np.ndarray, predicted: np.ndarray, seed: int) -> None:
        self._true = true
        self._predicted = predicted
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._members: list[np.ndarray] = []
        if len(true):
            groups = np.unique(true, return_inverse=True)[1]
            ends = np.cumsum(np.bincount(groups))[:-1]
            self._members = np.split(np.argsort(groups, kind="stable"), ends)

    def estimate(self, score: ScoreFunction) -> IntervalEstimate:
        value = score(self._true, self._predicted)
        if len(self._members) < 2:
            return IntervalEstimate(value, value, value)
        resampled = [self._resample(score) for _ in range(RESAMPLES)]
        low, high = np.quantile(resampled, [TAIL, 1 - TAIL])
        return IntervalEstimate(value, min(value, float(low)), max(value, float(high)))

    def _resample(self, score: ScoreFunction) -> float:
        clusters = len(self._members)
        chosen = np.sort(self._rng.integers(0, clusters, clusters))
        copy = np.arange(clusters) - np.searchsorted(chosen, chosen)
        rows = np.concatenate([self._members[i] for i in chosen])
        draws = np.repeat(np.arange(clusters), [len(self._members[i]) for i in chosen])
        width = int(self._predicted.max()) + 1
        return score(draws, self._predicted[rows] + width * copy[draws])


def read_clusters(path: Path) -> dict[str, str]:
    """Reads the cluster of each document of a run.

    Args:
        path: File `clusters.parquet` of the output.

    Raises:
        UsageError: If the file does not exist.
    """
    try:
        table = pq.read_table(path, columns=["id", "cluster"])
    except FileNotFoundError as error:
        raise UsageError(
            f"{path.parent} is not the output of nearkin dedup: it has no {path.name}"
        ) from error
    return dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))


def parse_grid(grid: str, valid: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Parses a grid of settings and returns all of its combinations in order.

    Args:
        grid: Names of settings with their values, for example `threshold=0.7,0.8;recall=0.9`.
        valid: Names of the settings that a grid may have, or None to accept every name.

    Raises:
        UsageError: If the grid has another form, or a setting is unknown.

    Examples:
        >>> parse_grid("threshold=0.7,0.8;cluster=leaders")
        [{'threshold': 0.7, 'cluster': 'leaders'}, {'threshold': 0.8, 'cluster': 'leaders'}]
    """
    axes = []
    for part in grid.split(";"):
        name, _, values = part.partition("=")
        if not name.strip() or not values.strip():
            raise UsageError(f"grid {grid!r} is not of the form threshold=0.7,0.8;recall=0.9,0.95")
        if valid is not None and name.strip() not in valid:
            raise UsageError(
                f"unknown setting {name.strip()!r} of the grid; valid settings are "
                f"{', '.join(sorted(valid))}{did_you_mean(name.strip(), valid)}"
            )
        axes.append([(name.strip(), _parse_value(value.strip())) for value in values.split(",")])
    return [dict(choice) for choice in itertools.product(*axes)]


def _parse_value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
