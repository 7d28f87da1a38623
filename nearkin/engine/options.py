"""The options of a run: checked and parsed once, then frozen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nearkin.engine.acceptance import (
    LEAST_BANDED,
    columns_of_acceptance,
    combine_acceptance,
    require_acceptable,
)
from nearkin.engine.canonical_urls import load_url_parser
from nearkin.engine.fields import (
    FieldRule,
    SketchedFields,
    choose_candidate_fields,
    measure_of_fields,
    parse_condition,
    parse_fields,
)
from nearkin.engine.removal_limit import RemovalLimits, parse_expected
from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_fields
from nearkin.runtime.process_limits import available_cores
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.sizes import require_memory
from nearkin.runtime.suggestions import require_choice
from nearkin.runtime.threads import require_workers
from nearkin.settings.acceptance import Expression
from nearkin.settings.acceptance.bounds import Bounds
from nearkin.settings.acceptance.expression import required_equalities
from nearkin.settings.acceptance.parser import SIMILAR
from nearkin.settings.choices import ClusterMethod, EmptyDocuments, MissingBlock, Verify
from nearkin.settings.presets import Preset
from nearkin.settings.setting import Recorded, require_in_ranges, settings_of
from nearkin.settings.spec import HAMMING, IDF_JACCARD, MASK_STEPS, Spec
from nearkin.settings.table import ClusterSettings, FieldColumnSettings, SearchSettings
from nearkin.stages.cluster.keep import KeepPolicy
from nearkin.stages.cluster.kept_documents import ClusterCriterion
from nearkin.stages.lsh.slot_bands import Banding, require_bands_with_rows
from nearkin.stages.measures import BandingRequest, Measure, measure_of
from nearkin.stages.pair_scope import EVERY_BLOCK, NO_BLOCK
from nearkin.stages.sketch.resources import SpecResources

SMALL_CORPUS = 5000
"""Corpora with fewer documents are compared by brute force."""
MOST_FIELD_SHINGLES = 1 << 25
"""Corpora whose fields have more shingles are banded, even if they have few documents. All pairs
of fields are compared in memory, in up to about 40 bytes a shingle."""
DEFAULT_PAIR_BUDGET = 50_000_000
"""The pair budget of runs that list pairs. A bucket of 10,000 documents has as many pairs, whose
signatures take about 1.5 seconds of processor time to compare (k = 128)."""
LEAST_SIMILARITY = 1e-9
"""The threshold of a run that accepts pairs of any similarity above 0."""
DEFAULT_THRESHOLD = 0.8
DEFAULT_FLOOR_DISTANCE = 0.2
"""The distance of the default floor of components below the threshold."""


RECORDED = {
    name: declared
    for group in (SearchSettings, ClusterSettings, FieldColumnSettings)
    for name, declared in settings_of(group).items()
    if declared.setting.recorded is not Recorded.NEVER
}
"""The options that the record of a run holds."""
BETWEEN_INPUTS = "<inputs>"
"""The value of `across` if the sources are the two inputs of a check. It is not a column."""


def split_column_names(text: str | None) -> tuple[str, ...]:
    """Returns the names of columns that an option lists.

    Examples:
        >>> split_column_names("isbn, doi")
        ('isbn', 'doi')
    """
    return () if text is None else tuple(name.strip() for name in text.split(","))


class SecondMeasure(NamedTuple):
    """A second measure, applied to the documents that the first one keeps."""

    measure: str
    column: str
    threshold: float

    @classmethod
    def parse(cls, text: str) -> "SecondMeasure":
        """Parses the form `cosine:COLUMN:THRESHOLD`.

        Examples:
            >>> SecondMeasure.parse("cosine:embedding:0.95")
            SecondMeasure(measure='cosine', column='embedding', threshold=0.95)
        """
        measure, _, rest = text.partition(":")
        column, _, number = rest.rpartition(":")
        try:
            threshold = float(number)
        except ValueError:
            threshold = 0.0
        if measure != "cosine" or not column or not 0 < threshold <= 1:
            raise UsageError(
                f"{name_setting('second_measure', text)} is not valid; write it as "
                f"cosine:COLUMN:THRESHOLD, for "
                f"example cosine:embedding:0.95"
            )
        return cls(measure, column, threshold)


@dataclass(frozen=True)
class RunOptions(SearchSettings, ClusterSettings):
    """The options that decide the result of a run, and five that do not.

    `nearkin.settings.table` describes those that it inherits. The five are `memory`, `workers`,
    `max_removed` and `expect`, which only decide if a run is complete, and `preset`, whose values
    the other options have. A `distance` or an `accept` decides the threshold, and so do `fields`.

    Attributes:
        spec: Spec of the signatures.
        fields: The columns that are compared each on its own, with their measures and limits.
        memory: Bound on the anonymous memory of the run, in bytes.
        workers: Number of threads.
    """

    spec: Spec = field(default_factory=Spec)
    fields: Sequence[str] = ()
    memory: int = 4_000_000_000
    workers: int = field(default_factory=available_cores)

    def __post_init__(self) -> None:
        check_fields(self)
        self._parse_choice("verify", Verify)
        self._parse_choice("cluster", ClusterMethod)
        self._parse_choice("empty", EmptyDocuments)
        self._parse_choice("missing_block", MissingBlock)
        object.__setattr__(self, "accept", self.accept.strip())
        require_in_ranges(RunOptions, vars(self))
        self._check_fields()
        self._check_acceptance()
        self._check_similarity()
        self._check_related()
        self._check_candidates()
        require_memory(self.memory)
        require_workers(self.workers)
        # These raise an error for an invalid expression before anything is read.
        self.parsed_second_measure  # noqa: B018
        self.removal_limits  # noqa: B018
        self.expected_precision  # noqa: B018
        self.parsed_preset  # noqa: B018
        self._check_keep_policy()
        self._check_value_columns()
        for options in self.candidate_options:
            options._check_banding()

    def can_compare_all(self, shingles: int) -> bool:
        """Returns False if the documents have fields that are too long to compare all pairs."""
        return not self.fields or shingles <= MOST_FIELD_SHINGLES

    def require_defaults(self, other: str, reasons: Mapping[str, str]) -> None:
        """Requires that settings which something else excludes have their defaults.

        A reason may end with an advice. By default, it is to give the default, or to leave out one
        of both.
        """
        for name, reason in reasons.items():
            value = getattr(self, name)
            default = type(self).__dataclass_fields__[name].default
            if value is None or value == default:
                continue
            advice = "; leave out one of them"
            if isinstance(value, StrEnum):
                value = str(value)
                advice = f"; give {name_setting(name, str(default))}"
            named = name_setting(name, list(value) if isinstance(value, tuple) else value)
            raise UsageError(
                f"{other} and {named} exclude each other: {reason}{'' if ';' in reason else advice}"
            )

    def _require_keep_order(self, other: str, reason: str) -> None:
        """Requires that the keep policy orders documents, and does not choose among clusters."""
        criterion = self.keep_policy.cluster_criterion
        if criterion is not None:
            raise UsageError(
                f"{other} and {name_setting('keep', self.keep)} exclude each other: {criterion} "
                f"{reason}; give a keep policy that orders documents"
            )

    def _check_banding(self) -> None:
        """Requires that the bands and rows are possible, as far as this does not need documents."""
        is_banded_by_distance = self.spec.measure == HAMMING
        if self.bands is not None or self.spec.has_slots or is_banded_by_distance:
            self.banding(measure_of(self.spec, distance=self.compared_distance), SMALL_CORPUS)

    def _parse_choice(self, name: str, choices: type[StrEnum]) -> None:
        value = getattr(self, name)
        require_choice(name, value, choices)
        object.__setattr__(self, name, choices(value))

    def _check_similarity(self) -> None:
        if self.distance is None and self.spec.measure == HAMMING and not self.fields:
            raise UsageError(
                "fingerprints are compared by their Hamming distance, which is not given; give "
                f"{name_setting('distance', 4)}, for example"
            )
        if self.distance is not None:
            signs = self.spec.k
            if not 0 <= self.distance < signs:
                raise UsageError(
                    f"distance {self.distance} is out of range; it must be 0 to {signs - 1}, for "
                    f"{signs} signs"
                )
            object.__setattr__(self, "threshold", (signs - self.distance) / signs)
        if self.floor is not None and not 0 <= self.floor <= self.threshold:
            raise UsageError(
                f"floor {self.floor} is out of range; it must be 0 to the threshold "
                f"{self.threshold}"
            )

    def _check_fields(self) -> None:
        if not self.fields:
            return
        object.__setattr__(self, "fields", tuple(self.fields))
        rules = self.parsed_fields
        candidates = [rules[position] for position in self.candidate_fields]
        candidate = candidates[0]
        if self.spec != candidate.to_spec(self.spec) or self.spec.measure != candidate.measure:
            raise UsageError(
                f"the Spec of a run over fields is that of {candidate.column!r}, of measure "
                f"{candidate.measure}, not {self.spec.measure}; leave out the Spec"
            )
        # The signatures of these fields find the candidate pairs, which reach one of the limits.
        object.__setattr__(self, "threshold", min(rule.threshold for rule in candidates))
        object.__setattr__(self, "distance", candidate.distance if len(candidates) == 1 else None)
        fields = name_setting("fields", list(self.fields))
        if len(candidates) > 1 and (self.probes or self.spec.truncated):
            option = name_setting("slot_bits", self.spec.slot_bits)
            if self.probes:
                option = name_setting("probes", self.probes)
            named = " and ".join(repr(rule.column) for rule in candidates)
            raise UsageError(
                f"{option} cannot be combined with candidate pairs of several fields, here "
                f"{named}; leave it out, or require one of these fields in each alternative"
            )
        decided = "the fields decide which documents are near-duplicates"
        self.require_defaults(
            fields,
            {
                "related": "each field has its own limit, and one number cannot stand for all of "
                "them; link documents by one of the columns alone, or list them with nearkin pairs "
                "and lower limits of the fields",
                "max_lost": decided,
                "second_measure": decided,
                "verify": "fields are compared exactly",
                "cluster": "the fields of each document must be similar to those of the kept one",
            },
        )
        self._require_keep_order(fields, "compares by one measure")

    def _check_acceptance(self) -> None:
        if self.acceptance is None:
            return
        asked = name_setting("accept", self.accept)
        if self.max_lost is not None:
            asked = name_setting("max_lost", self.max_lost)
        if self.spec.measure not in ("jaccard", IDF_JACCARD):
            raise UsageError(
                f"{asked} compares sets of shingles, which "
                f"{name_setting('measure', self.spec.measure)} does not have; give "
                f"{name_setting('measure', 'jaccard')}"
            )
        self.require_defaults(
            asked,
            {
                "verify": "the condition needs exact similarities",
                "cluster": "the condition decides about each removed document and the one that is "
                "kept",
                "second_measure": "the second measure removes kept documents, whose duplicates "
                "were accepted against them",
            },
        )
        self._require_keep_order(
            asked,
            "chooses the kept document after the condition has decided about the documents of a "
            "pair in keep order",
        )
        if self._replaces_threshold:
            bounds = self._acceptance_bounds
            least = bounds.idf_jaccard if self.spec.measure == IDF_JACCARD else bounds.jaccard
            object.__setattr__(self, "threshold", max(least, LEAST_SIMILARITY))

    def _check_related(self) -> None:
        if self.related is None:
            return
        related = name_setting("related", self.related)
        if self.verify == Verify.NONE:
            raise UsageError(
                f"{related} needs similarities of pairs, which {name_setting('verify', 'none')} "
                "does not compute; leave out one of them"
            )
        if self.acceptance is not None:
            # Documents that the condition does not accept are related at any similarity.
            return
        if self.related >= self.threshold:
            raise UsageError(
                f"{related} is out of range; it must be above 0 and below the threshold "
                f"{self.threshold:g}"
            )

    def _check_candidates(self) -> None:
        require_bands_with_rows(self.bands, self.rows)
        if self.across is not None and self.across == self.block_by:
            raise UsageError(
                f"{name_setting('across', self.across)} and "
                f"{name_setting('block_by', self.across)} exclude each other: documents of one "
                "block would have one source, and none would be compared; leave out one of them"
            )
        acceptance = self.acceptance
        divides_blocks = acceptance is not None and bool(required_equalities(acceptance))
        if self.missing_block == MissingBlock.ALL and divides_blocks:
            raise UsageError(
                f"{name_setting('missing_block', 'all')} and a condition that requires equal "
                f"values ({acceptance}) exclude each other: such values divide the blocks, which "
                "documents without a block do not belong to; leave out one of them"
            )

    def _check_keep_policy(self) -> None:
        if self.keep_up_to > 1:
            one = "the second measure compares one kept document of each cluster"
            keep_up_to = name_setting("keep_up_to", self.keep_up_to)
            self.require_defaults(keep_up_to, {"second_measure": one})
        criterion = self.keep_policy.cluster_criterion
        if criterion is None:
            return
        keep = name_setting("keep", self.keep)
        self.require_defaults(keep, {"second_measure": f"{criterion} compares by one measure"})
        if self.verify == Verify.NONE:
            raise UsageError(
                f"{keep} needs verified pairs; leave out {name_setting('verify', 'none')}"
            )
        is_of_sets = self.spec.measure == "jaccard" and self.verify == Verify.EXACT
        if criterion == ClusterCriterion.MOST_COMPLETE and not is_of_sets:
            raise UsageError(
                f"{keep} needs the measure jaccard and exact verification, because it counts "
                f"shared shingles (the measure is {self.spec.measure}, verification is "
                f"{self.verify}); use {name_setting('keep', 'central')}"
            )

    def _check_value_columns(self) -> None:
        for name, value in (("same", self.same), ("url", self.url)):
            if value is None:
                continue
            one_group = "documents with an equal value are one group, whatever their sources are"
            self.require_defaults(name_setting(name, value), {"across": one_group})
            if self.acceptance is not None:
                raise UsageError(
                    f"{name_setting(name, value)} cannot be combined with a condition "
                    f"({self.acceptance}): documents with an equal value are removed without a "
                    f"comparison; leave out {name_setting(name)}, or {name_setting('accept')} and "
                    f"{name_setting('max_lost')}"
                )
        names = self.same_columns
        if not all(names) or len(set(names)) < len(names):
            raise UsageError(
                f"{name_setting('same', self.same)} is not valid; give different names of columns, "
                "separated by commas"
            )
        if self.url in names:
            raise UsageError(
                f"column {self.url!r} is in {name_setting('same', self.same)} and "
                f"{name_setting('url', self.url)}; equal values have equal canonical forms, so "
                f"leave it out of {name_setting('same')}"
            )
        if self.url is not None:
            load_url_parser()

    def create_measure(self, resources: SpecResources) -> Measure:
        """Returns the measure of a run: that of its Spec, or of several fields.

        Args:
            resources: Data that the Spec refers to but does not contain.
        """
        if self.fields:
            return measure_of_fields(
                self.parsed_fields, self.field_alternatives, self.spec, resources
            )
        return measure_of(self.spec, resources, self.compared_distance)

    @property
    def compared_distance(self) -> int | None:
        """The largest Hamming distance of the pairs that are compared, or None.

        It is that of related documents, if they are linked.
        """
        if self.distance is None or self.related is None:
            return self.distance
        return int((1 - self.related) * self.spec.k + 1e-9)

    def banding(self, measure: Measure, documents: int) -> Banding:
        """Returns the given bands and rows, or those that reach the recall at the threshold.

        Args:
            documents: Number of documents. It matters for signatures of signs only.
        """
        request = BandingRequest(
            threshold=self.banding_threshold,
            recall=self.recall,
            bands=self.bands,
            rows=self.rows,
            tables=self.tables,
            probes=self.probes,
            documents=documents,
        )
        return measure.banding(request)

    def banding_if_possible(self, measure: Measure, documents: int) -> Banding | None:
        """Returns the banding, or None if no bands of signs reach the recall at the threshold.

        A run over few documents compares all pairs in this case. Bands of slots always reach it.

        Raises:
            UsageError: If the given bands and rows are not possible.
        """
        if self.bands is not None or self.spec.signature_type is not np.uint64:
            return self.banding(measure, documents)
        try:
            return self.banding(measure, documents)
        except UsageError:
            return None

    @cached_property
    def complete_bucket_size(self) -> int:
        """The largest number of documents of a bucket that yields all its pairs.

        Examples:
            >>> RunOptions().complete_bucket_size, RunOptions(pair_budget=5050).complete_bucket_size
            (100, 101)
            >>> RunOptions(pair_budget=DEFAULT_PAIR_BUDGET).complete_bucket_size
            10000
        """
        budget = self.pair_budget or 0
        is_restricted = self.across is not None or self.acceptance is not None
        # Every pair of fingerprints within the distance is found, as `HammingIndex` finds it.
        is_restricted |= self.spec.measure == HAMMING or bool(self.fields)
        if self.pair_budget is None and is_restricted:
            # Documents of one source never remove each other, so that a hot bucket does not shrink.
            # The most similar leader of a hot bucket may not be one that an acceptance allows.
            budget = DEFAULT_PAIR_BUDGET
        within_budget = (1 + math.isqrt(1 + 8 * budget)) // 2
        return max(self.hot_bucket_size, within_budget)

    @cached_property
    def parsed_fields(self) -> tuple[FieldRule, ...]:
        """The fields that are compared, or none for documents of one column."""
        return parse_fields(self.fields)

    @cached_property
    def field_alternatives(self) -> tuple[tuple[int, ...], ...]:
        """The positions of the fields of each alternative in which near-duplicates are similar."""
        return parse_condition(self.accept, self.parsed_fields)

    @cached_property
    def candidate_fields(self) -> tuple[int, ...]:
        """The positions of the fields whose signatures find candidate pairs, or none."""
        if not self.fields:
            return ()
        return choose_candidate_fields(self.parsed_fields, self.field_alternatives)

    @cached_property
    def candidate_options(self) -> tuple["RunOptions", ...]:
        """The options of a run over each field whose signatures find candidate pairs.

        They are these options themselves if only one kind of signatures finds them.
        """
        if len(self.candidate_fields) < 2:
            return (self,)
        return tuple(
            self._options_of_field(self.parsed_fields[position])
            for position in self.candidate_fields
        )

    @property
    def block_of_missing(self) -> np.uint64:
        """The block of documents without a value in the column of blocks."""
        return EVERY_BLOCK if self.missing_block == MissingBlock.ALL else NO_BLOCK

    @property
    def bands_by_block(self) -> bool:
        """True if only documents of one block share a band key."""
        return self.missing_block == MissingBlock.NONE

    @property
    def further_specs(self) -> list[Spec]:
        """The Specs of the second and later fields that find candidate pairs."""
        return [options.spec for options in self.candidate_options[1:]]

    @property
    def sketched_fields(self) -> SketchedFields:
        """The part of several fields that decides their signatures, besides the Spec."""
        return SketchedFields(
            tuple(rule.content for rule in self.parsed_fields),
            self.field_alternatives if self.fields else (),
            self.candidate_fields,
        )

    def _options_of_field(self, rule: FieldRule) -> "RunOptions":
        """Returns the options of a run that compares one field only."""
        spec = rule.to_spec(self.spec)
        return replace(
            self,
            spec=spec,
            fields=(),
            accept=SIMILAR,
            threshold=rule.threshold,
            distance=rule.distance,
            bands=self.bands if spec.has_slots else None,
            rows=self.rows if spec.has_slots else None,
            tables=self.tables if spec.has_slots else 1,
            floor=None,
            hot_bucket_size=self.complete_bucket_size,
            pair_budget=0,
        )

    @cached_property
    def parsed_second_measure(self) -> SecondMeasure | None:
        """The second measure, or None if there is none."""
        if self.second_measure is None:
            return None
        return SecondMeasure.parse(self.second_measure)

    @property
    def masks_values(self) -> bool:
        """True if texts that differ in digits or other values are exact copies."""
        steps = {"digits", *MASK_STEPS}
        return self.spec.has_shingles and not self.fields and bool(steps & {*self.spec.normalise})

    @property
    def has_short_texts(self) -> bool:
        """True if documents are single texts or lists of tokens, which can be short."""
        return self.spec.has_shingles and not self.fields

    @cached_property
    def parsed_preset(self) -> Preset | None:
        """The preset whose values the options have, or None."""
        return None if self.preset is None else Preset.read(self.preset)

    @cached_property
    def removal_limits(self) -> RemovalLimits:
        """The largest shares of the documents that may be removed."""
        return RemovalLimits.parse(self.max_removed)

    @cached_property
    def expected_precision(self) -> float | None:
        """The precision that the removals must be expected to have, or None."""
        if self.expect is None:
            return None
        if not self.has_short_texts:
            raise UsageError(
                f"{name_setting('expect', self.expect)} is estimated from the words of texts, "
                "which this run does not compare; leave it out"
            )
        return parse_expected(self.expect)

    @cached_property
    def keep_policy(self) -> KeepPolicy:
        """The parsed keep policy."""
        return KeepPolicy.parse(self.keep)

    @cached_property
    def acceptance(self) -> Expression | None:
        """The condition under which documents are removed; None if the threshold alone decides.

        It is None for several fields, whose condition is that of `field_alternatives`.
        """
        if self.fields:
            return None
        return combine_acceptance(self.accept, self.max_lost, self.threshold, self.spec.measure)

    @property
    def condition(self) -> str | None:
        """The text of the condition under which documents are removed, or None without one."""
        if self.fields:
            return self.accept if self._replaces_threshold else None
        return None if self.acceptance is None else str(self.acceptance)

    @property
    def _replaces_threshold(self) -> bool:
        return self.accept != SIMILAR

    @cached_property
    def _acceptance_bounds(self) -> Bounds:
        """The lower bounds of the pairs that are accepted."""
        assert self.acceptance is not None
        return require_acceptable(self.acceptance, self.spec.measure)

    @cached_property
    def containment_threshold(self) -> float | None:
        """The smallest containment of one document of a pair in the other that must be found.

        None if the bands of signatures find all pairs.
        """
        if self.acceptance is None or self.spec.measure == IDF_JACCARD:
            return None
        bounds = self._acceptance_bounds
        if bounds.jaccard >= LEAST_BANDED or bounds.overlap <= bounds.jaccard:
            return None
        return bounds.overlap

    @property
    def contained_threshold(self) -> float:
        """The smallest containment of the smaller document of a pair that contains another one.

        It is the threshold, or follows from the condition that takes its place.
        """
        return self.threshold if self.acceptance is None else self._acceptance_bounds.overlap

    @property
    def banding_threshold(self) -> float:
        """The similarity that the bands of signatures are chosen for.

        If pairs are also found by containment, the bands only serve documents that resemble too
        many others for it.
        """
        joining = self.joining_threshold
        return joining if self.related is None else min(joining, self.related)

    @property
    def joining_threshold(self) -> float:
        """The similarity from which on a document of a hot bucket joins a leader."""
        if self.containment_threshold is None:
            return self.threshold
        return max(self.threshold, DEFAULT_THRESHOLD)

    @property
    def blocking_threshold(self) -> float:
        """The similarity from which on a document is like a blocked one.

        It is the threshold. A condition takes the place of the threshold: it is the smallest
        similarity for which the condition can hold, or the default threshold if that is below
        LEAST_BANDED, as for a condition on the containment.
        """
        if self.fields or not self._replaces_threshold or self.threshold >= LEAST_BANDED:
            return self.threshold
        return DEFAULT_THRESHOLD

    @property
    def scored_threshold(self) -> float:
        """The smallest similarity of the pairs that are scored: related ones are, if asked for."""
        return self.threshold if self.related is None else min(self.threshold, self.related)

    @property
    def lowest_similarity(self) -> float:
        """The floor of components."""
        return self.floor_at(self.threshold)

    def floor_at(self, threshold: float) -> float:
        """Returns the floor of components at another threshold, which it never exceeds."""
        if self.floor is None:
            return max(0.0, threshold - DEFAULT_FLOOR_DISTANCE)
        return min(self.floor, threshold)

    @property
    def same_columns(self) -> tuple[str, ...]:
        """The columns of the option `same`."""
        return split_column_names(self.same)

    @property
    def compares_sets(self) -> bool:
        """True if a similarity of 1 means that two documents have the same shingles."""
        is_by_threshold = self.distance is None and self.acceptance is None and not self.fields
        has_all_shingles = self.spec.has_slots and self.spec.cut is None
        return is_by_threshold and has_all_shingles and self.verify == Verify.EXACT

    @property
    def groups_by_value(self) -> bool:
        """True if documents with an equal value of a column are duplicates."""
        return self.same is not None or self.url is not None

    @property
    def acceptance_columns(self) -> tuple[str, ...]:
        """The columns that the condition of the option `accept` compares."""
        return () if self.fields else columns_of_acceptance(self.accept)

    @property
    def compared_columns(self) -> tuple[str, ...]:
        """The columns that are compared in two documents, beside their contents."""
        names = (self.block_by, *self.same_columns, self.url, *self.acceptance_columns)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def carried_columns(self) -> tuple[str, ...]:
        """The columns that options name: those that are read beside documents and ids."""
        names = (
            *self.keep_policy.columns,
            self.block_by,
            None if self.across == BETWEEN_INPUTS else self.across,
            *self.same_columns,
            self.url,
            self.source,
            self.split,
            *self.acceptance_columns,
            None if self.removal_limits.column is None else self.removal_limits.column.column,
        )
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def parameters(self) -> dict[str, Any]:
        """Returns the options that decide the result, as the JSON values that run.json holds.

        The Spec is recorded on its own. Memory and workers do not decide the result.
        """
        recorded: dict[str, Any] = {}
        for name, declared in RECORDED.items():
            value = getattr(self, name)
            is_default = value == (() if name == "fields" else declared.default)
            if declared.setting.recorded is Recorded.IF_CHANGED and is_default:
                continue
            value = list(value) if isinstance(value, tuple) else value
            recorded[declared.record_key] = str(value) if isinstance(value, StrEnum) else value
        return recorded

    @classmethod
    def from_parameters(
        cls, parameters: Mapping[str, Any], spec: Spec, **others: Any
    ) -> "RunOptions":
        """Returns the options of a recorded run.

        Args:
            parameters: Dictionary that `parameters` returned.
            **others: Options that are not recorded (memory, workers), or that replace a recorded
                one.
        """
        names = {declared.record_key: name for name, declared in RECORDED.items()}
        recorded = {names.get(key, key): value for key, value in parameters.items()}
        return cls(spec=spec, **{**recorded, **others})

    def with_spec(self, spec: Spec) -> "RunOptions":
        """Returns the same options with another Spec."""
        return replace(self, spec=spec)
