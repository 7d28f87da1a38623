import numpy as np
import pytest

from nearkin.stages.lsh.key_sets import KeySet


@pytest.mark.parametrize("keys_per_document", [1, 3])
@pytest.mark.parametrize("size", [0, 1, 5, 1000])
def test_marks_are_those_of_a_plain_set(size: int, keys_per_document: int) -> None:
    random = np.random.default_rng(size + keys_per_document)
    # few different high and low bits, so that keys share prefixes and differ in any part
    pool = (random.integers(0, 4, 600, np.uint64) << np.uint64(62)) | random.integers(
        0, 300, 600, np.uint64
    )
    keys = random.choice(pool, size)
    looked_up = random.choice(pool, (400, keys_per_document))
    key_set = KeySet.of(keys)
    is_matched = np.zeros(400, bool)
    is_matched[7] = True
    key_set.mark(looked_up, is_matched)
    known = set(keys.tolist())
    want = [any(key in known for key in row) for row in looked_up.tolist()]
    want[7] = True
    assert is_matched.tolist() == want
    assert set(key_set.seen().keys.tolist()) == known & set(looked_up.ravel().tolist())


def test_keys_that_were_looked_up_are_collected_over_several_calls() -> None:
    key_set = KeySet.of(np.array([3, 1, 2, 1], np.uint64))
    for key in (1, 9, 3):
        key_set.mark(np.array([[key]], np.uint64), np.zeros(1, bool))
    assert key_set.seen().keys.tolist() == [1, 3]
