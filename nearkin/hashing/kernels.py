"""Base hashes and the bit mixers that every other kernel builds on."""

import numpy as np

from nearkin.jit import kernel

U64 = np.uint64


@kernel
def mix64(x: np.uint64) -> np.uint64:
    """Finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection of 64-bit words that avalanches."""
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))
