"""The evaluation of an acceptance expression for a batch of pairs.

An operand of `and` or `or` is evaluated only for the pairs that the operands before it leave
undecided. Cheap operands come first, so that texts are compared for few pairs.
"""

import operator
from collections.abc import Callable
from typing import Protocol

import numpy as np

from nearkin.settings.acceptance.expression import (
    And,
    Comparison,
    Expression,
    MatchWeight,
    Not,
    Number,
    Operator,
    Or,
    Predicate,
    SaysAll,
    collect_numbers,
    collect_predicates,
)

COMPARE: dict[Operator, Callable[[np.ndarray, float], np.ndarray]] = {
    Operator.AT_LEAST: operator.ge,
    Operator.ABOVE: operator.gt,
    Operator.AT_MOST: operator.le,
    Operator.BELOW: operator.lt,
    Operator.EQUAL: operator.eq,
}


class PairValues(Protocol):
    """The values of a batch of pairs. They are computed when they are needed."""

    def numbers(self, number: Number, rows: np.ndarray) -> np.ndarray:
        """Returns a number of some pairs, float64 or int64 (m,).

        Args:
            rows: Positions of the pairs in the batch, int64 (m,), ascending.
        """

    def satisfy(self, predicate: Predicate, rows: np.ndarray) -> np.ndarray:
        """Returns for which of some pairs a condition holds that compares no number, bool (m,).

        Args:
            rows: Positions of the pairs in the batch, int64 (m,), ascending.
        """


def accept_pairs(expression: Expression, values: PairValues, pairs: int) -> np.ndarray:
    """Returns for which pairs of a batch an expression holds.

    Returns:
        Their positions, int64 (m,), ascending.
    """
    return _select(expression, values, np.arange(pairs))


def _select(expression: Expression, values: PairValues, rows: np.ndarray) -> np.ndarray:
    """Returns the rows for which an expression holds, ascending."""
    if not len(rows):
        return rows
    if isinstance(expression, Comparison):
        numbers = values.numbers(expression.number, rows)
        return rows[COMPARE[expression.operator](numbers, expression.constant)]
    if isinstance(expression, Not):
        return _exclude(rows, _select(expression.operand, values, rows))
    if not isinstance(expression, And | Or):
        return rows[values.satisfy(expression, rows)]
    operands = sorted(expression.operands, key=_compares_texts)
    if isinstance(expression, And):
        for operand in operands:
            rows = _select(operand, values, rows)
        return rows
    undecided = rows
    for operand in operands:
        undecided = _exclude(undecided, _select(operand, values, undecided))
    return _exclude(rows, undecided)


def _exclude(rows: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """Returns the rows that are not excluded. Both are ascending."""
    return np.setdiff1d(rows, excluded, assume_unique=True)


def _compares_texts(expression: Expression) -> bool:
    return Number.WITNESS in collect_numbers(expression) or any(
        isinstance(leaf, SaysAll | MatchWeight) for leaf in collect_predicates(expression)
    )
