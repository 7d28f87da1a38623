"""Documents to everything that an index needs of them: ids, digests, signatures, keys, payloads."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.index.entry import Entry
from nearkin.lsh import kernels
from nearkin.lsh.band_keys import key_builder_for, write_band_keys
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import Measure
from nearkin.measures.base import Payload, band_layout_of
from nearkin.packed_pairs import sorted_unique
from nearkin.runtime.threads import ObjectPool
from nearkin.sketch.resources import SpecResources
from nearkin.sketch.sketcher import BandKeyBuilder, Sketches
from nearkin.verify.jaccard import ShingleSets, distinct_sets


class ShingledDocument(NamedTuple):
    """A document whose shingles are known, but not its text."""

    hashes: np.ndarray
    """uint64 (m,), ascending, each once."""
    signature: np.ndarray | None = None
    """uint32 (k,), if it is known: of whole MinHash slots."""
    digest: bytes | None = None
    """Of the content that they were made of, if that is known."""


Document: TypeAlias = "str | Sequence[float] | np.ndarray | ShingledDocument"
CheckedDocument: TypeAlias = "str | np.ndarray | ShingledDocument"
"""As an index works with it."""
DIGEST = 16


class PreparedDocuments(NamedTuple):
    """n documents of one scope."""

    scope: str
    digests: list[bytes]
    """128 bits of SHA-256 over the UTF-8 text, or the vector's 32-bit floats."""
    signatures: np.ndarray
    """(n, w) of the Spec's signature type."""
    keys: np.ndarray
    """uint64 (n, b): of the buckets, scope and configuration included."""
    payload: Payload
    """What exact comparison needs."""
    empty: np.ndarray
    """bool (n,): documents without anything to compare; they match nothing."""


def default_id(digest: bytes) -> str:
    """The id of a document that has none of its own: of its content alone, 22 characters.

    Examples:
        >>> default_id(bytes(16))
        'AAAAAAAAAAAAAAAAAAAAAA'
    """
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _payload(sets: list[ShingleSets]) -> Payload:
    """Sets of slices, one after the other."""
    if len(sets) == 1:
        return Payload(sets[0].sizes, (sets[0].hashes,))
    hashes, sizes = zip(*sets, strict=True) if sets else ([np.empty(0, np.uint64)], [np.empty(0, np.int64)])
    return Payload(np.concatenate(sizes), (np.concatenate(hashes),))


