"""The acceptance of scored pairs in the local engine."""

import numpy as np

from nearkin.acceptance import Expression, Same
from nearkin.acceptance.expression import Equality, collect_equalities
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.verification import Payloads
from nearkin.engine.pair_acceptance import PairAcceptance
from nearkin.engine.token_runs import TokenRuns
from nearkin.errors import UsageError
from nearkin.setting_names import name_setting


def read_fact(documents: Documents, equality: Equality) -> np.ndarray:
    """Returns what must be equal in two documents, uint64 (n,) or (n, 2).

    Args:
        documents: Sketched documents.
        equality: The equality.

    Raises:
        UsageError: If the digits are needed and the documents of a saved run do not have them.
    """
    if isinstance(equality, Same):
        return documents.hash_values(equality.column)
    if documents.digits is None:
        raise UsageError(
            f"{name_setting('accept', str(equality))} needs the digits of the texts, which the "
            "saved signatures do not have; run on the inputs of the saved run"
        )
    return documents.digits


def create_acceptance(
    expression: Expression,
    documents: Documents,
    rank: np.ndarray,
    payloads: Payloads,
    tokens: TokenRuns | None,
) -> PairAcceptance:
    """Returns the acceptance of the scored pairs of a run.

    Args:
        expression: The acceptance.
        documents: Sketched documents.
        rank: Position of each document in keep order, uint32 (n,).
        payloads: Shingle sets of the documents.
        tokens: Tokens of the documents, or None if the acceptance does not need them.
    """
    return PairAcceptance(
        expression=expression,
        measure=payloads.measure.spec.measure,
        stored=payloads.stored,
        rank=rank,
        lengths=documents.lengths,
        facts={
            equality: read_fact(documents, equality) for equality in collect_equalities(expression)
        },
        longest_shared=None if tokens is None else tokens.longest_shared,
    )
