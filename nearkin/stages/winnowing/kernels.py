"""Kernels of passages: fingerprints, windows that occur twice, and the runs that they form.

A window is a run of `least` tokens. Its anchor is the run of `width` tokens in it that has the
smallest hash. Equal windows have equal anchors, at the same distance from their starts (winnowing:
Schleimer, Wilkerson, Aiken, SIGMOD 2003, section 4).

Runs of tokens are hashed by a polynomial over the token hashes (Karp and Rabin, 1987) modulo the
prime 2^61 - 1.
"""

import numpy as np

from nearkin.runtime.jit import inlined, kernel
from nearkin.stages.hashing.kernels import mix64, multiply_wide

U32 = np.uint32
U64 = np.uint64

PRIME = U64((1 << 61) - 1)
BASE = U64(0x0A3F1C9D27B6E581)
"""The base of the polynomial of hashes."""
CHECK_BASE = U64(0x14D2E6A08F537B1D)
"""The base of a second polynomial, with which hashes have 122 bits together."""
NONE = U64(0xFFFFFFFFFFFFFFFF)
"""The place of a window that occurs once."""
EMPTY = U32(0xFFFFFFFF)
WORD_SHIFT = U64(18)
"""The shift of a mixed hash that leaves the word of an anchor in a filter. `bits_of` uses the bits
below."""


@inlined
def multiply(a: np.uint64, b: np.uint64) -> np.uint64:
    """Returns a product modulo the prime.

    Args:
        a: First factor, below the prime.
        b: Second factor, below the prime.
    """
    high, low = multiply_wide(a, b)
    product = high + low
    return product - PRIME if product >= PRIME else product


@inlined
def add(a: np.uint64, b: np.uint64) -> np.uint64:
    """Returns a sum modulo the prime.

    Args:
        a: First term, below the prime.
        b: Second term, below the prime.
    """
    total = a + b
    return total - PRIME if total >= PRIME else total


@inlined
def subtract(a: np.uint64, b: np.uint64) -> np.uint64:
    """Returns a difference modulo the prime.

    Args:
        a: Minuend, below the prime.
        b: Subtrahend, below the prime.
    """
    return a - b if a >= b else a + PRIME - b


@inlined
def residue(token: np.uint64) -> np.uint64:
    """Returns the number below the prime that stands for a token hash."""
    value = token & PRIME
    return U64(0) if value == PRIME else value


@kernel
def power(base: np.uint64, exponent: np.uint64) -> np.uint64:
    """Returns a power modulo the prime.

    Args:
        base: Base, below the prime.
        exponent: Exponent.
    """
    result = U64(1)
    while exponent:
        if exponent & U64(1):
            result = multiply(result, base)
        base = multiply(base, base)
        exponent >>= U64(1)
    return result


@kernel
def hash_runs(
    tokens: np.ndarray,
    first: np.uint64,
    count: np.uint64,
    width: np.uint64,
    base: np.uint64,
    out: np.ndarray,
) -> None:
    """Computes the hash of each run of `width` tokens of a document.

    Args:
        tokens: Token hashes, uint64.
        first: Position of the first token of the document.
        count: Number of tokens of the document, at least `width`.
        width: Number of tokens of a run.
        base: Base of the polynomial.
        out: Array for the hashes, uint64 (count - width + 1,) or longer.
    """
    leaving = power(base, width)
    value = U64(0)
    for i in range(width):
        value = add(multiply(value, base), residue(tokens[first + i]))
    out[U64(0)] = value
    for i in range(width, count):
        value = add(multiply(value, base), residue(tokens[first + i]))
        value = subtract(value, multiply(leaving, residue(tokens[first + i - width])))
        out[i - width + U64(1)] = value


