"""Tests of the search among blocked entries against brute force."""

import numpy as np
import pyarrow as pa
import pytest

from nearkin.engine.blocklist import search as search_module
from nearkin.engine.blocklist.search import EntrySearch
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.base import Payload

SPECS = {
    "jaccard": Spec(n=2),
    "weighted": Spec(measure="weighted-jaccard", n=2),
    "simhash": Spec(measure="simhash", n=2),
}


def random_texts(count: int, seed: int) -> list[str]:
    """Returns texts of few words, many of which are similar; some are empty."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(list("abcd"), rng.integers(0, 9))) for _ in range(count)]


def brute_force(
    documents: Payload, entries: Payload, kind: str, threshold: float
) -> list[tuple[int, int, float]]:
    """Returns each document with its best entry, by dictionaries of weights."""

    def weights_of(payload: Payload) -> list[dict[int, float]]:
        ends = np.cumsum(payload.sizes)
        out = []
        for start, end in zip(ends - payload.sizes, ends, strict=True):
            values = np.ones(end - start)
            if len(payload.columns) > 1:
                values = payload.columns[1][start:end]
            hashes = payload.columns[0][start:end].tolist()
            out.append(dict(zip(hashes, values.tolist(), strict=True)))
        return out

    def compare(a: dict[int, float], b: dict[int, float]) -> float:
        if not a or not b:
            return 0.0
        if kind == "simhash":
            product = sum(a[key] * b.get(key, 0) for key in a)
            norms = sum(v * v for v in a.values()) * sum(v * v for v in b.values())
            return float(product / norms**0.5)
        keys = {*a, *b}
        shared = sum(min(a.get(key, 0), b.get(key, 0)) for key in keys)
        return shared / sum(max(a.get(key, 0), b.get(key, 0)) for key in keys)

    best = []
    theirs = weights_of(entries)
    for number, document in enumerate(weights_of(documents)):
        similarities = [compare(document, entry) for entry in theirs]
        top = int(np.argmax(similarities))
        if similarities[top] >= threshold:
            best.append((number, top, similarities[top]))
    return best


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("portion", [1 << 20, 50])
def test_search_equals_brute_force(
    kind: str, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "PAIRS_PER_BATCH", portion)
    measure = measure_of(SPECS[kind])
    builder = measure.payload_builder()
    entries = builder.build(pa.array(random_texts(40, 1), pa.large_string()))
    documents = builder.build(pa.array(random_texts(60, 2), pa.large_string()))
    for threshold in (0.34, 0.6, 1.0):
        got = EntrySearch(measure, entries).find(documents, threshold)
        want = brute_force(documents, entries, kind, threshold)
        assert got.documents.tolist() == [document for document, _, _ in want]
        assert np.allclose(got.similarity, [similarity for _, _, similarity in want], atol=1e-12)
        if kind != "simhash":
            # the order of a sum decides between equal cosines
            assert got.entries.tolist() == [entry for _, entry, _ in want]


def test_search_by_distance_equals_brute_force() -> None:
    measure = measure_of(Spec(measure="simhash", k=64), distance=20)
    rng = np.random.default_rng(3)
    stored = rng.integers(0, 2**64, (30, 1), np.uint64)
    asked = rng.integers(0, 2**64, (50, 1), np.uint64)

    def payload_of(signatures: np.ndarray) -> Payload:
        return Payload(np.ones(len(signatures), np.int64), (signatures,))

    got = EntrySearch(measure, payload_of(stored)).find(payload_of(asked), 1 - 24 / 64)
    distances = np.bitwise_count(asked ^ stored.T).astype(int)
    want = [(i, int(np.argmin(row)), int(row.min())) for i, row in enumerate(distances)]
    want = [found for found in want if found[2] <= 24]
    assert len(want) > 5
    assert got.documents.tolist() == [i for i, _, _ in want]
    assert got.entries.tolist() == [entry for _, entry, _ in want]
    assert got.similarity.tolist() == [1 - distance / 64 for _, _, distance in want]


def test_search_without_entries_or_documents_matches_nothing() -> None:
    measure = measure_of(Spec())
    builder = measure.payload_builder()
    nothing = builder.build(pa.array([], pa.large_string()))
    texts = builder.build(pa.array(["a b c d", ""], pa.large_string()))
    assert len(EntrySearch(measure, nothing).find(texts, 0.5).documents) == 0
    assert len(EntrySearch(measure, texts).find(nothing, 0.5).documents) == 0
