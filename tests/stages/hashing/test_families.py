"""Tests of every hash family against reference packages and published vectors."""

import random

import mmh3
import numpy as np
import pytest
import xxhash

from nearkin.errors import KeyRequiredError, UsageError
from nearkin.settings.keys import HashKey
from nearkin.stages.hashing.families import hash_values, key_of, require_hashes

SEEDS = [0, 1, 0x9E3779B97F4A7C15, 2**64 - 1]
SIP_KEY = HashKey(bytes(range(16)))
SIP_VECTORS = [
    0x726FDB47DD0E0E31,
    0x74F839C593DC67FD,
    0x0D6C8009D9A94F5A,
    0x85676696D7FB7E2D,
    0xCF2794E0277187B7,
]
"""The hashes of b'', 00, 00 01, … with the key 00 … 0f (vectors_sip64 of the reference)."""


def values_of_every_length(seed: int) -> list[bytes]:
    draw = random.Random(seed)
    return [draw.randbytes(size) for size in range(301) for _ in range(3)]


def long_values(seed: int) -> list[bytes]:
    draw = random.Random(seed)
    sizes = [1023, 1024, 1025, 1088, 2048, 5000, *(draw.randrange(300, 100_000) for _ in range(30))]
    return [draw.randbytes(size) for size in sizes]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", [values_of_every_length, long_values])
def test_xxh3_matches_reference(seed: int, make) -> None:
    values = make(seed)
    assert hash_values(values, key_of("xxh3", seed)).tolist() == [
        xxhash.xxh3_64_intdigest(v, seed) for v in values
    ]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
@pytest.mark.parametrize("make", [values_of_every_length, long_values])
def test_murmur3_matches_reference(seed: int, make) -> None:
    values = make(seed)
    want = [mmh3.hash64(value, seed, x64arch=True, signed=False)[0] for value in values]
    assert hash_values(values, key_of("murmur3", seed)).tolist() == want


def fnv1a(value: bytes) -> int:
    h = 0xCBF29CE484222325
    for byte in value:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def test_fnv1a_matches_reference() -> None:
    published = {b"": 0xCBF29CE484222325, b"a": 0xAF63DC4C8601EC8C, b"foobar": 0x85944171F73967E8}
    assert hash_values(list(published), key_of("fnv1a", 0)).tolist() == list(published.values())
    values = values_of_every_length(3)
    assert hash_values(values, key_of("fnv1a", 0)).tolist() == [fnv1a(value) for value in values]


def rotated(x: int, bits: int) -> int:
    return (x << bits | x >> 64 - bits) % 2**64


def siphash(value: bytes, low: int, high: int) -> int:
    a = low ^ 0x736F6D6570736575
    b = high ^ 0x646F72616E646F6D
    c = low ^ 0x6C7967656E657261
    d = high ^ 0x7465646279746573
    padded = value + bytes(-(len(value) + 1) % 8) + bytes([len(value) % 256])
    words = [int.from_bytes(padded[at : at + 8], "little") for at in range(0, len(padded), 8)]
    for word in [*words, None]:
        if word is None:
            c ^= 0xFF
        else:
            d ^= word
        for _ in range(4 if word is None else 2):
            a, c = (a + b) % 2**64, (c + d) % 2**64
            b = rotated(b, 13) ^ a
            d = rotated(d, 16) ^ c
            a = rotated(a, 32)
            c, a = (c + b) % 2**64, (a + d) % 2**64
            b = rotated(b, 17) ^ c
            d = rotated(d, 21) ^ a
            c = rotated(c, 32)
        a ^= word or 0
    return a ^ b ^ c ^ d


def test_siphash_matches_reference() -> None:
    inputs = [bytes(range(size)) for size in range(len(SIP_VECTORS))]
    assert hash_values(inputs, key_of("siphash", 0, SIP_KEY)).tolist() == SIP_VECTORS
    secret = HashKey(bytes(range(100, 116)))
    values = values_of_every_length(4)
    assert hash_values(values, key_of("siphash", 0, secret)).tolist() == [
        siphash(v, *secret.words()) for v in values
    ]


def test_unknown_family_and_missing_key_are_rejected() -> None:
    with pytest.raises(UsageError, match="md5"):
        key_of("md5", 0)
    with pytest.raises(KeyRequiredError, match="with `key`"):
        key_of("siphash", 0)


@pytest.mark.parametrize("family", ["murmur3", "fnv1a"])
def test_seeds_change_hashes(family: str) -> None:
    one, other = (hash_values([b"near"], key_of(family, seed)) for seed in (0, 1))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    "hashes", [np.array([0.5]), np.array([-1]), np.zeros((1, 2), np.uint64), np.array([True])]
)
def test_hashes_of_a_caller_are_one_row_of_whole_numbers(hashes: np.ndarray) -> None:
    with pytest.raises(UsageError, match="one row of whole numbers"):
        require_hashes(hashes)
    assert require_hashes(np.array([])).tolist() == []
    assert require_hashes(np.array([2**64 - 1, 0], ">u8")).tolist() == [2**64 - 1, 0]