@kernel
def select_anchors(
    hashes: np.ndarray, count: np.uint64, width: np.uint64, suffix: np.ndarray, out: np.ndarray
) -> None:
    """Finds the smallest hash in each window of `width` hashes, the last one of equal hashes.

    Each window is a suffix of one block of `width` hashes and a prefix of the next block (van Herk,
    Pattern Recognition Letters 13, 1992), so the time does not depend on the width.

    Args:
        hashes: Hashes of runs, uint64 (count,) or longer.
        count: Number of hashes, at least `width`.
        width: Number of hashes in a window.
        suffix: Buffer, uint32 (count,) or longer.
        out: Array for the position of the smallest hash of each window, uint32
            (count - width + 1,) or longer.
    """
    for block in range(U64(0), count, width):
        end = min(block + width, count)
        best = end - U64(1)
        for step in range(end - block):
            i = end - U64(1) - step
            if hashes[i] < hashes[best]:
                best = i
            suffix[i] = best
    best = U64(0)
    for i in range(count):
        if i % width == U64(0) or hashes[i] <= hashes[best]:
            best = i
        if i + U64(1) >= width:
            window = i + U64(1) - width
            before = U64(suffix[window])
            out[window] = best if hashes[best] <= hashes[before] else before


@kernel
def collect_anchors(
    tokens: np.ndarray,
    offsets: np.ndarray,
    least: np.uint64,
    width: np.uint64,
    hashes: np.ndarray,
    suffix: np.ndarray,
    anchors: np.ndarray,
    out: np.ndarray,
) -> np.uint64:
    """Writes the hash of each anchor of documents, once for all windows that share it.

    Args:
        tokens: Token hashes, uint64.
        offsets: First token of each document, and the end, int64 (documents + 1,).
        least: Number of tokens of a window.
        width: Number of tokens of an anchor.
        hashes: Buffer of as many elements as the longest document has tokens, uint64.
        suffix: Buffer of the same size, uint32.
        anchors: Buffer of the same size, uint32.
        out: Array for the hashes, uint64, as long as `tokens`.

    Returns:
        The number of hashes.
    """
    found = U64(0)
    for d in range(offsets.shape[0] - 1):
        count = U64(offsets[d + 1] - offsets[d])
        if count < least:
            continue
        hash_runs(tokens, U64(offsets[d]), count, width, BASE, hashes)
        runs = count - width + U64(1)
        select_anchors(hashes, runs, least - width + U64(1), suffix, anchors)
        last = U64(count)
        for i in range(count - least + U64(1)):
            if U64(anchors[i]) != last:
                last = U64(anchors[i])
                out[found] = hashes[last]
                found += U64(1)
    return found


@inlined
def bits_of(mixed: np.uint64) -> np.uint64:
    """Returns the three bits of an anchor in its word of a filter. Some may coincide.

    A Bloom filter whose hashes stay in one word (Putze, Sanders, Singler, WEA 2007): with three
    anchors in a word, one in 220 others has its bits set, and one in 22 with a single bit each.

    Args:
        mixed: Mixed hash of the anchor.
    """
    first = U64(1) << (mixed & U64(63))
    second = U64(1) << (mixed >> U64(6) & U64(63))
    third = U64(1) << (mixed >> U64(12) & U64(63))
    return first | second | third


@kernel
def count_anchors(hashes: np.ndarray, once: np.ndarray, twice: np.ndarray) -> None:
    """Sets the bits of hashes in a filter, and in a second one if all of them are set already.

    Args:
        hashes: Hashes of anchors, uint64 (m,).
        once: Bits of the hashes that were seen, uint64, a power of two of words.
        twice: Bits of the hashes that were seen twice, of the same size.
    """
    last_word = U64(once.shape[0]) - U64(1)
    for i in range(hashes.shape[0]):
        mixed = mix64(hashes[i])
        word = (mixed >> WORD_SHIFT) & last_word
        bits = bits_of(mixed)
        if once[word] & bits == bits:
            twice[word] |= bits
        once[word] |= bits


