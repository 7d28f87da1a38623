"""Kernels of banding: from signatures to band keys, from keys to buckets, from buckets to pairs.

The type of a *layout* (`SlotLayout`, `SignLayout` or `TruncatedLayout`) says what a signature
consists of. It selects the functions that compare two signatures when a kernel is compiled. A
layout contains only numbers, because an array in a tuple would be reference-counted at each
comparison. The array that a layout needs is a separate argument.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from nearkin.runtime.jit import inlined, kernel
from nearkin.stages.hashing.kernels import count_ones, find_sorted, load_u64, mix64

U64 = np.uint64
U32 = np.uint32
EMPTY = U32(0xFFFFFFFF)
BAND = U64(0x9E3779B97F4A7C15)
SLOT = U64(0xD6E8FEB86659FD93)
NEAR = 32
"""The number of documents whose signatures stay in the nearest cache while all bands are read."""


class SlotLayout(NamedTuple):
    """A signature of MinHash slots of 32 bits. Band i is the i-th run of `rows` slots."""

    rows: np.int64


class SignLayout(NamedTuple):
    """A signature of signs, 64 in a word. A band is the bits of its mask, uint64 (b, words)."""

    words: np.int64


class TruncatedLayout(NamedTuple):
    """A signature of packed slots of 1, 2, 4, 8 or 16 bits.

    Its band keys, uint64 (n, b), are computed from the whole slots before.
    """

    bits: np.uint64
    ones: np.uint64
    """A word in which the lowest bit of each slot is set."""
    slots: np.int64
    """The number of slots k."""


@kernel
def start_key(salt: np.uint64, band: int) -> np.uint64:
    """Returns the initial value of a band key. The salt separates blocks.

    Args:
        salt: Salt of the block.
        band: Number of the band.
    """
    return mix64(salt + U64(band + 1) * BAND)


@kernel
def fold(h: np.uint64, word: np.uint64) -> np.uint64:
    """Mixes one more slot or masked word of a band into its key.

    Args:
        h: Key so far.
        word: Slot or masked word.
    """
    h = (h ^ word) * SLOT
    return h ^ (h >> U64(32))


@inlined
def slot_key(
    signatures: np.ndarray, row: int, band: int, rows: int | np.int64, salt: np.uint64
) -> np.uint64:
    """Returns the key of one band of whole slots, as `slot_keys` defines it.

    Args:
        signatures: Signatures, (n, w).
        row: Row of the signature.
        band: Number of the band.
        rows: Number of slots of a band.
        salt: Salt of the block.
    """
    first = band * rows
    h = start_key(salt, band)
    for j in range(first, first + rows):
        h = fold(h, U64(signatures[row, j]))
    return mix64(h)


@kernel
def slot_keys(
    signatures: np.ndarray, salts: np.ndarray, layout: SlotLayout, out: np.ndarray
) -> None:
    """Computes the key of each band of whole slots into out, uint64 (b, n).

    The key starts as mix64(salt + band·G). For each slot of the band, h ← (h ^ slot)·C and then
    h ← h ^ (h >> 32).

    Args:
        signatures: Signatures, (n, w).
        salts: Salt of the block of each document, uint64 (n,).
        layout: Layout of the signatures.
        out: Receives the keys, uint64 (b, n).
    """
    n, rows = signatures.shape[0], layout.rows
    for start in range(0, n, NEAR):
        for band in range(out.shape[0]):
            for i in range(start, min(start + NEAR, n)):
                out[band, i] = slot_key(signatures, i, band, rows, salts[i])


@kernel
def sign_keys(
    signatures: np.ndarray, salts: np.ndarray, masks: np.ndarray, out: np.ndarray
) -> None:
    """Computes the key of each band of signs into out, like `slot_keys`, over the masked words.

    Args:
        signatures: Signatures, (n, w).
        salts: Salt of the block of each document, uint64 (n,).
        masks: Bits of each band, uint64 (b, words).
        out: Receives the keys, uint64 (b, n).
    """
    n = signatures.shape[0]
    for start in range(0, n, NEAR):
        for band in range(out.shape[0]):
            for i in range(start, min(start + NEAR, n)):
                h = start_key(salts[i], band)
                for w in range(masks.shape[1]):
                    h = fold(h, signatures[i, w] & masks[band, w])
                out[band, i] = mix64(h)


@kernel
def probe_keys(
    slots: np.ndarray, runners: np.ndarray, rows: int, probes: int, out: np.ndarray
) -> None:
    """Computes keys without a block into out, uint64 (n, b·(1 + P)).

    Each band has the key of its slots, then P keys in which slot p is replaced by its runner-up.

    Args:
        slots: Whole slots, uint32 (n, k).
        runners: Second smallest element of each slot, uint32 (n, k).
        rows: Number of slots of a band.
        probes: Number of probed slots of a band.
        out: Receives the keys, uint64 (n, b·(1 + P)).
    """
    step = 1 + probes
    for i in range(out.shape[0]):
        for band in range(out.shape[1] // step):
            first = band * rows
            for p in range(step):
                h = start_key(U64(0), band)
                for j in range(rows):
                    slot = runners[i, first + j] if j == p - 1 else slots[i, first + j]
                    h = fold(h, U64(slot))
                out[i, band * step + p] = mix64(h)


@kernel
def salt_keys(keys: np.ndarray, salts: np.ndarray, out: np.ndarray) -> None:
    """Mixes the salts of blocks into keys without a block, (n, b), and writes them as (b, n).

    Args:
        keys: Band keys without a block, uint64 (n, b).
        salts: Salt of the block of each document, uint64 (n,).
        out: Receives the keys, uint64 (b, n).
    """
    n = keys.shape[0]
    for start in range(0, n, NEAR):
        for band in range(out.shape[0]):
            for i in range(start, min(start + NEAR, n)):
                out[band, i] = mix64(keys[i, band] + salts[i] * BAND)


@inlined
def is_in_part(key: np.uint64, part: np.uint64, part_bits: int) -> bool:
    """Returns True if a key starts with the bits `part`.

    Args:
        key: Band key.
        part: First bits of the keys of a part.
        part_bits: Number of bits of `part`, or 0 if all keys are in one part.
    """
    return part_bits == 0 or (key >> U64(64 - part_bits)) == part


@kernel
def mark_keys(
    keys: np.ndarray,
    active: np.ndarray,
    part: np.uint64,
    part_bits: int,
    shift: np.uint64,
    once: np.ndarray,
    again: np.ndarray,
) -> int:
    """Marks the keys that occur, and those that occur again; returns the number of occurrences.

    A key is marked at the bits that follow those of its part, so two keys can have the same mark.

    Args:
        keys: Band keys, uint64 (n,).
        active: True for the documents that are compared, bool (n,).
        part: First bits of the keys that are marked.
        part_bits: Number of bits of `part`.
        shift: Number of bits by which a key is shifted to give the position of its mark.
        once: Bits of the keys that occur, zeros, uint64.
        again: Bits of the keys that occur more than once, zeros, uint64.
    """
    count = U64(0)
    for i in range(keys.shape[0]):
        if active[i] and is_in_part(keys[i], part, part_bits):
            at = (keys[i] << U64(part_bits)) >> shift
            word, bit = at >> U64(6), U64(1) << (at & U64(63))
            again[word] |= once[word] & bit
            once[word] |= bit
            count += U64(1)
    return np.int64(count)


@kernel
def pack_repeated_keys(
    keys: np.ndarray,
    active: np.ndarray,
    part: np.uint64,
    part_bits: int,
    ordinal_bits: int,
    shift: np.uint64,
    again: np.ndarray,
    out: np.ndarray,
) -> int:
    """Packs the top bits of keys and the document numbers into words; returns their number.

    Only active documents are packed, and only keys that start with the bits `part` and are marked
    as occurring again.

    Args:
        keys: Band keys, uint64 (n,).
        active: True for the documents that are packed, bool (n,).
        part: First bits of the keys that are packed.
        part_bits: Number of bits of `part`.
        ordinal_bits: Number of bits of a document number.
        shift: Number of bits by which a key is shifted to give the position of its mark.
        again: Bits of the keys that occur more than once, by `mark_keys`, uint64.
        out: Receives the packed words, uint64. It has room for one more than are packed.
    """
    low = (U64(1) << U64(ordinal_bits)) - U64(1)
    count = U64(0)
    for i in range(keys.shape[0]):
        key = keys[i] << U64(part_bits)
        at = key >> shift
        occurs_again = (again[at >> U64(6)] >> (at & U64(63))) & U64(1)
        out[count] = (key & ~low) | U64(i)
        count += occurs_again & U64(active[i]) & U64(is_in_part(keys[i], part, part_bits))
    return np.int64(count)


@kernel
def split_by_key(
    packed: np.ndarray, start: int, end: int, keys: np.ndarray, low: np.uint64
) -> None:
    """Sorts one run of equal prefixes in place by (full key, document number).

    Args:
        packed: Packed words: the top bits of a key, then a document number, uint64 (m,).
        start: First position of the run.
        end: Position after the run.
        keys: Band keys, uint64 (n,).
        low: Mask of the document number in a packed word.
    """
    first = keys[packed[start] & low]
    equal = True
    for i in range(start + 1, end):
        equal = equal and keys[packed[i] & low] == first
    if equal:
        return
    full = np.empty(end - start, np.uint64)
    for i in range(start, end):
        full[i - start] = keys[packed[i] & low]
    order = np.argsort(full, kind="mergesort")
    copy = packed[start:end].copy()
    for i in range(end - start):
        packed[start + i] = copy[order[i]]


@kernel
def find_buckets(
    packed: np.ndarray, keys: np.ndarray, ordinal_bits: int, starts: np.ndarray, ends: np.ndarray
) -> int:
    """Finds the buckets of two or more equal full keys among sorted packed words.

    Afterwards, `packed` contains only document numbers. The bounds of the buckets are in `starts`
    and `ends`.

    Args:
        packed: Packed words: the top bits of a key, then a document number, uint64 (m,).
        keys: Band keys, uint64 (n,).
        ordinal_bits: Number of bits of a document number.
        starts: Receives the first position of each bucket, int64.
        ends: Receives the position after the last one of each bucket, int64.

    Returns:
        The number of buckets.
    """
    low = (U64(1) << U64(ordinal_bits)) - U64(1)
    n = packed.shape[0]
    # not literals, for which Numba would compile the called kernels again
    count: int = np.int64(0)
    run: int = np.int64(0)
    while run < n:
        prefix = packed[run] & ~low
        stop = run + 1
        while stop < n and (packed[stop] & ~low) == prefix:
            stop += 1
        if stop - run > 1:
            split_by_key(packed, run, stop, keys, low)
            count = cut_run(packed, run, stop, keys, low, starts, ends, count)
        run = stop
    for i in range(n):
        packed[i] &= low
    return count


@kernel
def cut_run(
    packed: np.ndarray,
    run: int,
    stop: int,
    keys: np.ndarray,
    low: np.uint64,
    starts: np.ndarray,
    ends: np.ndarray,
    count: int,
) -> int:
    """Appends the bounds of the buckets of one sorted run; returns the number of buckets so far.

    Args:
        packed: Packed words: the top bits of a key, then a document number, uint64 (m,).
        run: First position of the run.
        stop: Position after the run.
        keys: Band keys, uint64 (n,).
        low: Mask of the document number in a packed word.
        starts: Receives the first position of each bucket, int64.
        ends: Receives the position after the last one of each bucket, int64.
        count: Number of buckets so far.
    """
    begin = run
    for i in range(run + 1, stop + 1):
        if i == stop or keys[packed[i] & low] != keys[packed[begin] & low]:
            if i - begin > 1:
                starts[count], ends[count] = begin, i
                count += 1
            begin = i
    return count


@inlined
def equal_slots(signatures: np.ndarray, x: np.uint64, y: np.uint64, layout: SlotLayout) -> int:
    """Returns the number of agreeing slots. An empty slot agrees with no other slot.

    Args:
        signatures: Signatures, (n, w).
        x: Position of one document.
        y: Position of the other document.
        layout: Layout of the signatures.
    """
    a, b = signatures[x], signatures[y]
    same = U32(0)
    for j in range(a.shape[0]):
        same += U32((a[j] == b[j]) & (a[j] != EMPTY))
    return np.int64(same)


@inlined
def equal_signs(signatures: np.ndarray, x: np.uint64, y: np.uint64, layout: SignLayout) -> int:
    """Returns the number of agreeing bits, f minus the Hamming distance.

    Args:
        signatures: Signatures, (n, w).
        x: Position of one document.
        y: Position of the other document.
        layout: Layout of the signatures.
    """
    words = signatures.shape[1]
    different = U64(0)
    for w in range(words):
        different += count_ones(signatures[x, w] ^ signatures[y, w])
    return np.int64(64 * words) - np.int64(different)


@inlined
def fold_lanes(word: np.uint64, bits: np.uint64) -> np.uint64:
    """Sets the lowest bit of each lane of `bits` bits if any of its bits is set; has no branch.

    Args:
        word: Word of lanes.
        bits: Width of a lane in bits, a power of two.
    """
    word |= (word >> U64(1)) & (U64(0) - U64(bits > U64(1)))
    word |= (word >> U64(2)) & (U64(0) - U64(bits > U64(2)))
    word |= (word >> U64(4)) & (U64(0) - U64(bits > U64(4)))
    return word | ((word >> U64(8)) & (U64(0) - U64(bits > U64(8))))


@inlined
def equal_truncated(
    signatures: np.ndarray, x: np.uint64, y: np.uint64, layout: TruncatedLayout
) -> int:
    """Returns the number of agreeing truncated slots, computed 64 bits at a time.

    Args:
        signatures: Signatures, (n, w).
        x: Position of one document.
        y: Position of the other document.
        layout: Layout of the signatures.
    """
    bits = layout.bits
    ones = layout.ones
    size = U64(signatures.shape[1])
    i, j = x * size, y * size
    different, whole = U64(0), size >> U64(3)
    for w in range(whole):
        word = load_u64(signatures, i + U64(8) * w) ^ load_u64(signatures, j + U64(8) * w)
        different += count_ones(fold_lanes(word, bits) & ones)
    for at in range(U64(8) * whole, size):
        different += count_ones(fold_lanes(U64(signatures[x, at] ^ signatures[y, at]), bits) & ones)
    return np.int64(layout.slots) - np.int64(different)


@kernel
def slots_seen(
    signatures: np.ndarray,
    table: np.ndarray,
    x: np.uint64,
    y: np.uint64,
    band: int,
    layout: SlotLayout,
) -> bool:
    """Returns True if the two signatures agree in all slots of an earlier band.

    Args:
        signatures: Signatures, (n, w).
        table: Masks of the bands (signs), band keys (truncated slots), or an empty array.
        x: Position of one document.
        y: Position of the other document.
        band: Number of the band.
        layout: Layout of the signatures.
    """
    a = signatures[x]
    b = signatures[y]
    rows = layout.rows
    for earlier in range(band):
        at = earlier * rows
        j = 0
        while j < rows and a[at + j] == b[at + j]:
            j += 1
        if j == rows:
            return True
    return False


@kernel
def signs_seen(
    signatures: np.ndarray,
    masks: np.ndarray,
    x: np.uint64,
    y: np.uint64,
    band: int,
    layout: SignLayout,
) -> bool:
    """Returns True if the two signatures agree in all bits of an earlier band.

    Args:
        signatures: Signatures, (n, w).
        masks: Bits of each band, uint64 (b, words).
        x: Position of one document.
        y: Position of the other document.
        band: Number of the band.
        layout: Layout of the signatures.
    """
    for earlier in range(band):
        different = U64(0)
        for w in range(signatures.shape[1]):
            different |= (signatures[x, w] ^ signatures[y, w]) & masks[earlier, w]
        if different == U64(0):
            return True
    return False


@kernel
def truncated_seen(
    signatures: np.ndarray,
    keys: np.ndarray,
    x: np.uint64,
    y: np.uint64,
    band: int,
    layout: TruncatedLayout,
) -> bool:
    """Returns True if the two documents have the same key in an earlier band.

    Args:
        signatures: Signatures, (n, w).
        keys: Band keys, uint64 (n, b).
        x: Position of one document.
        y: Position of the other document.
        band: Number of the band.
        layout: Layout of the signatures.
    """
    earlier = 0
    while earlier < band and keys[x, earlier] != keys[y, earlier]:
        earlier += 1
    return earlier < band


AGREE: dict[Any, Any] = {
    SlotLayout: equal_slots,
    SignLayout: equal_signs,
    TruncatedLayout: equal_truncated,
}
SEEN: dict[Any, Any] = {
    SlotLayout: slots_seen,
    SignLayout: signs_seen,
    TruncatedLayout: truncated_seen,
}


def agreements(signatures: np.ndarray, x: np.uint64, y: np.uint64, layout: NamedTuple) -> int:
    """Returns the number of slots or bits in which documents x and y agree.

    Args:
        signatures: Signatures, (n, w).
        x: Position of one document.
        y: Position of the other document.
        layout: Layout of the signatures.
    """
    return AGREE[type(layout)](signatures, x, y, layout)


@overload(agreements, strict=False)
def _agreements(signatures: Any, x: Any, y: Any, layout: Any) -> Callable[..., Any]:
    function = AGREE[layout.instance_class]
    return lambda signatures, x, y, layout: function(signatures, x, y, layout)


def seen_before(
    signatures: np.ndarray,
    table: np.ndarray,
    x: np.uint64,
    y: np.uint64,
    band: int,
    layout: NamedTuple,
) -> bool:
    """Returns True if documents x and y agree in an earlier band.

    Args:
        signatures: Signatures, (n, w).
        table: Masks of the bands (signs), band keys (truncated slots), or an empty array.
        x: Position of one document.
        y: Position of the other document.
        band: Number of the band.
        layout: Layout of the signatures.
    """
    return SEEN[type(layout)](signatures, table, x, y, band, layout)


@overload(seen_before, strict=False)
def _seen_before(
    signatures: Any, table: Any, x: Any, y: Any, band: Any, layout: Any
) -> Callable[..., Any]:
    function = SEEN[layout.instance_class]
    return lambda signatures, table, x, y, band, layout: function(
        signatures, table, x, y, band, layout
    )


@kernel
def order_by_source(
    ordinals: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    sources: np.ndarray,
    partners: np.ndarray,
    pairs: np.ndarray,
) -> None:
    """Sorts each bucket by source, and finds the documents that each document is compared with.

    Those are the documents of other sources that follow it in its bucket. They are consecutive,
    so the documents of its own source cost nothing.

    Args:
        ordinals: Numbers of the documents, one bucket after the other, uint64. They are sorted in
            place.
        starts: Position of each bucket's first document, int64 (m,).
        ends: Position after the last document of each bucket, int64 (m,).
        sources: Source of each document, uint64 (n,).
        partners: Receives the position of the first document that each document of a bucket is
            compared with, int64. Positions outside of the buckets do not change.
        pairs: Receives the number of pairs of different sources of each bucket, int64 (m,).
    """
    for c in range(starts.shape[0]):
        start, end = starts[c], ends[c]
        own = np.empty(end - start, np.uint64)
        for i in range(start, end):
            own[i - start] = sources[ordinals[i]]
        order = np.argsort(own, kind="mergesort")
        members = ordinals[start:end].copy()
        for i in range(end - start):
            ordinals[start + i] = members[order[i]]
        total = 0
        partner = end
        for i in range(end - 1, start - 1, -1):
            if i + 1 < end and sources[ordinals[i]] != sources[ordinals[i + 1]]:
                partner = i + 1
            partners[i] = partner
            total += end - partner
        pairs[c] = total


@kernel
def bucket_pairs(
    ordinals: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    ends: np.ndarray,
    partners: np.ndarray,
    signatures: np.ndarray,
    first_hot: np.ndarray,
    band: int,
    layout: NamedTuple,
    table: np.ndarray,
    margin: int,
    histogram: np.ndarray,
    out: np.ndarray,
) -> int:
    """Writes the pairs of each bucket whose agreements reach the margin into out, as packed pairs.

    The pairs are those of a first document from starts[c] to stops[c] with a later document of the
    bucket. So a large bucket can be compared in portions. With `partners`, only documents of
    different sources are compared.

    A pair that an earlier band contains is skipped. If both documents were in hot buckets of
    earlier bands, it is not skipped, because the hot bucket may not have yielded it. With probes, a
    document can be in a bucket twice, and a pair can occur again. `histogram` counts the candidates
    by agreements.

    Args:
        ordinals: Numbers of the documents, one bucket after the other, uint64.
        starts: Position of each bucket's first document that is compared with later ones, int64
            (m,).
        stops: Position after the last such document, int64 (m,).
        ends: Position after the last document of each bucket, int64 (m,).
        partners: Position of the first document that each document is compared with, int64, or an
            empty array if it is compared with all later documents. See `order_by_source`.
        signatures: Signatures, (n, w).
        first_hot: First band in which a document was in a hot bucket, uint16 (n,), or an empty
            array if there are no hot buckets.
        band: Number of the band.
        layout: Layout of the signatures.
        table: Masks of the bands (signs), band keys (truncated slots), or an empty array.
        margin: Smallest number of agreeing slots or bits of a pair.
        histogram: Counts compared pairs by the number of agreeing slots or bits, int64 (k + 1,).
        out: Receives the packed pairs, uint64.

    Returns:
        The number of pairs in out.
    """
    count = U64(0)
    has_hot = first_hot.shape[0] > 0
    for c in range(starts.shape[0]):
        for x in range(starts[c], stops[c]):
            a = ordinals[x]
            first = partners[x] if partners.shape[0] else x + 1
            for y in range(first, ends[c]):
                b = ordinals[y]
                if a == b:
                    continue
                was_hot = has_hot and first_hot[a] < band and first_hot[b] < band
                if not was_hot and seen_before(signatures, table, a, b, band, layout):
                    continue
                same = agreements(signatures, a, b, layout)
                histogram[same] += 1
                if same >= margin:
                    out[count] = (min(a, b) << U64(32)) | max(a, b)
                    count += U64(1)
    return np.int64(count)


@kernel
def hot_bucket_pairs(
    members: np.ndarray,
    sources: np.ndarray,
    signatures: np.ndarray,
    layout: NamedTuple,
    margin: int,
    join: int,
    leaders: np.ndarray,
    known: int,
    histogram: np.ndarray,
    nearest: np.ndarray,
    out: np.ndarray,
) -> tuple[int, int]:
    """Clusters a hot bucket internally, by comparing each member with the leaders so far.

    Members come in keep order. Among the leaders that reach the margin, a member is paired with
    the one that it agrees with most, and with the first one in keep order, which is the most
    likely to be kept. The member becomes a leader itself unless a leader agrees in at least `join`
    slots. There are at most leaders.shape[0] leaders, so the work is bounded by members · fanout.
    A member for which there is no place among the leaders is left over. `nearest` tells with which
    leader it agrees most, so that those of one leader can be compared with each other.
    A bucket can be processed in portions: the first `known` leaders are those of the previous
    portions.

    With `sources`, a member is paired with leaders of other sources only. A leader of its own
    source still stands for it, so that the copies of one source do not take all places of leaders.

    Args:
        members: Numbers of the documents of the bucket in keep order, uint64.
        sources: Source of each document, uint64 (n,), or an empty array if all are compared.
        signatures: Signatures, (n, w).
        layout: Layout of the signatures.
        margin: Smallest number of agreeing slots or bits of a pair.
        join: Smallest number of agreeing slots or bits with which a member joins a leader.
        leaders: Leaders so far. New ones are appended, uint64.
        known: Number of leaders of previous portions.
        histogram: Counts compared pairs by the number of agreeing slots or bits, int64 (k + 1,).
        nearest: Receives the position of the leader that each left-over member agrees with most, or
            −1 for the other members, int64 (n,).
        out: Receives the packed pairs, uint64.

    Returns:
        The number of pairs in out, and the number of leaders.
    """
    count, known = U64(0), np.int64(known)
    for m in range(members.shape[0]):
        a = members[m]
        best = -1
        best_leader = 0
        first_leader = -1
        closest = -1
        closest_leader = -1
        for l in range(known):
            same = agreements(signatures, a, leaders[l], layout)
            if same > closest:
                closest, closest_leader = same, l
            if sources.shape[0] and sources[a] == sources[leaders[l]]:
                continue
            if same > best:
                best, best_leader = same, l
            if first_leader < 0 and same >= margin:
                first_leader = l
        if best >= 0:
            histogram[best] += 1
        if best >= margin:
            for l in (best_leader, first_leader):
                b = leaders[l]
                out[count] = (min(a, b) << U64(32)) | max(a, b)
                count += U64(1)
            if best_leader == first_leader:
                count -= U64(1)
        nearest[m] = -1
        if closest < join:
            if known < leaders.shape[0]:
                leaders[known] = a
                known += 1
            else:
                nearest[m] = closest_leader
    return np.int64(count), known


@kernel
def pair_agreements(
    pairs: np.ndarray, signatures: np.ndarray, layout: NamedTuple, out: np.ndarray
) -> None:
    """Computes the number of agreeing slots or bits of each packed pair into out.

    Args:
        pairs: Packed pairs, uint64 (m,).
        signatures: Signatures, (n, w).
        layout: Layout of the signatures.
        out: Receives the numbers of agreeing slots or bits, int64 (m,).
    """
    for p in range(pairs.shape[0]):
        a, b = pairs[p] >> U64(32), pairs[p] & U64(0xFFFFFFFF)
        out[p] = agreements(signatures, a, b, layout)


@kernel
def set_filter_bits(keys: np.ndarray, words: np.ndarray, shift: np.uint64) -> None:
    """Sets the bits of keys in a filter. See `nearkin.stages.lsh.key_sets.KeyFilter`.

    Args:
        keys: Keys, uint64 (m,).
        words: Bits of the filter, uint64.
        shift: Number of bits by which a key is shifted to give its bit.
    """
    for i in range(keys.shape[0]):
        bit = keys[i] >> shift
        words[bit >> U64(6)] |= U64(1) << (bit & U64(63))


@inlined
def has_filter_bit(key: np.uint64, words: np.ndarray, shift: np.uint64) -> bool:
    """Returns True if a filter contains a key, or another one of the same prefix.

    Args:
        key: The key.
        words: Bits of the filter, uint64.
        shift: Number of bits by which a key is shifted to give its bit.
    """
    bit = key >> shift
    return (words[bit >> U64(6)] >> (bit & U64(63))) & U64(1) != U64(0)


@kernel
def mark_common_keys(
    keys: np.ndarray,
    ordered: np.ndarray,
    first: np.ndarray,
    shift: np.uint64,
    filter_words: np.ndarray,
    filter_shift: np.uint64,
    is_seen: np.ndarray,
    is_matched: np.ndarray,
) -> None:
    """Marks the documents that have a key of a set, and the keys of the set that they have.

    Args:
        keys: Keys of each document, uint64 (n, keys).
        ordered: Keys of the set, sorted and distinct, uint64 (m,).
        first: Position of the first key of each prefix, and the end, int64. See `PrefixIndex`.
        shift: Number of bits by which a key is shifted to give its prefix.
        filter_words: A bit for each prefix of `filter_shift`, which is set if a key of the set has
            it, uint64.
        filter_shift: Number of bits by which a key is shifted to give its bit in the filter.
        is_seen: Marks of the keys of the set, which are added to, bool (m,).
        is_matched: Marks of the documents, which are added to, bool (n,).
    """
    for i in range(U64(keys.shape[0])):
        for j in range(U64(keys.shape[1])):
            key = keys[i, j]
            if has_filter_bit(key, filter_words, filter_shift):
                at = find_sorted(key, ordered, first, shift)
                if at >= 0:
                    is_seen[at] = True
                    is_matched[i] = True
