"""Tests of the prefix filter against a comparison of all pairs of documents."""

import numpy as np
import pytest

from nearkin.stages.verify.prefix_filter import PrefixFilterIndex
from tests.stages.verify.set_samples import flatten_sets, random_sets


def index_of(sets: list[set[int]], share: float) -> PrefixFilterIndex:
    hashes, starts = flatten_sets(sets)
    return PrefixFilterIndex(np.diff(starts), hashes, np.ones(len(hashes)), share)


@pytest.mark.parametrize("share", [0.05, 0.4, 0.75, 1.0])
def test_every_document_that_shares_enough_is_found(share: float) -> None:
    """Both documents must share this part of their shingles, as all similarities demand."""
    sets = [*random_sets(80, 30, 9), {1, 2, 3}, {1, 2, 3}, set()]
    find = index_of(sets, share)
    missed = 0
    for a, first in enumerate(sets):
        near = find(a).tolist()
        assert near == sorted(set(near))
        for b, second in enumerate(sets):
            shared = len(first & second)
            if shared and shared >= share * max(len(first), len(second)):
                assert b in near
            missed += b not in near
    assert missed > 0


def test_weights_decide_which_shingles_are_posted() -> None:
    """Two documents share one frequent shingle of nearly all their weight, or one of little."""
    hashes = np.array([1, 2, 1, 3, 1, 4], np.uint64)
    sizes = np.array([2, 2, 2])
    heavy = PrefixFilterIndex(sizes, hashes, np.array([9.0, 1.0] * 3), 0.5)
    assert heavy(0).tolist() == [0, 1, 2]
    light = PrefixFilterIndex(sizes, hashes, np.array([1.0, 9.0] * 3), 0.5)
    assert light(0).tolist() == [0]


def test_shingles_of_all_documents_are_posted_only_if_the_rare_ones_are_too_few() -> None:
    """Two of twelve shingles are rare. They decide if eleven must be shared, but not if ten."""
    common = set(range(1000, 1010))
    sets = [common | {2 * number, 2 * number + 1} for number in range(50)]
    assert index_of(sets, 11 / 12)(7).tolist() == [7]
    assert index_of(sets, 10 / 12)(7).tolist() == list(range(50))


def test_document_without_shingles_finds_nothing() -> None:
    find = index_of([set(), {1}, set()], 0.5)
    assert [find(number).tolist() for number in range(3)] == [[], [1], []]


def test_fractions_of_equal_documents_are_not_lost_to_rounding() -> None:
    rng = np.random.default_rng(4)
    hashes = np.concatenate([np.sort(rng.integers(0, 2**63, 300, np.uint64))] * 2)
    weights = np.concatenate([rng.random(300) / 3] * 2)
    find = PrefixFilterIndex(np.array([300, 300]), hashes, weights, 1.0)
    assert find(0).tolist() == find(1).tolist() == [0, 1]
