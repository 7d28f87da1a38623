"""The constants of XXH3-64 for a seed (xxHash specification 0.8, section XXH3)."""

import numpy as np

from nearkin.stages.hashing import kernels
from nearkin.stages.hashing.kernels import Xxh3Key

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07d"
    "ccff7221b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e"
    "3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac83"
    "34d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce"
    "45cb3a8f95160428afd7fbcabb4b407e"
)
WORD = 2**64 - 1
"""A mask of 64 bits."""


def key(seed: int) -> Xxh3Key:
    """Returns the constants of XXH3-64 for a 64-bit seed."""
    words = [int.from_bytes(SECRET[i : i + 8], "little") for i in range(0, 192, 8)]
    at = [int.from_bytes(SECRET[i : i + 4], "little") for i in (0, 4)]
    low = seed & 0xFFFFFFFF
    swapped = seed ^ (int.from_bytes(low.to_bytes(4, "little"), "big") << 32)
    flips = [
        (at[0] ^ at[1]) + seed,
        (words[1] ^ words[2]) - swapped,
        (words[3] ^ words[4]) + seed,
        (words[5] ^ words[6]) - seed,
        0,
        seed,
    ]
    derived = b"".join(
        ((w + (-seed if i % 2 else seed)) & WORD).to_bytes(8, "little") for i, w in enumerate(words)
    )
    array = np.array([flip & WORD for flip in flips], np.uint64)
    array[4] = kernels.xxh64_avalanche(np.uint64(seed ^ words[7] ^ words[8]))
    return Xxh3Key(array, np.frombuffer(SECRET + derived, np.uint8).reshape(2, 192).copy())
