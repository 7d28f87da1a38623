"""Kernels of sketching: from shingle hashes to slots or signs, and from projections to signs."""

import numpy as np

from nearkin.runtime.jit import kernel
from nearkin.stages.hashing.kernels import load_u64, mix64

U64 = np.uint64
U32 = np.uint32
EMPTY = U32(0xFFFFFFFF)
TAG_SHIFT = U32(29)
VALUE_SHIFT = U32(3)
STREAM_A = U64(0x9E3779B97F4A7C15)
STREAM_B = U64(0xC2B2AE3D27D4EB4F)
GATHER = U64(0x0102040810204080)
"""A factor that moves the bits of eight bytes of 0 or 1 into the highest byte, the first lowest."""
POISSON = np.array(
    [
        0x5E2D58D8B3BCDF1A,
        0xBC5AB1B16779BE35,
        0xEB715E1DC1582DC2,
        0xFB23979734A252F1,
        0xFF1025F59174DC3D,
        0xFFD90F3BA4055E19,
        0xFFFA8B71FC72C913,
        0xFFFF540C0914B3C9,
        0xFFFFED1F4AA8F120,
        0xFFFFFE216E641462,
        0xFFFFFFD4D85D3183,
        0xFFFFFFFC6DA262B4,
        0xFFFFFFFFBA12D178,
        0xFFFFFFFFFB07C64C,
        0xFFFFFFFFFFAB8EA5,
        0xFFFFFFFFFFFABE22,
        0xFFFFFFFFFFFFB11A,
        0xFFFFFFFFFFFFFBA1,
        0xFFFFFFFFFFFFFFC5,
        0xFFFFFFFFFFFFFFFD,
    ],
    np.uint64,
)
"""Entry n is ⌊2⁶⁴ · P(N ≤ n)⌋ for a Poisson number N with mean 1."""


@kernel
def bin_round(hashes: np.ndarray, tag: np.uint32, multiplier: np.uint64, slots: np.ndarray) -> None:
    """Performs a round of one-permutation binning.

    With x = h·multiplier, slot (x₆₃‥₃₂ · k) >> 32 takes the minimum with tag << 29 | x' >> 3,

    where x' = low half ^ high half of x.

    Args:
        hashes: Shingle hashes, uint64.
        tag: Number of the round, which becomes the highest 3 bits of a slot.
        multiplier: Odd multiplier of the round.
        slots: Slots of one signature, uint32 (k,). They are changed.
    """
    k = U64(slots.shape[0])
    high_tag = tag << TAG_SHIFT
    for i in range(hashes.shape[0]):
        x = hashes[i] * multiplier
        high = x >> U64(32)
        j = (high * k) >> U64(32)
        value = high_tag | (U32(x ^ high) >> VALUE_SHIFT)
        slots[j] = min(slots[j], value)


@kernel
def highest_slot(slots: np.ndarray) -> np.uint32:
    """Returns the largest slot. A later round can lower a slot only if its tag is larger."""
    highest = U32(0)
    for j in range(slots.shape[0]):
        highest = max(highest, slots[j])
    return highest


@kernel
def complete(
    hashes: np.ndarray, tag: np.uint32, multipliers: np.ndarray, slots: np.ndarray
) -> None:
    """Fills the slots that no round has filled with the minimum of (h₃₂ · aⱼ) mod 2³² >> 3.

    Args:
        hashes: Shingle hashes, uint64.
        tag: Number of the completion, which becomes the highest 3 bits of a slot.
        multipliers: Odd multipliers of the completion, uint32 (k,).
        slots: Slots of one signature, uint32 (k,). They are changed.
    """
    first = tag << TAG_SHIFT
    for j in range(slots.shape[0]):
        if slots[j] >= first:
            a, lowest = multipliers[j], EMPTY
            for i in range(hashes.shape[0]):
                lowest = min(lowest, U32(U32(hashes[i] >> U64(32)) * a))
            slots[j] = min(slots[j], first | (lowest >> VALUE_SHIFT))


