"""The fit: from a corpus and labels to settings, with what is known of their quality."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Columns, Corpus
from nearkin.corpus.unknown_ids import describe_unknown_ids
from nearkin.errors import UsageError
from nearkin.quality.evaluate.doubtful_removals import FEW_DOUBTFUL, DoubtfulRemovals
from nearkin.quality.evaluate.golden import GoldenSet, Labelled
from nearkin.quality.fit.definition import (
    COSINE,
    DEFAULT_DEFINITION,
    STEP_GROUPS,
    Definition,
    base_definitions,
)
from nearkin.quality.fit.documents import FitDocuments, read_documents
from nearkin.quality.fit.labels import (
    ClusterLabels,
    FitLabels,
    LabelScores,
    OneSourceCounts,
    place_labels,
)
from nearkin.quality.fit.objective import Objective
from nearkin.quality.fit.result import FitResult, FittedSettings, LabelCounts, WrongPair
from nearkin.quality.fit.sampling import LabelledSample, sample_labels
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.quality.fit.search import (
    FINE_STEP,
    Choice,
    CurveTable,
    SearchSpace,
    different_choices,
    search_settings,
    sort_choices,
)
from nearkin.quality.fit.validation import HeldOut, assign_folds, cross_validate
from nearkin.runtime.argument_types import require_seed
from nearkin.runtime.number_format import format_percent
from nearkin.runtime.number_range import NumberRange
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.threads import require_workers
from nearkin.settings.spec import IDF_JACCARD
from nearkin.stages.packed_pairs import pack_pairs
from nearkin.stages.shingle.masks import MASKS

SAMPLE_DOCUMENTS = 4000
"""The default number of documents of which all pairs are compared."""
DEFAULT_THRESHOLD = 0.8
SHOWN_CHOICES = 3
TRIED_CHOICES = 6
"""The number of choices that are tried over the inputs, if pairs are labelled."""
MOST_TRIALS = 4
"""The largest number of thresholds of a choice that are tried over the inputs."""
SHOWN_MISTAKES = 10
FEW_GROUPS = 30
"""The number of groups with duplicates below which a warning tells to label more."""
MOST_MISSING = 0.5
"""The share of labelled documents that may be missing from the inputs."""
EVIDENCE_OF_STEPS = {
    "digits": r"\d",
    "punctuation": r"[^\w\s]",
    "marks": r"[^\x00-\x7f]",
    "markup": "<",
    **{step: mask.pattern for step, mask in MASKS.items()},
}
"""Patterns without which a step of normalization changes no text."""
TRIAL_NOISE = 0.03
"""The score by which settings must be better in a trial than those that the labels prefer."""
Trial = Callable[[Mapping[str, object]], DoubtfulRemovals | None]
"""Examines what settings remove from the inputs. Returns None if that is nothing."""


@dataclass(frozen=True)
class FitRequest:
    """The objective and the limits of a fit.

    Attributes:
        objective: What is maximized.
        labelled: What was chosen for labelling, if clusters are labelled.
        sample: Number of documents of which all pairs are compared.
        seed: Random seed of samples and folds.
        workers: Number of threads.
        across: Column of sources, of which only different ones are compared, or None.
    """

    objective: Objective
    labelled: Labelled = Labelled.CLUSTERS
    sample: int = SAMPLE_DOCUMENTS
    seed: int = 1
    workers: int = 2
    across: str | None = None

    def __post_init__(self) -> None:
        NumberRange(2).require("sample", self.sample)
        require_seed("seed", self.seed)
        require_workers(self.workers)


def fit_settings(
    corpus: Corpus,
    columns: Columns,
    golden: GoldenSet,
    request: FitRequest,
    progress: Progress,
    trial: Trial | None = None,
) -> FitResult:
    """Chooses settings from labels.

    Labelled pairs say nothing about the pairs that nobody labelled, so a trial with the inputs
    judges what is chosen from them.
    """
    documents, labels, sampled = read_labelled_documents(corpus, columns, golden, request, progress)
    one_source = None
    if documents.sources is not None:
        one_source = labels.count_one_source(documents.sources)
        _require_different_sources(labels, one_source, documents.sources.column)
    scorer = DocumentScorer(documents, request.workers)
    folds = assign_folds(labels.groups, labels.duplicates_of_groups, request.seed)
    everyone = np.ones(len(documents), bool)
    outside_folds = [folds != fold for fold in range(int(folds.max()) + 1)]
    progress.stage("fit", None)
    table = CurveTable(labels, scorer, [everyone, *outside_folds], progress)
    groups = _find_useful_steps(documents.contents) if columns.text is not None else []
    space = SearchSpace(_definitions_for(columns), groups)
    space, held_out = _extend_space(table, folds, request.objective, space)
    ranked = search_settings(table, 0, request.objective, space)
    count = SHOWN_CHOICES if golden.clusters is not None else TRIED_CHOICES
    choices = [
        fit_definition(labels, scorer, choice.definition, request.objective)
        for choice in different_choices(ranked, count)
    ]
    choices = _sort_fitted(choices, request.objective)
    if trial is not None and golden.clusters is None:
        progress.stage("try", len(choices))
        choices = [
            _try_over_inputs(labels, scorer, choice, request.objective, trial, progress)
            for choice in choices
        ]
        best = _best_tried(choices, request.objective)
        choices = [best, *(choice for choice in choices if choice is not best)]
    removals = choices[0].removals
    if held_out is not None and removals is not None and removals.pairs is not None:
        held_out = held_out.with_trial(removals.pairs)
    choices = choices[:SHOWN_CHOICES]
    default = None
    if columns.vector is None:
        default_scores = labels.score(scorer, DEFAULT_DEFINITION)
        default = judge_settings(default_scores, DEFAULT_DEFINITION, DEFAULT_THRESHOLD, documents)
    best = choices[0]
    mistakes = labels.score(scorer, best.definition).mistakes(best.threshold)
    if documents.sources is not None:
        mistakes = mistakes.without_one_source(documents.sources)
    return FitResult(
        best=best,
        choices=tuple(choices),
        default=default,
        held_out=held_out,
        objective=str(request.objective),
        is_met=best.rank(request.objective)[0],
        labels=_count_labels(labels, documents, sampled, one_source),
        tried=len(table.curves),
        false_pairs=_quote_pairs(scorer, best, mistakes.false_pairs),
        missed_pairs=_quote_pairs(scorer, best, mistakes.missed_pairs),
        false_count=len(mistakes.false_pairs),
        missed_count=len(mistakes.missed_pairs),
        warnings=tuple(
            _warn_of_labels(labels, documents, sampled, held_out)
            + _warn_of_sources(labels, documents, one_source)
            + _warn_of_choice(best, held_out, request.objective, documents)
        ),
    )


class LabelledDocuments(NamedTuple):
    """The documents of a fit, with their labels."""

    documents: FitDocuments
    labels: FitLabels
    sampled: LabelledSample


def read_labelled_documents(
    corpus: Corpus,
    columns: Columns,
    golden: GoldenSet,
    request: FitRequest,
    progress: Progress,
) -> LabelledDocuments:
    """Reads the labelled documents of a corpus, and others if clusters are labelled."""
    _require_both_kinds(golden)
    if golden.clusters is None and request.objective.needs_clusters:
        raise UsageError(
            f"{name_setting('objective', str(request.objective))} needs labelled clusters (id, "
            "cluster), and single pairs are labelled; choose precision>=0.99 for them"
        )
    sampled = sample_labels(golden, request.sample, request.seed)
    other_documents = 0
    if golden.clusters is not None:
        other_documents = max(0, request.sample - len(sampled.chosen))
    documents = read_documents(
        corpus,
        columns,
        sampled.chosen,
        other_documents,
        request.seed,
        progress,
        left_out=sampled.left_out,
        compared=None if golden.clusters is None else request.sample,
        across=request.across,
        choosable=columns.sources if columns.joined else (),
    )
    _require_present(documents, sampled)
    labels = place_labels(golden, documents, request.labelled, sampled)
    _require_both_kinds_among(documents, labels)
    return LabelledDocuments(documents, labels, sampled)


def _extend_space(
    table: CurveTable,
    folds: np.ndarray,
    objective: Objective,
    space: SearchSpace,
) -> tuple[SearchSpace, HeldOut | None]:
    """Lets the search choose columns and acceptances if that is better by more than noise."""
    held_out = cross_validate(table, folds, objective, space)
    extensions: list[dict[str, Any]] = []
    texts = table.scorer.documents.texts
    if texts is not None:
        extensions.append({"columns": texts.columns})
    if space.definitions[0].unit != "vector":
        extensions.append({"has_acceptances": True})
    for extension in extensions:
        extended = replace(space, **extension)
        tried = None if held_out is None else cross_validate(table, folds, objective, extended)
        if held_out is not None and tried is not None and tried.exceeds(held_out, objective):
            space = extended
            held_out = tried
    return space, held_out


def _require_both_kinds_among(documents: FitDocuments, labels: FitLabels) -> None:
    if documents.too_large and not (labels.duplicates and labels.has_distinct):
        raise UsageError(
            f"{documents.too_large:,} labelled documents were left out because the texts are too "
            "large to compare, and the others do not have labels of both kinds; fit the settings "
            "to shorter documents"
        )
    if not labels.duplicates:
        raise UsageError("no pair of duplicates is labelled among the documents of the inputs")
    if not labels.has_distinct:
        raise UsageError("no distinct pair is labelled among the documents of the inputs")


def fit_definition(
    labels: FitLabels,
    scorer: DocumentScorer,
    definition: Definition,
    objective: Objective,
) -> FittedSettings:
    """Chooses the threshold of one definition on all labels."""
    scores = labels.score(scorer, definition)
    curve = scores.curve(np.ones(len(labels.groups), bool), FINE_STEP)
    threshold = float(curve.thresholds[objective.choose_stable(curve)])
    return judge_settings(scores, definition, threshold, scorer.documents)


def judge_settings(
    scores: LabelScores, definition: Definition, threshold: float, documents: FitDocuments
) -> FittedSettings:
    """Returns a definition and a threshold with their scores on all labels."""
    everyone = np.ones(scores.documents, bool)
    totals = scores.totals(everyone, threshold)
    curve = scores.curve(everyone, FINE_STEP)
    return FittedSettings(
        definition,
        threshold,
        totals.precision(),
        totals.recall(),
        totals.f1(),
        curve,
        documents.across,
        () if documents.texts is None else definition.columns or documents.texts.columns,
    )


def _try_over_inputs(
    labels: FitLabels,
    scorer: DocumentScorer,
    choice: FittedSettings,
    objective: Objective,
    trial: Trial,
    progress: Progress,
) -> FittedSettings:
    """Returns a choice with the threshold that is best by the labels and by what it removes."""
    scores = labels.score(scorer, choice.definition)
    best: FittedSettings | None = None
    threshold = choice.threshold
    for _ in range(MOST_TRIALS):
        judged = judge_settings(scores, choice.definition, threshold, scorer.documents)
        removals = trial(judged.settings)
        judged = replace(judged, removals=removals)
        # of two thresholds that seem equally good, the higher one removes less that is unlabelled
        if best is None or _gain(judged, best, objective) >= (0, 0.0):
            best = judged
        if removals is None:
            break
        higher = max(removals.best_threshold, removals.advised_threshold or 0.0)
        if higher <= threshold and removals.share > FEW_DOUBTFUL:
            higher = _next_threshold(judged)
        if higher <= threshold:
            break
        threshold = higher
    progress.advance(1)
    assert best is not None
    return best


def _next_threshold(judged: FittedSettings) -> float:
    """Returns the highest threshold at which the labels have the same scores, or the next ones."""
    curve = judged.curve
    _, last = curve.plateau(judged.position)
    if last == judged.position and last + 1 < len(curve.thresholds):
        _, last = curve.plateau(last + 1)
    return float(curve.thresholds[last])


def _gain(judged: FittedSettings, best: FittedSettings, objective: Objective) -> tuple[int, float]:
    """Returns by how much settings are better: the minimum of the objective, then the score."""
    is_met, score, _ = judged.rank(objective)
    is_best_met, best_score, _ = best.rank(objective)
    return is_met - is_best_met, score - best_score


def _best_tried(tried: Sequence[FittedSettings], objective: Objective) -> FittedSettings:
    """Returns the first settings, or later ones that are better by more than trials err."""
    best = tried[0]
    for judged in tried[1:]:
        if _gain(judged, best, objective) > (0, TRIAL_NOISE):
            best = judged
    return best


def _sort_fitted(fitted: Sequence[FittedSettings], objective: Objective) -> list[FittedSettings]:
    by_definition = {settings.definition: settings for settings in fitted}
    choices = [
        Choice(settings.definition, settings.threshold, settings.rank(objective))
        for settings in fitted
    ]
    return [by_definition[choice.definition] for choice in sort_choices(choices)]


def _require_both_kinds(golden: GoldenSet) -> None:
    if golden.is_closed:
        raise UsageError("a fit takes labelled pairs as they are; read them without closure")
    if golden.clusters is not None:
        clusters = len(np.unique(golden.clusters))
        if clusters == len(golden.ids):
            raise UsageError(
                f"each of the {clusters:,} labelled documents is a cluster of its own, so no "
                "duplicates are known; label some"
            )
        if clusters < 2:
            raise UsageError(
                f"all {len(golden.ids):,} labelled documents are in one cluster, so no distinct "
                "documents are known; label some of other clusters"
            )
        return
    assert golden.duplicates is not None
    assert golden.distinct is not None
    if not len(golden.duplicates):
        raise UsageError(
            f"all {len(golden.distinct):,} labelled pairs are distinct; label some pairs of "
            "duplicates with 1"
        )
    if not len(golden.distinct):
        raise UsageError(
            f"all {len(golden.duplicates):,} labelled pairs are duplicates, so that every "
            "threshold would do; label some distinct pairs that look similar with 0"
        )


def _require_present(documents: FitDocuments, sampled: LabelledSample) -> None:
    if documents.missing > MOST_MISSING * len(sampled.chosen):
        problem = (
            f"{documents.missing:,} of {len(sampled.chosen):,} labelled documents are not in the "
            f"inputs, for example {describe_unknown_ids(documents.unknown_ids)}"
        )
        if any(documents.unknown_ids.values()):
            raise UsageError(problem)
        if len(sampled.chosen) + len(sampled.left_out) > documents.corpus_documents:
            raise UsageError(
                f"{problem}; the labels name "
                f"{len(sampled.chosen) + len(sampled.left_out):,} documents, and the inputs have "
                f"{documents.corpus_documents:,}, such as {documents.example_id!r}: pass all files "
                "to which the labels belong, or a file with the labels of these documents alone; "
                f"if the ids are in another column, name it with {name_setting('id')}"
            )
        raise UsageError(
            f"{problem}; the inputs have ids such as {documents.example_id!r}: name their column "
            f"with {name_setting('id')}, or correct the labels"
        )


def _require_different_sources(labels: FitLabels, one_source: OneSourceCounts, column: str) -> None:
    for kind, count, of_one_source in (
        ("pairs of duplicates", labels.duplicates, one_source.duplicates),
        ("distinct pairs", labels.distinct, one_source.distinct),
    ):
        if count is not None and count == of_one_source:
            raise UsageError(
                f"all {count:,} labelled {kind} are of one source each, which "
                f"{name_setting('across', column)} does not compare; label some of different "
                "sources, or name another column"
            )


def _definitions_for(columns: Columns) -> list[Definition]:
    if columns.vector is not None:
        assert columns.dimensions is not None
        return [Definition("vector", columns.dimensions, COSINE, ())]
    return base_definitions(has_words_only=columns.tokens is not None)


def _find_useful_steps(texts: pa.Array) -> list[list[str]]:
    """Returns the groups of steps of normalization, with the steps that may change a text."""
    groups = []
    for group in STEP_GROUPS:
        useful = [step for step in group if _may_change(texts, step)]
        if useful:
            groups.append(useful)
    return groups


def _may_change(texts: pa.Array, step: str) -> bool:
    pattern = EVIDENCE_OF_STEPS.get(step, "")
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _count_labels(
    labels: FitLabels,
    documents: FitDocuments,
    sampled: LabelledSample,
    one_source: OneSourceCounts | None,
) -> LabelCounts:
    clusters = None
    if isinstance(labels, ClusterLabels):
        clusters = len(labels.firsts) - 1
    return LabelCounts(
        documents=int(documents.is_labelled.sum()),
        clusters=clusters,
        duplicates=labels.duplicates,
        distinct=labels.distinct,
        missing=documents.missing,
        left_out=len(sampled.left_out) + documents.too_large,
        corpus_documents=documents.corpus_documents,
        compared_documents=len(documents),
        duplicates_of_one_source=None if one_source is None else one_source.duplicates,
        distinct_of_one_source=None if one_source is None else one_source.distinct,
    )


def _quote_pairs(
    scorer: DocumentScorer, fitted: FittedSettings, pairs: np.ndarray
) -> tuple[WrongPair, ...]:
    """Returns the first pairs, without those of a document that was quoted before."""
    chosen: list[tuple[int, int]] = []
    quoted: set[int] = set()
    for first, second in pairs.tolist():
        if first in quoted or second in quoted:
            continue
        quoted.update((first, second))
        chosen.append((first, second))
        if len(chosen) == SHOWN_MISTAKES:
            break
    rows = np.array(chosen, np.int64).reshape(-1, 2)
    similarity = scorer.score_pairs(fitted.definition, pack_pairs(rows[:, 0], rows[:, 1]))
    documents = scorer.documents
    return tuple(
        WrongPair(
            documents.ids[first],
            documents.ids[second],
            documents.quote(first),
            documents.quote(second),
            value,
        )
        for (first, second), value in zip(chosen, similarity.tolist(), strict=True)
    )


def _warn_of_labels(
    labels: FitLabels,
    documents: FitDocuments,
    sampled: LabelledSample,
    held_out: HeldOut | None,
) -> list[str]:
    warnings = []
    if documents.missing:
        are = "document is" if documents.missing == 1 else "documents are"
        warnings.append(
            f"{documents.missing:,} labelled {are} not in the inputs, or could not be read, and "
            f"ignored, for example {describe_unknown_ids(documents.unknown_ids)}"
        )
    if documents.too_large:
        warnings.append(
            f"{documents.too_large:,} labelled documents were left out because their texts are "
            f"too large to compare all of them; the settings were chosen from "
            f"{int(documents.is_labelled.sum()):,}"
        )
    groups = int(np.count_nonzero(labels.duplicates_of_groups))
    if held_out is None:
        warnings.append(
            "the duplicates are in one group, so that nothing could be held out: the scores are "
            "those on the labels from which the settings were chosen; label more"
        )
    elif groups < FEW_GROUPS:
        warnings.append(
            f"only {groups} groups of documents have labelled duplicates, so that the F1 to expect "
            f"is only known to be between {held_out.f1.low:.2f} and {held_out.f1.high:.2f}; label "
            f"duplicates of at least {FEW_GROUPS} groups"
        )
    if sampled.capped_clusters:
        warnings.append(
            f"{sampled.capped_clusters} large clusters were represented by some of their documents"
        )
    return warnings


def _warn_of_sources(
    labels: FitLabels,
    documents: FitDocuments,
    one_source: OneSourceCounts | None,
) -> list[str]:
    warnings: list[str] = []
    sources = documents.sources
    if sources is None or one_source is None:
        return warnings
    if sources.without_value:
        warnings.append(
            f"{sources.without_value:,} documents have no value in column {sources.column!r}; they "
            "are a source of their own, so they are compared with all documents that have one"
        )
    if one_source.duplicates:
        first, second = (documents.ids[position] for position in one_source.example.tolist())
        consequence = "so they are never found, and recall counts them"
        if labels.are_clustered:
            consequence = (
                "so they are only found if a document of another source is the kept one of both"
            )
        warnings.append(
            f"{one_source.duplicates:,} of {labels.duplicates:,} labelled pairs of duplicates are "
            f"of one source, for example {first!r} and {second!r}; they are not compared, "
            f"{consequence}"
        )
    if one_source.distinct:
        warnings.append(
            f"{one_source.distinct:,} of {labels.distinct:,} labelled distinct pairs are of one "
            "source; they are not compared, so that they say nothing about the settings"
        )
    return warnings


def _warn_of_choice(
    best: FittedSettings,
    held_out: HeldOut | None,
    objective: Objective,
    documents: FitDocuments,
) -> list[str]:
    warnings = []
    is_met, reached, _ = best.rank(objective)
    if not is_met:
        nearest = f"have a {objective.limited} of {reached:.3f}"
        if objective.needs_clusters:
            nearest = f"lose {1 - reached:.3f} of the clusters"
        warnings.append(f"no settings reach {objective}; the best ones {nearest}")
    elif held_out is not None and objective.limited is not None:
        expected = held_out.limited_score(objective)
        if expected < objective.least and objective.needs_clusters:
            warnings.append(
                f"the settings reach {objective} on the labels, but {1 - expected:.3f} are lost in "
                "cross-validation; ask for a smaller share, or label more"
            )
        elif expected < objective.least:
            warnings.append(
                f"the settings reach {objective} on the labels, but only {expected:.3f} in "
                "cross-validation; ask for a higher minimum, or label more"
            )
    doubt = None if best.removals is None else best.removals.warn()
    if doubt is not None:
        warnings.append(f"with these settings, {doubt}; label such pairs")
    first, last = best.curve.plateau(best.position)
    if first == 0:
        warnings.append(
            f"the threshold {best.threshold:g} is at the lower end of the search: hardly any "
            "distinct documents are similar, so that the labels do not say where to stop; label "
            "distinct pairs that look similar"
        )
    elif last == len(best.curve.thresholds) - 1 and first == last:
        warnings.append(
            "the best threshold is 1: only documents with equal shingles are duplicates; the "
            "texts may need another preparation"
        )
    if documents.texts is not None and best.definition.columns:
        share = documents.texts.share_without_text(best.definition.columns)
        if share:
            warnings.append(
                f"{format_percent(share)} of the documents have no text in "
                f"{', '.join(best.definition.columns)}; a run with these columns rejects them"
            )
    uses_frequencies = best.definition.measure == IDF_JACCARD
    if uses_frequencies and documents.corpus_documents > len(documents.background):
        warnings.append(
            f"document frequencies were counted from {len(documents.background):,} of "
            f"{documents.corpus_documents:,} documents; a run counts them from all"
        )
    return warnings