@kernel
def collect_windows(
    tokens: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    offsets: np.ndarray,
    places: np.ndarray,
    least: np.uint64,
    width: np.uint64,
    twice: np.ndarray,
    hashes: np.ndarray,
    suffix: np.ndarray,
    anchors: np.ndarray,
    checks: np.ndarray,
    out_hashes: np.ndarray,
    out_checks: np.ndarray,
    out_places: np.ndarray,
    out_spans: np.ndarray,
) -> np.uint64:
    """Writes the windows whose anchors may occur twice.

    Args:
        tokens: Token hashes, uint64.
        starts: First byte of each token in its document, uint32.
        ends: Byte after the last one of each token in its document, uint32.
        offsets: First token of each document, and the end, int64 (documents + 1,).
        places: Place of the first token of each document, uint64 (documents,): the number of the
            document in the upper half, that of the token in the lower half.
        least: Number of tokens of a window.
        width: Number of tokens of an anchor.
        twice: Bits of the hashes of anchors that were seen twice, uint64.
        hashes: Buffer of as many elements as the longest document has tokens, uint64.
        suffix: Buffer of the same size, uint32.
        anchors: Buffer of the same size, uint32.
        checks: Buffer of the same size, uint64.
        out_hashes: Array for the hashes of the windows, uint64, as long as `tokens`.
        out_checks: Array for their second hashes, uint64, as long as `tokens`.
        out_places: Array for the places of their first tokens, uint64, as long as `tokens`.
        out_spans: Array for their first byte and the byte after the last one, uint32
            (len(tokens), 2).

    Returns:
        The number of windows.
    """
    last_word = U64(twice.shape[0]) - U64(1)
    found = U64(0)
    for d in range(offsets.shape[0] - 1):
        first = U64(offsets[d])
        count = U64(offsets[d + 1]) - first
        if count < least:
            continue
        hash_runs(tokens, first, count, width, BASE, hashes)
        runs = count - width + U64(1)
        select_anchors(hashes, runs, least - width + U64(1), suffix, anchors)
        windows = count - least + U64(1)
        begin = found
        last, is_wanted = U64(count), False
        for i in range(windows):
            if U64(anchors[i]) != last:
                last = U64(anchors[i])
                mixed = mix64(hashes[last])
                bits = bits_of(mixed)
                is_wanted = twice[(mixed >> WORD_SHIFT) & last_word] & bits == bits
            if is_wanted:
                out_places[found] = places[d] + i
                out_spans[found, U64(0)] = starts[first + i]
                out_spans[found, U64(1)] = ends[first + i + least - U64(1)]
                found += U64(1)
        if found == begin:
            continue
        hash_runs(tokens, first, count, least, BASE, hashes)
        hash_runs(tokens, first, count, least, CHECK_BASE, checks)
        for w in range(begin, found):
            i = out_places[w] - places[d]
            out_hashes[w] = hashes[i]
            out_checks[w] = checks[i]
    return found


@kernel
def insert_windows(
    windows: np.ndarray,
    start: np.uint64,
    slots: np.ndarray,
    firsts: np.ndarray,
    seconds: np.ndarray,
    used: np.uint64,
) -> tuple[np.uint64, np.uint64]:
    """Adds windows to a table of the first two places of each content, until it is half full.

    Args:
        windows: Hash, second hash and number of each window, in the order of the numbers, uint64
            (m, 3).
        start: Window to begin with.
        slots: Table of entries, uint32, a power of two of them; EMPTY if a slot is free.
        firsts: Row in `windows` of the first window of each entry, uint64.
        seconds: Row of the second one, or NONE, uint64.
        used: Number of entries.

    Returns:
        The window to go on with in a larger table, and the number of entries.
    """
    mask = U64(slots.shape[0]) - U64(1)
    limit = U64(slots.shape[0]) >> U64(1)
    for i in range(start, U64(windows.shape[0])):
        at = mix64(windows[i, U64(0)]) & mask
        while slots[at] != EMPTY:
            first = firsts[slots[at]]
            if (
                windows[first, U64(0)] == windows[i, U64(0)]
                and windows[first, U64(1)] == windows[i, U64(1)]
            ):
                break
            at = (at + U64(1)) & mask
        if slots[at] == EMPTY:
            if used == limit:
                return i, used
            slots[at] = used
            firsts[used] = i
            seconds[used] = NONE
            used += U64(1)
        elif seconds[slots[at]] == NONE:
            seconds[slots[at]] = i
    return U64(windows.shape[0]), used


