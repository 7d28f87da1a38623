"""Tests of sets of band keys against Python sets."""

import numpy as np
import pytest

from nearkin.lsh.key_sets import KeySet


@pytest.mark.parametrize(("documents", "values"), [(0, 5), (1, 1), (40, 30), (300, 10_000)])
def test_documents_with_a_key_of_the_set_are_marked(documents: int, values: int) -> None:
    rng = np.random.default_rng(documents)
    pool = rng.integers(0, 2**64, values, np.uint64)
    keys = pool[rng.integers(0, values, (documents, 2))]
    key_set = KeySet.of(keys)
    held = set(keys.ravel().tolist())
    assert key_set.keys.tolist() == sorted(held)
    looked_up = [pool[rng.integers(0, values, (50, 3))] for _ in range(2)]
    for others in looked_up:
        is_matched = np.arange(50) == 7
        key_set.mark(others, is_matched)
        want = [row == 7 or bool(held & set(other.tolist())) for row, other in enumerate(others)]
        assert is_matched.tolist() == want
    seen = held & {key for others in looked_up for key in others.ravel().tolist()}
    assert key_set.seen().keys.tolist() == sorted(seen)


def test_keys_that_are_not_contiguous_are_looked_up() -> None:
    keys = np.arange(24, dtype=np.uint64).reshape(4, 6)
    key_set = KeySet.of(keys[:2, ::2])
    is_matched = np.zeros(4, bool)
    key_set.mark(keys[:, ::3], is_matched)
    assert is_matched.tolist() == [True, True, False, False]


def test_set_of_seen_keys_has_new_marks() -> None:
    key_set = KeySet.of(np.array([3, 5], np.uint64))
    assert len(key_set.seen().keys) == 0
    key_set.mark(np.array([[5]], np.uint64), np.zeros(1, bool))
    assert key_set.seen().keys.tolist() == [5]
    assert not key_set.seen().is_seen.any()
