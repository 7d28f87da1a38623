"""The kernel that removes comments from source code."""

import numpy as np

from nearkin.runtime.jit import inlined, kernel

U8 = np.uint8
NEWLINE, SPACE = U8(10), U8(32)
QUOTE, APOSTROPHE = U8(ord('"')), U8(ord("'"))
BACKTICK, BACKSLASH = U8(ord("`")), U8(ord("\\"))
SLASH, STAR = U8(ord("/")), U8(ord("*"))
HASH, DASH = U8(ord("#")), U8(ord("-"))
LESS, GREATER = U8(ord("<")), U8(ord(">"))
BANG, BRACKET = U8(ord("!")), U8(ord("["))
SEMICOLON = U8(ord(";"))
TRIPLE_QUOTES = 128
BLOCKS, TAGS = 256, 257
"""Where the kernel notes that a delimiter is not closed. A single quote is noted at its own byte,
and three quotes at 128 above it."""


def _mask_of(characters: str) -> np.ndarray:
    """Returns which bytes are one of some ASCII characters, bool (256,)."""
    mask = np.zeros(256, bool)
    mask[list(characters.encode())] = True
    return mask


LETTERS = "abcdefghijklmnopqrstuvwxyz"
BLANKS = _mask_of(" \t\r\f\v")
BEFORE_LINE_COMMENT = _mask_of(" \t\r\f\v\n;{}),]")
"""The characters after which `//` begins a comment. `http://` and `url(//` are not among them."""
BEFORE_BLOCK_COMMENT = _mask_of(" \t\r\f\v\n;{}),]([=")
"""The characters after which `/*` begins a comment. Globs such as `src/*` are not among them."""
NAME_CHARACTERS = _mask_of(LETTERS + LETTERS.upper() + "0123456789_")
NOT_AFTER_HASH = _mask_of("[({<$\"'")
"""The characters before which `#` does not begin a comment: attributes, and interpolations."""
SPECIAL = _mask_of("\n\"'`/#-<")
"""The characters with which a rule begins, and the line feed."""
STRING_PREFIXES = _mask_of("rRuUbB")


@kernel
def strip_all(data: np.ndarray, offsets: np.ndarray, out: np.ndarray, ends: np.ndarray) -> None:
    """Writes all texts without comments into out.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (n + 1,).
        out: Receives the bytes, uint8.
        ends: Receives the first byte of each text in out, and the end, int64 (n + 1,).
    """
    unclosed = np.zeros(258, np.bool_)
    count: int = np.int64(0)
    for d in range(offsets.shape[0] - 1):
        ends[d] = count
        count = strip_text(data, offsets[d], offsets[d + 1], unclosed, out, count)
    ends[offsets.shape[0] - 1] = count


@kernel
def strip_text(
    data: np.ndarray, start: int, end: int, unclosed: np.ndarray, out: np.ndarray, count: int
) -> int:
    """Writes one text without comments into out, and returns the number of bytes in out.

    A delimiter that is not closed is searched once: `unclosed` notes it for the rest of the text,
    or for the rest of the line. So the time does not grow with the square of the text.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: First byte of the text.
        end: End of the text.
        unclosed: Buffer, bool (258,).
        out: Receives the bytes, uint8.
        count: Number of bytes in out.
    """
    unclosed[:] = False
    has_slashes = ends_statements(data, start, end)
    begins_line = True
    after_prefix = -1
    i = start
    while i < end:
        c = data[i]
        if not SPECIAL[c]:
            after_prefix = i + 1 if begins_line and STRING_PREFIXES[c] else -1
            begins_line = begins_line and BLANKS[c]
            out[count] = c
            count += 1
            i += 1
            continue
        before = data[i - 1] if i > start else NEWLINE
        following = data[i + 1] if i + 1 < end else NEWLINE
        stop = -1
        is_comment = False
        if c == NEWLINE:
            unclosed[QUOTE] = False
            unclosed[APOSTROPHE] = False
            unclosed[BACKTICK] = False
        elif c in (QUOTE, APOSTROPHE, BACKTICK):
            if c != BACKTICK and matches(data, i, end, c, c, c):
                if not unclosed[TRIPLE_QUOTES + c]:
                    stop = find_three(data, i + 3, end, c, c, c)
                    unclosed[TRIPLE_QUOTES + c] = stop < 0
                begins_statement = begins_line or after_prefix == i
                if stop >= 0 and begins_statement and is_blank(data, stop, end):
                    is_comment = True
                    if after_prefix == i:
                        count -= 1
            if stop < 0 and not unclosed[c]:
                stop = find_quote(data, i + 1, end, c)
                unclosed[c] = stop < 0
        elif c == SLASH and following == STAR and BEFORE_BLOCK_COMMENT[before]:
            if not unclosed[BLOCKS]:
                stop = find_two(data, i + 2, end, STAR, SLASH)
                unclosed[BLOCKS] = stop < 0
            is_comment = stop >= 0
        elif c == SLASH and following == SLASH and BEFORE_LINE_COMMENT[before]:
            is_comment = begins_line or has_slashes
        elif c == HASH and (before == NEWLINE or BLANKS[before]):
            begins_attribute = (
                following == BANG and i + 2 < end and data[i + 2] == BRACKET
            ) or NOT_AFTER_HASH[following]
            begins_directive = has_slashes and NAME_CHARACTERS[following]
            is_comment = not (begins_attribute or begins_directive)
        elif c == DASH and following == DASH and (before == NEWLINE or BLANKS[before]):
            is_comment = i + 2 >= end or data[i + 2] == NEWLINE or BLANKS[data[i + 2]]
        elif c == LESS and following == BANG and matches(data, i + 1, end, BANG, DASH, DASH):
            if not unclosed[TAGS]:
                stop = find_three(data, i + 4, end, DASH, DASH, GREATER)
                unclosed[TAGS] = stop < 0
            is_comment = stop >= 0
        if is_comment and stop < 0:
            i = end_of_line(data, i, end)
            continue
        if is_comment:
            out[count] = SPACE
            count += 1
            i = stop
            continue
        if stop < 0:
            stop = i + 1
        after_prefix = -1
        begins_line = c == NEWLINE
        for j in range(i, stop):
            out[count] = data[j]
            count += 1
        i = stop
    return count


