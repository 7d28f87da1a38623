"""Tests of the exact comparison of weighted sets against plain Python."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from nearkin.packed_pairs import ScoredPairs, pack_pairs
from nearkin.pair_scope import EVERY_SOURCE, PairScope
from nearkin.sketch.resources import NO_RESOURCES
from nearkin.spec import Spec
from nearkin.verify.weighted import (
    WeightedBuilder,
    WeightedSetBuilder,
    WeightedSets,
    compare_all,
    compare_weighted,
    invert,
    total_weights,
)
from tests.verify.set_samples import flatten_sets, random_sets


@pytest.mark.parametrize("threshold", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(("at_once", "memory"), [(700, 1 << 28), (1 << 21, 1 << 28), (1 << 21, 1)])
@pytest.mark.parametrize("weights", [np.ones, lambda total: np.empty(0)])
@pytest.mark.parametrize("by_source", [False, True])
def test_compare_all_matches_brute_force(
    by_source: bool,
    threshold: float,
    at_once: int,
    memory: int,
    weights: Callable[[int], np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.verify.jaccard.PAIRS_PER_BATCH", at_once)
    monkeypatch.setattr("nearkin.verify.weighted.MIN_ROWS", 40)
    sets = [*random_sets(60, 25, 4), {1, 2, 3}, {1, 2, 3}]
    blocks = np.array([i % 2 for i in range(62)], np.uint64)
    sources = np.array([i % 3 for i in range(62)], np.uint64)
    scope = PairScope(blocks, sources if by_source else EVERY_SOURCE)
    hashes, starts = flatten_sets(sets)
    weighted_sets = WeightedSets(hashes, weights(len(hashes)), np.diff(starts))
    parts = compare_all(weighted_sets, scope, threshold, product=False, workers=2, memory=memory)
    scored = ScoredPairs.concatenate(list(parts))
    want = {
        a << 32 | b
        for a, b in combinations(range(62), 2)
        if a % 2 == b % 2
        and not (by_source and a % 3 == b % 3)
        and sets[a] & sets[b]
        and len(sets[a] & sets[b]) >= threshold * len(sets[a] | sets[b])
    }
    assert scored.pairs.tolist() == sorted(want)


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


@pytest.mark.parametrize("weights", [np.empty(0), np.arange(7.0)])
def test_inverted_postings_list_the_documents_of_each_hash(weights: np.ndarray) -> None:
    sets = [{5, 9}, set(), {9}, {1, 5, 9, 2**64 - 1}]
    hashes, starts = flatten_sets(sets)
    index = invert(hashes, weights, starts)
    assert index.keys.tolist() == sorted(set().union(*sets))
    for key, first, last in zip(index.keys.tolist(), index.firsts, index.firsts[1:], strict=False):
        documents = index.postings[first:last].tolist()
        assert documents == [number for number, each in enumerate(sets) if key in each]
        if len(weights):
            want = [weights[starts[d] + sorted(sets[d]).index(key)] for d in documents]
            assert index.weights[first:last].tolist() == want


def test_nothing_is_inverted_to_nothing() -> None:
    index = invert(np.empty(0, np.uint64), np.empty(0), np.zeros(3, np.int64))
    assert index.keys.tolist() == index.postings.tolist() == []


@pytest.mark.parametrize("sets", [[], [{1}], [set(), set()]], ids=["none", "one", "empty"])
def test_corpora_without_pairs_yield_none(sets: list[set[int]]) -> None:
    hashes, starts = flatten_sets(sets)
    stored = WeightedSets(hashes, np.ones(len(hashes)), np.diff(starts))
    scope = PairScope.of_all_pairs(len(sets))
    parts = compare_all(stored, scope, 0.01, product=False, workers=1)
    assert sum(len(part.pairs) for part in parts) == 0
