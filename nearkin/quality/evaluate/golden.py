"""Scores a result against golden pairs or golden clusters, whose labels are known.

The scores are pairwise precision, recall and F1 and, if the true clusters are known, the adjusted
Rand index (Hubert, Arabie, *Comparing partitions*, 1985) and B-cubed (Bagga, Baldwin, *Entity-based
cross-document coreferencing using the vector space model*, 1998). Their intervals come from the
jackknife over the true clusters, because the pairs of a cluster are found or missed together.

Labelled pairs are judged as pairs: a pair without a label counts neither for nor against a result.
Only with the option `closure`, duplicates of duplicates count as duplicates.

If whole clusters were labelled, the errors between them and all other documents of the result are
known: a document that a labelled cluster does not list is distinct from its documents. Half of each
such error belongs to the labelled side. The sums over a sample of clusters are then proportional to
those over all clusters, so that the scores do not depend on how many clusters were labelled.
"""

import csv
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from nearkin.corpus.arrow_conversion import decode_column
from nearkin.corpus.unknown_ids import describe_unknown_ids, find_original_ids
from nearkin.errors import UsageError
from nearkin.quality.evaluate.intervals import Estimate, Proportion
from nearkin.quality.evaluate.totals import LabelledTotals, count_clusters, count_pairs
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.arrow_types import is_binary
from nearkin.runtime.dialect import SAMPLE_BYTES, detect_dialect, find_named_delimiter
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.suggestions import require_choice
from nearkin.settings.decisions import Decisions, Verdict, read_decisions
from nearkin.settings.decisions.files import (
    DIFFERENT_WORDS,
    EXCEL,
    JSON_LINES,
    PARQUET,
    SAME_WORDS,
    holds_decisions,
    parse_verdict,
)
from nearkin.stages.cluster import kernels

NO_PAIRS = np.empty((0, 2), np.int64)
"""An empty list of pairs."""
_CSV_OPTIONS = pa.csv.ConvertOptions(
    column_types={name: pa.string() for name in ("id", "cluster", "id_a", "id_b", "label")},
    strings_can_be_null=False,
)


class Labelled(StrEnum):
    """The kind of thing that was chosen for labelling."""

    CLUSTERS = "clusters"
    """Whole clusters: each of them is listed with all its documents."""
    DOCUMENTS = "documents"
    """Single documents: other documents of their clusters may be missing."""


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

    def describe_unknown(self, ids: Collection[str]) -> str | None:
        """Describes the labelled documents that are not among others, or returns None."""
        unknown = [id for id in self.ids if id not in ids]
        if not unknown:
            return None
        originals = find_original_ids(unknown, [pa.array(ids, pa.large_string())])
        return (
            f"{len(unknown):,} of {len(self.ids):,} labelled documents are not in the inputs, for "
            f"example {describe_unknown_ids(originals)}"
        )


@dataclass(frozen=True)
class Scores:
    """The scores of a result against a golden set.

    Attributes:
        documents: Number of labelled documents.
        duplicates: Number of pairs that are labelled as duplicates.
        distinct: Number of pairs that are labelled as distinct.
        unlabelled: Number of pairs of labelled documents that are in one predicted cluster and have
            no label. They count neither for nor against the result.
        outside: Number of documents without a label that are in the predicted cluster of a labelled
            one. They count as errors if whole clusters are labelled.
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
    outside: int
    is_closed: bool
    precision: Proportion | None
    recall: Proportion
    f1: Estimate | None
    rand: Estimate | None = None
    bcubed_precision: Estimate | None = None
    bcubed_recall: Estimate | None = None

    def to_dict(self) -> dict[str, object]:
        """Returns the scores as a JSON object."""
        return asdict(self)


@check_arguments
def read_golden_set(path: Path, *, closure: bool = False) -> GoldenSet:
    """Reads a golden set from a CSV or Parquet file, or from a file of decisions.

    The file has the columns `id_a`, `id_b` and optionally `label`, or the columns `id` and
    `cluster`. Decisions (see `nearkin.settings.decisions.read_decisions`) are labels of pairs.
    """
    if path.suffix.lower() in (*JSON_LINES, EXCEL):
        return _golden_set_of_decisions(path, closure=closure)
    try:
        table = pq.read_table(path) if path.suffix.lower() in PARQUET else _read_csv(path)
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (OSError, pa.ArrowException, csv.Error) as error:
        reason = " ".join(str(error).split())[:120]
        raise UsageError(f"{path} is neither CSV nor parquet ({reason})") from error
    names = set(table.column_names)
    if not len(table):
        raise UsageError(f"{path} has no rows, so that nothing is labelled; label some documents")
    if holds_decisions(table.column_names) and "label" not in names:
        return _golden_set_of_decisions(path, closure=closure)
    if {"id", "cluster"} <= names:
        clusters: dict[str, str] = {}
        rows = zip(_read_texts(table, "id", path), _read_texts(table, "cluster", path), strict=True)
        for id, cluster in rows:
            if clusters.setdefault(id, cluster) != cluster:
                raise UsageError(
                    f"{path} has the document {id!r} in the clusters {clusters[id]!r} and "
                    f"{cluster!r}; delete one of the rows"
                )
        return golden_set_from_clusters(clusters)
    if {"id_a", "id_b"} <= names:
        first = _read_texts(table, "id_a", path)
        pairs = list(zip(first, _read_texts(table, "id_b", path), strict=True))
        labels = None
        if "label" in names:
            labels = [_parse_label(text, path) for text in _read_texts(table, "label", path)]
        else:
            _refuse_unnamed_labels(table, path)
        return golden_set_from_pairs(pairs, labels, closure=closure)
    raise UsageError(
        f"{path} has the columns {', '.join(table.column_names)}; a golden set has the columns "
        "id_a, id_b and optionally label or decision, or id and cluster"
    )


def _read_csv(path: Path) -> pa.Table:
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES)
    dialect = detect_dialect(sample, ",", None, None)
    begin = sample.decode(dialect.encoding, "replace").removeprefix("\ufeff")
    return pa.csv.read_csv(
        path,
        pa.csv.ReadOptions(
            encoding=dialect.encoding, skip_rows=0 if find_named_delimiter(begin) is None else 1
        ),
        # Ids can contain line feeds.
        pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        _CSV_OPTIONS,
    )


def _golden_set_of_decisions(path: Path, *, closure: bool) -> GoldenSet:
    decisions = read_decisions(path)
    if not len(decisions):
        raise UsageError(f"{path} has no decisions, so that nothing is labelled; decide some pairs")
    return golden_set_from_decisions(decisions, closure=closure)


def golden_set_from_decisions(decisions: Decisions, *, closure: bool = False) -> GoldenSet:
    """Returns the golden set that people's decisions are."""
    labels = [decision.verdict == Verdict.SAME for decision in decisions]
    pairs = [decision.pair for decision in decisions]
    return golden_set_from_pairs(pairs, labels, closure=closure)


