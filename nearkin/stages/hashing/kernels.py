"""Kernels of the base hashes, and the bit operations that other kernels use."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from nearkin.runtime.jit import kernel

U64 = np.uint64
U32 = np.uint32

PRIME32_1 = U64(0x9E3779B1)
PRIME32_2 = U64(0x85EBCA77)
PRIME32_3 = U64(0xC2B2AE3D)
PRIME64_1 = U64(0x9E3779B185EBCA87)
PRIME64_2 = U64(0xC2B2AE3D27D4EB4F)
PRIME64_3 = U64(0x165667B19E3779F9)
PRIME64_4, PRIME64_5 = U64(0x85EBCA77C2B2AE63), U64(0x27D4EB2F165667C5)
AVALANCHE, RRMXMX = U64(0x165667919E3779F9), U64(0x9FB21C651E98DF25)
LISTED_TOKENS = 256
"""The number of tokens that are listed by their length at a time."""
SECRET_SIZE = 192
MURMUR_1, MURMUR_2 = U64(0x87C37B91114253D5), U64(0x4CF5AD432745937F)
FNV_PRIME = U64(0x100000001B3)
SIP_0 = U64(0x736F6D6570736575)
SIP_1 = U64(0x646F72616E646F6D)
SIP_2 = U64(0x6C7967656E657261)
SIP_3 = U64(0x7465646279746573)


class Xxh3Key(NamedTuple):
    """The constants of XXH3-64 with a seed, computed by `nearkin.stages.hashing.xxh3.key`."""

    flips: np.ndarray
    """uint64 (6,): The constants for 1-3, 4-8 and 9-16 bytes (two), the empty hash, the seed."""
    secrets: np.ndarray
    """uint8 (2, 192): The secret of the specification, and the one derived from the seed."""


class Murmur3Key(NamedTuple):
    """The seed of the first half of MurmurHash3 x64 128."""

    seed: np.uint64


class Fnv1aKey(NamedTuple):
    """The initial value of FNV-1a 64: offset basis ^ seed."""

    basis: np.uint64


class SipKey(NamedTuple):
    """The 128-bit key of SipHash-2-4."""

    low: np.uint64
    high: np.uint64


def _load(width: int, numba_type: Any) -> Any:
    """Returns an intrinsic that loads `width` bits, little-endian and unaligned.

    It does not check bounds.
    """

    @intrinsic
    def load(typingctx: Any, array: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            pointer = builder.bitcast(
                builder.gep(data, [arguments[1]]), ir.IntType(width).as_pointer()
            )
            return builder.load(pointer, align=1)

        return numba_type(array, types.uint64), codegen

    return load


load_u64 = _load(64, types.uint64)
load_u32 = _load(32, types.uint32)


@intrinsic
def borrow(typingctx: Any, value: Any) -> Any:
    """Returns an array, or a tuple of arrays, without its reference counts.

    Counting references to an array takes longer than most short kernels, above all if several
    threads count references to one array. The result is valid as long as the array, so a kernel may
    borrow its arguments.

    Args:
        typingctx: Typing context of Numba.
        value: Array, number, or tuple of these.
    """

    def without_counts(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            view = context.make_array(kind)(context, builder, value)
            view.meminfo = ir.Constant(view.meminfo.type, None)
            view.parent = ir.Constant(view.parent.type, None)
            return view._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts = [
                without_counts(context, builder, part, builder.extract_value(value, number))
                for number, part in enumerate(kind)
            ]
            return context.make_tuple(builder, kind, parts)
        return value

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return without_counts(context, builder, signature.args[0], arguments[0])

    return value(value), codegen


@intrinsic
def bytes_at_least(typingctx: Any, array: Any, index: Any, least: Any) -> Any:
    """Compares 64 bytes with a limit, in vector registers; bit i is 1 if byte i reaches it.

    It does not check bounds.

    Args:
        typingctx: Typing context of Numba.
        array: Bytes, uint8.
        index: Position of the first of the 64 bytes, uint64.
        least: Limit, uint8.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(8), 64)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), lanes.as_pointer())
        first = builder.insert_element(
            ir.Constant(lanes, ir.Undefined), arguments[2], ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        limit = builder.shuffle_vector(first, ir.Constant(lanes, ir.Undefined), zeros)
        reached = builder.icmp_unsigned(">=", builder.load(pointer, align=1), limit)
        return builder.bitcast(reached, ir.IntType(64))

    return types.uint64(array, types.uint64, types.uint8), codegen


@intrinsic
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Returns the index of the lowest set bit, or 64 for zero.

    Args:
        typingctx: Typing context of Numba.
        word: Word to examine, uint64.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(1)])
        function = builder.module.declare_intrinsic("llvm.cttz", [ir.IntType(64)], kind)
        return builder.call(function, [arguments[0], ir.Constant(ir.IntType(1), 0)])

    return types.uint64(types.uint64), codegen


