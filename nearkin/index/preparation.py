"""The preparation of documents: ids, digests, signatures, band keys and payloads for an index."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.index.documents import CheckedPart, ShingledDocument
from nearkin.index.entry import Entry
from nearkin.index.word_preparation import WordPreparer
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.threads import ObjectPool
from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import BandLayout, key_builder_for, write_band_keys
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure
from nearkin.stages.measures.base import Payload, band_layout_of, row_starts
from nearkin.stages.measures.hamming import Hamming
from nearkin.stages.packed_pairs import sorted_unique
from nearkin.stages.shingle import Shingles, encode_texts
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.sketch.sketcher import SLICE_BYTES, SLICE_DOCUMENTS, BandKeyBuilder, Sketches
from nearkin.stages.verify.jaccard import ShingleSets, distinct_sets

DIGEST_BYTES = 16
"""The length of a digest, in bytes."""


class PreparedDocuments(NamedTuple):
    """n texts or vectors of one scope with everything that an index needs of them."""

    scope: str
    digests: list[bytes]
    """The first 128 bits of SHA-256 over the UTF-8 text, or over the vector's 32-bit floats."""
    signatures: np.ndarray
    """The signatures, (n, w), of the Spec's signature type."""
    keys: np.ndarray
    """The band keys, uint64 (n, b), which include the scope and the configuration."""
    payload: Payload
    """The data that exact comparison needs."""
    empty: np.ndarray
    """True for documents without anything to compare, bool (n,). They match nothing."""

    def payload_starts(self) -> np.ndarray:
        """Returns the first row of each document in the payload, and the end, int64 (n + 1,)."""
        return row_starts(self.payload)


