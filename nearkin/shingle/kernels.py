"""Kernels of shingling: from texts to segments, normalized tokens, token hashes and shingles.

`Shingler` provides the scratch buffers. Documents are slices of one byte buffer. Bytes are read
only in this buffer or in padded scratch buffers.
"""

from typing import NamedTuple

import numpy as np

from nearkin.hashing.kernels import count_ones, find_sorted, hash_tokens, load_u64, trailing_zeros
from nearkin.runtime.jit import kernel

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

OTHER = U32(0)
WORD = U32(1)
SINGLE = U32(2)
SKIP = U32(3)
SPACE = U32(4)
KIND = U32(7)
MARK = U32(8)
UNSTABLE = U32(64)
CLASS_SHIFT, CLASS_MASK = U32(8), U32(255)
SHINGLE = U64(0xC2B2AE3D27D4EB4F)
L_BASE = U32(0x1100)
V_BASE = U32(0x1161)
T_BASE = U32(0x11A7)
S_BASE = U32(0xAC00)
L_COUNT = U32(19)
V_COUNT = U32(21)
T_COUNT = U32(28)
S_COUNT = U32(11172)
SEGMENT = U64(8192)
WINDOWS = U64(4096)


class CodePointTables(NamedTuple):
    """The properties of all code points, for one choice of normalization steps."""

    stage: np.ndarray
    """uint16: The block of properties of each 128 code points."""
    properties: np.ndarray
    """uint32: Class, flags, canonical combining class << 8."""
    lower: np.ndarray
    """uint32: The number to add, modulo 2³², for the simple lower case."""
    decomposed: np.ndarray
    """uint32: Start << 5 | length of the compatibility decomposition in `data`, or 0."""
    data: np.ndarray
    """uint32: The decompositions, one after the other."""
    pair_keys: np.ndarray
    """uint64: Sorted pairs of canonical compositions, first << 32 | second."""
    pair_values: np.ndarray
    """uint32: The composite of each pair."""


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
def decode(data: np.ndarray, start: np.uint64, end: np.uint64, out: np.ndarray) -> np.uint64:
    """Decodes valid UTF-8 to code points; returns their number.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte.
        end: Position after the last byte.
        out: Array for the code points, uint32.
    """
    n, i = U64(0), start
    while i < end:
        c = U32(data[i])
        if c < U32(0x80):
            i += U64(1)
        elif c < U32(0xE0):
            c = ((c & U32(0x1F)) << U32(6)) | (U32(data[i + U64(1)]) & U32(0x3F))
            i += U64(2)
        elif c < U32(0xF0):
            c = (
                ((c & U32(0x0F)) << U32(12))
                | ((U32(data[i + U64(1)]) & U32(0x3F)) << U32(6))
                | (U32(data[i + U64(2)]) & U32(0x3F))
            )
            i += U64(3)
        else:
            c = (
                ((c & U32(0x07)) << U32(18))
                | ((U32(data[i + U64(1)]) & U32(0x3F)) << U32(12))
                | ((U32(data[i + U64(2)]) & U32(0x3F)) << U32(6))
                | (U32(data[i + U64(3)]) & U32(0x3F))
            )
            i += U64(4)
        out[n] = c
        n += U64(1)
    return n


@kernel
def encode(c: np.uint32, out: np.ndarray, at: np.uint64) -> np.uint64:
    """Encodes one code point as UTF-8 into out[at:]; returns the position after it.

    Args:
        c: Code point.
        out: Array for the bytes, uint8.
        at: Position of the first byte in `out`.
    """
    if c < U32(0x80):
        out[at] = c
        return at + U64(1)
    if c < U32(0x800):
        out[at] = U32(0xC0) | (c >> U32(6))
        out[at + U64(1)] = U32(0x80) | (c & U32(0x3F))
        return at + U64(2)
    if c < U32(0x10000):
        out[at] = U32(0xE0) | (c >> U32(12))
        out[at + U64(1)] = U32(0x80) | ((c >> U32(6)) & U32(0x3F))
        out[at + U64(2)] = U32(0x80) | (c & U32(0x3F))
        return at + U64(3)
    out[at] = U32(0xF0) | (c >> U32(18))
    out[at + U64(1)] = U32(0x80) | ((c >> U32(12)) & U32(0x3F))
    out[at + U64(2)] = U32(0x80) | ((c >> U32(6)) & U32(0x3F))
    out[at + U64(3)] = U32(0x80) | (c & U32(0x3F))
    return at + U64(4)


