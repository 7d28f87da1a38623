"""Kernels of tokens: from texts to segments of bounded size, and to the bounds of their tokens.

`Shingler` provides the scratch buffers. Documents are slices of one byte buffer. Bytes are read
only in this buffer or in padded scratch buffers.
"""

from typing import NamedTuple

import numpy as np

from nearkin.hashing.kernels import count_ones, load_u64, trailing_zeros
from nearkin.runtime.jit import kernel
from nearkin.shingle.normalization.kernels import (
    KIND,
    SINGLE,
    SKIP,
    WORD,
    CodePointTables,
    encode,
    normalise,
    place,
)

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

SEGMENT = U64(8192)


class Scratch(NamedTuple):
    """The buffers of one segment. `text` and `inside` are padded."""

    points: np.ndarray
    """uint32: The code points."""
    spare: np.ndarray
    """uint32: Code points between two normalization steps."""
    text: np.ndarray
    """uint8: The normalized UTF-8. Some bytes before its start are readable."""
    inside: np.ndarray
    """uint8: 1 if a byte of ASCII text belongs to a token, else 0."""
    mask: np.ndarray
    """uint64: The elements of `inside` as bits."""
    edges: np.ndarray
    """uint32: The start and the end of each token in `text`, alternating."""


@kernel
def is_ascii(data: np.ndarray, start: np.uint64, end: np.uint64) -> bool:
    """Returns True if no byte has its high bit set.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte.
        end: Position after the last byte.
    """
    words = (U64(end) - U64(start)) >> U64(3)
    high = U64(0)
    for w in range(words):
        high |= load_u64(data, U64(start) + w * U64(8))
    for i in range(U64(start) + words * U64(8), U64(end)):
        high |= U64(data[i]) * U64(0x0101010101010101)
    return high & U64(0x8080808080808080) == U64(0)


@kernel
def is_separator(c: np.uint8) -> bool:
    """Returns True if no token and no normalization extends across the start of this byte.

    These bytes are ASCII other than letters, digits and underscore, and the first byte of U+4000 to
    U+9FFF. The latter are ideographs, which never compose and are separate tokens.

    Args:
        c: Code point.
    """
    low = c | U8(32)
    letter = U8(low - U8(97)) < U8(26)
    digit = U8(c - U8(48)) < U8(10)
    ideograph = U8(c - U8(0xE4)) < U8(6)
    return ideograph or not (letter or digit or c == U8(95) or c > U8(127))


@kernel
def segment_end(data: np.ndarray, start: np.uint64, end: np.uint64, limit: np.uint64) -> np.uint64:
    """Returns where a segment of a long document ends.

    It ends before the last separator within `limit` bytes, else before the first one after them.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte.
        end: Position after the last byte.
        limit: Number of bytes that a segment should not exceed.
    """
    if end - start <= limit:
        return end
    i = start + limit
    while i > start and not is_separator(data[i]):
        i -= U64(1)
    if i > start:
        return i
    i = start + limit
    while i < end and not is_separator(data[i]):
        i += U64(1)
    return i


@kernel
def longest_segment(data: np.ndarray, offsets: np.ndarray) -> np.uint64:
    """Returns the number of bytes of the longest segment of any document.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (documents + 1,).
    """
    longest = U64(0)
    for d in range(offsets.shape[0] - 1):
        i, end = U64(offsets[d]), U64(offsets[d + 1])
        while i < end:
            stop = segment_end(data, i, end, SEGMENT)
            longest = max(longest, stop - i)
            i = stop
    return longest


@kernel
def classify_ascii(
    source: np.ndarray, start: np.uint64, size: np.uint64, lower: np.ndarray, inside: np.ndarray
) -> None:
    """Writes lower-case bytes, and 1 for bytes that belong to a token, in one vectorized pass.

    Args:
        source: Bytes of the texts, uint8. The segment is ASCII.
        start: Position of the first byte of the segment.
        size: Number of bytes of the segment.
        lower: Array for the lower-case bytes, uint8 (size or more,).
        inside: Array for the flags, uint8 (size or more,).
    """
    for i in range(size):
        c = source[start + i]
        low = U8(c + U8(U8(U8(c - U8(65)) < U8(26)) << U8(5)))
        lower[i] = low
        inside[i] = (U8(low - U8(97)) < U8(26)) | (U8(c - U8(48)) < U8(10)) | (c == U8(95))