@intrinsic
def count_ones(typingctx: Any, word: Any) -> Any:
    """Returns the number of set bits.

    Args:
        typingctx: Typing context of Numba.
        word: Word to examine, uint64.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(
            builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)], kind), [arguments[0]]
        )

    return types.uint64(types.uint64), codegen


@intrinsic
def multiply_fold(typingctx: Any, a: Any, b: Any) -> Any:
    """Returns low half ^ high half of the 128-bit product.

    Args:
        typingctx: Typing context of Numba.
        a: First factor, uint64.
        b: Second factor, uint64.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
        return builder.xor(builder.trunc(product, ir.IntType(64)), high)

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def multiply_wide(typingctx: Any, a: Any, b: Any) -> Any:
    """Returns the 128-bit product of two numbers below 2^61, as its bits from 61 on, and below.

    Args:
        typingctx: Typing context of Numba.
        a: First factor, uint64.
        b: Second factor, uint64.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 61)), word)
        low = builder.and_(builder.trunc(product, word), ir.Constant(word, (1 << 61) - 1))
        return context.make_tuple(builder, signature.return_type, (high, low))

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), codegen


@intrinsic
def swap_bytes(typingctx: Any, word: Any) -> Any:
    """Returns the word with its bytes in reverse order.

    Args:
        typingctx: Typing context of Numba.
        word: Word to reverse, uint64.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), codegen


@kernel
def mix64(x: np.uint64) -> np.uint64:
    """Returns the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), a mixing bijection."""
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


@kernel
def rotate_left(x: np.uint64, bits: np.uint64) -> np.uint64:
    """Rotates x to the left by 1 to 63 bits.

    Args:
        x: Word to rotate.
        bits: Number of places, 1 to 63.

    Returns:
        The rotated word.
    """
    return (x << bits) | (x >> (U64(64) - bits))


@kernel
def xxh64_avalanche(h: np.uint64) -> np.uint64:
    """Returns the final mix of XXH64."""
    h = (h ^ (h >> U64(33))) * PRIME64_2
    h = (h ^ (h >> U64(29))) * PRIME64_3
    return h ^ (h >> U64(32))


@kernel
def xxh3_avalanche(h: np.uint64) -> np.uint64:
    """Returns the final mix of XXH3."""
    h = (h ^ (h >> U64(37))) * AVALANCHE
    return h ^ (h >> U64(32))


@kernel
def xxh3_1_to_3(
    data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray
) -> np.uint64:
    """Returns the XXH3-64 of 1 to 3 bytes.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input, 1 to 3.
        flips: Words that are combined with short inputs, uint64 (6,). See
            `nearkin.stages.hashing.xxh3.key`.
    """
    first = U64(data[start])
    middle = U64(data[start + (size >> U64(1))])
    last = U64(data[start + size - U64(1)])
    return xxh64_avalanche(
        ((first << U64(16)) | (middle << U64(24)) | last | (size << U64(8))) ^ flips[0]
    )


@kernel
def xxh3_4_to_8(
    data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray
) -> np.uint64:
    """Returns the XXH3-64 of 4 to 8 bytes.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input, 4 to 8.
        flips: Words that are combined with short inputs, uint64 (6,). See
            `nearkin.stages.hashing.xxh3.key`.
    """
    first, last = U64(load_u32(data, start)), U64(load_u32(data, start + size - U64(4)))
    h = (last + (first << U64(32))) ^ flips[1]
    h ^= rotate_left(h, U64(49)) ^ rotate_left(h, U64(24))
    h *= RRMXMX
    h ^= (h >> U64(35)) + size
    h *= RRMXMX
    return h ^ (h >> U64(28))


