"""The tree of an acceptance expression.

A pair has a direction: the later document in keep order is the removed one, the other one is kept.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

BARE_COLUMN = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
"""The names of columns that need no quotation marks in an expression."""


class Number(StrEnum):
    """The numbers of a pair that an expression compares with constants."""

    JACCARD = "jaccard"
    """The Jaccard similarity of the two shingle sets."""
    CONTAINMENT = "containment"
    """The share of the removed document's shingles that the kept one contains."""
    CONTAINMENT_OF_KEPT = "containment_of_kept"
    """The share of the kept document's shingles that the removed one contains."""
    LENGTH_RATIO = "length_ratio"
    """The size of the removed text divided by the size of the kept one, in bytes."""
    WITNESS = "witness"
    """The number of tokens of the longest run that both texts contain."""
    IDF_JACCARD = "idf_jaccard"
    """The idf-weighted Jaccard similarity."""


SHARES = frozenset(
    {Number.JACCARD, Number.CONTAINMENT, Number.CONTAINMENT_OF_KEPT, Number.IDF_JACCARD}
)
"""The numbers that are from 0 to 1."""
NUMBERS_EQUAL = "numbers_equal"
SAYS_ALL = "says_all"
SAME = "same"
DIFFER = "differ"
MATCH_WEIGHT = "match_weight"


class Operator(StrEnum):
    """The comparisons of a number with a constant."""

    AT_LEAST = ">="
    ABOVE = ">"
    AT_MOST = "<="
    BELOW = "<"
    EQUAL = "=="


@dataclass(frozen=True)
class Comparison:
    """The comparison of a number of a pair with a constant.

    Attributes:
        number: Number of the pair.
        operator: Operator between the number and the constant.
        constant: Finite constant, at least 0.
    """

    number: Number
    operator: Operator
    constant: float

    def __str__(self) -> str:
        constant = self.constant
        text = str(int(constant)) if constant.is_integer() and constant < 2**53 else repr(constant)
        return f"{self.number} {self.operator} {text}"


@dataclass(frozen=True)
class NumbersEqual:
    """The condition that the numbers of both original texts, in order, are written equally."""

    def __str__(self) -> str:
        return NUMBERS_EQUAL


@dataclass(frozen=True)
class SaysAll:
    """The condition that the kept document says all that the removed one says.

    The wordings of both original texts decide. See `nearkin.stages.wording`.
    """

    def __str__(self) -> str:
        return SAYS_ALL


@dataclass(frozen=True)
class Same:
    """The condition that both documents have the same value of a column.

    Attributes:
        column: Name of the column. All documents without a value have the same one.
    """

    column: str

    def __str__(self) -> str:
        return f"{SAME}({_write_column(self.column)})"


@dataclass(frozen=True)
class Differ:
    """The condition that both documents have a value of a column, and not the same one.

    Attributes:
        column: Name of the column.
    """

    column: str

    def __str__(self) -> str:
        return f"{DIFFER}({_write_column(self.column)})"


class WeightLevel(NamedTuple):
    """A weight of the values of a column that are similar enough."""

    least: float
    """The smallest similarity of the values, from 0 to 1."""
    weight: float
    """The weight of a pair, positive for duplicates and negative against them."""


@dataclass(frozen=True)
class ColumnWeights:
    """The weights of a column by the similarity of its values.

    Attributes:
        column: Name of the column.
        levels: Weights, the highest similarity first. The first one that a pair reaches counts.
    """

    column: str
    levels: tuple[WeightLevel, ...]

    def __str__(self) -> str:
        levels = (f"{level.least:g}:{level.weight:g}" for level in self.levels)
        return f"{_write_column(self.column)} {' '.join(levels)}"


@dataclass(frozen=True)
class MatchWeight:
    """The condition that the weights of columns add up to enough (Fellegi and Sunter 1969).

    Attributes:
        columns: Weights of each column.
        least: Smallest sum.
    """

    columns: tuple[ColumnWeights, ...]
    least: float

    def __str__(self) -> str:
        return f"{MATCH_WEIGHT}({', '.join(map(str, self.columns))}) >= {self.least:g}"

    @property
    def brief(self) -> str:
        """The condition without the weights."""
        columns = (_write_column(weights.column) for weights in self.columns)
        return f"{MATCH_WEIGHT}({', '.join(columns)}) >= {self.least:g}"


