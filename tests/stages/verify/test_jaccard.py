"""Tests of the exact Jaccard similarity of shingle sets against Python sets."""

from itertools import combinations, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.settings.spec import Spec
from nearkin.stages.packed_pairs import pack_pairs
from nearkin.stages.sketch.resources import NO_RESOURCES
from nearkin.stages.verify.jaccard import SetBuilder, compare_sets, distinct_sets, document_ranges
from tests.stages.verify.set_samples import flatten_sets, random_sets

TEXTS = ["one two three four one two three", "", "one two", "four three two one"]


def test_sets_of_texts_are_their_distinct_shingles() -> None:
    builder = SetBuilder(NO_RESOURCES.shingler(Spec(n=1)))
    sets = builder.build(pa.array(TEXTS, pa.large_string()))
    assert sets.sizes.tolist() == [4, 0, 2, 4]
    first, last = sets.hashes[:4], sets.hashes[6:]
    assert (np.diff(first.astype(object)) > 0).all()
    assert first.tolist() == last.tolist()
    assert set(sets.hashes[4:6].tolist()) < set(first.tolist())


def test_sets_of_a_batch_do_not_depend_on_earlier_batches() -> None:
    builder = SetBuilder(NO_RESOURCES.shingler(Spec(n=2)))
    texts = pa.array(TEXTS, pa.large_string())
    whole = builder.build(texts)
    parts = [builder.build(texts.slice(number, 1)) for number in range(len(texts))]
    assert np.concatenate([part.hashes for part in parts]).tolist() == whole.hashes.tolist()
    assert np.concatenate([part.sizes for part in parts]).tolist() == whole.sizes.tolist()
    assert builder.build(texts.slice(0, 0)).sizes.tolist() == []


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=20), max_size=5))
def test_hashes_of_each_document_are_sorted_and_distinct(documents: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, documents)])
    hashes = np.array([h for document in documents for h in document], np.uint64)
    sets = distinct_sets(hashes, offsets)
    assert sets.sizes.tolist() == [len(set(document)) for document in documents]
    assert sets.hashes.tolist() == [h for document in documents for h in sorted(set(document))]


def test_similarity_of_pairs_is_that_of_sets() -> None:
    sets = [*random_sets(30, 40, 5), set(), set()]
    hashes, starts = flatten_sets(sets)
    place = np.random.default_rng(1).permutation(32).astype(np.uint32)
    a, b = np.array(list(combinations(range(32), 2))).T
    scored = compare_sets(pack_pairs(a, b), place, starts, hashes)
    for x, y, both, union in zip(a, b, scored.intersection, scored.union, strict=True):
        assert both == len(sets[place[x]] & sets[place[y]])
        assert union == len(sets[place[x]] | sets[place[y]])


@pytest.mark.parametrize("rows", [1, 7, 10**9])
@pytest.mark.parametrize("pairs", [1, 50, 10**9])
@pytest.mark.parametrize("documents", [0, 1, 2, 40])
def test_ranges_cover_all_documents_within_their_limits(
    documents: int, pairs: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.stages.verify.jaccard.PAIRS_PER_BATCH", pairs)
    sizes = np.random.default_rng(2).integers(0, 9, documents)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    ranges = list(document_ranges(starts, rows))
    cuts = [0, *(last for _, last in ranges)]
    assert ranges == list(pairwise(cuts))
    assert cuts[-1] == documents
    for first, last in ranges:
        compared = sum(documents - 1 - number for number in range(first, last))
        is_within = starts[last] - starts[first] <= rows and compared <= pairs
        assert is_within or last == first + 1
