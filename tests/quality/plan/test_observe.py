"""Tests of the similarities that a sample shows, against a comparison of all documents."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus import Columns, TableCorpus
from nearkin.quality.plan.observe import (
    SIMILARITY_BINS,
    SampledExactGroups,
    observe_corpus,
    observe_sample,
    sample_documents,
)
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of

MEASURE = measure_of(Spec(n=1))


def words_of(number: int) -> set[str]:
    return {f"w{word}" for word in range(number, number + 10)}


TEXTS = [" ".join(sorted(words_of(number))) for number in (0, 1, 5, 9, 40, 45, 90)]


def similarity_of(a: int, b: int) -> float:
    first, second = set(TEXTS[a].split()), set(TEXTS[b].split())
    return len(first & second) / len(first | second)


def test_similarities_of_all_documents_are_those_of_their_pairs() -> None:
    payload = MEASURE.payload_builder().build(pa.array(TEXTS, pa.large_string()))
    observed = observe_sample(payload, MEASURE, len(TEXTS))
    want = [similarity_of(a, b) for a, b in combinations(range(len(TEXTS)), 2)]
    counts, _ = np.histogram([x for x in want if x > 0], SIMILARITY_BINS, (0, 1))
    np.testing.assert_allclose(observed.pairs[1:] * len(TEXTS) / 2, counts[1:], atol=1e-9)
    assert observed.pairs.sum() == pytest.approx(len(TEXTS) - 1)
    assert observed.compared is not None
    assert observed.compared.tolist() == counts.tolist()


def test_pairs_of_a_sample_stand_for_those_of_the_corpus() -> None:
    """Seven of seventy documents have 21 of 2415 pairs, and each document has 69 others."""
    payload = MEASURE.payload_builder().build(pa.array(TEXTS, pa.large_string()))
    whole = observe_sample(payload, MEASURE, 7)
    scaled = observe_sample(payload, MEASURE, 70)
    np.testing.assert_allclose(scaled.pairs[1:], whole.pairs[1:] * (2415 / 21) * (7 / 70))
    assert scaled.pairs.sum() == pytest.approx(69)


def test_copies_count_once_and_not_against_each_other() -> None:
    documents = pa.array([TEXTS[0], TEXTS[0], TEXTS[1]], pa.large_string())
    payload = MEASURE.payload_builder().build(documents)
    groups = SampledExactGroups(np.array([0, 0, 1]), np.array([2, 2, 1]), documents=3, distinct=2)
    observed = observe_sample(payload, MEASURE, 3, exact_groups=groups)
    place = int(similarity_of(0, 1) * SIMILARITY_BINS)
    assert observed.pairs[place] == pytest.approx(1)
    assert observed.pairs.sum() == pytest.approx(1)


def test_pairs_of_one_source_are_not_counted() -> None:
    payload = MEASURE.payload_builder().build(pa.array(TEXTS, pa.large_string()))
    sources = np.array([0, 0, 1, 1, 2, 2, 2], np.uint64)
    observed = observe_sample(payload, MEASURE, 7, sources=sources)
    want = [
        similarity_of(a, b)
        for a, b in combinations(range(7), 2)
        if sources[a] != sources[b] and similarity_of(a, b) > 0
    ]
    counts, _ = np.histogram(want, SIMILARITY_BINS, (0, 1))
    np.testing.assert_allclose(observed.pairs[1:] * 7 / 2, counts[1:], atol=1e-9)


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_sample_does_not_depend_on_batches_and_threads(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = TableCorpus(pa.table({"text": [*TEXTS, TEXTS[0]]}))
    whole = sample_documents(corpus, Columns(), MEASURE, size, 5, 1)
    monkeypatch.setattr("nearkin.corpus.formats.record_batches.BATCH_ROWS", 2)
    parts = sample_documents(corpus, Columns(), MEASURE, size, 5, 3)
    assert len(whole.documents) == min(size, 8)
    assert parts.documents.to_pylist() == whole.documents.to_pylist()
    assert parts.exact_groups.groups.tolist() == whole.exact_groups.groups.tolist()
    assert (whole.exact_groups.documents, whole.exact_groups.distinct) == (8, 7)
    for text, copies in zip(whole.documents.to_pylist(), whole.exact_groups.sizes, strict=True):
        assert copies == (2 if text == TEXTS[0] else 1)


def test_corpus_is_described_with_the_size_of_its_sample() -> None:
    corpus = TableCorpus(pa.table({"text": TEXTS}))
    observed = observe_corpus(corpus, Columns(), MEASURE, sample=5, seed=2)
    assert observed.documents == 7
    assert observed.source.startswith("all pairs of 5 sampled documents of 7")


@pytest.mark.parametrize("words", range(1, 20))
def test_pairs_exactly_at_a_threshold_are_counted_at_it(words: int) -> None:
    """Products of the width of a bin are larger than some similarities, for example 0.7."""
    texts = [" ".join(f"w{word}" for word in range(count)) for count in (words, 20)]
    payload = MEASURE.payload_builder().build(pa.array(texts, pa.large_string()))
    observed = observe_sample(payload, MEASURE, 2)
    assert observed.count_pairs(round(words / 20, 2)) == 1
