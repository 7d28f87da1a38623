"""Tests of the exact comparison of weighted sets against plain Python."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from nearkin.settings.spec import Spec
from nearkin.stages.packed_pairs import pack_pairs
from nearkin.stages.sketch.resources import NO_RESOURCES
from nearkin.stages.verify.weighted import (
    WeightedBuilder,
    WeightedSetBuilder,
    WeightedSets,
    compare_weighted,
    total_weights,
)


def weigh(text: str) -> Counter[str]:
    return Counter(text.split())


TEXTS = ["a b a c", "", "b b b", "c a a b", "x y z"]


def sets_of_words(weight: int | None = None) -> WeightedSets:
    """Returns the weighted words of TEXTS, whose weight is multiplied by a number."""
    shingler = NO_RESOURCES.shingler(Spec(n=1))
    weights_of = None if weight is None else lambda hashes: np.full(len(hashes), weight)
    return WeightedBuilder(shingler, weights_of).build(pa.array(TEXTS, pa.large_string()))


@pytest.mark.parametrize("weight", [None, 3])
def test_weight_of_a_shingle_is_its_count_times_its_own_weight(weight: int | None) -> None:
    sets = sets_of_words(weight)
    starts = np.concatenate([[0], np.cumsum(sets.sizes)])
    for text, first, last in zip(TEXTS, starts[:-1], starts[1:], strict=True):
        assert (np.diff(sets.hashes[first:last].astype(object)) > 0).all()
        want = sorted(count * (weight or 1) for count in weigh(text).values())
        assert sorted(sets.weights[first:last].tolist()) == want


def test_repetitions_do_not_matter_in_sets_with_weights() -> None:
    shingler = NO_RESOURCES.shingler(Spec(n=1))
    builder = WeightedSetBuilder(shingler, lambda hashes: np.full(len(hashes), 7))
    sets = builder.build(pa.array(TEXTS, pa.large_string()))
    assert sets.sizes.tolist() == [len(weigh(text)) for text in TEXTS]
    assert set(sets.weights.tolist()) == {7.0}


@pytest.mark.parametrize("product", [True, False])
def test_total_is_the_squared_length_or_the_sum(product: bool) -> None:
    sets = sets_of_words()
    starts = np.concatenate([[0], np.cumsum(sets.sizes)]).astype(np.int64)
    want = [sum(n * n if product else n for n in weigh(text).values()) for text in TEXTS]
    assert total_weights(starts, sets.weights, product=product).tolist() == want


def test_pairs_are_compared_by_minima_or_by_products() -> None:
    sets = sets_of_words()
    starts = np.concatenate([[0], np.cumsum(sets.sizes)]).astype(np.int64)
    place = np.array([4, 3, 2, 1, 0], np.uint32)
    a, b = np.array(list(combinations(range(5), 2))).T
    pairs = pack_pairs(a, b)
    minima = compare_weighted(pairs, place, starts, sets, product=False)
    products = compare_weighted(pairs, place, starts, sets, product=True)
    for row, (x, y) in enumerate(zip(a, b, strict=True)):
        first, second = weigh(TEXTS[place[x]]), weigh(TEXTS[place[y]])
        assert minima.intersection[row] == (first & second).total()
        assert minima.union[row] == (first | second).total()
        assert products.intersection[row] == sum(first[word] * second[word] for word in first)
        squares = [sum(n * n for n in words.values()) for words in (first, second)]
        assert products.union[row] == pytest.approx(math.sqrt(squares[0] * squares[1]), rel=1e-15)