def _write_column(column: str) -> str:
    """Returns the name of a column, in quotation marks if it needs them."""
    if BARE_COLUMN.fullmatch(column):
        return column
    quoted = column.replace('"', '""')
    return f'"{quoted}"'


@dataclass(frozen=True)
class Not:
    """The condition that another condition does not hold.

    Attributes:
        operand: The other condition.
    """

    operand: "Expression"

    def __str__(self) -> str:
        return f"not {_enclose(self.operand)}"


@dataclass(frozen=True)
class And:
    """The condition that all of several conditions hold.

    Attributes:
        operands: Two or more conditions.
    """

    operands: tuple["Expression", ...]

    def __str__(self) -> str:
        return " and ".join(map(_enclose, self.operands))


@dataclass(frozen=True)
class Or:
    """The condition that at least one of several conditions holds.

    Attributes:
        operands: Two or more conditions.
    """

    operands: tuple["Expression", ...]

    def __str__(self) -> str:
        return " or ".join(map(_enclose, self.operands))


Equality: TypeAlias = NumbersEqual | Same
Predicate: TypeAlias = Equality | Differ | MatchWeight | SaysAll
Expression: TypeAlias = Comparison | Predicate | Not | And | Or


def _enclose(expression: Expression) -> str:
    """Returns an operand, in parentheses if it has operands itself."""
    if isinstance(expression, And | Or):
        return f"({expression})"
    return str(expression)


def collect_numbers(expression: Expression) -> frozenset[Number]:
    """Returns the numbers that an expression compares."""
    return frozenset(
        leaf.number for leaf in _collect_leaves(expression) if isinstance(leaf, Comparison)
    )


def collect_predicates(expression: Expression) -> tuple[Predicate, ...]:
    """Returns the conditions of an expression that compare no number, each once, in order."""
    leaves = _collect_leaves(expression)
    return tuple(dict.fromkeys(leaf for leaf in leaves if not isinstance(leaf, Comparison)))


def collect_columns(expression: Expression) -> tuple[str, ...]:
    """Returns the columns that an expression reads, each once, in order.

    Examples:
        >>> collect_columns(And((Same("lang"), Not(Differ("doi")), Same("site"))))
        ('lang', 'doi', 'site')
    """
    predicates = collect_predicates(expression)
    columns: list[str] = []
    for leaf in predicates:
        if isinstance(leaf, Same | Differ):
            columns.append(leaf.column)
        elif isinstance(leaf, MatchWeight):
            columns.extend(weights.column for weights in leaf.columns)
    return tuple(dict.fromkeys(columns))


def collect_weights(expression: Expression) -> tuple[MatchWeight, ...]:
    """Returns the conditions of an expression on weights of columns, each once, in order."""
    return tuple(leaf for leaf in collect_predicates(expression) if isinstance(leaf, MatchWeight))


def describe_briefly(expression: Expression) -> str:
    """Returns the text of an expression without the weights of columns.

    Examples:
        >>> weights = ColumnWeights("name", (WeightLevel(1, 6.0), WeightLevel(0, -3.0)))
        >>> describe_briefly(And((Same("lang"), MatchWeight((weights,), 5.0))))
        'same(lang) and match_weight(name) >= 5'
    """
    text = str(expression)
    for condition in collect_weights(expression):
        text = text.replace(str(condition), condition.brief)
    return text


def required_equalities(expression: Expression) -> tuple[Equality, ...]:
    """Returns the equalities without which an expression cannot hold.

    Only those are returned that are operands of the outermost `and`, or the expression itself.

    Examples:
        >>> required_equalities(And((Same("lang"), Or((NumbersEqual(), Same("site"))))))
        (Same(column='lang'),)
    """
    operands = expression.operands if isinstance(expression, And) else (expression,)
    return tuple(operand for operand in operands if isinstance(operand, NumbersEqual | Same))


def _collect_leaves(expression: Expression) -> tuple[Comparison | Predicate, ...]:
    if isinstance(expression, Not):
        return _collect_leaves(expression.operand)
    if isinstance(expression, And | Or):
        return tuple(leaf for operand in expression.operands for leaf in _collect_leaves(operand))
    return (expression,)
