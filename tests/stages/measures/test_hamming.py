"""Tests of the Hamming similarity against the distances of all pairs of signatures."""

from itertools import combinations

import numpy as np
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.settings.spec import Spec
from nearkin.stages.measures import BandingRequest
from nearkin.stages.measures.base import Payload
from nearkin.stages.measures.cosine import SimHash
from nearkin.stages.measures.hamming import Hamming
from nearkin.stages.packed_pairs import ScoredPairs, unpack_pairs
from nearkin.stages.pair_scope import EVERY_SOURCE, PairScope


@pytest.mark.parametrize("extra", [0, 6000])
@pytest.mark.parametrize("distance", [3, 8, 11])
def test_all_pairs_within_hamming_distance_are_found(
    distance: int, extra: int, texts: list[str]
) -> None:
    """Compares both brute force and the block scheme with the expected pairs."""
    rng = np.random.default_rng(1)
    documents = [*texts, *(" ".join(map(str, rng.integers(0, 10**6, 30))) for _ in range(extra))]
    spec = Spec(measure="simhash")
    result_pairs = nk.pairs(
        documents, measure="simhash", distance=distance, expand_exact=True
    ).pairs.arrow.to_pylist()
    words = nk.sketch(documents, spec)[:, 0]
    far = np.bitwise_count(words[:, None] ^ words[None, :])
    a, b = np.nonzero(np.triu(far <= distance, 1))
    want = {
        (f"{x:010}", f"{y:010}", int(far[x, y]))
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    }
    assert {(r["id_a"], r["id_b"], r["distance"]) for r in result_pairs} == want
    assert all(r["similarity"] == r["estimate"] == 1 - r["distance"] / 64 for r in result_pairs)
    assert len(want) > 20


@pytest.mark.parametrize("by_source", [False, True])
@pytest.mark.parametrize("max_distance", [0, 20, 64])
def test_brute_force_lists_the_pairs_of_a_scope_within_the_distance(
    max_distance: int, by_source: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.stages.measures.hamming.PAIRS_PER_BATCH", 50)
    rng = np.random.default_rng(7)
    words = rng.integers(0, 2**64, (30, 1), np.uint64)
    words[20:] = words[:10] ^ (np.uint64(1) << rng.integers(0, 64, (10, 1), np.uint64))
    words[0] = words[1]
    blocks = rng.integers(0, 2, 30).astype(np.uint64)
    sources = rng.integers(0, 3, 30).astype(np.uint64) if by_source else EVERY_SOURCE
    measure = Hamming(SimHash(Spec(measure="simhash")), max_distance)
    payload = Payload(np.ones(30, np.int64), (words,))
    threshold = 1 - max_distance / 64
    scope = PairScope(blocks, sources)
    parts = list(measure.compare_all(payload, scope, threshold, workers=1))
    scored = ScoredPairs.concatenate(parts)
    want = {
        (a, b): (int(words[a, 0]) ^ int(words[b, 0])).bit_count()
        for a, b in combinations(range(30), 2)
        if blocks[a] == blocks[b] and not (by_source and sources[a] == sources[b])
    }
    order = np.argsort(scored.pairs)
    first, second = unpack_pairs(scored.pairs[order])
    distances = measure.estimator.hamming_distances(scored.similarity[order]).tolist()
    assert dict(zip(zip(first.tolist(), second.tolist(), strict=True), distances, strict=True)) == {
        pair: distance for pair, distance in want.items() if distance <= max_distance
    }


@pytest.mark.parametrize(
    "wrong", [{"bands": 2, "rows": 3}, {"tables": 2}, {"probes": 1}], ids=lambda wrong: str(wrong)
)
def test_distance_refuses_settings_of_bands(wrong: dict[str, int]) -> None:
    measure = Hamming(SimHash(Spec(measure="simhash")), 3)
    with pytest.raises(UsageError, match=r"distance=3 chooses its own tables.*omit `bands`"):
        measure.banding(BandingRequest(0.9, 0.9, **wrong))
