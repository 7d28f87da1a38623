"""The families of base hashes, and the keys by which kernels select them.

`xxh3` (Collet, xxHash 0.8) is the default. `murmur3` (Appleby, MurmurHash3 x64 128, first half) and
`fnv1a` (Fowler, Noll, Vo) exist for signatures that must match those of other systems. `siphash`
(Aumasson, Bernstein, SipHash-2-4) is keyed, for input that adversaries write.
"""

from typing import TypeAlias

import numpy as np

from nearkin.errors import KeyRequiredError, UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import FAMILIES, KEYED
from nearkin.stages.hashing import kernels, xxh3
from nearkin.stages.hashing.kernels import Fnv1aKey, Murmur3Key, SipKey, Xxh3Key

ROW_SEEDS = (0, 1)
"""The seeds of the two words of the hash of a row of bytes."""
FNV_BASIS = 0xCBF29CE484222325
Key: TypeAlias = Xxh3Key | Murmur3Key | Fnv1aKey | SipKey


def key_of(family: str, seed: int, secret: HashKey | None = None) -> Key:
    """Returns the key by which kernels select a family, a seed and a secret.

    A keyed family, `siphash`, has a secret in place of a seed.
    """
    if family == KEYED:
        if secret is None:
            raise KeyRequiredError(
                f"{name_setting('base_hash', 'siphash')} needs the key that the Spec names; pass "
                f"it with "
                f"{name_setting('key')}"
            )
        low, high = secret.words()
        return SipKey(np.uint64(low), np.uint64(high))
    if family == "murmur3":
        return Murmur3Key(np.uint64(seed))
    if family == "fnv1a":
        return Fnv1aKey(np.uint64(FNV_BASIS ^ seed))
    if family == "xxh3":
        return xxh3.key(seed)
    valid = ", ".join(map(repr, FAMILIES))
    raise UsageError(
        f"unknown {name_setting('base_hash', family)}; valid values are "
        f"{valid}{did_you_mean(family, FAMILIES)}"
    )


def require_hashes(hashes: np.ndarray) -> np.ndarray:
    """Returns shingle hashes that a caller computed, of any type of integers, as uint64 (m,).

    Examples:
        >>> require_hashes(np.array([3, 1])).dtype
        dtype('uint64')
    """
    values = np.asarray(hashes)
    is_integer = values.dtype.kind in "ui" or values.size == 0
    if values.ndim != 1 or not is_integer or (values < 0).any():
        raise UsageError(
            f"hashes are one row of whole numbers of 64 bits, not {values.dtype} {values.shape}"
        )
    return np.ascontiguousarray(values, np.uint64)


def hash_values(values: list[bytes], key: Key) -> np.ndarray:
    """Returns the base hash of each value, uint64 (n,).

    Examples:
        >>> [hex(h) for h in hash_values([b"", b"near", b"duplicate"], key_of("xxh3", 0)).tolist()]
        ['0x2d06800538d394c2', '0xdc94c9f9b7e0fa92', '0xa21e6fe1ede61838']
    """
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    out = np.empty(len(values), np.uint64)
    kernels.hash_each(np.frombuffer(b"".join(values) or b"\0", np.uint8).copy(), offsets, key, out)
    return out


def hash_rows(rows: np.ndarray) -> np.ndarray:
    """Returns 128-bit hashes of rows of bytes, uint64 (n, 2). Equal rows have equal hashes."""
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
    content = np.ascontiguousarray(rows).reshape(-1)
    out = np.empty((len(ROW_SEEDS), len(rows)), np.uint64)
    for hashes, seed in zip(out, ROW_SEEDS, strict=True):
        kernels.hash_each(content, offsets, key_of("xxh3", seed), hashes)
    return np.ascontiguousarray(out.T)
