"""Tests of the sketcher of texts and token lists."""

from collections import Counter

import numpy as np

from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch.sketcher import occurrences


def test_occurrences_are_separate_elements() -> None:
    values = np.array([5, 7, 5, 5, 9, 7], np.uint64)
    out = occurrences(Shingles(values, np.array([0, 4, 6]))).hashes
    assert len(set(out[:4].tolist())) == 4
    assert {5, 7} <= set(out[:4].tolist())
    assert set(out[4:].tolist()) == {9, 7}
    again = occurrences(Shingles(values[::-1].copy(), np.array([0, 2, 6])))
    assert Counter(again.hashes[2:].tolist()) == Counter(out[:4].tolist())
