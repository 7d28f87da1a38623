"""Stemming: a token counts as its Snowball stem. The package's version is pinned, for a stem is part of a signature."""

import numpy as np

from nearkin.errors import MissingExtraError, UsageError
from nearkin.hashing import kernels as hashing
from nearkin.hashing.families import Key, hash_values


class Stems:
    """Hashes of tokens' stems; each distinct token is stemmed once.

    Args:
        language: One that Snowball has, as `english`.
        key: Of the base hash.
    """

    def __init__(self, language: str, key: Key) -> None:
        self._stemmer = stemmer(language)
        self._key = key
        self._known: dict[int, int] = {}

    def hashes(self, text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """uint64 (tokens,) for the tokens text[offsets[t] : offsets[t + 1]]."""
        own = np.empty(len(offsets) - 1, np.uint64)
        hashing.hash_each(text, offsets, self._key, own)
        distinct, first, where = np.unique(own, return_index=True, return_inverse=True)
        for h, t in zip(distinct.tolist(), first.tolist(), strict=True):
            if h not in self._known:
                token = text[offsets[t] : offsets[t + 1]].tobytes().decode()
                self._known[h] = int(hash_values([self._stemmer.stemWord(token).encode()], self._key)[0])
        return np.array([self._known[h] for h in distinct.tolist()], np.uint64)[where]


def stemmer(language: str):  # type: ignore[no-untyped-def]
    """The Snowball stemmer of a language."""
    try:
        import snowballstemmer
    except ImportError as error:
        raise MissingExtraError(f"stem={language!r} needs the Snowball stemmers: pip install 'nearkin[stem]'") from error
    if language not in snowballstemmer.algorithms():
        raise UsageError(f"stem={language!r} is not one of {', '.join(sorted(snowballstemmer.algorithms()))}")
    return snowballstemmer.stemmer(language)
