"""Kernels of shingles: from token hashes and windows of code points to shingle hashes."""

from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import inlined, kernel
from nearkin.stages.hashing.kernels import borrow, find_sorted, hash_tokens, mix64
from nearkin.stages.shingle.normalization.kernels import (
    KIND,
    SIGN,
    SKIP,
    SPACE,
    CodePointTables,
    encode,
    normalise,
    place,
)
from nearkin.stages.shingle.tokens.kernels import (
    HIGH,
    LOW,
    SEGMENT,
    SYMBOLS,
    Scratch,
    add_symbol,
    is_separator,
    point_size,
    segment_end,
    segment_tokens,
)

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

SHINGLE = U64(0xC2B2AE3D27D4EB4F)
WINDOWS = U64(4096)
ASCII_PATH: bool = np.bool_(1)
WITHOUT_SYMBOLS: bool = np.bool_(0)


@kernel
def fold_spaces(
    points: np.ndarray,
    count: np.uint64,
    stage: np.ndarray,
    properties: np.ndarray,
    covers: bool,
    text: np.ndarray,
    at: np.uint64,
    sums: np.ndarray,
) -> np.uint64:
    """Appends code points to text as UTF-8.

    A run of white space becomes one space, and white space at the start is removed. Signs are not
    appended.

    Args:
        points: Normalized code points, uint32.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
        covers: Whether signs are added to the sums.
        text: Array for the bytes, uint8.
        at: Position of the first new byte in `text`.
        sums: Sums over the symbols of the text, uint64 (4,). They are changed.

    Returns:
        The position after the last byte.
    """
    for i in range(count):
        c = points[i]
        p = properties[place(stage, c)]
        kind = p & KIND
        if kind == SPACE:
            if at > U64(0) and text[at - U64(1)] != U8(32):
                text[at] = 32
                at += U64(1)
        elif kind != SKIP:
            at = encode(c, text, at)
        elif covers and p & SIGN:
            add_symbol(c, U64(0), at, sums)
    return at


@kernel
def next_point(text: np.ndarray, at: np.uint64, size: np.uint64) -> np.uint64:
    """Returns the start of the code point after the one at `at`.

    Args:
        text: UTF-8 bytes, uint8.
        at: Position of the first byte of a code point.
        size: Number of bytes of the text.
    """
    at += U64(1)
    while at < size and (text[at] & U8(0xC0)) == U8(0x80):
        at += U64(1)
    return at


@kernel
def character_windows(
    text: np.ndarray,
    size: np.uint64,
    n: int,
    key: NamedTuple,
    edges: np.ndarray,
    out: np.ndarray,
    at: np.uint64,
) -> np.uint64:
    """Computes the base hash of each window of n code points; returns the end of out.

    Some windows are hashed at a time. Their edges are relative to the first of them, so that 32
    bits suffice.

    Args:
        text: UTF-8 bytes of one normalized text, uint8.
        size: Number of bytes of the text.
        n: Number of code points of a window.
        key: Key of the base hash. See `nearkin.stages.hashing.families.key_of`.
        edges: Buffer for the edges of the windows, uint32 (2 · WINDOWS,).
        out: Array for the hashes of the shingles, uint64.
        at: Position of the first hash in `out`.
    """
    if size == U64(0):
        return at
    last, width = U64(0), 0
    while last < size and width < n:
        last = next_point(text, last, size)
        width += 1
    first, more = U64(0), True
    while more:
        base, count = first, U64(0)
        while more and count < WINDOWS:
            edges[count + count], edges[count + count + U64(1)] = (
                U32(first - base),
                U32(last - base),
            )
            count += U64(1)
            more = last < size
            if more:
                first, last = next_point(text, first, size), next_point(text, last, size)
        hash_tokens(text[base:], edges, count, key, out, at)
        at += count
    return at


@kernel
def combine_tokens(
    hashes: np.ndarray, first: np.uint64, count: np.uint64, n: int, out: np.ndarray, at: np.uint64
) -> np.uint64:
    """Computes word shingles: h ← ((h ^ h >> 32) + token)·C over n token hashes, then h ^= h >> 29.

    If there are fewer than n tokens, they are one shingle. `out` can be `hashes` if at ≤ first.

    Args:
        hashes: Token hashes, uint64.
        first: Position of the first token of the document.
        count: Number of tokens of the document.
        n: Number of tokens of a shingle.
        out: Array for the hashes of the shingles, uint64.
        at: Position of the first shingle in `out`.

    Returns:
        The end of out.
    """
    if count == U64(0):
        return at
    width = min(U64(n), count)
    shingles = count - width + U64(1)
    for i in range(shingles):
        h = U64(0)
        for j in range(width):
            h = ((h ^ (h >> U64(32))) + hashes[first + i + j]) * SHINGLE
        out[at + i] = h ^ (h >> U64(29))
    return at + shingles


