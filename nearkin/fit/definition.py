"""Definitions of near-duplicates: the shingle, the normalization, the measure and the clusters.

Only the threshold is missing.

A search tries them. `base_definitions` are tried first, and `STEP_GROUPS` of normalization are
added to the best of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nearkin.engine.options import ClusterMethod
from nearkin.spec import IDF_JACCARD, MASK_STEPS, NORMALISATIONS, Spec

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
COSINE = "cosine"


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

    Examples:
        >>> definition = Definition("words", 2, "jaccard").add_steps(["digits"])
        >>> for name, value in definition.settings().items():
        ...     print(name, value)
        shingle words:2
        normalise ['nfkc', 'lower', 'digits']
        measure jaccard
        cluster leaders
        >>> str(Definition("chars", 4, "idf-jaccard"))
        'chars:4 idf-jaccard'
    """

    unit: str
    n: int
    measure: str
    normalise: tuple[str, ...] = BASE_STEPS
    cluster: ClusterMethod = ClusterMethod.LEADERS
    floor: float | None = None

    def __str__(self) -> str:
        shingle = "vectors" if self.unit == "vector" else f"{self.unit}:{self.n}"
        return " ".join([shingle, self.measure, *map("+{}".format, self.added)])

    @property
    def added(self) -> tuple[str, ...]:
        """The steps of normalization beyond those of every definition."""
        return tuple(step for step in self.normalise if step not in BASE_STEPS)

    @property
    def family(self) -> tuple[str, str]:
        """The unit and the measure. Definitions of different families differ in kind."""
        return self.unit, self.measure

    @property
    def complexity(self) -> tuple[int, int, int]:
        """An order in which a simpler definition comes first. It decides between equal scores."""
        measures = (*SET_MEASURES, COSINE)
        is_other_method = self.cluster != ClusterMethod.LEADERS
        steps = len(self.added) + is_other_method + (self.floor is not None)
        return steps, measures.index(self.measure), self.n

    def add_steps(self, steps: Iterable[str]) -> "Definition":
        """Returns this definition with more steps of normalization."""
        names = {*self.normalise, *steps}
        return replace(self, normalise=tuple(name for name in NORMALISATIONS if name in names))

    def with_components(self, floor: float | None = None) -> "Definition":
        """Returns this definition with connected components instead of leaders.

        Args:
            floor: Smallest similarity of a component's document to the kept one, or None for the
                floor of a run without options.
        """
        return replace(self, cluster=ClusterMethod.COMPONENTS, floor=floor)

    def to_spec(self) -> Spec:
        """Returns the Spec, without document frequencies."""
        if self.unit == "vector":
            return Spec(unit=self.unit, n=self.n, measure=self.measure)
        return Spec(unit=self.unit, n=self.n, measure=self.measure, normalise=self.normalise)

    def settings(self) -> dict[str, object]:
        """Returns the values of a settings file for this definition, without a threshold."""
        settings: dict[str, object] = {}
        if self.unit != "vector":
            settings["shingle"] = f"{self.unit}:{self.n}"
            settings["normalise"] = list(self.normalise)
        settings["measure"] = self.measure
        settings["cluster"] = str(self.cluster)
        if self.floor is not None:
            settings["floor"] = self.floor
        return settings


DEFAULT_DEFINITION = Definition("words", 3, "jaccard")
"""The definition of a run without options."""


def base_definitions(*, has_words_only: bool = False) -> list[Definition]:
    """Returns the definitions that are tried first.

    Args:
        has_words_only: Whether the documents are lists of tokens, which have no characters.
    """
    shingles = [("words", n) for n in WORD_LENGTHS]
    if not has_words_only:
        shingles += [("chars", n) for n in CHARACTER_LENGTHS]
    return [Definition(unit, n, measure) for measure in SET_MEASURES for unit, n in shingles]


def with_normalisation(
    definitions: Iterable[Definition], normalise: tuple[str, ...]
) -> list[Definition]:
    """Returns definitions with other steps of normalization."""
    return [replace(definition, normalise=normalise) for definition in definitions]
