"""The fields of documents that a run compares: their columns, measures and limits."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nearkin.corpus.columns import DEFAULT_BITS, ContentField
from nearkin.engine.field_alternatives import parse_alternatives
from nearkin.errors import UsageError
from nearkin.measures import measure_of
from nearkin.measures.fields import ComparedField, FieldsMeasure
from nearkin.setting_names import name_setting
from nearkin.sketch.resources import SpecResources
from nearkin.spec import FINGERPRINT, HAMMING, Spec, require_fingerprint_bits
from nearkin.suggestions import did_you_mean

JACCARD = "jaccard"
MEASURES_OF_FIELDS = (JACCARD, HAMMING)
"""The measures that a field can have."""
RELATIONS = {JACCARD: ">=", HAMMING: "<="}
"""The relation of a field's similarity, or distance, to its limit."""
FORM = re.compile(
    r"(?P<column>.+):(?P<measure>[a-z-]+)(?:/(?P<bits>\d+))?\s*(?P<relation>[<>]=?)\s*"
    r"(?P<limit>\d+(?:\.\d+)?)\s*",
    re.DOTALL,
)
EXAMPLES = "title:jaccard>=0.9, or image:hamming<=4 or image:hamming/128<=9 of fingerprints"


class FieldRule(NamedTuple):
    """A field of documents, and how similar it must be."""

    column: str
    measure: str
    """`jaccard` of texts, or `hamming` of fingerprints."""
    limit: float
    """The smallest similarity of texts, or the largest distance of fingerprints in bits."""
    bits: int = DEFAULT_BITS
    """The number of bits of a fingerprint."""

    @classmethod
    def parse(cls, text: str) -> "FieldRule":
        """Parses a field.

        Args:
            text: The field, for example `title:jaccard>=0.9` or `image:hamming/64<=4`.

        Raises:
            UsageError: If the text has another form, or a number is out of range.

        Examples:
            >>> FieldRule.parse("title:jaccard>=0.9")
            FieldRule(column='title', measure='jaccard', limit=0.9, bits=64)
        """
        parts = FORM.fullmatch(text)
        asked = name_setting("fields", [text])
        if parts is None:
            raise UsageError(f"{asked} is not valid; write it as {EXAMPLES}")
        measure = parts["measure"]
        if measure not in MEASURES_OF_FIELDS:
            remedy = did_you_mean(measure, MEASURES_OF_FIELDS)
            if measure == "cosine":
                remedy = f"; compare vectors alone, in a run with {name_setting('vector')}"
            raise UsageError(
                f"{asked} is not valid: the measure of a field is one of "
                f"{', '.join(MEASURES_OF_FIELDS)}, not {measure!r}{remedy}"
            )
        if parts["relation"] != RELATIONS[measure]:
            raise UsageError(
                f"{asked} is not valid: {measure} is compared with {RELATIONS[measure]}; write it "
                f"as {EXAMPLES}"
            )
        if parts["bits"] is not None and measure != HAMMING:
            raise UsageError(
                f"{asked} is not valid: texts have no bits; leave out /{parts['bits']}"
            )
        rule = cls(
            parts["column"], measure, float(parts["limit"]), int(parts["bits"] or DEFAULT_BITS)
        )
        rule._require_limit(asked)
        return rule

    def _require_limit(self, asked: str) -> None:
        """Requires that the limit is in range.

        Raises:
            UsageError: If it is not.
        """
        if self.measure == JACCARD:
            if not 0 < self.limit <= 1:
                raise UsageError(
                    f"{asked} is out of range; the similarity must be above 0 and at most 1"
                )
            return
        require_fingerprint_bits(self.bits)
        if self.limit != int(self.limit) or self.limit >= self.bits // 2:
            raise UsageError(
                f"{asked} is out of range; the distance must be a whole number from 0 to "
                f"{self.bits // 2 - 1}"
            )

    @property
    def is_text(self) -> bool:
        """True if the field is a text, False if it is a fingerprint."""
        return self.measure == JACCARD

    @property
    def threshold(self) -> float:
        """The smallest similarity."""
        return (self.bits - self.limit) / self.bits if self.measure == HAMMING else self.limit

    @property
    def distance(self) -> int | None:
        """The largest distance in bits, or None for a text."""
        return int(self.limit) if self.measure == HAMMING else None

    @property
    def text(self) -> str:
        """The field as text, from which it can be parsed."""
        bits = f"/{self.bits}" if self.measure == HAMMING else ""
        return f"{self.column}:{self.measure}{bits}{RELATIONS[self.measure]}{self.limit:g}"

    @property
    def content(self) -> ContentField:
        """The column and the kind of its values."""
        return ContentField(self.column, self.bits if self.measure == HAMMING else None)

    def to_spec(self, texts: Spec) -> Spec:
        """Returns the Spec of the field.

        Args:
            texts: The Spec of texts.
        """
        if self.measure == JACCARD:
            return texts
        return Spec(measure=HAMMING, unit=FINGERPRINT, n=self.bits)


