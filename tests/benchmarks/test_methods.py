"""Tests of the comparison of methods: what the page about it concludes holds on a small corpus."""

import pytest

from benchmarks.methods import KINDS, METHODS, make_corpus, measure_method

RELEASES = 400
Results = dict[str, tuple[dict[str, float], float]]


@pytest.fixture(scope="module")
def results() -> Results:
    """Returns the recall for each kind of copy and the precision, by method."""
    table, labels = make_corpus(RELEASES)
    assert set(labels.kind.values()) == set(KINDS)
    assert len(labels.original) == RELEASES
    return {name: measure_method(table, labels, arguments)[:2] for name, arguments in METHODS}


def test_exact_duplicates_are_those_in_capitals(results: Results) -> None:
    recall, precision = results["exact duplicates"]
    assert recall == {kind: float(kind == "capitals") for kind in KINDS}
    assert precision == 1.0


def test_minhash_finds_edited_copies_and_little_else(results: Results) -> None:
    recall, precision = results["MinHash, Jaccard ≥ 0.7"]
    assert min(recall["framed"], recall["reworded"]) > 0.8
    assert precision > 0.99


def test_containment_finds_excerpts_that_similarity_misses(results: Results) -> None:
    assert results["containment ≥ 0.8"][0]["cut in half"] > 0.9
    assert results["MinHash, Jaccard ≥ 0.7"][0]["cut in half"] < 0.1


def test_simhash_buys_recall_with_precision(results: Results) -> None:
    names = [f"SimHash, distance ≤ {distance}" for distance in (3, 8, 12)]
    framed = [results[name][0]["framed"] for name in names]
    precisions = [results[name][1] for name in names]
    assert framed == sorted(framed)
    assert precisions == sorted(precisions, reverse=True)
    assert precisions[-1] < results["MinHash, Jaccard ≥ 0.7"][1]