@kernel
def ends_statements(data: np.ndarray, start: int, end: int) -> bool:
    """Returns True if a line begins with `//` or ends with a semicolon.

    In such a text `//` begins a comment. In others it can be a division.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: First byte of the text.
        end: End of the text.
    """
    begins_line = True
    last = NEWLINE
    for i in range(start, end):
        c = data[i]
        if c == NEWLINE:
            if last == SEMICOLON:
                return True
            begins_line = True
            last = NEWLINE
        elif not BLANKS[c]:
            if begins_line and c == SLASH and i + 1 < end and data[i + 1] == SLASH:
                return True
            begins_line = False
            last = c
    return last == SEMICOLON


@inlined
def matches(data: np.ndarray, i: int, end: int, a: U8, b: U8, c: U8) -> bool:
    """Returns True if three bytes are at a position.

    Args:
        data: The bytes of the text, uint8 (n,).
        i: Position of the first of the three bytes.
        end: Position after the last byte of the text.
        a: First byte.
        b: Second byte.
        c: Third byte.
    """
    return i + 3 <= end and data[i] == a and data[i + 1] == b and data[i + 2] == c


@kernel
def find_two(data: np.ndarray, i: int, end: int, a: U8, b: U8) -> int:
    """Returns the position after the next occurrence of two adjacent bytes, or -1.

    Args:
        data: The bytes of the text, uint8 (n,).
        i: Position at which the search begins.
        end: Position after the last byte of the text.
        a: First byte.
        b: Second byte.
    """
    while i + 2 <= end:
        if data[i] == a and data[i + 1] == b:
            return i + 2
        i += 1
    return -1


@kernel
def find_three(data: np.ndarray, i: int, end: int, a: U8, b: U8, c: U8) -> int:
    """Returns the position after the next occurrence of three adjacent bytes, or -1.

    Args:
        data: The bytes of the text, uint8 (n,).
        i: Position at which the search begins.
        end: Position after the last byte of the text.
        a: First byte.
        b: Second byte.
        c: Third byte.
    """
    while i + 3 <= end:
        if data[i] == a and data[i + 1] == b and data[i + 2] == c:
            return i + 3
        i += 1
    return -1


@kernel
def find_quote(data: np.ndarray, i: int, end: int, quote: U8) -> int:
    """Returns the position after the next quote of the line that no backslash precedes, or -1.

    Args:
        data: The bytes of the text, uint8 (n,).
        i: Position at which the search begins, inside the quotes.
        end: Position after the last byte of the text.
        quote: Byte that ends the string.
    """
    while i < end and data[i] != NEWLINE:
        if data[i] == quote:
            return i + 1
        if data[i] == BACKSLASH and i + 1 < end and data[i + 1] != NEWLINE:
            i += 1
        i += 1
    return -1


@kernel
def is_blank(data: np.ndarray, i: int, end: int) -> bool:
    """Returns True if the rest of a line is blank.

    Args:
        data: The bytes of the text, uint8 (n,).
        i: Position in the line.
        end: Position after the last byte of the text.
    """
    while i < end and data[i] != NEWLINE:
        if not BLANKS[data[i]]:
            return False
        i += 1
    return True


@kernel
def end_of_line(data: np.ndarray, i: int, end: int) -> int:
    """Returns the position of the next line feed, or the end.

    Args:
        data: The bytes of the text, uint8 (n,).
        i: Position in the line.
        end: Position after the last byte of the text.
    """
    while i < end and data[i] != NEWLINE:
        i += 1
    return i
