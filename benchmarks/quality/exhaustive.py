"""The best clusters of any single measure, found by trying them all.

This is an independent oracle: it shares no code with nearkin, and compares all pairs of documents.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.quality.scores import count_pairs, harmonic_mean

WORD_SIZES = (1, 2, 3, 4, 5)
CHARACTER_SIZES = (2, 3, 4, 5, 6, 7, 8, 9)
NORMALISATIONS = ("plain", "digits", "marks", "digits,punctuation")
"""Beside NFKC and lower case: digits become 0, combining marks are dropped, and marks of
punctuation are words of their own."""
MEASURES = ("jaccard", "weighted-jaccard", "idf-jaccard", "containment")
THRESHOLDS = (*(round(0.1 + 0.04 * step, 2) for step in range(23)), 1.0)
CLUSTERINGS = ("leaders", "components")
WORD = re.compile(r"\w+")
WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
DIGIT = re.compile(r"\d")
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, order=True)
class Setting:
    """A single measure with its threshold.

    Attributes:
        unit: `words` or `chars`.
        size: Number of units of a shingle.
        normalise: One of `NORMALISATIONS`.
        measure: One of `MEASURES`.
        threshold: Minimum similarity of duplicates.
        cluster: `leaders` or `components`.
    """

    unit: str
    size: int
    normalise: str
    measure: str
    threshold: float
    cluster: str


class ScoredSetting(NamedTuple):
    """A setting, with the precision, the recall and the F1 of pairs inside its clusters."""

    setting: Setting
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return harmonic_mean(self.precision, self.recall)


def normalise_text(text: str, normalise: str) -> str:
    """Returns a text in NFKC and lower case, with the changes of a normalisation."""
    text = unicodedata.normalize("NFKC", text).lower()
    if normalise == "marks":
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(one for one in decomposed if not unicodedata.category(one).startswith("M"))
    if "digits" in normalise:
        text = DIGIT.sub("0", text)
    return text


class ShingleTable(NamedTuple):
    """The shingles of all documents: one row for each distinct shingle of a document.

    Attributes:
        documents: Number of the document, int64 (m,), ascending.
        shingles: Number of the shingle, int64 (m,).
        counts: How often the document contains the shingle, int64 (m,).
        size: Number of documents.
    """

    documents: np.ndarray
    shingles: np.ndarray
    counts: np.ndarray
    size: int


def number_units(texts: Sequence[str], unit: str, normalise: str) -> list[np.ndarray]:
    """Returns the words or characters of each text as numbers, uint64.

    Args:
        texts: Texts.
        unit: `words` or `chars`.
        normalise: One of `NORMALISATIONS`.
    """
    normalised = [normalise_text(text, normalise) for text in texts]
    if unit == "chars":
        joined = (" ".join(text.split()) for text in normalised)
        return [np.array([ord(one) for one in text], np.uint64) for text in joined]
    pattern = WORD_OR_MARK if "punctuation" in normalise else WORD
    numbers: dict[str, int] = {}
    return [
        np.array(
            [numbers.setdefault(word, len(numbers)) for word in pattern.findall(text)], np.uint64
        )
        for text in normalised
    ]


def build_shingles(units: Sequence[np.ndarray], size: int) -> ShingleTable:
    """Returns the shingles of documents. One with fewer units has one shingle of all of them.

    Args:
        units: Units of each document as numbers.
        size: Number of units of a shingle.
    """
    hashed = []
    for numbers in units:
        width = min(size, len(numbers))
        count = len(numbers) - width + 1 if width else 0
        values = np.full(count, width, np.uint64)
        for place in range(width):
            values = (values ^ (values >> np.uint64(29))) * MULTIPLIER
            values += numbers[place : place + count] + np.uint64(1)
        hashed.append((values ^ (values >> np.uint64(31))) * MULTIPLIER)
    lengths = [len(values) for values in hashed]
    _, shingles = np.unique(np.concatenate(hashed), return_inverse=True)
    documents = np.repeat(np.arange(len(units)), lengths)
    vocabulary = int(shingles.max(initial=0)) + 1
    keys, counts = np.unique(documents * vocabulary + shingles, return_counts=True)
    return ShingleTable(keys // vocabulary, keys % vocabulary, counts, len(units))


def sum_shared(table: ShingleTable, weights: np.ndarray) -> np.ndarray:
    """Returns the sum of the weights of the shingles that two documents share.

    Args:
        table: Shingles of the documents.
        weights: Weight of each shingle, float64.

    Returns:
        The sums of all pairs, float32 (n, n).
    """
    by_shingle = np.argsort(table.shingles, kind="stable")
    members = table.documents[by_shingle]
    starts = np.searchsorted(table.shingles[by_shingle], np.arange(len(weights) + 1))
    frequencies = np.diff(starts)
    bounds = np.searchsorted(table.documents, np.arange(table.size + 1))
    shared = np.zeros((table.size, table.size), np.float32)
    for document in range(table.size):
        own = table.shingles[bounds[document] : bounds[document + 1]]
        own = own[frequencies[own] > 1]
        lengths = frequencies[own]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        places = np.arange(total) + np.repeat(starts[own] - (ends - lengths), lengths)
        shared[document] = np.bincount(
            members[places], weights=np.repeat(weights[own], lengths), minlength=table.size
        )
    return shared


def repeat_shingles(table: ShingleTable) -> ShingleTable:
    """Returns a table in which the second occurrence of a shingle is another shingle, and so on.

    The Jaccard similarity of these sets is the weighted Jaccard similarity of the multisets.
    """
    if table.counts.max(initial=1) == 1:
        return table
    rows = np.repeat(np.arange(len(table.counts)), table.counts)
    starts = np.cumsum(table.counts) - table.counts
    occurrence = np.arange(len(rows)) - starts[rows]
    keys = table.shingles[rows] * (int(table.counts.max()) + 1) + occurrence
    _, shingles = np.unique(keys, return_inverse=True)
    return ShingleTable(table.documents[rows], shingles, np.ones(len(rows), np.int64), table.size)


def compare_all(table: ShingleTable, measure: str) -> np.ndarray:
    """Returns the similarity of all pairs of documents, float32 (n, n), with 0 on the diagonal.

    Args:
        table: Shingles of the documents.
        measure: One of `MEASURES`. The weights of `idf-jaccard` are log((1 + N) / (1 + df)) + 1.
    """
    if measure == "weighted-jaccard":
        table = repeat_shingles(table)
    frequencies = np.bincount(table.shingles)
    weights = np.ones(len(frequencies))
    if measure == "idf-jaccard":
        weights = np.log((1 + table.size) / (1 + frequencies)) + 1
    shared = sum_shared(table, weights)
    sizes = np.bincount(table.documents, weights=weights[table.shingles], minlength=table.size)
    sizes = sizes.astype(np.float32)
    if measure == "containment":
        whole = np.minimum(sizes[:, None], sizes[None, :])
    else:
        whole = sizes[:, None] + sizes[None, :] - shared
    similarity = np.divide(shared, whole, out=np.zeros_like(shared), where=whole > 0)
    np.fill_diagonal(similarity, 0)
    return similarity


def span_components(similarity: np.ndarray) -> list[tuple[float, int, int]]:
    """Returns the edges of a maximum spanning tree (Prim 1957), the most similar ones first.

    The components at a threshold are those of the tree's edges that reach it.

    Args:
        similarity: Similarities of all pairs, float32 (n, n).
    """
    size = len(similarity)
    best = similarity[0].copy()
    nearest = np.zeros(size, np.int64)
    is_outside = np.ones(size, bool)
    is_outside[0] = False
    edges = []
    for _ in range(size - 1):
        document = int(np.argmax(np.where(is_outside, best, -1)))
        edges.append((float(best[document]), int(nearest[document]), document))
        is_outside[document] = False
        is_closer = similarity[document] > best
        best[is_closer] = similarity[document][is_closer]
        nearest[is_closer] = document
    return sorted(edges, reverse=True)


def cluster_components(
    similarity: np.ndarray, thresholds: Sequence[float]
) -> Iterator[tuple[float, np.ndarray]]:
    """Yields the component of each document at each threshold, from the largest one down."""
    edges = span_components(similarity)
    labels = np.arange(len(similarity))
    place = 0
    for threshold in sorted(thresholds, reverse=True):
        while place < len(edges) and edges[place][0] >= threshold - 1e-6:
            _, a, b = edges[place]
            labels[labels == labels[b]] = labels[a]
            place += 1
        yield threshold, labels


def cluster_leaders(
    similarity: np.ndarray, order: np.ndarray, thresholds: Sequence[float]
) -> Iterator[tuple[float, np.ndarray]]:
    """Yields the leader of each document at each threshold, from the largest one down.

    Documents are taken in order. Each joins the most similar earlier leader that reaches the
    threshold, or becomes a leader.

    Args:
        similarity: Similarities of all pairs, float32 (n, n).
        order: Numbers of the documents, int64 (n,).
        thresholds: Thresholds.
    """
    ordered = similarity[np.ix_(order, order)]
    strongest = ordered.max(axis=0)
    for threshold in sorted(thresholds, reverse=True):
        least = threshold - 1e-6
        leader = np.arange(len(order))
        is_leader = np.ones(len(order), bool)
        for document in np.flatnonzero(strongest >= least).tolist():
            row = np.where(is_leader[:document], ordered[document, :document], 0)
            if document and row[nearest := int(np.argmax(row))] >= least:
                leader[document] = nearest
                is_leader[document] = False
        labels = np.empty(len(order), np.int64)
        labels[order] = leader
        yield threshold, labels


def _score(true: np.ndarray, true_pairs: float, labels: np.ndarray) -> tuple[float, float]:
    """Returns the precision and the recall of the pairs inside clusters."""
    size = int(labels.max()) + 1
    pairs = count_pairs(np.bincount(labels, minlength=size))
    _, shared_sizes = np.unique(true * size + labels, return_counts=True)
    shared = count_pairs(shared_sizes)
    return (shared / pairs if pairs else 1.0), (shared / true_pairs if true_pairs else 1.0)


def search_settings(
    texts: Sequence[str],
    true: np.ndarray,
    sources: Sequence[str] | None = None,
    report: Callable[[str], None] | None = None,
) -> list[ScoredSetting]:
    """Scores every setting, the best one first.

    Args:
        texts: Texts of the documents.
        true: Number of the true cluster of each document, int64 (n,).
        sources: Source of each document, if only documents of different sources are compared.
        report: Receives the name of each shingle.
    """
    order = np.argsort([-len(text.encode()) for text in texts], kind="stable")
    true_pairs = count_pairs(np.bincount(true))
    allowed = None
    if sources is not None:
        values = np.array(sources)
        allowed = values[:, None] != values[None, :]
    scored = []
    for unit, size, normalise in list_shingles(texts):
        if report:
            report(f"{unit}:{size} {normalise}")
        table = build_shingles(number_units(texts, unit, normalise), size)
        for measure in MEASURES:
            similarity = compare_all(table, measure)
            if allowed is not None:
                similarity = similarity * allowed
            for cluster in CLUSTERINGS:
                clusters = (
                    cluster_leaders(similarity, order, THRESHOLDS)
                    if cluster == "leaders"
                    else cluster_components(similarity, THRESHOLDS)
                )
                for threshold, labels in clusters:
                    precision, recall = _score(true, true_pairs, labels)
                    setting = Setting(unit, size, normalise, measure, threshold, cluster)
                    scored.append(ScoredSetting(setting, precision, recall))
    return sorted(scored, key=lambda one: (-one.f1, one.setting))


def list_shingles(texts: Sequence[str]) -> list[tuple[str, int, str]]:
    """Returns the units, sizes and normalisations of all shingles to try.

    A normalisation that does not change any of the texts is left out.

    Args:
        texts: Texts of the documents.
    """
    plain = [normalise_text(text, "plain") for text in texts]
    useful = [
        normalise
        for normalise in NORMALISATIONS
        if normalise == "plain"
        or "punctuation" in normalise
        or [normalise_text(text, normalise) for text in texts] != plain
    ]
    return [
        (unit, size, normalise)
        for unit, sizes in (("words", WORD_SIZES), ("chars", CHARACTER_SIZES))
        for size in sizes
        for normalise in useful
        if unit == "words" or "punctuation" not in normalise
    ]
