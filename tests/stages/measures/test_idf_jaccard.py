"""Compares the idf-weighted Jaccard similarity with plain Python, and with Jaccard."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.errors import IncompatibleError, UsageError
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.base import as_stored
from nearkin.stages.packed_pairs import pack_pairs
from nearkin.stages.sketch.resources import SpecResources, weighted_by

SPEC = Spec(n=1, measure="idf-jaccard")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Returns documents over few frequent and many rare words, with edited copies of some."""
    rng = np.random.default_rng(12)
    ranks = np.arange(1, 3001)
    shares = 1 / ranks
    words = np.array([f"w{i}" for i in ranks])
    documents = [
        list(rng.choice(words, rng.integers(5, 40), p=shares / shares.sum())) for _ in range(240)
    ]
    for i in range(120):
        copy = list(documents[i])
        for at in rng.choice(len(copy), min(i % 4, len(copy)), replace=False):
            copy[at] = f"edit{i}{at}"
        documents.append(copy)
    return [" ".join(document) for document in documents]


def plain_weights(texts: list[str]) -> dict[str, int]:
    """Returns the weight of each word. A word of one document counts like an unknown one."""
    counts = Counter(word for text in texts for word in set(text.split()))
    n = len(texts)
    return {
        word: round(65536 * (math.log((1 + n) / (1 + count)) + 1)) for word, count in counts.items()
    }


def plain_similarity(a: str, b: str, weights: dict[str, int]) -> float:
    first, second = set(a.split()), set(b.split())
    shared = sum(weights[word] for word in first & second)
    return shared / sum(weights[word] for word in first | second)


@pytest.mark.parametrize("threshold", [0.3, 0.8])
def test_pairs_and_similarities_match_plain_python(threshold: float, texts: list[str]) -> None:
    """Sums of whole numbers are exact, so similarities are equal to the last bit."""
    rows = nk.pairs(
        texts, shingle="words:1", measure="idf-jaccard", threshold=threshold, expand_exact=True
    ).pairs.arrow.to_pylist()
    weights = plain_weights(texts)
    expected = {
        (f"{a:010}", f"{b:010}"): similarity
        for a, b in combinations(range(len(texts)), 2)
        if (similarity := plain_similarity(texts[a], texts[b], weights)) >= threshold
    }
    assert {(row["id_a"], row["id_b"]): row["similarity"] for row in rows} == expected
    assert len(expected) > 50


def test_similarity_does_not_depend_on_order_of_documents(texts: list[str]) -> None:
    counted = nk.frequencies(texts, spec=SPEC)
    measure = measure_of(weighted_by(counted, SPEC), SpecResources(frequencies=counted))
    for documents in (texts[:2], texts[1::-1]):
        payload = measure.payload_builder().build(pa.array(documents, pa.large_string()))
        pair = pack_pairs(np.array([0]), np.array([1]))
        scored = measure.compare(pair, as_stored(payload))
        weights = plain_weights(texts)
        assert scored.similarity[0] == plain_similarity(texts[0], texts[1], weights)


def test_estimate_is_unbiased_with_stated_error(texts: list[str]) -> None:
    counted = nk.frequencies(texts, spec=SPEC)
    weights = plain_weights(texts)
    pairs = [(a, b) for a in range(40) for b in range(240, 300)]
    true = np.array([plain_similarity(texts[a], texts[b], weights) for a, b in pairs])
    deviations = []
    for seed in range(20):
        spec = weighted_by(counted, Spec(n=1, measure="idf-jaccard", seed=seed))
        measure = measure_of(spec, SpecResources(frequencies=counted))
        signatures = nk.sketch(texts, spec, resources=SpecResources(frequencies=counted))
        a, b = (signatures[[pair[i] for pair in pairs]] for i in (0, 1))
        estimates = (a == b).mean(axis=1)
        errors = np.array([measure.estimator.standard_error(s) for s in true.tolist()])
        assert np.abs(estimates - true).max() < 6 * max(errors.max(), 1 / 128)
        deviations.append(np.mean(estimates - true))
    # Pairs that share documents are correlated, so seeds are the independent trials.
    error = np.std(deviations, ddof=1) / math.sqrt(len(deviations))
    assert abs(np.mean(deviations)) < 4 * error


def test_given_frequencies_give_same_result_as_counted_ones(texts: list[str]) -> None:
    counted = nk.frequencies(texts, spec=SPEC)
    options = {"shingle": "words:1", "measure": "idf-jaccard", "threshold": 0.5}
    implicit = nk.pairs(texts, **options)
    explicit = nk.pairs(texts, frequencies=counted, **options)
    assert implicit.pairs.arrow.equals(explicit.pairs.arrow)
    other = nk.frequencies(texts[:10], spec=SPEC)
    assert not nk.pairs(texts, frequencies=other, **options).pairs.arrow.equals(
        implicit.pairs.arrow
    )


