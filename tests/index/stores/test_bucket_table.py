"""Tests of the bucket table, against a dictionary of lists."""

import os
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pytest

from nearkin.index.stores.bucket_table import BucketTable


@pytest.mark.parametrize("most", [3, 1000])
def test_table_equals_lists_after_random_changes(most: int) -> None:
    rng = np.random.default_rng(most)
    table = BucketTable(most)
    lists = defaultdict(list)
    evicted = 0
    keys_by_ref: dict[int, np.ndarray] = {}
    for step in range(3000):
        if keys_by_ref and rng.random() < 0.3:
            ref = int(rng.choice(list(keys_by_ref)))
            keys = keys_by_ref.pop(ref)
            there = sum(ref in lists[int(key)] for key in keys)
            assert table.remove(keys, ref) == there
            for key in keys:
                lists[int(key)] = [other for other in lists[int(key)] if other != ref]
        else:
            keys = np.unique(
                rng.integers(0, 2**63, 6, np.uint64)
                if rng.random() < 0.8
                else rng.integers(0, 40, 6).astype(np.uint64)
            )
            table.append(keys, (step + 1) << 24 | 5)
            keys_by_ref[step + 1] = keys
            for key in keys:
                bucket = lists[int(key)]
                bucket.append(step + 1)
                if len(bucket) > most:
                    bucket.pop(0)
                    evicted += 1
    queries = np.array([*lists, 1, 2, 3, 2**64 - 1], np.uint64)
    postings = table.look_up(queries)
    for at, key in enumerate(queries):
        words = postings.words[postings.offsets[at] : postings.offsets[at + 1]]
        assert (words >> 24).tolist() == lists[int(key)]
    assert table.postings == sum(map(len, lists.values()))
    assert table.evicted == evicted
    assert sorted(table.sizes().tolist()) == sorted(
        len(bucket) for bucket in lists.values() if bucket
    )


def test_kernels_with_bounds_checking() -> None:
    test = f"{__file__}::{test_table_equals_lists_after_random_changes.__name__}"
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    ended = subprocess.run(
        line, env={**os.environ, "NUMBA_BOUNDSCHECK": "1"}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout[-2000:]
