"""The acceptance of scored pairs in the local engine."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nearkin.acceptance import Expression, NumbersEqual, Same
from nearkin.acceptance.bounds import holds_for_copies
from nearkin.acceptance.expression import (
    Equality,
    Number,
    collect_equalities,
    collect_numbers,
    required_equalities,
)
from nearkin.engine.acceptance import DirectedPairs, measured_number
from nearkin.engine.document_facts import mix_hashes
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.token_runs import TokenRuns
from nearkin.engine.local.verification import Payloads
from nearkin.errors import UsageError
from nearkin.packed_pairs import ScoredPairs, unpack_pairs
from nearkin.setting_names import name_setting
from nearkin.verify.jaccard import compare_sets


def needs_digits(expression: Expression | None) -> bool:
    """Returns whether an acceptance compares the digits of documents."""
    return expression is not None and NumbersEqual() in collect_equalities(expression)


def needs_tokens(expression: Expression | None) -> bool:
    """Returns whether an acceptance compares runs of tokens."""
    return expression is not None and Number.WITNESS in collect_numbers(expression)


def groups_exact_duplicates(expression: Expression | None) -> bool:
    """Returns whether documents with equal shingles and equal facts are surely accepted."""
    return expression is None or holds_for_copies(expression)


def divide_blocks(blocks: np.ndarray, expression: Expression, documents: Documents) -> np.ndarray:
    """Returns blocks of documents that are equal in all that an acceptance requires.

    Pairs of different blocks cannot be accepted, so that they need not be compared.

    Args:
        blocks: Hash of each document's block, uint64 (n,).
        expression: The acceptance.
        documents: Sketched documents.
    """
    return _mix_facts(blocks, _equality_facts(required_equalities(expression), documents))


def group_keys(blocks: np.ndarray, expression: Expression, documents: Documents) -> np.ndarray:
    """Returns a hash of all that an acceptance compares in exact duplicates, uint64 (n,).

    Args:
        blocks: Hash of each document's block, uint64 (n,).
        expression: The acceptance.
        documents: Sketched documents.
    """
    facts = _equality_facts(collect_equalities(expression), documents)
    if Number.LENGTH_RATIO in collect_numbers(expression):
        facts.append(np.asarray(documents.lengths).astype(np.uint64))
    return _mix_facts(blocks, facts)


def _equality_facts(equalities: Iterable[Equality], documents: Documents) -> list[np.ndarray]:
    facts = []
    for equality in equalities:
        fact = _fact_of(equality, documents)
        facts += list(fact.T) if fact.ndim == 2 else [fact]
    return facts


def _mix_facts(blocks: np.ndarray, facts: list[np.ndarray]) -> np.ndarray:
    mixed = blocks
    for fact in facts:
        mixed = mix_hashes(mixed, np.asarray(fact))
    return mixed


def _fact_of(equality: Equality, documents: Documents) -> np.ndarray:
    """Returns what must be equal in two documents, uint64 (n,) or (n, 2)."""
    if isinstance(equality, Same):
        return documents.hash_values(equality.column)
    if documents.digits is None:
        raise UsageError(
            f"{name_setting('accept', str(equality))} needs the digits of the texts, which the "
            "saved signatures do not have; run on the inputs of the saved run"
        )
    return documents.digits


@dataclass(frozen=True)
class PairAcceptance:
    """The acceptance of the scored pairs of a run.

    Attributes:
        expression: The acceptance.
        documents: Sketched documents.
        rank: Position of each document in keep order, uint32 (n,).
        payloads: Shingle sets of the documents.
        facts: What must be equal in two documents, for each equality, uint64 (n,) or (n, 2).
        tokens: Tokens of the documents, or None if the acceptance does not need them.
    """

    expression: Expression
    documents: Documents
    rank: np.ndarray
    payloads: Payloads
    facts: dict[Equality, np.ndarray]
    tokens: TokenRuns | None

    @classmethod
    def create(
        cls,
        expression: Expression,
        documents: Documents,
        rank: np.ndarray,
        payloads: Payloads,
        tokens: TokenRuns | None,
    ) -> "PairAcceptance":
        """Collects the facts of the documents.

        Args:
            expression: The acceptance.
            documents: Sketched documents.
            rank: Position of each document in keep order, uint32 (n,).
            payloads: Shingle sets of the documents.
            tokens: Tokens of the documents, or None if the acceptance does not need them.
        """
        facts = {
            equality: _fact_of(equality, documents) for equality in collect_equalities(expression)
        }
        return cls(expression, documents, rank, payloads, facts, tokens)

    def select(self, scored: ScoredPairs) -> ScoredPairs:
        """Returns the scored pairs that are accepted.

        Args:
            scored: Scored pairs. The later document in keep order would be removed.
        """
        pairs = _LocalPairs(self, scored)
        return scored.select(pairs.accept(self.expression, len(scored.pairs)))


class _LocalPairs(DirectedPairs):
    """The values of scored pairs of stored documents.

    Args:
        acceptance: Acceptance of the run.
        scored: Scored pairs.
    """

    def __init__(self, acceptance: PairAcceptance, scored: ScoredPairs) -> None:
        super().__init__(measured_number(acceptance.payloads.measure.spec.measure))
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
        stored = self._acceptance.payloads.stored
        pairs = np.asarray(self._scored.pairs[rows])
        return compare_sets(pairs, stored.place, stored.starts, stored.columns[0]).intersection

    def sizes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        payloads = self._acceptance.payloads
        return payloads.count_shingles(self._removed[rows]), payloads.count_shingles(
            self._kept[rows]
        )

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengths = self._acceptance.documents.lengths
        removed = np.asarray(lengths[self._removed[rows]])
        return removed, np.asarray(lengths[self._kept[rows]])

    def witnesses(self, rows: np.ndarray) -> np.ndarray:
        tokens = self._acceptance.tokens
        assert tokens is not None
        return tokens.longest_shared(self._removed[rows], self._kept[rows])

    def are_equal(self, equality: Equality, rows: np.ndarray) -> np.ndarray:
        fact = self._acceptance.facts[equality]
        equal: np.ndarray = np.asarray(fact[self._removed[rows]] == fact[self._kept[rows]])
        return np.asarray(equal if equal.ndim == 1 else equal.all(axis=1))
