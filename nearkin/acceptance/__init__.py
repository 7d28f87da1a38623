"""Acceptance: an expression over a verified pair that decides if one document may be removed."""

from nearkin.acceptance.expression import And, Comparison, Expression, Not, NumbersEqual, Or, Same
from nearkin.acceptance.parser import parse_expression

__all__ = [
    "And",
    "Comparison",
    "Expression",
    "Not",
    "NumbersEqual",
    "Or",
    "Same",
    "parse_expression",
]
