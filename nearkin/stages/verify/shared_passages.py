"""The longest passages that two texts share, by their bytes in both."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.settings.spec import Spec
from nearkin.stages.shingle.shingler import LocatedTokens, Shingler, text_buffers
from nearkin.stages.verify.kernels import locate_longest_run

LEAST_TOKENS = 8
"""The number of words of the shortest passage that is looked for."""


class SharedPassage(NamedTuple):
    """A run of words that two texts share."""

    tokens: int
    """The number of words."""
    first: str
    """The passage as it is written in the first text."""
    second: str
    """The passage as it is written in the second text."""


def find_shared_passages(a: str, b: str, most: int) -> list[SharedPassage]:
    """Returns the longest passages that two texts share, the longest first.

    Each word of the first text is in one passage at most. Words are compared without case and
    punctuation.

    Examples:
        >>> a = "He said: the cat sat on the mat in the hall."
        >>> b = "The Cat sat on the mat (in the hall), and slept"
        >>> find_shared_passages(a, b, 1)[0].second
        'The Cat sat on the mat (in the hall'
    """
    first, second = _locate_words(a), _locate_words(b)
    hashes = first.hashes.copy()
    encoded = (a.encode(), b.encode())
    passages: list[SharedPassage] = []
    while len(passages) < most:
        tokens, start, other_start = locate_longest_run(hashes, second.hashes)
        if tokens < LEAST_TOKENS:
            break
        passages.append(
            SharedPassage(
                tokens=int(tokens),
                first=_quote(encoded[0], first, start, tokens),
                second=_quote(encoded[1], second, other_start, tokens),
            )
        )
        # No word hash is as small as these numbers, which are all different.
        hashes[start : start + tokens] = np.arange(start, start + tokens, dtype=np.uint64)
    return passages


def _locate_words(text: str) -> LocatedTokens:
    data, offsets = text_buffers(pa.array([text], pa.large_string()))
    return Shingler(Spec(n=1)).locate_tokens(data, offsets)


def _quote(text: bytes, words: LocatedTokens, first: int, count: int) -> str:
    return text[int(words.starts[first]) : int(words.ends[first + count - 1])].decode()