@pytest.mark.parametrize("probes", [0, 2])
def test_banding_finds_share_of_pairs_that_it_promises(probes: int) -> None:
    """The expected number of found pairs is the sum of their candidate probabilities."""
    rng = np.random.default_rng(3)
    texts = []
    for i in range(400):
        words = [f"r{i}x{j}" for j in range(12)] + [f"f{j}" for j in rng.integers(0, 30, 6)]
        edited = [*words]
        for at in rng.choice(len(edited), 2, replace=False):
            edited[at] = f"e{i}x{at}"
        texts += [" ".join(words), " ".join(edited)]
    options = {"shingle": "words:1", "measure": "idf-jaccard", "threshold": 0.6}
    every = nk.pairs(texts, **options).pairs.arrow
    banding = {"bands": 4, "rows": 8, "probes": probes}
    result = nk.pairs(texts, recall=0.5, **banding, **options)
    assert not result.stages["verify"]["brute_force"]
    from nearkin.stages.lsh.slot_bands import fixed_banding

    solved = fixed_banding(0.6, 0.5, 128, 4, 8, probes)
    probabilities = np.array(
        [solved.candidate_probability(s) for s in every["similarity"].to_pylist()]
    )
    expected = probabilities.sum()
    error = math.sqrt((probabilities * (1 - probabilities)).sum())
    assert len(every) > 300
    assert abs(len(result.pairs.arrow) - expected) < 5 * error


def test_spec_without_frequencies_makes_no_signatures() -> None:
    with pytest.raises(UsageError, match="needs document frequencies"):
        nk.sketch(["a b"], SPEC)
    counted = nk.frequencies(["a b", "a c"], spec=SPEC)
    with pytest.raises(IncompatibleError, match="but none was given"):
        nk.sketch(["a b"], weighted_by(counted, SPEC))


def test_frequencies_are_refused_by_other_measures() -> None:
    counted = nk.frequencies(["a b", "a c"], spec=SPEC)
    with pytest.raises(
        UsageError,
        match="`frequencies` has no effect with measure jaccard",
    ):
        nk.dedup(["a b"], frequencies=counted)


def test_weights_of_simhash_are_refused() -> None:
    with pytest.raises(UsageError, match="weights='tfidf' is not one of None for measure idf"):
        Spec(measure="idf-jaccard", weights="tfidf", frequencies="0" * 16)
    with pytest.raises(UsageError, match="scheme='binned' is not one of 'darts'"):
        Spec(measure="idf-jaccard", scheme="binned")


def entities(seed: int) -> tuple[list[str], list[int]]:
    """Returns product names with typing errors and left-out words, and the product of each."""
    rng = np.random.default_rng(seed)
    brands = [f"brand{i}" for i in range(12)]
    kinds = ["black", "white", "digital", "camera", "with", "inch", "kit", "zoom", "lens", "pack"]
    names = []
    labels = []
    for product in range(250):
        model = [f"mx{rng.integers(10**6)}", f"s{rng.integers(10**4)}"]
        common = [str(w) for w in rng.choice(kinds, 5, replace=False)]
        for _ in range(int(rng.integers(1, 4))):
            described = [word for word in common if rng.random() < 0.6]
            extra = [str(w) for w in rng.choice(kinds, 2)]
            names.append(" ".join([brands[product % 12], *model, *described, *extra]))
            labels.append(product)
    return names, labels


def test_f1_of_entities_is_higher_than_with_jaccard() -> None:
    names, labels = entities(6)
    true = {(a, b) for a, b in combinations(range(len(names)), 2) if labels[a] == labels[b]}
    best = {}
    for measure in ("jaccard", "idf-jaccard"):
        rows = nk.pairs(
            names, shingle="words:1", measure=measure, threshold=0.2, expand_exact=True
        ).pairs.arrow.to_pylist()
        scores = []
        for threshold in np.arange(0.2, 1, 0.05).tolist():
            found = {
                (int(row["id_a"]), int(row["id_b"]))
                for row in rows
                if row["similarity"] >= threshold
            }
            scores.append(2 * len(found & true) / (len(found) + len(true)))
        best[measure] = max(scores)
    assert best["idf-jaccard"] > best["jaccard"] + 0.1
    assert best["idf-jaccard"] > 0.9
