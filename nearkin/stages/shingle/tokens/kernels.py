"""Kernels of tokens: from texts to segments of bounded size, and to the bounds of their tokens.

`Shingler` provides the scratch buffers. Documents are slices of one byte buffer. Bytes are read
only in this buffer or in padded scratch buffers.
"""

from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import inlined, kernel
from nearkin.stages.hashing.kernels import bytes_at_least, count_ones, load_u64, trailing_zeros
from nearkin.stages.shingle.normalization.kernels import (
    ALONE,
    CLASS_MASK,
    CLASS_SHIFT,
    CUT,
    DIGIT,
    JOINS,
    KIND,
    MINUS,
    ORDERED,
    OUTSIDE,
    PLAIN,
    PLANE,
    SIGN,
    SINGLE,
    SKIP,
    SLOW,
    SPACE,
    STEP_SHIFT,
    UNSTABLE,
    WORD,
    CodePointTables,
    composite,
    encode,
    normalise,
    place,
)

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

SEGMENT = U64(8192)
GA = U32(0x304C)
VISIBLE_BYTE, WORD_BYTE = U8(1), U8(2)
"""The flags of bytes of ASCII that are symbols, and of those that belong to tokens."""
LOW, HIGH = U64(0), U64(1)
TOKENS, SYMBOLS = U64(2), U64(3)
"""The places in an array of sums over the symbols of a text: two sums of hashes, the number of
tokens before the next segment, and the number of symbols."""
SUM_A, SUM_B = U64(0x9E3779B97F4A7C15), U64(0xC2B2AE3D27D4EB4F)
SUM_C, SUM_D = U64(0xD6E8FEB86659FD93), U64(0xBF58476D1CE4E5B9)
POINT_BITS = U64(21)
AT_ONCE = U64(4)
"""The number of symbols whose positions are written at a time."""


class Scratch(NamedTuple):
    """The buffers of one segment. `text` and `inside` are padded."""

    points: np.ndarray
    """uint32: The code points."""
    spare: np.ndarray
    """uint32: Code points between two normalization steps."""
    text: np.ndarray
    """uint8: The normalized UTF-8. Some bytes before its start are readable."""
    inside: np.ndarray
    """uint8: 2 if a byte of ASCII text belongs to a token, 0 if it is white space, else 1."""
    mask: np.ndarray
    """uint64: The bytes that belong to a token, as bits."""
    cuts: np.ndarray
    """uint64: The bytes before which a token ends although the next one belongs to a token."""
    symbols: np.ndarray
    """uint64: The bytes at which code points start that belong to no token, without white space of
    ASCII."""
    edges: np.ndarray
    """uint32: The start and the end of each token in `text`, alternating."""
    origins: np.ndarray
    """uint32: The start and the end of the part of the segment that a token comes from,
    alternating. They are written only for tokens that are not treated in place. Where nobody asks
    for them, they are a buffer for the positions of symbols."""
    sums: np.ndarray
    """uint64 (4,): The sums over the symbols of a text."""


@inlined
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


@inlined
def is_boundary(c: np.uint8) -> bool:
    """Returns True if a segment can begin with this byte: a separator other than a hyphen.

    Args:
        c: Byte of UTF-8.
    """
    return is_separator(c) and c != U8(45)


@inlined
def segment_end(data: np.ndarray, start: np.uint64, end: np.uint64, limit: np.uint64) -> np.uint64:
    """Returns where a segment of a long document ends.

    It ends before the last separator within `limit` bytes, else before the first one after them.
    It does not end before a hyphen, which can be a minus, so that the code point before it counts.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte.
        end: Position after the last byte.
        limit: Number of bytes that a segment should not exceed.
    """
    if end - start <= limit:
        return end
    i = start + limit
    while i > start and not is_boundary(data[i]):
        i -= U64(1)
    if i > start:
        return i
    i = start + limit
    while i < end and not is_boundary(data[i]):
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
def end_of_segments(
    data: np.ndarray, start: np.uint64, end: np.uint64, least: np.uint64
) -> np.uint64:
    """Returns where the first segments of a text end that have at least a number of bytes.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte of the text, or of one of its segments.
        end: Position after the last byte of the text.
        least: Number of bytes.
    """
    i = start
    while i < end and i - start < least:
        i = segment_end(data, i, end, SEGMENT)
    return i