@dataclass(frozen=True)
class Preparer:
    """Prepares texts or vectors for an index. Safe for threads.

    Attributes:
        measure: Measure by which documents are compared.
        banding: Numbers of bands, rows and probes.
        resources: The hash key and the data that the Spec refers to.
        salt: Salt of the index's configuration. Another Spec or banding has other buckets.
        max_bytes: Maximum size of a document, in bytes.
    """

    measure: Measure
    banding: Banding
    resources: SpecResources
    salt: bytes
    max_bytes: int

    @property
    def vectors(self) -> bool:
        """True if documents are vectors, False if they are texts."""
        return self.measure.spec.unit == "vector"

    @property
    def keys_per_document(self) -> int:
        """The number of band keys of a document."""
        return self.banding.bands * (1 + self.banding.probes)

    @property
    def takes_shingles(self) -> bool:
        """True if the shingle set of a document is all that is needed of it."""
        return self.measure.spec.measure == "jaccard"

    @property
    def compares_signatures(self) -> bool:
        """True if documents are compared by the Hamming distance of their signatures."""
        return isinstance(self.measure, Hamming)

    @property
    def signatures_suffice(self) -> bool:
        """True if band keys follow from a stored signature.

        They do not if slots are truncated, or if probes need runner-up minima.
        """
        return self._key_builder is None

    @cached_property
    def row_bytes(self) -> int:
        """The size of one row of a payload, in bytes."""
        return sum(
            np.dtype(kind).itemsize * (width or 1) for kind, width in self.measure.column_types
        )

    @property
    def signature_bytes(self) -> int:
        """The size of a stored signature, in bytes."""
        spec = self.measure.spec
        return spec.signature_width * np.dtype(spec.signature_type).itemsize

    @cached_property
    def absent_vector(self) -> np.ndarray:
        """The vector in the place of a missing one, float32 (n,). It is never compared."""
        vector = np.zeros(self.measure.spec.n, np.float32)
        vector[0] = 1
        return vector

    @cached_property
    def _key_builder(self) -> BandKeyBuilder | None:
        return key_builder_for(self.banding, truncated=self.measure.spec.truncated)

    @cached_property
    def _sketchers(self) -> ObjectPool[Any]:
        return ObjectPool(lambda: self.measure.sketcher(self._key_builder))

    @cached_property
    def _has_word_preparers(self) -> bool:
        return WordPreparer.is_applicable(self.measure.spec, self.resources, self.banding)

    @cached_property
    def _word_preparers(self) -> ObjectPool[WordPreparer]:
        return ObjectPool(lambda: WordPreparer(self.measure.spec, self.resources, self.banding))

    @cached_property
    def _payload_builders(self) -> ObjectPool[Any]:
        return ObjectPool(self.measure.payload_builder)

    @cached_property
    def _band_layout(self) -> BandLayout:
        """The layout of signatures that suffice for band keys."""
        return band_layout_of(self.measure.spec, self.banding, None)

    # -- Checks

    def check(self, document: object) -> CheckedPart:
        """Returns a document in the form in which it is prepared."""
        if isinstance(document, ShingledDocument):
            return self._check_shingles(document)
        if self.vectors:
            return self._check_vector(document)
        return self._check_text(document)

    def _check_shingles(self, document: ShingledDocument) -> ShingledDocument:
        if not self.takes_shingles:
            measure = self.measure.spec.measure
            raise UsageError(
                f"{name_setting('measure', measure)} needs whole documents, not their shingles"
            )
        if document.hashes.nbytes > self.max_bytes:
            raise UsageError(
                f"{len(document.hashes):,} shingles need more than "
                f"{name_setting('max_document', self.max_bytes)} bytes"
            )
        return document

    def _check_text(self, document: object) -> str:
        if not isinstance(document, str):
            kind = type(document).__name__
            raise UsageError(f"the documents of this index are texts, not {kind}")
        # a character has at most four bytes, so most documents need not be encoded to be measured
        is_large = len(document) > self.max_bytes
        if not is_large and 4 * len(document) > self.max_bytes:
            is_large = len(document.encode("utf-8", "surrogatepass")) > self.max_bytes
        if is_large:
            raise UsageError(
                f"a document of {len(document):,} characters is larger than "
                f"{name_setting('max_document', self.max_bytes)} bytes"
            )
        try:
            document.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"a document is not valid Unicode: {error.reason} at position {error.start}"
            ) from error
        return document

    def _check_vector(self, document: object) -> np.ndarray:
        if isinstance(document, str):
            raise UsageError("the documents of this index are vectors, not texts")
        try:
            vector = np.ascontiguousarray(document, np.float32)
        except (ValueError, TypeError) as error:
            raise UsageError("a vector must be a list of numbers") from error
        dimensions = self.measure.spec.n
        if vector.shape != (dimensions,):
            raise UsageError(
                f"a vector of this index must have {dimensions} numbers; its shape is "
                f"{vector.shape}"
            )
        if not np.isfinite(vector).all():
            raise UsageError("a vector contains a number that is not finite")
        if not vector.any():
            raise UsageError("a vector of zeros has no direction and cannot be compared")
        return vector

    # -- New documents

    def column(self, documents: Sequence[CheckedPart]) -> pa.Array:
        """Returns texts or vectors as an Arrow array."""
        if not self.vectors:
            return pa.array(documents, pa.large_string())
        vectors = [document for document in documents if isinstance(document, np.ndarray)]
        flat = np.concatenate([np.empty(0, np.float32), *vectors])
        return pa.FixedSizeListArray.from_arrays(pa.array(flat), self.measure.spec.n)

    def digest(self, document: CheckedPart) -> bytes:
        """Returns the digest of a document's content, of 128 bits."""
        if isinstance(document, ShingledDocument):
            if document.digest:
                return document.digest
            content = b"shingles\0" + document.hashes.tobytes()
        elif isinstance(document, str):
            return digest_text(document)
        else:
            content = document.tobytes()
        return hashlib.sha256(content).digest()[:DIGEST_BYTES]

    def prepare(
        self, scope: str, documents: Sequence[CheckedPart], digests: list[bytes]
    ) -> PreparedDocuments:
        """Prepares documents together, with the kernels of batch runs."""
        if any(isinstance(document, ShingledDocument) for document in documents):
            return self._prepare_shingles(scope, documents, digests)
        if self.takes_shingles:
            # the sets are kept from sketching, so that shingles are computed once
            texts = [document for document in documents if isinstance(document, str)]
            data, offsets = encode_texts(texts)
            is_slice = len(texts) <= SLICE_DOCUMENTS and offsets[-1] <= SLICE_BYTES
            if is_slice and self._has_word_preparers:
                return self._prepare_words(scope, data, offsets, digests)
            sketches, sets = self._sketch_with_sets(
                lambda sketcher, also: sketcher.sketch_texts(data, offsets, also)
            )
            payload = Payload(sets.sizes, (sets.hashes,))
        else:
            column = self.column(documents)
            sketches = self._sketchers.use(lambda sketcher: sketcher.sketch(column))
            if self.compares_signatures:
                payload = _payload_of_signatures(sketches.signatures)
            else:
                payload = self.payload(column)
        keys = self._band_keys(scope, sketches)
        empty = sketches.shingles == 0
        return PreparedDocuments(scope, digests, sketches.signatures, keys, payload, empty)

    def _prepare_words(
        self, scope: str, data: np.ndarray, offsets: np.ndarray, digests: list[bytes]
    ) -> PreparedDocuments:
        """Prepares texts with one kernel, which takes a fraction of the time for a single text.

        Args:
            data: UTF-8 bytes of the texts, uint8.
            offsets: First byte of each text, and the end, int64 (n + 1,).
        """
        salt = self.scope_salt(scope)
        words = self._word_preparers.use(lambda preparer: preparer.prepare(data, offsets, salt))
        return PreparedDocuments(
            scope=scope,
            digests=digests,
            signatures=words.signatures,
            keys=words.keys,
            payload=Payload(words.sets.sizes, (words.sets.hashes,)),
            empty=words.sets.sizes == 0,
        )

    def _sketch_with_sets(
        self, sketch: Callable[[Any, Callable[[Shingles], None]], Sketches]
    ) -> tuple[Sketches, ShingleSets]:
        """Returns the signatures of documents, and their shingle sets."""
        sets: list[ShingleSets] = []
        sketches = self._sketchers.use(
            lambda sketcher: sketch(
                sketcher,
                lambda shingles: sets.append(distinct_sets(shingles.hashes, shingles.offsets)),
            )
        )
        if len(sets) == 1:
            return sketches, sets[0]
        hashes = np.concatenate([np.empty(0, np.uint64), *(part.hashes for part in sets)])
        sizes = np.concatenate([np.empty(0, np.int64), *(part.sizes for part in sets)])
        return sketches, ShingleSets(hashes, sizes)

    def _prepare_shingles(
        self, scope: str, documents: Sequence[CheckedPart], digests: list[bytes]
    ) -> PreparedDocuments:
        """Prepares documents some of which are shingle sets. Texts are shingled first."""
        shingled = [
            document
            if isinstance(document, ShingledDocument)
            else self.shingle(self.column([document]))
            for document in documents
        ]
        sizes = np.array([len(document.hashes) for document in shingled], np.int64)
        hashes = np.concatenate([document.hashes for document in shingled])
        payload = Payload(sizes, (hashes,))
        empty = sizes == 0
        known = [document.signature for document in shingled if document.signature is not None]
        if self.signatures_suffice and len(known) == len(shingled):
            signatures = np.stack(known)
            keys = self.keys_of_signatures(scope, signatures)
            return PreparedDocuments(scope, digests, signatures, keys, payload, empty)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        sketches = self._sketchers.use(lambda sketcher: sketcher.sketch_hashes(hashes, starts))
        keys = self._band_keys(scope, sketches)
        return PreparedDocuments(scope, digests, sketches.signatures, keys, payload, empty)

    def shingle(self, column: pa.Array) -> ShingledDocument:
        """Returns the union of the shingle sets of several texts, as one document."""
        sketches, sets = self._sketch_with_sets(
            lambda sketcher, also: sketcher.sketch(column, also)
        )
        signature = None
        if self.signatures_suffice and len(sketches.signatures):
            signature = sketches.signatures.min(axis=0)
        return ShingledDocument(sorted_unique(sets.hashes), signature)

    def have_same_content(self, first: str, second: str) -> bool:
        """Returns whether two texts are exact duplicates, as in a run."""
        column = self.column([first, second])
        sketches = self._sketchers.use(lambda sketcher: sketcher.sketch(column))
        return bool((sketches.fingerprints[0] == sketches.fingerprints[1]).all())

    def payload(self, column: pa.Array) -> Payload:
        """Returns the data of a column of documents that exact comparison needs."""
        return self._payload_builders.use(lambda builder: builder.build(column))

    def packed_payload(self, payload: Payload, starts: np.ndarray, position: int) -> bytes:
        """Returns the payload of one document as it is stored: its columns, one after the other.

        Args:
            starts: Offsets at which the documents begin in the columns, int64 (n + 1,).
        """
        rows = slice(starts[position], starts[position + 1])
        return b"".join(column[rows].tobytes() for column in payload.columns)

    # -- Stored documents

    def payload_of(self, entries: Sequence[Entry]) -> Payload:
        """Returns the payload of stored documents, from their texts or as it was stored."""
        if self.compares_signatures and all(entry.signature for entry in entries):
            return _payload_of_signatures(self.signatures_of(entries))
        if all(entry.text is not None for entry in entries):
            return self.payload(self.column([entry.text or "" for entry in entries]))
        sizes = np.empty(len(entries), np.int64)
        parts: list[tuple[np.ndarray, ...]] = []
        for i, entry in enumerate(entries):
            if entry.text is None:
                sizes[i], columns = self._unpack_payload(entry.payload)
            else:
                payload = self.payload(self.column([entry.text]))
                sizes[i] = payload.sizes[0]
                columns = payload.columns
            parts.append(columns)
        return Payload(sizes, tuple(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _unpack_payload(self, packed: bytes) -> tuple[int, tuple[np.ndarray, ...]]:
        """Returns the number of rows of a stored payload, and its columns."""
        types = [(np.dtype(kind), width) for kind, width in self.measure.column_types]
        rows = len(packed) // self.row_bytes
        columns = []
        offset = 0
        for kind, width in types:
            values = np.frombuffer(packed, kind, rows * (width or 1), offset)
            offset += values.nbytes
            columns.append(values if width is None else values.reshape(rows, width))
        return rows, tuple(columns)

    def signatures_of(self, entries: Sequence[Entry]) -> np.ndarray:
        """Returns the signatures of stored documents, (n, w)."""
        spec = self.measure.spec
        signatures = b"".join(entry.signature for entry in entries)
        flat = np.frombuffer(signatures, spec.signature_type)
        return flat.reshape(len(entries), spec.signature_width)

    def prepare_stored(self, scope: str, entries: Sequence[Entry]) -> PreparedDocuments:
        """Prepares stored documents again, as if they were new."""
        digests = [entry.digest for entry in entries]
        if self.vectors:
            vectors = [np.frombuffer(entry.payload, np.float32) for entry in entries]
            return self.prepare(scope, vectors, digests)
        if all(entry.text is not None for entry in entries):
            return self.prepare(scope, [entry.text or "" for entry in entries], digests)
        payload = self.payload_of(entries)
        if self.compares_signatures:
            signatures = payload.columns[0]
            keys = self.keys_of_signatures(scope, signatures)
            empty = np.array([entry.size == 0 for entry in entries], bool)
            return PreparedDocuments(scope, digests, signatures, keys, payload, empty)
        hashes = payload.columns[0]
        starts = np.concatenate([[0], np.cumsum(payload.sizes)]).astype(np.int64)
        counts = None
        if len(payload.columns) == 2:
            # the stored weights are counts times the weight of one occurrence
            counts = np.rint(payload.columns[1] / self._unit_weights(hashes)).astype(np.int64)
        sketches = self._sketchers.use(
            lambda sketcher: sketcher.sketch_hashes(hashes, starts, counts)
        )
        keys = self._band_keys(scope, sketches)
        empty = payload.sizes == 0
        return PreparedDocuments(scope, digests, sketches.signatures, keys, payload, empty)

    def _unit_weights(self, hashes: np.ndarray) -> np.ndarray:
        """Returns the weight of one occurrence of each shingle, float64 (m,)."""
        frequencies = self.resources.weights(self.measure.spec)
        if frequencies is None:
            return np.ones(len(hashes))
        return frequencies.weights_of(hashes).astype(np.float64)

    # -- Band keys

    def keys_of(self, scope: str, entries: Sequence[Entry]) -> np.ndarray:
        """Returns the band keys of stored documents, uint64 (n, b).

        They follow from the signature if it has whole slots or signs, otherwise from the text or
        from the stored hashes.
        """
        if self.signatures_suffice and all(entry.signature for entry in entries):
            return self.keys_of_signatures(scope, self.signatures_of(entries))
        return self.prepare_stored(scope, entries).keys

    def keys_of_signatures(self, scope: str, signatures: np.ndarray) -> np.ndarray:
        """Returns the band keys of signatures, uint64 (n, b), if `signatures_suffice`.

        Args:
            signatures: Signatures of the documents, (n, w).
        """
        nothing = np.empty(0, np.uint32)
        return self._band_keys(scope, Sketches(signatures, nothing, nothing))

    def scope_salt(self, scope: str) -> np.uint64:
        """Returns the salt that gives each scope and configuration its own buckets."""
        return scope_salt(self.salt, scope)

    def _band_keys(self, scope: str, sketches: Sketches) -> np.ndarray:
        n = len(sketches.signatures)
        salts = np.empty(n, np.uint64)
        salts[:] = self.scope_salt(scope)
        keys = np.empty((self.keys_per_document, n), np.uint64)
        if sketches.keys is not None:
            kernels.salt_keys(sketches.keys, salts, keys)
        else:
            write_band_keys(self._band_layout, sketches.signatures, salts, keys)
        return np.ascontiguousarray(keys.T)


@lru_cache(1024)
def scope_salt(salt: bytes, scope: str) -> np.uint64:
    """Returns the salt that gives each scope and configuration its own buckets."""
    digest = hashlib.sha256(salt + b"\0" + scope.encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def digest_text(text: str) -> bytes:
    """Returns the digest of a text, of 128 bits."""
    return hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]


def _payload_of_signatures(signatures: np.ndarray) -> Payload:
    """Returns the payload of documents that are compared by their signatures, (n, w)."""
    return Payload(np.ones(len(signatures), np.int64), (signatures,))
