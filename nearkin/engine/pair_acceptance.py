"""The acceptance of the scored pairs of stored documents."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.acceptance import DirectedPairs, measured_number
from nearkin.engine.document_facts import NULL_VALUE, mix_hashes
from nearkin.engine.documents import take_values
from nearkin.engine.token_runs import TokenKind, TokenRuns
from nearkin.settings.acceptance import Differ, Expression, MatchWeight, SaysAll
from nearkin.settings.acceptance.expression import (
    ColumnWeights,
    Number,
    Predicate,
    collect_numbers,
    collect_predicates,
    required_equalities,
)
from nearkin.stages.measures.base import StoredPayloads
from nearkin.stages.packed_pairs import ScoredPairs, unpack_pairs
from nearkin.stages.verify.column_similarity import compare_values
from nearkin.stages.verify.jaccard import compare_sets

VALUE_BYTES = 4 << 20
"""The size of the values of a column that are compared at a time, in bytes."""
WEIGHT_DIGITS = 6
"""The number of decimal digits of a sum of weights."""
FactReader: TypeAlias = Callable[[Predicate], np.ndarray]
"""A function that returns what a condition compares in two documents, as hashes of it, uint64 (n,)
or (n, width)."""


def divide_blocks(blocks: np.ndarray, expression: Expression, read_fact: FactReader) -> np.ndarray:
    """Returns blocks of documents that are equal in all that an acceptance requires, uint64 (n,).

    Pairs of different blocks cannot be accepted, so that they need not be compared.

    Args:
        blocks: Hash of each document's block, uint64 (n,).
    """
    return _mix_facts(blocks, map(read_fact, required_equalities(expression)))


def group_keys(
    blocks: np.ndarray, expression: Expression, read_fact: FactReader, lengths: np.ndarray
) -> np.ndarray:
    """Returns a hash of all that an acceptance compares in exact duplicates, uint64 (n,).

    Args:
        blocks: Hash of each document's block, uint64 (n,).
        lengths: Size of each document's text in bytes, int64 (n,).
    """
    keys = _mix_facts(blocks, map(read_fact, collect_predicates(expression)))
    if Number.LENGTH_RATIO in collect_numbers(expression):
        keys = mix_hashes(keys, np.asarray(lengths).astype(np.uint64))
    return keys


def _mix_facts(blocks: np.ndarray, facts: Iterable[np.ndarray]) -> np.ndarray:
    mixed = blocks
    for fact in facts:
        for words in fact.T if fact.ndim == 2 else [fact]:
            mixed = mix_hashes(mixed, np.asarray(words))
    return mixed


@dataclass(frozen=True)
class PairAcceptance:
    """The acceptance of scored pairs.

    Attributes:
        expression: The acceptance.
        measure: Name of the measure that scored the pairs.
        stored: Shingle sets of the documents.
        rank: Position of each document in keep order, integers (n,).
        lengths: Size of each document's text in bytes, int64 (n,).
        facts: Hashes of what each condition compares, uint64 (n,) or (n, width).
        runs: Tokens of the documents, of each kind whose order the acceptance compares.
        values: Values of the columns that have weights, large_string (n,).
    """

    expression: Expression
    measure: str
    stored: StoredPayloads
    rank: np.ndarray
    lengths: np.ndarray
    facts: Mapping[Predicate, np.ndarray]
    runs: Mapping[TokenKind, TokenRuns] = field(default_factory=dict)
    values: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)

    def select(self, scored: ScoredPairs) -> ScoredPairs:
        """Returns the scored pairs that are accepted."""
        return scored.select(self.find_accepted(scored))

    def find_accepted(self, scored: ScoredPairs) -> np.ndarray:
        """Returns the positions of the scored pairs that are accepted, int64, ascending."""
        return _StoredPairs(self, scored).accept(self.expression, len(scored.pairs))


class _StoredPairs(DirectedPairs):
    """The values of scored pairs of stored documents."""

    def __init__(self, acceptance: PairAcceptance, scored: ScoredPairs) -> None:
        super().__init__(measured_number(acceptance.measure))
        self._acceptance = acceptance
        self._scored = scored
        first, second = unpack_pairs(np.asarray(scored.pairs))
        is_first_removed = acceptance.rank[first] > acceptance.rank[second]
        self._removed = np.where(is_first_removed, first, second)
        self._kept = np.where(is_first_removed, second, first)

    def similarity(self, rows: np.ndarray) -> np.ndarray:
        return self._scored.select(rows).similarity

    def shared(self, rows: np.ndarray) -> np.ndarray:
        if self._measured == Number.JACCARD:
            return np.asarray(self._scored.intersection[rows])
        stored = self._acceptance.stored
        pairs = np.asarray(self._scored.pairs[rows])
        return compare_sets(pairs, stored.place, stored.starts, stored.columns[0]).intersection

    def sizes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        stored = self._acceptance.stored
        return stored.count_rows(self._removed[rows]), stored.count_rows(self._kept[rows])

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengths = self._acceptance.lengths
        removed = np.asarray(lengths[self._removed[rows]])
        return removed, np.asarray(lengths[self._kept[rows]])

    def witnesses(self, rows: np.ndarray) -> np.ndarray:
        runs = self._acceptance.runs[TokenKind.SHINGLED]
        return runs.longest_shared(self._removed[rows], self._kept[rows])

    def satisfy(self, predicate: Predicate, rows: np.ndarray) -> np.ndarray:
        removed = self._removed[rows]
        kept = self._kept[rows]
        if isinstance(predicate, SaysAll):
            return self._acceptance.runs[TokenKind.WORDING].find_said(removed, kept)
        if isinstance(predicate, MatchWeight):
            weights = weigh_columns(predicate, self._acceptance.values, removed, kept)
            return add_weights(weights) >= predicate.least
        fact = self._acceptance.facts[predicate]
        first = fact[removed]
        second = fact[kept]
        if isinstance(predicate, Differ):
            has_values = (first != NULL_VALUE) & (second != NULL_VALUE)
            return np.asarray(has_values & (first != second)).reshape(len(rows))
        equal: np.ndarray = np.asarray(first == second)
        return np.asarray(equal if equal.ndim == 1 else equal.all(axis=1))


def weigh_columns(
    condition: MatchWeight,
    values: Mapping[str, pa.ChunkedArray],
    first: np.ndarray,
    second: np.ndarray,
) -> np.ndarray:
    """Returns the weight of each column of pairs of documents, float64 (columns, m).

    Args:
        values: Values of the columns, large_string (n,).
        first: Number of one document of each pair, int64 (m,).
        second: Number of the other document of each pair, int64 (m,).
    """
    weights = np.empty((len(condition.columns), len(first)))
    for row, column in zip(weights, condition.columns, strict=True):
        stored = values[column.column]
        for portion in _divide_pairs(stored, first, second):
            pairs = np.concatenate([first[portion], second[portion]])
            documents, places = np.unique(pairs, return_inverse=True)
            one, other = np.split(places, 2)
            similarities = compare_values(take_values(stored, documents), one, other)
            row[portion] = weigh_similarities(column, similarities)
    return weights


def _divide_pairs(
    values: pa.ChunkedArray, first: np.ndarray, second: np.ndarray
) -> Iterator[slice]:
    """Yields consecutive pairs of values of `VALUE_BYTES` together, or one pair of larger ones.

    Their pairs of characters take eight times as much memory.
    """
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy()
    ends = np.cumsum(lengths[first] + lengths[second])
    start = 0
    while start < len(first):
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + VALUE_BYTES, side="right")))
        yield slice(start, end)
        start = end


def weigh_similarities(column: ColumnWeights, similarities: np.ndarray) -> np.ndarray:
    """Returns the weight of each pair of values of a column, float64 (m,).

    A missing value speaks for nothing: its weight is 0.

    Args:
        column: Weights of the column.
        similarities: Similarities of the values, float64 (m,), NaN if one is missing.

    Examples:
        >>> from nearkin.settings.acceptance.expression import WeightLevel
        >>> column = ColumnWeights("city", (WeightLevel(1, 4.0), WeightLevel(0, -3.0)))
        >>> weigh_similarities(column, np.array([1.0, 0.9, np.nan])).tolist()
        [4.0, -3.0, 0.0]
    """
    least = np.array([level.least for level in reversed(column.levels)])
    weights = np.array([0.0, *(level.weight for level in reversed(column.levels)), 0.0])
    places = np.searchsorted(least, similarities, side="right")
    places[np.isnan(similarities)] = len(weights) - 1
    return weights[places]


def add_weights(weights: np.ndarray) -> np.ndarray:
    """Returns the sum of the weights of each pair, float64 (m,), free of rounding errors."""
    return np.asarray(weights.sum(axis=0).round(WEIGHT_DIGITS))
