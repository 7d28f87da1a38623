"""A kernel that measures the structure of JSON before it is parsed."""

from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import kernel

QUOTE = np.uint8(0x22)
BACKSLASH = np.uint8(0x5C)
COMMA = np.uint8(0x2C)
COLON = np.uint8(0x3A)
OPEN_BRACKET = np.uint8(0x5B)
CLOSE_BRACKET = np.uint8(0x5D)
OPEN_BRACE = np.uint8(0x7B)
CLOSE_BRACE = np.uint8(0x7D)


class JsonShape(NamedTuple):
    """The structure of a JSON text. Characters inside strings are not counted.

    Attributes:
        values: Number of commas, opening brackets and opening braces. A text has at most one value
            more than that.
        members: Number of colons, one for each member of an object.
        depth: Maximum nesting depth of brackets and braces.
    """

    values: int
    members: int
    depth: int


@kernel
def json_shape(text: np.ndarray) -> JsonShape:
    """Counts the values, members and nesting depth of a JSON text in one pass.

    The text need not be valid.

    Args:
        text: UTF-8 bytes (uint8, shape (size,)).
    """
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
