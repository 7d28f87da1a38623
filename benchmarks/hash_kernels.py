"""Affine functions modulo 2^61 - 1, with which the hash families are compared."""

import numpy as np

from nearkin.runtime.jit import kernel

U32 = np.uint32
U64 = np.uint64


@kernel
def affine_61(a: np.uint64, x: np.uint64, b: np.uint64) -> np.uint64:
    """Returns (a·x + b) mod 2⁶¹ − 1 for a, b, x < 2⁶¹ − 1.

    The product has 128 bits, so it does not wrap around before the modulus is taken.

    Args:
        a: Multiplier, less than 2^61 − 1.
        x: Value.
        b: Summand, less than 2^61 − 1.
    """
    a_low = a & U32(0xFFFFFFFF)
    a_high = a >> U64(32)
    x_low = x & U32(0xFFFFFFFF)
    x_high = x >> U64(32)
    low = a_low * x_low
    low_high = a_low * x_high
    high_low = a_high * x_low
    high = a_high * x_high
    carry = ((low >> U64(32)) + (low_high & U32(0xFFFFFFFF)) + (high_low & U32(0xFFFFFFFF))) >> U64(
        32
    )
    high += (low_high >> U64(32)) + (high_low >> U64(32)) + carry
    low = a * x
    prime = (U64(1) << U64(61)) - U64(1)
    total = (low & prime) + ((low >> U64(61)) | (high << U64(3)))
    total = (total & prime) + (total >> U64(61)) + b
    total = (total & prime) + (total >> U64(61))
    return total - prime if total >= prime else total


@kernel
def affine_minhash(values: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Writes the minima of k affine functions over values.

    Args:
        values: Values below 2⁶¹ − 1, uint64 (n,).
        a: Multipliers below 2⁶¹ − 1, uint64 (k,).
        b: Summands below 2⁶¹ − 1, uint64 (k,).
        out: Receives the minima, uint64 (k,).
    """
    for j in range(out.shape[0]):
        lowest = U64(0xFFFFFFFFFFFFFFFF)
        for i in range(values.shape[0]):
            lowest = min(lowest, affine_61(a[j], values[i], b[j]))
        out[j] = lowest


@kernel
def affine_hashes(values: np.ndarray, a: np.uint64, b: np.uint64, out: np.ndarray) -> None:
    """Writes the value of an affine function for each of several values.

    Args:
        values: Values below 2⁶¹ − 1, uint64 (n,).
        a: Multiplier, less than 2⁶¹ − 1.
        b: Summand, less than 2⁶¹ − 1.
        out: Receives the hashes, uint64 (n,).
    """
    for i in range(values.shape[0]):
        out[i] = affine_61(a, values[i], b)
