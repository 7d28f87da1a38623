"""Signatures of vectors: the sides of random hyperplanes on which a vector lies.

Two signatures agree in a bit with probability 1 − θ/π, where θ is the angle between the vectors
(Charikar, STOC 2002; Goemans, Williamson, JACM 1995). Projections are one matrix product (BLAS). A
projection that is within its rounding error of zero is computed again in double precision, term by
term. So a bit depends only on the vector, not on its batch or on the BLAS library.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import KEYED, KEYED_HYPERPLANES, Spec
from nearkin.stages.hashing import kernels as hashing
from nearkin.stages.hashing.families import hash_rows, key_of
from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch import kernels
from nearkin.stages.sketch.minhash import splitmix64
from nearkin.stages.sketch.sketcher import Sketches

PARTS = 8
PART_BITS = 16
"""A component is the sum of eight 16-bit numbers minus its mean.

This is nearly normal (kurtosis 2.85) and exact in float32.
"""
MEAN = PARTS * ((1 << PART_BITS) - 1) // 2
ROUNDING = 2.0**-23
"""Twice the unit roundoff of float32.

d · ROUNDING · |v|·|h| bounds the error of a sum of d products in any order.
"""
TINY = np.float32(1e-15)
"""The length below which squares underflow. All signs of shorter vectors are computed exactly."""
ROWS = 1024
"""The number of vectors that are projected at once."""


@cache
def hyperplanes(dimensions: int, bits: int, seed: int, secret: HashKey | None = None) -> np.ndarray:
    """Returns random hyperplanes, float32 (dimensions, bits), of integers.

    Component i of plane j is computed from the words 2(j·d + i) and 2(j·d + i) + 1 of a stream:
    SplitMix64 from the seed, or SipHash-2-4 with the key (see `keyed_words`).
    """
    planes = np.empty((dimensions, bits), np.float32)
    for j in range(bits):
        first, count = 2 * dimensions * j, 2 * dimensions
        if secret is None:
            stream = splitmix64(seed, count, first)
        else:
            stream = keyed_words(secret, seed, count, first)
        words = stream.astype("<u8").view("<u2")
        planes[:, j] = words.reshape(dimensions, PARTS).sum(axis=1, dtype=np.int64) - MEAN
    return planes


def keyed_words(secret: HashKey, seed: int, count: int, first: int) -> np.ndarray:
    """Returns words of a keyed stream, uint64 (count,).

    Word i is the SipHash-2-4 of 16 bytes: the seed and i, each as 8 little-endian bytes.

    Examples:
        >>> secret = HashKey(bytes(range(16)))
        >>> [hex(word) for word in keyed_words(secret, 1, 2, 0).tolist()]
        ['0x8b62d01d7ce96e82', '0x16b878c650cab9c9']
    """
    messages = np.empty((count, 2), "<u8")
    messages[:, 0] = seed
    messages[:, 1] = np.arange(first, first + count, dtype=np.uint64)
    out = np.empty(count, np.uint64)
    offsets = np.arange(count + 1, dtype=np.int64) * 16
    hashing.hash_each(messages.view(np.uint8).reshape(-1), offsets, key_of(KEYED, 0, secret), out)
    return out


def matrix_of(vectors: pa.Array) -> np.ndarray:
    """Returns a fixed_size_list<float> array without nulls as a matrix, float32 (n, d)."""
    values = vectors.flatten().to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values, np.float32).reshape(len(vectors), vectors.type.list_size)


class VectorSketcher:
    """A sketcher of vectors.

    Examples:
        >>> spec = Spec(measure="cosine", unit="vector", n=3, k=64)
        >>> values = pa.array([1, 2, 3, 2, 4, 6, -1, -2, -3], pa.float32())
        >>> rows = pa.FixedSizeListArray.from_arrays(values, 3)
        >>> a, b, c = VectorSketcher(spec).sketch(rows).signatures
        >>> bool(a == b), int(a[0] ^ c[0]) == 2**64 - 1
        (True, True)
    """

    def __init__(self, spec: Spec, secret: HashKey | None = None) -> None:
        self.spec = spec
        keyed = spec.require_key(secret) if spec.scheme == KEYED_HYPERPLANES else None
        self._planes = hyperplanes(spec.n, spec.k, spec.seed, keyed)
        self._reach = (
            ROUNDING
            * spec.n
            * np.linalg.norm(self._planes.astype(np.float64), axis=0).astype(np.float32)
        )

    def sketch(
        self, documents: pa.Array, also: Callable[[Shingles], None] | None = None
    ) -> Sketches:
        """Returns the signatures of finite, non-zero vectors (fixed_size_list<float>)."""
        return self.sketch_matrix(matrix_of(documents))

    def sketch_matrix(self, vectors: np.ndarray) -> Sketches:
        """Returns the signatures of finite, non-zero vectors, float32 (n, d)."""
        n = len(vectors)
        if vectors.shape != (n, self.spec.n) or vectors.dtype != np.float32:
            raise UsageError(
                f"vectors of this Spec are float32 (n, {self.spec.n}), not {vectors.dtype} "
                f"{vectors.shape}"
            )
        out = Sketches(
            np.empty((n, self.spec.signature_width), np.uint64),
            np.ones(n, np.uint32),
            fingerprints(vectors),
        )
        for start in range(0, n, ROWS):
            part = vectors[start : start + ROWS]
            # An overflow gives infinity or NaN. The sign is then computed exactly.
            with np.errstate(over="ignore", invalid="ignore"):
                lengths = np.sqrt(np.vecdot(part, part))
                projections = part @ self._planes
            lengths[lengths < TINY] = np.inf
            kernels.pack_signs(
                projections,
                part,
                self._planes,
                lengths,
                self._reach,
                out.signatures[start : start + ROWS],
            )
        return out


def fingerprints(vectors: np.ndarray) -> np.ndarray:
    """Returns 128-bit hashes of vectors, uint64 (n, 2). Equal vectors have equal hashes."""
    vector_bytes = (vectors + np.float32(0)).astype("<f4").view(np.uint8)
    return hash_rows(vector_bytes.reshape(len(vectors), 4 * vectors.shape[1]))