@kernel
def grow_table(windows: np.ndarray, firsts: np.ndarray, used: np.uint64, slots: np.ndarray) -> None:
    """Enters the existing entries into a larger table.

    Args:
        windows: Hash, second hash and number of each window, uint64 (m, 3).
        firsts: Row in `windows` of the first window of each entry, uint64.
        used: Number of entries.
        slots: The larger table, all EMPTY, uint32, a power of two of slots.
    """
    mask = U64(slots.shape[0]) - U64(1)
    for entry in range(used):
        at = mix64(windows[firsts[entry], U64(0)]) & mask
        while slots[at] != EMPTY:
            at = (at + U64(1)) & mask
        slots[at] = entry


@kernel
def write_sources(
    windows: np.ndarray,
    slots: np.ndarray,
    firsts: np.ndarray,
    seconds: np.ndarray,
    sources: np.ndarray,
) -> None:
    """Writes for each window the first other place of its content.

    Args:
        windows: Hash, second hash and number of each window, uint64 (m, 3).
        slots: Table that `insert_windows` filled.
        firsts: Row in `windows` of the first window of each entry.
        seconds: Row of the second one, or NONE.
        sources: Array for the number of the first window of the same content, or of the second one
            for the first window itself, or NONE, uint64 (all windows,).
    """
    mask = U64(slots.shape[0]) - U64(1)
    for i in range(U64(windows.shape[0])):
        at = mix64(windows[i, U64(0)]) & mask
        while True:
            first = firsts[slots[at]]
            if (
                windows[first, U64(0)] == windows[i, U64(0)]
                and windows[first, U64(1)] == windows[i, U64(1)]
            ):
                break
            at = (at + U64(1)) & mask
        source = first
        if first == U64(i):
            source = seconds[slots[at]]
        number = NONE
        if source != NONE:
            number = windows[source, U64(2)]
        sources[windows[i, U64(2)]] = number


@inlined
def content_of(window: np.uint64, sources: np.ndarray) -> np.uint64:
    """Returns the number of the first window with the same content as one that occurs twice.

    Args:
        window: Number of the window.
        sources: Result of `write_sources`, uint64 (n,).
    """
    source = sources[window]
    return source if source < window else window


@kernel
def hash_contents(sources: np.ndarray, prefixes: np.ndarray) -> None:
    """Computes the hash of the contents of all windows up to each one.

    Args:
        sources: Result of `write_sources`, uint64 (n,).
        prefixes: Array for the hashes, uint64 (n + 1,).
    """
    value = U64(0)
    prefixes[U64(0)] = value
    for i in range(U64(sources.shape[0])):
        value = add(multiply(value, BASE), residue(mix64(content_of(U64(i), sources) + U64(1))))
        prefixes[i + U64(1)] = value


@inlined
def hash_range(first: np.uint64, end: np.uint64, prefixes: np.ndarray) -> np.uint64:
    """Returns the hash of the contents of consecutive windows.

    Args:
        first: Number of the first window.
        end: Number after the last window.
        prefixes: Result of `hash_contents`.
    """
    return subtract(prefixes[end], multiply(prefixes[first], power(BASE, end - first)))


@kernel
def agrees_before(
    window: np.uint64,
    other: np.uint64,
    length: np.uint64,
    places: np.ndarray,
    prefixes: np.ndarray,
) -> bool:
    """Returns whether two windows follow the same contents without a gap.

    Args:
        window: Number of a window.
        other: Number of another window.
        length: Number of windows before both, which are compared.
        places: Place of each window, uint64 (n,).
        prefixes: Result of `hash_contents`.
    """
    if length > window or length > other:
        return False
    if places[window] - places[window - length] != length:
        return False
    if places[other] - places[other - length] != length:
        return False
    return hash_range(window - length, window, prefixes) == hash_range(
        other - length, other, prefixes
    )


