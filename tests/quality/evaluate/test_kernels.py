"""Tests of the kernel that compares sampled documents with all others, against Python sets."""

import numpy as np
import pytest

from nearkin.quality.evaluate.kernels import find_similar_pairs
from nearkin.stages.hashing.sorted_lookup import PrefixIndex

THRESHOLDS = [0.1, 0.5, 1.0]


def sorted_hashes(sets: list[set[int]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *map(len, sets)]).astype(np.int64)
    return np.array([h for each in sets for h in sorted(each)], np.uint64), starts


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize(("universe", "documents"), [(30, 40), (6, 60), (10, 0)])
def test_pairs_that_reach_the_threshold_are_those_of_sets(
    universe: int, documents: int, threshold: float
) -> None:
    """More than 256 pairs make the result grow. Documents of the sample are in the batch too."""
    rng = np.random.default_rng(universe)
    first = 100
    sets = [set(rng.integers(0, universe, 8).tolist()) for _ in range(documents)]
    sets[2:2] = [set()] if documents else []
    sampled = np.arange(first, first + len(sets), 3)
    sample_sets = [sets[number - first] for number in sampled.tolist()]
    postings: dict[int, list[int]] = {}
    for row, each in enumerate(sample_sets):
        for h in each:
            postings.setdefault(h, []).append(row)
    keys = np.array(sorted(postings), np.uint64)
    index, shift = PrefixIndex.of(keys)
    firsts = np.cumsum([0, *(len(postings[h]) for h in sorted(postings))]).astype(np.int64)
    posted = np.array([row for h in sorted(postings) for row in postings[h]], np.int64)
    listed = find_similar_pairs(
        first,
        *sorted_hashes(sets),
        keys,
        index,
        shift,
        firsts,
        posted,
        sampled,
        *sorted_hashes(sample_sets),
        threshold,
    )
    want = [
        (a, b, len(sets[a - first] & other), len(sets[a - first] | other))
        for b, other in enumerate(sets, first)
        for a in sampled.tolist()
        if a != b
        and (shared := len(sets[a - first] & other))
        and shared / len(sets[a - first] | other) >= threshold
    ]
    assert sorted(map(tuple, listed.T.tolist())) == sorted(want)
    assert not (universe == 6 and threshold == 0.1) or len(want) > 256
