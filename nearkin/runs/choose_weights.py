"""Chooses weights of columns for the rows of a table, without labels.

Similar rows of a sample are compared column by column, and several weights are proposed for them
(see `nearkin.quality.fit.match_weights`). The proposal is taken that finds most pairs without
doubt, less a price for each doubtful one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.engine.chosen_settings import TriedSettings
from nearkin.engine.keywords import RunParameters
from nearkin.quality.evaluate.doubtful_removals import MOST_BACKGROUND, Reason, draw_places
from nearkin.quality.evaluate.pair_evidence import Background, prepare_texts
from nearkin.quality.fit.documents import FitDocuments
from nearkin.quality.fit.match_weights import level_of, propose_weights
from nearkin.runs.temporary_runs import prepare_run
from nearkin.runs.trial import find_doubtful
from nearkin.runtime.progress import LoggedProgress
from nearkin.settings.acceptance import MatchWeight
from nearkin.settings.acceptance.parser import MAX_LENGTH
from nearkin.stages.cluster import kernels
from nearkin.stages.packed_pairs import unpack_pairs
from nearkin.stages.verify.column_similarity import compare_values

SHINGLE = "chars:3"
MEASURE = "idf-jaccard"
LOWEST = 0.25
"""The similarity of the joined texts from which rows are compared."""
MOST_COLUMNS = 50
"""The number of columns up to which weights are found. The work grows with its cube."""
NEIGHBOURS = (1, 3, 5)
"""The numbers of most similar rows of a row among which duplicates are sought. More are needed if a
row has many copies, and fewer if it resembles many others by chance."""
LEAST_PAIRS = 10
"""The number of pairs below which weights are not judged."""
MOST_LEARNED = 10_000
"""The largest number of pairs from which weights are learned, the most similar ones."""
PROBABILITIES = (0.5, 0.8, 0.95, 0.99, 0.999)
"""The probabilities from which a pair is taken for duplicates, one after the other."""
GLANCED = 60
"""The number of pairs of a proposal that are examined first."""
MOST_AT_A_GLANCE = 0.7
"""The share of doubtful ones of these from which a proposal is not examined further."""
EXAMINED = 300
"""The largest number of pairs of a proposal that are examined."""
SEED = 4
PRICE_OF_DOUBT = 2.5
"""The number of found pairs that a doubtful one outweighs, so that proposals are refused of which
more than 40 % of the pairs are doubtful."""
LOST = 0.02
"""The share of the found pairs that may be less similar than the lowest similarity of the run."""


class _SimilarRows(NamedTuple):
    """Pairs of similar rows of a sample."""

    first: np.ndarray
    """int64 (m,): The number of one row of each pair."""
    second: np.ndarray
    """int64 (m,): The number of the other row."""
    similarity: np.ndarray
    """float64 (m,): The similarity of the joined texts."""
    farther: np.ndarray
    """int64 (m,): The larger rank of one row among the neighbours of the other, from 0."""

    def select(self, rows: np.ndarray) -> "_SimilarRows":
        return _SimilarRows(
            first=self.first[rows],
            second=self.second[rows],
            similarity=self.similarity[rows],
            farther=self.farther[rows],
        )

    def find_closest(self, neighbours: int) -> np.ndarray:
        """Returns which pairs are among the nearest ones of both rows, bool (m,)."""
        near = np.flatnonzero(self.farther < neighbours)
        is_closest = np.zeros(len(self.farther), bool)
        is_closest[near[np.argsort(-self.similarity[near], kind="stable")[:MOST_LEARNED]]] = True
        return is_closest


class _ChosenCondition(NamedTuple):
    """A condition on weights, and the pairs for which it holds."""

    condition: MatchWeight
    is_found: np.ndarray
    """bool (m,)"""


def choose_weights(
    documents: FitDocuments, table: pa.Table, workers: int, memory: int | str
) -> TriedSettings:
    """Finds weights of the columns of a sample, and what a run over it removes with them."""
    assert documents.texts is not None
    columns = documents.texts.columns
    tried = TriedSettings(SHINGLE, MEASURE, None)
    if len(columns) > MOST_COLUMNS:
        return tried
    settings: RunParameters = {"text": list(columns), "shingle": SHINGLE, "measure": MEASURE}
    pairs = _find_similar_rows(settings, table, workers, memory)
    values = [documents.texts.of_documents.field(column) for column in columns]
    levels = np.column_stack(
        [level_of(compare_values(value, pairs.first, pairs.second)) for value in values]
    )
    best = _choose_condition(columns, levels, pairs, documents) if len(levels) else None
    if best is None:
        return tried
    found = np.quantile(pairs.similarity[best.is_found], LOST)
    lowest = max(LOWEST, math.floor(found * 100) / 100)
    accept = f"idf_jaccard >= {lowest:g} and {best.condition}"
    if len(accept) > MAX_LENGTH:
        return tried
    doubtful = find_doubtful({**settings, "accept": accept}, table, workers, memory)
    if doubtful is None or doubtful.near < LEAST_PAIRS:
        return tried
    counted = doubtful.doubtful - doubtful.reasons[Reason.UNLIKE]
    undoubted = doubtful.near * (1 - counted / doubtful.examined)
    return TriedSettings(SHINGLE, MEASURE, lowest, doubtful.near, undoubted, accept)


def weigh_doubts(tried: TriedSettings) -> float:
    """Returns the number of removals of a definition, less `PRICE_OF_DOUBT` for each doubtful one.

    Examples:
        >>> weigh_doubts(TriedSettings("chars:3", "jaccard", 0.7, removed=100, undoubted=90.0))
        75.0
    """
    return tried.removed - PRICE_OF_DOUBT * (tried.removed - tried.undoubted)


def _find_similar_rows(
    settings: RunParameters, table: pa.Table, workers: int, memory: int | str
) -> _SimilarRows:
    """Returns the pairs of the most similar rows, in the order of packed pairs."""
    parameters: RunParameters = {
        **settings,
        "threshold": LOWEST,
        "workers": workers,
        "memory": memory,
    }
    if "source" in table.column_names:
        parameters["across"] = "source"
    # The folder of the run is deleted with it.
    temporary = prepare_run(table, "id", None, LoggedProgress(), parameters)
    temporary.run.to_pairs()
    scored = temporary.run.scored()
    first, second = unpack_pairs(np.array(scored.pairs))
    similarity = np.array(scored.similarity)
    ranks = _rank_neighbours(first, similarity), _rank_neighbours(second, similarity)
    pairs = _SimilarRows(first, second, similarity, np.maximum(*ranks))
    return pairs.select(np.flatnonzero(np.minimum(*ranks) < max(NEIGHBOURS)))


def _rank_neighbours(rows: np.ndarray, similarity: np.ndarray) -> np.ndarray:
    """Returns the rank of each pair among those of its row, the most similar first, int64 (m,).

    Examples:
        >>> _rank_neighbours(np.array([7, 7, 2]), np.array([0.5, 0.9, 0.4])).tolist()
        [1, 0, 0]
    """
    order = np.lexsort((-similarity, rows))
    ordered = rows[order]
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    return ranks


def _choose_condition(
    columns: Sequence[str], levels: np.ndarray, pairs: _SimilarRows, documents: FitDocuments
) -> _ChosenCondition | None:
    """Returns the condition that finds most pairs without doubt, or None if doubts outweigh."""
    doubts = _PairDoubts(documents, pairs)
    best = None
    most = 0.0
    for neighbours in NEIGHBOURS:
        for proposal in propose_weights(columns, levels, pairs.find_closest(neighbours)):
            found = np.flatnonzero(proposal.totals >= proposal.least(PROBABILITIES[0]))
            doubts.group(found)
            glanced = found[draw_places(len(found), GLANCED, SEED + 2)]
            if doubts.find(glanced).sum() > MOST_AT_A_GLANCE * len(glanced):
                continue
            examined = found[draw_places(len(found), EXAMINED, SEED + 1)]
            is_doubtful = doubts.find(examined)
            for probability in PROBABILITIES:
                least = proposal.least(probability)
                is_found = proposal.totals >= least
                remaining = is_doubtful[is_found[examined]]
                if len(remaining) < LEAST_PAIRS:
                    break
                gain = is_found.sum() * (1 - PRICE_OF_DOUBT * remaining.mean())
                if gain > most:
                    most = gain
                    condition = MatchWeight(proposal.columns, least)
                    best = _ChosenCondition(condition, is_found)
    return best


class _PairDoubts:
    """The doubts whether pairs of rows are duplicates, by the words in which they differ."""

    def __init__(self, documents: FitDocuments, pairs: _SimilarRows) -> None:
        self._texts = prepare_texts(documents.contents, ())
        self._pairs = pairs
        self._clusters = np.arange(len(self._texts))
        self._others = draw_places(len(self._texts), MOST_BACKGROUND, SEED)
        self._background = Background(
            [self._texts[row] for row in self._others.tolist()],
            self._clusters[self._others],
            len(self._texts),
            has_sources=documents.sources is not None,
        )

    def group(self, found: np.ndarray) -> None:
        """Takes the rows of found pairs, int64 (k,), for clusters, whose words are no evidence."""
        cluster = np.arange(len(self._texts), dtype=np.uint32)
        first = self._pairs.first[found].astype(np.uint32)
        kernels.unite(self._pairs.second[found].astype(np.uint32), first, cluster)
        kernels.flatten(cluster)
        self._clusters = cluster.astype(np.int64)
        self._background.group(self._clusters[self._others])

    def find(self, examined: np.ndarray) -> np.ndarray:
        """Returns whether the words of each examined pair say that it may be distinct, bool (k,).

        Few common words do not count: the values of the columns are similar all the same.
        """
        first, second = self._pairs.first[examined], self._pairs.second[examined]
        compared = self._background.compare(
            [self._texts[row] for row in first.tolist()],
            [self._texts[row] for row in second.tolist()],
            self._clusters[first],
        )
        reasons = [Reason.of_evidence(evidence) for evidence in compared]
        return np.array([reason not in (None, Reason.UNLIKE) for reason in reasons], bool)
