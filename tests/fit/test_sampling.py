import numpy as np

from nearkin.evaluate.golden import golden_set_from_clusters, golden_set_from_pairs
from nearkin.fit.sampling import LARGEST_CLUSTER, sample_labels


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