@kernel
def common_before(
    window: np.uint64, other: np.uint64, places: np.ndarray, prefixes: np.ndarray
) -> np.uint64:
    """Returns the number of windows before two windows that agree.

    Args:
        window: Number of a window.
        other: Number of another window.
        places: Place of each window, uint64 (n,).
        prefixes: Result of `hash_contents`.
    """
    step = U64(1)
    while agrees_before(window, other, step, places, prefixes):
        step += step
    common = U64(0)
    step >>= U64(1)
    while step:
        if agrees_before(window, other, common + step, places, prefixes):
            common += step
        step >>= U64(1)
    return common


@kernel
def find_runs(
    start: np.uint64,
    end: np.uint64,
    places: np.ndarray,
    sources: np.ndarray,
    prefixes: np.ndarray,
    out: np.ndarray,
) -> tuple[np.uint64, np.uint64]:
    """Writes the runs of windows that repeat a run of windows at another place.

    A run begins at a window that no run contains yet, follows the first other place of its content
    as long as both continue in the same way, and is extended to the windows before it.

    Args:
        start: Number of the first window that no run contains yet.
        end: Number after the last window at which a run begins.
        places: Place of each window, uint64 (n,).
        sources: Result of `write_sources`, uint64 (n,).
        prefixes: Result of `hash_contents`, uint64 (n + 1,).
        out: Array for the first window, the source of the first window, and the number of windows
            of each run, uint64 (m, 3).

    Returns:
        The window to go on with, and the number of runs. Fewer windows than up to `end` were
        examined if `out` is full.
    """
    total = U64(places.shape[0])
    found = U64(0)
    i = start
    while i < end and found < U64(out.shape[0]):
        source = sources[i]
        if source == NONE:
            i += U64(1)
            continue
        length = U64(1)
        while (
            i + length < total
            and source + length < total
            and places[i + length] - places[i] == length
            and places[source + length] - places[source] == length
            and content_of(i + length, sources) == content_of(source + length, sources)
        ):
            length += U64(1)
        before = common_before(i, source, places, prefixes)
        out[found, U64(0)] = i - before
        out[found, U64(1)] = source - before
        out[found, U64(2)] = length + before
        found += U64(1)
        i += length
    return i, found


@kernel
def hash_rows(runs: np.ndarray, prefixes: np.ndarray, out: np.ndarray) -> None:
    """Computes the hash of the contents of runs of windows.

    Args:
        runs: First window, source and number of windows of each run, uint64 (m, 3).
        prefixes: Result of `hash_contents`.
        out: Array for the hashes, uint64 (m,).
    """
    for i in range(U64(runs.shape[0])):
        first = runs[i, U64(0)]
        out[i] = hash_range(first, first + runs[i, U64(2)], prefixes)


@kernel
def keep_outermost(runs: np.ndarray, out: np.ndarray) -> None:
    """Marks the runs that no earlier run contains.

    Args:
        runs: First window, source and number of windows of each run, uint64 (m, 3), ordered by the
            first window, and the longest first.
        out: Array for the marks, bool (m,).
    """
    reached = U64(0)
    for i in range(U64(runs.shape[0])):
        end = runs[i, U64(0)] + runs[i, U64(2)]
        out[i] = end > reached
        reached = max(reached, end)


@kernel
def count_repeated_bytes(
    documents: np.ndarray, starts: np.ndarray, ends: np.ndarray, out: np.ndarray
) -> None:
    """Adds the number of bytes in at least one passage to the count of each document.

    Args:
        documents: Number of the document of each passage, uint32 (m,), ascending.
        starts: First byte, uint32 (m,), ascending in each document.
        ends: Byte after the last one, uint32 (m,).
        out: Counts of all documents, int64.
    """
    reached, current = U64(0), U64(0)
    for i in range(U64(documents.shape[0])):
        document = U64(documents[i])
        if document != current:
            current, reached = document, U64(0)
        first = max(U64(starts[i]), reached)
        end = U64(ends[i])
        if end > first:
            out[document] += np.int64(end - first)
            reached = end