@kernel
def binned_update(
    hashes: np.ndarray, rounds: np.ndarray, completion: np.ndarray, slots: np.ndarray
) -> None:
    """Adds elements to slots.

    It stops as soon as no slot can become smaller, because a round never lowers a slot of an
    earlier round.

    Args:
        hashes: Shingle hashes, uint64.
        rounds: Odd multipliers of the rounds, uint64 (R,).
        completion: Odd multipliers of the completion, uint32 (k,).
        slots: Slots of one signature, uint32 (k,). They are changed.
    """
    if hashes.shape[0] == 0:
        return
    count = U32(rounds.shape[0])
    for r in range(count):
        if highest_slot(slots) < U32(r) << TAG_SHIFT:
            return
        bin_round(hashes, U32(r), rounds[r], slots)
    if highest_slot(slots) >= count << TAG_SHIFT:
        complete(hashes, count, completion, slots)


@kernel
def binned_minhash(
    hashes: np.ndarray,
    offsets: np.ndarray,
    rounds: np.ndarray,
    completion: np.ndarray,
    out: np.ndarray,
) -> None:
    """Computes the binned MinHash signature of each document into out, (n, k).

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        rounds: Odd multipliers of the rounds, uint64 (R,).
        completion: Odd multipliers of the completion, uint32 (k,).
        out: Array for the signatures, uint32 (n, k).
    """
    for d in range(out.shape[0]):
        slots = out[d]
        slots[:] = EMPTY
        binned_update(hashes[offsets[d] : offsets[d + 1]], rounds, completion, slots)


@kernel
def classic_update(hashes: np.ndarray, a: np.ndarray, b: np.ndarray, slots: np.ndarray) -> None:
    """Adds elements to slots: slot j is the minimum of (aⱼ·h₃₂ + bⱼ mod 2⁶⁴) >> 32.

    This multiply-shift hashing is strongly universal.

    Args:
        hashes: Shingle hashes, uint64.
        a: Multipliers, uint64 (k,).
        b: Summands, uint64 (k,).
        slots: Slots of one signature, uint32 (k,). They are changed.
    """
    if hashes.shape[0] == 0:
        return
    for j in range(slots.shape[0]):
        aj = a[j]
        bj = b[j]
        lowest = EMPTY - U32(1)
        for i in range(hashes.shape[0]):
            lowest = min(lowest, U32((aj * (hashes[i] >> U64(32)) + bj) >> U64(32)))
        slots[j] = min(slots[j], lowest)


@kernel
def classic_minhash(
    hashes: np.ndarray, offsets: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray
) -> None:
    """Computes the classic MinHash signature of each document into out, (n, k).

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        a: Multipliers, uint64 (k,).
        b: Summands, uint64 (k,).
        out: Array for the signatures, uint32 (n, k).
    """
    for d in range(out.shape[0]):
        slots = out[d]
        slots[:] = EMPTY
        classic_update(hashes[offsets[d] : offsets[d + 1]], a, b, slots)


@kernel
def compressed_minhash(
    hashes: np.ndarray,
    offsets: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    out: np.ndarray,
) -> None:
    """Computes 16-bit MinHash signatures: slot j is (cⱼ · min(aⱼ·h + bⱼ)) >> 48, mod 2⁶⁴.

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First hash of each document, and the end, int64 (n + 1,). Each has one or more.
        a: Multipliers, odd, uint64 (k,).
        b: Summands, uint64 (k,).
        c: Multipliers of the minima, odd, uint64 (k,).
        out: Array for the signatures, uint16 (n, k).
    """
    minima = np.empty(a.shape[0], np.uint64)
    for d in range(out.shape[0]):
        minima[:] = ~U64(0)
        for i in range(U64(offsets[d]), U64(offsets[d + 1])):
            h = hashes[i]
            for j in range(a.shape[0]):
                minima[j] = min(minima[j], a[j] * h + b[j])
        for j in range(a.shape[0]):
            out[d, j] = (c[j] * minima[j]) >> U64(48)


