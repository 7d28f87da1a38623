"""A result against labelled pairs or clusters: pairwise precision and recall, adjusted Rand index, B-cubed.

Sources: Hubert, Arabie, *Comparing partitions* (1985); Bagga, Baldwin, *Entity-based cross-document coreferencing using the
vector space model* (1998): B-cubed; Wilson (1927) for shares; percentile bootstrap over labelled clusters for the others.
"""

import csv
import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from nearkin.cluster import kernels
from nearkin.errors import UsageError
from nearkin.evaluate.audit import Share

Measured: TypeAlias = Callable[[np.ndarray, np.ndarray], float]
RESAMPLES = 200
TAIL = 0.025
YES, NO = ("1", "true", "yes", "duplicate"), ("0", "false", "no", "distinct")


@dataclass(frozen=True)
class Golden:
    """What is known.

    Attributes:
        ids: Of the labelled documents, sorted.
        clusters: int64: a number for each of them.
        distinct: int64 (m, 2): pairs, by position in ids, that are labelled as no duplicates; None where everything that is
            not in one cluster is known to be distinct.
    """

    ids: tuple[str, ...]
    clusters: np.ndarray
    distinct: np.ndarray | None


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """A result against what is known.

    Attributes:
        documents: Labelled ones.
        precision: Of the pairs that the result puts together (labelled ones), those that belong together.
        recall: Of the pairs that belong together, those that the result puts together.
        f1: Their harmonic mean.
        rand: Adjusted Rand index.
        bcubed_precision: For a document, the share of its cluster that belongs with it; the mean.
        bcubed_recall: For a document, the share of those that belong with it that are in its cluster; the mean.
    """

    documents: int
    precision: Share
    recall: Share
    f1: float
    rand: Estimate
    bcubed_precision: Estimate
    bcubed_recall: Estimate

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def read_golden(path: Path) -> Golden:
    """From CSV or parquet: `id_a`, `id_b` and optionally `label`; or `id` and `cluster`.

    Raises:
        UsageError: It cannot be read, has other columns, or a label is neither yes nor no.
    """
    try:
        table = (
            pq.read_table(path)
            if path.suffix in (".parquet", ".pq")
            else pa.csv.read_csv(path, convert_options=TEXT)
        )
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (OSError, pa.ArrowException, csv.Error) as error:
        raise UsageError(
            f"{path} is neither CSV nor parquet ({' '.join(str(error).split())[:120]})"
        ) from error
    names = set(table.column_names)
    if {"id", "cluster"} <= names:
        return golden_of_clusters(
            dict(zip(*(_texts(table, name) for name in ("id", "cluster")), strict=True))
        )
    if {"id_a", "id_b"} <= names:
        a, b = _texts(table, "id_a"), _texts(table, "id_b")
        labels = (
            [_label(text, path) for text in _texts(table, "label")] if "label" in names else None
        )
        return golden_of_pairs(list(zip(a, b, strict=True)), labels)
    raise UsageError(
        f"{path} has the columns {', '.join(table.column_names)}; labels are id_a, id_b (label), or id, cluster"
    )


TEXT = pa.csv.ConvertOptions(
    column_types={name: pa.string() for name in ("id", "cluster", "id_a", "id_b", "label")},
    strings_can_be_null=False,
)


def _texts(table: pa.Table, name: str) -> list[str]:
    return [str(value) for value in table[name].to_pylist()]


def _label(text: str, path: Path) -> bool:
    if text.lower() not in (*YES, *NO):
        raise UsageError(
            f"label {text!r} in {path} is neither of {', '.join(YES)} nor of {', '.join(NO)}"
        )
    return text.lower() in YES


def golden_of_clusters(clusters: Mapping[str, str]) -> Golden:
    """From the cluster of each document."""
    ids = tuple(sorted(clusters))
    numbers = {name: i for i, name in enumerate(sorted(set(clusters.values())))}
    return Golden(ids, np.array([numbers[clusters[i]] for i in ids], np.int64), None)


def golden_of_pairs(pairs: list[tuple[str, str]], labels: list[bool] | None) -> Golden:
    """From pairs that belong together, and those that do not; what is together is taken to be transitive.

    Examples:
        >>> golden_of_pairs([("a", "b"), ("b", "c"), ("a", "d")], [True, True, False]).clusters.tolist()
        [0, 0, 0, 3]
    """
    ids = tuple(sorted({name for pair in pairs for name in pair}))
    place = {name: i for i, name in enumerate(ids)}
    both = np.array([[place[a], place[b]] for a, b in pairs], np.int64).reshape(-1, 2)
    yes = np.ones(len(pairs), bool) if labels is None else np.array(labels, bool)
    parent = np.arange(len(ids), dtype=np.uint32)
    a, b = both[yes].astype(np.uint32).T
    kernels.unite(np.maximum(a, b), np.minimum(a, b), parent)
    kernels.flatten(parent)
    return Golden(ids, parent.astype(np.int64), None if labels is None else both[~yes])