@kernel
def xxh3_9_to_16(
    data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray
) -> np.uint64:
    """Returns the XXH3-64 of 9 to 16 bytes.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input, 9 to 16.
        flips: Words that are combined with short inputs, uint64 (6,). See
            `nearkin.stages.hashing.xxh3.key`.
    """
    low = load_u64(data, start) ^ flips[2]
    high = load_u64(data, start + size - U64(8)) ^ flips[3]
    return xxh3_avalanche(size + swap_bytes(low) + high + multiply_fold(low, high))


@kernel
def mix_16(
    data: np.ndarray, at: np.uint64, secret: np.ndarray, key: np.uint64, seed: np.uint64
) -> np.uint64:
    """Returns one 16-byte step of XXH3 for inputs of up to 240 bytes.

    Args:
        data: Bytes that contain the input, uint8.
        at: Position of the 16 bytes.
        secret: Secret of XXH3, uint8 (192,).
        key: Position of the 16 bytes of the secret.
        seed: Seed of the hash.
    """
    low = load_u64(data, at) ^ (load_u64(secret, key) + seed)
    high = load_u64(data, at + U64(8)) ^ (load_u64(secret, key + U64(8)) - seed)
    return multiply_fold(low, high)


@kernel
def xxh3_17_to_128(
    data: np.ndarray, start: np.uint64, size: np.uint64, secret: np.ndarray, seed: np.uint64
) -> np.uint64:
    """Returns the XXH3-64 of 17 to 128 bytes, in pairs of 16-byte steps from both ends inwards.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input, 17 to 128.
        secret: Secret of XXH3, uint8 (192,).
        seed: Seed of the hash.
    """
    h = size * PRIME64_1
    steps = (size - U64(1)) >> U64(5)
    i = steps + U64(1)
    while i > U64(0):
        i -= U64(1)
        h += mix_16(data, start + U64(16) * i, secret, U64(32) * i, seed)
        h += mix_16(
            data, start + size - U64(16) * (i + U64(1)), secret, U64(32) * i + U64(16), seed
        )
    return xxh3_avalanche(h)


@kernel
def xxh3_129_to_240(
    data: np.ndarray, start: np.uint64, size: np.uint64, secret: np.ndarray, seed: np.uint64
) -> np.uint64:
    """Returns the XXH3-64 of 129 to 240 bytes.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input, 129 to 240.
        secret: Secret of XXH3, uint8 (192,).
        seed: Seed of the hash.
    """
    h = size * PRIME64_1
    for i in range(U64(8)):
        h += mix_16(data, start + U64(16) * i, secret, U64(16) * i, seed)
    h = xxh3_avalanche(h)
    for i in range(U64(8), size >> U64(4)):
        h += mix_16(data, start + U64(16) * i, secret, U64(16) * (i - U64(8)) + U64(3), seed)
    h += mix_16(data, start + size - U64(16), secret, U64(119), seed)
    return xxh3_avalanche(h)


@kernel
def accumulate(
    lanes: np.ndarray, data: np.ndarray, at: np.uint64, secret: np.ndarray, key: np.uint64
) -> None:
    """Adds one 64-byte stripe of XXH3 to eight lanes.

    Args:
        lanes: Accumulators, uint64 (8,). They are changed.
        data: Bytes that contain the input, uint8.
        at: Position of the stripe.
        secret: Secret of XXH3, uint8 (192,).
        key: Position of the 64 bytes of the secret.
    """
    for i in range(U64(8)):
        value = load_u64(data, at + U64(8) * i)
        mixed = value ^ load_u64(secret, key + U64(8) * i)
        lanes[i ^ U64(1)] += value
        lanes[i] += (mixed & U64(0xFFFFFFFF)) * (mixed >> U64(32))


@kernel
def scramble(lanes: np.ndarray, secret: np.ndarray, key: np.uint64) -> None:
    """Finishes a 1,024-byte block of XXH3.

    Args:
        lanes: Accumulators, uint64 (8,). They are changed.
        secret: Secret of XXH3, uint8 (192,).
        key: Position of the 64 bytes of the secret.
    """
    for i in range(U64(8)):
        h = lanes[i]
        lanes[i] = ((h ^ (h >> U64(47))) ^ load_u64(secret, key + U64(8) * i)) * PRIME32_1


