"""Tests of the Hamming similarity against the distances of all pairs of signatures."""

import numpy as np
import pytest

import nearkin as nk
from nearkin.spec import Spec


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


def test_distance_with_hot_buckets_gives_warning(texts: list[str]) -> None:
    rng = np.random.default_rng(1)
    documents = [*texts, *(" ".join(map(str, rng.integers(0, 10**6, 30))) for _ in range(6000))]
    for most, expected in ((5, True), (100, False)):
        warnings = nk.dedup(
            documents, measure="simhash", distance=8, hot_bucket_size=most
        ).report_data.all_warnings
        assert (
            any("may be missing; raise `hot_bucket_size`" in warning for warning in warnings)
            == expected
        )
