"""Tests of the measures of clusters, against counts of all pairs."""

import itertools

import numpy as np
import pytest

from benchmarks.quality.scores import score_clusters, score_kept


def count_by_pairs(true: np.ndarray, predicted: np.ndarray) -> tuple[int, int, int, int]:
    """Counts pairs that are together in both, in the prediction, in the truth, and all pairs."""
    counts = np.zeros(4, np.int64)
    for a, b in itertools.combinations(range(len(true)), 2):
        is_true = true[a] == true[b]
        is_predicted = predicted[a] == predicted[b]
        counts += (is_true and is_predicted, is_predicted, is_true, True)
    return tuple(counts.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_scores_equal_counts_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 12, 60)
    predicted = np.where(rng.random(60) < 0.7, true, rng.integers(0, 20, 60))
    both, found, duplicates, pairs = count_by_pairs(true, predicted)
    scores = score_clusters(true, predicted)
    assert scores.precision == pytest.approx(both / found)
    assert scores.recall == pytest.approx(both / duplicates)
    chance = found * duplicates / pairs
    assert scores.rand == pytest.approx((both - chance) / ((found + duplicates) / 2 - chance))
    precisions = [np.mean(true[predicted == predicted[row]] == true[row]) for row in range(60)]
    recalls = [np.mean(predicted[true == true[row]] == predicted[row]) for row in range(60)]
    expected = 2 / (1 / np.mean(precisions) + 1 / np.mean(recalls))
    assert scores.b_cubed == pytest.approx(expected)


def test_the_true_clusters_have_perfect_scores() -> None:
    clusters = np.array([3, 3, 1, 2, 2, 2])
    scores = score_clusters(clusters, clusters)
    assert (scores.f1, scores.rand, scores.b_cubed) == (1.0, 1.0, 1.0)


def test_a_cluster_without_a_kept_document_is_lost() -> None:
    true = np.array([0, 0, 0, 1, 1, 2])
    kept = np.array([True, True, False, False, False, True])
    scores = score_kept(true, kept)
    assert scores.lost == pytest.approx(1 / 3)
    assert scores.removed == pytest.approx(2 / 3)