def parse_fields(texts: Sequence[str]) -> tuple[FieldRule, ...]:
    """Parses the fields of a run.

    Args:
        texts: The fields, as `FieldRule.parse` takes them.

    Raises:
        UsageError: If one is not valid, or a column has two fields.
    """
    rules = tuple(FieldRule.parse(text) for text in texts)
    columns = [rule.column for rule in rules]
    for column in columns:
        if columns.count(column) > 1:
            raise UsageError(f"column {column!r} is in two fields; give one field for each column")
    return rules


def parse_condition(accept: str, rules: Sequence[FieldRule]) -> tuple[tuple[int, ...], ...]:
    """Parses the condition that decides which fields must be similar.

    Args:
        accept: The condition, as `parse_alternatives` takes it.
        rules: The fields.

    Returns:
        The positions of the fields of each alternative.

    Raises:
        UsageError: If the condition is not valid, or no field whose signatures can find the
            candidate pairs is in all alternatives.

    Examples:
        >>> rules = parse_fields(["a:jaccard>=0.5", "b:jaccard>=0.9", "c:hamming<=1"])
        >>> parse_condition("a and (b or c)", rules)
        ((0, 1), (0, 2))
    """
    alternatives = parse_alternatives(accept, [rule.column for rule in rules])
    if _candidate_fields(rules, alternatives):
        return alternatives
    run_field = rules[choose_candidate_field(rules)]
    kind = "text" if run_field.is_text else f"fingerprint of {run_field.bits} bits"
    raise UsageError(
        f"{name_setting('accept', accept)} can hold without each single {kind}, so that no "
        f"signatures find all candidate pairs; require a {kind}, for example {run_field.column!r}, "
        "in each alternative, or run once for each alternative"
    )


def _candidate_fields(
    rules: Sequence[FieldRule], alternatives: tuple[tuple[int, ...], ...]
) -> list[int]:
    """Returns the positions of the fields of all alternatives with the Spec of the run."""
    run_spec = rules[choose_candidate_field(rules)].to_spec(Spec())
    required = set(range(len(rules))).intersection(*alternatives)
    return sorted(at for at in required if rules[at].to_spec(Spec()) == run_spec)


def choose_required_field(
    rules: Sequence[FieldRule], alternatives: tuple[tuple[int, ...], ...]
) -> int:
    """Returns the position of the field whose signatures find the pairs of all alternatives.

    Args:
        rules: The fields.
        alternatives: The positions of the fields of each alternative, from `parse_condition`.

    Examples:
        >>> rules = parse_fields(["a:jaccard>=0.5", "b:jaccard>=0.9", "c:hamming<=1"])
        >>> choose_required_field(rules, ((0, 1), (0, 2)))
        0
    """
    candidates = _candidate_fields(rules, alternatives)
    return candidates[choose_candidate_field([rules[at] for at in candidates])]


def choose_candidate_field(rules: Sequence[FieldRule]) -> int:
    """Returns the position of the field whose signatures find the candidate pairs.

    It is the text with the highest threshold. Without texts, it is the fingerprint whose distance
    is the smallest share of its bits. The first of equal ones is chosen.

    Args:
        rules: The fields.

    Examples:
        >>> choose_candidate_field(parse_fields(["a:hamming<=3", "b:jaccard>=0.5"]))
        1
    """
    return max(
        range(len(rules)), key=lambda at: (rules[at].measure == JACCARD, rules[at].threshold, -at)
    )


def make_spec_of_fields(rules: Sequence[FieldRule], given: Mapping[str, Any]) -> Spec:
    """Returns the Spec of the candidate field.

    Args:
        rules: The fields.
        given: Fields of the Spec of texts that were given.

    Raises:
        UsageError: If fields of the Spec of texts are given, and no field is a text.
    """
    candidate = rules[choose_candidate_field(rules)]
    if candidate.measure == JACCARD:
        return Spec(**{**given, "measure": JACCARD})
    if given:
        name = next(iter(given))
        raise UsageError(
            f"{name_setting(name)} does not go with "
            f"{name_setting('fields', [rule.text for rule in rules])}, because no field is a text; "
            "leave it out"
        )
    return candidate.to_spec(Spec())


def measure_of_fields(
    rules: Sequence[FieldRule],
    alternatives: tuple[tuple[int, ...], ...],
    spec: Spec,
    resources: SpecResources,
) -> FieldsMeasure:
    """Returns the measure of documents with several fields.

    Args:
        rules: The fields.
        alternatives: The positions of the fields of each alternative, from `parse_condition`.
        spec: Spec of the candidate field, which is that of all texts if there are any.
        resources: The key of the Spec, if it has one.
    """
    fields = [
        ComparedField(
            measure_of(
                rule.to_spec(spec),
                resources if rule.measure == JACCARD else SpecResources(),
                rule.distance,
            ),
            rule.threshold,
        )
        for rule in rules
    ]
    return FieldsMeasure(tuple(fields), choose_required_field(rules, alternatives), alternatives)
