"""Base hashes as kernels, and the bit operations that every other kernel builds on."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nearkin.jit import kernel

U64 = np.uint64
U32 = np.uint32

PRIME32_1, PRIME32_2, PRIME32_3 = U64(0x9E3779B1), U64(0x85EBCA77), U64(0xC2B2AE3D)
PRIME64_1, PRIME64_2, PRIME64_3 = U64(0x9E3779B185EBCA87), U64(0xC2B2AE3D27D4EB4F), U64(0x165667B19E3779F9)
PRIME64_4, PRIME64_5 = U64(0x85EBCA77C2B2AE63), U64(0x27D4EB2F165667C5)
AVALANCHE, RRMXMX = U64(0x165667919E3779F9), U64(0x9FB21C651E98DF25)
SECRET_SIZE = 192


def _load(width: int, numba_type: Any) -> Any:
    """An unaligned little-endian load of `width` bits; reading past the array is the caller's fault."""

    @intrinsic
    def load(typingctx: Any, array: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(width).as_pointer())
            return builder.load(pointer, align=1)

        return numba_type(array, types.uint64), codegen

    return load


load_u64 = _load(64, types.uint64)
load_u32 = _load(32, types.uint32)


@intrinsic
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Index of the lowest set bit; 64 for zero."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(1)])
        function = builder.module.declare_intrinsic("llvm.cttz", [ir.IntType(64)], kind)
        return builder.call(function, [arguments[0], ir.Constant(ir.IntType(1), 0)])

    return types.uint64(types.uint64), codegen