def score(golden: Golden, clusters: Mapping[str, str], seed: int = 1) -> Scores:
    """A result, as the cluster of each document, against what is known.

    Documents that the result does not have (rejected ones) are clusters of their own.

    Examples:
        >>> golden = golden_of_clusters({"a": "x", "b": "x", "c": "y"})
        >>> found = score(golden, {"a": "1", "b": "1", "c": "1"})
        >>> round(found.precision.value, 3), found.recall.value, found.rand.value
        (0.333, 1.0, 0.0)
    """
    names = [clusters.get(name, f"\\0{name}") for name in golden.ids]
    _, found = np.unique(np.array(names, object).astype(str), return_inverse=True)
    together = _pairs(golden.clusters * (found.max(initial=0) + 1) + found)
    actual = _pairs(golden.clusters)
    if golden.distinct is None:
        positive = _pairs(found)
    else:
        wrong = int((found[golden.distinct[:, 0]] == found[golden.distinct[:, 1]]).sum())
        positive = together + wrong
    precision, recall = Share.of(together, positive), Share.of(together, actual)
    total = precision.value + recall.value
    f1 = 2 * precision.value * recall.value / total if total else 0.0
    groups = np.unique(golden.clusters, return_inverse=True)[1]
    rng = np.random.Generator(np.random.PCG64(seed))
    members = (
        np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
        if len(groups)
        else []
    )
    return Scores(
        len(golden.ids),
        precision,
        recall,
        f1,
        *(
            _with_interval(measure, golden.clusters, found, members, rng)
            for measure in (adjusted_rand, *BCUBED)
        ),
    )


def _pairs(labels: np.ndarray) -> int:
    """Pairs of equal labels."""
    counts = np.unique(labels, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def adjusted_rand(true: np.ndarray, found: np.ndarray) -> float:
    """1 for equal partitions, 0 for what chance gives.

    Examples:
        >>> round(adjusted_rand(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])), 4)
        0.5714
    """
    n = len(true)
    both = _pairs(true * (found.max(initial=0) + 1) + found)
    a, b, total = _pairs(true), _pairs(found), n * (n - 1) // 2
    chance = a * b / total if total else 0.0
    most = (a + b) / 2
    return 1.0 if most == chance else (both - chance) / (most - chance)


def bcubed(true: np.ndarray, found: np.ndarray) -> float:
    """Mean over documents of the share of their found cluster that belongs with them: precision; recall with sides swapped.

    Examples:
        >>> bcubed(np.array([0, 0, 1]), np.array([5, 5, 5])), bcubed(np.array([5, 5, 5]), np.array([0, 0, 1]))
        (0.5555555555555555, 1.0)
    """
    if not len(true):
        return 1.0
    _, both, counts = np.unique(
        true * (found.max(initial=0) + 1) + found, return_inverse=True, return_counts=True
    )
    _, own, sizes = np.unique(found, return_inverse=True, return_counts=True)
    return float((counts[both] / sizes[own]).mean())


def bcubed_recall(true: np.ndarray, found: np.ndarray) -> float:
    """Mean over documents of the share of those that belong with them that are in their cluster."""
    return bcubed(found, true)


BCUBED = (bcubed, bcubed_recall)


def _with_interval(
    measure: Measured,
    true: np.ndarray,
    found: np.ndarray,
    members: list[np.ndarray],
    rng: np.random.Generator,
) -> Estimate:
    """Percentile bootstrap: labelled clusters are drawn with replacement.

    Copies of one cluster are clusters of their own, in what is known and in what was found; a found cluster that spans several
    known ones still does in the first copies of them, in the second ones, and so on.
    """
    value = measure(true, found)
    if len(members) < 2:
        return Estimate(value, value, value)
    drawn, width = [], int(found.max()) + 1
    for _ in range(RESAMPLES):
        chosen = np.sort(rng.integers(0, len(members), len(members)))
        copy = np.arange(len(chosen)) - np.searchsorted(chosen, chosen)
        rows = np.concatenate([members[i] for i in chosen])
        draws = np.repeat(np.arange(len(chosen)), [len(members[i]) for i in chosen])
        drawn.append(measure(draws, found[rows] + width * copy[draws]))
    low, high = np.quantile(drawn, [TAIL, 1 - TAIL])
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def clusters_of(path: Path) -> dict[str, str]:
    """The cluster of each document of a run's `clusters.parquet`."""
    try:
        table = pq.read_table(path, columns=["id", "cluster"])
    except FileNotFoundError as error:
        raise UsageError(
            f"{path.parent} is not the output of nearkin dedup: it has no {path.name}"
        ) from error
    return dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))


def settings_of(grid: str) -> list[dict[str, Any]]:
    """Every combination of a grid, in its order.

    Examples:
        >>> settings_of("threshold=0.7,0.8;cluster=leaders")
        [{'threshold': 0.7, 'cluster': 'leaders'}, {'threshold': 0.8, 'cluster': 'leaders'}]
    """
    axes = []
    for part in grid.split(";"):
        name, _, values = part.partition("=")
        if not name.strip() or not values.strip():
            raise UsageError(f"grid {grid!r} is not of the form threshold=0.7,0.8;recall=0.9,0.95")
        axes.append([(name.strip(), _value(value.strip())) for value in values.split(",")])
    return [dict(choice) for choice in itertools.product(*axes)]


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
