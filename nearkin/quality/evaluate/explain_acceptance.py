"""Explains whether the condition of a run lets one document be removed in favour of another."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.corpus import Columns
from nearkin.corpus.validation import content_arrow_type
from nearkin.engine.acceptance import TEXT_FACTS, text_facts_of, token_kinds_of
from nearkin.engine.document_facts import compared_value_hashes, hash_text_facts, text_lengths
from nearkin.engine.options import RunOptions
from nearkin.engine.pair_acceptance import PairAcceptance
from nearkin.engine.token_runs import TokenRuns, create_token_reader
from nearkin.quality.evaluate.explain import RunDocument
from nearkin.settings.acceptance import And, Differ, Expression, Same
from nearkin.settings.acceptance.expression import Predicate, collect_predicates
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.base import as_stored
from nearkin.stages.measures.compared_sets import payload_builder_for_run
from nearkin.stages.measures.explanation import FIRST_PAIR
from nearkin.stages.sketch.resources import SpecResources


@dataclass(frozen=True)
class PairConditions:
    """The condition of a run for two documents, of which either one could be removed.

    Attributes:
        names: Ids of the two documents.
        condition: The condition, in words of its grammar.
        failing: Parts of the condition that do not hold if the first document is removed, and if
            the second one is.
        is_indexed: True if the run looked up all pairs for which the condition can hold, so that
            bands did not decide.
    """

    names: tuple[str, str]
    condition: str
    failing: tuple[tuple[str, ...], tuple[str, ...]]
    is_indexed: bool

    @property
    def hold(self) -> tuple[bool, bool]:
        """The truth of the condition if the first, and if the second document is removed."""
        first, second = self.failing
        return not first, not second

    def describe(self) -> str:
        """Returns which of the documents could be removed in favour of the other, in words."""
        first, second = self.names
        if all(self.hold):
            return f"either could be removed in favour of the other, because {self.condition} holds"
        if self.failing[0] == self.failing[1]:
            return f"neither could be removed in favour of the other: {_deny(self.failing[0])}"
        return f"{self._describe(0, first, second)}; {self._describe(1, second, first)}"

    def _describe(self, position: int, removed: str, kept: str) -> str:
        failing = self.failing[position]
        if not failing:
            return f"{removed} could be removed in favour of {kept}, because {self.condition} holds"
        return f"{removed} could not be removed in favour of {kept}: {_deny(failing)}"


def _deny(conditions: tuple[str, ...]) -> str:
    verb = "does" if len(conditions) == 1 else "do"
    return f"{' and '.join(conditions)} {verb} not hold"


def explain_acceptance(
    documents: tuple[RunDocument, RunDocument],
    columns: Columns,
    settings: RunOptions,
    resources: SpecResources,
) -> PairConditions | None:
    """Evaluates the condition of a run for two of its documents, in both directions."""
    expression = settings.acceptance
    if expression is None:
        return None
    contents = pa.array([document.content for document in documents], content_arrow_type(columns))
    measure = measure_of(settings.spec, resources, settings.distance)
    stored = as_stored(payload_builder_for_run(measure).build(contents))
    runs = {}
    for kind in token_kinds_of(expression):
        tokens, counts = create_token_reader(kind, settings.spec, resources)(contents)
        starts = np.concatenate([[0], np.cumsum(counts)])
        runs[kind] = TokenRuns(np.arange(2, dtype=np.uint32), starts, tokens)
    text_facts = hash_text_facts(contents, text_facts_of(expression))

    def read_fact(predicate: Predicate) -> np.ndarray:
        if isinstance(predicate, Same | Differ):
            values = [document.carried[predicate.column] for document in documents]
            return compared_value_hashes(pa.array(values))
        return text_facts[TEXT_FACTS[predicate]]

    facts = {predicate: read_fact(predicate) for predicate in collect_predicates(expression)}
    scored = measure.compare(FIRST_PAIR, stored)
    operands = expression.operands if isinstance(expression, And) else (expression,)

    def fails(operand: Expression, rank: np.ndarray) -> bool:
        acceptance = PairAcceptance(
            expression=operand,
            measure=settings.spec.measure,
            stored=stored,
            rank=rank,
            lengths=text_lengths(contents),
            facts=facts,
            runs=runs,
        )
        return not len(acceptance.find_accepted(scored))

    # The later document in keep order is the one that would be removed.
    first_removed, second_removed = np.array([1, 0]), np.array([0, 1])
    return PairConditions(
        names=(documents[0].row["id"], documents[1].row["id"]),
        condition=str(expression),
        failing=(
            tuple(str(operand) for operand in operands if fails(operand, first_removed)),
            tuple(str(operand) for operand in operands if fails(operand, second_removed)),
        ),
        is_indexed=settings.containment_threshold is not None,
    )