@inlined
def classify_ascii(
    source: np.ndarray, start: np.uint64, size: np.uint64, lower: np.ndarray, inside: np.ndarray
) -> None:
    """Writes lower-case bytes, and what each byte is, in one vectorized pass. See `Scratch.inside`.

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
        is_word = (U8(low - U8(97)) < U8(26)) | (U8(c - U8(48)) < U8(10)) | (c == U8(95))
        is_space = (c == U8(32)) | (U8(c - U8(9)) < U8(5))
        inside[i] = (U8(1) ^ U8(is_space)) + U8(is_word)


@kernel
def pack_mask(inside: np.ndarray, size: np.uint64, mask: np.ndarray) -> np.uint64:
    """Packs the flags of 64 bytes of tokens into each word; returns the number of words.

    `inside` is zero beyond its end.

    Args:
        inside: What each byte is, uint8. See `Scratch.inside`.
        size: Number of bytes.
        mask: Array for the words, uint64.
    """
    words = (size + U64(63)) >> U64(6)
    for w in range(words):
        mask[w] = bytes_at_least(inside, w << U64(6), WORD_BYTE)
    return words


@inlined
def write_positions(
    bits: np.uint64, base: np.uint64, edges: np.ndarray, at: np.uint64, stride: np.uint64
) -> None:
    """Writes the positions of the set bits of a word.

    Eight positions are written at a time, because a loop over only the set bits would have an
    unpredictable end for each word. Superfluous positions are overwritten by the next ones.

    Args:
        bits: Word of flags.
        base: Position of the first flag.
        edges: Array for the positions, uint32. It has room for eight superfluous ones.
        at: Index of the first position in `edges`.
        stride: Distance of the indices of two positions.
    """
    rest = count_ones(bits)
    while rest > U64(0):
        for q in range(U64(8)):
            edges[at + q * stride] = base + trailing_zeros(bits)
            bits &= bits - U64(1)
        at += U64(8) * stride
        rest -= min(rest, U64(8))


@kernel
def token_edges(mask: np.ndarray, words: np.uint64, edges: np.ndarray) -> np.uint64:
    """Writes the positions at which the mask changes; returns the number of tokens.

    The last word ends outside a token.

    Args:
        mask: Flags, 64 per word, uint64.
        words: Number of words.
        edges: Array for the positions, uint32.
    """
    count, carry = U64(0), U64(0)
    for w in range(words):
        changes = mask[w] ^ ((mask[w] << U64(1)) | carry)
        carry = mask[w] >> U64(63)
        write_positions(changes, w << U64(6), edges, count, U64(1))
        count += count_ones(changes)
    return count >> U64(1)


@inlined
def hash_symbol(
    c: np.uint32, number: np.uint64, tokens: np.uint64, within: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Returns what a symbol adds to the two sums of hashes.

    Args:
        c: Code point of the symbol.
        number: Number of the symbol in its text, from 1.
        tokens: Number of tokens before it.
        within: Number of bytes before it of a token that it does not end, for a sign.
    """
    e = (U64(c) | (tokens << POINT_BITS)) ^ (within * SUM_D)
    x = (e ^ (number * SUM_A)) * SUM_B
    x = (x ^ (x >> U64(32))) * SUM_C
    x ^= x >> U64(29)
    y = x * SUM_A
    return x, y ^ (y >> U64(32))


@inlined
def add_symbol(c: np.uint32, tokens: np.uint64, within: np.uint64, sums: np.ndarray) -> None:
    """Adds a symbol to the sums over the symbols of a text.

    Args:
        c: Code point of the symbol.
        tokens: Number of tokens before it in its segment.
        within: Number of bytes before it of a token that it does not end, for a sign.
        sums: Sums, uint64 (4,). They are changed.
    """
    sums[SYMBOLS] += U64(1)
    low, high = hash_symbol(c, sums[SYMBOLS], sums[TOKENS] + tokens, within)
    sums[LOW] += low
    sums[HIGH] += high


