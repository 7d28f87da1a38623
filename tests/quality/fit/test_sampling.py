import numpy as np
import pytest

from nearkin.quality.evaluate.golden import (
    GoldenSet,
    golden_set_from_clusters,
    golden_set_from_pairs,
)
from nearkin.quality.fit.labels import ClusterLabels
from nearkin.quality.fit.sampling import LARGEST_CLUSTER, sample_labels


def test_whole_clusters_are_drawn() -> None:
    clusters = {f"{cluster}-{i}": str(cluster) for cluster in range(300) for i in range(4)}
    sampled = sample_labels(golden_set_from_clusters(clusters), 200, 1)
    assert len(sampled.chosen) == 200
    assert len(sampled.left_out) == 1000
    assert not {id.partition("-")[0] for id in sampled.chosen} & {
        id.partition("-")[0] for id in sampled.left_out
    }
    assert sampled.capped_clusters == 0


def test_every_cluster_is_drawn_equally_often() -> None:
    golden = golden_set_from_clusters({f"{c}-{i}": str(c) for c in range(10) for i in range(2)})
    drawn = [id[0] for seed in range(300) for id in sample_labels(golden, 6, seed).chosen]
    counts = np.bincount([int(name) for name in drawn])
    # 3 of 10 clusters, 300 times: 180 documents of each, standard deviation 2 · 7.9
    assert abs(counts - 180).max() < 5 * 16


def test_huge_clusters_are_represented_by_some_documents() -> None:
    clusters = {str(number): "a" for number in range(5000)} | {"x": "b", "y": "b"}
    sampled = sample_labels(golden_set_from_clusters(clusters), 4000, 1)
    assert len(sampled.chosen) == LARGEST_CLUSTER + 2
    assert sampled.capped_clusters == 1


def test_all_labelled_pairs_are_drawn() -> None:
    pairs = [(str(i), str(i + 1)) for i in range(0, 9000, 2)]
    golden = golden_set_from_pairs(pairs, [i % 2 == 0 for i in range(len(pairs))])
    assert not sample_labels(golden, 10, 1).left_out


@pytest.mark.parametrize("largest", [3, 60, 300])
def test_extrapolated_precision_of_samples_is_unbiased_with_large_clusters(largest: int) -> None:
    """Distinct pairs at random, and all pairs of merged clusters, are extrapolated."""
    rng = np.random.default_rng(3)
    sizes = np.minimum(rng.zipf(2.0, 6000), largest)
    sizes = sizes[np.cumsum(sizes) <= 6000]
    true = np.repeat(np.arange(len(sizes)), sizes)
    pairs = rng.integers(0, len(true), (3000, 2))
    merged = rng.permutation(len(sizes))
    for first, second in zip(merged[:100], merged[100:200], strict=True):
        product = np.meshgrid(np.flatnonzero(true == first), np.flatnonzero(true == second))
        pairs = np.concatenate([pairs, np.stack(product, axis=-1).reshape(-1, 2)[:500]])
    wrong = pairs[true[pairs[:, 0]] != true[pairs[:, 1]]]
    duplicates = float((sizes * (sizes - 1) / 2).sum())
    golden = GoldenSet(tuple(f"{row:05d}" for row in range(len(true))), true, None, None)
    labels = ClusterLabels(true, len(true))
    estimates = []
    for seed in range(100):
        is_drawn = np.zeros(len(true), bool)
        is_drawn[[int(id) for id in sample_labels(golden, 1000, seed).chosen]] = True
        drawn_sizes = np.bincount(true[is_drawn]).astype(np.float64)
        together = (drawn_sizes * (drawn_sizes - 1) / 2).sum()
        false = is_drawn[wrong].all(axis=1).sum() * labels.factor(is_drawn)
        estimates.append(together / (together + false))
    error = float(np.std(estimates)) / 10
    # a ratio of two estimates is biased by less than their error
    assert abs(np.mean(estimates) - duplicates / (duplicates + len(wrong))) < 4 * error + 0.005
