"""A text with many variants below the threshold, which fill its buckets, and with near-copies."""

import numpy as np
import pyarrow as pa

WORDS = 300
"""The number of words of a text."""


def variants_of_a_text(
    *, variants: int, copies: int, changed: int = 10, changed_of_copies: int = 3, seed: int = 1
) -> pa.Table:
    """Returns variants of a text, of which none is a near-duplicate of another, and near-copies.

    The near-copies come last in the keep order of a run without options. Their ids begin with z.

    Args:
        variants: Number of variants.
        copies: Number of near-copies.
        changed: Number of words in which a variant differs from the text.
        changed_of_copies: Number of words in which a near-copy differs from the text.
        seed: Seed of the words.
    """
    random = np.random.default_rng(seed)
    text = [f"w{word:09}" for word in random.integers(50_000, size=WORDS)]

    def change(words: int) -> str:
        changed_text = list(text)
        for place in random.choice(WORDS, size=words, replace=False):
            changed_text[place] = f"x{random.integers(10**9):09}"
        return " ".join(changed_text)

    texts = [change(changed) for _ in range(variants)]
    texts += [change(changed_of_copies) for _ in range(copies)]
    ids = [f"v{i:05}" for i in range(variants)] + [f"z{i:05}" for i in range(copies)]
    return pa.table({"id": ids, "text": texts})
