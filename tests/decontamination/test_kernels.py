"""Kernels of decontamination."""

import numpy as np

from nearkin.decontamination.kernels import number_words


def test_numbers_of_words_are_their_positions() -> None:
    rng = np.random.default_rng(5)
    # Hashes of equal first bits have one first row. The hash 0 is like a row of zeros.
    close = np.arange(300, dtype=np.uint64)
    spread = rng.integers(0, 1 << 63, 300).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    words = np.unique(np.concatenate([close, spread, [np.uint64((1 << 64) - 1)]]))
    tokens = rng.choice(words, 5000)
    np.testing.assert_array_equal(number_words(tokens, words), np.searchsorted(words, tokens))
    assert len(number_words(words[:0], words[:0])) == 0