@kernel
def place(stage: np.ndarray, c: np.uint32) -> np.uint64:
    """Returns the position of the properties of a code point in the two-stage tables.

    Args:
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        c: Code point.
    """
    return (U64(stage[c >> U32(7)]) << U64(7)) | U64(c & U32(127))


@kernel
def needs_normalising(
    points: np.ndarray, count: np.uint64, stage: np.ndarray, properties: np.ndarray
) -> bool:
    """Performs the quick check of UAX #15.

    Returns True if a code point may change or compose, or marks are not in canonical order.

    Args:
        points: Code points, uint32.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
    """
    last = U32(0)
    for i in range(count):
        p = properties[place(stage, points[i])]
        order = (p >> CLASS_SHIFT) & CLASS_MASK
        if (p & UNSTABLE) or (order != U32(0) and order < last):
            return True
        last = order
    return False


@kernel
def decompose(
    points: np.ndarray,
    count: np.uint64,
    stage: np.ndarray,
    decomposed: np.ndarray,
    data: np.ndarray,
    out: np.ndarray,
) -> np.uint64:
    """Writes the full compatibility decomposition: NFKD before reordering.

    Args:
        points: Code points, uint32.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        decomposed: Place of the decomposition in each block, uint32. See `CodePointTables`.
        data: Decompositions, one after the other, uint32.
        out: Array for the code points, uint32.

    Returns:
        The number of code points that were written.
    """
    n = U64(0)
    for i in range(count):
        c = points[i]
        entry = decomposed[place(stage, c)]
        s = c - S_BASE
        if s < S_COUNT:
            out[n] = L_BASE + s // (V_COUNT * T_COUNT)
            out[n + U64(1)] = V_BASE + (s % (V_COUNT * T_COUNT)) // T_COUNT
            n += U64(2)
            if s % T_COUNT:
                out[n] = T_BASE + s % T_COUNT
                n += U64(1)
        elif entry == U32(0):
            out[n] = c
            n += U64(1)
        else:
            first = U64(entry >> U32(5))
            for q in range(U64(entry & U32(31))):
                out[n] = data[first + q]
                n += U64(1)
    return n


@kernel
def reorder(
    points: np.ndarray, count: np.uint64, stage: np.ndarray, properties: np.ndarray
) -> None:
    """Sorts each run of marks by combining class, stably (canonical ordering).

    Args:
        points: Code points, uint32. They are reordered.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
    """
    for i in range(U64(1), count):
        c = points[i]
        order = (properties[place(stage, c)] >> CLASS_SHIFT) & CLASS_MASK
        j = i
        while order != U32(0) and j > U64(0):
            before = (properties[place(stage, points[j - U64(1)])] >> CLASS_SHIFT) & CLASS_MASK
            if before <= order:
                break
            points[j] = points[j - U64(1)]
            j -= U64(1)
        points[j] = c


@kernel
def composite(
    first: np.uint32, second: np.uint32, keys: np.ndarray, values: np.ndarray
) -> np.uint32:
    """Returns the composite of two code points, or 0.

    Args:
        first: First code point.
        second: Second code point.
        keys: Sorted pairs of canonical compositions, first << 32 | second, uint64 (m,).
        values: Composite of each pair, uint32 (m,).
    """
    if first - L_BASE < L_COUNT and second - V_BASE < V_COUNT:
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT
    s = first - S_BASE
    if s < S_COUNT and s % T_COUNT == U32(0) and U32(0) < second - T_BASE < T_COUNT:
        return first + (second - T_BASE)
    key = (U64(first) << U64(32)) | U64(second)
    at = np.searchsorted(keys, key)
    if at < keys.shape[0] and keys[at] == key:
        return values[at]
    return U32(0)


