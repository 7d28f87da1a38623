"""The fields of documents that a run compares: their columns, measures and limits."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from nearkin.corpus.columns import DEFAULT_BITS, ContentField, FieldKind
from nearkin.engine.field_alternatives import parse_alternatives
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean
from nearkin.settings.spec import (
    FINGERPRINT,
    HAMMING,
    MAX_DIMENSIONS,
    Spec,
    require_fingerprint_bits,
)
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.fields import ComparedField, FieldsMeasure
from nearkin.stages.sketch.resources import SpecResources

JACCARD = "jaccard"
COSINE = "cosine"
MEASURES_OF_FIELDS = (JACCARD, HAMMING, COSINE)
"""The measures that a field can have."""
RELATIONS = {JACCARD: ">=", HAMMING: "<=", COSINE: ">="}
"""The relation of a field's similarity, or distance, to its limit."""
MEASURE_OF_KIND = {
    FieldKind.TEXT: JACCARD,
    FieldKind.TOKENS: JACCARD,
    FieldKind.FINGERPRINT: HAMMING,
    FieldKind.VECTOR: COSINE,
}
"""The measure of each kind of values."""
SOURCES_OF_CANDIDATES = tuple(MEASURE_OF_KIND)
"""The kinds of fields whose signatures find candidate pairs, the preferred one first."""
MAX_FIELDS = 16
"""The largest number of fields of a run."""
SPEC_FIELDS_OF_KEY = ("base_hash", "key_id")
"""The fields of a Spec that a key decides."""
FORM = re.compile(
    r"(?P<column>.+):(?P<measure>[a-z-]+)(?:/(?P<size>\d{1,9}|tokens))?\s*(?P<relation>[<>]=?)\s*"
    r"(?P<limit>\d{1,9}(?:\.\d{1,20})?)\s*",
    re.DOTALL | re.ASCII,
)
EXAMPLES = (
    "title:jaccard>=0.9, tags:jaccard/tokens>=0.8 of lists, image:hamming<=4 or "
    "image:hamming/128<=9 of fingerprints, or embedding:cosine>=0.95 of vectors"
)


class FieldRule(NamedTuple):
    """A field of documents, and how similar it must be."""

    column: str
    kind: FieldKind
    limit: float
    """The smallest similarity, or the largest distance of fingerprints in bits."""
    size: int = 0
    """The number of bits of a fingerprint, or of numbers of a vector; 0 for texts and tokens, and
    for vectors whose length is not known yet."""

    @classmethod
    def parse(cls, text: str) -> "FieldRule":
        """Parses a field.

        Examples:
            >>> rule = FieldRule.parse("image:hamming<=4")
            >>> rule.column, rule.measure, rule.limit, rule.size
            ('image', 'hamming', 4.0, 64)
        """
        parts = FORM.fullmatch(text)
        asked = name_setting("fields", [text])
        if parts is None:
            raise UsageError(f"{asked} is not valid; write it as {EXAMPLES}")
        measure = parts["measure"]
        if measure not in MEASURES_OF_FIELDS:
            remedy = did_you_mean(measure, MEASURES_OF_FIELDS)
            raise UsageError(
                f"{asked} is not valid: the measure of a field is one of "
                f"{', '.join(MEASURES_OF_FIELDS)}, not {measure!r}{remedy}"
            )
        if parts["relation"] != RELATIONS[measure]:
            raise UsageError(
                f"{asked} is not valid: {measure} is compared with {RELATIONS[measure]}; write it "
                f"as {EXAMPLES}"
            )
        kind, size = _parse_kind(measure, parts["size"], asked)
        rule = cls(parts["column"], kind, float(parts["limit"]), size)
        rule._require_limit(asked)
        return rule

    def _require_limit(self, asked: str) -> None:
        """Requires that the limit and the size are in range."""
        if self.kind != FieldKind.FINGERPRINT:
            if not 0 < self.limit <= 1:
                raise UsageError(
                    f"{asked} is out of range; the similarity must be above 0 and at most 1"
                )
            if self.size > MAX_DIMENSIONS:
                raise UsageError(
                    f"{asked} is out of range; vectors have at most {MAX_DIMENSIONS:,} numbers"
                )
            return
        require_fingerprint_bits(self.size)
        if self.limit != int(self.limit) or self.limit >= self.size // 2:
            raise UsageError(
                f"{asked} is out of range; the distance must be a whole number from 0 to "
                f"{self.size // 2 - 1}"
            )

    @property
    def measure(self) -> str:
        """The measure: `jaccard`, `hamming` or `cosine`."""
        return MEASURE_OF_KIND[self.kind]

    @property
    def has_shingles(self) -> bool:
        """True if the values of the field are texts or lists of tokens."""
        return self.measure == JACCARD

    @property
    def threshold(self) -> float:
        """The smallest similarity."""
        if self.kind == FieldKind.FINGERPRINT:
            return (self.size - self.limit) / self.size
        return self.limit

    @property
    def distance(self) -> int | None:
        """The largest distance in bits, or None for other values than fingerprints."""
        return int(self.limit) if self.kind == FieldKind.FINGERPRINT else None

    @property
    def condition(self) -> str:
        """The measure and the limit as text, for example `jaccard>=0.9`."""
        size = ""
        if self.size:
            size = f"/{self.size}"
        elif self.kind == FieldKind.TOKENS:
            size = f"/{FieldKind.TOKENS}"
        return f"{self.measure}{size}{RELATIONS[self.measure]}{self.limit:g}"

    @property
    def text(self) -> str:
        """The field as text, from which it can be parsed."""
        return f"{self.column}:{self.condition}"

    @property
    def content(self) -> ContentField:
        """The column and the kind of its values."""
        return ContentField(self.column, self.kind, self.size)

    def with_default_size(self) -> "FieldRule":
        """Returns the field with vectors of two numbers if their length is not known."""
        return self if self.kind != FieldKind.VECTOR or self.size else self._replace(size=2)

    def to_spec(self, run_spec: Spec) -> Spec:
        """Returns the Spec of the field."""
        if self.kind == FieldKind.TEXT:
            return run_spec
        if self.kind == FieldKind.TOKENS:
            return replace(run_spec, unit="words", n=1)
        if self.kind == FieldKind.FINGERPRINT:
            return Spec(measure=HAMMING, unit=FINGERPRINT, n=self.size)
        if not self.size:
            raise UsageError(
                f"{name_setting('fields', [self.text])} does not say how many numbers a vector "
                f"has; write it as {self.column}:cosine/384>={self.limit:g}, for example"
            )
        if run_spec.measure == COSINE:
            return replace(run_spec, n=self.size)
        keyed = {} if run_spec.key_id is None else _key_of(run_spec)
        return Spec(measure=COSINE, unit="vector", n=self.size, **keyed)


