"""Facts of stored documents that an acceptance compares."""

from collections.abc import Mapping

import numpy as np

from nearkin.engine.acceptance import TEXT_FACTS
from nearkin.engine.documents import Documents
from nearkin.engine.pair_acceptance import PairAcceptance
from nearkin.engine.token_runs import TokenKind, TokenRuns
from nearkin.engine.verification import Payloads
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.acceptance import Differ, Expression, MatchWeight, Same
from nearkin.settings.acceptance.expression import Predicate, collect_predicates, collect_weights


def read_fact(documents: Documents, predicate: Predicate) -> np.ndarray:
    """Returns hashes of what a condition compares in two documents, uint64 (n,) or (n, width)."""
    if isinstance(predicate, MatchWeight):
        columns = (weights.column for weights in predicate.columns)
        return np.stack([documents.hash_compared_values(column) for column in columns], axis=1)
    if isinstance(predicate, Same | Differ):
        return documents.hash_compared_values(predicate.column)
    fact = TEXT_FACTS[predicate]
    if fact not in documents.text_facts:
        raise UsageError(
            f"{name_setting('accept', str(predicate))} needs the {fact} of the texts, which the "
            "saved signatures do not have; run on the inputs of the saved run"
        )
    return documents.text_facts[fact]


def create_acceptance(
    expression: Expression,
    documents: Documents,
    rank: np.ndarray,
    payloads: Payloads,
    runs: Mapping[TokenKind, TokenRuns],
) -> PairAcceptance:
    """Returns the acceptance of the scored pairs of a run.

    Args:
        rank: Position of each document in keep order, uint32 (n,).
    """
    return PairAcceptance(
        expression=expression,
        measure=payloads.measure.spec.measure,
        stored=payloads.stored,
        rank=rank,
        lengths=documents.lengths,
        facts={
            predicate: read_fact(documents, predicate)
            for predicate in collect_predicates(expression)
            if not isinstance(predicate, MatchWeight)
        },
        runs=runs,
        values={
            weights.column: documents.carried[weights.column]
            for condition in collect_weights(expression)
            for weights in condition.columns
        },
    )
