"""The scheme `darts`: MinHash of sets whose elements have weights.

Every element throws darts at the slots: a Poisson process with a rate that is proportional to the
weight of the element. A slot is the time of its first dart, which is one of the element x with
probability w(x) / Σ w. So two sets agree in a slot with probability Σ w(A ∩ B) / Σ w(A ∪ B), and
the slots are independent.

The minimum of exponential ranks is that of Cohen, *Size-Estimation Framework with Applications to
Transitive Closure and Reachability* (JCSS 1997). Darts are thrown in the order of time until no
slot can become smaller, as in Christiani, *DartMinHash* (2020), and Qi et al., *Fast Gumbel-Max
Sketch* (WWW 2020). This takes about m + k ln k darts for m elements, not m · k. The weight of an
element is the same in every set, so consistent sampling of arbitrary weights (Ioffe, ICDM 2010) is
not needed.

All numbers are integers, or sums and quotients as IEEE 754 rounds them, so signatures do not depend
on the platform.
"""

import numpy as np

from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch import kernels
from nearkin.stages.sketch.minhash import splitmix64
from nearkin.stages.sketch.weight_table import WeightTable


class Darts:
    """The scheme of Poisson processes of weighted elements."""

    def __init__(self, seed: int, weights: WeightTable) -> None:
        self.salt = splitmix64(seed, 1)[0]
        self.weights = weights

    def rates(self, hashes: np.ndarray) -> np.ndarray:
        """Returns the weight of each element divided by the largest one, float64 (m,)."""
        rates = self.weights.look_up(hashes).astype(np.float64)
        rates /= np.float64(self.weights.rare)
        return rates

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """Computes the signatures of a batch.

        Args:
            out: Array for the signatures, uint32 (n, k).
        """
        rates = self.rates(shingles.hashes)
        kernels.dart_minhash(shingles.hashes, rates, shingles.offsets, self.salt, out)

    def two_smallest(self, shingles: Shingles, first: np.ndarray, second: np.ndarray) -> None:
        """Writes the minimum and the runner-up of each slot of a batch, uint32 (n, k) each.

        The runner-up of a slot with one element is all ones.
        """
        rates = self.rates(shingles.hashes)
        kernels.two_first_darts(shingles.hashes, rates, shingles.offsets, self.salt, first, second)
