"""Tests of SimHash against a computation of each bit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch.minhash import splitmix64
from nearkin.stages.sketch.simhash import Signs
from tests.stages.sketch.frequencies import make_frequencies

hashes = st.lists(st.integers(0, 2**64 - 1), max_size=40)


def mix_hash(h: int, stream: int) -> int:
    """Returns 64 bits that follow from a hash and the number of a stream (splitmix64)."""
    x = (h + stream) % 2**64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def reference_signature(values: list[int], weights: list[int], stream: int) -> int:
    """Returns the SimHash of weighted hashes, computed bit by bit."""
    words = np.array([mix_hash(h, stream) for h in values], np.uint64)
    return signature_of(words, weights, 64)


def signature_of(words: np.ndarray, weights: list[int], bits: int) -> int:
    """Returns the number whose bit j is 1 if words with bit j have more than half the weight."""
    signature = 0
    for j in range(bits):
        total = 0
        for word, weight in zip(words.tolist(), weights, strict=True):
            total += weight if word >> j & 1 else -weight
        signature |= (total > 0) << j
    return signature


def test_worked_example_of_the_explanation() -> None:
    cat = 0b1010
    sat = 0b1100
    mat = 0b0110
    rat = 0b1001
    a = nk.signatures.simhash_of([cat, sat, mat], [3, 2, 2], bits=4)
    b = nk.signatures.simhash_of([cat, sat, rat], [3, 2, 2], bits=4)
    assert a == ((3, 1, 3, -7), "1110")
    assert b == ((7, -3, -1, -3), "1000")
    assert a.distance(b) == b.distance(a) == 2
    assert a.value == 0b1110


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 10**9)), max_size=30))
def test_worked_steps_agree_with_the_measure(features: list[tuple[int, int]]) -> None:
    values = [value for value, _ in features]
    weights = [weight for _, weight in features]
    mixed = [mix_hash(value, splitmix64(1, 1).tolist()[0]) for value in values]
    out = np.empty((1, 1), np.uint64)
    offsets = np.array([0, len(values)])
    Signs(64, 1).weighted(np.array(values, np.uint64), np.array(weights, np.int64), offsets, out)
    exact = nk.signatures.simhash_of(mixed, weights)
    assert exact.value == out[0, 0]
    assert nk.signatures.simhash_of(mixed, [float(weight) for weight in weights]) == exact


def test_sums_do_not_depend_on_the_order_of_weights() -> None:
    weights = np.array([1e16, 1.0, 1.0, 0.5])
    hashes = np.array([0, 1, 1, 2], np.uint64)
    forwards = nk.signatures.simhash_of(hashes, weights, bits=3)
    assert nk.signatures.simhash_of(hashes[::-1], weights[::-1], bits=3) == forwards
    assert nk.signatures.simhash_of([], [], bits=2) == ((0, 0), "00")


@pytest.mark.parametrize(
    ("hashes", "weights", "bits", "message"),
    [
        ([1], [1], 0, "bits=0 is out of range; it must be from 1 to 64"),
        ([1], [1], 65, "bits=65 is out of range"),
        ([1, 2], [1], 4, "there are 2 hashes and 1 weights"),
        ([1], [-1], 4, "the weight -1 is out of range"),
        ([1], [math.inf], 4, "the weight inf is out of range"),
        ([1], [math.nan], 4, "weight"),
        ([-1], [1], 4, "the hash -1 is out of range"),
        ([2**64], [1], 4, "the hash 18446744073709551616 is out of range"),
        ([0.5], [1], 4, "give a list of whole numbers"),
    ],
)
def test_invalid_features_are_refused(
    hashes: list[int], weights: list[float], bits: int, message: str
) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.signatures.simhash_of(hashes, weights, bits)


def test_signatures_of_different_lengths_have_no_distance() -> None:
    with pytest.raises(nk.UsageError, match="signatures of 4 and 8 bits have no distance"):
        nk.signatures.simhash_of([1], [1], 4).distance(nk.signatures.simhash_of([1], [1], 8))


@given(hashes, st.sampled_from([64, 128]), st.integers(0, 2**64 - 1))
def test_signs_weight_terms_by_count(values: list[int], bits: int, seed: int) -> None:
    scheme = Signs(bits, seed)
    out = np.empty((1, bits // 64), np.uint64)
    scheme.sketch(Shingles(np.array(values, np.uint64), np.array([0, len(values)])), out)
    assert out[0].tolist() == [
        reference_signature(values, [1] * len(values), s)
        for s in splitmix64(seed, bits // 64).tolist()
    ]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 10**9)), max_size=30))
def test_weighted_signs_match_sums(features: list[tuple[int, int]]) -> None:
    values, weights = [h for h, _ in features], [w for _, w in features]
    out = np.empty((1, 1), np.uint64)
    offsets = np.array([0, len(values)])
    Signs(64, 1).weighted(np.array(values, np.uint64), np.array(weights, np.int64), offsets, out)
    assert out[0, 0] == reference_signature(values, weights, splitmix64(1, 1).tolist()[0])
    Signs(64, 1).weighted(np.array(values, np.uint64), np.array(weights, np.float64), offsets, out)
    assert out[0, 0] == reference_signature(values, weights, splitmix64(1, 1).tolist()[0])


def test_tie_gives_zero_bit() -> None:
    stream = splitmix64(1, 1).tolist()[0]
    a, b = 1, 2
    out = np.empty((1, 1), np.uint64)
    Signs(64, 1).sketch(Shingles(np.array([a, b], np.uint64), np.array([0, 2])), out)
    assert out[0, 0] == mix_hash(a, stream) & mix_hash(b, stream)


def test_tfidf_weights_match_formula() -> None:
    counted = make_frequencies()
    table = counted.table
    assert np.count_nonzero(table.keys) == len(counted.hashes)
    queried = np.concatenate([counted.hashes[::3], np.array([0, 12345], np.uint64)])
    out = np.empty((1, 1), np.uint64)
    Signs(64, 1, table).sketch(Shingles(queried, np.array([0, len(queried)])), out)
    stream = splitmix64(1, 1).tolist()[0]
    assert out[0, 0] == reference_signature(
        queried.tolist(), counted.weights_of(queried).tolist(), stream
    )
    assert (counted.weights_of(counted.hashes) <= counted.rare).all()