@kernel
def stream_fingerprints(
    hashes: np.ndarray, offsets: np.ndarray, symbols: np.ndarray, out: np.ndarray
) -> None:
    """Computes 128-bit content hashes: sums of shingle hashes mixed with their positions.

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        symbols: What the symbols of each document add to the two sums, uint64 (n, 2 or more).
        out: Array for the fingerprints, uint64 (n, 2).
    """
    for d in range(out.shape[0]):
        start = offsets[d]
        size = offsets[d + 1] - start
        low, high = symbols[d, 0], symbols[d, 1]
        for i in range(size):
            t = (hashes[start + i] ^ (U64(i) * STREAM_A)) * STREAM_B
            t ^= t >> U64(32)
            u = t * STREAM_A
            low += t
            high += u ^ (u >> U64(29))
        out[d, 0] = mix64(low + U64(size))
        out[d, 1] = mix64(high ^ U64(size))


@kernel
def majority(sums: np.ndarray, total: np.int64) -> np.uint64:
    """Returns the bits whose sum is more than half of the total; a tie gives 0.

    Args:
        sums: Sum of the weights of the hashes whose bit j is 1, for each j, numbers (64,).
        total: Sum of all weights.
    """
    word = U64(0)
    for j in range(64):
        word |= U64(2 * sums[j] > total) << U64(j)
    return word


@kernel
def term_signs(
    hashes: np.ndarray, offsets: np.ndarray, streams: np.ndarray, out: np.ndarray
) -> None:
    """Computes word w of each document as the majority of mix64(hash + streams[w]).

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        streams: Number that is added to the hashes for each word, uint64 (w,).
        out: Array for the signatures, uint64 (n, w).
    """
    counts = np.empty(64, np.int32)
    for d in range(out.shape[0]):
        start, end = offsets[d], offsets[d + 1]
        for w in range(streams.shape[0]):
            counts[:] = 0
            for i in range(start, end):
                word = mix64(hashes[i] + streams[w])
                for j in range(32):
                    counts[j] += np.int32((U32(word) >> U32(j)) & U32(1))
                    counts[j + 32] += np.int32((U32(word >> U64(32)) >> U32(j)) & U32(1))
            out[d, w] = majority(counts, end - start)


@kernel
def weighted_signs(
    hashes: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    streams: np.ndarray,
    out: np.ndarray,
) -> None:
    """Computes signs like `term_signs`, with a weight for each hash (int64 or float64).

    Args:
        hashes: Shingle hashes, uint64.
        weights: Weight of each hash, int64 or float64.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        streams: Number that is added to the hashes for each word, uint64 (w,).
        out: Array for the signatures, uint64 (n, w).
    """
    sums = np.empty(64, weights.dtype)
    for d in range(out.shape[0]):
        start, end = offsets[d], offsets[d + 1]
        for w in range(streams.shape[0]):
            sums[:] = 0
            total = sums[0]
            for i in range(start, end):
                word, weight = mix64(hashes[i] + streams[w]), weights[i]
                total += weight
                for j in range(64):
                    sums[j] += weight if (word >> U64(j)) & U64(1) else sums.dtype.type(0)
            out[d, w] = majority(sums, total)


@kernel
def table_place(key: np.uint64, keys: np.ndarray) -> np.uint64:
    """Returns the place of a key in a table with open addressing, or the free place for it.

    The key 0 marks a free place.

    Args:
        key: Hash to find, not 0.
        keys: Hashes in the table, uint64. The length is a power of two, and one place is free.
    """
    mask = U64(keys.shape[0] - 1)
    at = mix64(key) & mask
    while keys[at] != key and keys[at] != U64(0):
        at = (at + U64(1)) & mask
    return at