@dataclass(frozen=True)
class Preparer:
    """Makes documents ready for an index.

    Attributes:
        measure: How they are compared.
        banding: Bands and rows.
        resources: What the Spec names but does not hold.
        salt: Of the index' configuration: other bands or another Spec have other buckets.
        most: Bytes of a document.
    """

    measure: Measure
    banding: Banding
    resources: SpecResources
    salt: bytes
    most: int

    @property
    def vectors(self) -> bool:
        """Whether documents are vectors."""
        return self.measure.spec.unit == "vector"

    @property
    def per_document(self) -> int:
        """Keys of a document."""
        return self.banding.bands * (1 + self.banding.probes)

    @cached_property
    def _key_builder(self) -> BandKeyBuilder | None:
        return key_builder_for(self.banding, truncated=self.measure.spec.truncated)

    @cached_property
    def _sketchers(self) -> ObjectPool[Any]:
        return ObjectPool(lambda: self.measure.sketcher(self._key_builder))

    @cached_property
    def _builders(self) -> ObjectPool[Any]:
        return ObjectPool(self.measure.payload_builder)

    @property
    def takes_shingles(self) -> bool:
        """Whether shingles are all that is needed of a document: sets of them."""
        return self.measure.spec.measure == "jaccard"

    def check(self, document: Document) -> CheckedDocument:
        """A document as it is kept.

        Raises:
            UsageError: It is of another kind, too large, or no vector of these dimensions.
        """
        if isinstance(document, ShingledDocument):
            if not self.takes_shingles:
                raise UsageError(f"measure={self.measure.spec.measure!r} needs whole documents, not their shingles")
            if document.hashes.nbytes > self.most:
                raise UsageError(f"{len(document.hashes):,} shingles are more than max_document={self.most:,} bytes")
            return document
        if not self.vectors:
            if not isinstance(document, str):
                raise UsageError(f"this index holds texts, not {type(document).__name__}")
            if len(document) > self.most or 4 * len(document) > self.most < len(document.encode("utf-8", "surrogatepass")):
                raise UsageError(f"a document of {len(document):,} characters is larger than max_document={self.most:,} bytes")
            try:
                document.encode()
            except UnicodeEncodeError as error:
                raise UsageError(f"a document is no valid Unicode text: {error.reason} at {error.start}") from error
            return document
        if isinstance(document, str):
            raise UsageError("this index holds vectors, not texts")
        try:
            vector = np.ascontiguousarray(document, np.float32)
        except (ValueError, TypeError) as error:
            raise UsageError("a vector is a list of numbers") from error
        if vector.shape != (self.measure.spec.n,):
            raise UsageError(f"a vector of this index has {self.measure.spec.n} numbers, not {vector.shape}")
        if not np.isfinite(vector).all():
            raise UsageError("a vector has a number that is not finite")
        if not vector.any():
            raise UsageError("a vector of zeros has no direction to compare")
        return vector

    def column(self, documents: Sequence[CheckedDocument]) -> pa.Array:
        """As Arrow."""
        if not self.vectors:
            return pa.array(documents, pa.large_string())
        flat = np.concatenate([np.empty(0, np.float32), *(one for one in documents if isinstance(one, np.ndarray))])
        return pa.FixedSizeListArray.from_arrays(pa.array(flat), self.measure.spec.n)

    def digest(self, document: CheckedDocument) -> bytes:
        """128 bits of the content."""
        if isinstance(document, ShingledDocument):
            return document.digest or hashlib.sha256(b"shingles\0" + document.hashes.tobytes()).digest()[:DIGEST]
        content = document.encode() if isinstance(document, str) else document.tobytes()
        return hashlib.sha256(content).digest()[:DIGEST]

    def prepare(self, scope: str, documents: Sequence[CheckedDocument], digests: list[bytes]) -> PreparedDocuments:
        """Everything at once, by the batch kernels."""
        if any(isinstance(document, ShingledDocument) for document in documents):
            return self._shingled(scope, documents, digests)
        column = self.column(documents)
        if self.measure.spec.measure == "jaccard":
            sets: list[ShingleSets] = []
            sketches = self._sketchers.use(lambda tool: tool.sketch(column, lambda some: sets.append(distinct_sets(*some))))
            return PreparedDocuments(
                scope, digests, sketches.signatures, self._keys(scope, sketches), _payload(sets), sketches.shingles == 0
            )
        sketches = self._sketchers.use(lambda tool: tool.sketch(column))
        return PreparedDocuments(
            scope, digests, sketches.signatures, self._keys(scope, sketches), self.payload(column), sketches.shingles == 0
        )

    def _shingled(self, scope: str, documents: Sequence[CheckedDocument], digests: list[bytes]) -> PreparedDocuments:
        """Of shingles; texts among them are shingled first."""
        known = [one if isinstance(one, ShingledDocument) else self.shingled(self.column([one])) for one in documents]
        sizes = np.array([len(one.hashes) for one in known], np.int64)
        starts, hashes = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), np.concatenate([one.hashes for one in known])
        payload = Payload(sizes, (hashes,))
        if self.signatures_suffice and all(one.signature is not None for one in known):
            signatures = np.stack([one.signature for one in known if one.signature is not None])
            return PreparedDocuments(
                scope, digests, signatures, self.keys_of_signatures(scope, signatures), payload, sizes == 0
            )
        sketches = self._sketchers.use(lambda tool: tool.sketch_hashes(hashes, starts))
        return PreparedDocuments(scope, digests, sketches.signatures, self._keys(scope, sketches), payload, sizes == 0)

    def shingled(self, column: pa.Array) -> ShingledDocument:
        """The shingles of documents (text, or token lists), each by itself, as those of one.

        Args:
            column: Of texts, or of lists of tokens.
        """
        sets: list[ShingleSets] = []
        sketches = self._sketchers.use(lambda tool: tool.sketch(column, lambda some: sets.append(distinct_sets(*some))))
        hashes = sorted_unique(np.concatenate([np.empty(0, np.uint64), *(some.hashes for some in sets)]))
        whole = self.signatures_suffice and len(sketches.signatures)
        return ShingledDocument(hashes, sketches.signatures.min(axis=0) if whole else None)

    def payload(self, column: pa.Array) -> Payload:
        """What exact comparison needs of a column of documents."""
        return self._builders.use(lambda builder: builder.build(column))

    def payload_of(self, entries: Sequence[Entry]) -> Payload:
        """Of stored documents: from their texts, or as it was stored."""
        if all(entry.text is not None for entry in entries):
            return self.payload(self.column([entry.text or "" for entry in entries]))
        sizes = np.empty(len(entries), np.int64)
        parts: list[tuple[np.ndarray, ...]] = []
        for at, entry in enumerate(entries):
            if entry.text is not None:
                one = self.payload(self.column([entry.text]))
                sizes[at], columns = one.sizes[0], one.columns
            else:
                sizes[at], columns = self._unpacked(entry.payload)
            parts.append(columns)
        return Payload(sizes, tuple(np.concatenate(column) for column in zip(*parts, strict=True)))

    def packed_payload(self, payload: Payload, starts: np.ndarray, at: int) -> bytes:
        """One document's columns, one after the other."""
        return b"".join(column[starts[at] : starts[at + 1]].tobytes() for column in payload.columns)

    def _unpacked(self, packed: bytes) -> tuple[int, tuple[np.ndarray, ...]]:
        types = [(np.dtype(kind), 1 if width is None else width, width) for kind, width in self.measure.column_types]
        size = len(packed) // sum(kind.itemsize * width for kind, width, _ in types)
        columns, at = [], 0
        for kind, width, shape in types:
            values = np.frombuffer(packed, kind, size * width, at)
            columns.append(values if shape is None else values.reshape(size, width))
            at += values.nbytes
        return size, tuple(columns)

    def signatures_of(self, entries: Sequence[Entry]) -> np.ndarray:
        """(n, w): as they were stored."""
        spec = self.measure.spec
        joined = b"".join(entry.signature for entry in entries)
        return np.frombuffer(joined, spec.signature_type).reshape(len(entries), spec.signature_width)

    def scope_salt(self, scope: str) -> np.uint64:
        """Buckets of other scopes, or of another configuration, have other keys."""
        digest = hashlib.sha256(self.salt + b"\0" + scope.encode()).digest()
        return np.uint64(int.from_bytes(digest[:8], "little"))

    def keys_of(self, scope: str, entries: Sequence[Entry]) -> np.ndarray:
        """uint64 (n, b): of stored documents, made again from what is kept of them.

        Of whole slots and of signs they follow from the signature; else from the text or, of sets, from the hashes.
        """
        if self.signatures_suffice and all(entry.signature for entry in entries):
            return self.keys_of_signatures(scope, self.signatures_of(entries))
        return self.restored(scope, entries).keys

    @property
    def signatures_suffice(self) -> bool:
        """Whether keys follow from what is kept of a signature: not of cut slots, nor of runner-up minima."""
        return self._key_builder is None

    def keys_of_signatures(self, scope: str, signatures: np.ndarray) -> np.ndarray:
        """uint64 (n, b), where they suffice."""
        nothing = np.empty(0, np.uint32)
        return self._keys(scope, Sketches(signatures, nothing, nothing))

    def restored(self, scope: str, entries: Sequence[Entry]) -> PreparedDocuments:
        """StoredPayloads documents as if they had just come.

        Raises:
            UsageError: Their texts were not kept, and their signatures do not follow from what was.
        """
        digests = [entry.digest for entry in entries]
        if self.vectors:
            return self.prepare(scope, [np.frombuffer(entry.payload, np.float32) for entry in entries], digests)
        if all(entry.text is not None for entry in entries):
            return self.prepare(scope, [entry.text or "" for entry in entries], digests)
        return self._of_hashes(scope, entries, digests)

    def _of_hashes(self, scope: str, entries: Sequence[Entry], digests: list[bytes]) -> PreparedDocuments:
        payload = self.payload_of(entries)
        starts, counts = np.concatenate([[0], np.cumsum(payload.sizes)]).astype(np.int64), None
        if len(payload.columns) == 2:
            counts = np.rint(payload.columns[1] / self._unit_weights(payload.columns[0])).astype(np.int64)
        sketches = self._sketchers.use(lambda tool: tool.sketch_hashes(payload.columns[0], starts, counts))
        return PreparedDocuments(scope, digests, sketches.signatures, self._keys(scope, sketches), payload, payload.sizes == 0)

    def _unit_weights(self, hashes: np.ndarray) -> np.ndarray:
        """What one occurrence of each shingle weighs."""
        frequencies = self.resources.weights(self.measure.spec)
        return np.ones(len(hashes)) if frequencies is None else frequencies.weights_of(hashes).astype(np.float64)

    def _keys(self, scope: str, sketches: Sketches) -> np.ndarray:
        """uint64 (n, b)."""
        n = len(sketches.signatures)
        salts, keys = np.full(n, self.scope_salt(scope), np.uint64), np.empty((self.per_document, n), np.uint64)
        if sketches.keys is not None:
            kernels.salt_keys(sketches.keys, salts, keys)
        else:
            write_band_keys(band_layout_of(self.measure.spec, self.banding, None), sketches.signatures, salts, keys)
        return np.ascontiguousarray(keys.T)
