"""Tests of buckets against a dictionary of keys."""

from collections import defaultdict

import numpy as np
import pytest

from nearkin.stages.lsh.buckets import Buckets, find_buckets


def members_of(buckets: Buckets) -> list[list[int]]:
    return [
        buckets.ordinals[start:end].tolist()
        for start, end in zip(buckets.starts, buckets.ends, strict=True)
    ]


@pytest.mark.parametrize("part_bits", [0, 1, 3])
@pytest.mark.parametrize("distinct", [2, 7, 1000])
def test_buckets_contain_equal_full_keys_for_every_partitioning(
    part_bits: int, distinct: int
) -> None:
    rng = np.random.default_rng(distinct)
    n = 300
    # Keys differ only in their lowest bits, so that prefixes and marks collide and only the full
    # key distinguishes them.
    keys = rng.integers(0, distinct, n, dtype=np.uint64) ^ (
        rng.integers(0, 4, n, dtype=np.uint64) << np.uint64(62)
    )
    assert_buckets_match(keys, rng.random(n) < 0.8, part_bits)


@pytest.mark.parametrize("part_bits", [0, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 400, 20_000])
@pytest.mark.parametrize("repeated", [0.0, 0.1, 1.0])
def test_keys_that_occur_once_are_dropped_without_effect(
    n: int, part_bits: int, repeated: float
) -> None:
    rng = np.random.default_rng(n)
    keys = rng.integers(0, 2**64, n, np.uint64)
    copies = rng.random(n) < repeated
    keys[copies] = rng.choice(keys[: n // 3 + 1], np.count_nonzero(copies))
    for active in (rng.random(n) < 0.9, np.ones(n, bool), np.zeros(n, bool)):
        assert_buckets_match(keys, active, part_bits)


def assert_buckets_match(keys: np.ndarray, active: np.ndarray, part_bits: int) -> None:
    want = defaultdict(list)
    for i in np.flatnonzero(active).tolist():
        want[int(keys[i])].append(i)
    parts = [find_buckets(keys, active, part, part_bits) for part in range(1 << part_bits)]
    found = [members for part in parts for members in members_of(part)]
    assert found == [want[key] for key in sorted(want) if len(want[key]) > 1]
    assert sum(part.keys for part in parts) == np.count_nonzero(active)


def test_most_keys_that_occur_once_are_not_sorted() -> None:
    """A random key shares its mark with another one with a probability below n / 8n."""
    n = 50_000
    keys = np.random.default_rng(1).integers(0, 2**64, n, np.uint64)
    sorted_keys = len(find_buckets(keys, np.ones(n, bool)).ordinals)
    deviation = (n / 8) ** 0.5
    assert sorted_keys <= n / 8 + 10 * deviation
