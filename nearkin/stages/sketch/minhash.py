"""MinHash signatures: the schemes `binned` and `classic`, and estimates from signatures.

A slot of `binned` is tag << 29 | 29-bit value. The tag is the number of the round that filled the
slot, or R for the completion. So a slot is the minimum over the elements of a value that depends
only on the element. Hence slots agree with probability J for sets of every size, np.minimum of two
signatures is the signature of the union, and stopping when no slot can become smaller is exact. The
scheme follows Dahlgaard, Knudsen, Thorup, *Fast Similarity Sketching* (FOCS 2017), with a constant
number of rounds.
"""

from typing import NamedTuple, Protocol

import numpy as np

from nearkin.settings.spec import Spec
from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch import kernels

ROUNDS = 4
"""The number of rounds R of the scheme `binned`."""
EMPTY_SLOT = np.uint32(0xFFFFFFFF)
"""The value of each slot of a document without shingles."""
GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(seed: int, count: int, first: int = 0) -> np.ndarray:
    """Returns outputs of SplitMix64, uint64 (count,). All multipliers of a Spec come from it.

    Examples:
        >>> [hex(x) for x in splitmix64(0, 2).tolist()]
        ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
    """
    steps = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    return mix_splitmix64(np.uint64(seed) + np.uint64(GOLDEN) * steps)


def mix_splitmix64(words: np.ndarray) -> np.ndarray:
    """Returns the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) of each word."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


class SlotScheme(Protocol):
    """A scheme: how elements are mapped to slots."""

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """Computes the signatures of a batch into out, uint32 (n, k).

        Args:
            out: Array for the signatures, uint32 (n, k).
        """


class MinHashScheme(SlotScheme, Protocol):
    """A scheme of elements without weights."""

    def update(self, hashes: np.ndarray, slots: np.ndarray) -> None:
        """Adds shingle hashes, uint64 (m,), to one signature, uint32 (k,)."""


class Binned:
    """The scheme of R rounds of one-permutation binning, completed by k-hash MinHash."""

    def __init__(self, k: int, seed: int) -> None:
        stream = splitmix64(seed, ROUNDS + k) | np.uint64(1)
        self.rounds = stream[:ROUNDS].copy()
        self.completion = (stream[ROUNDS:] & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    def update(self, hashes: np.ndarray, slots: np.ndarray) -> None:
        """Adds elements to one signature, as described in `MinHashScheme`."""
        kernels.binned_update(hashes, self.rounds, self.completion, slots)

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """Computes the signatures of a batch, as described in `MinHashScheme`.

        Args:
            out: Array for the signatures, uint32 (n, k).
        """
        kernels.binned_minhash(shingles.hashes, shingles.offsets, self.rounds, self.completion, out)


class Classic:
    """The scheme of k multiply-shift functions (Broder 1997; Dietzfelbinger et al. 1997)."""

    def __init__(self, k: int, seed: int) -> None:
        stream = splitmix64(seed, 2 * k)
        self.a = stream[:k].copy()
        self.b = stream[k:].copy()

    def update(self, hashes: np.ndarray, slots: np.ndarray) -> None:
        """Adds elements to one signature, as described in `MinHashScheme`."""
        kernels.classic_update(hashes, self.a, self.b, slots)

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """Computes the signatures of a batch, as described in `MinHashScheme`.

        Args:
            out: Array for the signatures, uint32 (n, k).
        """
        kernels.classic_minhash(shingles.hashes, shingles.offsets, self.a, self.b, out)


SCHEMES: dict[str, type[Binned] | type[Classic]] = {"binned": Binned, "classic": Classic}


def scheme_of(spec: Spec) -> MinHashScheme:
    """Returns the scheme that a Spec names, with its multipliers."""
    return SCHEMES[spec.scheme](spec.k, spec.seed)


def multipliers(spec: Spec) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the multipliers of a scheme in one form: rounds, a and b, uint64 each.

    `classic` has no rounds, and the completion of `binned` has no b.
    """
    scheme = scheme_of(spec)
    if isinstance(scheme, Classic):
        return np.empty(0, np.uint64), scheme.a, scheme.b
    assert isinstance(scheme, Binned)
    return scheme.rounds, scheme.completion.astype(np.uint64), np.empty(0, np.uint64)


class FillShares(NamedTuple):
    """The shares of slots of binned signatures that the first round did not fill."""

    later_round: float
    """The share of slots that were filled after the first round."""
    completed: float
    """The share of slots that were filled by the completion."""


def fill_shares(signatures: np.ndarray) -> FillShares:
    """Returns the shares of slots of binned signatures that later rounds filled.

    Large shares mean short documents. Documents without shingles do not count.
    """
    filled = signatures[signatures[:, 0] != EMPTY_SLOT] if len(signatures) else signatures
    if not filled.size:
        return FillShares(0.0, 0.0)
    later = np.count_nonzero(filled >= np.uint32(1 << 29))
    completed = np.count_nonzero(filled >= np.uint32(ROUNDS << 29))
    return FillShares(float(later / filled.size), float(completed / filled.size))


def slot_sources(hashes: np.ndarray, which: np.ndarray, scheme: SlotScheme, k: int) -> np.ndarray:
    """Returns the position of the hash that determined each of some slots, int64."""
    alone = np.empty((len(hashes), k), np.uint32)
    scheme.sketch(Shingles(hashes, np.arange(len(hashes) + 1)), alone)
    return np.argmin(alone[:, which], axis=0)
