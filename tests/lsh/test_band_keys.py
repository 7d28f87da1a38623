"""Tests of band keys and of buckets that are compared in portions."""

from itertools import combinations

import numpy as np
import pytest

from nearkin.lsh import kernels
from nearkin.lsh.band_keys import (
    EVERY_LATER,
    SourceBuckets,
    probing_band_keys,
    slot_band_keys,
    slot_layout,
    split_buckets,
)
from tests.lsh.random_signatures import random_signatures

TWO = slot_layout(2)


@pytest.mark.parametrize("pairs_at_once", [1, 7, 10**6])
def test_buckets_in_portions_yield_every_pair_once(pairs_at_once: int) -> None:
    """A bucket with more pairs than a portion is divided; the pairs stay those of all buckets."""
    signatures = random_signatures(40, 16, 2, 5)
    starts, ends = np.array([0, 2, 25, 30]), np.array([2, 25, 30, 40])
    histogram = np.zeros(17, np.int64)
    listed_pairs = []
    for rows in split_buckets(starts, ends, pairs_at_once):
        out = np.empty(rows.pairs, np.uint64)
        count = kernels.bucket_pairs(
            np.arange(40, dtype=np.uint64),
            rows.starts,
            rows.stops,
            rows.ends,
            EVERY_LATER,
            signatures,
            np.zeros(40, bool),
            0,
            *TWO,
            0,
            histogram,
            out,
        )
        assert count == rows.pairs <= 2 * max(pairs_at_once, 22)
        listed_pairs += out.tolist()
    want = [
        a << 32 | b
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        for a, b in combinations(range(start, end), 2)
    ]
    assert sorted(listed_pairs) == want


@pytest.mark.parametrize("pairs_at_once", [1, 7, 10**6])
def test_buckets_by_source_yield_every_pair_of_different_sources_once(pairs_at_once: int) -> None:
    rng = np.random.default_rng(3)
    signatures = random_signatures(60, 16, 2, 5)
    sources = rng.integers(0, 4, 60).astype(np.uint64)
    sources[25:30] = 1
    starts, ends = np.array([0, 2, 25, 30, 52]), np.array([2, 25, 30, 45, 60])
    members = rng.permutation(60).astype(np.uint64)
    sources[members[25:30]] = 1
    want = [
        [
            min(a, b) << 32 | max(a, b)
            for a, b in combinations(members[start:end].tolist(), 2)
            if sources[a] != sources[b]
        ]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    buckets = SourceBuckets.order(members, starts, ends, sources)
    assert buckets.pairs.tolist() == [len(pairs) for pairs in want]
    assert buckets.pairs[2] == 0
    assert buckets.sizes[2] == 1
    assert (buckets.sizes * (buckets.sizes - 1) // 2 <= buckets.pairs).all()
    assert (buckets.sizes * (buckets.sizes + 1) // 2 > buckets.pairs).all()
    listed_pairs = []
    for rows in buckets.split(starts, ends, pairs_at_once):
        out = np.empty(rows.pairs, np.uint64)
        count = kernels.bucket_pairs(
            members,
            rows.starts,
            rows.stops,
            rows.ends,
            buckets.partners,
            signatures,
            np.zeros(60, bool),
            0,
            *TWO,
            0,
            np.zeros(17, np.int64),
            out,
        )
        assert count == rows.pairs <= 2 * max(pairs_at_once, 22)
        listed_pairs += out.tolist()
    assert sorted(listed_pairs) == sorted(pair for pairs in want for pair in pairs)


def test_keys_without_probes_equal_keys_of_whole_slots() -> None:
    slots = np.random.default_rng(1).integers(0, 2**32, (5, 32), np.uint32)
    assert (probing_band_keys(slots, slots, 4, 8, 0) == slot_band_keys(slots, 4, 8)).all()
    probing = probing_band_keys(slots, slots + np.uint32(1), 4, 8, 3).reshape(5, 4, 4)
    assert (probing[:, :, 0] == slot_band_keys(slots, 4, 8)).all()
    assert len(set(probing[0, 0].tolist())) == 4
