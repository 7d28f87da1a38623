"""The families of base hashes: what a Spec's `base_hash`, seed and key become for the kernels.

`xxh3` (Collet, xxHash 0.8) is the default; `murmur3` (Appleby, MurmurHash3 x64 128, first half) and `fnv1a` (Fowler, Noll, Vo)
exist for signatures that must match other systems; `siphash` (Aumasson, Bernstein, SipHash-2-4) is keyed, for input written by
adversaries.
"""

from typing import TypeAlias

import numpy as np

from nearkin.errors import KeyRequiredError, UsageError
from nearkin.hashing import kernels, xxh3
from nearkin.hashing.kernels import Fnv1aKey, Murmur3Key, SipKey, Xxh3Key
from nearkin.keys import HashKey
from nearkin.spec import FAMILIES, KEYED

FNV_BASIS = 0xCBF29CE484222325
Key: TypeAlias = Xxh3Key | Murmur3Key | Fnv1aKey | SipKey


def key_of(family: str, seed: int, secret: HashKey | None = None) -> Key:
    """What kernels take.

    Raises:
        KeyRequiredError: A keyed family without a key.
    """
    if family == KEYED:
        if secret is None:
            raise KeyRequiredError("base_hash='siphash' needs the key that its Spec names; give --key-file, or key=")
        low, high = secret.words()
        return SipKey(np.uint64(low), np.uint64(high))
    if family == "murmur3":
        return Murmur3Key(np.uint64(seed))
    if family == "fnv1a":
        return Fnv1aKey(np.uint64(FNV_BASIS ^ seed))
    if family == "xxh3":
        return xxh3.key(seed)
    raise UsageError(f"base_hash={family!r} is not one of {', '.join(map(repr, FAMILIES))}")


def hash_values(values: list[bytes], key: Key) -> np.ndarray:
    """The base hash of each value, uint64 (n,).

    Examples:
        >>> [hex(h) for h in hash_values([b"", b"near", b"duplicate"], key_of("xxh3", 0)).tolist()]
        ['0x2d06800538d394c2', '0xdc94c9f9b7e0fa92', '0xa21e6fe1ede61838']
    """
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    out = np.empty(len(values), np.uint64)
    kernels.hash_each(np.frombuffer(b"".join(values) or b"\0", np.uint8).copy(), offsets, key, out)
    return out