@kernel
def xxh3_long(data: np.ndarray, start: np.uint64, size: np.uint64, secret: np.ndarray) -> np.uint64:
    """Returns the XXH3-64 of more than 240 bytes; `secret` is derived from the seed.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input, more than 240.
        secret: Secret of XXH3, uint8 (192,).
    """
    lanes = np.array(
        [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1],
        np.uint64,
    )
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
def xxh3_over_16(
    data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray, secrets: np.ndarray
) -> np.uint64:
    """Returns the XXH3-64 of more than 16 bytes.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input, more than 16.
        flips: Words that are combined with short inputs, uint64 (6,). See
            `nearkin.stages.hashing.xxh3.key`.
        secrets: Secrets for inputs of 17 to 240 and of more than 240 bytes, uint8 (2, 192).
    """
    if size <= U64(128):
        return xxh3_17_to_128(data, start, size, secrets[0], flips[5])
    if size <= U64(240):
        return xxh3_129_to_240(data, start, size, secrets[0], flips[5])
    return xxh3_long(data, start, size, secrets[1])


@kernel
def xxh3_64(
    data: np.ndarray, start: np.uint64, size: np.uint64, flips: np.ndarray, secrets: np.ndarray
) -> np.uint64:
    """Returns the XXH3-64 of data[start : start + size] (Collet, xxHash 0.8 specification).

    `flips` and `secrets` are those of `hashing.xxh3.key`. No byte outside the range is
    read.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input.
        flips: Words that are combined with short inputs, uint64 (6,). See
            `nearkin.stages.hashing.xxh3.key`.
        secrets: Secrets for inputs of 17 to 240 and of more than 240 bytes, uint8 (2, 192).
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
def tail_word(data: np.ndarray, at: np.uint64, size: np.uint64) -> np.uint64:
    """Returns up to 8 bytes as a little-endian word, padded with zeros.

    Args:
        data: Bytes that contain the input, uint8.
        at: Position of the first byte.
        size: Number of bytes, at most 8.
    """
    word = U64(0)
    for i in range(size):
        word |= U64(data[at + i]) << (U64(8) * i)
    return word


@kernel
def murmur_scatter(
    word: np.uint64, first: np.uint64, second: np.uint64, bits: np.uint64
) -> np.uint64:
    """Mixes a word before it is added to a half of MurmurHash3.

    Args:
        word: Word to mix.
        first: First multiplier, odd.
        second: Second multiplier, odd.
        bits: Number of places of the rotation between the two products, 1 to 63.

    Returns:
        The mixed word.
    """
    return rotate_left(word * first, bits) * second


@kernel
def murmur_avalanche(h: np.uint64) -> np.uint64:
    """Returns the final mix of MurmurHash3 (fmix64)."""
    h = (h ^ (h >> U64(33))) * U64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> U64(33))) * U64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> U64(33))


@kernel
def murmur3_64(data: np.ndarray, start: np.uint64, size: np.uint64, key: Murmur3Key) -> np.uint64:
    """Returns the first 64 bits of MurmurHash3_x64_128 (Appleby, smhasher).

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input.
        key: Key that contains the seed.
    """
    h, g = key.seed, key.seed
    at, end = start, start + (size & ~U64(15))
    while at < end:
        h ^= murmur_scatter(load_u64(data, at), MURMUR_1, MURMUR_2, U64(31))
        h = (rotate_left(h, U64(27)) + g) * U64(5) + U64(0x52DCE729)
        g ^= murmur_scatter(load_u64(data, at + U64(8)), MURMUR_2, MURMUR_1, U64(33))
        g = (rotate_left(g, U64(31)) + h) * U64(5) + U64(0x38495AB5)
        at += U64(16)
    rest = size & U64(15)
    if rest > U64(8):
        g ^= murmur_scatter(
            tail_word(data, at + U64(8), rest - U64(8)), MURMUR_2, MURMUR_1, U64(33)
        )
    h ^= murmur_scatter(tail_word(data, at, min(rest, U64(8))), MURMUR_1, MURMUR_2, U64(31))
    h ^= size
    g ^= size
    h += g
    g += h
    return murmur_avalanche(h) + murmur_avalanche(g)


@kernel
def fnv1a_64(data: np.ndarray, start: np.uint64, size: np.uint64, key: Fnv1aKey) -> np.uint64:
    """Returns the FNV-1a 64 (Fowler, Noll, Vo; RFC 9923): h <- (h ^ byte) * prime.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input.
        key: Key that contains the initial value of the hash (offset basis).
    """
    h = key.basis
    for i in range(start, start + size):
        h = (h ^ U64(data[i])) * FNV_PRIME
    return h


@kernel
def sip_round(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Returns four words after one SipRound.

    Args:
        a: First word of the state (v0).
        b: Second word of the state (v1).
        c: Third word of the state (v2).
        d: Fourth word of the state (v3).
    """
    a += b
    c += d
    b = rotate_left(b, U64(13)) ^ a
    d = rotate_left(d, U64(16)) ^ c
    a = rotate_left(a, U64(32))
    c += b
    a += d
    b = rotate_left(b, U64(17)) ^ c
    d = rotate_left(d, U64(21)) ^ a
    return a, b, rotate_left(c, U64(32)), d


