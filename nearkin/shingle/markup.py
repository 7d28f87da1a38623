"""Markup stripped from texts: what a reader of the page would not see is gone, entities are characters."""

import html
import re

import numpy as np
import pyarrow as pa

INVISIBLE = re.compile(r"<!--.*?-->|<(script|style)\b[^>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
TAG = re.compile(r"</?[A-Za-z][^<>]*>|<![^<>]*>|<\?[^<>]*\?>")


def without_markup(text: str) -> str:
    """Comments, scripts, styles and tags as spaces; entities decoded.

    Examples:
        >>> without_markup("<p>fish &amp; <b>chips</b> 1 < 2</p>").split()
        ['fish', '&', 'chips', '1', '<', '2']
    """
    return html.unescape(TAG.sub(" ", INVISIBLE.sub(" ", text)))


def strip_markup(data: np.ndarray, offsets: np.ndarray) -> pa.Array:
    """The texts data[offsets[d] : offsets[d + 1]] without markup, large_string."""
    bounds = zip(offsets.tolist(), offsets[1:].tolist(), strict=False)
    texts = (without_markup(data[start:end].tobytes().decode()) for start, end in bounds)
    # html.unescape may produce surrogates (&#xD800;), which no UTF-8 holds.
    return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())
