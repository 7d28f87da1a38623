"""MinHash signatures: the schemes `binned` and `classic`, and what is estimated from them.

A slot of `binned` is tag << 29 | 29-bit value, the tag being the round that filled it (R for completion), so a slot is the
minimum over elements of a value that depends on the element alone. Hence it agrees with probability J for sets of every
size, np.minimum of two signatures is the signature of the union, and stopping when no slot can be lowered is exact.
Follows Dahlgaard, Knudsen, Thorup, *Fast Similarity Sketching* (FOCS 2017), with a constant number of rounds.
"""

from typing import NamedTuple, Protocol

import numpy as np

from nearkin.shingle import Shingles
from nearkin.sketch import kernels
from nearkin.spec import Spec

ROUNDS = 4
EMPTY_SLOT = np.uint32(0xFFFFFFFF)
GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(seed: int, count: int, first: int = 0) -> np.ndarray:
    """`count` outputs of SplitMix64 from `seed`, after the first ones: where every multiplier of a Spec comes from.

    Examples:
        >>> [hex(x) for x in splitmix64(0, 2).tolist()]
        ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
    """
    x = np.uint64(seed) + np.uint64(GOLDEN) * np.arange(first + 1, first + count + 1, dtype=np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


class Scheme(Protocol):
    """How elements fall into slots."""

    def update(self, hashes: np.ndarray, slots: np.ndarray) -> None:
        """Folds the elements into one signature, uint32 (k,)."""

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """The signatures of a batch into out, uint32 (n, k)."""


class Binned:
    """R rounds of one-permutation binning, then completion by k-hash MinHash."""

    def __init__(self, k: int, seed: int) -> None:
        stream = splitmix64(seed, ROUNDS + k) | np.uint64(1)
        self.rounds = stream[:ROUNDS].copy()
        self.completion = (stream[ROUNDS:] & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    def update(self, hashes: np.ndarray, slots: np.ndarray) -> None:
        kernels.binned_update(hashes, self.rounds, self.completion, slots)

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        kernels.binned_minhash(shingles.hashes, shingles.offsets, self.rounds, self.completion, out)


class Classic:
    """k independent multiply-shift hash functions (Broder 1997; Dietzfelbinger et al. 1997)."""

    def __init__(self, k: int, seed: int) -> None:
        stream = splitmix64(seed, 2 * k)
        self.a, self.b = stream[:k].copy(), stream[k:].copy()

    def update(self, hashes: np.ndarray, slots: np.ndarray) -> None:
        kernels.classic_update(hashes, self.a, self.b, slots)

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        kernels.classic_minhash(shingles.hashes, shingles.offsets, self.a, self.b, out)


SCHEMES: dict[str, type[Binned] | type[Classic]] = {"binned": Binned, "classic": Classic}


def scheme_of(spec: Spec) -> Scheme:
    """The scheme that a Spec names, with its multipliers."""
    return SCHEMES[spec.scheme](spec.k, spec.seed)


def estimate(a: np.ndarray, b: np.ndarray) -> float:
    """Share of slots that agree: an unbiased estimate of Jaccard similarity; an empty slot agrees with nothing.

    Examples:
        The textbook case: "the cat sat" and "the cat lay" share one of three 2-word shingles.

        >>> A, B = {("the", "cat"), ("cat", "sat")}, {("the", "cat"), ("cat", "lay")}
        >>> len(A & B) / len(A | B) == 1 / 3
        True
        >>> estimate(np.array([1, 1], np.uint32), np.array([3, 1], np.uint32))
        0.5
    """
    return float(np.mean((a == b) & (a != EMPTY_SLOT)))


def standard_error(similarity: float, k: int) -> float:
    """Of the estimate at that similarity: √(J(1−J)/k), an upper bound for `binned`."""
    return float(np.sqrt(similarity * (1 - similarity) / k))


def multipliers(spec: Spec) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rounds, a, b) of a scheme as one: `classic` has no rounds, the completion of `binned` no b."""
    scheme = scheme_of(spec)
    if isinstance(scheme, Classic):
        return np.empty(0, np.uint64), scheme.a, scheme.b
    assert isinstance(scheme, Binned)
    return scheme.rounds, scheme.completion.astype(np.uint64), np.empty(0, np.uint64)


class FillShares(NamedTuple):
    """Drift metrics of binned signatures."""

    later_round: float
    """Share of slots filled after the first round: the empty-bin rate of one-permutation hashing."""
    completed: float
    """Share of slots that completion had to fill."""


def fill_shares(signatures: np.ndarray) -> FillShares:
    """How hard binned slots were to fill, over the documents that have shingles; large shares mean short documents."""
    filled = signatures[signatures[:, 0] != EMPTY_SLOT] if len(signatures) else signatures
    if not filled.size:
        return FillShares(0.0, 0.0)
    tags = filled >> np.uint32(29)
    return FillShares(float(np.mean(tags >= 1)), float(np.mean(tags == ROUNDS)))


def slot_sources(hashes: np.ndarray, which: np.ndarray, spec: Spec) -> np.ndarray:
    """For each slot index in `which`, the position in `hashes` of the element that made it: what a bucket's key is made of."""
    scheme = scheme_of(spec)
    alone = np.full((len(hashes), spec.k), EMPTY_SLOT, np.uint32)
    for i in range(len(hashes)):
        scheme.update(hashes[i : i + 1], alone[i])
    return np.argmin(alone[:, which], axis=0)
