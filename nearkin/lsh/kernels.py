"""Banding kernels: signatures to band keys, keys to buckets, buckets to candidate pairs."""

import numpy as np

from nearkin.hashing.kernels import mix64
from nearkin.jit import kernel

U64 = np.uint64
U32 = np.uint32
EMPTY = U32(0xFFFFFFFF)
BAND = U64(0x9E3779B97F4A7C15)
SLOT = U64(0xD6E8FEB86659FD93)


@kernel
def band_keys(signatures: np.ndarray, salts: np.ndarray, rows: int, out: np.ndarray) -> None:
    """Key of each band, uint64 (b, n): h ← (h ^ slot)·C, h ^= h >> 32 over the band's slots from mix64(salt + band·G)."""
    n = signatures.shape[0]
    for band in range(out.shape[0]):
        first = band * rows
        for i in range(n):
            h = mix64(salts[i] + U64(band + 1) * BAND)
            for j in range(first, first + rows):
                h = (h ^ U64(signatures[i, j])) * SLOT
                h ^= h >> U64(32)
            out[band, i] = mix64(h)


@kernel
def pack(keys: np.ndarray, active: np.ndarray, part: np.uint64, part_bits: int, ordinal_bits: int, out: np.ndarray) -> int:
    """Top bits of the key and the ordinal in one word, for active documents whose key starts with `part`."""
    low = (U64(1) << U64(ordinal_bits)) - U64(1)
    count = U64(0)
    for i in range(keys.shape[0]):
        key = keys[i]
        inside = active[i] and (part_bits == 0 or (key >> U64(64 - part_bits)) == part)
        if inside:
            out[count] = ((key << U64(part_bits)) & ~low) | U64(i)
            count += U64(1)
    return np.int64(count)


@kernel
def split_by_key(packed: np.ndarray, start: int, end: int, keys: np.ndarray, low: np.uint64) -> None:
    """Orders one run of equal prefixes by (full key, ordinal), so that a bucket is equal full keys; in place."""
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
def find_buckets(packed: np.ndarray, keys: np.ndarray, ordinal_bits: int, starts: np.ndarray, ends: np.ndarray) -> int:
    """Splits sorted packed words into buckets of two or more equal full keys; packed keeps only ordinals afterwards."""
    low = (U64(1) << U64(ordinal_bits)) - U64(1)
    n, count, run = packed.shape[0], 0, 0
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
    """Bounds of the buckets inside one ordered run."""
    begin = run
    for i in range(run + 1, stop + 1):
        if i == stop or keys[packed[i] & low] != keys[packed[begin] & low]:
            if i - begin > 1:
                starts[count], ends[count] = begin, i
                count += 1
            begin = i
    return count


@kernel
def agreements(a: np.ndarray, b: np.ndarray) -> int:
    """Slots that agree; an empty slot agrees with nothing."""
    same = U32(0)
    for j in range(a.shape[0]):
        same += U32((a[j] == b[j]) & (a[j] != EMPTY))
    return np.int64(same)


@kernel
def seen_before(a: np.ndarray, b: np.ndarray, band: int, rows: int) -> bool:
    """Whether an earlier band of the two signatures agrees whole."""
    for earlier in range(band):
        at = earlier * rows
        j = 0
        while j < rows and a[at + j] == b[at + j]:
            j += 1
        if j == rows:
            return True
    return False


@kernel
def bucket_pairs(
    ordinals: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    signatures: np.ndarray,
    hot: np.ndarray,
    band: int,
    rows: int,
    margin: int,
    histogram: np.ndarray,
    out: np.ndarray,
) -> int:
    """All pairs of each bucket, once over all bands, scored by agreeing slots; those within the margin go to out.

    A pair that an earlier band holds is skipped, unless both documents were in a bucket that was capped (hot): that
    bucket may not have yielded it. Pairs are packed, the smaller ordinal on top. `histogram` counts candidates by agreements.
    """
    count = U64(0)
    for c in range(starts.shape[0]):
        for x in range(starts[c], ends[c]):
            a = ordinals[x]
            for y in range(x + 1, ends[c]):
                b = ordinals[y]
                if seen_before(signatures[a], signatures[b], band, rows) and not (hot[a] and hot[b]):
                    continue
                same = agreements(signatures[a], signatures[b])
                histogram[same] += 1
                if same >= margin:
                    out[count] = (min(a, b) << U64(32)) | max(a, b)
                    count += U64(1)
    return np.int64(count)


@kernel
def hot_bucket_pairs(
    members: np.ndarray,
    signatures: np.ndarray,
    margin: int,
    join: int,
    leaders: np.ndarray,
    histogram: np.ndarray,
    out: np.ndarray,
) -> int:
    """Clusters a bucket inside itself: members in keep order, each compared with the bucket's leaders so far.

    A member is paired with the leader it agrees with most and with the first one in keep order (the likeliest to stay kept)
    among those that pass the margin. It becomes a leader itself unless one agrees in at least `join` slots, and while there
    are fewer than leaders.shape[0], so work is bounded by members · fanout.
    """
    count, known = U64(0), 0
    for m in range(members.shape[0]):
        a = members[m]
        best, best_leader, first_leader = -1, 0, -1
        for l in range(known):
            same = agreements(signatures[a], signatures[leaders[l]])
            if same > best:
                best, best_leader = same, l
            if first_leader < 0 and same >= margin:
                first_leader = l
        if known:
            histogram[best] += 1
        if best >= margin:
            for l in (best_leader, first_leader):
                b = leaders[l]
                out[count] = (min(a, b) << U64(32)) | max(a, b)
                count += U64(1)
            if best_leader == first_leader:
                count -= U64(1)
        if best < join and known < leaders.shape[0]:
            leaders[known] = a
            known += 1
    return np.int64(count)


@kernel
def pair_agreements(pairs: np.ndarray, signatures: np.ndarray, out: np.ndarray) -> None:
    """Agreeing slots of each packed pair."""
    for p in range(pairs.shape[0]):
        a, b = pairs[p] >> U64(32), pairs[p] & U64(0xFFFFFFFF)
        out[p] = agreements(signatures[a], signatures[b])
