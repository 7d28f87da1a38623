"""Kernels of decontamination."""

import numpy as np

from nearkin.decontamination.kernels import count_items, number_words


def test_numbers_of_words_are_their_positions() -> None:
    rng = np.random.default_rng(5)
    # Hashes of equal first bits have one first row. The hash 0 is like a row of zeros.
    close = np.arange(300, dtype=np.uint64)
    spread = rng.integers(0, 1 << 63, 300).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    words = np.unique(np.concatenate([close, spread, [np.uint64((1 << 64) - 1)]]))
    tokens = rng.choice(words, 5000)
    np.testing.assert_array_equal(number_words(tokens, words), np.searchsorted(words, tokens))
    assert len(number_words(words[:0], words[:0])) == 0


def test_items_with_a_word_are_counted_once_each() -> None:
    rng = np.random.default_rng(2)
    words = rng.integers(0, 9, 400)
    items = np.sort(rng.integers(0, 60, 400))
    counts = np.zeros(10, np.int64)
    count_items(words, items, np.full(10, -1, np.int64), counts)
    assert counts.tolist() == [len(set(items[words == word].tolist())) for word in range(10)]
