"""Clusters are assigned to groups by their hashes, as far as the shares allow."""

import numpy as np
import pytest

from nearkin.stages.cluster.group_split import apportion, assign_clusters, hash_clusters
from nearkin.stages.sketch.minhash import splitmix64


def assign_oracle(hashes: np.ndarray, sizes: list[int], shares: list[float]) -> list[int]:
    """The rule of `assign_clusters`, in plain Python."""
    total = sum(sizes)
    lacking = [int(share * total + 1e-9) for share in shares]
    while sum(lacking) < total:
        missing = [share * total - number for share, number in zip(shares, lacking, strict=True)]
        lacking[missing.index(max(missing))] += 1
    groups = [-1] * len(sizes)
    for cluster in sorted(range(len(sizes)), key=lambda c: (-sizes[c], hashes[c][1])):
        place = float(hashes[cluster][0]) / 2**64
        group = sum(place >= sum(shares[: g + 1]) for g in range(len(shares) - 1))
        if lacking[group] < sizes[cluster]:
            group = lacking.index(max(lacking))
        lacking[group] -= sizes[cluster]
        groups[cluster] = group
    return groups


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shares", [[0.8, 0.1, 0.1], [0.5, 0.5], [0.25, 0.75], [0.3, 0.3, 0.4]])
def test_assignment_matches_plain_oracle(seed: int, shares: list[float]) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.zipf(2.0, 200).clip(1, 40)
    hashes = splitmix64(seed, 400).reshape(200, 2)
    want = assign_oracle(hashes, sizes.tolist(), shares)
    assert assign_clusters(hashes, sizes, shares).tolist() == want


def test_single_documents_make_groups_as_large_as_asked() -> None:
    sizes = np.array([40, 30, 20, *[1] * 910])
    hashes = splitmix64(7, 2 * len(sizes)).reshape(-1, 2)
    groups = assign_clusters(hashes, sizes, [0.8, 0.1, 0.1])
    assert np.bincount(groups, weights=sizes).tolist() == [800, 100, 100]


def test_cluster_larger_than_every_group_goes_to_the_largest() -> None:
    hashes = splitmix64(1, 42).reshape(-1, 2)
    groups = assign_clusters(hashes, np.array([80, *[1] * 20]), [0.5, 0.3, 0.2])
    assert groups[0] == 0
    assert not (groups[1:] == 0).any()


def test_further_documents_move_few() -> None:
    """√n documents are not where their hash says; further ones do not change the hashes."""
    content = splitmix64(3, 2 * 11_000).reshape(-1, 2)
    shares = [0.8, 0.1, 0.1]

    def groups_of(documents: int) -> np.ndarray:
        hashes = hash_clusters(np.arange(documents), content[:documents], seed=5)
        return assign_clusters(hashes, np.ones(documents, np.int64), shares)

    before, after = groups_of(10_000), groups_of(11_000)
    assert np.bincount(after).tolist() == [8800, 1100, 1100]
    # Of each group, the binomial number of selected documents is off by 40 or 30 (one standard
    # deviation); each deviation moves as many documents, before and after.
    assert np.count_nonzero(before != after[:10_000]) < 6 * (40 + 30 + 30)


def test_hash_of_a_cluster_depends_on_its_content_and_the_seed_alone() -> None:
    content = splitmix64(3, 20).reshape(-1, 2)
    cluster = np.array([0, 1, 1, 2, 2, 2, 0, 1, 2, 0])
    hashes = hash_clusters(cluster, content, seed=1)
    order = np.random.default_rng(0).permutation(10)
    assert (hash_clusters(cluster[order], content[order], seed=1) == hashes).all()
    assert (hash_clusters(cluster, content, seed=2) != hashes).all()
    twice = np.concatenate([cluster, cluster]), np.concatenate([content, content])
    assert (hash_clusters(*twice, seed=1) == hashes).all()


def test_first_words_select_groups_with_the_shares_as_probabilities() -> None:
    content = splitmix64(9, 2 * 40_000).reshape(-1, 2)
    hashes = hash_clusters(np.arange(40_000) // 4, content, seed=0)
    place = hashes[:, 0] / 2.0**64
    # 10,000 draws: five standard deviations of a share are at most 0.025.
    for share in (0.1, 0.5, 0.9):
        assert abs(float((place < share).mean()) - share) < 0.025
        assert abs(float((hashes[:, 1] / 2.0**64 < share).mean()) - share) < 0.025


@pytest.mark.parametrize("total", [0, 1, 2, 7, 100])
def test_apportioned_numbers_add_up(total: int) -> None:
    for shares in ([0.8, 0.1, 0.1], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5]):
        numbers = apportion(total, shares)
        assert numbers.sum() == total
        assert (np.abs(numbers - np.array(shares) * total) < 1).all()
