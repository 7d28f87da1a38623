"""Tests of the kernels of exact comparison against Python sets."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.stages.hashing.kernels import find_sorted
from nearkin.stages.hashing.sorted_lookup import PrefixIndex
from nearkin.stages.verify import kernels
from tests.stages.verify.set_samples import flatten_sets, random_sets

words = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 5), st.integers(2**63, 2**63 + 9))
TOKENS = st.lists(st.integers(0, 3), max_size=24)


@given(st.lists(words, max_size=300))
def test_distinct_sorted_matches_set(values: list[int]) -> None:
    array = np.array(values, np.uint64)
    out, ends = np.empty(len(values), np.uint64), np.empty(1 << 8, np.int64)
    count = kernels.distinct_sorted(array, ends, out)
    assert out[:count].tolist() == sorted(set(values))


@pytest.mark.parametrize("size", [1000, 100_000])
def test_distinct_sorted_matches_numpy_for_many_values(size: int) -> None:
    array = np.random.default_rng(size).integers(0, 2**64, size, dtype=np.uint64)
    array[::7] = array[0]
    out, ends = np.empty(size, np.uint64), np.empty(1 << 16, np.int64)
    count = kernels.distinct_sorted(array, ends, out)
    np.testing.assert_array_equal(out[:count], np.unique(array))


def test_truncated_sets_have_each_hash_once_without_its_dropped_bits() -> None:
    rng = np.random.default_rng(4)
    dropped = int(kernels.DROPPED_BITS)
    sets = [set((rng.integers(0, 9, size) << dropped - 2).tolist()) for size in (5, 0, 30, 1)]
    hashes, starts = flatten_sets(sets)
    out, sizes = np.empty_like(hashes), np.empty(len(sets), np.int64)
    count = kernels.truncate_sets(hashes, np.diff(starts), out, sizes)
    expected = [sorted({h >> dropped << dropped for h in one}) for one in sets]
    assert sizes.tolist() == list(map(len, expected))
    assert out[:count].tolist() == [h for one in expected for h in one]


def test_overlaps_match_set_operations() -> None:
    sets = random_sets(40, 60, 2)
    hashes, starts = flatten_sets(sets)
    pairs = list(combinations(range(40), 2))
    both, union = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    place = np.arange(40, dtype=np.uint32)
    kernels.overlaps(
        np.array([a << 32 | b for a, b in pairs], np.uint64), place, starts, hashes, both, union
    )
    assert both.tolist() == [len(sets[a] & sets[b]) for a, b in pairs]
    assert union.tolist() == [len(sets[a] | sets[b]) for a, b in pairs]


def test_distinct_sets_match_set_per_document() -> None:
    streams = [[5, 3, 5, 1], [], [2], [9, 9, 9]]
    offsets = np.array([0, 4, 4, 5, 8])
    hashes = np.array([x for s in streams for x in s], np.uint64) << np.uint64(60)
    out, sizes = np.empty(8, np.uint64), np.empty(4, np.int64)
    total = kernels.distinct_sets(hashes, offsets, np.empty(16, np.int64), sizes, out)
    assert sizes.tolist() == [3, 0, 1, 1]
    assert (out[:total] >> np.uint64(60)).tolist() == [1, 3, 5, 2, 9]


@pytest.mark.parametrize("size", [0, 1, 2, 5, 1000])
def test_find_sorted_finds_hashes_by_prefix(size: int) -> None:
    keys = np.unique(
        np.random.default_rng(size).integers(0, 2**63, size, np.uint64) << np.uint64(1)
    )
    prefixes = PrefixIndex.of(keys)
    wanted = [*keys.tolist(), 0, 1, 2**64 - 1, *(keys + np.uint64(1)).tolist()]
    for h in wanted:
        at = int(find_sorted(np.uint64(h), keys, *prefixes))
        assert at == (int(np.searchsorted(keys, np.uint64(h))) if h in keys else -1)


def longest_run_of_tables(a: list[int], b: list[int]) -> int:
    """Returns the length of the longest common run, by a table of all pairs of positions."""
    longest = 0
    for i in range(len(a)):
        for j in range(len(b)):
            length = 0
            while i + length < len(a) and j + length < len(b) and a[i + length] == b[j + length]:
                length += 1
            longest = max(longest, length)
    return longest


@given(st.lists(TOKENS, min_size=2, max_size=4))
def test_the_longest_shared_run_is_that_of_all_pairs_of_positions(
    documents: list[list[int]],
) -> None:
    starts = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    tokens = np.array([token for document in documents for token in document], np.uint64)
    first, second = np.triu_indices(len(documents), 1)
    out = np.empty(len(first), np.int64)
    kernels.longest_shared_runs(first, second, starts, tokens, out)
    expected = [
        longest_run_of_tables(documents[a], documents[b])
        for a, b in zip(first.tolist(), second.tolist(), strict=True)
    ]
    assert out.tolist() == expected
