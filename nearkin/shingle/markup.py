"""Removal of markup: tags and invisible parts of pages are removed, and entities are decoded."""

import html
import re

import numpy as np
import pyarrow as pa

INVISIBLE = re.compile(r"<!--.*?-->|<(script|style)\b[^>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
TAG = re.compile(r"</?[A-Za-z][^<>]*>|<![^<>]*>|<\?[^<>]*\?>")


def without_markup(text: str) -> str:
    """Replaces comments, scripts, styles and tags by spaces, and decodes entities.

    Args:
        text: Text with markup.

    Examples:
        >>> without_markup("<p>fish &amp; <b>chips</b> 1 < 2</p>").split()
        ['fish', '&', 'chips', '1', '<', '2']
    """
    return html.unescape(TAG.sub(" ", INVISIBLE.sub(" ", text)))


def strip_markup(data: np.ndarray, offsets: np.ndarray) -> pa.Array:
    """Returns texts without markup, large_string (n,).

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (n + 1,).
    """
    bounds = zip(offsets.tolist(), offsets[1:].tolist(), strict=False)
    texts = (without_markup(data[start:end].tobytes().decode()) for start, end in bounds)
    # html.unescape can produce surrogates (&#xD800;), which are not valid in UTF-8.
    return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())
