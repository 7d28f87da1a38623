"""SimHash: the signs of weighted sums of shingle hashes.

Bit j of a signature is 1 if the shingles whose hash has bit j have more total weight than the other
shingles; a tie gives 0. Two signatures agree in a bit with probability 1 − θ/π, where θ is the
angle between the weighted shingle vectors (Charikar, STOC 2002; Manku, Jain, Das Sarma, WWW 2007).
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.arrow_types import invalid_text
from nearkin.runtime.number_range import NumberRange
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.hashing.families import hash_values, key_of
from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch import kernels
from nearkin.stages.sketch.minhash import splitmix64
from nearkin.stages.sketch.weight_table import WeightTable


class Signs:
    """The scheme of SimHash. The hash of a shingle is mixed again for each word of 64 bits.

    Args:
        bits: Number of bits of a signature, a multiple of 64.
    """

    def __init__(self, bits: int, seed: int, table: WeightTable | None = None) -> None:
        self.streams = splitmix64(seed, bits // 64)
        self.table = table

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """Computes the signatures of a batch into out, uint64 (n, bits / 64).

        Args:
            out: Array for the signatures, uint64 (n, bits / 64).
        """
        if self.table is None:
            kernels.term_signs(shingles.hashes, shingles.offsets, self.streams, out)
        else:
            weights = self.table.look_up(shingles.hashes)
            self.weighted(shingles.hashes, weights, shingles.offsets, out)

    def weighted(
        self, hashes: np.ndarray, weights: np.ndarray, offsets: np.ndarray, out: np.ndarray
    ) -> None:
        """Computes the signatures of documents whose shingles have given weights.

        Args:
            hashes: Shingle hashes, uint64 (total,).
            weights: Weights, int64 or float64 (total,). Sums of float64 depend on the order.
            offsets: First hash of each document, and the end, int64 (n + 1,).
            out: Receives the signatures, uint64 (n, bits / 64).
        """
        kernels.weighted_signs(hashes, weights, offsets, self.streams, out)


@check_arguments
def simhash(features: Mapping[str, float], spec: Spec, secret: HashKey | None = None) -> np.ndarray:
    """Returns the signature of a document from features with given weights.

    Args:
        features: Names and weights. Weights are finite and not negative. The order of the features
            does not matter.
        spec: Spec of measure `simhash` with weights `given`.
        secret: Hash key, if the Spec is keyed.

    Returns:
        uint64 (k / 64,).

    Raises:
        UsageError: If the Spec has another measure or other weights, or a name or a weight is not
            valid.
        KeyRequiredError: If the Spec is keyed and the key is missing or different.

    Examples:
        >>> spec = Spec(measure="simhash", weights="given")
        >>> a = simhash({"cat": 3.0, "sat": 2.0}, spec)
        >>> b = simhash({"sat": 2.0, "cat": 3.0, "it": 0.0}, spec)
        >>> bool(a == b)
        True
    """
    if spec.measure != "simhash" or spec.weights != "given":
        raise UsageError(
            f"a Spec of given weights has measure='simhash' and weights='given', "
            f"not {spec.measure!r}, {spec.weights!r}"
        )
    if wrong := [name for name, weight in features.items() if not 0 <= weight < math.inf]:
        raise UsageError(
            f"the weight of {wrong[0]!r} is {features[wrong[0]]}; weights must be 0 or more"
        )
    try:
        names = [name.encode() for name in features]
    except UnicodeEncodeError as error:
        raise invalid_text(error) from error
    hashes = hash_values(names, key_of(spec.base_hash, spec.hash_seed, spec.require_key(secret)))
    order = np.argsort(hashes, kind="stable")
    weights = np.fromiter(features.values(), np.float64, len(features))[order]
    out = np.empty((1, spec.signature_width), np.uint64)
    Signs(spec.k, spec.seed).weighted(hashes[order], weights, np.array([0, len(features)]), out)
    return np.asarray(out[0])


class SimHash(NamedTuple):
    """A SimHash with the sums that it follows from. `simhash_of` computes it."""

    sums: tuple[float, ...]
    """The vector V: the weighted sum of each bit, the highest bit first."""
    bits: str
    """The bits of the signature, the highest bit first: 1 if the sum is positive, otherwise 0."""

    @property
    def value(self) -> int:
        """The signature as a number, as `HammingIndex` stores it."""
        return int(self.bits, 2)

    @check_arguments
    def distance(self, other: "SimHash") -> int:
        """Returns the Hamming distance: the number of bits in which two signatures differ.

        Args:
            other: A signature of as many bits.

        Raises:
            UsageError: If it has another number of bits.
        """
        if len(self.bits) != len(other.bits):
            raise UsageError(
                f"signatures of {len(self.bits)} and {len(other.bits)} bits have no distance; "
                f"compute both with the same {name_setting('bits')}"
            )
        return (self.value ^ other.value).bit_count()


@check_arguments
def simhash_of(hashes: Sequence[int], weights: Sequence[float], bits: int = 64) -> SimHash:
    """Computes a SimHash step by step from hashes that the caller chose.

    The weight of a hash is added to the sums of the bits that it has, and subtracted from the
    others. It explains the method: `simhash` and measure `simhash` compute the same from shingles,
    whose hashes they mix with a seed.

    Args:
        hashes: Hashes of the features, whole numbers of 64 bits. Their low bits are used.
        weights: Weights of the features, 0 or more, in the same order.
        bits: Number of low bits, 1 to 64.

    Returns:
        The sums and the bits. The sums of whole numbers are whole numbers.

    Raises:
        UsageError: If there are not as many weights as hashes, or a number is out of range.

    Examples:
        >>> cat, sat, mat, rat = 0b1010, 0b1100, 0b0110, 0b1001
        >>> a = simhash_of([cat, sat, mat], [3, 2, 2], bits=4)
        >>> a
        SimHash(sums=(3, 1, 3, -7), bits='1110')
        >>> b = simhash_of([cat, sat, rat], [3, 2, 2], bits=4)
        >>> b.bits, a.distance(b)
        ('1000', 2)
    """
    NumberRange(1, 64).require("bits", bits)
    if len(hashes) != len(weights):
        raise UsageError(
            f"there are {len(hashes)} hashes and {len(weights)} weights; give one for each hash"
        )
    if outside := [value for value in hashes if not 0 <= value < 2**64]:
        raise UsageError(f"the hash {outside[0]} is out of range; hashes must be 0 to 2^64 - 1")
    if wrong := [weight for weight in weights if not 0 <= weight < math.inf]:
        raise UsageError(f"the weight {wrong[0]} is out of range; weights must be 0 or more")
    # The sum of floating-point numbers must not depend on their order.
    add = sum if all(isinstance(weight, int) for weight in weights) else math.fsum
    sums = tuple(
        add(
            weight if word >> place & 1 else -weight
            for word, weight in zip(hashes, weights, strict=True)
        )
        for place in reversed(range(bits))
    )
    return SimHash(sums, "".join("1" if total > 0 else "0" for total in sums))
