"""Tests of band keys and of buckets that are compared in portions."""

from itertools import combinations

import numpy as np
import pytest

from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import (
    EVERY_LATER,
    NEVER_HOT,
    SourceBuckets,
    key_builder_for,
    probing_band_keys,
    slot_band_keys,
    slot_layout,
    split_buckets,
    truncated_layout,
)
from nearkin.stages.lsh.kernels import TruncatedLayout
from nearkin.stages.lsh.slot_bands import fixed_banding
from tests.stages.lsh.random_signatures import random_signatures

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
            NEVER_HOT,
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
            NEVER_HOT,
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


def test_keys_of_a_band_are_equal_exactly_if_its_slots_are() -> None:
    slots = random_signatures(60, 12, 2, 8)
    keys = slot_band_keys(slots, 4, 3)
    assert keys.shape == (60, 4)
    bands = slots.reshape(60, 4, 3)
    for a, b in combinations(range(60), 2):
        equal = (bands[a] == bands[b]).all(axis=1)
        assert (keys[a] == keys[b]).tolist() == equal.tolist()
    assert len(set(keys[:, 0].tolist()) & set(keys[:, 1].tolist())) == 0


def test_no_documents_have_no_keys() -> None:
    nothing = np.empty((0, 12), np.uint32)
    assert slot_band_keys(nothing, 4, 3).shape == (0, 4)
    assert probing_band_keys(nothing, nothing, 4, 3, 2).shape == (0, 12)


def test_probe_key_is_the_key_of_slots_with_one_runner_up() -> None:
    slots = random_signatures(5, 12, 2**32 - 1, 1)
    runner_ups = random_signatures(5, 12, 2**32 - 1, 2)
    keys = probing_band_keys(slots, runner_ups, 3, 4, 2).reshape(5, 3, 3)
    for probe in range(2):
        replaced = slots.copy()
        replaced[:, probe::4] = runner_ups[:, probe::4]
        assert (keys[:, :, 1 + probe] == slot_band_keys(replaced, 3, 4)).all()


def test_keys_of_whole_signatures_need_no_builder() -> None:
    assert key_builder_for(fixed_banding(0.8, 0.9, 128, 16, 8), truncated=False) is None


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("probes", [0, 2])
def test_builder_makes_the_keys_that_signatures_do_not_determine(
    probes: int, truncated: bool
) -> None:
    banding = fixed_banding(0.8, 0.9, 128, 16, 8, probes)
    builder = key_builder_for(banding, truncated=truncated)
    if not probes and not truncated:
        assert builder is None
        return
    assert builder is not None
    slots = random_signatures(3, 128, 2**32 - 1, 1)
    runner_ups = random_signatures(3, 128, 2**32 - 1, 2)
    keys = builder.build(slots, runner_ups)
    assert keys.shape == (3, builder.key_count) == (3, 16 * (1 + probes))
    assert builder.uses_runner_ups == bool(probes)
    assert (keys[:, :: 1 + probes] == slot_band_keys(slots, 16, 8)).all()


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_lowest_bits_of_truncated_slots_repeat_through_a_word(bits: int) -> None:
    keys = np.zeros((1, 3), np.uint64)
    layout, kept_keys = truncated_layout(64, bits, keys)
    assert isinstance(layout, TruncatedLayout)
    ones = sum(1 << place for place in range(0, 64, bits))
    assert layout == (bits, ones, 64)
    assert kept_keys is keys


@pytest.mark.parametrize("pairs_at_once", [1, 5, 10**6])
@pytest.mark.parametrize("sizes", [[], [1], [2], [1, 1, 9, 1, 4]])
def test_portions_are_close_to_their_number_of_pairs(sizes: list[int], pairs_at_once: int) -> None:
    ends = np.cumsum(sizes, dtype=np.int64)
    starts = ends - np.array(sizes, np.int64)
    covered = []
    for rows in split_buckets(starts, ends, pairs_at_once):
        pairs = [
            (a, b)
            for start, stop, end in zip(rows.starts, rows.stops, rows.ends, strict=True)
            for a in range(start, stop)
            for b in range(a + 1, end)
        ]
        assert rows.pairs == len(pairs) <= 2 * max(pairs_at_once, max(sizes))
        covered += pairs
    want = [
        pair
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        for pair in combinations(range(start, end), 2)
    ]
    assert sorted(covered) == want
