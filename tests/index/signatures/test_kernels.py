"""Tests of the hash table of band keys against a comparison of all keys."""

from itertools import pairwise

import numpy as np
import pytest

from nearkin.index.signatures.kernels import collect_candidates, link_postings

BANDS = 3


@pytest.mark.parametrize("slots", [1, 4, 1024])
@pytest.mark.parametrize("added", [[0], [7], [0, 20, 40], [40]])
def test_candidates_are_the_rows_with_a_common_key(added: list[int], slots: int) -> None:
    """Rows are added in portions. Some were removed, and some rows and queries match nothing."""
    rng = np.random.default_rng(slots)
    values = rng.integers(0, 2**64, 12, np.uint64)
    keys = values[rng.integers(0, 12, (40, BANDS))]
    comparable, alive = rng.random(40) < 0.8, rng.random(40) < 0.8
    heads = np.zeros(slots, np.uint32)
    following = np.zeros(40 * BANDS, np.uint32)
    for first, end in zip(added, [*added[1:], 40], strict=True):
        link_postings(keys[:end], comparable, first, heads, following)
    query_keys = values[rng.integers(0, 12, (10, BANDS))]
    query_comparable = np.arange(10) % 5 != 0
    want = [
        {
            row
            for row in range(added[0], 40)
            if query_comparable[query]
            and comparable[row]
            and alive[row]
            and np.isin(keys[row], query_keys[query]).any()
        }
        for query in range(10)
    ]
    counts = np.full(10, -1, np.int64)
    table = (keys, alive, heads, following)
    seen = np.zeros(40, np.uint32)
    starts = np.zeros(11, np.int64)
    rows = np.empty(0, np.uint32)
    collect_candidates(query_keys, query_comparable, *table, seen, starts, rows, counts)
    assert counts.tolist() == [len(rows) for rows in want]
    starts[1:] = np.cumsum(counts)
    rows = np.empty(starts[-1], np.uint32)
    seen = np.zeros(40, np.uint32)
    collect_candidates(query_keys, query_comparable, *table, seen, starts, rows, counts)
    assert counts.tolist() == [len(rows) for rows in want]
    listed = [rows[low:high].tolist() for low, high in pairwise(starts)]
    assert [set(each) for each in listed] == want


def test_table_without_rows_has_no_candidates() -> None:
    counts = np.full(1, -1, np.int64)
    keys = np.ones((1, BANDS), np.uint64)
    nothing = np.empty((0, BANDS), np.uint64)
    heads = np.zeros(1, np.uint32)
    link_postings(nothing, np.empty(0, bool), 0, heads, np.empty(0, np.uint32))
    no_rows = np.empty(0, np.uint32)
    table = (nothing, np.empty(0, bool), heads, no_rows)
    starts = np.zeros(1, np.int64)
    collect_candidates(keys, np.ones(1, bool), *table, no_rows, starts, no_rows, counts)
    assert counts.tolist() == [0]
