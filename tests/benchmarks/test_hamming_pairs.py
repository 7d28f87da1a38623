from itertools import combinations

import numpy as np
import pytest

from benchmarks.hamming_pairs import all_pairs
from nearkin.errors import UsageError
from nearkin.stages.lsh.sign_bands import block_banding, block_bits


def clustered(n: int, words: int, seed: int, flips: int) -> np.ndarray:
    """Returns random signatures.

    Each of the second half is a copy with up to `flips` flipped bits.
    """
    rng = np.random.default_rng(seed)
    out = rng.integers(0, 2**63, (n, words), np.uint64) << np.uint64(1)
    for i in range(n // 2, n):
        out[i] = out[rng.integers(n // 2)]
        for bit in rng.choice(64 * words, rng.integers(flips + 1), replace=False):
            out[i, bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    return out


def brute_force(signatures: np.ndarray, distance: int) -> list[tuple[int, int, int]]:
    values = [int.from_bytes(row.tobytes(), "little") for row in signatures]
    pairs = (
        (a, b, (values[a] ^ values[b]).bit_count()) for a, b in combinations(range(len(values)), 2)
    )
    return [pair for pair in pairs if pair[2] <= distance]


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize(
    ("distance", "blocks"), [(0, None), (1, 2), (3, 4), (3, 5), (3, 7), (5, None)]
)
@pytest.mark.parametrize("workers", [1, 2])
def test_all_pairs_within_a_distance_are_found(
    words: int, distance: int, blocks: int | None, workers: int
) -> None:
    signatures = clustered(300, words, 64 * distance + words, distance + 2)
    close_pairs = all_pairs(signatures, distance, blocks, workers)
    assert list(zip(*(x.tolist() for x in close_pairs), strict=True)) == brute_force(
        signatures, distance
    )


def test_all_pairs_of_equal_signatures_are_found() -> None:
    assert len(all_pairs(np.zeros(50, np.uint64), 3).a) == 50 * 49 // 2


def test_planted_pairs_among_many_signatures_are_found(full: bool) -> None:
    n = 2_000_000 if full else 200_000
    signatures = clustered(n, 1, 5, 0)[:, 0]
    signatures[n // 2 :] = np.random.default_rng(9).integers(0, 2**63, n - n // 2, np.uint64)
    planted = np.arange(0, n // 2, 1000)
    for i in planted.tolist():
        signatures[n // 2 + i] = signatures[i] ^ np.uint64(0b1011 << i % 50)
    close_pairs = all_pairs(signatures, 3, workers=2)
    assert set(zip(planted.tolist(), (planted + n // 2).tolist(), strict=True)) <= set(
        zip(close_pairs.a.tolist(), close_pairs.b.tolist(), strict=True)
    )
    assert (close_pairs.distance <= 3).all()


def test_errors_name_invalid_value() -> None:
    with pytest.raises(UsageError, match="invalid signatures: float64"):
        all_pairs(np.zeros(3), 3)
    with pytest.raises(UsageError, match="it must be from 0 to 31"):
        block_banding(64, 40, 100)
    with pytest.raises(UsageError, match="more blocks than the distance"):
        block_bits(64, 3, 3)
    with pytest.raises(UsageError, match="more than 256 tables"):
        block_banding(4096, 300, 100)