@kernel
def siphash_64(data: np.ndarray, start: np.uint64, size: np.uint64, key: SipKey) -> np.uint64:
    """Returns the SipHash-2-4 with the key high << 64 | low (Aumasson, Bernstein, 2012).

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input.
        key: Key that contains the lower and the upper 64 bits of the secret.
    """
    a = key.low ^ SIP_0
    b = key.high ^ SIP_1
    c = key.low ^ SIP_2
    d = key.high ^ SIP_3
    at, end = start, start + (size & ~U64(7))
    while at < end:
        word = load_u64(data, at)
        a, b, c, d = sip_round(a, b, c, d ^ word)
        a, b, c, d = sip_round(a, b, c, d)
        a ^= word
        at += U64(8)
    word = tail_word(data, at, size & U64(7)) | (size << U64(56))
    a, b, c, d = sip_round(a, b, c, d ^ word)
    a, b, c, d = sip_round(a, b, c, d)
    a ^= word
    c ^= U64(0xFF)
    for _ in range(4):
        a, b, c, d = sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


OTHERS: dict[type, Callable[..., Any]] = {
    Murmur3Key: murmur3_64,
    Fnv1aKey: fnv1a_64,
    SipKey: siphash_64,
}
"""The base hash of each type of key. Kernels are compiled once for each type they are called with.

XXH3 has separate loops, because its key contains arrays. Reading them from a tuple for each token,
or passing them to one more call, would take several times as long as the hash.
"""


def hash_bytes(data: np.ndarray, start: np.uint64, size: np.uint64, key: NamedTuple) -> np.uint64:
    """Returns the base hash of data[start : start + size], for families other than XXH3.

    No byte outside the range is read.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input.
        key: Key of the family. See `nearkin.stages.hashing.families.key_of`.
    """
    return OTHERS[type(key)](data, start, size, key)


@overload(hash_bytes, strict=False)
def _hash_bytes(data: Any, start: Any, size: Any, key: Any) -> Callable[..., Any]:
    function = OTHERS[key.instance_class]
    return lambda data, start, size, key: function(data, start, size, key)


@kernel
def xxh3_tokens(
    text: np.ndarray,
    edges: np.ndarray,
    count: np.uint64,
    key: Xxh3Key,
    out: np.ndarray,
    at: np.uint64,
) -> None:
    """Implements `hash_tokens` for XXH3.

    XXH3 has a formula for each class of lengths, and processors cannot predict the lengths of
    words. So some tokens at a time are listed by their class, without a branch. Then each class is
    hashed in a loop of its own. In text of scripts without spaces, nearly all tokens have three
    bytes. There, eight tokens are tested at a time, and need no list.
    """
    flips, secrets = key.flips, key.secrets
    if count == U64(0):
        return
    listed = np.empty((4, LISTED_TOKENS), np.uint32)
    size_of_text = U64(edges[count + count - U64(1)]) - U64(edges[0])
    at_once = U64(8) if size_of_text < U64(4) * count else U64(LISTED_TOKENS)
    first = U64(0)
    while first < count:
        end = min(first + U64(LISTED_TOKENS), count)
        tiny, short = U64(0), U64(0)
        medium, long = U64(0), U64(0)
        group = first
        while group < end:
            after = min(group + at_once, end)
            longest = U64(4)
            if at_once == U64(8):
                longest = U64(0)
                for t in range(group, after):
                    longest = max(longest, U64(edges[t + t + U64(1)]) - U64(edges[t + t]))
            if longest < U64(4):
                for t in range(group, after):
                    start = U64(edges[t + t])
                    size = U64(edges[t + t + U64(1)]) - start
                    out[at + t] = xxh3_1_to_3(text, start, size, flips)
            else:
                for t in range(group, after):
                    size = U64(edges[t + t + U64(1)]) - U64(edges[t + t])
                    listed[U64(0), tiny] = t
                    listed[U64(1), short] = t
                    listed[U64(2), medium] = t
                    listed[U64(3), long] = t
                    tiny += U64(size < U64(4))
                    short += U64(size - U64(4) < U64(5))
                    medium += U64(size - U64(9) < U64(8))
                    long += U64(size > U64(16))
            group = after
        for i in range(tiny):
            t = U64(listed[U64(0), i])
            start = U64(edges[t + t])
            out[at + t] = xxh3_1_to_3(text, start, U64(edges[t + t + U64(1)]) - start, flips)
        for i in range(short):
            t = U64(listed[U64(1), i])
            start = U64(edges[t + t])
            out[at + t] = xxh3_4_to_8(text, start, U64(edges[t + t + U64(1)]) - start, flips)
        for i in range(medium):
            t = U64(listed[U64(2), i])
            start = U64(edges[t + t])
            out[at + t] = xxh3_9_to_16(text, start, U64(edges[t + t + U64(1)]) - start, flips)
        for i in range(long):
            t = U64(listed[U64(3), i])
            start = U64(edges[t + t])
            size_of_long = U64(edges[t + t + U64(1)]) - start
            out[at + t] = xxh3_over_16(text, start, size_of_long, flips, secrets)
        first = end