@kernel
def combine(
    hashes: np.ndarray, first: np.uint64, count: np.uint64, n: int, out: np.ndarray, at: np.uint64
) -> np.uint64:
    """Computes `combine_tokens`, of which n = 3 is unrolled for vector registers."""
    if n != 3 or count < U64(3):
        return combine_tokens(hashes, first, count, n, out, at)
    for i in range(count - U64(2)):
        h = hashes[first + i] * SHINGLE
        h = ((h ^ (h >> U64(32))) + hashes[first + i + U64(1)]) * SHINGLE
        h = ((h ^ (h >> U64(32))) + hashes[first + i + U64(2)]) * SHINGLE
        out[at + i] = h ^ (h >> U64(29))
    return at + count - U64(2)


@inlined
def combine_text(
    hashes: np.ndarray,
    first: np.uint64,
    count: np.uint64,
    n: int,
    symbols: np.ndarray,
    d: int,
    out: np.ndarray,
    at: np.uint64,
) -> np.uint64:
    """Computes `combine` for a text, which has a shingle of its symbols if it has no tokens.

    Args:
        hashes: Token hashes, uint64.
        first: Position of the first token of the document.
        count: Number of tokens of the document.
        n: Number of tokens of a shingle.
        symbols: Sums over the symbols of each document, and their number, uint64 (documents, 3).
        d: Number of the document.
        out: Array for the hashes of the shingles, uint64.
        at: Position of the first shingle in `out`.

    Returns:
        The end of out.
    """
    if count == U64(0) and symbols[d, 2] > U64(0):
        out[at] = mix64(symbols[d, 0] ^ symbols[d, 2])
        return at + U64(1)
    return combine(hashes, first, count, n, out, at)


@kernel
def combine_all(
    hashes: np.ndarray,
    offsets: np.ndarray,
    n: int,
    symbols: np.ndarray,
    out: np.ndarray,
    out_offsets: np.ndarray,
) -> None:
    """Computes the word shingles of the token hashes of each document.

    Without symbols, `out` can be `hashes`.

    Args:
        hashes: Token hashes, uint64.
        offsets: First token of each document, and the end, int64 (documents + 1,).
        n: Number of tokens of a shingle.
        symbols: Sums over the symbols of each document, and their number, uint64 (documents, 3).
        out: Array for the hashes of the shingles, uint64.
        out_offsets: Array for the first hash of each document, and the end, int64 (documents + 1,).
    """
    at = U64(0)
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        count = U64(offsets[d + 1] - offsets[d])
        at = combine_text(hashes, U64(offsets[d]), count, n, symbols, d, out, at)
        out_offsets[d + 1] = at


@inlined
def write_symbols(sums: np.ndarray, symbols: np.ndarray, d: int) -> None:
    """Writes what the symbols of a text add to its content hash, and their number.

    Args:
        sums: Sums over the symbols of the text, uint64 (4,).
        symbols: Array for the two sums and the number of each document, uint64 (documents, 3).
        d: Number of the document.
    """
    symbols[d, 0] = sums[LOW]
    symbols[d, 1] = sums[HIGH]
    symbols[d, 2] = sums[SYMBOLS]


@kernel
def word_shingles(
    data: np.ndarray,
    offsets: np.ndarray,
    n: int,
    fast: bool,
    tables: CodePointTables,
    scratch: Scratch,
    key: NamedTuple,
    out: np.ndarray,
    out_offsets: np.ndarray,
    symbols: np.ndarray,
) -> None:
    """Computes the hashes of the word shingles of each text data[offsets[d] : offsets[d + 1]].

    If the content hash covers symbols, a text without tokens has a shingle of its symbols.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (documents + 1,).
        n: Number of tokens of a shingle.
        fast: Whether segments of ASCII can take the faster path.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.
        key: Key of the base hash. See `nearkin.stages.hashing.families.key_of`.
        out: Array for the hashes of the shingles, uint64.
        out_offsets: Array for the first hash of each document, and the end, int64 (documents + 1,).
        symbols: Array for the two sums over the symbols of each document, and their number, uint64
            (documents, 3).
    """
    data, out = borrow(data), borrow(out)
    tables, scratch = borrow(tables), borrow(scratch)
    key = borrow(key)
    covers = tables.covers_symbols
    at = U64(0)
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        first = at
        i = U64(offsets[d])
        end = U64(offsets[d + 1])
        scratch.sums[:] = 0
        while i < end:
            stop = segment_end(data, i, end, SEGMENT)
            count = segment_tokens(data, i, stop, fast, covers, tables, scratch)
            hash_tokens(scratch.text, scratch.edges, count, key, out, at)
            at += count
            i = stop
        write_symbols(scratch.sums, symbols, d)
        at = combine_text(out, first, at - first, n, symbols, d, out, first)
        out_offsets[d + 1] = at


