"""SimHash: the signs of weighted sums of shingle hashes.

Bit j of a signature is 1 if the shingles whose hash has bit j have more total weight than the other
shingles; a tie gives 0. Two signatures agree in a bit with probability 1 − θ/π, where θ is the
angle between the weighted shingle vectors (Charikar, STOC 2002; Manku, Jain, Das Sarma, WWW 2007).
"""

import math
from collections.abc import Mapping

import numpy as np

from nearkin.argument_types import check_arguments
from nearkin.errors import UsageError
from nearkin.hashing.families import hash_values, key_of
from nearkin.keys import HashKey
from nearkin.runtime.arrow_types import invalid_text
from nearkin.shingle import Shingles
from nearkin.sketch import kernels
from nearkin.sketch.minhash import splitmix64
from nearkin.sketch.weight_table import WeightTable
from nearkin.spec import Spec


class Signs:
    """The scheme of SimHash. The hash of a shingle is mixed again for each word of 64 bits.

    Args:
        bits: Number of bits of a signature, a multiple of 64.
        seed: Seed of the mixing.
        table: Weight of each shingle. By default, every shingle has weight 1.
    """

    def __init__(self, bits: int, seed: int, table: WeightTable | None = None) -> None:
        self.streams = splitmix64(seed, bits // 64)
        self.table = table

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """Computes the signatures of a batch into out, uint64 (n, bits / 64).

        Args:
            shingles: Shingles of the documents.
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
