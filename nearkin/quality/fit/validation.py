"""Cross-validation: the whole choice is made on some groups of documents and judged on the others.

A group is a true cluster, or the documents that labelled pairs connect. No group is divided, so a
document of the held-out part had no influence on the choice that is judged there (Stone,
*Cross-validatory choice and assessment of statistical predictions*, 1974). Held-out clusters are
judged among all documents, as new documents are that are added to a corpus.

The intervals are those of a sample of groups, with the choices of the folds as they are. They do
not model how other labels would have changed the choices: no unbiased estimate of this variance
exists (Bengio, Grandvalet, *No unbiased estimator of the variance of k-fold cross-validation*,
JMLR 2004). Simulations show how often they hold nevertheless.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nearkin.engine.wilson import wilson_interval
from nearkin.quality.evaluate.intervals import Estimate
from nearkin.quality.evaluate.pair_doubts import PairDoubts
from nearkin.quality.evaluate.totals import LabelledTotals
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.labels import FitLabels, KeptCounts
from nearkin.quality.fit.objective import REMOVED, RETAINED, Objective
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.quality.fit.search import (
    FINE_STEP,
    LEAST_GAIN,
    CurveTable,
    SearchSpace,
    search_settings,
)

FOLDS = 5
LEAST_FOLDS = 3
"""The number of folds from which the noise of a gain can be estimated."""
ERRORS_OF_GAIN = 1.0
"""The number of standard errors by which a larger search must be better than a smaller one
(Breiman, Friedman, Olshen, Stone, *Classification and Regression Trees*, 1984, section 3.4)."""


@dataclass(frozen=True)
class FoldChoice:
    """A choice that was made without one fold, and its score there.

    Attributes:
        definition: Definition of similarity.
        threshold: Threshold.
        duplicates: Number of pairs of duplicates of the held-out fold.
        f1: F1 on the held-out fold.
        score: Score on the held-out fold that the objective maximizes.
        limited: Score on the held-out fold that has a minimum, or 1.
    """

    definition: Definition
    threshold: float
    duplicates: int
    f1: float
    score: float
    limited: float


@dataclass(frozen=True)
class HeldOut:
    """The scores of choices on documents that had no influence on them.

    Attributes:
        precision: Precision of all folds together, with its 95 % interval.
        recall: Recall of all folds together.
        f1: F1 of all folds together.
        folds: What was chosen without each fold.
        kept: Clusters that are lost and documents that are removed, of all folds together. None if
            pairs are labelled.
    """

    precision: Estimate
    recall: Estimate
    f1: Estimate
    folds: tuple[FoldChoice, ...]
    kept: KeptCounts | None = None

    def with_trial(self, pairs: PairDoubts) -> "HeldOut":
        """Returns the scores with what is expected of the clusters of the inputs.

        Labelled pairs say nothing about the pairs that nobody labelled, which are often less, and
        sometimes more similar. And a document can join the cluster of one that nobody labelled. So
        both intervals count.
        """
        wrong = pairs.expect_wrong()
        precision = Estimate(
            min(self.precision.value, 1 - wrong.mean),
            min(self.precision.low, 1 - wrong.high),
            max(self.precision.high, 1 - wrong.low),
        )
        low, _ = wilson_interval(pairs.recall, pairs.labelled)
        recall = Estimate(
            min(self.recall.value, pairs.recall), min(self.recall.low, low), self.recall.high
        )
        f1 = Estimate(
            _harmonic_mean(precision.value, recall.value),
            _harmonic_mean(precision.low, recall.low),
            _harmonic_mean(precision.high, recall.high),
        )
        return replace(self, precision=precision, recall=recall, f1=f1)

    def limited_score(self, objective: Objective) -> float:
        """Returns the score that an objective limits."""
        if self.kept is not None and objective.needs_clusters:
            return 1 - self.kept.lost_share
        return (self.precision if objective.limited == "precision" else self.recall).value

    def exceeds(self, other: "HeldOut", objective: Objective) -> bool:
        """Returns whether these scores are better by more than noise.

        The folds are the same, so their differences are compared: their mean must be more than a
        standard error above 0.
        """
        compared = "score"
        if objective.limited is not None:
            is_met = self.limited_score(objective) >= objective.least
            is_met_by_other = other.limited_score(objective) >= objective.least
            if is_met_by_other and not is_met:
                return False
            if not is_met_by_other:
                compared = "limited"
        gains = np.array(
            [
                getattr(mine, compared) - getattr(its, compared)
                for mine, its in zip(self.folds, other.folds, strict=True)
            ]
        )
        if len(gains) < LEAST_FOLDS:
            return False
        error = float(gains.std(ddof=1)) / len(gains) ** 0.5
        return float(gains.mean()) > max(LEAST_GAIN, ERRORS_OF_GAIN * error)


def _harmonic_mean(precision: float, recall: float) -> float:
    return 2 * precision * recall / max(precision + recall, 1e-9)


def assign_folds(groups: np.ndarray, duplicates: np.ndarray, seed: int) -> np.ndarray:
    """Returns the fold of each document, int64 (n,), by its group and the duplicates of each group.

    Groups are dealt to folds in turn, those with most pairs of duplicates first. There are FOLDS
    folds, or as many as there are groups with duplicates.
    """
    folds = max(1, min(FOLDS, int(np.count_nonzero(duplicates))))
    shuffled = np.random.default_rng(seed).permutation(len(duplicates))
    order = shuffled[np.argsort(-duplicates[shuffled], kind="stable")]
    fold_of_group = np.empty(len(duplicates), np.int64)
    fold_of_group[order] = np.arange(len(order)) % folds
    return fold_of_group[groups]


def cross_validate(
    table: CurveTable,
    folds: np.ndarray,
    objective: Objective,
    space: SearchSpace,
) -> HeldOut | None:
    """Returns the held-out scores, or None if there is only one group with duplicates."""
    count = int(folds.max(initial=0)) + 1
    if count < 2:
        return None
    totals = []
    chosen = []
    kept = []
    for fold in range(count):
        best = search_settings(table, 1 + fold, objective, space)[0].definition
        judged = _judge_fold(table.labels, table.scorer, best, objective, folds, fold)
        totals.append(judged.totals)
        chosen.append(judged.choice)
        if judged.kept is not None:
            kept.append(judged.kept)
    pooled = LabelledTotals.combine(totals)
    return HeldOut(
        pooled.precision(),
        pooled.recall(),
        pooled.f1(),
        tuple(chosen),
        KeptCounts.combine(kept) if kept else None,
    )


class _JudgedFold(NamedTuple):
    """A choice that was made without one fold, and what it does to the fold."""

    totals: LabelledTotals
    choice: FoldChoice
    kept: KeptCounts | None


def _judge_fold(
    labels: FitLabels,
    scorer: DocumentScorer,
    definition: Definition,
    objective: Objective,
    folds: np.ndarray,
    fold: int,
) -> _JudgedFold:
    scores = labels.score(scorer, definition)
    curve = scores.curve(folds != fold, FINE_STEP)
    threshold = float(curve.thresholds[objective.choose_stable(curve)])
    totals = scores.held_out_totals(folds == fold, threshold)
    duplicates = int(totals.all.duplicates)
    kept = scores.held_out_kept(folds == fold, threshold)
    fold_scores = {
        "precision": totals.precision().value,
        "recall": totals.recall().value,
        "f1": totals.f1().value,
    }
    if kept is not None:
        fold_scores[RETAINED] = 1 - kept.lost_share
        fold_scores[REMOVED] = kept.removed_share
    choice = FoldChoice(
        definition,
        threshold,
        duplicates,
        fold_scores["f1"],
        score=fold_scores[objective.score],
        limited=1.0 if objective.limited is None else fold_scores[objective.limited],
    )
    return _JudgedFold(totals, choice, kept)
