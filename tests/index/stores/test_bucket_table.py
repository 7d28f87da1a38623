"""Tests of the bucket table, against a dictionary of lists."""

from collections import defaultdict

import numpy as np
import pytest

from nearkin.index.stores.bucket_table import BucketTable
from nearkin.index.stores.kernels import MAX_LOAD, SEGMENT


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_table_equals_lists_after_random_changes(most: int) -> None:
    rng = np.random.default_rng(most)
    table = BucketTable(most)
    lists = defaultdict(list)
    keys_by_ref: dict[int, np.ndarray] = {}
    for step in range(3000):
        if keys_by_ref and rng.random() < 0.3:
            ref = int(rng.choice(list(keys_by_ref)))
            keys = keys_by_ref.pop(ref)
            there = sum(ref in lists[int(key)] for key in keys)
            assert table.remove(keys, ref) == there
            for key in keys:
                lists[int(key)] = [other for other in lists[int(key)] if other != ref]
        elif keys_by_ref and rng.random() < 0.2:
            # a document leaves its buckets and enters them again, for example in another role
            ref = int(rng.choice(list(keys_by_ref)))
            assert table.remove(keys_by_ref[ref], ref) == len(keys_by_ref[ref])
            table.append(keys_by_ref[ref], ref << 24 | 1 << 23)
        else:
            keys = np.unique(
                rng.integers(0, 2**63, 6, np.uint64)
                if rng.random() < 0.8
                else rng.integers(0, 40, 6).astype(np.uint64)
            )
            table.append(keys, (step + 1) << 24 | 5)
            keys_by_ref[step + 1] = keys
            for key in keys:
                lists[int(key)].append(step + 1)
    queries = np.array([*lists, 1, 2, 3, 2**64 - 1], np.uint64)
    postings = table.look_up(queries)
    for at, key in enumerate(queries):
        words = postings.words[postings.offsets[at] : postings.offsets[at + 1]]
        assert (words >> 24).tolist() == sorted(lists[int(key)])[:most]
    sizes = [min(len(bucket), most) for bucket in lists.values() if bucket]
    assert table.postings == sum(sizes)
    assert table.evicted == sum(map(len, lists.values())) - sum(sizes)
    is_over = [len(lists[int(key)]) > most for key in queries]
    assert table.overflowed(queries).tolist() == is_over
    assert sorted(table.sizes().tolist()) == sorted(sizes)


def test_growth_moves_few_slots_at_a_time() -> None:
    """A table that is rehashed as a whole moves all keys in one step."""
    rng = np.random.default_rng(1)
    table = BucketTable(10)
    least = MAX_LOAD * SEGMENT
    for step in range(60):
        before = table.moved_slots
        keys = rng.integers(0, 2**63, 2500, np.uint64)
        table.append_all(keys, np.full(len(keys), step << 24))
        # each split makes room for `least` keys, and moves those of one segment
        splits = np.ceil(len(keys) / least) + 1
        assert table.moved_slots - before <= splits * SEGMENT
    assert table.postings == 60 * 2500
    # each key moves once in each round, whose numbers of keys are a geometric series
    assert table.moved_slots <= 2.2 * table.postings


def test_a_table_does_not_grow_while_as_many_postings_leave_as_come() -> None:
    rng = np.random.default_rng(2)
    table = BucketTable(10)
    present = [(ref, rng.integers(0, 2**63, 20, np.uint64)) for ref in range(1, 201)]
    for ref, keys in present:
        table.append(keys, ref << 24)
        table.append(keys[:5], (ref + 1_000_000) << 24)
    size = table.nbytes
    for ref in range(201, 2000):
        old, old_keys = present.pop(0)
        assert table.remove(old_keys, old) == 20
        assert table.remove(old_keys[:5], old + 1_000_000) == 5
        keys = rng.integers(0, 2**63, 20, np.uint64)
        table.append(keys, ref << 24)
        table.append(keys[:5], (ref + 1_000_000) << 24)
        present.append((ref, keys))
    assert (table.nbytes, table.postings) == (size, 200 * 25)


def test_portions_contain_all_postings() -> None:
    rng = np.random.default_rng(3)
    table = BucketTable(10)
    keys = rng.integers(0, 4000, 9000).astype(np.uint64)
    table.append_all(keys, np.arange(9000) << 24)
    expected = table.look_up(np.unique(keys))
    pairs: list[tuple[int, int]] = []
    place: int | None = 0
    while place is not None:
        portion = table.portion(place, 1000)
        pairs += zip(portion.keys.tolist(), portion.words.tolist(), strict=True)
        place = portion.place
    counts = np.diff(expected.offsets)
    assert sorted(pairs) == sorted(
        zip(np.repeat(np.unique(keys), counts).tolist(), expected.words.tolist(), strict=True)
    )
