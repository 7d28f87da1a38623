"""The smallest similarities at which an acceptance expression can hold.

They decide how candidate pairs are found.
"""

from dataclasses import dataclass
from typing import TypeAlias

from nearkin.settings.acceptance.expression import (
    And,
    Comparison,
    Differ,
    Expression,
    Not,
    Number,
    Operator,
    Or,
)

NEGATED = {
    Operator.AT_LEAST: Operator.BELOW,
    Operator.ABOVE: Operator.AT_MOST,
    Operator.AT_MOST: Operator.ABOVE,
    Operator.BELOW: Operator.AT_LEAST,
}
"""The operator that holds where another one does not. The negation of `==` bounds nothing."""
LOWER = (Operator.AT_LEAST, Operator.ABOVE, Operator.EQUAL)
"""The operators that bound a number from below."""
ROUNDING = 1e-12
"""The share by which a computed bound is lowered, so that its rounding excludes no pair."""
Truth: TypeAlias = bool | None
"""True or False if it is known whether a condition holds, otherwise None."""


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of the numbers of all pairs for which an expression holds.

    Attributes:
        jaccard: Lower bound of the Jaccard similarity.
        containment: Lower bound of the containment of the removed document in the kept one.
        containment_of_kept: Lower bound of the containment of the kept document in the removed one.
        idf_jaccard: Lower bound of the idf-weighted Jaccard similarity.
    """

    jaccard: float = 0.0
    containment: float = 0.0
    containment_of_kept: float = 0.0
    idf_jaccard: float = 0.0

    @property
    def overlap(self) -> float:
        """The lower bound of the containment of the smaller document in the larger one."""
        return max(self.containment, self.containment_of_kept)

    def tighten(self) -> "Bounds":
        """Returns the bounds that follow from these.

        Let I be the size of the intersection of the sets R and K, so that c = I/|R|, k = I/|K| and
        j = I/(|R| + |K| - I) = 1/(1/c + 1/k - 1). This grows with c and k, and j is at most both.

        Examples:
            >>> round(Bounds(containment=0.5, containment_of_kept=0.5).tighten().jaccard, 6)
            0.333333
            >>> Bounds(jaccard=0.8).tighten().containment
            0.8
        """
        containment = max(self.containment, self.jaccard)
        of_kept = max(self.containment_of_kept, self.jaccard)
        jaccard = self.jaccard
        if containment > 0 and of_kept > 0:
            least = 1 / (1 / containment + 1 / of_kept - 1)
            jaccard = max(jaccard, least * (1 - ROUNDING))
        return Bounds(jaccard, containment, of_kept, self.idf_jaccard)


def compute_bounds(expression: Expression) -> Bounds:
    """Returns lower bounds of the pairs for which an expression holds.

    Examples:
        >>> from nearkin.settings.acceptance.parser import parse_expression
        >>> compute_bounds(parse_expression("containment >= 0.9 or jaccard > 0.7")).containment
        0.7
    """
    return _bounds_of(expression, negated=False)


def _bounds_of(expression: Expression, *, negated: bool) -> Bounds:
    if isinstance(expression, Not):
        return _bounds_of(expression.operand, negated=not negated)
    if isinstance(expression, Comparison):
        return _bounds_of_comparison(expression, negated=negated)
    if not isinstance(expression, And | Or):
        return Bounds()
    parts = [_bounds_of(operand, negated=negated) for operand in expression.operands]
    all_hold = isinstance(expression, And) is not negated
    choose = max if all_hold else min
    return Bounds(
        choose(part.jaccard for part in parts),
        choose(part.containment for part in parts),
        choose(part.containment_of_kept for part in parts),
        choose(part.idf_jaccard for part in parts),
    ).tighten()


def _bounds_of_comparison(comparison: Comparison, *, negated: bool) -> Bounds:
    operator: Operator | None = comparison.operator
    if negated:
        operator = NEGATED.get(comparison.operator)
    if operator not in LOWER:
        return Bounds()
    constant = comparison.constant
    if comparison.number == Number.JACCARD:
        return Bounds(jaccard=constant).tighten()
    if comparison.number == Number.CONTAINMENT:
        return Bounds(containment=constant)
    if comparison.number == Number.CONTAINMENT_OF_KEPT:
        return Bounds(containment_of_kept=constant)
    if comparison.number == Number.IDF_JACCARD:
        return Bounds(idf_jaccard=constant)
    return Bounds()


def holds_for_copies(expression: Expression) -> bool:
    """Returns whether an expression surely holds for documents with equal shingles.

    Their similarities are 1. Whatever else the expression compares is assumed to be equal: the
    wordings, the numbers, the values of columns, and the lengths. The longest shared run is not
    known.

    Examples:
        >>> from nearkin.settings.acceptance.parser import parse_expression
        >>> holds_for_copies(parse_expression("jaccard >= 0.8 and numbers_equal"))
        True
        >>> holds_for_copies(parse_expression("jaccard >= 0.8 and witness >= 50"))
        False
    """
    return _truth_for_copies(expression) is True


def _truth_for_copies(expression: Expression) -> Truth:
    if isinstance(expression, Not):
        truth = _truth_for_copies(expression.operand)
        return None if truth is None else not truth
    if isinstance(expression, Comparison):
        if expression.number == Number.WITNESS:
            return None
        return compare_number(1.0, expression)
    if not isinstance(expression, And | Or):
        return not isinstance(expression, Differ)
    truths = [_truth_for_copies(operand) for operand in expression.operands]
    # `or` is true if one operand is; `and` is false if one operand is.
    deciding = isinstance(expression, Or)
    if any(truth is deciding for truth in truths):
        return deciding
    return None if None in truths else not deciding


def compare_number(value: float, comparison: Comparison) -> bool:
    """Returns whether a comparison holds for a value of its number."""
    constant = comparison.constant
    match comparison.operator:
        case Operator.AT_LEAST:
            return value >= constant
        case Operator.ABOVE:
            return value > constant
        case Operator.AT_MOST:
            return value <= constant
        case Operator.BELOW:
            return value < constant
        case Operator.EQUAL:
            return value == constant
