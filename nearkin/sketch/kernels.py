"""MinHash kernels: shingle hashes to slots."""

import numpy as np

from nearkin.hashing.kernels import mix64
from nearkin.jit import kernel

U64 = np.uint64
U32 = np.uint32
EMPTY = U32(0xFFFFFFFF)
TAG_SHIFT = U32(29)
VALUE_SHIFT = U32(3)
STREAM_A = U64(0x9E3779B97F4A7C15)
STREAM_B = U64(0xC2B2AE3D27D4EB4F)


@kernel
def bin_round(hashes: np.ndarray, tag: np.uint32, multiplier: np.uint64, slots: np.ndarray) -> None:
    """One round of one-permutation binning: x = h·multiplier; slot (x₆₃‥₃₂ · k) >> 32 takes min(tag << 29 | x' >> 3),

    where x' = low half ^ high half of x.
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
    """The largest slot: its tag tells whether a later round can still lower anything."""
    highest = U32(0)
    for j in range(slots.shape[0]):
        highest = max(highest, slots[j])
    return highest


@kernel
def complete(hashes: np.ndarray, tag: np.uint32, multipliers: np.ndarray, slots: np.ndarray) -> None:
    """k-hash MinHash over all elements for the slots that no round has reached: min of (h₃₂ · aⱼ) mod 2³² >> 3."""
    first = tag << TAG_SHIFT
    for j in range(slots.shape[0]):
        if slots[j] >= first:
            a, lowest = multipliers[j], EMPTY
            for i in range(hashes.shape[0]):
                lowest = min(lowest, U32(U32(hashes[i] >> U64(32)) * a))
            slots[j] = min(slots[j], first | (lowest >> VALUE_SHIFT))


@kernel
def binned_update(hashes: np.ndarray, rounds: np.ndarray, completion: np.ndarray, slots: np.ndarray) -> None:
    """Folds elements into slots; stops early, exactly: a round's values never lower a slot of an earlier round."""
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
    hashes: np.ndarray, offsets: np.ndarray, rounds: np.ndarray, completion: np.ndarray, out: np.ndarray
) -> None:
    """Binned MinHash of each document's shingle hashes into its row of out (n, k)."""
    for d in range(out.shape[0]):
        slots = out[d]
        slots[:] = EMPTY
        binned_update(hashes[offsets[d] : offsets[d + 1]], rounds, completion, slots)


@kernel
def classic_update(hashes: np.ndarray, a: np.ndarray, b: np.ndarray, slots: np.ndarray) -> None:
    """k-hash MinHash: slot j = min over elements of (aⱼ·h₃₂ + bⱼ mod 2⁶⁴) >> 32 (multiply-shift; strongly universal)."""
    if hashes.shape[0] == 0:
        return
    for j in range(slots.shape[0]):
        aj, bj, lowest = a[j], b[j], EMPTY - U32(1)
        for i in range(hashes.shape[0]):
            lowest = min(lowest, U32((aj * (hashes[i] >> U64(32)) + bj) >> U64(32)))
        slots[j] = min(slots[j], lowest)


@kernel
def classic_minhash(hashes: np.ndarray, offsets: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Classic MinHash of each document's shingle hashes into its row of out (n, k)."""
    for d in range(out.shape[0]):
        slots = out[d]
        slots[:] = EMPTY
        classic_update(hashes[offsets[d] : offsets[d + 1]], a, b, slots)


@kernel
def stream_fingerprints(hashes: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """128 bits of each shingle stream, order and length included: sums of hashes mixed with their position."""
    for d in range(out.shape[0]):
        start = offsets[d]
        size = offsets[d + 1] - start
        low, high = U64(0), U64(0)
        for i in range(size):
            t = (hashes[start + i] ^ (U64(i) * STREAM_A)) * STREAM_B
            t ^= t >> U64(32)
            u = t * STREAM_A
            low += t
            high += u ^ (u >> U64(29))
        out[d, 0] = mix64(low + U64(size))
        out[d, 1] = mix64(high ^ U64(size))