@kernel
def other_tokens(
    text: np.ndarray,
    edges: np.ndarray,
    count: np.uint64,
    key: NamedTuple,
    out: np.ndarray,
    at: np.uint64,
) -> None:
    """Implements `hash_tokens` for the other families."""
    for t in range(count):
        start = U64(edges[t + t])
        out[at + t] = hash_bytes(text, start, U64(edges[t + t + U64(1)]) - start, key)


def hash_tokens(
    text: np.ndarray,
    edges: np.ndarray,
    count: np.uint64,
    key: NamedTuple,
    out: np.ndarray,
    at: np.uint64,
) -> None:
    """Computes the base hash of each token text[edges[2t] : edges[2t + 1]] into out[at:].

    Tokens have one byte or more; 7 bytes of text before each and 8 after it must be readable.

    Args:
        text: Bytes of the tokens, uint8.
        edges: First byte and end of each token, alternating, uint32 (2 · count or more,).
        count: Number of tokens.
        key: Key of the family. See `nearkin.stages.hashing.families.key_of`.
        out: Array for the hashes, uint64.
        at: Position of the first hash in `out`.
    """
    if isinstance(key, Xxh3Key):
        xxh3_tokens(text, edges, count, key, out, at)
    else:
        other_tokens(text, edges, count, key, out, at)


@overload(hash_tokens, strict=False)
def _hash_tokens(
    text: Any, edges: Any, count: Any, key: Any, out: Any, at: Any
) -> Callable[..., Any]:
    loop = xxh3_tokens if key.instance_class is Xxh3Key else other_tokens
    return lambda text, edges, count, key, out, at: loop(text, edges, count, key, out, at)


@kernel
def xxh3_each(data: np.ndarray, offsets: np.ndarray, key: Xxh3Key, out: np.ndarray) -> None:
    """Implements `hash_slices` for XXH3."""
    flips, secrets = key.flips, key.secrets
    for i in range(out.shape[0]):
        out[i] = xxh3_64(data, U64(offsets[i]), U64(offsets[i + 1] - offsets[i]), flips, secrets)


@kernel
def other_each(data: np.ndarray, offsets: np.ndarray, key: NamedTuple, out: np.ndarray) -> None:
    """Implements `hash_slices` for the other families."""
    for i in range(out.shape[0]):
        out[i] = hash_bytes(data, U64(offsets[i]), U64(offsets[i + 1] - offsets[i]), key)


def hash_slices(data: np.ndarray, offsets: np.ndarray, key: NamedTuple, out: np.ndarray) -> None:
    """Computes `hash_each` when it is called by a kernel.

    Args:
        data: Bytes of the slices, uint8.
        offsets: First byte of each slice, and the end, int64 (n + 1,).
        key: Key of the family. See `nearkin.stages.hashing.families.key_of`.
        out: Array for the hashes, uint64 (n,).
    """
    if isinstance(key, Xxh3Key):
        xxh3_each(data, offsets, key, out)
    else:
        other_each(data, offsets, key, out)


