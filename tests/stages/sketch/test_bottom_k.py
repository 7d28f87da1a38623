"""Tests of bottom-k sketches, whose estimates are compared with the sizes of sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.errors import UsageError
from nearkin.stages.sketch.bottom_k import BottomK
from nearkin.stages.sketch.minhash import splitmix64

ELEMENTS = splitmix64(77, 60)


@pytest.mark.parametrize("size", [0, 1, 100, 1000, 50_000])
def test_cardinality_is_within_its_error(size: int) -> None:
    estimates = [BottomK.of(splitmix64(seed, size), 256).cardinality for seed in range(30)]
    error = 0.0 if size < 256 else 1 / np.sqrt(254)
    assert abs(np.mean(estimates) - size) <= 4 * error * size / np.sqrt(30)


@pytest.mark.parametrize(
    ("small", "large", "shared"),
    [(500, 800, 300), (300, 30_000, 270), (2000, 2000, 1500), (50, 20_000, 25)],
)
def test_containment_and_jaccard_are_within_their_errors(
    small: int, large: int, shared: int
) -> None:
    k, trials = 512, 40
    found: dict[str, list[float]] = {"jaccard": [], "intersection": [], "containment": []}
    for seed in range(trials):
        pool = splitmix64(1000 + seed, small + large - shared)
        a, b = BottomK.of(pool[:small], k), BottomK.of(pool[small - shared :], k)
        found["jaccard"].append(a.jaccard(b))
        found["intersection"].append(a.intersection(b))
        contained = a.containment_in(b)
        if not np.isnan(contained):
            found["containment"].append(contained)
    union = small + large - shared
    j, c = shared / union, shared / small
    assert abs(np.mean(found["jaccard"]) - j) < 4 * np.sqrt(j * (1 - j) / k / trials) + 1e-9
    assert abs(np.mean(found["intersection"]) - shared) < 0.2 * shared + 5
    known = max(1.0, min(small, k) * min(1.0, k / large))
    assert (
        abs(np.mean(found["containment"]) - c)
        < 4 * np.sqrt(c * (1 - c) / known / len(found["containment"])) + 0.02
    )


@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=40),
    st.lists(st.integers(0, 2**64 - 1), max_size=40),
)
def test_merged_sketch_is_sketch_of_union(a: list[int], b: list[int]) -> None:
    x, y = (BottomK.of(np.array(v, np.uint64), 8) for v in (a, b))
    assert x.merge(y) == BottomK.of(np.array(a + b, np.uint64), 8) == y.merge(x)
    assert x.merge(x) == x
    assert hash(x.merge(y)) == hash(y.merge(x))


def test_sketches_of_different_k_are_incompatible() -> None:
    with pytest.raises(UsageError, match="k=8 and k=16"):
        BottomK.of(ELEMENTS, 8).jaccard(BottomK.of(ELEMENTS, 16))


def test_sketch_of_a_small_set_is_exact() -> None:
    nothing, some = BottomK.of(np.empty(0, np.uint64), 8), BottomK.of(ELEMENTS[:5], 8)
    assert nothing.exact
    assert (nothing.cardinality, nothing.jaccard(nothing), nothing.containment_in(some)) == (
        0,
        0,
        0,
    )
    assert some.exact
    assert some.cardinality == 5
    assert some.jaccard(BottomK.of(ELEMENTS[3:7], 8)) == 2 / 7
    assert some.containment_in(BottomK.of(ELEMENTS[3:7], 8)) == 2 / 5
    assert some.intersection(BottomK.of(ELEMENTS[3:7], 8)) == pytest.approx(2)
    assert not BottomK.of(ELEMENTS[:8], 8).exact


def test_repeated_hashes_count_once() -> None:
    repeated = np.concatenate([ELEMENTS[:20], ELEMENTS[:20][::-1]])
    assert BottomK.of(repeated, 8) == BottomK.of(ELEMENTS[:20], 8)
    assert BottomK.of(ELEMENTS[:20], 8).hashes.tolist() == sorted(ELEMENTS[:20].tolist())[:8]


def test_sketches_are_equal_only_with_the_same_k_and_hashes() -> None:
    one = BottomK.of(ELEMENTS[:3], 8)
    assert one != BottomK.of(ELEMENTS[:3], 9)
    assert one != BottomK.of(ELEMENTS[:4], 8)
    assert one != "a text"


def test_containment_is_unknown_if_no_element_can_be_looked_up() -> None:
    """The other sketch says nothing about hashes above its largest one."""
    high = BottomK.of(np.array([2**64 - 1, 2**64 - 2], np.uint64), 8)
    low = BottomK.of(np.arange(8, dtype=np.uint64), 8)
    assert np.isnan(high.containment_in(low))
    assert high.containment_error(low, 0.5) == np.inf


@pytest.mark.parametrize(("containment", "error"), [(0.0, 0.0), (0.5, 0.25), (1.0, 0.0)])
def test_error_of_containment_is_that_of_a_share(containment: float, error: float) -> None:
    four = BottomK.of(ELEMENTS[:4], 8)
    assert four.containment_error(four, containment) == error


@pytest.mark.parametrize("containment", [-0.1, 1.1])
def test_containment_outside_its_range_is_refused(containment: float) -> None:
    four = BottomK.of(ELEMENTS[:4], 8)
    with pytest.raises(UsageError, match=f"containment={containment} is out of range"):
        four.containment_error(four, containment)


@pytest.mark.parametrize("k", [1, 0, -3])
def test_sketch_of_fewer_than_two_hashes_is_refused(k: int) -> None:
    with pytest.raises(UsageError, match=f"k={k} is out of range; it must be at least 2"):
        BottomK.of(ELEMENTS, k)


def test_hashes_that_are_not_whole_numbers_are_refused() -> None:
    for hashes in (np.array([0.1, 0.9]), np.array([-1])):
        with pytest.raises(UsageError, match="one row of whole numbers"):
            BottomK.of(hashes)