@kernel
def compose(
    points: np.ndarray,
    count: np.uint64,
    stage: np.ndarray,
    properties: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
) -> np.uint64:
    """Composes code points in place (UAX #15, D117); returns the new length.

    Args:
        points: Code points in canonical order, uint32. They are overwritten.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
        keys: Sorted pairs of canonical compositions, first << 32 | second, uint64 (m,).
        values: Composite of each pair, uint32 (m,).
    """
    n = U64(0)
    starter = U64(0)
    last = U32(0)
    has_starter = False
    for i in range(count):
        c = points[i]
        order = (properties[place(stage, c)] >> CLASS_SHIFT) & CLASS_MASK
        adjacent = n == starter + U64(1)
        if has_starter and (adjacent or (last < order and last != U32(0))):
            joint = composite(points[starter], c, keys, values)
            if joint != U32(0):
                points[starter] = joint
                continue
        if order == U32(0):
            starter, has_starter = n, True
        last = order
        points[n] = c
        n += U64(1)
    return n


@kernel
def drop_marks(
    points: np.ndarray, count: np.uint64, stage: np.ndarray, properties: np.ndarray
) -> np.uint64:
    """Removes marks (category M) in place; returns the new length.

    Args:
        points: Code points, uint32. They are overwritten.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
    """
    n = U64(0)
    for i in range(count):
        if not properties[place(stage, points[i])] & MARK:
            points[n] = points[i]
            n += U64(1)
    return n


@kernel
def map_lower(points: np.ndarray, count: np.uint64, stage: np.ndarray, lower: np.ndarray) -> None:
    """Applies the simple case mapping of the table in place.

    Args:
        points: Code points, uint32. They are overwritten.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        lower: Number to add for the lower case in each block, uint32. See `CodePointTables`.
    """
    for i in range(count):
        points[i] += lower[place(stage, points[i])]


@kernel
def normal_form(
    points: np.ndarray, count: np.uint64, out: np.ndarray, tables: CodePointTables
) -> np.uint64:
    """Writes the NFKC form (UAX #15) into out.

    Marks that the tables flag are removed between decomposition and composition.

    Args:
        points: Code points, uint32.
        count: Number of code points.
        out: Array for the code points of the normal form, uint32.
        tables: Properties of all code points.

    Returns:
        The number of code points that were written.
    """
    n = decompose(points, count, tables.stage, tables.decomposed, tables.data, out)
    reorder(out, n, tables.stage, tables.properties)
    n = drop_marks(out, n, tables.stage, tables.properties)
    return compose(out, n, tables.stage, tables.properties, tables.pair_keys, tables.pair_values)


@kernel
def normalise(
    data: np.ndarray, start: np.uint64, end: np.uint64, tables: CodePointTables, scratch: Scratch
) -> np.uint64:
    """Writes normalized code points into scratch.points; returns their number.

    The steps are NFKC, lower case, and NFKC again if lower case has undone it.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte of the segment.
        end: Position after the last byte of the segment.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.
    """
    points, spare = scratch.points, scratch.spare
    count = decode(data, start, end, points)
    if needs_normalising(points, count, tables.stage, tables.properties):
        count = normal_form(points, count, spare, tables)
        map_lower(spare, count, tables.stage, tables.lower)
        return normal_form(spare, count, points, tables)
    map_lower(points, count, tables.stage, tables.lower)
    return count


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
def fold_spaces(
    points: np.ndarray,
    count: np.uint64,
    stage: np.ndarray,
    properties: np.ndarray,
    text: np.ndarray,
    at: np.uint64,
) -> np.uint64:
    """Appends code points to text as UTF-8.

    A run of white space becomes one space, and white space at the start is removed.

    Args:
        points: Normalized code points, uint32.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
        text: Array for the bytes, uint8.
        at: Position of the first new byte in `text`.

    Returns:
        The position after the last byte.
    """
    for i in range(count):
        c = points[i]
        kind = properties[place(stage, c)] & KIND
        if kind == SPACE:
            if at > U64(0) and text[at - U64(1)] != U8(32):
                text[at] = 32
                at += U64(1)
        elif kind != SKIP:
            at = encode(c, text, at)
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
        key: Key of the base hash. See `nearkin.hashing.families.key_of`.
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
def combine_three(
    hashes: np.ndarray, first: np.uint64, count: np.uint64, out: np.ndarray, at: np.uint64
) -> np.uint64:
    """Computes `combine_tokens` for n = 3, unrolled for vector registers.

    Args:
        hashes: Token hashes, uint64.
        first: Position of the first token of the document.
        count: Number of tokens of the document.
        out: Array for the hashes of the shingles, uint64.
        at: Position of the first shingle in `out`.

    Returns:
        The end of out.
    """
    if count < U64(3):
        return combine_tokens(hashes, first, count, 3, out, at)
    for i in range(count - U64(2)):
        h = hashes[first + i] * SHINGLE
        h = ((h ^ (h >> U64(32))) + hashes[first + i + U64(1)]) * SHINGLE
        h = ((h ^ (h >> U64(32))) + hashes[first + i + U64(2)]) * SHINGLE
        out[at + i] = h ^ (h >> U64(29))
    return at + count - U64(2)