@inlined
def write_symbols(
    symbols: np.uint64,
    starts: np.uint64,
    base: np.uint64,
    tokens: np.uint64,
    found: np.ndarray,
    at: np.uint64,
) -> None:
    """Writes the positions of the symbols among 64 bytes, each with the number of tokens before it.

    Some are written at a time, as in `write_positions`.

    Args:
        symbols: Flags of the symbols.
        starts: Flags of the bytes at which tokens start.
        base: Position of the first of the bytes.
        tokens: Number of tokens before it.
        found: Array for the positions and numbers, alternating, uint32. It has room for some
            superfluous ones.
        at: Index of the first position in `found`.
    """
    rest = count_ones(symbols)
    while rest > U64(0):
        for q in range(AT_ONCE):
            bit = symbols & (U64(0) - symbols)
            found[at + q + q] = base + trailing_zeros(symbols)
            found[at + q + q + U64(1)] = tokens + count_ones(starts & (bit - U64(1)))
            symbols ^= bit
        at += AT_ONCE + AT_ONCE
        rest -= min(rest, AT_ONCE)


@inlined
def add_all(symbols: np.ndarray, count: np.uint64, sums: np.ndarray) -> None:
    """Adds symbols to the sums over the symbols of a text.

    Args:
        symbols: Code point of each symbol, and number of tokens before it, alternating, uint32.
        count: Number of symbols.
        sums: Sums, uint64 (4,). They are changed.
    """
    number = sums[SYMBOLS] + U64(1)
    low, high = sums[LOW], sums[HIGH]
    for i in range(count):
        x, y = hash_symbol(symbols[i + i], number + i, U64(symbols[i + i + U64(1)]), U64(0))
        low += x
        high += y
    sums[LOW] = low
    sums[HIGH] = high
    sums[SYMBOLS] += count


@inlined
def add_ascii_symbols(size: np.uint64, scratch: Scratch) -> None:
    """Adds the symbols of a segment of ASCII to the sums of its text.

    The positions of all symbols are written first, so that neither loop has a branch that depends
    on where symbols are.

    Args:
        size: Number of bytes of the segment.
        scratch: Buffers of one segment, with the result of `pack_mask`.
    """
    found = scratch.origins
    count, carry = U64(0), U64(0)
    tokens = scratch.sums[TOKENS]
    for w in range((size + U64(63)) >> U64(6)):
        base = w << U64(6)
        m = scratch.mask[w]
        starts = m & ~((m << U64(1)) | carry)
        carry = m >> U64(63)
        symbols = bytes_at_least(scratch.inside, base, VISIBLE_BYTE) & ~m
        write_symbols(symbols, starts, base, tokens, found, count + count)
        count += count_ones(symbols)
        tokens += count_ones(starts)
    for i in range(count):
        found[i + i] = scratch.text[found[i + i]]
    add_all(found, count, scratch.sums)


@inlined
def ascii_tokens(
    data: np.ndarray, start: np.uint64, size: np.uint64, covers: bool, scratch: Scratch
) -> np.uint64:
    """Writes lower-case bytes to text and token bounds to edges; returns the number of tokens.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte of the segment.
        size: Number of bytes of the segment.
        covers: Whether symbols are added to the sums.
        scratch: Buffers of one segment. They are overwritten.
    """
    classify_ascii(data, start, size, scratch.text, scratch.inside)
    scratch.inside[size : size + U64(72)] = 0
    words = pack_mask(scratch.inside, size + U64(1), scratch.mask)
    if covers:
        add_ascii_symbols(size, scratch)
    return token_edges(scratch.mask, words, scratch.edges)


@kernel
def split_tokens(
    points: np.ndarray,
    count: np.uint64,
    stage: np.ndarray,
    properties: np.ndarray,
    covers: bool,
    text: np.ndarray,
    at: np.uint64,
    edges: np.ndarray,
    tokens: np.uint64,
    sums: np.ndarray,
) -> tuple[np.uint64, np.uint64]:
    """Appends the UTF-8 bytes and the bounds of tokens.

    Skipped code points are removed, and single code points are separate tokens. A minus is one
    that stands before a digit, and not in or behind a word.

    Args:
        points: Normalized code points, uint32.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
        covers: Whether symbols are added to the sums.
        text: Array for the bytes, uint8.
        at: Position of the first byte in `text`.
        edges: Array for the first byte and the end of each token, alternating, uint32.
        tokens: Number of tokens that `edges` has already.
        sums: Sums over the symbols of the text, uint64 (4,). They are changed.

    Returns:
        The position after the last byte, and the number of tokens.
    """
    open_token = False
    for i in range(count):
        c = points[i]
        p = properties[place(stage, c)]
        kind = p & KIND
        if kind == SKIP:
            if covers and p & SIGN:
                within = at - U64(edges[tokens + tokens]) if open_token else U64(0)
                add_symbol(c, tokens, within, sums)
            continue
        if kind == MINUS:
            following = i + U64(1)
            is_minus = not open_token and following < count
            if is_minus and properties[place(stage, points[following])] & DIGIT:
                kind = SINGLE
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
        elif covers and kind != SPACE:
            add_symbol(c, tokens, U64(0), sums)
    if open_token:
        edges[tokens + tokens + U64(1)] = at
        tokens += U64(1)
    return at, tokens


