"""Definitions of near-duplicates: the shingle, the normalization, the measure and the clusters.

Only the threshold is missing.

A search tries them. `base_definitions` are tried first, and `STEP_GROUPS` of normalization are
added to the best of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nearkin.engine.acceptance import measured_number
from nearkin.settings.acceptance import And, Comparison, Expression, NumbersEqual
from nearkin.settings.acceptance.expression import Number, Operator
from nearkin.settings.choices import ClusterMethod
from nearkin.settings.spec import IDF_JACCARD, MASK_STEPS, NORMALISATIONS, Spec

BASE_STEPS = ("nfkc", "lower")
"""The steps of normalization that every definition has."""
SINGLE_STEPS = tuple((step,) for step in NORMALISATIONS if step not in (*BASE_STEPS, *MASK_STEPS))
STEP_GROUPS: tuple[tuple[str, ...], ...] = (*SINGLE_STEPS, MASK_STEPS)
"""The steps of normalization that are tried in addition. The masks are tried together."""
WORD_LENGTHS = range(1, 6)
"""The lengths of shingles of words that are tried."""
CHARACTER_LENGTHS = range(2, 10)
"""The lengths of shingles of characters that are tried."""
SET_MEASURES = ("jaccard", "weighted-jaccard", IDF_JACCARD)
"""The measures of shingles that are tried, the simplest one first."""
CONTAINMENT = "containment"
"""The containment of the removed document in the kept one, which an acceptance compares."""
COSINE = "cosine"
LEAST_CONTAINMENTS = (0.5, 0.65, 0.8, 0.95)
"""The smallest containments that are tried beside a threshold."""


@dataclass(frozen=True)
class Definition:
    """A definition of near-duplicates, without a threshold.

    Attributes:
        unit: `words`, `chars` or `vector`.
        n: Number of units of a shingle, or the length of the vectors.
        measure: Measure, for example `jaccard`.
        normalise: Steps of normalization. Vectors have none.
        cluster: Method that makes clusters of pairs: `leaders` or `components`.
        floor: Smallest similarity of a component's document to the kept one. None for the floor of
            a run without options, which depends on the threshold. Leaders have none.
        columns: Columns of texts that are joined. Empty for all columns of the fit.
        least_containment: Smallest containment of a removed document in the kept one, or 0.
        needs_equal_numbers: Whether a removed document must have the numbers of the kept one.

    Examples:
        >>> definition = Definition("words", 2, "jaccard").add_steps(["digits"])
        >>> for name, value in definition.settings(0.5).items():
        ...     print(name, value)
        shingle words:2
        normalise ['nfkc', 'lower', 'digits']
        measure jaccard
        cluster leaders
        threshold 0.5
        >>> str(Definition("chars", 4, "idf-jaccard"))
        'chars:4 idf-jaccard'
        >>> Definition("words", 1, "containment").settings(0.9)["accept"]
        'containment >= 0.9'
    """

    unit: str
    n: int
    measure: str
    normalise: tuple[str, ...] = BASE_STEPS
    cluster: ClusterMethod = ClusterMethod.LEADERS
    floor: float | None = None
    columns: tuple[str, ...] = ()
    least_containment: float = 0.0
    needs_equal_numbers: bool = False

    def __str__(self) -> str:
        shingle = "vectors" if self.unit == "vector" else f"{self.unit}:{self.n}"
        parts = [shingle, self.measure, *map("+{}".format, self.added)]
        parts += [f"and {condition}" for condition in self.conditions]
        if self.columns:
            parts.append(f"of {', '.join(self.columns)}")
        return " ".join(parts)

    @property
    def added(self) -> tuple[str, ...]:
        """The steps of normalization beyond those of every definition."""
        return tuple(step for step in self.normalise if step not in BASE_STEPS)

    @property
    def has_condition(self) -> bool:
        """True if an acceptance decides instead of a threshold."""
        is_restricted = self.least_containment > 0 or self.needs_equal_numbers
        return self.measure == CONTAINMENT or is_restricted

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions beside the threshold, as parts of an acceptance expression."""
        return tuple(str(condition) for condition in self._list_conditions())

    def _list_conditions(self) -> list[Comparison | NumbersEqual]:
        conditions: list[Comparison | NumbersEqual] = []
        if self.least_containment > 0:
            least = Comparison(Number.CONTAINMENT, Operator.AT_LEAST, self.least_containment)
            conditions.append(least)
        if self.needs_equal_numbers:
            conditions.append(NumbersEqual())
        return conditions

    def to_acceptance(self, threshold: float) -> Expression:
        """Returns the acceptance that decides instead of a threshold."""
        number = Number.CONTAINMENT
        if self.measure != CONTAINMENT:
            number = measured_number(self.measure)
        decisive = Comparison(number, Operator.AT_LEAST, threshold)
        conditions = self._list_conditions()
        return And((decisive, *conditions)) if conditions else decisive

    @property
    def family(self) -> tuple[str, str]:
        """The unit and the measure. Definitions of different families differ in kind."""
        return self.unit, self.measure

    @property
    def complexity(self) -> tuple[int, int, int]:
        """An order in which a simpler definition comes first. It decides between equal scores."""
        measures = (*SET_MEASURES, CONTAINMENT, COSINE)
        is_other_method = self.cluster != ClusterMethod.LEADERS
        steps = len(self.added) + is_other_method + (self.floor is not None)
        steps += len(self.conditions)
        return steps, measures.index(self.measure), self.n

    def add_steps(self, steps: Iterable[str]) -> "Definition":
        """Returns this definition with more steps of normalization."""
        names = {*self.normalise, *steps}
        return replace(self, normalise=tuple(name for name in NORMALISATIONS if name in names))

    def with_components(self, floor: float | None = None) -> "Definition":
        """Returns this definition with connected components instead of leaders."""
        return replace(self, cluster=ClusterMethod.COMPONENTS, floor=floor)

    @property
    def run_measure(self) -> str:
        """The measure of a run. Containment is a condition of runs of the Jaccard similarity."""
        return "jaccard" if self.measure == CONTAINMENT else self.measure

    def to_spec(self) -> Spec:
        """Returns the Spec, without document frequencies."""
        if self.unit == "vector":
            return Spec(unit=self.unit, n=self.n, measure=self.measure)
        return Spec(unit=self.unit, n=self.n, measure=self.run_measure, normalise=self.normalise)

    def settings(self, threshold: float) -> dict[str, object]:
        """Returns the values of a settings file for this definition."""
        settings: dict[str, object] = {}
        if self.columns:
            settings["text"] = list(self.columns)
        if self.unit != "vector":
            settings["shingle"] = f"{self.unit}:{self.n}"
            settings["normalise"] = list(self.normalise)
        settings["measure"] = self.run_measure
        settings["cluster"] = str(self.cluster)
        if self.floor is not None:
            settings["floor"] = self.floor
        if self.has_condition:
            settings["accept"] = str(self.to_acceptance(threshold))
        else:
            settings["threshold"] = threshold
        return settings