@intrinsic
def count_ones(typingctx: Any, word: Any) -> Any:
    """Number of set bits."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)], kind), [arguments[0]])

    return types.uint64(types.uint64), codegen


@intrinsic
def multiply_fold(typingctx: Any, a: Any, b: Any) -> Any:
    """Low half ^ high half of the 128-bit product."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
        return builder.xor(builder.trunc(product, ir.IntType(64)), high)

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def swap_bytes(typingctx: Any, word: Any) -> Any:
    """The word with its bytes in reverse order."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), codegen


@kernel
def mix64(x: np.uint64) -> np.uint64:
    """Finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection of 64-bit words that avalanches."""
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


@kernel
def rotate_left(x: np.uint64, bits: np.uint64) -> np.uint64:
    """x rotated by 1 to 63 bits."""
    return (x << bits) | (x >> (U64(64) - bits))


@kernel
def xxh64_avalanche(h: np.uint64) -> np.uint64:
    """Final mix of XXH64."""
    h = (h ^ (h >> U64(33))) * PRIME64_2
    h = (h ^ (h >> U64(29))) * PRIME64_3
    return h ^ (h >> U64(32))


@kernel
def xxh3_avalanche(h: np.uint64) -> np.uint64:
    """Final mix of XXH3."""
    h = (h ^ (h >> U64(37))) * AVALANCHE
    return h ^ (h >> U64(32))


@kernel
def xxh3_1_to_3(data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray) -> np.uint64:
    """XXH3-64 of 1 to 3 bytes."""
    first = U64(data[start])
    middle = U64(data[start + (size >> U64(1))])
    last = U64(data[start + size - U64(1)])
    return xxh64_avalanche(((first << U64(16)) | (middle << U64(24)) | last | (size << U64(8))) ^ flips[0])


@kernel
def xxh3_4_to_8(data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray) -> np.uint64:
    """XXH3-64 of 4 to 8 bytes."""
    first, last = U64(load_u32(data, start)), U64(load_u32(data, start + size - U64(4)))
    h = (last + (first << U64(32))) ^ flips[1]
    h ^= rotate_left(h, U64(49)) ^ rotate_left(h, U64(24))
    h *= RRMXMX
    h ^= (h >> U64(35)) + size
    h *= RRMXMX
    return h ^ (h >> U64(28))


@kernel
def xxh3_9_to_16(data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray) -> np.uint64:
    """XXH3-64 of 9 to 16 bytes."""
    low = load_u64(data, start) ^ flips[2]
    high = load_u64(data, start + size - U64(8)) ^ flips[3]
    return xxh3_avalanche(size + swap_bytes(low) + high + multiply_fold(low, high))


@kernel
def xxh3_up_to_16(data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray) -> np.uint64:
    """XXH3-64 of 1 to 16 bytes without a branch on the length, which no processor can foresee in text.

    All three ways are computed; 7 bytes before `start` and 8 after it must be readable, whatever they hold.
    """
    short = xxh3_1_to_3(data, start, size, flips)
    medium = xxh3_4_to_8(data, start, size, flips)
    long = xxh3_9_to_16(data, start, size, flips)
    h = short if size < U64(4) else medium
    return h if size < U64(9) else long


@kernel
def mix_16(data: np.ndarray, at: np.uint64, secret: np.ndarray, key: np.uint64, seed: np.uint64) -> np.uint64:
    """One 16-byte step of XXH3 for inputs up to 240 bytes."""
    low = load_u64(data, at) ^ (load_u64(secret, key) + seed)
    high = load_u64(data, at + U64(8)) ^ (load_u64(secret, key + U64(8)) - seed)
    return multiply_fold(low, high)


@kernel
def xxh3_17_to_128(data: np.ndarray, start: np.uint64, size: np.uint64, secret: np.ndarray, seed: np.uint64) -> np.uint64:
    """XXH3-64 of 17 to 128 bytes: pairs of 16-byte steps from both ends inwards."""
    h = size * PRIME64_1
    steps = (size - U64(1)) >> U64(5)
    i = steps + U64(1)
    while i > U64(0):
        i -= U64(1)
        h += mix_16(data, start + U64(16) * i, secret, U64(32) * i, seed)
        h += mix_16(data, start + size - U64(16) * (i + U64(1)), secret, U64(32) * i + U64(16), seed)
    return xxh3_avalanche(h)


@kernel
def xxh3_129_to_240(data: np.ndarray, start: np.uint64, size: np.uint64, secret: np.ndarray, seed: np.uint64) -> np.uint64:
    """XXH3-64 of 129 to 240 bytes."""
    h = size * PRIME64_1
    for i in range(U64(8)):
        h += mix_16(data, start + U64(16) * i, secret, U64(16) * i, seed)
    h = xxh3_avalanche(h)
    for i in range(U64(8), size >> U64(4)):
        h += mix_16(data, start + U64(16) * i, secret, U64(16) * (i - U64(8)) + U64(3), seed)
    h += mix_16(data, start + size - U64(16), secret, U64(119), seed)
    return xxh3_avalanche(h)


@kernel
def accumulate(lanes: np.ndarray, data: np.ndarray, at: np.uint64, secret: np.ndarray, key: np.uint64) -> None:
    """One 64-byte stripe of XXH3 into eight lanes."""
    for i in range(U64(8)):
        value = load_u64(data, at + U64(8) * i)
        mixed = value ^ load_u64(secret, key + U64(8) * i)
        lanes[i ^ U64(1)] += value
        lanes[i] += (mixed & U64(0xFFFFFFFF)) * (mixed >> U64(32))


@kernel
def scramble(lanes: np.ndarray, secret: np.ndarray, key: np.uint64) -> None:
    """End of a 1,024-byte block of XXH3."""
    for i in range(U64(8)):
        h = lanes[i]
        lanes[i] = ((h ^ (h >> U64(47))) ^ load_u64(secret, key + U64(8) * i)) * PRIME32_1


@kernel
def xxh3_long(data: np.ndarray, start: np.uint64, size: np.uint64, secret: np.ndarray) -> np.uint64:
    """XXH3-64 of more than 240 bytes; `secret` is the one derived from the seed."""
    lanes = np.array([PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1], np.uint64)
    stripes = (size - U64(1)) >> U64(6)
    for stripe in range(stripes):
        accumulate(lanes, data, start + U64(64) * stripe, secret, U64(8) * (stripe & U64(15)))
        if stripe & U64(15) == U64(15):
            scramble(lanes, secret, U64(SECRET_SIZE - 64))
    accumulate(lanes, data, start + size - U64(64), secret, U64(SECRET_SIZE - 64 - 7))
    h = size * PRIME64_1
    for i in range(U64(4)):
        low = lanes[U64(2) * i] ^ load_u64(secret, U64(11) + U64(16) * i)
        high = lanes[U64(2) * i + U64(1)] ^ load_u64(secret, U64(19) + U64(16) * i)
        h += multiply_fold(low, high)
    return xxh3_avalanche(h)


@kernel
def xxh3_over_16(data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray, secrets: np.ndarray) -> np.uint64:
    """XXH3-64 of more than 16 bytes."""
    if size <= U64(128):
        return xxh3_17_to_128(data, start, size, secrets[0], flips[5])
    if size <= U64(240):
        return xxh3_129_to_240(data, start, size, secrets[0], flips[5])
    return xxh3_long(data, start, size, secrets[1])


@kernel
def xxh3_64(data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray, secrets: np.ndarray) -> np.uint64:
    """XXH3-64 of data[start : start + size] (Collet, xxHash 0.8 specification).

    `flips` and `secrets` come from `nearkin.hashing.xxh3.Key`; no byte outside the range is read.
    """
    if size > U64(16):
        return xxh3_over_16(data, start, size, flips, secrets)
    if size > U64(8):
        return xxh3_9_to_16(data, start, size, flips)
    if size > U64(3):
        return xxh3_4_to_8(data, start, size, flips)
    if size > U64(0):
        return xxh3_1_to_3(data, start, size, flips)
    return flips[4]


@kernel
def xxh3_each(data: np.ndarray, offsets: np.ndarray, flips: np.ndarray, secrets: np.ndarray, out: np.ndarray) -> None:
    """XXH3-64 of each slice data[offsets[i] : offsets[i + 1]]."""
    for i in range(out.shape[0]):
        out[i] = xxh3_64(data, U64(offsets[i]), U64(offsets[i + 1] - offsets[i]), flips, secrets)