@inlined
def point_size(lead: np.uint8) -> np.uint64:
    """Returns the number of bytes of a code point in UTF-8.

    Args:
        lead: First byte of the code point.
    """
    return U64(1) + U64(lead >= U8(0xC0)) + U64(lead >= U8(0xE0)) + U64(lead >= U8(0xF0))


@inlined
def decode_at(text: np.ndarray, at: np.uint64) -> np.uint32:
    """Returns the code point of valid UTF-8 that starts at a position.

    Args:
        text: UTF-8 bytes, uint8.
        at: Position of the first byte of the code point.
    """
    c = U32(text[at])
    if c < U32(0x80):
        return c
    second = U32(text[at + U64(1)]) & U32(0x3F)
    if c < U32(0xE0):
        return U32(((c & U32(0x1F)) << U32(6)) | second)
    third = U32(text[at + U64(2)]) & U32(0x3F)
    if c < U32(0xF0):
        return U32(((c & U32(0x0F)) << U32(12)) | (second << U32(6)) | third)
    fourth = U32(text[at + U64(3)]) & U32(0x3F)
    return U32(((c & U32(0x07)) << U32(18)) | (second << U32(12)) | (third << U32(6)) | fourth)


@inlined
def action_of(c: np.uint32, tables: CodePointTables) -> np.uint32:
    """Returns how a code point is treated in place. See `CodePointTables.actions`.

    Args:
        c: Code point.
        tables: Properties of all code points.
    """
    if c < PLANE:
        return U32(tables.plane[c])
    return U32(tables.actions[place(tables.stage, c)])


@kernel
def previous_point(text: np.ndarray, at: np.uint64) -> np.uint64:
    """Returns the start of the code point before the one at a position after the first one.

    Args:
        text: UTF-8 bytes, uint8.
        at: Position of the first byte of a code point.
    """
    at -= U64(1)
    while (text[at] & U8(0xC0)) == U8(0x80):
        at -= U64(1)
    return at


@kernel
def stays_after_previous(
    text: np.ndarray,
    at: np.uint64,
    c: np.uint32,
    joins: bool,
    stage: np.ndarray,
    properties: np.ndarray,
    decomposed: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
) -> bool:
    """Returns True if a mark neither composes with the code point before it nor moves before it.

    False can also mean that a look at the previous code point alone does not tell.

    Args:
        text: UTF-8 bytes, uint8.
        at: Position of the first byte of the mark, which is not the first byte of the text.
        c: Code point of the mark.
        joins: Whether the mark composes with some code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
        decomposed: Place of the decomposition in each block, uint32. See `CodePointTables`.
        keys: Sorted pairs of canonical compositions, first << 32 | second, uint64 (m,).
        values: Composite of each pair, uint32 (m,).
    """
    before = decode_at(text, previous_point(text, at))
    where = place(stage, before)
    last = (properties[where] >> CLASS_SHIFT) & CLASS_MASK
    if not joins:
        return last <= (properties[place(stage, c)] >> CLASS_SHIFT) & CLASS_MASK
    is_simple = last == U32(0) and decomposed[where] == U32(0)
    return is_simple and composite(before, c, keys, values) == U32(0)


@inlined
def cut_before(
    text: np.ndarray, first: np.uint64, at: np.uint64, tables: CodePointTables
) -> np.uint64:
    """Returns the last position in [first, at] at which the text can be divided, or `first`.

    Args:
        text: UTF-8 bytes, uint8.
        first: Position of the first byte of the text.
        at: Position of the first byte of a code point.
        tables: Properties of all code points.
    """
    while at > first and not action_of(decode_at(text, at), tables) & CUT:
        at = previous_point(text, at)
    return at


@inlined
def cut_after(
    text: np.ndarray, at: np.uint64, end: np.uint64, tables: CodePointTables
) -> np.uint64:
    """Returns the next position after `at` at which the text can be divided, or `end`.

    Args:
        text: UTF-8 bytes, uint8.
        at: Position of the first byte of a code point.
        end: Position after the last byte of the text.
        tables: Properties of all code points.
    """
    at += point_size(text[at])
    while at < end and not action_of(decode_at(text, at), tables) & CUT:
        at += point_size(text[at])
    return at


