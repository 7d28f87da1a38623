"""SimHash: the signs of weighted sums of shingle hashes (Charikar, STOC 2002; Manku, Jain, Das Sarma, WWW 2007).

Bit j of the signature is 1 where the shingles whose hash has bit j weigh more than those whose hash has not; a tie is 0. Two
signatures agree in a bit with probability 1 − θ/π, θ being the angle between the weighted shingle vectors.
"""

import math
from collections.abc import Mapping

import numpy as np

from nearkin.errors import UsageError
from nearkin.hashing.families import hash_values, key_of
from nearkin.keys import HashKey
from nearkin.shingle import Shingles
from nearkin.sketch import kernels
from nearkin.sketch.minhash import splitmix64
from nearkin.sketch.resources import DocumentFrequencies
from nearkin.spec import Spec

LEAST_TABLE = 64


def accumulate(hashes: np.ndarray, weights: np.ndarray, bits: int) -> np.ndarray:
    """For each of the low `bits` bits, the highest first: the weights of hashes that have it less those that have not.

    Examples:
        The textbook case, f = 4:

        >>> cat, sat, mat, rat = 0b1010, 0b1100, 0b0110, 0b1001
        >>> A = accumulate(np.array([cat, sat, mat], np.uint64), np.array([3, 2, 2]), 4)
        >>> B = accumulate(np.array([cat, sat, rat], np.uint64), np.array([3, 2, 2]), 4)
        >>> A.tolist(), f"{binarise(A):04b}", B.tolist(), f"{binarise(B):04b}"
        ([3, 1, 3, -7], '1110', [7, -3, -1, -3], '1000')
        >>> distance = (binarise(A) ^ binarise(B)).bit_count()
        >>> distance, angle(distance, 4) == math.pi / 2
        (2, True)
    """
    places = np.arange(bits - 1, -1, -1, dtype=np.uint64)
    set_bits = ((hashes[:, None] >> places) & np.uint64(1)).astype(np.int64)
    return np.asarray(((2 * set_bits - 1) * np.asarray(weights)[:, None]).sum(axis=0))


def binarise(sums: np.ndarray) -> int:
    """The bits, highest first, of the positive sums; a tie is 0."""
    return int("".join("1" if s > 0 else "0" for s in sums), 2)


def angle(distance: float, bits: int) -> float:
    """Estimated angle between the weighted vectors of two signatures at a Hamming distance."""
    return math.pi * distance / bits


class Signs:
    """Weighted shingle hashes to signs; the hash of a shingle is mixed anew for each word of 64 bits."""

    def __init__(self, bits: int, seed: int, frequencies: DocumentFrequencies | None = None) -> None:
        self.streams = splitmix64(seed, bits // 64)
        self.table = None if frequencies is None else WeightTable.of(frequencies)

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """The signatures of a batch into out, uint64 (n, bits / 64)."""
        if self.table is None:
            kernels.term_signs(shingles.hashes, shingles.offsets, self.streams, out)
        else:
            weights = np.empty(len(shingles.hashes), np.int64)
            kernels.look_up(shingles.hashes, self.table.keys, self.table.values, self.table.rare, weights)
            self.weighted(shingles.hashes, weights, shingles.offsets, out)

    def weighted(self, hashes: np.ndarray, weights: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
        """As `sketch`, of features with weights of their own: int64, or float64 (then sums depend on the order given)."""
        kernels.weighted_signs(hashes, weights, offsets, self.streams, out)


def simhash(features: Mapping[str, float], spec: Spec, secret: HashKey | None = None) -> np.ndarray:
    """The signature of one document's features with weights of the caller's own, uint64 (k / 64,).

    Args:
        features: Names and weights, 0 or more; taken in the order of the names' hashes, so that theirs does not matter.
        spec: Of measure simhash with weights `given`.
        secret: The key, if the Spec names one.

    Examples:
        >>> spec = Spec(measure="simhash", weights="given")
        >>> a, b = simhash({"cat": 3.0, "sat": 2.0}, spec), simhash({"sat": 2.0, "cat": 3.0, "it": 0.0}, spec)
        >>> bool(a == b)
        True
    """
    if spec.measure != "simhash" or spec.weights != "given":
        raise UsageError(
            f"a Spec of given weights is measure='simhash', weights='given', not {spec.measure!r}, {spec.weights!r}"
        )
    if wrong := [name for name, weight in features.items() if not 0 <= weight < math.inf]:
        raise UsageError(f"the weight of {wrong[0]!r} is {features[wrong[0]]}, not a number from 0")
    names = [name.encode() for name in features]
    hashes = hash_values(names, key_of(spec.base_hash, spec.hash_seed, spec.require_key(secret)))
    order = np.argsort(hashes, kind="stable")
    weights = np.fromiter(features.values(), np.float64, len(features))[order]
    out = np.empty((1, spec.signature_width), np.uint64)
    Signs(spec.k, spec.seed).weighted(hashes[order], weights, np.array([0, len(features)]), out)
    return np.asarray(out[0])


class WeightTable:
    """Document frequencies as an open-addressing table: a look-up is one cache line."""

    def __init__(self, keys: np.ndarray, values: np.ndarray, rare: int) -> None:
        self.keys = keys
        self.values = values
        self.rare = np.int64(rare)

    @classmethod
    def of(cls, frequencies: DocumentFrequencies) -> "WeightTable":
        """A table at most half full."""
        size = max(LEAST_TABLE, 1 << (2 * len(frequencies.hashes)).bit_length())
        keys, values = np.zeros(size, np.uint64), np.zeros(size, np.int64)
        kernels.fill_table(frequencies.hashes, frequencies.weights, keys, values)
        return cls(keys, values, frequencies.rare)
