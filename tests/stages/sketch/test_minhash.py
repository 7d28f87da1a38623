"""Tests of MinHash against an oracle and against its error bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.settings.spec import Spec
from nearkin.stages.measures.estimates import estimate
from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch import kernels
from nearkin.stages.sketch.minhash import (
    EMPTY_SLOT,
    ROUNDS,
    SCHEMES,
    Binned,
    Classic,
    fill_shares,
    scheme_of,
    slot_sources,
    splitmix64,
)

WORD = 2**64
hashes = st.lists(st.integers(0, WORD - 1), max_size=60)


def signature(values: list[int] | set[int] | np.ndarray, spec: Spec) -> np.ndarray:
    slots = np.full(spec.k, EMPTY_SLOT, np.uint32)
    scheme_of(spec).update(np.array(list(values), np.uint64), slots)
    return slots


def binned_oracle(values: list[int], scheme: Binned, k: int) -> list[int]:
    """Computes each slot as the minimum over the values of all elements."""
    slots = [int(EMPTY_SLOT)] * k
    for h in values:
        for r, multiplier in enumerate(scheme.rounds.tolist()):
            x = h * multiplier % WORD
            high = x >> 32
            j = high * k >> 32
            slots[j] = min(slots[j], r << 29 | ((x ^ high) & 0xFFFFFFFF) >> 3)
        for j, a in enumerate(scheme.completion.tolist()):
            slots[j] = min(slots[j], ROUNDS << 29 | ((h >> 32) * a % 2**32) >> 3)
    return slots


def classic_oracle(values: list[int], scheme: Classic, k: int) -> list[int]:
    out = []
    for a, b in zip(scheme.a.tolist(), scheme.b.tolist(), strict=True):
        out.append(
            min(
                (min(((a * (h >> 32) + b) % WORD) >> 32, 2**32 - 2) for h in values),
                default=int(EMPTY_SLOT),
            )
        )
    return out


@pytest.mark.parametrize("k", [8, 24, 128])
@given(hashes)
def test_binned_matches_oracle(k: int, values: list[int]) -> None:
    spec = Spec(k=k)
    assert signature(values, spec).tolist() == binned_oracle(values, Binned(k, spec.seed), k)


@given(hashes)
def test_classic_matches_oracle(values: list[int]) -> None:
    spec = Spec(k=24, scheme="classic")
    assert signature(values, spec).tolist() == classic_oracle(values, Classic(24, spec.seed), 24)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@given(hashes, hashes)
def test_minimum_is_signature_of_union(scheme: str, a: list[int], b: list[int]) -> None:
    spec = Spec(k=16, scheme=scheme)
    np.testing.assert_array_equal(
        np.minimum(signature(a, spec), signature(b, spec)), signature([*a, *b], spec)
    )


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("size", [0, 1, 2, 20, 64, 164, 1000, 5000])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_estimate_is_unbiased_and_within_error_bound(
    scheme: str, size: int, share: float, full: bool
) -> None:
    """Compares mean and mean square error with J and the k-hash bound, allowing for sampling
    noise."""
    trials, k = (600 if full else 120), 128
    both = round(2 * size * share / (1 + share))
    union = 2 * size - both
    J = both / union if union else 0.0
    rng = np.random.default_rng([size, round(share * 10)])
    spec, errors = Spec(k=k, scheme=scheme), np.empty(trials)
    for t in range(trials):
        elements = rng.integers(0, WORD, union, dtype=np.uint64)
        errors[t] = (
            estimate(signature(elements[:size], spec), signature(elements[size - both :], spec)) - J
        )
    bound = np.sqrt(J * (1 - J) / k)
    assert abs(errors.mean()) <= 4 * bound / np.sqrt(trials)
    assert np.sqrt((errors**2).mean()) <= bound * (1 + 3 / np.sqrt(2 * trials))


def test_empty_slots_do_not_agree() -> None:
    nothing = signature([], Spec(k=8))
    assert (nothing == EMPTY_SLOT).all()
    assert estimate(nothing, nothing) == 0.0


def test_batch_gives_signature_of_each_document() -> None:
    rng = np.random.default_rng(3)
    sizes = [0, 1, 5, 300, 0, 40]
    values = rng.integers(0, WORD, sum(sizes), dtype=np.uint64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    for scheme in SCHEMES:
        spec = Spec(k=32, scheme=scheme)
        out = np.empty((len(sizes), 32), np.uint32)
        scheme_of(spec).sketch(Shingles(values, offsets), out)
        for d in range(len(sizes)):
            np.testing.assert_array_equal(
                out[d], signature(values[offsets[d] : offsets[d + 1]], spec)
            )


def test_different_streams_have_different_fingerprints() -> None:
    streams = [[], [1], [1, 1], [1, 2], [2, 1], [1, 2, 1], [1, 2]]
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in streams])])
    out = np.empty((len(streams), 2), np.uint64)
    hashes = np.array([h for s in streams for h in s], np.uint64)
    symbols = np.zeros((len(streams), 3), np.uint64)
    kernels.stream_fingerprints(hashes, offsets, symbols, out)
    rows = [tuple(row) for row in out.tolist()]
    assert rows[3] == rows[6]
    assert len(set(rows)) == len(rows) - 1


def test_fill_shares_match_tags() -> None:
    spec = Spec(k=128)
    rng = np.random.default_rng(0)
    short = np.stack(
        [signature(rng.integers(0, WORD, 10, dtype=np.uint64), spec) for _ in range(50)]
    )
    large = np.stack(
        [signature(rng.integers(0, WORD, 5000, dtype=np.uint64), spec) for _ in range(50)]
    )
    assert fill_shares(large).later_round < 0.001
    # After a round an element leaves a slot empty with probability (1 − 1/k)^10; after R rounds,
    # its R-th power.
    assert fill_shares(short).later_round == pytest.approx((1 - 1 / 128) ** 10, abs=0.02)
    assert fill_shares(short).completed == pytest.approx((1 - 1 / 128) ** (10 * ROUNDS), abs=0.03)
    assert fill_shares(np.empty((0, 128), np.uint32)) == (0.0, 0.0)


def test_slot_sources_are_elements_that_set_slots() -> None:
    spec = Spec(k=16)
    values = np.random.default_rng(1).integers(0, WORD, 50, dtype=np.uint64)
    whole = signature(values, spec)
    for slot, source in enumerate(slot_sources(values, np.arange(16), scheme_of(spec), 16)):
        assert signature(values[source : source + 1], spec)[slot] == whole[slot]


def test_multipliers_of_different_seeds_differ() -> None:
    assert not set(splitmix64(1, 100).tolist()) & set(splitmix64(2, 100).tolist())
