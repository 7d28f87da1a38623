"""Tests of the kernels of formats against Arrow."""

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus.formats.kernels import decompress_snappy


@pytest.mark.parametrize("seed", range(20))
def test_snappy_decompression_matches_arrow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, 256, rng.integers(1, 300), np.uint8).tobytes() for _ in range(20)]
    data = b"".join(words[at] for at in rng.integers(0, 20, rng.integers(0, 3000)))
    stored = np.frombuffer(pa.Codec("snappy").compress(data), np.uint8)
    unfolded = np.zeros(len(data), np.uint8)
    assert decompress_snappy(stored, unfolded)
    assert unfolded.tobytes() == data
    assert not decompress_snappy(stored, np.zeros(len(data) + 1, np.uint8))
    for _ in range(50):
        damaged = stored.copy()
        damaged[rng.integers(0, len(damaged))] ^= np.uint8(rng.integers(1, 256))
        decompress_snappy(
            damaged[: rng.integers(0, len(damaged) + 1)], np.zeros(len(data), np.uint8)
        )
