import numpy as np

import nearkin as nk
from nearkin.fit.labels import ClusterLabels, PairLabels
from nearkin.fit.validation import FOLDS, assign_folds
from tests.fit.corpora import LabelledCorpus, records


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