@kernel
def fill_table(
    hashes: np.ndarray, weights: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> None:
    """Inserts hashes and their weights. The hash 0, which marks a free place, is skipped.

    Args:
        hashes: Shingle hashes, uint64.
        weights: Weight of each hash, int64.
        keys: Hashes in the table, uint64. They are changed.
        values: Weights in the table, int64. They are changed.
    """
    for i in range(hashes.shape[0]):
        if hashes[i] != U64(0):
            at = table_place(hashes[i], keys)
            keys[at], values[at] = hashes[i], weights[i]


@kernel
def look_up(
    hashes: np.ndarray, keys: np.ndarray, values: np.ndarray, rare: np.int64, out: np.ndarray
) -> None:
    """Looks up the weight of each hash. Hashes that are not in the table get the weight `rare`.

    Args:
        hashes: Shingle hashes, uint64.
        keys: Hashes in the table, uint64.
        values: Weights in the table, int64.
        rare: Weight of a hash that is not in the table.
        out: Array for the weights, int64 (m,).
    """
    for i in range(hashes.shape[0]):
        at = table_place(hashes[i], keys)
        out[i] = values[at] if keys[at] == hashes[i] and hashes[i] != U64(0) else rare


@kernel
def exact_projection(vector: np.ndarray, planes: np.ndarray, j: np.uint64) -> float:
    """Returns the sum of products in double precision, in the order of the components.

    Args:
        vector: Vector, float32 (dimensions,).
        planes: Hyperplanes, float32 (dimensions, bits).
        j: Number of the hyperplane.
    """
    total = np.float64(0)
    for i in range(vector.shape[0]):
        total += np.float64(vector[i]) * np.float64(planes[i, j])
    return total


@kernel
def exact_signs(
    vector: np.ndarray,
    planes: np.ndarray,
    first: int,
    projections: np.ndarray,
    length: float,
    reach: np.ndarray,
    word: np.uint64,
) -> np.uint64:
    """Returns the word after computing again the signs that rounding could have changed.

    Args:
        vector: Vector, float32 (dimensions,).
        planes: Hyperplanes, float32 (dimensions, bits).
        first: Number of the first hyperplane of the word.
        projections: Projections of the vector, float32 (bits,).
        length: Euclidean length of the vector.
        reach: Largest error of a projection of a vector of length 1, for each hyperplane, (bits,).
        word: Signs before the correction.
    """
    for j in range(64):
        if not abs(projections[first + j]) > length * reach[first + j]:
            positive = exact_projection(vector, planes, U64(first + j)) > 0
            word = (word & ~(U64(1) << U64(j))) | (U64(positive) << U64(j))
    return word


@kernel
def pack_signs(
    projections: np.ndarray,
    vectors: np.ndarray,
    planes: np.ndarray,
    lengths: np.ndarray,
    reach: np.ndarray,
    out: np.ndarray,
) -> None:
    """Packs the signs of projections: bit j of document d is 1 if projection (d, j) is positive.

    It is computed exactly if |projection| ≤ |v| · reach[j].

    Args:
        projections: Projections of the vectors, float32 (n, bits).
        vectors: Vectors, float32 (n, dimensions).
        planes: Hyperplanes, float32 (dimensions, bits).
        lengths: Euclidean length of each vector, (n,).
        reach: Largest error of a projection of a vector of length 1, for each hyperplane, (bits,).
        out: Array for the signatures, uint64 (n, bits / 64).
    """
    positive = np.empty(64, np.uint8)
    for d in range(out.shape[0]):
        length = lengths[d]
        for w in range(out.shape[1]):
            first, far = 64 * w, 0
            for j in range(64):
                p = projections[d, first + j]
                positive[j] = p > 0
                far += abs(p) > length * reach[first + j]
            word = U64(0)
            for q in range(8):
                word |= ((load_u64(positive, U64(8 * q)) * GATHER) >> U64(56)) << U64(8 * q)
            if far < 64:
                word = exact_signs(vectors[d], planes, first, projections[d], length, reach, word)
            out[d, w] = word


@kernel
def truncate(slots: np.ndarray, bits: int, out: np.ndarray) -> None:
    """Packs the lowest `bits` bits (1, 2, 4, 8 or 16) of slots, the first in the lowest bits.

    Args:
        slots: Whole slots, uint32 (n, k).
        bits: Number of bits that remain of a slot: 1, 2, 4, 8 or 16.
        out: Array for the packed slots, uint8 (n, k · bits / 8).
    """
    low = U32((1 << bits) - 1)
    for d in range(slots.shape[0]):
        out[d, :] = 0
        for j in range(slots.shape[1]):
            value, at = slots[d, j] & low, j * bits
            out[d, at // 8] |= np.uint8((value << U32(at % 8)) & U32(0xFF))
            if bits == 16:
                out[d, at // 8 + 1] = np.uint8(value >> U32(8))


@kernel
def number_occurrences(hashes: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """Sorts the hashes of each document; repetition i of h becomes mix64(h + i · STREAM_A).

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        out: Array for the hashes of the occurrences, uint64, as long as `hashes`.
    """
    for d in range(offsets.shape[0] - 1):
        start, end = offsets[d], offsets[d + 1]
        ordered = np.sort(hashes[start:end])
        repeat = U64(0)
        for i in range(ordered.shape[0]):
            repeat = repeat + U64(1) if i > 0 and ordered[i] == ordered[i - 1] else U64(0)
            out[start + i] = (
                ordered[i] if repeat == U64(0) else mix64(ordered[i] + repeat * STREAM_A)
            )


@kernel
def element_values(
    h: np.uint64, rounds: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray
) -> None:
    """Computes the value of one element in each slot.

    `binned` has rounds and the completion a, `classic` has no rounds but a and b.

    Args:
        h: Hash of the element.
        rounds: Odd multipliers of the rounds, uint64 (R,). Empty for `classic`.
        a: Multipliers: of the completion (`binned`) or of the slots (`classic`), uint64 (k,).
        b: Summands of the slots (`classic` only), uint64 (k,).
        out: Array for the values, uint32 (k,).
    """
    k = out.shape[0]
    high = h >> U64(32)
    if rounds.shape[0] == 0:
        for j in range(k):
            out[j] = min(U32((a[j] * high + b[j]) >> U64(32)), EMPTY - U32(1))
        return
    tag = U32(rounds.shape[0]) << TAG_SHIFT
    for j in range(k):
        out[j] = tag | (U32(U32(high) * U32(a[j])) >> VALUE_SHIFT)
    for r in range(rounds.shape[0]):
        x = h * rounds[r]
        j = ((x >> U64(32)) * U64(k)) >> U64(32)
        out[j] = min(out[j], (U32(r) << TAG_SHIFT) | (U32(x ^ (x >> U64(32))) >> VALUE_SHIFT))


@kernel
def count_up(
    value: np.uint32,
    h: np.uint64,
    values: np.ndarray,
    owners: np.ndarray,
    counts: np.ndarray,
    bound: np.uint32,
) -> np.uint32:
    """Inserts an element into the list of one slot, ordered by (value, element).

    Args:
        value: Value of the element in the slot.
        h: Hash of the element.
        values: Values in the list of the slot, uint32 (depth,). They are changed.
        owners: Element of each value, uint64 (depth,). They are changed.
        counts: Number of occurrences of each element, int64 (depth,). They are changed.
        bound: Value from which on elements are no longer in the list.

    Returns:
        The bound of the slot, which is lower if the list was full.
    """
    if value >= bound:
        return bound
    depth = values.shape[0]
    at = 0
    while at < depth and (
        values[at] < value or (values[at] == value and counts[at] > 0 and owners[at] < h)
    ):
        at += 1
    if at < depth and values[at] == value and owners[at] == h and counts[at] > 0:
        counts[at] += 1
        return bound
    crowded = value if at == depth else values[depth - 1]
    for i in range(depth - 1, at, -1):
        values[i] = values[i - 1]
        owners[i] = owners[i - 1]
        counts[i] = counts[i - 1]
    if at < depth:
        values[at] = value
        owners[at] = h
        counts[at] = 1
    if crowded >= bound:
        return bound
    # What is held lies below the bound: others of the crowded one's value go with it.
    while depth > 0 and values[depth - 1] >= crowded:
        values[depth - 1], counts[depth - 1] = EMPTY, 0
        depth -= 1
    return crowded


@kernel
def count_down(
    value: np.uint32,
    h: np.uint64,
    values: np.ndarray,
    owners: np.ndarray,
    counts: np.ndarray,
    bound: np.uint32,
) -> bool:
    """Removes an element from the list of one slot; returns False if it is missing.

    Args:
        value: Value of the element in the slot.
        h: Hash of the element.
        values: Values in the list of the slot, uint32 (depth,). They are changed.
        owners: Element of each value, uint64 (depth,). They are changed.
        counts: Number of occurrences of each element, int64 (depth,). They are changed.
        bound: Value from which on elements are not in the list.
    """
    if value >= bound:
        return True
    depth = values.shape[0]
    for at in range(depth):
        if values[at] == value and owners[at] == h and counts[at] > 0:
            counts[at] -= 1
            if counts[at] == 0:
                for i in range(at, depth - 1):
                    values[i] = values[i + 1]
                    owners[i] = owners[i + 1]
                    counts[i] = counts[i + 1]
                values[depth - 1], counts[depth - 1] = EMPTY, 0
            return True
    return False


@kernel
def change_counts(
    hashes: np.ndarray,
    step: int,
    rounds: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    values: np.ndarray,
    owners: np.ndarray,
    counts: np.ndarray,
    bounds: np.ndarray,
) -> int:
    """Adds (step 1) or removes (step -1) elements of a counting signature.

    Args:
        hashes: Hashes of the elements, uint64 (m,).
        step: 1 to add, −1 to remove.
        rounds: Multipliers of the rounds, as in `element_values`.
        a: Multipliers, as in `element_values`.
        b: Summands, as in `element_values`.
        values: Values in the lists, uint32 (k, depth). They are changed.
        owners: Element of each value, uint64 (k, depth). They are changed.
        counts: Number of occurrences of each element, int64 (k, depth). They are changed.
        bounds: Bound of each slot, uint32 (k,). They are changed.

    Returns:
        The number of elements that were processed before the first missing one.
    """
    k = values.shape[0]
    own = np.empty(k, np.uint32)
    for i in range(hashes.shape[0]):
        element_values(hashes[i], rounds, a, b, own)
        for j in range(k):
            if step > 0:
                bounds[j] = count_up(own[j], hashes[i], values[j], owners[j], counts[j], bounds[j])
            elif not count_down(own[j], hashes[i], values[j], owners[j], counts[j], bounds[j]):
                return i
    return hashes.shape[0]


@kernel
def two_smallest(
    hashes: np.ndarray,
    offsets: np.ndarray,
    rounds: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Computes the minimum and the runner-up of each slot, uint32 (n, k) each.

    `rounds`, `a`, `b` as in `element_values`; a slot with fewer elements is all ones.

    Args:
        hashes: Shingle hashes, uint64.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        rounds: Multipliers of the rounds, as in `element_values`.
        a: Multipliers, as in `element_values`.
        b: Summands, as in `element_values`.
        first: Array for the minimum of each slot, uint32 (n, k).
        second: Array for the runner-up of each slot, uint32 (n, k).
    """
    k = first.shape[1]
    own, owners = np.empty(k, np.uint32), np.empty(k, np.uint64)
    for d in range(first.shape[0]):
        low, next_low = first[d], second[d]
        low[:] = EMPTY
        next_low[:] = EMPTY
        for i in range(offsets[d], offsets[d + 1]):
            h = hashes[i]
            element_values(h, rounds, a, b, own)
            for j in range(k):
                value = own[j]
                if value < low[j]:
                    next_low[j] = low[j]
                    low[j] = value
                    owners[j] = h
                elif value < next_low[j] and owners[j] != h:
                    next_low[j] = value


@kernel
def dart_count(word: np.uint64) -> np.uint64:
    """Returns a Poisson number with mean 1, which a uniform word decides.

    Args:
        word: Uniform number of 64 bits.
    """
    count = U64(0)
    while count < U64(POISSON.shape[0]) and word >= POISSON[count]:
        count += U64(1)
    return count


@kernel
def dart_place(word: np.uint64, dart: np.uint64) -> np.uint64:
    """Returns a uniform number that decides the slot and the time of a dart.

    Args:
        word: Uniform number of the element and the cell.
        dart: Number of the dart in the cell.
    """
    return mix64(word + (dart + U64(1)) * STREAM_B)


@kernel
def dart_slot(place: np.uint64, k: np.uint64) -> np.uint64:
    """Returns the slot of a dart: (high half of place) · k >> 32.

    Args:
        place: Uniform number of 64 bits.
        k: Number of slots.
    """
    return ((place >> U64(32)) * k) >> U64(32)


@kernel
def dart_time(cell: np.int64, place: np.uint64, rate: float) -> np.float32:
    """Returns the time of a dart: (cell + (low half of place + 1) / 2³²) / rate.

    Args:
        cell: Cell of the dart on the clock of its element, from 0.
        place: Uniform number of 64 bits.
        rate: Rate of the clock of the element, in (0, 1].
    """
    fraction = (np.float64(place & U64(0xFFFFFFFF)) + 1.0) * 2.0**-32
    return np.float32((np.float64(cell) + fraction) / rate)


@kernel
def latest_time(times: np.ndarray) -> np.float32:
    """Returns the latest time of a signature."""
    latest = times[0]
    for j in range(times.shape[0]):
        latest = max(latest, times[j])
    return latest


@kernel
def first_darts(hashes: np.ndarray, rates: np.ndarray, salt: np.uint64, times: np.ndarray) -> None:
    """Computes for each slot the time of the first dart that any element throws at it.

    Each element has a clock, which runs at the rate of the element. In each unit (cell) of its
    clock, it throws a Poisson number of darts with mean 1 at random slots. The elements take turns
    until no slot can become smaller. Repeated elements throw the same darts.

    Args:
        hashes: Hashes of the elements, uint64 (m,).
        rates: Rate of each element, float64 (m,), in (0, 1].
        salt: Number that is added to the hashes.
        times: Array for the times, float32 (k,). They are infinite if there are no elements.
    """
    k = U64(times.shape[0])
    times[:] = np.inf
    if hashes.shape[0] == 0:
        return
    empty = times.shape[0]
    begin, end = 0.0, 1.0
    while empty > 0 or latest_time(times) > begin:
        for i in range(hashes.shape[0]):
            rate = rates[i]
            for cell in range(np.int64(np.ceil(begin * rate)), np.int64(np.ceil(end * rate))):
                word = mix64(hashes[i] + salt + U64(cell) * STREAM_A)
                for dart in range(dart_count(word)):
                    place = dart_place(word, U64(dart))
                    j = dart_slot(place, k)
                    empty -= times[j] == np.inf
                    times[j] = min(times[j], dart_time(np.int64(cell), place, rate))
        begin, end = end, end + 1.0


@kernel
def dart_minhash(
    hashes: np.ndarray, rates: np.ndarray, offsets: np.ndarray, salt: np.uint64, out: np.ndarray
) -> None:
    """Computes the signature of weighted elements of each document into out, (n, k).

    A slot has the 32 bits of a time, which are ordered like the times.

    Args:
        hashes: Shingle hashes, uint64.
        rates: Rate of each hash, float64, in (0, 1]. See `first_darts`.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        salt: Number that is added to the hashes.
        out: Array for the signatures, uint32 (n, k).
    """
    times = out.view(np.float32)
    for d in range(out.shape[0]):
        start, end = offsets[d], offsets[d + 1]
        first_darts(hashes[start:end], rates[start:end], salt, times[d])
        if start == end:
            out[d, :] = EMPTY


@kernel
def insert_dart(
    time: np.float32,
    h: np.uint64,
    j: np.uint64,
    first: np.ndarray,
    second: np.ndarray,
    owners: np.ndarray,
) -> None:
    """Inserts a dart into the first times of two different elements in a slot.

    Args:
        time: Time of the dart.
        h: Hash of its element.
        j: Number of the slot.
        first: First time of each slot, float32 (k,). It is changed.
        second: First time of another element in each slot, float32 (k,). It is changed.
        owners: Element of the first time of each slot, uint64 (k,). It is changed.
    """
    if time < first[j]:
        if owners[j] != h:
            second[j] = first[j]
        first[j] = time
        owners[j] = h
    elif time < second[j] and owners[j] != h:
        second[j] = time


@kernel
def first_darts_of_two(
    hashes: np.ndarray,
    rates: np.ndarray,
    salt: np.uint64,
    first: np.ndarray,
    second: np.ndarray,
    owners: np.ndarray,
) -> None:
    """Computes like `first_darts` also the first time of another element than the first one.

    Args:
        hashes: Hashes of the elements, uint64 (m,).
        rates: Rate of each element, float64 (m,), in (0, 1].
        salt: Number that is added to the hashes.
        first: Array for the first time of each slot, float32 (k,).
        second: Array for the first time of another element, float32 (k,). It is infinite for a
            single element.
        owners: Buffer for the element of each first time, uint64 (k,).
    """
    k = U64(first.shape[0])
    first[:] = np.inf
    second[:] = np.inf
    if hashes.shape[0] == 0:
        return
    awaited = first
    for i in range(hashes.shape[0]):
        if hashes[i] != hashes[0]:
            awaited = second
    begin, end = 0.0, 1.0
    while latest_time(awaited) > begin:
        for i in range(hashes.shape[0]):
            rate = rates[i]
            for cell in range(np.int64(np.ceil(begin * rate)), np.int64(np.ceil(end * rate))):
                word = mix64(hashes[i] + salt + U64(cell) * STREAM_A)
                for dart in range(dart_count(word)):
                    place = dart_place(word, U64(dart))
                    time = dart_time(np.int64(cell), place, rate)
                    insert_dart(time, hashes[i], dart_slot(place, k), first, second, owners)
        begin, end = end, end + 1.0


@kernel
def two_first_darts(
    hashes: np.ndarray,
    rates: np.ndarray,
    offsets: np.ndarray,
    salt: np.uint64,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Computes like `dart_minhash` the minimum and the runner-up of each slot, uint32 (n, k) each.

    A slot with fewer elements is all ones.

    Args:
        hashes: Shingle hashes, uint64.
        rates: Rate of each hash, float64, in (0, 1]. See `first_darts`.
        offsets: First hash of each document, and the end, int64 (n + 1,).
        salt: Number that is added to the hashes.
        first: Array for the minimum of each slot, uint32 (n, k).
        second: Array for the runner-up of each slot, uint32 (n, k).
    """
    owners = np.empty(first.shape[1], np.uint64)
    times = first.view(np.float32)
    others = second.view(np.float32)
    for d in range(first.shape[0]):
        start, end = offsets[d], offsets[d + 1]
        first_darts_of_two(hashes[start:end], rates[start:end], salt, times[d], others[d], owners)
        for j in range(first.shape[1]):
            if times[d, j] == np.inf:
                first[d, j] = EMPTY
            if others[d, j] == np.inf:
                second[d, j] = EMPTY
