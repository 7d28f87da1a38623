"""Removal of comments from source code, whatever its language is.

The language of a document is not known, and the same character begins a comment in one language and
means something else in another one. So the rules look at what stands around a delimiter, and prefer
to keep a comment rather than to remove code. `docs/reference/wire-format.md` lists the rules.
"""

from typing import NamedTuple

import numpy as np

from nearkin.stages.shingle.comments import kernels


class StrippedTexts(NamedTuple):
    """Texts without comments."""

    data: np.ndarray
    """The UTF-8 bytes, uint8."""
    offsets: np.ndarray
    """The first byte of each text, and the end, int64 (n + 1,)."""


def strip_comments(data: np.ndarray, offsets: np.ndarray) -> StrippedTexts:
    r"""Returns texts of UTF-8 bytes and offsets without comments.

    Examples:
        >>> code = b'total = 1  # the sum\nurl = "http://a.b/#c"'
        >>> stripped = strip_comments(np.frombuffer(code, np.uint8), np.array([0, len(code)]))
        >>> stripped.data.tobytes().decode().split("\n")
        ['total = 1  ', 'url = "http://a.b/#c"']
    """
    out = np.empty(int(offsets[-1] - offsets[0]), np.uint8)
    ends = np.zeros(len(offsets), np.int64)
    kernels.strip_all(data, offsets, out, ends)
    stripped = out[: ends[-1]]
    # Kernels are compiled for read-only arrays only.
    stripped.flags.writeable = False
    ends.flags.writeable = False
    return StrippedTexts(stripped, ends)