DEFAULT_DEFINITION = Definition("words", 3, "jaccard")
"""The definition of a run without options."""


def base_definitions(*, has_words_only: bool = False) -> list[Definition]:
    """Returns the definitions that are tried first."""
    shingles = [("words", n) for n in WORD_LENGTHS]
    if not has_words_only:
        shingles += [("chars", n) for n in CHARACTER_LENGTHS]
    return [Definition(unit, n, measure) for measure in SET_MEASURES for unit, n in shingles]


def containment_definitions(
    definitions: Iterable[Definition], best: Definition
) -> list[Definition]:
    """Returns definitions by containment with the shingles of others."""
    return [
        replace(definition, measure=CONTAINMENT, normalise=best.normalise, columns=best.columns)
        for definition in definitions
        if definition.measure == "jaccard"
    ]


def add_conditions(definition: Definition) -> list[Definition]:
    """Returns a definition with each condition that an acceptance may add to it."""
    extended = []
    if definition.measure != "weighted-jaccard" and not definition.needs_equal_numbers:
        extended.append(replace(definition, needs_equal_numbers=True))
    if definition.measure == "jaccard" and definition.least_containment == 0:
        extended += [replace(definition, least_containment=least) for least in LEAST_CONTAINMENTS]
    return extended


def with_normalisation(
    definitions: Iterable[Definition], normalise: tuple[str, ...]
) -> list[Definition]:
    """Returns definitions with other steps of normalization."""
    return [replace(definition, normalise=normalise) for definition in definitions]