@kernel
def combine(
    hashes: np.ndarray, first: np.uint64, count: np.uint64, n: int, out: np.ndarray, at: np.uint64
) -> np.uint64:
    """Computes `combine_tokens` by the fastest kernel for n.

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
    if n == 3:
        return combine_three(hashes, first, count, out, at)
    return combine_tokens(hashes, first, count, n, out, at)


@kernel
def combine_all(
    hashes: np.ndarray, offsets: np.ndarray, n: int, out: np.ndarray, out_offsets: np.ndarray
) -> None:
    """Computes the word shingles of the token hashes of each document; out can be `hashes`.

    Args:
        hashes: Token hashes, uint64.
        offsets: First token of each document, and the end, int64 (documents + 1,).
        n: Number of tokens of a shingle.
        out: Array for the hashes of the shingles, uint64.
        out_offsets: Array for the first hash of each document, and the end, int64 (documents + 1,).
    """
    at = U64(0)
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        at = combine(hashes, U64(offsets[d]), U64(offsets[d + 1] - offsets[d]), n, out, at)
        out_offsets[d + 1] = at


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
    count = normalise(data, start, end, tables, scratch)
    return split_tokens(
        scratch.points, count, tables.stage, tables.properties, scratch.text, scratch.edges
    )


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
) -> None:
    """Computes the hashes of the word shingles of each text data[offsets[d] : offsets[d + 1]].

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (documents + 1,).
        n: Number of tokens of a shingle.
        fast: Whether segments of ASCII can take the faster path.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.
        key: Key of the base hash. See `nearkin.hashing.families.key_of`.
        out: Array for the hashes of the shingles, uint64.
        out_offsets: Array for the first hash of each document, and the end, int64 (documents + 1,).
    """
    at = U64(0)
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        first = at
        i = U64(offsets[d])
        end = U64(offsets[d + 1])
        while i < end:
            stop = segment_end(data, i, end, SEGMENT)
            count = segment_tokens(data, i, stop, fast, tables, scratch)
            hash_tokens(scratch.text, scratch.edges, count, key, out, at)
            at += count
            i = stop
        at = combine(out, first, at - first, n, out, first)
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
    """
    tokens, at = U64(0), U64(0)
    out_offsets[0], token_offsets[0] = 0, 0
    for d in range(offsets.shape[0] - 1):
        i, end = U64(offsets[d]), U64(offsets[d + 1])
        while i < end:
            stop = segment_end(data, i, end, SEGMENT)
            for t in range(segment_tokens(data, i, stop, fast, tables, scratch)):
                for q in range(U64(scratch.edges[t + t]), U64(scratch.edges[t + t + U64(1)])):
                    text[at] = scratch.text[q]
                    at += U64(1)
                tokens += U64(1)
                token_offsets[tokens] = at
            i = stop
        out_offsets[d + 1] = tokens
    return tokens


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
) -> None:
    """Computes the hashes of windows of n code points of each normalized text.

    White space is folded and trimmed.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (documents + 1,).
        n: Number of code points of a window.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.
        key: Key of the base hash. See `nearkin.hashing.families.key_of`.
        text: Buffer for the UTF-8 of one normalized text, uint8.
        out: Array for the hashes of the shingles, uint64.
        out_offsets: Array for the first hash of each document, and the end, int64 (documents + 1,).
    """
    at = U64(0)
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        size = U64(0)
        i = U64(offsets[d])
        end = U64(offsets[d + 1])
        while i < end:
            stop = segment_end(data, i, end, SEGMENT)
            count = normalise(data, i, stop, tables, scratch)
            size = fold_spaces(scratch.points, count, tables.stage, tables.properties, text, size)
            i = stop
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
