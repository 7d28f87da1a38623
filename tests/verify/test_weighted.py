"""Tests of the exact comparison of weighted sets against plain Python."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from nearkin.packed_pairs import ScoredPairs
from nearkin.pair_scope import EVERY_SOURCE, PairScope
from nearkin.verify.weighted import WeightedSets, compare_all
from tests.verify.set_samples import flatten_sets, random_sets


@pytest.mark.parametrize("threshold", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(("at_once", "memory"), [(700, 1 << 28), (1 << 21, 1 << 28), (1 << 21, 1)])
@pytest.mark.parametrize("weights", [np.ones, lambda total: np.empty(0)])
@pytest.mark.parametrize("by_source", [False, True])
def test_compare_all_matches_brute_force(
    by_source: bool,
    threshold: float,
    at_once: int,
    memory: int,
    weights: Callable[[int], np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.verify.jaccard.PAIRS_PER_BATCH", at_once)
    monkeypatch.setattr("nearkin.verify.weighted.MIN_ROWS", 40)
    sets = [*random_sets(60, 25, 4), {1, 2, 3}, {1, 2, 3}]
    blocks = np.array([i % 2 for i in range(62)], np.uint64)
    sources = np.array([i % 3 for i in range(62)], np.uint64)
    scope = PairScope(blocks, sources if by_source else EVERY_SOURCE)
    hashes, starts = flatten_sets(sets)
    weighted_sets = WeightedSets(hashes, weights(len(hashes)), np.diff(starts))
    parts = compare_all(weighted_sets, scope, threshold, product=False, workers=2, memory=memory)
    scored = ScoredPairs.concatenate(list(parts))
    want = {
        a << 32 | b
        for a, b in combinations(range(62), 2)
        if a % 2 == b % 2
        and not (by_source and a % 3 == b % 3)
        and sets[a] & sets[b]
        and len(sets[a] & sets[b]) >= threshold * len(sets[a] | sets[b])
    }
    assert scored.pairs.tolist() == sorted(want)
