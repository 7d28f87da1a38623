"""Tests of the search for similar pairs of many documents, and of the weights of drawn pairs."""

import numpy as np
import pytest

from nearkin.corpus import Columns
from nearkin.quality.fit import similar_pairs
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.documents import read_documents
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.quality.fit.similar_pairs import BANDS, NEIGHBOURS, find_similar_pairs
from nearkin.runs.temporary_runs import open_corpus
from nearkin.runtime.progress import Silent
from nearkin.stages.packed_pairs import pack_pairs, unpack_pairs
from tests.quality.fit.corpora import records

WORDS = Definition("words", 1, "jaccard")
CHARACTERS = Definition("chars", 3, "jaccard")


def score_texts(texts: dict[str, str]) -> DocumentScorer:
    table = {"id": list(texts), "text": list(texts.values())}
    corpus = open_corpus(table, {})
    return DocumentScorer(read_documents(corpus, Columns(id="id"), [], len(texts), 1, Silent()))


def test_similar_pairs_are_found_with_the_probability_of_the_bands() -> None:
    """The similarity of each pair is 12/28 of words, of which bands of three find nearly all."""
    texts = {}
    for number in range(300):
        shared = [f"s{number}x{place}" for place in range(12)]
        for copy in range(2):
            own = [f"o{number}y{copy}z{place}" for place in range(8)]
            texts[f"{number}-{copy}"] = " ".join([*shared, *own])
    scorer = score_texts(texts)
    similar = find_similar_pairs(scorer, [WORDS], np.random.default_rng(1))
    names = [id.split("-")[0] for id in scorer.documents.ids]
    first, second = unpack_pairs(similar.listed)
    assert all(names[a] == names[b] for a, b in zip(first, second, strict=True))
    # Pairs whose estimate is below 0.3 are not listed. Its standard deviation is 0.05.
    chance = 1 - (1 - (12 / 28) ** 3) ** BANDS
    assert chance > 0.92
    assert 0.92 * 300 - 4 * np.sqrt(300 * 0.92 * 0.08) <= len(similar.listed) <= 300


def test_weights_of_drawn_pairs_estimate_sums_over_all_listed_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Independent draws: the variance of the sum is the sum of value² (1 - p) / p."""
    monkeypatch.setattr(similar_pairs, "PAIRS_PER_STRATUM", 30)
    scorer = score_texts(records([4] * 120, seed=6).texts)
    rng = np.random.default_rng(2)
    value_of = np.random.default_rng(3).random(1 << 16)
    totals = []
    for _ in range(30):
        similar = find_similar_pairs(scorer, [WORDS, CHARACTERS], rng)
        assert np.isin(similar.drawn, similar.listed).all()
        assert len(similar.drawn) < len(similar.listed)
        assert similar.weights.min() >= 1
        places = np.searchsorted(similar.listed, similar.drawn)
        totals.append(float((similar.weights * value_of[places]).sum()))
    expected = float(value_of[: len(similar.listed)].sum())
    error = np.std(totals, ddof=1) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - expected) < 4 * error


def test_rare_pairs_are_all_drawn() -> None:
    scorer = score_texts(records([2] * 20 + [1] * 300, seed=8).texts)
    similar = find_similar_pairs(scorer, [WORDS, CHARACTERS], np.random.default_rng(1))
    names = [id.split("-")[0] for id in scorer.documents.ids]
    true = [
        (a, b) for a in range(len(names)) for b in range(a + 1, len(names)) if names[a] == names[b]
    ]
    packed = pack_pairs(*np.array(true).T)
    assert np.isin(packed, similar.drawn).mean() >= 0.95
    assert similar.weights[np.isin(similar.drawn, packed)].max() == 1


def test_documents_without_shingles_are_in_no_pair() -> None:
    texts = {f"empty{number}": " " * number for number in range(40)}
    texts |= {"a": "red green blue", "b": "red green blue"}
    scorer = score_texts(texts)
    similar = find_similar_pairs(scorer, [WORDS], np.random.default_rng(1))
    assert [scorer.documents.ids[end[0]] for end in unpack_pairs(similar.listed)] == ["a", "b"]


def test_buckets_of_equal_documents_do_not_multiply_pairs() -> None:
    texts = {f"d{number}": "one two three four five" for number in range(500)}
    similar = find_similar_pairs(score_texts(texts), [WORDS], np.random.default_rng(1))
    assert len(similar.listed) <= 500 * NEIGHBOURS


def test_no_documents_have_no_pairs() -> None:
    similar = find_similar_pairs(score_texts({"a": "one"}), [WORDS], np.random.default_rng(1))
    assert len(similar.listed) == len(similar.drawn) == len(similar.weights) == 0