@overload(hash_slices, strict=False)
def _hash_slices(data: Any, offsets: Any, key: Any, out: Any) -> Callable[..., Any]:
    loop = xxh3_each if key.instance_class is Xxh3Key else other_each
    return lambda data, offsets, key, out: loop(data, offsets, key, out)


@kernel
def hash_each(data: np.ndarray, offsets: np.ndarray, key: NamedTuple, out: np.ndarray) -> None:
    """Computes the base hash of each slice data[offsets[i] : offsets[i + 1]] into out.

    No byte outside the slices is read.

    Args:
        data: Bytes of the slices, uint8.
        offsets: First byte of each slice, and the end, int64 (n + 1,).
        key: Key of the family. See `nearkin.stages.hashing.families.key_of`.
        out: Array for the hashes, uint64 (n,).
    """
    hash_slices(data, offsets, key, out)


@kernel
def xxh64_round(lane: np.uint64, word: np.uint64) -> np.uint64:
    """Returns a lane of XXH64 after a word of the input.

    Args:
        lane: The lane.
        word: 8 bytes of the input, little-endian.
    """
    return rotate_left(lane + word * PRIME64_2, U64(31)) * PRIME64_1


@kernel
def xxh64(data: np.ndarray, start: np.uint64, size: np.uint64, seed: np.uint64) -> np.uint64:
    """Returns the XXH64 (Collet, xxHash 0.8) of data[start : start + size].

    No byte outside the range is read.

    Args:
        data: Bytes that contain the input, uint8.
        start: Position of the first byte of the input.
        size: Number of bytes of the input.
        seed: Seed of the hash.
    """
    at, end = start, start + size
    h = seed + PRIME64_5
    if size >= U64(32):
        a = seed + PRIME64_1 + PRIME64_2
        b = seed + PRIME64_2
        c = seed
        d = seed - PRIME64_1
        while at + U64(32) <= end:
            a = xxh64_round(a, load_u64(data, at))
            b = xxh64_round(b, load_u64(data, at + U64(8)))
            c = xxh64_round(c, load_u64(data, at + U64(16)))
            d = xxh64_round(d, load_u64(data, at + U64(24)))
            at += U64(32)
        h = rotate_left(a, U64(1)) + rotate_left(b, U64(7))
        h += rotate_left(c, U64(12)) + rotate_left(d, U64(18))
        for lane in (a, b, c, d):
            h = (h ^ xxh64_round(U64(0), lane)) * PRIME64_1 + PRIME64_4
    h += size
    while at + U64(8) <= end:
        h ^= xxh64_round(U64(0), load_u64(data, at))
        h = rotate_left(h, U64(27)) * PRIME64_1 + PRIME64_4
        at += U64(8)
    if at + U64(4) <= end:
        h ^= U64(load_u32(data, at)) * PRIME64_1
        h = rotate_left(h, U64(23)) * PRIME64_2 + PRIME64_3
        at += U64(4)
    while at < end:
        h = rotate_left(h ^ U64(data[at]) * PRIME64_5, U64(11)) * PRIME64_1
        at += U64(1)
    return xxh64_avalanche(h)


@kernel
def xxh64_each(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray, seed: np.uint64, out: np.ndarray
) -> None:
    """Computes the XXH64 of each slice data[starts[i] : ends[i]] into out. Slices may overlap.

    Args:
        data: Bytes of the slices, uint8.
        starts: First byte of each slice, int64 (n,).
        ends: Position after the last byte of each slice, int64 (n,).
        seed: Seed of the hash.
        out: Array for the hashes, uint64 (n,).
    """
    for i in range(out.shape[0]):
        out[i] = xxh64(data, U64(starts[i]), U64(ends[i] - starts[i]), seed)


@kernel
def find_sorted(h: np.uint64, keys: np.ndarray, index: np.ndarray, shift: np.uint64) -> np.int64:
    """Returns the position of a hash among sorted hashes, or −1.

    index[p] is the position of the first hash with the top bits p = h >> shift.

    Args:
        h: Hash to find.
        keys: Sorted distinct hashes, uint64 (m,).
        index: Position of the first hash of each prefix, and the end, int64. See `PrefixIndex`.
        shift: Number of bits by which a hash is shifted to give its prefix.
    """
    at, end = index[h >> shift], index[(h >> shift) + U64(1)]
    while at < end and keys[at] < h:
        at += 1
    return at if at < end and keys[at] == h else np.int64(-1)
