from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearkin.settings.acceptance import Expression, SaysAll, parse_expression
from nearkin.settings.acceptance.evaluation import accept_pairs
from nearkin.settings.acceptance.expression import (
    Number,
    Predicate,
    collect_numbers,
    collect_predicates,
)
from tests.settings.acceptance.strategies import EXPRESSIONS, SHARE_VALUES, holds

Pair: TypeAlias = Mapping[object, float | bool]


class RecordedValues:
    """Values of pairs, which record how often each number of a pair was computed."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs
        self.computed: list[tuple[Number, int]] = []
        self.satisfied: list[tuple[Predicate, int]] = []

    def numbers(self, number: Number, rows: np.ndarray) -> np.ndarray:
        self.computed += [(number, row) for row in rows.tolist()]
        return np.array([self.pairs[row][number] for row in rows.tolist()], np.float64)

    def satisfy(self, predicate: Predicate, rows: np.ndarray) -> np.ndarray:
        self.satisfied += [(predicate, row) for row in rows.tolist()]
        return np.array([self.pairs[row][predicate] for row in rows.tolist()], bool)


@st.composite
def expressions_and_pairs(draw: st.DrawFn) -> tuple[Expression, list[Pair]]:
    expression = draw(EXPRESSIONS)
    values = {number: st.sampled_from(SHARE_VALUES) for number in Number}
    values |= {predicate: st.booleans() for predicate in collect_predicates(expression)}
    return expression, draw(st.lists(st.fixed_dictionaries(values), max_size=8))


@given(expressions_and_pairs())
def test_pairs_are_accepted_as_by_evaluation_in_python(
    case: tuple[Expression, list[Pair]],
) -> None:
    expression, pairs = case
    values = RecordedValues(pairs)
    accepted = accept_pairs(expression, values, len(pairs)).tolist()
    assert accepted == [row for row, pair in enumerate(pairs) if holds(expression, pair)]
    assert {number for number, _ in values.computed} <= collect_numbers(expression)


def test_texts_are_compared_only_for_pairs_that_the_rest_leaves_undecided() -> None:
    expression = parse_expression("(witness >= 50 or jaccard >= 0.9) and containment >= 0.5")
    pairs: list[Pair] = [
        {Number.WITNESS: 60.0, Number.JACCARD: 0.2, Number.CONTAINMENT: 0.1},
        {Number.WITNESS: 10.0, Number.JACCARD: 0.95, Number.CONTAINMENT: 0.9},
        {Number.WITNESS: 60.0, Number.JACCARD: 0.2, Number.CONTAINMENT: 0.9},
    ]
    values = RecordedValues(pairs)
    assert accept_pairs(expression, values, 3).tolist() == [1, 2]
    assert [row for number, row in values.computed if number == Number.WITNESS] == [2]


def test_wordings_are_compared_only_for_pairs_that_the_rest_leaves_undecided() -> None:
    expression = parse_expression("(says_all or jaccard >= 0.9) and containment >= 0.5")
    says_all = SaysAll()
    pairs: list[Pair] = [
        {says_all: True, Number.JACCARD: 0.2, Number.CONTAINMENT: 0.1},
        {says_all: False, Number.JACCARD: 0.95, Number.CONTAINMENT: 0.9},
        {says_all: True, Number.JACCARD: 0.2, Number.CONTAINMENT: 0.9},
    ]
    values = RecordedValues(pairs)
    assert accept_pairs(expression, values, 3).tolist() == [1, 2]
    assert values.satisfied == [(says_all, 2)]