@inlined
def extend_flags(flags: np.uint64, carry: np.uint64, tails: np.uint64) -> np.uint64:
    """Copies the flags of the first bytes of code points to their other bytes.

    Args:
        flags: Flags of 64 bytes, of which only first bytes are flagged.
        carry: Flag of the byte before them, 0 or 1.
        tails: Bytes that continue a code point.
    """
    for _ in range(3):
        flags |= ((flags << U64(1)) | carry) & tails
    return flags


@inlined
def lone_letters(text: np.ndarray, base: np.uint64, with_kana: bool) -> np.uint64:
    """Returns which of 64 bytes start a common ideograph (U+4E00 to U+9FFF) or a kana.

    These code points are tokens, and neither normalization nor lower case changes them.

    Args:
        text: UTF-8 bytes, uint8. Two more bytes than 64 are readable.
        base: Position of the first of the bytes.
        with_kana: Whether normalization leaves kana unchanged.
    """
    from_e4 = bytes_at_least(text, base, U8(0xE4))
    kana = bytes_at_least(text, base, U8(0xE3)) & ~from_e4
    lone = from_e4 & ~bytes_at_least(text, base, U8(0xEA))
    if lone:
        from_e5 = bytes_at_least(text, base, U8(0xE5))
        lone &= from_e5 | bytes_at_least(text, base + U64(1), U8(0xB8))
    if kana and with_kana:
        second, third = base + U64(1), base + U64(2)
        from_82 = bytes_at_least(text, second, U8(0x82))
        from_83 = bytes_at_least(text, second, U8(0x83))
        # U+3041 to U+307F, U+3080 to U+3096 and U+30A1 to U+30BF, U+30C0 to U+30FA
        first_row = bytes_at_least(text, second, U8(0x81)) & ~from_82
        first_row &= bytes_at_least(text, third, U8(0x81))
        second_row = from_82 & ~from_83
        second_row &= bytes_at_least(text, third, U8(0xA1)) | ~bytes_at_least(text, third, U8(0x97))
        third_row = from_83 & ~bytes_at_least(text, second, U8(0x84))
        third_row &= ~bytes_at_least(text, third, U8(0xBB))
        lone |= kana & (first_row | second_row | third_row)
    return lone


@inlined
def mark_tokens(
    first: np.uint64, size: np.uint64, tables: CodePointTables, scratch: Scratch
) -> np.uint64:
    """Lower-cases text in place and marks its tokens, up to a code point that needs a copy.

    The bytes of all code points beyond ASCII belong to tokens, until a flag of their action says
    something else. So words, the most frequent case, need nothing but the look at their actions.
    A flag of a code point is set at its first byte, and moves on to its other bytes 64 at a time.

    Args:
        first: Position in scratch.text of the first byte.
        size: Position after the last byte. 64 more bytes are readable and are 0.
        tables: Properties of all code points.
        scratch: Buffers of one segment, with the result of `classify_ascii`.

    Returns:
        The position of the first code point that cannot be treated in place, or `size`.
    """
    text = scratch.text
    plane = tables.plane
    # The step `marks` removes the voiced mark of kana such as GA.
    with_kana = plane[GA] & SLOW == U32(0)
    stop = size
    valid = ~U64(0) << (first & U64(63))
    outside_carry = U64(0)
    alone_carry = U64(0)
    after_mark = first
    w = first >> U64(6)
    while (w << U64(6)) < stop:
        base = w << U64(6)
        high = bytes_at_least(text, base, U8(0x80)) & valid
        leads = bytes_at_least(text, base, U8(0xC0)) & valid
        valid = ~U64(0)
        tails = high & ~leads
        outside = U64(0)
        alone = lone_letters(text, base, with_kana) & leads
        leads ^= alone
        while leads:
            at = base + trailing_zeros(leads)
            bit = leads & (U64(0) - leads)
            leads ^= bit
            c = decode_at(text, at)
            action = U32(plane[c]) if c < PLANE else action_of(c, tables)
            if action == U32(0):
                continue
            if action >= ORDERED:
                joins = action & JOINS != U32(0)
                is_doubtful = at > first and (joins or (action & ORDERED and at == after_mark))
                if action & SLOW or (
                    is_doubtful
                    and not stays_after_previous(
                        text,
                        at,
                        c,
                        joins,
                        tables.stage,
                        tables.properties,
                        tables.decomposed,
                        tables.pair_keys,
                        tables.pair_values,
                    )
                ):
                    stop = at
                    break
                if action & ORDERED:
                    after_mark = at + point_size(text[at])
                step = action >> STEP_SHIFT
                if step:
                    encode(U32(c + step), text, at)
            outside |= bit & (U64(0) - U64(action & OUTSIDE))
            alone |= bit & (U64(0) - U64((action & ALONE) >> U32(1)))
        first_bytes = alone
        visible = bytes_at_least(scratch.inside, base, VISIBLE_BYTE) & ~high
        scratch.symbols[w] = outside | visible
        outside = extend_flags(outside, outside_carry, tails)
        alone = extend_flags(alone, alone_carry, tails)
        m = bytes_at_least(scratch.inside, base, WORD_BYTE) | (high & ~outside)
        scratch.mask[w] = m
        scratch.symbols[w] &= ~m
        scratch.cuts[w] = first_bytes | (((alone << U64(1)) | alone_carry) & ~tails)
        outside_carry = outside >> U64(63)
        alone_carry = alone >> U64(63)
        w += U64(1)
    return stop