@kernel
def collect_tokens(
    data: np.ndarray,
    offsets: np.ndarray,
    fast: bool,
    tables: CodePointTables,
    scratch: Scratch,
    text: np.ndarray,
    token_offsets: np.ndarray,
    out_offsets: np.ndarray,
    symbols: np.ndarray,
) -> np.uint64:
    """Writes the bytes of all tokens into text, one after the other; returns their number.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (documents + 1,).
        fast: Whether segments of ASCII can take the faster path.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.
        text: Array for the bytes of the tokens, uint8.
        token_offsets: Array for the first byte of each token, and the end, int64.
        out_offsets: Array for the first token of each document, and the end, int64 (documents +
            1,).
        symbols: Array for the two sums over the symbols of each document, and their number, uint64
            (documents, 3).
    """
    data = borrow(data)
    tables, scratch = borrow(tables), borrow(scratch)
    covers = tables.covers_symbols
    tokens, at = U64(0), U64(0)
    out_offsets[0], token_offsets[0] = 0, 0
    for d in range(offsets.shape[0] - 1):
        i, end = U64(offsets[d]), U64(offsets[d + 1])
        scratch.sums[:] = 0
        while i < end:
            stop = segment_end(data, i, end, SEGMENT)
            for t in range(segment_tokens(data, i, stop, fast, covers, tables, scratch)):
                for q in range(U64(scratch.edges[t + t]), U64(scratch.edges[t + t + U64(1)])):
                    text[at] = scratch.text[q]
                    at += U64(1)
                tokens += U64(1)
                token_offsets[tokens] = at
            i = stop
        write_symbols(scratch.sums, symbols, d)
        out_offsets[d + 1] = tokens
    return tokens


@inlined
def origin_of(
    data: np.ndarray, first: np.uint64, token: np.uint64, origins: np.ndarray
) -> tuple[np.uint64, np.uint64]:
    """Returns the part of a segment that a token comes from which was normalized as a copy.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        first: Position of the first byte of the segment.
        token: Number of the token.
        origins: Start and end of the part of each token, uint32. See `Scratch`.

    Returns:
        The first byte, without separators, and the byte after the last one.
    """
    start = U64(origins[token + token])
    after = U64(origins[token + token + U64(1)])
    while start + U64(1) < after and data[first + start] < U8(128):
        if not is_separator(data[first + start]):
            break
        start += U64(1)
    return start, after


@kernel
def locate_tokens(
    data: np.ndarray,
    offsets: np.ndarray,
    tables: CodePointTables,
    scratch: Scratch,
    key: NamedTuple,
    hashes: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    out_offsets: np.ndarray,
) -> None:
    """Computes the hash of each token of texts, and the bytes of the text that it comes from.

    A token that normalization changes more than by lower case comes from the whole part of the text
    that was normalized with it, without separators at its start.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (documents + 1,).
        tables: Properties of all code points. Lower case is one of the normalization steps.
        scratch: Buffers of one segment. They are overwritten.
        key: Key of the base hash. See `nearkin.stages.hashing.families.key_of`.
        hashes: Array for the token hashes, uint64.
        starts: Array for the first byte of each token, relative to its text, uint32.
        ends: Array for the byte after the last one of each token, relative to its text, uint32.
        out_offsets: Array for the first token of each text, and the end, int64 (documents + 1,).
    """
    data, hashes = borrow(data), borrow(hashes)
    tables, scratch = borrow(tables), borrow(scratch)
    key = borrow(key)
    at = U64(0)
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        first = U64(offsets[d])
        i = first
        end = U64(offsets[d + 1])
        while i < end:
            stop = segment_end(data, i, end, SEGMENT)
            count = segment_tokens(data, i, stop, ASCII_PATH, WITHOUT_SYMBOLS, tables, scratch)
            hash_tokens(scratch.text, scratch.edges, count, key, hashes, at)
            size = stop - i
            base = i - first
            for t in range(count):
                start = U64(scratch.edges[t + t])
                after = U64(scratch.edges[t + t + U64(1)])
                if start >= size:
                    start, after = origin_of(data, i, U64(t), scratch.origins)
                starts[at + t] = base + start
                ends[at + t] = base + after
            at += count
            i = stop
        out_offsets[d + 1] = at