def _read_texts(table: pa.Table, name: str, path: Path) -> list[str]:
    if table.column_names.count(name) > 1:
        raise UsageError(f"{path} has two columns {name!r}; delete or rename one of them")
    column = decode_column(table[name])
    if is_binary(column.type):
        try:
            column = column.cast(pa.large_string())
        except pa.ArrowInvalid as error:
            raise UsageError(
                f"the column {name!r} of {path} has bytes that are not UTF-8; write it as text"
            ) from error
    cells = column.to_pylist()
    for row, cell in enumerate(cells, start=1):
        # An id can be empty. Documents without a cluster would be duplicates of each other.
        is_empty = name == "cluster" and cell == ""
        if cell is None or is_empty or (isinstance(cell, float) and math.isnan(cell)):
            raise UsageError(
                f"row {row} of {path} has no value in the column {name!r}; add it, or delete the "
                "row"
            )
    return [str(value) for value in cells]


def _refuse_unnamed_labels(table: pa.Table, path: Path) -> None:
    """Refuses pairs with a column that has the values of labels but another name than `label`.

    Without this check, every pair would count as a pair of duplicates.
    """
    labels = {*SAME_WORDS, *DIFFERENT_WORDS}
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = {str(value).lower() for value in column.to_pylist()}
        if name not in ("id_a", "id_b") and values and values <= labels:
            raise UsageError(
                f"the column {name!r} of {path} has the values of labels; rename it to label, or "
                "delete it if all pairs are duplicates"
            )


def _parse_label(text: str, path: Path) -> bool:
    verdict = parse_verdict(text)
    if verdict is None:
        raise UsageError(
            f"unknown label {text!r} in {path}; duplicates are labelled "
            f"{', '.join(SAME_WORDS)}, pairs of distinct documents {', '.join(DIFFERENT_WORDS)}"
        )
    return verdict is Verdict.SAME


@check_arguments
def golden_set_from_clusters(clusters: Mapping[str, str]) -> GoldenSet:
    """Returns a golden set of documents whose clusters are all known."""
    ids = tuple(sorted(clusters))
    numbers = {name: i for i, name in enumerate(sorted(set(clusters.values())))}
    true = np.array([numbers[clusters[i]] for i in ids], np.int64)
    return GoldenSet(ids, clusters=true, duplicates=None, distinct=None)


