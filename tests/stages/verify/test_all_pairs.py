"""Tests of the comparison of all pairs by prefixes against plain Python."""

import math
from itertools import combinations

import numpy as np
import pytest

from nearkin.stages.packed_pairs import ScoredPairs
from nearkin.stages.pair_scope import EVERY_SOURCE, PairScope
from nearkin.stages.verify import all_pairs
from nearkin.stages.verify.all_pairs import compare_all, invert
from nearkin.stages.verify.kernels import Hashes
from nearkin.stages.verify.weighted import WeightedSets, compare_weighted
from tests.stages.verify.set_samples import flatten_sets

DOCUMENTS = 60


def draw_documents(seed: int, largest_weight: int) -> list[dict[int, float]]:
    """Returns shingles with their weights: rare and frequent ones, with edited copies."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**64, 300, np.uint64)
    documents: list[dict[int, float]] = []
    for number in range(DOCUMENTS):
        chosen = {int(words[int(300 * rng.random() ** 4)]) for _ in range(rng.integers(0, 40))}
        document = {h: float(rng.integers(1, largest_weight + 1)) for h in sorted(chosen)}
        if number % 3:
            kept = 0.93 if number % 5 else 1.0
            copied = documents[int(rng.integers(number))]
            edits = dict(list(document.items())[: number % 3 - 1])
            document = {h: weight for h, weight in copied.items() if rng.random() < kept} | edits
        documents.append(dict(sorted(document.items())))
    return documents


def score(a: dict[int, float], b: dict[int, float], *, product: bool) -> tuple[float, float]:
    """Returns the weights of the intersection and of the union of two documents."""
    both = sorted(set(a) & set(b))
    if product:
        squares = [sum(weight**2 for weight in document.values()) for document in (a, b)]
        return sum(a[h] * b[h] for h in both), math.sqrt(squares[0] * squares[1])
    shared = sum(min(a[h], b[h]) for h in both)
    return shared, sum(a.values()) + sum(b.values()) - shared


@pytest.mark.parametrize("threshold", [1e-9, 0.3, 0.8, 1.0])
@pytest.mark.parametrize(
    ("similarity", "largest_weight", "product"),
    [("jaccard", 1, False), ("weighted", 5, False), ("idf", 90_000, False), ("cosine", 5, True)],
)
@pytest.mark.parametrize("by_source", [False, True])
def test_all_pairs_of_each_similarity_are_those_of_brute_force(
    by_source: bool, similarity: str, largest_weight: int, product: bool, threshold: float
) -> None:
    """Every pair is found with its exact similarity, however memory and ranges divide the work."""
    documents = draw_documents(largest_weight, largest_weight)
    blocks = np.array([i % 5 == 0 for i in range(DOCUMENTS)], np.uint64)
    sources = np.array([i % 3 for i in range(DOCUMENTS)], np.uint64)
    scope = PairScope(blocks, sources if by_source else EVERY_SOURCE)
    expected = {}
    for a, b in combinations(range(DOCUMENTS), 2):
        if blocks[a] != blocks[b] or (by_source and sources[a] == sources[b]):
            continue
        shared, union = score(documents[a], documents[b], product=product)
        if shared and shared / union >= threshold:
            expected[a << 32 | b] = (shared, union)
    assert expected
    hashes, starts = flatten_sets([set(document) for document in documents])
    weights = np.array([weight for document in documents for weight in document.values()])
    stored = WeightedSets(
        hashes, np.empty(0) if similarity == "jaccard" else weights, np.diff(starts)
    )
    # Few pairs and postings at once, few counts of hashes, and whole documents.
    for at_once, memory, lookup_steps in (
        (1 << 20, 1 << 28, 8),
        (700, 1 << 28, 8),
        (1 << 20, 512, 8),
        (1 << 20, 1, 8),
        (700, 1, -1e9),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nearkin.stages.verify.jaccard.PAIRS_PER_BATCH", at_once)
            patch.setattr(all_pairs, "MIN_ROWS", 40)
            patch.setattr(all_pairs, "LOOKUP_STEPS", lookup_steps)
            parts = compare_all(stored, scope, threshold, product=product, workers=2, memory=memory)
            scored = ScoredPairs.concatenate(list(parts))
        assert scored.pairs.tolist() == sorted(expected)
        assert scored.intersection.tolist() == [expected[pair][0] for pair in sorted(expected)]
        assert scored.union == pytest.approx([expected[pair][1] for pair in sorted(expected)])
    compared = compare_weighted(
        scored.pairs,
        np.arange(DOCUMENTS),
        starts,
        WeightedSets(hashes, weights, np.diff(starts)),
        product=product,
    )
    assert compared.intersection.tolist() == scored.intersection.tolist()
    assert compared.union.tolist() == scored.union.tolist()


@pytest.mark.parametrize("weights", [np.empty(0), np.arange(7.0)])
def test_inverted_postings_list_the_documents_of_each_hash(weights: np.ndarray) -> None:
    sets = [{5, 9}, set(), {9}, {1, 5, 9, 2**64 - 1}]
    hashes, starts = flatten_sets(sets)
    index = invert(Hashes(starts, hashes, weights))
    assert index.keys.tolist() == sorted(set().union(*sets))
    for key, first, last in zip(index.keys.tolist(), index.firsts, index.firsts[1:], strict=False):
        documents = index.postings[first:last].tolist()
        assert documents == [number for number, each in enumerate(sets) if key in each]
        if len(weights):
            want = [weights[starts[d] + sorted(sets[d]).index(key)] for d in documents]
            assert index.weights[first:last].tolist() == want


def test_nothing_is_inverted_to_nothing() -> None:
    index = invert(Hashes(np.zeros(3, np.int64), np.empty(0, np.uint64), np.empty(0)))
    assert index.keys.tolist() == index.postings.tolist() == []


@pytest.mark.parametrize("sets", [[], [{1}], [set(), set()]], ids=["none", "one", "empty"])
def test_corpora_without_pairs_yield_none(sets: list[set[int]]) -> None:
    hashes, starts = flatten_sets(sets)
    stored = WeightedSets(hashes, np.ones(len(hashes)), np.diff(starts))
    scope = PairScope.of_all_pairs(len(sets))
    parts = compare_all(stored, scope, 0.01, product=False, workers=1)
    assert sum(len(part.pairs) for part in parts) == 0
