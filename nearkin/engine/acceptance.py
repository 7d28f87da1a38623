"""The acceptance of scored pairs."""

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import final

import numpy as np

from nearkin.engine.document_facts import TextFact
from nearkin.engine.token_runs import TokenKind
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.acceptance import (
    And,
    Comparison,
    Expression,
    NumbersEqual,
    SaysAll,
    parse_expression,
)
from nearkin.settings.acceptance.bounds import Bounds, compute_bounds, holds_for_copies
from nearkin.settings.acceptance.evaluation import accept_pairs
from nearkin.settings.acceptance.expression import (
    Number,
    Operator,
    Predicate,
    collect_columns,
    collect_numbers,
    collect_predicates,
    required_equalities,
)
from nearkin.settings.acceptance.parser import SIMILAR
from nearkin.settings.spec import IDF_JACCARD

LEAST_BANDED = 0.5
"""The smallest lower bound of the Jaccard similarity for which bands alone find candidate pairs.
Below it, pairs are also found by containment, if the expression bounds it."""


def measured_number(measure: str) -> Number:
    """Returns the number of a pair that the scored pairs of a measure contain."""
    return Number.IDF_JACCARD if measure == IDF_JACCARD else Number.JACCARD


def columns_of_acceptance(accept: str) -> tuple[str, ...]:
    """Returns the columns that an acceptance reads, each once.

    Examples:
        >>> columns_of_acceptance("jaccard >= 0.8 and same(lang)")
        ('lang',)
    """
    return () if accept.strip() == SIMILAR else collect_columns(parse_expression(accept))


def combine_acceptance(
    accept: str, max_lost: float | None, threshold: float, measure: str
) -> Expression | None:
    """Returns the expression that decides which documents are removed.

    Examples:
        >>> print(combine_acceptance("similar", 0.05, 0.8, "jaccard"))
        jaccard >= 0.8 and containment >= 0.95
    """
    is_similar = accept.strip() == SIMILAR
    if is_similar and max_lost is None:
        return None
    expression: Expression
    if is_similar:
        expression = Comparison(measured_number(measure), Operator.AT_LEAST, threshold)
    else:
        expression = parse_expression(accept)
    if max_lost is None:
        return expression
    # 1 - 0.05 is 0.95 as a decimal, and 0.9500000000000001 after 1 - 0.05 in binary.
    least = float(1 - Decimal(str(max_lost)))
    enough = Comparison(Number.CONTAINMENT, Operator.AT_LEAST, least)
    if isinstance(expression, And):
        return And((*expression.operands, enough))
    return And((expression, enough))


def require_acceptable(expression: Expression, measure: str) -> Bounds:
    """Requires that a measure has the numbers of an expression and can find candidates."""
    numbers = collect_numbers(expression)
    bounds = compute_bounds(expression)
    shown = name_setting("accept", str(expression))
    if measure != IDF_JACCARD and Number.IDF_JACCARD in numbers:
        raise UsageError(
            f"{shown} needs the weights of shingles, which {name_setting('measure', measure)} does "
            f"not have; give {name_setting('measure', IDF_JACCARD)}"
        )
    if measure == IDF_JACCARD and not bounds.idf_jaccard:
        raise UsageError(
            f"{shown} can hold for documents of any weighted similarity; with "
            f"{name_setting('measure', measure)}, add a condition such as idf_jaccard >= 0.5"
        )
    if measure != IDF_JACCARD and not bounds.overlap:
        raise UsageError(
            f"{shown} can hold for documents that share no shingle; add a condition such as "
            "jaccard >= 0.5 or containment >= 0.9"
        )
    return bounds


TEXT_FACTS: dict[Predicate, TextFact] = {
    NumbersEqual(): TextFact.NUMBERS,
    SaysAll(): TextFact.WORDING,
}
"""The facts that copies must share for a condition on the wordings of documents."""


def text_facts_of(expression: Expression | None) -> tuple[TextFact, ...]:
    """Returns what an acceptance compares of the wordings of documents, as hashes."""
    if expression is None:
        return ()
    predicates = collect_predicates(expression)
    return tuple(fact for predicate, fact in TEXT_FACTS.items() if predicate in predicates)


def token_kinds_of(expression: Expression | None) -> tuple[TokenKind, ...]:
    """Returns the kinds of tokens whose order an acceptance compares."""
    if expression is None:
        return ()
    kinds = []
    if Number.WITNESS in collect_numbers(expression):
        kinds.append(TokenKind.SHINGLED)
    if SaysAll() in collect_predicates(expression):
        kinds.append(TokenKind.WORDING)
    return tuple(kinds)


def groups_exact_duplicates(expression: Expression | None) -> bool:
    """Returns whether documents with equal shingles and equal facts are surely accepted."""
    return expression is None or holds_for_copies(expression)


def accepts_all_copies(expression: Expression | None) -> bool:
    """Returns whether exact duplicates are accepted if they are equal in all that is required.

    Otherwise further facts decide, such as the lengths of the texts.

    Examples:
        >>> accepts_all_copies(parse_expression("jaccard >= 0.8 and same(lang)"))
        True
        >>> accepts_all_copies(parse_expression("safe"))
        False
    """
    if expression is None:
        return True
    has_further_facts = set(collect_predicates(expression)) > set(required_equalities(expression))
    has_further_facts |= Number.LENGTH_RATIO in collect_numbers(expression)
    return holds_for_copies(expression) and not has_further_facts


class DirectedPairs(ABC):
    """The values of a batch of scored pairs, of each of which one document would be removed."""

    def __init__(self, measured: Number) -> None:
        self._measured = measured

    @abstractmethod
    def similarity(self, rows: np.ndarray) -> np.ndarray:
        """Returns the verified similarity of some pairs, float64 (m,)."""

    @abstractmethod
    def shared(self, rows: np.ndarray) -> np.ndarray:
        """Returns the number of shingles in both documents of some pairs, (m,)."""

    @abstractmethod
    def sizes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of shingles of the removed and of the kept documents, (m,) each."""

    @abstractmethod
    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the bytes of the removed and of the kept documents, (m,) each."""

    @abstractmethod
    def witnesses(self, rows: np.ndarray) -> np.ndarray:
        """Returns the tokens of the longest run that both documents contain, int64 (m,)."""

    @abstractmethod
    def satisfy(self, predicate: Predicate, rows: np.ndarray) -> np.ndarray:
        """Returns for which of some pairs a condition holds that compares no number, bool (m,).

        Args:
            rows: Positions of the pairs in the batch, int64 (m,), ascending.
        """

    @final
    def numbers(self, number: Number, rows: np.ndarray) -> np.ndarray:
        """Returns a number of some pairs, float64 or int64 (m,).

        Args:
            rows: Positions of the pairs in the batch, int64 (m,), ascending.
        """
        if number == self._measured:
            return self.similarity(rows)
        if number == Number.WITNESS:
            return self.witnesses(rows)
        if number == Number.LENGTH_RATIO:
            removed, kept = self.lengths(rows)
            return np.asarray(removed / kept)
        shared = self.shared(rows)
        removed, kept = self.sizes(rows)
        if number == Number.CONTAINMENT:
            return np.asarray(shared / removed)
        if number == Number.CONTAINMENT_OF_KEPT:
            return np.asarray(shared / kept)
        assert number == Number.JACCARD
        return np.asarray(shared / (removed + kept - shared))

    @final
    def accept(self, expression: Expression, pairs: int) -> np.ndarray:
        """Returns the positions of the pairs for which an expression holds, int64, ascending."""
        return accept_pairs(expression, self, pairs)
