"""The sketcher of texts, which computes signatures for every measure but the cosine of vectors."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from nearkin.settings.spec import IDF_JACCARD, Spec
from nearkin.stages.shingle import Shingler, Shingles, text_buffers
from nearkin.stages.sketch import kernels
from nearkin.stages.sketch.darts import Darts
from nearkin.stages.sketch.minhash import multipliers, scheme_of
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.simhash import Signs

SLICE_DOCUMENTS = 512
"""The largest number of documents of a slice."""
SLICE_BYTES = 1 << 19
"""The largest number of bytes of text of a slice of several documents."""
EMPTY_STREAM = 0
"""The value of both words of the fingerprint of a document without shingles and symbols."""


class FieldSketches(NamedTuple):
    """The signatures of one of several fields of n documents."""

    signatures: np.ndarray
    """(n, w): The signatures, of the signature type of the field's Spec."""
    has_field: np.ndarray
    """bool (n,): Whether a document has the field. Other signatures have no meaning."""


class Sketches(NamedTuple):
    """The signatures and other facts of a batch of n documents."""

    signatures: np.ndarray
    """(n, w): The signatures, of the Spec's signature type."""
    shingles: np.ndarray
    """uint32 (n,): The number of compared shingles, with repetitions; 0 for an empty document."""
    fingerprints: np.ndarray
    """uint64 (n, 2): 128-bit content hashes of the shingles before the cut and of the symbols. They
    are equal for exact duplicates."""
    keys: np.ndarray | None = None
    """uint64 (n, b): Band keys without a block, if a `BandKeyBuilder` was given."""
    fields: tuple[FieldSketches, ...] = ()
    """The fields that find candidate pairs, if there are several. The first one's signatures are
    those of the documents."""


