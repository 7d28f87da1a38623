"""Tests of the comparison of multisets of shingles against counters of words."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.base import as_stored
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs
from nearkin.stages.pair_scope import PairScope

TEXTS = ["a b a c", "", "a b a", "c a a b d", "x y z", "b b b b a"]


def similarity_of(measure: str, first: str, second: str) -> float:
    a, b = Counter(first.split()), Counter(second.split())
    if not a or not b:
        return 0.0
    if measure == "weighted-jaccard":
        return (a & b).total() / (a | b).total()
    lengths = [math.sqrt(sum(n * n for n in words.values())) for words in (a, b)]
    return sum(a[word] * b[word] for word in a) / (lengths[0] * lengths[1])


@pytest.mark.parametrize("measure", ["weighted-jaccard", "simhash"])
def test_both_comparisons_agree_with_counted_words(measure: str) -> None:
    """Listed pairs and brute force give the same numbers."""
    compared = measure_of(Spec(measure=measure, n=1, k=128))
    payload = compared.payload_builder().build(pa.array(TEXTS, pa.large_string()))
    want = {
        pair: similarity_of(measure, TEXTS[pair[0]], TEXTS[pair[1]])
        for pair in combinations(range(len(TEXTS)), 2)
    }
    a, b = np.array(list(want)).T
    listed = compared.compare(pack_pairs(a, b), as_stored(payload))
    np.testing.assert_allclose(listed.similarity, list(want.values()), rtol=1e-15)
    scope = PairScope.of_all_pairs(len(TEXTS))
    near = ScoredPairs.concatenate(list(compared.compare_all(payload, scope, 0.5, workers=2)))
    first, second = unpack_pairs(near.pairs)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [
        pair for pair, similarity in want.items() if similarity >= 0.5
    ]


@pytest.mark.parametrize("measure", ["weighted-jaccard", "simhash"])
def test_columns_of_a_payload_have_their_declared_types(measure: str) -> None:
    compared = measure_of(Spec(measure=measure, n=1, k=128))
    payload = compared.payload_builder().build(pa.array(TEXTS, pa.large_string()))
    assert [(column.dtype.type, None) for column in payload.columns] == list(compared.column_types)
    assert payload.sizes.tolist() == [len(set(text.split())) for text in TEXTS]
