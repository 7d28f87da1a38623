"""Tests of lower bounds of similarities."""

import numpy as np
import pytest

from nearkin.index.removal import similarity_bound


def _jaccard(first: set[int], second: set[int]) -> float:
    return len(first & second) / len(first | second)


def test_bounds_of_jaccard_similarities_hold_for_random_sets() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        sets = [set(rng.choice(12, rng.integers(1, 12), replace=False).tolist()) for _ in range(3)]
        bound = similarity_bound("jaccard", _jaccard(sets[0], sets[1]), _jaccard(sets[1], sets[2]))
        assert 0 <= bound <= _jaccard(sets[0], sets[2]) + 1e-12


def test_bounds_of_cosines_hold_for_random_vectors() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        vectors = np.abs(rng.standard_normal((3, 4)))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = vectors @ vectors.T
        bound = similarity_bound("cosine", float(cosines[0, 1]), float(cosines[1, 2]))
        assert 0 <= bound <= cosines[0, 2] + 1e-9


@pytest.mark.parametrize("measure", ["jaccard", "weighted-jaccard", "simhash", "cosine"])
def test_the_bound_of_equal_documents_is_the_similarity(measure: str) -> None:
    assert similarity_bound(measure, 1.0, 0.8) == pytest.approx(0.8)
    assert similarity_bound(measure, 0.0, 0.0) == 0.0