@check_arguments
def golden_set_from_pairs(
    pairs: list[tuple[str, str]], labels: list[bool] | None, *, closure: bool = False
) -> GoldenSet:
    """Returns a golden set of labelled pairs. A pair that is listed again counts once.

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
    clusters = close_transitively(duplicates, len(ids))
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


def close_transitively(duplicates: np.ndarray, documents: int) -> np.ndarray:
    """Returns the cluster of each document, which is its smallest connected one, int64 (n,)."""
    parent = np.arange(documents, dtype=np.uint32)
    a, b = duplicates.astype(np.uint32).T
    kernels.unite(np.maximum(a, b), np.minimum(a, b), parent)
    kernels.flatten(parent)
    return parent.astype(np.int64)


def parse_labelled(labelled: str) -> Labelled:
    """Returns what was chosen for labelling, by its name."""
    require_choice("labelled", labelled, Labelled)
    return Labelled(labelled)


@check_arguments
def score_clusters(
    golden: GoldenSet,
    clusters: Mapping[str, str],
    *,
    labelled: str = Labelled.CLUSTERS,
) -> Scores:
    """Scores a result against a golden set.

    Labelled documents that the result does not have, such as rejected ones, are clusters of one.

    Examples:
        >>> golden = golden_set_from_clusters({"a": "x", "b": "x", "c": "y"})
        >>> scores = score_clusters(golden, {"a": "1", "b": "1", "c": "1"})
        >>> round(scores.precision.value, 3), scores.recall.value, scores.rand.value
        (0.333, 1.0, 0.0)
        >>> scores = score_clusters(golden, {"a": "1", "b": "1", "c": "2", "d": "1"})
        >>> scores.outside, scores.precision.value
        (1, 0.5)
    """
    labelled = parse_labelled(labelled)
    if clusters and clusters.keys().isdisjoint(golden.ids):
        unknown = golden.describe_unknown(clusters)
        raise UsageError(f"{unknown}; check the labels and {name_setting('id')}")
    names = np.array([clusters.get(name, f"\\0{name}") for name in golden.ids], object)
    cluster_names, predicted = np.unique(names, return_inverse=True)
    own_sizes = np.bincount(predicted, minlength=len(cluster_names))
    outside = _count_outside(cluster_names, golden.ids, clusters)
    if golden.clusters is None:
        return _score_pairs(golden, predicted, int(outside.sum()))
    true = np.unique(golden.clusters, return_inverse=True)[1]
    is_whole = labelled == Labelled.CLUSTERS and not golden.is_closed
    sizes = own_sizes + outside if is_whole else own_sizes
    documents = len(clusters.keys() | set(golden.ids)) if is_whole else len(golden.ids)
    totals = count_clusters(true, predicted, sizes)
    # all pairs in a predicted cluster, without those of two documents that have no label
    judged = int((_count_pairs(sizes) - _count_pairs(sizes - own_sizes)).sum())
    distinct = int(_count_pairs(np.array(len(golden.ids)))) - int(totals.all.duplicates)
    pair_totals = totals
    if golden.distinct is not None:
        labelled_pairs = count_pairs(true, predicted, NO_PAIRS, golden.distinct)
        pair_totals = totals.with_wrong(labelled_pairs)
        judged = int(pair_totals.all.together + pair_totals.all.wrong)
        distinct = len(golden.distinct)
    together = int(_count_pairs(own_sizes).sum())
    return replace(
        _score_pair_totals(golden, pair_totals, judged),
        distinct=distinct,
        unlabelled=together - judged if golden.distinct is not None else 0,
        outside=int(outside.sum()),
        rand=totals.adjusted_rand(documents),
        bcubed_precision=totals.bcubed_precision(),
        bcubed_recall=totals.bcubed_recall(),
    )


def _score_pairs(golden: GoldenSet, predicted: np.ndarray, outside: int) -> Scores:
    """Scores labelled pairs by the predicted cluster of each document, int64 (n,)."""
    assert golden.duplicates is not None
    assert golden.distinct is not None
    groups = close_transitively(golden.duplicates, len(golden.ids))
    groups = np.unique(groups, return_inverse=True)[1]
    totals = count_pairs(groups, predicted, golden.duplicates, golden.distinct)
    judged = int(totals.all.together + totals.all.wrong)
    together = int(_count_pairs(np.bincount(predicted)).sum())
    return replace(
        _score_pair_totals(golden, totals, judged),
        distinct=len(golden.distinct),
        unlabelled=together - judged,
        outside=outside,
    )


def _score_pair_totals(golden: GoldenSet, totals: LabelledTotals, judged: int) -> Scores:
    duplicates = int(totals.all.duplicates)
    together = int(totals.all.together)
    precision = None
    f1 = None
    if golden.measures_precision:
        precision = Proportion.from_estimate(totals.precision(), together, judged)
        f1 = totals.f1()
    return Scores(
        documents=len(golden.ids),
        duplicates=duplicates,
        distinct=0,
        unlabelled=0,
        outside=0,
        is_closed=golden.is_closed,
        precision=precision,
        recall=Proportion.from_estimate(totals.recall(), together, duplicates),
        f1=f1,
    )


def _count_outside(
    found: np.ndarray, ids: tuple[str, ...], clusters: Mapping[str, str]
) -> np.ndarray:
    """Returns the number of documents without a label in each predicted cluster, int64 (p,)."""
    labelled = set(ids)
    counts = Counter(name for id, name in clusters.items() if id not in labelled)
    return np.array([counts[name] for name in found.tolist()], np.int64)


def _count_pairs(sizes: np.ndarray) -> np.ndarray:
    pairs: np.ndarray = sizes * (sizes - 1) // 2
    return pairs


def read_clusters(path: Path) -> dict[str, str]:
    """Reads the cluster of each document of a run."""
    try:
        table = pq.read_table(path, columns=["id", "cluster"])
    except FileNotFoundError as error:
        raise UsageError(
            f"{path.parent} is not the output of nearkin dedup: it has no {path.name}"
        ) from error
    return dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))