@kernel
def locate_characters(
    data: np.ndarray,
    offsets: np.ndarray,
    tables: CodePointTables,
    scratch: Scratch,
    key: NamedTuple,
    edges: np.ndarray,
    hashes: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    out_offsets: np.ndarray,
) -> None:
    """Computes the hash of each code point of the tokens of texts, and the bytes it comes from.

    Code points that normalization changes more than by lower case come from the whole part of the
    text that was normalized with them, without separators at its start.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (documents + 1,).
        tables: Properties of all code points. Lower case is one of the normalization steps.
        scratch: Buffers of one segment. They are overwritten.
        key: Key of the base hash. See `nearkin.stages.hashing.families.key_of`.
        edges: Buffer for the bounds of the code points of one segment, uint32, twice as long as
            `scratch.text`.
        hashes: Array for the hashes of code points, uint64.
        starts: Array for the first byte of each code point, relative to its text, uint32.
        ends: Array for the byte after the last one, relative to its text, uint32.
        out_offsets: Array for the first code point of each text, and the end, int64
            (documents + 1,).
    """
    data, hashes = borrow(data), borrow(hashes)
    tables, scratch = borrow(tables), borrow(scratch)
    key = borrow(key)
    text = scratch.text
    at = U64(0)
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        first = U64(offsets[d])
        i = first
        end = U64(offsets[d + 1])
        while i < end:
            stop = segment_end(data, i, end, SEGMENT)
            count = segment_tokens(data, i, stop, ASCII_PATH, WITHOUT_SYMBOLS, tables, scratch)
            size = stop - i
            base = i - first
            found = U64(0)
            for t in range(count):
                point = U64(scratch.edges[t + t])
                after = U64(scratch.edges[t + t + U64(1)])
                is_copy = point >= size
                start, origin_end = point, after
                if is_copy:
                    start, origin_end = origin_of(data, i, U64(t), scratch.origins)
                while point < after:
                    following = point + point_size(text[point])
                    if not is_copy:
                        start, origin_end = point, following
                    edges[found + found] = point
                    edges[found + found + U64(1)] = following
                    starts[at + found] = base + start
                    ends[at + found] = base + origin_end
                    found += U64(1)
                    point = following
            hash_tokens(text, edges, found, key, hashes, at)
            at += found
            i = stop
        out_offsets[d + 1] = at


@kernel
def character_shingles(
    data: np.ndarray,
    offsets: np.ndarray,
    n: int,
    tables: CodePointTables,
    scratch: Scratch,
    key: NamedTuple,
    text: np.ndarray,
    out: np.ndarray,
    out_offsets: np.ndarray,
    symbols: np.ndarray,
) -> None:
    """Computes the hashes of windows of n code points of each normalized text.

    White space is folded and trimmed.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (documents + 1,).
        n: Number of code points of a window.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.
        key: Key of the base hash. See `nearkin.stages.hashing.families.key_of`.
        text: Buffer for the UTF-8 of one normalized text, uint8.
        out: Array for the hashes of the shingles, uint64.
        out_offsets: Array for the first hash of each document, and the end, int64 (documents + 1,).
        symbols: Array for the two sums over the signs of each document, and their number, uint64
            (documents, 3).
    """
    data, out = borrow(data), borrow(out)
    tables, scratch = borrow(tables), borrow(scratch)
    key = borrow(key)
    covers = tables.covers_symbols
    at = U64(0)
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        size = U64(0)
        scratch.sums[:] = 0
        i = U64(offsets[d])
        end = U64(offsets[d + 1])
        while i < end:
            stop = segment_end(data, i, end, SEGMENT)
            count = normalise(data, i, stop, tables, scratch.points, scratch.spare)
            size = fold_spaces(
                scratch.points,
                count,
                tables.stage,
                tables.properties,
                covers,
                text,
                size,
                scratch.sums,
            )
            i = stop
        write_symbols(scratch.sums, symbols, d)
        if size > U64(0) and text[size - U64(1)] == U8(32):
            size -= U64(1)
        at = character_windows(text, size, n, key, scratch.edges, out, at)
        out_offsets[d + 1] = at


@kernel
def remove_listed(
    hashes: np.ndarray,
    offsets: np.ndarray,
    listed: np.ndarray,
    index: np.ndarray,
    shift: np.uint64,
    out: np.ndarray,
    out_offsets: np.ndarray,
) -> None:
    """Removes listed shingles from each document. For `index` and `shift`, see `find_sorted`.

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First shingle of each document, and the end, int64 (documents + 1,).
        listed: Sorted distinct hashes to remove, uint64 (m,).
        index: Position of the first listed hash of each prefix, and the end, int64.
        shift: Number of bits by which a hash is shifted to give its prefix.
        out: Array for the remaining hashes, uint64. It has room for one more than remain.
        out_offsets: Array for the first hash of each document, and the end, int64 (documents + 1,).
    """
    at = np.int64(0)
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        for i in range(offsets[d], offsets[d + 1]):
            out[at] = hashes[i]
            at += np.int64(find_sorted(hashes[i], listed, index, shift) < 0)
        out_offsets[d + 1] = at