@kernel
def pack_mask(inside: np.ndarray, size: np.uint64, mask: np.ndarray) -> np.uint64:
    """Packs 64 flags (bytes 0 or 1) into each word; returns the number of words.

    `inside` is zero beyond its end.

    Args:
        inside: Flags, uint8.
        size: Number of flags.
        mask: Array for the words, uint64.
    """
    words = (size + U64(63)) >> U64(6)
    for w in range(words):
        bits = U64(0)
        for q in range(U64(8)):
            eight = load_u64(inside, w * U64(64) + q * U64(8))
            bits |= ((eight * U64(0x0102040810204080)) >> U64(56)) << (U64(8) * q)
        mask[w] = bits
    return words


@kernel
def token_edges(mask: np.ndarray, words: np.uint64, edges: np.ndarray) -> np.uint64:
    """Writes the positions at which the mask changes; returns the number of tokens.

    The last word ends outside a token. Eight positions are written at a time, because a loop over
    only the set bits would have an unpredictable end for each word. Superfluous positions are
    overwritten, and `edges` has room for eight more.

    Args:
        mask: Flags, 64 per word, uint64.
        words: Number of words.
        edges: Array for the positions, uint32.
    """
    count, carry = U64(0), U64(0)
    for w in range(words):
        m = mask[w]
        changes = m ^ ((m << U64(1)) | carry)
        carry = m >> U64(63)
        base, found = w << U64(6), count_ones(changes)
        written = U64(0)
        while written < found:
            for q in range(U64(8)):
                edges[count + written + q] = base + trailing_zeros(changes)
                changes &= changes - U64(1)
            written += U64(8)
        count += found
    return count >> U64(1)


@kernel
def ascii_tokens(
    data: np.ndarray, start: np.uint64, size: np.uint64, scratch: Scratch
) -> np.uint64:
    """Writes lower-case bytes to text and token bounds to edges; returns the number of tokens.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte of the segment.
        size: Number of bytes of the segment.
        scratch: Buffers of one segment. They are overwritten.
    """
    classify_ascii(data, start, size, scratch.text, scratch.inside)
    scratch.inside[size : size + U64(72)] = 0
    return token_edges(
        scratch.mask, pack_mask(scratch.inside, size + U64(1), scratch.mask), scratch.edges
    )


@kernel
def split_tokens(
    points: np.ndarray,
    count: np.uint64,
    stage: np.ndarray,
    properties: np.ndarray,
    text: np.ndarray,
    edges: np.ndarray,
) -> np.uint64:
    """Writes the UTF-8 bytes and the bounds of tokens.

    Skipped code points are removed, and single code points are separate tokens.

    Args:
        points: Normalized code points, uint32.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
        text: Array for the bytes, uint8.
        edges: Array for the first byte and the end of each token, alternating, uint32.

    Returns:
        The number of tokens.
    """
    tokens = U64(0)
    at = U64(0)
    open_token = False
    for i in range(count):
        c = points[i]
        kind = properties[place(stage, c)] & KIND
        if kind == SKIP:
            continue
        if open_token and kind != WORD:
            edges[tokens + tokens + U64(1)] = at
            tokens += U64(1)
            open_token = False
        if kind == WORD:
            if not open_token:
                edges[tokens + tokens] = at
                open_token = True
            at = encode(c, text, at)
        elif kind == SINGLE:
            edges[tokens + tokens] = at
            at = encode(c, text, at)
            edges[tokens + tokens + U64(1)] = at
            tokens += U64(1)
    if open_token:
        edges[tokens + tokens + U64(1)] = at
        tokens += U64(1)
    return tokens


@kernel
def segment_tokens(
    data: np.ndarray,
    start: np.uint64,
    end: np.uint64,
    fast: bool,
    tables: CodePointTables,
    scratch: Scratch,
) -> np.uint64:
    """Writes the tokens of one segment: bytes to scratch.text, bounds to edges.

    `fast` allows the ASCII path.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte of the segment.
        end: Position after the last byte of the segment.
        fast: Whether a segment of ASCII can take the faster path.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.

    Returns:
        The number of tokens.
    """
    if fast and is_ascii(data, start, end):
        return ascii_tokens(data, start, end - start, scratch)
    count = normalise(data, start, end, tables, scratch.points, scratch.spare)
    return split_tokens(
        scratch.points, count, tables.stage, tables.properties, scratch.text, scratch.edges
    )
