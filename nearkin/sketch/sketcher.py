"""Documents to signatures: the sketcher of every measure whose documents are text."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from nearkin.shingle import Shingler, Shingles, text_buffers
from nearkin.sketch import kernels
from nearkin.sketch.minhash import multipliers, scheme_of
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.sketch.simhash import Signs
from nearkin.spec import Spec

SLICE_DOCUMENTS = 512
SLICE_BYTES = 1 << 19
EMPTY_STREAM = 0
"""Both words of the fingerprint of a document without shingles."""


class Sketches(NamedTuple):
    """What a batch of n documents becomes."""

    signatures: np.ndarray
    """(n, w) of the Spec's signature type; MinHash: all ones for a document without shingles."""
    shingles: np.ndarray
    """uint32 (n,): shingles with repeats that are compared; 0 marks a document that matches nothing."""
    fingerprints: np.ndarray
    """uint64 (n, 2): 128 bits of the shingle stream before any cut; equal for exact duplicates."""
    keys: np.ndarray | None = None
    """uint64 (n, b): band keys without a block, where the signature does not hold whole slots."""


class BandKeyBuilder(NamedTuple):
    """A function that computes band keys while the whole slots of documents are available."""

    key_count: int
    """The number of keys of a document."""
    build: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Computes keys uint64 (n, key_count) from whole slots and runner-ups, uint32 (n, k) each."""
    uses_runner_ups: bool = False
    """True if `build` reads the runner-ups. Otherwise, it receives the slots twice."""


class Scheme(Protocol):
    """How the shingles of documents become signatures."""

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """The signatures of a batch into out, (n, w)."""


def scheme_for(spec: Spec, resources: SpecResources = NO_RESOURCES) -> Scheme:
    """The scheme that a Spec of text names; of MinHash with whole slots, whatever is kept of them."""
    if spec.measure == "simhash":
        return Signs(spec.k, spec.seed, resources.weights(spec))
    return scheme_of(spec)


class Sketcher:
    """Texts to signatures; one for each thread, for it owns reusable buffers.

    Args:
        spec: Of text.
        resources: What the Spec names but does not hold.
        key_builder: Makes band keys of MinHash before slots are cut, or with the runner-up minima that signatures do not hold.

    Examples:
        >>> sketcher = Sketcher(Spec(k=16))
        >>> a, b = sketcher.sketch(pa.array(["One two three four", "one  TWO three, four!"])).signatures
        >>> bool((a == b).all())
        True
        >>> Sketcher(Spec(k=128, slot_bits=1)).sketch(pa.array(["one two three"])).signatures.nbytes
        16
    """

    def __init__(self, spec: Spec, resources: SpecResources = NO_RESOURCES, key_builder: BandKeyBuilder | None = None) -> None:
        self.spec = spec
        self.shingler = resources.shingler(spec)
        self.scheme = scheme_for(spec, resources)
        self.key_builder = key_builder

    def sketch(self, documents: pa.Array, also: Callable[[Shingles], None] | None = None) -> Sketches:
        """Signatures, shingle counts and stream fingerprints of text (large_string) or token lists.

        Args:
            documents: Some.
            also: Handed the compared shingles of each slice, which the next one overwrites: documents are shingled once.
        """
        n, spec = len(documents), self.spec
        signatures = np.empty((n, spec.signature_width), spec.signature_type)
        out = Sketches(signatures, np.empty(n, np.uint32), np.empty((n, 2), np.uint64))
        keys: list[np.ndarray] = []
        for start, stream in iterate_streams(self.shingler, documents):
            rest = self.shingler.rest(stream)
            if also is not None:
                also(rest)
            shingles = occurrences(rest) if spec.measure == "weighted-jaccard" else rest
            rows = slice(start, start + len(shingles.offsets) - 1)
            if spec.truncated or self.key_builder:
                keys.append(self._keyed(shingles, signatures[rows]))
            else:
                self.scheme.sketch(shingles, signatures[rows])
            kernels.stream_fingerprints(stream.hashes, stream.offsets, out.fingerprints[rows])
            out.shingles[rows] = np.diff(shingles.offsets)
        return (
            out._replace(keys=np.concatenate([np.empty((0, self.key_builder.key_count), np.uint64), *keys]))
            if self.key_builder
            else out
        )

    def sketch_hashes(self, hashes: np.ndarray, starts: np.ndarray, counts: np.ndarray | None = None) -> Sketches:
        """Signatures of documents whose text is gone: of their shingle hashes, and how often each occurred.

        Args:
            hashes: uint64 (total,), after any cut.
            starts: int64 (n + 1,).
            counts: int64 (total,); 1 each for sets.

        Returns:
            As `sketch`, with fingerprints of zero, for they are of the order of shingles.
        """
        offsets = starts if counts is None else np.concatenate([[0], np.cumsum(counts)])[starts]
        plain = Shingles(hashes if counts is None else np.repeat(hashes, counts), offsets)
        shingles = occurrences(plain) if self.spec.measure == "weighted-jaccard" else plain
        n = len(starts) - 1
        signatures, keys = np.empty((n, self.spec.signature_width), self.spec.signature_type), None
        if self.spec.truncated or self.key_builder:
            keys = self._keyed(shingles, signatures)
        else:
            self.scheme.sketch(shingles, signatures)
        sizes = np.diff(offsets).astype(np.uint32)
        return Sketches(signatures, sizes, np.zeros((n, 2), np.uint64), keys if self.key_builder else None)

    def _keyed(self, shingles: Shingles, signatures: np.ndarray) -> np.ndarray:
        """Keys of whole slots; then only their lowest bits, if so (Li, König, *b-Bit Minwise Hashing*, WWW 2010)."""
        slots = np.empty((len(signatures), self.spec.k), np.uint32)
        runners = slots
        if self.key_builder is not None and self.key_builder.uses_runner_ups:
            runners = np.empty_like(slots)
            kernels.two_smallest(shingles.hashes, shingles.offsets, *multipliers(self.spec), slots, runners)
        else:
            self.scheme.sketch(shingles, slots)
        if self.spec.truncated:
            kernels.truncate(slots, self.spec.slot_bits, signatures)
        else:
            signatures[:] = slots
        return np.empty((len(slots), 0), np.uint64) if self.key_builder is None else self.key_builder.build(slots, runners)


def occurrences(shingles: Shingles) -> Shingles:
    """The i-th occurrence of a shingle in its document as an element of its own: multisets to sets."""
    out = np.empty_like(shingles.hashes)
    kernels.number_occurrences(shingles.hashes, shingles.offsets, out)
    return Shingles(out, shingles.offsets)


def iterate_shingles(shingler: Shingler, documents: pa.Array) -> Iterator[tuple[int, Shingles]]:
    """(first row, shingles that are compared) of slices of documents."""
    for start, stream in iterate_streams(shingler, documents):
        yield start, shingler.rest(stream)


def iterate_streams(shingler: Shingler, documents: pa.Array) -> Iterator[tuple[int, Shingles]]:
    """(first row, shingles before any cut) of slices so small that hashes stay in the processor's cache until they are used."""
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