@inlined
def append_edges(
    first: np.uint64, end: np.uint64, scratch: Scratch, tokens: np.uint64
) -> np.uint64:
    """Appends the bounds of the tokens in a range of marked text; returns the number of tokens.

    Args:
        first: Position of the first byte. A token can start there.
        end: Position after the last byte. The last token ends there at the latest.
        scratch: Buffers of one segment, with the result of `mark_tokens`.
        tokens: Number of tokens that scratch.edges has already.
    """
    edges = scratch.edges
    written = tokens + tokens
    valid = ~U64(0) << (first & U64(63))
    carry = U64(0)
    for w in range(first >> U64(6), (end >> U64(6)) + U64(1)):
        base = w << U64(6)
        m = scratch.mask[w] & valid
        valid = ~U64(0)
        if end - base < U64(64):
            m &= (U64(1) << (end - base)) - U64(1)
        before = (m << U64(1)) | carry
        carry = m >> U64(63)
        cut = scratch.cuts[w] & m & before
        if cut:
            write_positions(m & (~before | cut), base, edges, (written + U64(1)) & ~U64(1), U64(2))
            write_positions(before & (~m | cut), base, edges, written | U64(1), U64(2))
            written += count_ones(m ^ before) + U64(2) * count_ones(cut)
        else:
            write_positions(m ^ before, base, edges, written, U64(1))
            written += count_ones(m ^ before)
    return written >> U64(1)


@kernel
def normalise_symbol(
    c: np.uint32,
    tokens: np.uint32,
    tables: CodePointTables,
    symbols: np.ndarray,
    count: np.uint64,
) -> np.uint64:
    """Appends the symbols that a code point beyond ASCII becomes, which belongs to no token.

    Args:
        c: Code point.
        tokens: Number of tokens before it in its text.
        tables: Properties of all code points.
        symbols: Array for code points and numbers of tokens, alternating, uint32.
        count: Number of symbols that it has already.

    Returns:
        The number of symbols. White space is not one.
    """
    where = place(tables.stage, c)
    p = tables.properties[where]
    entry = tables.decomposed[where]
    first = U64(entry >> U32(5))
    parts = U64(entry & U32(31)) if p & UNSTABLE else U64(0)
    for q in range(max(parts, U64(1))):
        part = tables.data[first + q] if parts else c
        if tables.properties[place(tables.stage, part)] & KIND != SPACE:
            symbols[count + count] = part
            symbols[count + count + U64(1)] = tokens
            count += U64(1)
    return count


