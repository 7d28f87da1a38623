"""Tests of cross-validation, and of how often its intervals contain the scores of new documents."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.quality.evaluate.golden import (
    GoldenSet,
    Labelled,
    golden_set_from_clusters,
    golden_set_from_pairs,
)
from nearkin.quality.evaluate.intervals import Estimate
from nearkin.quality.evaluate.pair_doubts import PairDoubts
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.documents import read_documents
from nearkin.quality.fit.labels import ClusterLabels, PairLabels, place_labels
from nearkin.quality.fit.objective import Curve
from nearkin.quality.fit.sampling import sample_labels
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.quality.fit.search import FINE_STEP
from nearkin.quality.fit.validation import FOLDS, HeldOut, assign_folds
from nearkin.runs.temporary_runs import open_corpus
from nearkin.runtime.progress import Silent
from tests.quality.fit.corpora import LabelledCorpus, confusable_records, records


def test_no_group_is_divided_and_duplicates_are_spread() -> None:
    groups = np.repeat(np.arange(60), np.arange(60) % 4 + 1)
    sizes = np.bincount(groups)
    duplicates = sizes * (sizes - 1) // 2
    folds = assign_folds(groups, duplicates, 1)
    assert set(folds.tolist()) == set(range(FOLDS))
    for group in range(60):
        assert len(set(folds[groups == group].tolist())) == 1
    by_fold = np.bincount(folds, duplicates[groups] / sizes[groups])
    assert by_fold.max() - by_fold.min() <= 6


def test_few_groups_with_duplicates_make_fewer_folds() -> None:
    folds = assign_folds(np.array([0, 0, 1, 1, 2, 3]), np.array([1, 1, 0, 0]), 1)
    assert folds.max() == 1
    assert folds[0] != folds[2]


def test_documents_of_a_labelled_pair_share_a_group() -> None:
    duplicates = np.array([[0, 1], [2, 3]])
    distinct = np.array([[1, 2], [4, 5]])
    labels = PairLabels(40, duplicates, distinct)
    groups = labels.groups
    assert len(set(groups[:4].tolist())) == 1
    assert groups[4] == groups[5] != groups[0]


def test_distinct_pairs_that_connect_everything_do_not_make_groups() -> None:
    chain = np.array([[number, number + 1] for number in range(1, 39)])
    labels = PairLabels(40, np.array([[0, 1]]), chain)
    assert labels.groups[0] == labels.groups[1]
    assert len(set(labels.groups.tolist())) == 39


def test_documents_without_labels_are_groups_of_their_own() -> None:
    labels = ClusterLabels(np.array([0, -1, 0, 1, -1]), 5)
    assert labels.groups.tolist() == [0, 2, 0, 1, 3]
    assert labels.duplicates == 1


def test_choices_of_a_fold_do_not_depend_on_its_labels() -> None:
    corpus = records([2] * 12 + [1] * 12, seed=4)
    fitted = nk.fit(corpus.table, corpus.clusters, id="id")
    ids = sorted(corpus.clusters)
    random = np.random.default_rng(1)
    mixed = random.permutation([corpus.clusters[id] for id in ids]).tolist()
    shuffled = LabelledCorpus(corpus.texts, dict(zip(ids, mixed, strict=True)))
    by_chance = nk.fit(shuffled.table, shuffled.clusters, id="id")
    assert fitted.held_out is not None
    assert by_chance.held_out is not None
    assert fitted.held_out.f1.value > 0.9
    # Labels by chance can be fitted a little, but not predicted.
    assert by_chance.held_out.f1.value < 0.2
    assert by_chance.held_out.f1.value <= by_chance.best.f1.value


# -- how often intervals contain the scores of new documents

NEW_CORPORA = 30
"""The number of corpora over which true scores are averaged."""
SCORES = ("precision", "recall", "f1")


def label_all_pairs(corpus: LabelledCorpus) -> GoldenSet:
    pairs = list(itertools.combinations(sorted(corpus.texts), 2))
    return golden_set_from_pairs(
        pairs, [corpus.clusters[a] == corpus.clusters[b] for a, b in pairs]
    )


class ExpectedScores(NamedTuple):
    """Precision, recall and F1 over new corpora of the same kind."""

    precision: float
    recall: float
    f1: float


class NewCorpora:
    """Many corpora of the same kind and size, over which settings are judged."""

    def __init__(self, sizes: Sequence[Sequence[int]], *, has_pairs: bool) -> None:
        self.placed = []
        for number, sizes_of_corpus in enumerate(sizes):
            corpus = confusable_records(sizes_of_corpus, seed=1_000_000 + number)
            golden = golden_set_from_clusters(corpus.clusters)
            if has_pairs:
                golden = label_all_pairs(corpus)
            sampled = sample_labels(golden, 10_000, 1)
            documents = read_documents(
                open_corpus(corpus.table, {}), Columns(id="id"), sampled.chosen, 0, 1, Silent()
            )
            labels = place_labels(golden, documents, Labelled.CLUSTERS, sampled)
            self.placed.append((DocumentScorer(documents, 1), labels))
        self.curves: dict[Definition, list[Curve]] = {}

    def score(self, definition: Definition, threshold: float) -> ExpectedScores:
        if definition not in self.curves:
            self.curves[definition] = [
                labels.score(scorer, definition).curve(np.ones(len(labels.groups), bool), FINE_STEP)
                for scorer, labels in self.placed
            ]
        together = wrong = duplicates = 0.0
        for curve in self.curves[definition]:
            place = int(np.abs(curve.thresholds - threshold).argmin())
            together += float(curve.together[place])
            wrong += float(curve.wrong[place])
            duplicates += curve.duplicates
        precision = together / (together + wrong) if together + wrong else 1.0
        return ExpectedScores(
            precision, together / duplicates, 2 * together / (together + wrong + duplicates)
        )


def draw_sizes(kind: str, seed: int) -> list[int]:
    if kind == "large clusters":
        drawn = np.random.default_rng(seed).zipf(2.0, 50)
        return [int(size) for size in np.minimum(drawn, 20)]
    return [2] * 20 + [1] * 20


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("pairs", marks=pytest.mark.full),
        "small clusters",
        pytest.param("large clusters", marks=pytest.mark.full),
    ],
)
def test_held_out_scores_are_those_of_choices_on_new_documents(kind: str, full: bool) -> None:
    """The choices made without each fold, on average, are in the intervals; so is the final F1.

    The held-out F1 is not biased by more than 0.03, beyond three standard errors.
    """
    repetitions = 100 if full else 6
    has_pairs = kind == "pairs"
    new = NewCorpora(
        [draw_sizes(kind, 500_000 + number) for number in range(NEW_CORPORA)], has_pairs=has_pairs
    )
    covered = dict.fromkeys((*SCORES, "final f1"), 0)
    errors = []
    for seed in range(repetitions):
        corpus = confusable_records(draw_sizes(kind, seed), seed=seed)
        golden = label_all_pairs(corpus) if has_pairs else corpus.clusters
        fitted = nk.fit(corpus.table, golden, id="id", workers=1)
        held_out = fitted.held_out
        assert held_out is not None
        scores = [new.score(fold.definition, fold.threshold) for fold in held_out.folds]
        expected = ExpectedScores._make(np.mean(scores, axis=0).tolist())
        for name in SCORES:
            estimate = getattr(held_out, name)
            covered[name] += estimate.low <= getattr(expected, name) <= estimate.high
        final = new.score(fitted.best.definition, fitted.best.threshold)
        covered["final f1"] += held_out.f1.low <= final.f1 <= held_out.f1.high
        errors.append(held_out.f1.value - expected.f1)
    # the quick form allows for two standard deviations of the count
    slack = 0.0 if full else 2 * float(np.sqrt(0.93 * 0.07 * repetitions))
    assert min(covered.values()) >= 0.93 * repetitions - slack, covered
    assert abs(np.mean(errors)) < 0.03 + 3 * np.std(errors) / np.sqrt(repetitions)


def test_trial_bounds_what_labelled_pairs_promise() -> None:
    alone = HeldOut(Estimate(1.0, 0.94, 1.0), Estimate(0.9, 0.8, 0.95), Estimate(0.95, 0.9, 1), ())
    # half of the labelled duplicates are in one cluster, and most pairs are doubtful
    tried = alone.with_trial(PairDoubts(300, 240, 30, 0, labelled=60, found=30))
    assert tried.recall.value == 0.5
    assert tried.recall.low < 0.4
    assert tried.recall.high == 0.95
    assert tried.precision.value < 0.4
    assert tried.precision.low < 0.2
    assert tried.precision.high == 1.0
    assert tried.f1.value < 0.45
    surer = alone.with_trial(PairDoubts(300, 0, 60, 0, labelled=60, found=60))
    assert surer.recall.value == 0.9
    assert surer.precision.value > 0.9
