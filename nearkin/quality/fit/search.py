"""The search for the best definition and threshold, from coarse to fine.

All shingles and measures are tried with the base normalization. Steps of normalization are then
added to the best of them as long as they help, and the shingles and measures are tried again with
the best normalization. If columns may be chosen, columns are left out of the best definition and
added to it again as long as that helps, and the rest is tried again with the chosen ones. In the
end, components are tried instead of leaders for the best of all, with the floor of a run without
options and with none. If acceptances may be chosen, containment is tried as the measure, and
conditions are added to the best definitions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nearkin.quality.fit.definition import (
    Definition,
    add_conditions,
    containment_definitions,
    with_normalisation,
)
from nearkin.quality.fit.labels import FitLabels
from nearkin.quality.fit.objective import Curve, Objective
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.runtime.progress import Progress
from nearkin.settings.choices import ClusterMethod

COARSE_STEP = 0.02
"""The distance between two thresholds while definitions are compared."""
FINE_STEP = 0.01
"""The distance between two thresholds of the definition that is chosen."""
REFINED = 4
"""The number of definitions to which steps of normalization are added."""
REFINED_OF_A_FAMILY = 2
"""The number of these that may have the same unit and measure."""
JOINED = 2
"""The number of definitions for which components are tried."""
NO_FLOOR = 0.0
"""The floor with which a chain of variants is one cluster, however different its ends are."""
LEAST_GAIN = 0.001
"""The gain in score from which a step of normalization, a column or a condition is changed."""
MOST_WITHOUT_TEXT = 0.005
"""The share of documents that may have no text in the chosen columns. A run rejects them."""
SELECTED = 2
"""The number of definitions of different kinds for which columns are selected."""
CONDITIONED = 2
"""The number of definitions to which conditions are added."""


@dataclass(frozen=True)
class SearchSpace:
    """The definitions among which a search chooses.

    Attributes:
        definitions: Definitions that are tried first.
        groups: Steps of normalization that are added, those of a group together.
        columns: Columns of texts of which some may be left out. Empty to use all.
        has_acceptances: Whether containment and conditions are tried.
    """

    definitions: Sequence[Definition]
    groups: Sequence[Sequence[str]]
    columns: tuple[str, ...] = ()
    has_acceptances: bool = False


@dataclass(frozen=True)
class Choice:
    """A definition with the threshold that was chosen for it.

    Attributes:
        definition: Definition of similarity.
        threshold: Threshold.
        rank: Key by which choices are compared, see `Objective.rank`.
        margin: Width of the range of thresholds at which the same pairs are found.
    """

    definition: Definition
    threshold: float
    rank: tuple[bool, float, float]
    margin: float = 0.0


RankAll = Callable[[Iterable[Definition]], list[Choice]]
"""Tries definitions that were not tried, and returns all tried ones in order."""


@dataclass
class CurveTable:
    """The curves of definitions over several sets of documents, computed once for each definition.

    Attributes:
        labels: Labels of the documents.
        scorer: Scorer of their pairs.
        subsets: Masks of the documents of each set, bool (n,).
        progress: Receives the number of definitions.
    """

    labels: FitLabels
    scorer: DocumentScorer
    subsets: Sequence[np.ndarray]
    progress: Progress
    curves: dict[Definition, list[Curve]] = field(default_factory=dict)

    def curve(self, definition: Definition, subset: int) -> Curve:
        """Returns the curve of a definition over one of the sets."""
        if definition not in self.curves:
            scores = self.labels.score(self.scorer, definition)
            self.curves[definition] = [
                scores.curve(members, COARSE_STEP) for members in self.subsets
            ]
            self.progress.advance(1)
        return self.curves[definition][subset]


def search_settings(
    table: CurveTable,
    subset: int,
    objective: Objective,
    space: SearchSpace,
) -> list[Choice]:
    """Returns the definitions that were tried, each with its best threshold, the best one first."""
    tried: dict[Definition, Choice] = {}

    def rank_all(candidates: Iterable[Definition]) -> list[Choice]:
        for definition in candidates:
            if definition not in tried:
                tried[definition] = _choose_threshold(table, subset, objective, definition)
        return sort_choices(tried.values())

    def try_texts(columns: tuple[str, ...]) -> list[Choice]:
        definitions = [replace(definition, columns=columns) for definition in space.definitions]
        rank_all(definitions)
        for choice in _most_promising(sort_choices(tried[each] for each in definitions)):
            _add_steps(choice.definition, space.groups, rank_all, tried)
        ranked = rank_all(())
        best = ranked[0].definition
        if best.added:
            ranked = rank_all(with_normalisation(definitions, best.normalise))
        return ranked

    ranked = try_texts(())
    if space.columns:
        selected = [
            _choose_columns(choice.definition, space.columns, table, subset, objective)
            for choice in different_choices(ranked, SELECTED)
        ]
        columns = sort_choices(selected)[0].definition.columns
        if columns:
            ranked = try_texts(columns)
    if table.labels.are_clustered:
        # Chains of a sample are shorter than those of its corpus, and the floor limits both.
        floors = (None, NO_FLOOR) if table.scorer.documents.are_complete else (None,)
        ranked = rank_all(
            [
                choice.definition.with_components(floor)
                for choice in ranked[:JOINED]
                for floor in floors
            ]
        )
    if space.has_acceptances:
        ranked = _try_acceptances(ranked, space.definitions, rank_all)
    return ranked


def _try_acceptances(
    ranked: Sequence[Choice], definitions: Sequence[Definition], rank_all: RankAll
) -> list[Choice]:
    """Tries containment as the measure, and conditions for the best definitions with leaders."""
    rank_all(containment_definitions(definitions, ranked[0].definition))
    for _ in range(2):
        leaders = [
            choice.definition
            for choice in rank_all(())
            if choice.definition.cluster == ClusterMethod.LEADERS
        ]
        rank_all(
            [longer for shorter in leaders[:CONDITIONED] for longer in add_conditions(shorter)]
        )
    return rank_all(())


def _choose_columns(
    definition: Definition,
    columns: tuple[str, ...],
    table: CurveTable,
    subset: int,
    objective: Objective,
) -> Choice:
    """Returns a definition with the columns that stepwise selection finds.

    It starts with all columns, and with the best single one, and leaves out or adds the column with
    the largest gain as long as there is one (Efroymson, "Multiple regression analysis", 1960).
    """
    texts = table.scorer.documents.texts
    assert texts is not None
    choices: dict[frozenset[str], Choice] = {}

    def judge(used: frozenset[str]) -> Choice:
        if used not in choices:
            names = tuple(name for name in columns if name in used)
            chosen = replace(definition, columns=() if names == columns else names)
            choices[used] = _choose_threshold(table, subset, objective, chosen)
        return choices[used]

    def find_best(sets: Iterable[frozenset[str]]) -> frozenset[str]:
        best = sort_choices(judge(used) for used in sets)[0].definition
        return frozenset(best.columns or columns)

    for start in (frozenset(columns), find_best(frozenset([name]) for name in columns)):
        current = start
        while True:
            following = find_best(current ^ {name} for name in columns if current != {name})
            if not _is_gain(judge(current).rank, judge(following).rank):
                break
            current = following
    usable = [
        choice
        for used, choice in choices.items()
        if texts.share_without_text(used) <= MOST_WITHOUT_TEXT
    ]
    return sort_choices(usable)[0]


def _choose_threshold(
    table: CurveTable, subset: int, objective: Objective, definition: Definition
) -> Choice:
    curve = table.curve(definition, subset)
    position = objective.choose(curve)
    rank = objective.rank_at(curve, position)
    first, last = curve.plateau(position)
    margin = float(curve.thresholds[last] - curve.thresholds[first])
    return Choice(definition, float(curve.thresholds[position]), rank, margin)


def sort_choices(choices: Iterable[Choice]) -> list[Choice]:
    """Returns choices, the best one first.

    Of equally good ones, one with a wider margin is first, and of these the simplest one.
    """
    by_complexity = sorted(choices, key=lambda choice: choice.definition.complexity)
    return sorted(
        by_complexity, key=lambda choice: (choice.rank, round(choice.margin, 1)), reverse=True
    )


def _most_promising(ranked: Sequence[Choice]) -> list[Choice]:
    chosen: list[Choice] = []
    for choice in ranked:
        family = choice.definition.family
        of_family = [earlier for earlier in chosen if earlier.definition.family == family]
        if len(of_family) < REFINED_OF_A_FAMILY and choice.definition.unit != "vector":
            chosen.append(choice)
        if len(chosen) == REFINED:
            break
    return chosen


def _add_steps(
    definition: Definition,
    groups: Sequence[Sequence[str]],
    rank_all: RankAll,
    tried: dict[Definition, Choice],
) -> None:
    """Tries groups of steps of normalization, and adds the best one as long as it helps."""
    while True:
        extended = [definition.add_steps(group) for group in groups]
        extended = [longer for longer in extended if longer != definition]
        if not extended:
            return
        rank_all(extended)
        best = sort_choices(tried[candidate] for candidate in extended)[0]
        if not _is_gain(tried[definition].rank, best.rank):
            return
        definition = best.definition


def _is_gain(before: tuple[bool, float, float], after: tuple[bool, float, float]) -> bool:
    """Returns whether a score is higher by more than LEAST_GAIN, or meets the minimum newly."""
    if after[0] != before[0]:
        return after[0]
    return after[1] > before[1] + LEAST_GAIN


def different_choices(ranked: Sequence[Choice], count: int) -> list[Choice]:
    """Returns the best choices of different units or measures."""
    best_of_family: dict[tuple[str, str], Choice] = {}
    for choice in ranked:
        best_of_family.setdefault(choice.definition.family, choice)
    return list(best_of_family.values())[:count]
