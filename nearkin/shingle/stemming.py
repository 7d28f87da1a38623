"""Stemming: the replacement of tokens by their Snowball stems.

The version of the package is pinned, because signatures depend on the stems.
"""

import numpy as np

from nearkin.errors import MissingExtraError, UsageError
from nearkin.hashing import kernels as hashing
from nearkin.hashing.families import Key, hash_values


class Stems:
    """A function from tokens to the hashes of their stems. Each distinct token is stemmed once.

    Args:
        language: Language of Snowball, for example `english`.
        key: Key of the base hash.

    Raises:
        MissingExtraError: If the package snowballstemmer is not installed.
        UsageError: If Snowball does not have the language.
    """

    def __init__(self, language: str, key: Key) -> None:
        self._stemmer = stemmer(language)
        self._key = key
        self._known: dict[int, int] = {}

    def hashes(self, text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Returns the hashes of the stems of tokens, uint64 (tokens,).

        Args:
            text: UTF-8 bytes of the tokens, uint8.
            offsets: First byte of each token, and the end, int64 (tokens + 1,).
        """
        own = np.empty(len(offsets) - 1, np.uint64)
        hashing.hash_each(text, offsets, self._key, own)
        distinct, first, where = np.unique(own, return_index=True, return_inverse=True)
        for h, t in zip(distinct.tolist(), first.tolist(), strict=True):
            if h not in self._known:
                token = text[offsets[t] : offsets[t + 1]].tobytes().decode()
                self._known[h] = int(
                    hash_values([self._stemmer.stemWord(token).encode()], self._key)[0]
                )
        return np.array([self._known[h] for h in distinct.tolist()], np.uint64)[where]


def stemmer(language: str):  # type: ignore[no-untyped-def]
    """Returns the Snowball stemmer of a language.

    Raises:
        MissingExtraError: If the package snowballstemmer is not installed.
        UsageError: If Snowball does not have the language.
    """
    try:
        import snowballstemmer
    except ImportError as error:
        raise MissingExtraError.for_extra(
            f"stem={language!r} requires snowballstemmer", "stem"
        ) from error
    if language not in snowballstemmer.algorithms():
        raise UsageError(
            f"stem={language!r} is not one of {', '.join(sorted(snowballstemmer.algorithms()))}"
        )
    return snowballstemmer.stemmer(language)
