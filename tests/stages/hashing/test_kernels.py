"""Tests of the bit operations and of the hashes of many short tokens."""

import numpy as np
import pytest
import xxhash
from numba import njit

from nearkin.stages.hashing import kernels
from nearkin.stages.hashing.families import key_of


@njit
def compare_with_limit(data: np.ndarray, at: np.uint64, least: np.uint8) -> np.uint64:
    return kernels.bytes_at_least(kernels.borrow(data), at, least)


@pytest.mark.parametrize("least", [0, 1, 0x80, 0xC0, 0xFF])
def test_bytes_are_compared_with_limit(least: int) -> None:
    data = np.random.default_rng(least).integers(0, 256, 80, np.uint8)
    data[3:6] = (0, least, 255)
    for at in (0, 3, 16):
        bits = int(compare_with_limit(data, np.uint64(at), np.uint8(least)))
        assert [bits >> i & 1 for i in range(64)] == (data[at : at + 64] >= least).tolist()


@pytest.mark.parametrize("tokens", [0, 1, 7, 8, 9, 64, 333])
@pytest.mark.parametrize("longest", [3, 4, 40])
def test_tokens_without_spaces_match_xxhash(tokens: int, longest: int) -> None:
    rng = np.random.default_rng(tokens + longest)
    sizes = np.where(rng.random(tokens) < 0.05, longest, rng.integers(1, 4, tokens))
    ends = np.cumsum(sizes).astype(np.uint32)
    edges = np.stack([ends - sizes.astype(np.uint32), ends], axis=1).reshape(-1)
    text = rng.integers(0, 256, 32 + int(sizes.sum()) + 32, np.uint8)
    out = np.empty(tokens, np.uint64)
    kernels.xxh3_tokens(text[32:], edges, np.uint64(tokens), key_of("xxh3", 0), out, np.uint64(0))
    data = text[32:].tobytes()
    pairs = edges.reshape(-1, 2).tolist()
    assert out.tolist() == [xxhash.xxh3_64_intdigest(data[a:b]) for a, b in pairs]


def test_xxh64_of_overlapping_slices_matches_xxhash() -> None:
    data = np.random.default_rng(1).integers(0, 256, 120, np.uint8)
    ends = np.arange(len(data) + 1)
    starts = ends // 3 % 7 * (ends > 7)
    out = np.empty(len(ends), np.uint64)
    kernels.xxh64_each(data, starts, ends, np.uint64(42), out)
    assert out.tolist() == [
        xxhash.xxh64_intdigest(data[start:end].tobytes(), 42)
        for start, end in zip(starts, ends, strict=True)
    ]