@inlined
def add_symbols(
    first: np.uint64,
    end: np.uint64,
    tables: CodePointTables,
    scratch: Scratch,
    tokens: np.uint64,
) -> None:
    """Adds the symbols in a range of marked text to the sums of the text.

    Args:
        first: Position of the first byte.
        end: Position after the last byte.
        tables: Properties of all code points.
        scratch: Buffers of one segment, with the result of `mark_tokens`.
        tokens: Number of tokens before the range in the segment.
    """
    text, found = scratch.text, scratch.origins
    points = scratch.points
    valid = ~U64(0) << (first & U64(63))
    count, carry = U64(0), U64(0)
    tokens += scratch.sums[TOKENS]
    for w in range(first >> U64(6), (end >> U64(6)) + U64(1)):
        base = w << U64(6)
        if end - base < U64(64):
            valid &= (U64(1) << (end - base)) - U64(1)
        m = scratch.mask[w] & valid
        starts = m & (~((m << U64(1)) | carry) | scratch.cuts[w])
        carry = m >> U64(63)
        symbols = scratch.symbols[w] & valid
        valid = ~U64(0)
        write_symbols(symbols, starts, base, tokens, found, count + count)
        count += count_ones(symbols)
        tokens += count_ones(starts)
    symbols_found = U64(0)
    for i in range(count):
        at = U64(found[i + i])
        c = U32(text[at])
        before = found[i + i + U64(1)]
        is_plain = True
        if c >= U32(0x80):
            c = decode_at(text, at)
            is_plain = action_of(c, tables) & PLAIN != U32(0)
            if is_plain:
                c = U32(c + tables.lower[place(tables.stage, c)])
        if is_plain:
            points[symbols_found + symbols_found] = c
            points[symbols_found + symbols_found + U64(1)] = before
            symbols_found += U64(1)
        else:
            symbols_found = normalise_symbol(c, before, tables, points, symbols_found)
    add_all(points, symbols_found, scratch.sums)


@inlined
def mixed_tokens(
    data: np.ndarray,
    start: np.uint64,
    size: np.uint64,
    covers: bool,
    tables: CodePointTables,
    scratch: Scratch,
) -> np.uint64:
    """Computes `segment_tokens` for text of any script, of which little is copied.

    Text is marked in place up to a code point that normalization may change. The text around it, up
    to the next positions at which the text can be divided, is normalized as a copy, which is
    written behind the segment. Each byte is looked at a constant number of times.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte of the segment.
        size: Number of bytes of the segment.
        covers: Whether symbols are added to the sums.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.

    Returns:
        The number of tokens.
    """
    text, edges = scratch.text, scratch.edges
    classify_ascii(data, start, size, text, scratch.inside)
    scratch.inside[size : size + U64(72)] = 0
    text[size : size + U64(72)] = 0
    behind = size + U64(72)
    tokens, first = U64(0), U64(0)
    while first < size:
        stop = mark_tokens(first, size, tables, scratch)
        cut = stop
        if stop < size:
            cut = cut_before(text, first, stop, tables)
        if covers:
            add_symbols(first, cut, tables, scratch, tokens)
        tokens = append_edges(first, cut, scratch, tokens)
        if stop == size:
            return tokens
        first = cut_after(text, stop, size, tables)
        count = normalise(data, start + cut, start + first, tables, scratch.points, scratch.spare)
        in_place = tokens
        behind, tokens = split_tokens(
            scratch.points,
            count,
            tables.stage,
            tables.properties,
            covers,
            text,
            behind,
            edges,
            tokens,
            scratch.sums,
        )
        for t in range(in_place, tokens):
            scratch.origins[t + t] = cut
            scratch.origins[t + t + U64(1)] = first
    return tokens


@inlined
def segment_tokens(
    data: np.ndarray,
    start: np.uint64,
    end: np.uint64,
    fast: bool,
    covers: bool,
    tables: CodePointTables,
    scratch: Scratch,
) -> np.uint64:
    """Writes the tokens of one segment: bytes to scratch.text, bounds to edges.

    `fast` allows the ASCII path. The symbols of the segment are added to scratch.sums.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte of the segment.
        end: Position after the last byte of the segment.
        fast: Whether a segment of ASCII can take the faster path.
        covers: Whether symbols are added to the sums.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.

    Returns:
        The number of tokens.
    """
    if fast and is_ascii(data, start, end):
        tokens = ascii_tokens(data, start, end - start, covers, scratch)
    elif fast:
        tokens = mixed_tokens(data, start, end - start, covers, tables, scratch)
    else:
        count = normalise(data, start, end, tables, scratch.points, scratch.spare)
        _, tokens = split_tokens(
            scratch.points,
            count,
            tables.stage,
            tables.properties,
            covers,
            scratch.text,
            U64(0),
            scratch.edges,
            U64(0),
            scratch.sums,
        )
    scratch.sums[TOKENS] += tokens
    return tokens
