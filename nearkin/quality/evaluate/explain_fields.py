"""Explains why two documents of a run over several fields are a match or not."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns, FieldKind
from nearkin.corpus.validation import content_arrow_type
from nearkin.engine.fields import FieldRule, measure_of_fields
from nearkin.engine.options import RunOptions
from nearkin.quality.evaluate.explain import (
    RunDocument,
    find_reason_not_to_compare,
    find_shared_value,
    format_outcome,
)
from nearkin.runtime.number_format import format_similarity
from nearkin.stages.measures.base import as_stored
from nearkin.stages.measures.explanation import FIRST_PAIR, PairVerdict
from nearkin.stages.measures.fields import holds_for_any
from nearkin.stages.sketch.resources import SpecResources


class FieldRelation(StrEnum):
    """The relation of the values that two documents have in a field."""

    EQUAL = "equal"
    SIMILAR = "similar"
    DIFFERENT = "differs"


@dataclass(frozen=True)
class FieldComparison:
    """The comparison of two documents in one field.

    Attributes:
        column: Column of the field.
        condition: Measure and limit of the field, for example `jaccard>=0.9`.
        similarity: Exact similarity, or None if a document lacks the field.
        distance: Hamming distance of fingerprints in bits, or None.
        holds: True if the field is similar enough.
        values: Values of the two documents as texts, empty if a document lacks the field.
    """

    column: str
    condition: str
    similarity: float | None
    distance: int | None
    holds: bool
    values: tuple[str, str]

    @property
    def relation(self) -> FieldRelation:
        """The relation of the two values to each other."""
        if self.similarity is not None and self.values[0] == self.values[1]:
            return FieldRelation.EQUAL
        return FieldRelation.SIMILAR if self.holds else FieldRelation.DIFFERENT

    def describe(self) -> str:
        """Returns how the value of the field compares with its limit, in words."""
        if self.similarity is None:
            return f"a document lacks it, so that {self.condition} does not hold"
        relation = "satisfies" if self.holds else "does not satisfy"
        return f"{self._describe_value()}, which {relation} {self.condition}"

    def describe_similarity(self) -> str:
        """Returns the similarity or the distance, and the condition."""
        return f"{self._describe_value()} ({self.condition})"

    def _describe_value(self) -> str:
        if self.similarity is None:
            return "a document lacks it"
        if self.distance is not None:
            return f"{self.distance} bits differ"
        return format_similarity(self.similarity, digits=4)


@dataclass(frozen=True)
class FieldsExplanation:
    """The comparison of two documents in all fields of a run.

    Attributes:
        names: Ids of the two documents.
        fields: Comparison in each field.
        accept: Condition over the fields.
        verdict: Decision about the pair, one of `PairVerdict`.
        why: Reason for the verdict, in words.
        run: Rows of the two documents in the clusters table of the run.
    """

    names: tuple[str, str]
    fields: tuple[FieldComparison, ...]
    accept: str
    verdict: str
    why: str
    run: tuple[Mapping[str, Any], Mapping[str, Any]]

    def to_dict(self) -> dict[str, object]:
        """Returns the explanation as a JSON object."""
        return {**asdict(self), "verdict": str(self.verdict)}


def explain_fields(
    documents: tuple[RunDocument, RunDocument],
    columns: Columns,
    settings: RunOptions,
    resources: SpecResources,
) -> FieldsExplanation:
    """Explains why two documents of a run over several fields were matched or not."""
    rules = settings.parsed_fields
    measure = measure_of_fields(rules, settings.field_alternatives, settings.spec, resources)
    contents = pa.array([document.content for document in documents], content_arrow_type(columns))
    stored = as_stored(measure.payload_builder().build(contents))
    values = [cast("Mapping[str, object]", document.content) for document in documents]
    compared = []
    for position, rule in enumerate(rules):
        scored = measure.compare_field(position, FIRST_PAIR, stored)
        is_missing = not scored.union[0]
        similarity = None if is_missing else float(scored.similarity[0])
        compared.append(
            FieldComparison(
                column=rule.column,
                condition=rule.condition,
                similarity=similarity,
                distance=_distance_of(rule, similarity),
                holds=bool(scored.meets_threshold(rule.threshold)[0]),
                values=(
                    format_field(values[0][rule.column]),
                    format_field(values[1][rule.column]),
                ),
            )
        )
    holds = np.array([[field.holds for field in compared]])
    is_match = bool(holds_for_any(settings.field_alternatives, holds)[0])
    sketches = measure.sketcher().sketch(contents)
    is_exact = bool((sketches.fingerprints[0] == sketches.fingerprints[1]).all())
    verdict, why = _judge(compared, settings, is_match=is_match)
    if (sketches.shingles == 0).any():
        verdict = PairVerdict.EMPTY
        why = "a document lacks a field of each alternative, so that it matches nothing"
    elif is_exact:
        verdict = PairVerdict.EXACT
        why = "exact duplicates: all fields are equal"
    reason = find_shared_value(documents, settings)
    reason = reason or find_reason_not_to_compare(documents, settings)
    if reason is not None:
        verdict, why = PairVerdict.NOT_COMPARED, reason
    rows = (documents[0].row, documents[1].row)
    outcome = format_outcome(rows, is_match=verdict in (PairVerdict.MATCH, PairVerdict.EXACT))
    return FieldsExplanation(
        names=(rows[0]["id"], rows[1]["id"]),
        fields=tuple(compared),
        accept=_condition_of(settings),
        verdict=verdict,
        why=why + outcome,
        run=rows,
    )


def format_field(value: object) -> str:
    r"""Returns the value of a field as a text.

    Examples:
        >>> format_field(["a", "b"]), format_field(None), format_field(b"\x0f")
        ('a b', '', '0f')
    """
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex()
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _distance_of(rule: FieldRule, similarity: float | None) -> int | None:
    """Returns the Hamming distance of a field of fingerprints, or None."""
    if similarity is None or rule.kind != FieldKind.FINGERPRINT:
        return None
    return round((1 - similarity) * rule.size)


def _condition_of(settings: RunOptions) -> str:
    """Returns the condition over the fields, which names them all by default."""
    if settings.condition is not None:
        return settings.condition
    return " and ".join(rule.column for rule in settings.parsed_fields)


def _judge(
    compared: list[FieldComparison], settings: RunOptions, *, is_match: bool
) -> tuple[PairVerdict, str]:
    """Returns the verdict on two documents that are compared in all fields, and the reason."""
    condition = _condition_of(settings)
    if is_match:
        held = [field.column for field in compared if field.holds]
        return PairVerdict.MATCH, f"{condition} holds: similar in {_join(held)}"
    failing = [f"{field.column}: {field.describe()}" for field in compared if not field.holds]
    return PairVerdict.BELOW_THRESHOLD, f"{condition} does not hold; {'; '.join(failing)}"


def _join(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
