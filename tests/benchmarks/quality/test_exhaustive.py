"""Tests of the exhaustive search, against Python sets and against nearkin."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.quality.exhaustive import (
    build_shingles,
    cluster_components,
    cluster_leaders,
    compare_all,
    number_units,
    search_settings,
)
from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.nearkin_runs import run_dedup
from benchmarks.quality.scores import score_clusters
from benchmarks.quality.sets import Places, make_set

TEXTS = ("the cat sat on the mat", "the cat sat on a mat", "A dog, a dog!", "mat", "the cat")


@pytest.fixture(scope="module")
def references() -> LabelledSet:
    """Returns a small set of references."""
    labelled = make_set("references", Places(), 0.16)
    assert labelled is not None
    return labelled


def word_pairs(text: str) -> Counter[tuple[str, ...]]:
    """Counts the shingles of two words."""
    words = text.lower().replace(",", "").replace("!", "").split()
    return Counter(tuple(words[at : at + 2]) for at in range(max(len(words) - 1, 1)))


@pytest.mark.parametrize("measure", ["jaccard", "weighted-jaccard", "idf-jaccard", "containment"])
def test_similarities_equal_those_of_python_sets(measure: str) -> None:
    similarity = compare_all(build_shingles(number_units(TEXTS, "words", "plain"), 2), measure)
    counts = [word_pairs(text) for text in TEXTS]
    frequency = Counter(shingle for count in counts for shingle in count)
    idf = {one: np.log((1 + len(TEXTS)) / (1 + df)) + 1 for one, df in frequency.items()}
    for a, one in enumerate(counts):
        for b, other in enumerate(counts):
            if a == b:
                continue
            shared = set(one) & set(other)
            if measure == "weighted-jaccard":
                expected = (one & other).total() / (one | other).total()
            elif measure == "idf-jaccard":
                union = set(one) | set(other)
                expected = sum(idf[s] for s in shared) / sum(idf[s] for s in union)
            elif measure == "containment":
                expected = len(shared) / min(len(one), len(other))
            else:
                expected = len(shared) / len(set(one) | set(other))
            assert similarity[a, b] == pytest.approx(expected, abs=1e-6)


def test_components_are_those_of_the_graph_at_each_threshold() -> None:
    similarity = np.zeros((4, 4), np.float32)
    for a, b, value in ((0, 1, 0.9), (1, 2, 0.5), (2, 3, 0.3)):
        similarity[a, b] = value
        similarity[b, a] = value
    clusters = {
        threshold: len(set(labels.tolist()))
        for threshold, labels in cluster_components(similarity, (0.2, 0.4, 0.8, 1.0))
    }
    assert clusters == {0.2: 1, 0.4: 2, 0.8: 3, 1.0: 4}


@pytest.mark.parametrize("measure", ["jaccard", "weighted-jaccard", "idf-jaccard"])
def test_leaders_of_the_search_equal_those_of_nearkin(
    references: LabelledSet, measure: str
) -> None:
    table = build_shingles(number_units(references.texts, "chars", "plain"), 3)
    order = np.argsort([-len(text.encode()) for text in references.texts], kind="stable")
    similarity = compare_all(table, measure)
    _, labels = next(cluster_leaders(similarity, order, (0.4,)))
    settings = {"shingle": "chars:3", "measure": measure, "threshold": 0.4, "recall": 0.999}
    clusters = run_dedup(references, settings)
    assert score_clusters(labels, clusters.labels).f1 > 0.98


def test_the_search_finds_a_setting_that_beats_the_default(references: LabelledSet) -> None:
    small = references.select(np.arange(60))
    best = search_settings(small.texts, small.clusters)[0]
    default = score_clusters(small.clusters, run_dedup(small, {}).labels)
    assert best.f1 > max(default.f1, 0.8)
