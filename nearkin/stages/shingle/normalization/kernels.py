"""Kernels of normalization: from UTF-8 to code points in normal form NFKC and lower case."""

from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import kernel

U32 = np.uint32
U64 = np.uint64

OTHER = U32(0)
WORD = U32(1)
SINGLE = U32(2)
SKIP = U32(3)
SPACE = U32(4)
MINUS = U32(5)
KIND = U32(7)
MARK = U32(8)
DIGIT = U32(16)
UNSTABLE = U32(64)
SECOND = U32(128)
BASE = U32(1 << 16)
SIGN = U32(1 << 18)
OUTSIDE = U32(1)
ALONE = U32(2)
CUT = U32(4)
PLAIN = U32(8)
ORDERED = U32(16)
JOINS = U32(32)
SLOW = U32(64)
STEP_SHIFT = U32(8)
PLANE = U32(0x10000)
CLASS_SHIFT, CLASS_MASK = U32(8), U32(255)
L_BASE = U32(0x1100)
V_BASE = U32(0x1161)
T_BASE = U32(0x11A7)
S_BASE = U32(0xAC00)
L_COUNT = U32(19)
V_COUNT = U32(21)
T_COUNT = U32(28)
S_COUNT = U32(11172)

"""The flags of actions, which say what is done with a code point if a text is not copied.

OUTSIDE: It belongs to no token. ALONE: It is a token. CUT: Text before it and text from it on are
normalized and tokenized independently. PLAIN: It is a symbol, and becomes one code point, whose
distance is in `lower`. ORDERED: It is a mark with a combining class. JOINS: It
composes with some code points that have no case. SLOW: It cannot be treated in place. STEP_SHIFT:
The position of the distance to the lower case.
"""


class CodePointTables(NamedTuple):
    """The properties of all code points, for one choice of normalization steps."""

    stage: np.ndarray
    """uint16: The block of properties of each 128 code points."""
    properties: np.ndarray
    """uint32: Class, flags, canonical combining class << 8."""
    lower: np.ndarray
    """uint32: The number to add, modulo 2³², for the lower case or the case fold."""
    decomposed: np.ndarray
    """uint32: Start << 5 | length of the compatibility decomposition in `data`, or 0."""
    data: np.ndarray
    """uint32: The decompositions, one after the other."""
    pair_keys: np.ndarray
    """uint64: Sorted pairs of canonical compositions, first << 32 | second."""
    pair_values: np.ndarray
    """uint32: The composite of each pair."""
    actions: np.ndarray
    """uint16: How each code point is treated in place, with the layout of `properties`.

    The flags are those of OUTSIDE and the following constants. The number to add for the lower case
    is `action >> STEP_SHIFT`. A part of a longer word has the action 0.
    """
    plane: np.ndarray
    """uint16 (PLANE,): The actions of the first plane, without stages."""
    composes: bool
    """Whether Hangul syllables are decomposed and composed, as normal forms require."""
    covers_symbols: bool
    """Whether the content hash covers symbols, besides tokens."""


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
    composes: bool,
    out: np.ndarray,
) -> np.uint64:
    """Writes the full compatibility decomposition: NFKD before reordering.

    Args:
        points: Code points, uint32.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        decomposed: Place of the decomposition in each block, uint32. See `CodePointTables`.
        data: Decompositions, one after the other, uint32.
        composes: Whether Hangul syllables are decomposed.
        out: Array for the code points, uint32.

    Returns:
        The number of code points that were written.
    """
    n = U64(0)
    for i in range(count):
        c = points[i]
        entry = decomposed[place(stage, c)]
        s = c - S_BASE
        if s < S_COUNT and composes:
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
    first, last = U64(0), U32(0)
    is_sorted = True
    for i in range(count):
        order = (properties[place(stage, points[i])] >> CLASS_SHIFT) & CLASS_MASK
        if order == U32(0):
            if not is_sorted:
                sort_marks(points[first:i], stage, properties)
            first, is_sorted = i + U64(1), True
        is_sorted = is_sorted and (order == U32(0) or last <= order)
        last = order
    if not is_sorted:
        sort_marks(points[first:count], stage, properties)


@kernel
def sort_marks(marks: np.ndarray, stage: np.ndarray, properties: np.ndarray) -> None:
    """Sorts marks by combining class, stably, in a time that is proportional to their number.

    Args:
        marks: Code points of one run of marks, uint32. They are reordered.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
    """
    before = marks.copy()
    places = np.zeros(int(CLASS_MASK) + 2, np.int64)
    for c in before:
        places[((properties[place(stage, c)] >> CLASS_SHIFT) & CLASS_MASK) + U32(1)] += 1
    for order in range(1, places.shape[0]):
        places[order] += places[order - 1]
    for c in before:
        order = (properties[place(stage, c)] >> CLASS_SHIFT) & CLASS_MASK
        marks[places[order]] = c
        places[order] += 1


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
        p = properties[place(stage, c)]
        order = (p >> CLASS_SHIFT) & CLASS_MASK
        adjacent = n == starter + U64(1)
        if p & SECOND and has_starter and (adjacent or (last < order and last != U32(0))):
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
    """Removes marks (category M) of bases that may lose them in place; returns the new length.

    The properties of U+0000 say whether marks without a base are removed.

    Args:
        points: Code points, uint32. They are overwritten.
        count: Number of code points.
        stage: Block of properties of each 128 code points, uint16. See `CodePointTables`.
        properties: Properties of the code points in each block, uint32. See `CodePointTables`.
    """
    n = U64(0)
    base = properties[place(stage, U32(0))] & BASE
    for i in range(count):
        p = properties[place(stage, points[i])]
        if p & MARK:
            if base:
                continue
        elif p & KIND != SKIP:
            base = p & BASE
        points[n] = points[i]
        n += U64(1)
    return n


@kernel
def map_lower(points: np.ndarray, count: np.uint64, stage: np.ndarray, lower: np.ndarray) -> None:
    """Applies the case mapping to one code point of the table in place.

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
    n = decompose(points, count, tables.stage, tables.decomposed, tables.data, tables.composes, out)
    reorder(out, n, tables.stage, tables.properties)
    n = drop_marks(out, n, tables.stage, tables.properties)
    return compose(out, n, tables.stage, tables.properties, tables.pair_keys, tables.pair_values)


@kernel
def normalise(
    data: np.ndarray,
    start: np.uint64,
    end: np.uint64,
    tables: CodePointTables,
    points: np.ndarray,
    spare: np.ndarray,
) -> np.uint64:
    """Writes the normalized code points of a text into points; returns their number.

    The steps are NFKC, lower case, and NFKC again if lower case has undone it. A case fold to
    several code points is a decomposition.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        start: Position of the first byte of the text.
        end: Position after the last byte of the text.
        tables: Properties of all code points.
        points: Array for the code points, uint32.
        spare: Buffer for code points between two steps, uint32.
    """
    count = decode(data, start, end, points)
    if needs_normalising(points, count, tables.stage, tables.properties):
        count = normal_form(points, count, spare, tables)
        map_lower(spare, count, tables.stage, tables.lower)
        return normal_form(spare, count, points, tables)
    map_lower(points, count, tables.stage, tables.lower)
    return count
