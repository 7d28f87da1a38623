"""Acceptance: an expression over a verified pair that decides if one document may be removed."""

from nearkin.settings.acceptance.expression import (
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
from nearkin.settings.acceptance.parser import parse_expression

__all__ = [
    "And",
    "Comparison",
    "Differ",
    "Expression",
    "MatchWeight",
    "Not",
    "NumbersEqual",
    "Or",
    "Same",
    "SaysAll",
    "parse_expression",
]
