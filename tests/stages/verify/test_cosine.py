"""Tests of the exact cosine of vectors against sums in plain Python."""

import math
from itertools import combinations

import numpy as np
import pytest

from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.verify.cosine import compare_all, compare_vectors


def exact_cosine(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.astype(np.float64).tolist(), b.astype(np.float64).tolist()
    dot = math.fsum(p * q for p, q in zip(x, y, strict=True))
    lengths = math.fsum(p * p for p in x) * math.fsum(q * q for q in y)
    return min(1.0, dot / math.sqrt(lengths))


@pytest.fixture
def vectors() -> np.ndarray:
    """Returns vectors of very different lengths, some of them copies in another length."""
    rng = np.random.default_rng(3)
    base = rng.normal(size=(40, 6))
    near = base[:20] + rng.normal(scale=0.1, size=(20, 6))
    lengths = 10.0 ** rng.integers(-15, 15, 80)
    return (np.concatenate([base, near, base[:20]]) * lengths[:, None]).astype(np.float32)


def test_similarity_of_pairs_is_their_cosine(
    vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.stages.verify.cosine.VECTOR_PAIRS_PER_BATCH", 100)
    place = np.random.default_rng(1).permutation(80).astype(np.uint32)
    a, b = np.array(list(combinations(range(80), 2))).T
    scored = compare_vectors(pack_pairs(a, b), place, vectors)
    want = [exact_cosine(vectors[place[x]], vectors[place[y]]) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(scored.similarity, want, rtol=0, atol=1e-12)
    assert scored.similarity.max() <= 1.0


def test_no_pairs_have_no_similarities(vectors: np.ndarray) -> None:
    nothing = compare_vectors(np.empty(0, np.uint64), np.arange(80), vectors)
    assert len(nothing.similarity) == 0


@pytest.mark.parametrize("at_once", [80, 1000, 1 << 20])
@pytest.mark.parametrize("threshold", [0.5, 0.97, 1.0])
def test_all_pairs_of_a_scope_that_reach_the_threshold_are_found(
    threshold: float, at_once: int, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.stages.verify.jaccard.PAIRS_PER_BATCH", at_once)
    blocks = np.arange(80, dtype=np.uint64) % np.uint64(2)
    parts = list(compare_all(vectors, PairScope(blocks), threshold, workers=2))
    scored = ScoredPairs.concatenate(parts)
    a, b = unpack_pairs(scored.pairs)
    found = list(zip(a.tolist(), b.tolist(), strict=True))
    assert found == sorted(found)
    want = {
        (x, y): exact_cosine(vectors[x], vectors[y])
        for x, y in combinations(range(80), 2)
        if x % 2 == y % 2
    }
    assert {pair for pair, cosine in want.items() if cosine >= threshold + 1e-12} <= set(found)
    assert all(want[pair] >= threshold - 1e-12 for pair in found)


def test_vectors_at_exactly_the_threshold_are_found() -> None:
    """The cosine of (1, 0) and (3, 4) is exactly 0.6."""
    vectors = np.array([[1, 0], [3, 4], [0, 0.25]], np.float32)
    scope = PairScope.of_all_pairs(3)
    (scored,) = compare_all(vectors, scope, 0.6, workers=1)
    assert [x.tolist() for x in unpack_pairs(scored.pairs)] == [[0, 1], [1, 2]]
    assert scored.similarity.tolist() == [0.6, 0.8]


def test_single_vector_has_no_pairs() -> None:
    parts = compare_all(np.ones((1, 3), np.float32), PairScope.of_all_pairs(1), 0.1, workers=1)
    assert sum(len(part.pairs) for part in parts) == 0