class BandKeyBuilder(NamedTuple):
    """A function that computes band keys while the whole slots of documents are available."""

    key_count: int
    """The number of keys of a document."""
    build: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Computes keys uint64 (n, key_count) from whole slots and runner-ups, uint32 (n, k) each."""
    uses_runner_ups: bool = False
    """True if `build` reads the runner-ups. Otherwise, it receives the slots twice."""


class Scheme(Protocol):
    """A scheme: how the shingles of documents become signatures."""

    def sketch(self, shingles: Shingles, out: np.ndarray) -> None:
        """Computes the signatures of a batch into out, (n, w).

        Args:
            out: Array for the signatures, in the type and the width of the Spec, (n, w).
        """


def scheme_for(spec: Spec, resources: SpecResources = NO_RESOURCES) -> Scheme:
    """Returns the scheme of a Spec of text. The scheme of MinHash computes whole slots."""
    frequencies = resources.weights(spec)
    if spec.measure == "simhash":
        return Signs(spec.k, spec.seed, None if frequencies is None else frequencies.table)
    if spec.measure == IDF_JACCARD:
        assert frequencies is not None
        return Darts(spec.seed, frequencies.table)
    return scheme_of(spec)


class Sketcher:
    """A sketcher of texts. It owns buffers, so each thread needs its own.

    Args:
        spec: Spec of the signatures, not of vectors.
        resources: Key, document frequencies and cut shingles that the Spec refers to.
        key_builder: Builder of band keys that need whole slots or runner-ups (MinHash only).

    Examples:
        >>> sketcher = Sketcher(Spec(k=16))
        >>> texts = pa.array(["One two three four", "one  TWO three, four!"])
        >>> a, b = sketcher.sketch(texts).signatures
        >>> bool((a == b).all())
        True
        >>> Sketcher(Spec(k=128, slot_bits=1)).sketch(pa.array(["one two three"])).signatures.nbytes
        16
    """

    def __init__(
        self,
        spec: Spec,
        resources: SpecResources = NO_RESOURCES,
        key_builder: BandKeyBuilder | None = None,
    ) -> None:
        self.spec = spec
        self.shingler = resources.shingler(spec)
        self.scheme = scheme_for(spec, resources)
        self.key_builder = key_builder
        self._signature_type = spec.signature_type
        self._signature_width = spec.signature_width
        self._needs_whole_slots = spec.truncated or key_builder is not None

    def sketch(
        self, documents: pa.Array, also: Callable[[Shingles], None] | None = None
    ) -> Sketches:
        """Returns the signatures of texts (large_string) or token lists (large_list).

        Args:
            documents: The documents.
            also: Is called with the compared shingles of each slice. The next slice overwrites
                them.
        """
        return self._sketch_streams(len(documents), iterate_streams(self.shingler, documents), also)

    def sketch_texts(
        self,
        data: np.ndarray,
        offsets: np.ndarray,
        also: Callable[[Shingles], None] | None = None,
    ) -> Sketches:
        """Returns the signatures of texts, as `sketch` does.

        Args:
            data: Valid UTF-8 bytes of the texts, uint8, read-only.
            offsets: First byte of each text, and the end, int64 (n + 1,), read-only.
            also: Is called with the compared shingles of each slice. The next slice overwrites
                them.
        """
        streams = _text_slices(self.shingler, data, offsets)
        return self._sketch_streams(len(offsets) - 1, streams, also)

    def _sketch_streams(
        self,
        n: int,
        streams: Iterator[tuple[int, Shingles]],
        also: Callable[[Shingles], None] | None,
    ) -> Sketches:
        """Returns the signatures of n documents from the shingles of slices of them."""
        signatures = np.empty((n, self._signature_width), self._signature_type)
        out = Sketches(signatures, np.empty(n, np.uint32), np.empty((n, 2), np.uint64))
        keys: list[np.ndarray] = []
        for start, stream in streams:
            rest = self.shingler.without_cut(stream)
            if also is not None:
                also(rest)
            shingles = occurrences(rest) if self.spec.measure == "weighted-jaccard" else rest
            rows = slice(start, start + len(shingles.offsets) - 1)
            if self._needs_whole_slots:
                keys.append(self._keyed(shingles, signatures[rows]))
            else:
                self.scheme.sketch(shingles, signatures[rows])
            kernels.stream_fingerprints(
                stream.hashes, stream.offsets, stream.content_symbols, out.fingerprints[rows]
            )
            out.shingles[rows] = shingles.offsets[1:] - shingles.offsets[:-1]
        if self.key_builder is None:
            return out
        no_keys = np.empty((0, self.key_builder.key_count), np.uint64)
        return out._replace(keys=np.concatenate([no_keys, *keys]))

    def sketch_hashes(
        self, hashes: np.ndarray, starts: np.ndarray, counts: np.ndarray | None = None
    ) -> Sketches:
        """Returns the signatures of documents from their shingle hashes.

        Args:
            hashes: Shingle hashes after the cut, uint64 (total,).
            starts: First hash of each document, and the end, int64 (n + 1,).
            counts: Number of occurrences of each hash, int64 (total,). By default, it is 1.

        Returns:
            The result of `sketch`, but with fingerprints of 0, which depend on the order of the
            shingles.
        """
        plain = Shingles(hashes, starts)
        if counts is not None:
            offsets = np.concatenate([[0], np.cumsum(counts)])[starts]
            plain = Shingles(np.repeat(hashes, counts), offsets)
        shingles = occurrences(plain) if self.spec.measure == "weighted-jaccard" else plain
        n = len(starts) - 1
        signatures = np.empty((n, self._signature_width), self._signature_type)
        keys = None
        if self._needs_whole_slots:
            keys = self._keyed(shingles, signatures)
        else:
            self.scheme.sketch(shingles, signatures)
        sizes = np.diff(plain.offsets).astype(np.uint32)
        return Sketches(
            signatures, sizes, np.zeros((n, 2), np.uint64), keys if self.key_builder else None
        )

    def _keyed(self, shingles: Shingles, signatures: np.ndarray) -> np.ndarray:
        """Computes signatures, and returns the band keys of their whole slots.

        Truncated signatures keep the lowest bits (Li, König, *b-Bit Minwise Hashing*, WWW 2010).
        """
        slots = np.empty((len(signatures), self.spec.k), np.uint32)
        runners = slots
        if self.key_builder is not None and self.key_builder.uses_runner_ups:
            runners = np.empty_like(slots)
            self._write_two_smallest(shingles, slots, runners)
        else:
            self.scheme.sketch(shingles, slots)
        if self.spec.truncated:
            kernels.truncate(slots, self.spec.slot_bits, signatures)
        else:
            signatures[:] = slots
        if self.key_builder is None:
            return np.empty((len(slots), 0), np.uint64)
        return self.key_builder.build(slots, runners)

    def _write_two_smallest(
        self, shingles: Shingles, slots: np.ndarray, runners: np.ndarray
    ) -> None:
        """Computes whole slots and their runner-ups, uint32 (n, k) each."""
        if isinstance(self.scheme, Darts):
            self.scheme.two_smallest(shingles, slots, runners)
            return
        kernels.two_smallest(
            shingles.hashes, shingles.offsets, *multipliers(self.spec), slots, runners
        )


def occurrences(shingles: Shingles) -> Shingles:
    """Returns shingles in which the i-th occurrence in a document is a separate element."""
    out = np.empty_like(shingles.hashes)
    kernels.number_occurrences(shingles.hashes, shingles.offsets, out)
    return Shingles(out, shingles.offsets)


def iterate_shingles(shingler: Shingler, documents: pa.Array) -> Iterator[tuple[int, Shingles]]:
    """Yields the first row and the compared shingles of slices of documents."""
    for start, stream in iterate_streams(shingler, documents):
        yield start, shingler.without_cut(stream)


def iterate_streams(shingler: Shingler, documents: pa.Array) -> Iterator[tuple[int, Shingles]]:
    """Yields the first row and the shingles before the cut of slices of documents.

    The hashes of a slice fit into the cache of the processor.
    """
    if pa.types.is_large_list(documents.type):
        yield from _token_slices(shingler, documents)
        return
    texts = (
        documents if pa.types.is_large_string(documents.type) else documents.cast(pa.large_string())
    )
    yield from _text_slices(shingler, *text_buffers(texts))


def _text_slices(
    shingler: Shingler, data: np.ndarray, offsets: np.ndarray
) -> Iterator[tuple[int, Shingles]]:
    for start, end in slices(offsets):
        yield start, shingler.texts(data, offsets[start : end + 1])


def _token_slices(shingler: Shingler, documents: pa.Array) -> Iterator[tuple[int, Shingles]]:
    lists = np.frombuffer(documents.buffers()[1], np.int64)[
        documents.offset : documents.offset + len(documents) + 1
    ]
    data, offsets = text_buffers(documents.values.cast(pa.large_string()))
    for start in range(0, len(documents), SLICE_DOCUMENTS):
        end = min(start + SLICE_DOCUMENTS, len(documents))
        yield start, shingler.tokens(data, offsets, lists[start : end + 1])


def slices(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows of at most SLICE_DOCUMENTS documents and SLICE_BYTES bytes.

    A document with more bytes is a range of its own.
    """
    n, start = len(offsets) - 1, 0
    if 0 < n <= SLICE_DOCUMENTS and offsets[n] - offsets[0] <= SLICE_BYTES:
        yield 0, n
        return
    while start < n:
        fits = int(np.searchsorted(offsets, offsets[start] + SLICE_BYTES, side="right")) - 1
        end = min(max(fits, start + 1), start + SLICE_DOCUMENTS, n)
        yield start, end
        start = end
