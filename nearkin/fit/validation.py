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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.evaluate.intervals import Estimate
from nearkin.evaluate.totals import LabelledTotals
from nearkin.fit.definition import Definition
from nearkin.fit.labels import FitLabels, KeptCounts
from nearkin.fit.objective import Objective
from nearkin.fit.scoring import DocumentScorer
from nearkin.fit.search import FINE_STEP, CurveTable, search_settings

FOLDS = 5


@dataclass(frozen=True)
class FoldChoice:
    """A choice that was made without one fold, and its score there.

    Attributes:
        definition: Definition of similarity.
        threshold: Threshold.
        duplicates: Number of pairs of duplicates of the held-out fold.
        f1: F1 on the held-out fold.
    """

    definition: Definition
    threshold: float
    duplicates: int
    f1: float


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

    def limited_score(self, objective: Objective) -> float:
        """Returns the score that an objective limits.

        Args:
            objective: Objective with a minimum.
        """
        if self.kept is not None and objective.needs_clusters:
            return 1 - self.kept.lost_share
        return (self.precision if objective.limited == "precision" else self.recall).value


def assign_folds(groups: np.ndarray, duplicates: np.ndarray, seed: int) -> np.ndarray:
    """Returns the fold of each document, int64 (n,).

    Groups are dealt to folds in turn, those with most pairs of duplicates first. There are FOLDS
    folds, or as many as there are groups with duplicates.

    Args:
        groups: Group of each document, from 0, int64 (n,).
        duplicates: Number of pairs of duplicates of each group, int64 (g,).
        seed: Random seed of the order of equal groups.
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
    definitions: Sequence[Definition],
    groups: Sequence[Sequence[str]],
) -> HeldOut | None:
    """Returns the held-out scores, or None if there is only one group with duplicates.

    Args:
        table: Curves of definitions. Its set number 1 + f is the documents outside fold f.
        folds: Fold of each document, int64 (n,).
        objective: What is maximized.
        definitions: Definitions that are tried first.
        groups: Steps of normalization that are added, those of a group together.
    """
    count = int(folds.max(initial=0)) + 1
    if count < 2:
        return None
    totals = []
    chosen = []
    kept = []
    for fold in range(count):
        best = search_settings(table, 1 + fold, objective, definitions, groups)[0].definition
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
    """Chooses the threshold of a definition without a fold, and judges it on the fold."""
    scores = labels.score(scorer, definition)
    curve = scores.curve(folds != fold, FINE_STEP)
    threshold = float(curve.thresholds[objective.choose_stable(curve)])
    totals = scores.held_out_totals(folds == fold, threshold)
    duplicates = int(totals.all.duplicates)
    choice = FoldChoice(definition, threshold, duplicates, totals.f1().value)
    return _JudgedFold(totals, choice, scores.held_out_kept(folds == fold, threshold))