class SketchedFields(NamedTuple):
    """The part of several fields that decides their signatures. Limits of fields are not in it."""

    contents: tuple[ContentField, ...]
    """The columns and the kinds of their values."""
    alternatives: tuple[tuple[int, ...], ...]
    """The positions of the fields of each alternative, which decide what is an empty document."""
    candidates: tuple[int, ...]
    """The positions of the fields that have signatures."""


def _key_of(spec: Spec) -> dict[str, Any]:
    """Returns the fields of a keyed Spec that its key decides."""
    return {name: getattr(spec, name) for name in SPEC_FIELDS_OF_KEY}


def _parse_kind(measure: str, size: str | None, asked: str) -> tuple[FieldKind, int]:
    """Returns the kind of the values of a field and their size."""
    if measure == JACCARD:
        if size is None:
            return FieldKind.TEXT, 0
        if size == FieldKind.TOKENS:
            return FieldKind.TOKENS, 0
        raise UsageError(f"{asked} is not valid: texts have no bits; leave out /{size}")
    if size == FieldKind.TOKENS or size == "0":
        raise UsageError(
            f"{asked} is not valid: /{size} is not a number of bits or of numbers of a vector; "
            f"write it as {EXAMPLES}"
        )
    if measure == HAMMING:
        return FieldKind.FINGERPRINT, int(size or DEFAULT_BITS)
    return FieldKind.VECTOR, int(size or 0)


def parse_fields(texts: Sequence[str]) -> tuple[FieldRule, ...]:
    """Parses the fields of a run."""
    if len(texts) > MAX_FIELDS:
        raise UsageError(
            f"{name_setting('fields')} has {len(texts):,} fields; a run compares at most "
            f"{MAX_FIELDS}; leave out some of them"
        )
    rules = tuple(FieldRule.parse(text) for text in texts)
    columns = [rule.column for rule in rules]
    for column in columns:
        if columns.count(column) > 1:
            raise UsageError(f"column {column!r} is in two fields; give one field for each column")
    return rules


def with_sizes(
    rules: Sequence[FieldRule], contents: Sequence[ContentField]
) -> tuple[FieldRule, ...]:
    """Returns fields with the kinds and the sizes that the columns of the inputs have."""
    return tuple(
        rule._replace(kind=content.kind, size=content.size)
        for rule, content in zip(rules, contents, strict=True)
    )


def name_contents(texts: Sequence[str], contents: Sequence[ContentField]) -> tuple[str, ...]:
    """Returns fields whose texts name the kinds and the sizes of the columns of the inputs.

    Examples:
        >>> name_contents(["v:cosine>=0.9"], [ContentField("v", FieldKind.VECTOR, 3)])
        ('v:cosine/3>=0.9',)
    """
    rules = parse_fields(texts)
    return tuple(
        text if rule == resolved else resolved.text
        for text, rule, resolved in zip(texts, rules, with_sizes(rules, contents), strict=True)
    )


