"""Random acceptance expressions, and their slow and obvious evaluation for one pair."""

from collections.abc import Mapping

from hypothesis import strategies as st

from nearkin.settings.acceptance import (
    And,
    Comparison,
    Differ,
    Expression,
    MatchWeight,
    Not,
    NumbersEqual,
    Or,
    Same,
    SaysAll,
)
from nearkin.settings.acceptance.expression import (
    SHARES,
    ColumnWeights,
    Number,
    Operator,
    WeightLevel,
)

COLUMNS = ("lang", "my column", 'a"b', "größe", "1st", "not", "")
SHARE_VALUES = (0.0, 0.25, 1 / 3, 0.5, 0.98, 1.0, 1e-7)


def _comparisons() -> st.SearchStrategy[Expression]:
    def of_number(number: Number) -> st.SearchStrategy[Expression]:
        constants = st.sampled_from(
            SHARE_VALUES if number in SHARES else (*SHARE_VALUES, 2.0, 50.0)
        )
        return st.builds(Comparison, st.just(number), st.sampled_from(Operator), constants)

    return st.sampled_from(Number).flatmap(of_number)


def _combined(operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(operands, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(Not, operands), st.builds(And, several), st.builds(Or, several))


COLUMN_NAMES = st.sampled_from([column for column in COLUMNS if column])


def _match_weights() -> st.SearchStrategy[Expression]:
    weights = st.integers(-200, 200).map(lambda tenths: tenths / 10)
    similarities = st.lists(st.sampled_from([0.0, 0.25, 0.8, 1.0]), min_size=1, unique=True)
    levels = similarities.flatmap(
        lambda least: st.tuples(
            *(st.builds(WeightLevel, st.just(one), weights) for one in sorted(least, reverse=True))
        )
    )
    columns = st.lists(st.builds(ColumnWeights, COLUMN_NAMES, levels), min_size=1, max_size=3)
    return st.builds(MatchWeight, columns.map(tuple), weights)


EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    st.one_of(
        _comparisons(),
        st.sampled_from([NumbersEqual(), SaysAll()]),
        st.builds(Same, COLUMN_NAMES),
        st.builds(Differ, COLUMN_NAMES),
        _match_weights(),
    ),
    _combined,
    max_leaves=6,
)


def holds(expression: Expression, pair: Mapping[object, float | bool]) -> bool:
    """Returns whether an expression holds for the values of one pair."""
    match expression:
        case Comparison(number, operator, constant):
            value = pair[number]
            return {
                ">=": value >= constant,
                ">": value > constant,
                "<=": value <= constant,
                "<": value < constant,
                "==": value == constant,
            }[operator]
        case Not(operand):
            return not holds(operand, pair)
        case And(operands):
            return all(holds(operand, pair) for operand in operands)
        case Or(operands):
            return any(holds(operand, pair) for operand in operands)
    return bool(pair[expression])
