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
COUNTED_DEPTH = np.uint64(32)
"""Nesting depth below which the members of single objects are counted. Bodies that are nested this
deeply are rejected for their depth."""


class JsonShape(NamedTuple):
    """The structure of a JSON text. Characters inside strings are not counted.

    Attributes:
        values: Number of commas, opening brackets and opening braces. A text has at most one value
            more than that.
        members: Number of colons, one for each member of an object.
        widest: Largest number of members of one object.
        depth: Maximum nesting depth of brackets and braces.
    """

    values: int
    members: int
    widest: int
    depth: int


@kernel
def json_shape(text: np.ndarray) -> JsonShape:
    """Measures the values, members and nesting depth of a JSON text in one pass.

    The text need not be valid.

    Args:
        text: UTF-8 bytes (uint8, shape (size,)).
    """
    values = 0
    members = 0
    depth = 0
    deepest = 0
    widest = 0
    open_members = np.zeros(COUNTED_DEPTH, np.int64)
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
            level = np.uint64(depth)
            if level < COUNTED_DEPTH:
                open_members[level] += 1
                widest = max(widest, open_members[level])
        elif byte in (OPEN_BRACKET, OPEN_BRACE):
            values += 1
            depth += 1
            deepest = max(deepest, depth)
            level = np.uint64(depth)
            if level < COUNTED_DEPTH:
                open_members[level] = 0
        elif byte in (CLOSE_BRACKET, CLOSE_BRACE):
            depth -= 1
        at += np.uint64(1)
    return JsonShape(values, members, widest, deepest)
