"""Tests of the kernels of formats against Arrow."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus.formats.kernels import decompress_lz4, decompress_snappy


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("codec", "decompress"), [("snappy", decompress_snappy), ("lz4_raw", decompress_lz4)]
)
def test_decompression_of_blocks_matches_arrow(
    codec: str, decompress: Callable[[np.ndarray, np.ndarray], bool], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, 256, rng.integers(1, 300), np.uint8).tobytes() for _ in range(20)]
    data = b"".join(words[at] for at in rng.integers(0, 20, rng.integers(0, 3000)))
    stored = np.frombuffer(pa.Codec(codec).compress(data), np.uint8)
    unfolded = np.zeros(len(data), np.uint8)
    assert decompress(stored, unfolded)
    assert unfolded.tobytes() == data
    assert not decompress(stored, np.zeros(len(data) + 1, np.uint8))
    for _ in range(50):
        damaged = stored.copy()
        damaged[rng.integers(0, len(damaged))] ^= np.uint8(rng.integers(1, 256))
        decompress(damaged[: rng.integers(0, len(damaged) + 1)], np.zeros(len(data), np.uint8))
