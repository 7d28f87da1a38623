"""Tests of documents that share a bucket with a document but are below the threshold."""

import pytest

import nearkin as nk
from tests.index.conftest import Opener, family, fill, jaccard


def test_near_misses_are_below_the_threshold_with_exact_similarities(opened: Opener) -> None:
    index = opened(threshold=0.8, postings="all")
    texts = family(30)
    fill(index, texts)
    matches = {match.id for match in index.query("a", texts["m0003"], top=100)}
    misses = index.near_misses("a", texts["m0003"], top=100)
    assert misses
    assert matches.isdisjoint(miss.id for miss in misses)
    for miss in misses:
        assert miss.similarity < 0.8
        assert miss.similarity == pytest.approx(jaccard(texts[miss.id], texts["m0003"]))
    assert [miss.similarity for miss in misses] == sorted(
        (miss.similarity for miss in misses), reverse=True
    )


def test_unrelated_and_empty_texts_have_no_near_misses(opened: Opener) -> None:
    index = opened(threshold=0.8)
    fill(index, family(5))
    assert index.near_misses("a", "entirely different words that nobody has stored") == []
    assert index.near_misses("a", "") == []
    with pytest.raises(nk.UsageError, match="top=0 is out of range"):
        index.near_misses("a", "text", top=0)
