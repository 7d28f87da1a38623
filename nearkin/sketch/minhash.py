"""MinHash signatures: the schemes `binned` and `classic`, and the sketcher that turns texts into them.

A slot of `binned` is tag << 29 | 29-bit value, the tag being the round that filled it (R for completion), so a slot is the
minimum over elements of a value that depends on the element alone. Hence it agrees with probability J for sets of every
size, np.minimum of two signatures is the signature of the union, and stopping when no slot can be lowered is exact.
Follows Dahlgaard, Knudsen, Thorup, *Fast Similarity Sketching* (FOCS 2017), with a constant number of rounds.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from nearkin.shingle import Shingler, Shingles, text_buffers
from nearkin.sketch import kernels
from nearkin.spec import Spec

ROUNDS = 4
EMPTY_SLOT = np.uint32(0xFFFFFFFF)
SLICE_DOCUMENTS = 512
SLICE_BYTES = 1 << 19
GOLDEN = 0x9E3779B97F4A7C15
WORD = 2**64 - 1


def splitmix64(seed: int, count: int) -> np.ndarray:
    """The first `count` outputs of SplitMix64 from `seed`: where every multiplier of a Spec comes from.

    Examples:
        >>> [hex(x) for x in splitmix64(0, 2).tolist()]
        ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
    """
    out = np.empty(count, np.uint64)
    for i in range(count):
        x = (seed + GOLDEN * (i + 1)) & WORD
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
        out[i] = x ^ (x >> 31)
    return out


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


class Sketches(NamedTuple):
    """What a batch of n documents becomes."""

    signatures: np.ndarray
    """uint32 (n, k); all ones for a document without shingles."""
    shingles: np.ndarray
    """uint32 (n,): shingles with repeats; 0 marks an empty document."""
    fingerprints: np.ndarray
    """uint64 (n, 2): 128 bits of the shingle stream; equal for exact duplicates."""


class Sketcher:
    """Texts to signatures; one for each thread, for it owns reusable buffers.

    Examples:
        >>> sketcher = Sketcher(Spec(k=16))
        >>> a, b = sketcher.sketch(pa.array(["One two three four", "one  TWO three, four!"])).signatures
        >>> bool((a == b).all())
        True
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.shingler = Shingler(spec)
        self.scheme = scheme_of(spec)

    def sketch(self, documents: pa.Array) -> Sketches:
        """Signatures, shingle counts and stream fingerprints of text (large_string) or token lists."""
        n = len(documents)
        out = Sketches(np.empty((n, self.spec.k), np.uint32), np.empty(n, np.uint32), np.empty((n, 2), np.uint64))
        for start, shingles in iterate_shingles(self.shingler, documents):
            end = start + len(shingles.offsets) - 1
            self.scheme.sketch(shingles, out.signatures[start:end])
            kernels.stream_fingerprints(shingles.hashes, shingles.offsets, out.fingerprints[start:end])
            out.shingles[start:end] = np.diff(shingles.offsets)
        return out


def iterate_shingles(shingler: Shingler, documents: pa.Array) -> Iterator[tuple[int, Shingles]]:
    """(first row, shingles) of slices small enough that hashes stay in the processor's cache until they are used."""
    if pa.types.is_large_list(documents.type):
        yield from _token_slices(shingler, documents)
        return
    data, offsets = text_buffers(documents.cast(pa.large_string()))
    for start, end in slices(offsets):
        yield start, shingler.texts(data, offsets[start : end + 1])


def _token_slices(shingler: Shingler, documents: pa.Array) -> Iterator[tuple[int, Shingles]]:
    lists = np.frombuffer(documents.buffers()[1], np.int64)[documents.offset : documents.offset + len(documents) + 1]
    data, offsets = text_buffers(documents.values.cast(pa.large_string()))
    for start in range(0, len(documents), SLICE_DOCUMENTS):
        end = min(start + SLICE_DOCUMENTS, len(documents))
        yield start, shingler.tokens(data, offsets, lists[start : end + 1])


def slices(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """Row ranges of at most SLICE_DOCUMENTS documents and, but for single longer ones, SLICE_BYTES bytes."""
    n, start = len(offsets) - 1, 0
    while start < n:
        fits = int(np.searchsorted(offsets, offsets[start] + SLICE_BYTES, side="right")) - 1
        end = min(max(fits, start + 1), start + SLICE_DOCUMENTS, n)
        yield start, end
        start = end


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