def parse_condition(accept: str, rules: Sequence[FieldRule]) -> tuple[tuple[int, ...], ...]:
    """Parses the condition that decides which fields must be similar.

    Examples:
        >>> rules = parse_fields(["a:jaccard>=0.5", "b:jaccard>=0.9", "c:hamming<=1"])
        >>> parse_condition("a and (b or c)", rules)
        ((0, 1), (0, 2))
    """
    alternatives = parse_alternatives(accept, [rule.column for rule in rules])
    deciding = set().union(*alternatives)
    for position, rule in enumerate(rules):
        if position not in deciding:
            raise UsageError(
                f"{name_setting('accept', accept)} holds whether {rule.column!r} is similar or "
                "not, so that this field decides nothing; leave it out of both options"
            )
    return alternatives


def fingerprint_sizes(rules: Sequence[FieldRule]) -> set[int]:
    """Returns the numbers of bits of the fields that are fingerprints."""
    return {rule.size for rule in rules if rule.kind == FieldKind.FINGERPRINT}


def choose_candidate_fields(
    rules: Sequence[FieldRule], alternatives: tuple[tuple[int, ...], ...]
) -> tuple[int, ...]:
    """Returns the positions of the fields whose signatures find the candidate pairs.

    They are as few as possible, so that each alternative has one of them: a text if it has a text,
    otherwise tokens, a fingerprint or a vector, in this order. Among sets of equal size, the one
    with the highest thresholds is chosen, and the first of equal ones.

    Examples:
        >>> rules = parse_fields(["a:jaccard>=0.5", "b:jaccard>=0.9", "c:hamming<=1"])
        >>> choose_candidate_fields(rules, ((0, 1), (0, 2)))
        (0,)
        >>> choose_candidate_fields(rules, ((0,), (1,), (2,)))
        (1, 0, 2)
    """
    return _choose_candidate_fields(tuple(rules), alternatives)


@cache
def _choose_candidate_fields(
    rules: tuple[FieldRule, ...], alternatives: tuple[tuple[int, ...], ...]
) -> tuple[int, ...]:
    preference = [SOURCES_OF_CANDIDATES.index(rule.kind) for rule in rules]
    preferred = []
    for fields in alternatives:
        best = min(preference[at] for at in fields)
        preferred.append({at for at in fields if preference[at] == best})

    def thresholds(chosen: tuple[int, ...]) -> float:
        return sum(rules[at].threshold for at in chosen)

    for count in range(1, len(rules) + 1):
        sufficient = [
            chosen
            for chosen in combinations(range(len(rules)), count)
            if not any(fields.isdisjoint(chosen) for fields in preferred)
        ]
        if sufficient:
            # `max` returns the first of equal ones.
            chosen = max(sufficient, key=thresholds)
            return tuple(sorted(chosen, key=lambda at: (preference[at], -rules[at].threshold, at)))
    raise AssertionError("the set of all fields suffices")


def make_spec_of_fields(rules: Sequence[FieldRule], accept: str, given: Mapping[str, Any]) -> Spec:
    """Returns the Spec of the first field whose signatures find candidate pairs."""
    candidate = rules[choose_candidate_fields(rules, parse_condition(accept, rules))[0]]
    if candidate.kind == FieldKind.TEXT:
        return Spec(**{**given, "measure": JACCARD})
    if candidate.kind == FieldKind.TOKENS:
        # A list of tokens is a set of them, whatever the shingles of texts are.
        of_tokens = {name: value for name, value in given.items() if name not in ("unit", "n")}
        return Spec(**{**of_tokens, "unit": "words", "n": 1, "measure": JACCARD})
    allowed = SPEC_FIELDS_OF_KEY if candidate.kind == FieldKind.VECTOR else ()
    for name in given:
        if name not in allowed:
            raise UsageError(
                f"{name_setting(name)} does not go with "
                f"{name_setting('fields', [rule.text for rule in rules])}, because no field is a "
                "text; leave it out"
            )
    if given:
        return Spec(measure=COSINE, unit="vector", n=candidate.size, **given)
    return candidate.to_spec(Spec())


def measure_of_fields(
    rules: Sequence[FieldRule],
    alternatives: tuple[tuple[int, ...], ...],
    spec: Spec,
    resources: SpecResources,
) -> FieldsMeasure:
    """Returns the measure of documents with several fields."""
    fields = [
        ComparedField(
            measure_of(
                rule.to_spec(spec),
                SpecResources() if rule.kind == FieldKind.FINGERPRINT else resources,
                rule.distance,
            ),
            rule.threshold,
        )
        for rule in rules
    ]
    return FieldsMeasure(tuple(fields), choose_candidate_fields(rules, alternatives), alternatives)
