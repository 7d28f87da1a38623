"""Kernels of the server: the structure of JSON before it is parsed."""

from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import kernel

QUOTE, BACKSLASH, COMMA, COLON = np.uint8(0x22), np.uint8(0x5C), np.uint8(0x2C), np.uint8(0x3A)
OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE = np.uint8(0x5B), np.uint8(0x5D), np.uint8(0x7B), np.uint8(0x7D)


class JsonShape(NamedTuple):
    """The structure of a JSON text, outside of its strings.

    Attributes:
        values: Commas and opening brackets and braces; at least as many as the text has values, less one.
        members: Colons, one for each member of an object.
        depth: Brackets and braces that are open at once, at most.
    """

    values: int
    members: int
    depth: int


@kernel
def json_shape(text: np.ndarray) -> JsonShape:
    """Counts values, members and depth of a JSON text (uint8, one dimension) in one pass; says nothing of its validity."""
    values = 0
    members = 0
    depth = 0
    deepest = 0
    in_string = False
    at, size = np.uint64(0), np.uint64(text.size)
    while at < size:
        byte = text[at]
        if in_string:
            if byte == BACKSLASH:
                at += np.uint64(1)
            elif byte == QUOTE:
                in_string = False
        elif byte == QUOTE:
            in_string = True
        elif byte == COMMA:
            values += 1
        elif byte == COLON:
            members += 1
        elif byte in (OPEN_BRACKET, OPEN_BRACE):
            values += 1
            depth += 1
            deepest = max(deepest, depth)
        elif byte in (CLOSE_BRACKET, CLOSE_BRACE):
            depth -= 1
        at += np.uint64(1)
    return JsonShape(values, members, deepest)
