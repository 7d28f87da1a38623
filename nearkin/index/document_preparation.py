"""The preparation of whole documents, which have a text, a vector, or both.

An index has one kind of documents, or two: texts and vectors. Each kind is prepared by a `Preparer`
of its own. A document that lacks a kind has a placeholder in the arrays of that kind, which is
marked as empty: it is not stored, is in no bucket, and is compared with nothing.

The entry of a document with both kinds holds the signature and the payload of its text, then those
of its vector. The payload of the text is left out if the text itself is stored.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.errors import UsageError
from nearkin.index.documents import (
    CheckedDocument,
    CheckedPair,
    CheckedPart,
    Document,
    ShingledDocument,
    TextAndVector,
)
from nearkin.index.entry import Entry
from nearkin.index.preparation import DIGEST_BYTES, PreparedDocuments, Preparer, digest_text
from nearkin.runtime.setting_names import name_setting
from nearkin.stages.measures.base import Payload


class PreparedBatch(NamedTuple):
    """n documents of one scope, prepared by each kind of evidence."""

    scope: str
    digests: list[bytes]
    """The digests of the documents' contents."""
    kinds: tuple[PreparedDocuments, ...]
    """The documents as texts or vectors; in an index of both, as texts, then as vectors."""
    documents: Sequence[CheckedDocument] = ()
    """The documents, or none if they are stored ones that were prepared again."""

    def text(self, position: int) -> str | None:
        """Returns a document that is nothing but a text, or None."""
        document = self.documents[position] if self.documents else None
        return document if isinstance(document, str) else None

    @property
    def empty(self) -> np.ndarray:
        """True for documents without anything to compare, bool (n,)."""
        if len(self.kinds) == 1:
            return self.kinds[0].empty
        return np.logical_and.reduce([kind.empty for kind in self.kinds])

    def signature(self, position: int) -> bytes:
        """Returns the signatures of one document as they are stored."""
        if len(self.kinds) == 1:
            return self.kinds[0].signatures[position].tobytes()
        return b"".join(
            self.kinds[kind].signatures[position].tobytes() for kind in self.present_kinds(position)
        )

    def keys(self, position: int) -> np.ndarray:
        """Returns the keys of the buckets of one document, uint64 (b,)."""
        if len(self.kinds) == 1:
            own: np.ndarray = self.kinds[0].keys[position]
            return own
        return np.concatenate(
            [self.kinds[kind].keys[position] for kind in self.present_kinds(position)]
        )

    def stored_signatures(self, chosen: Sequence[bool]) -> list[bytes]:
        """Returns the signatures of some documents as they are stored; empty for the others."""
        if len(self.kinds) > 1:
            return [self.signature(i) if chosen[i] else b"" for i in range(len(chosen))]
        signatures = self.kinds[0].signatures
        width = signatures.itemsize * signatures.shape[1]
        packed = signatures.tobytes()
        return [
            packed[i * width : (i + 1) * width] if is_chosen else b""
            for i, is_chosen in enumerate(chosen)
        ]

    def present_kinds(self, position: int) -> list[int]:
        """Returns the positions of the kinds that a document has.

        An index of one kind has it for all documents, those without anything to compare included.
        """
        if len(self.kinds) == 1:
            return [0]
        return [kind for kind, prepared in enumerate(self.kinds) if not prepared.empty[position]]


class StoredKind(NamedTuple):
    """One kind of evidence of n stored documents."""

    payload: Payload
    """The data that exact comparison needs."""
    empty: np.ndarray
    """True for documents that lack this kind, bool (n,). An index of one kind has none."""


@dataclass(frozen=True)
class DocumentPreparer:
    """Prepares the documents of an index, whether it has one kind of them or two.

    Attributes:
        first: Preparer of the texts, or of the vectors of an index of vectors.
        second: Preparer of the vectors that texts have besides, or None.
        requires_both: True if a document must have a text and a vector.
    """

    first: Preparer
    second: Preparer | None = None
    requires_both: bool = False

    @property
    def kinds(self) -> tuple[Preparer, ...]:
        """The preparers of the kinds of evidence, texts first."""
        return (self.first,) if self.second is None else (self.first, self.second)

    # -- New documents

    def check(self, document: Document) -> CheckedDocument:
        """Returns a document in the form in which it is prepared."""
        if self.second is None:
            if isinstance(document, TextAndVector | CheckedPair):
                kind = "vectors" if self.first.vectors else "texts"
                raise UsageError(
                    f"the documents of this index are {kind}, not texts with vectors; pass the "
                    "text or the vector alone, or create an index with vector="
                )
            return self.first.check(document)
        pair = _as_pair(document)
        text = None if pair.text is None else self.first.check(pair.text)
        vector = None if pair.vector is None else self.second.check(pair.vector)
        self._require_kinds(has_text=text is not None, has_vector=vector is not None)
        assert text is None or isinstance(text, str | ShingledDocument)
        assert vector is None or isinstance(vector, np.ndarray)
        digest = pair.digest if isinstance(pair, CheckedPair) else None
        return CheckedPair(text, vector, digest)

    def check_all(self, documents: Sequence[Document]) -> list[CheckedDocument]:
        """Returns documents in the form in which they are prepared, as `check` does each."""
        if self.second is not None or self.first.vectors:
            return [self.check(document) for document in documents]
        # ASCII texts, which are most, are valid, and have as many bytes as characters
        max_bytes = self.first.max_bytes
        return [
            document
            if type(document) is str and document.isascii() and len(document) <= max_bytes
            else self.check(document)
            for document in documents
        ]

    def digests(self, documents: Sequence[CheckedDocument]) -> list[bytes]:
        """Returns the digests of the documents' contents, of 128 bits."""
        return [
            digest_text(document) if type(document) is str else self.digest(document)
            for document in documents
        ]

    def _require_kinds(self, *, has_text: bool, has_vector: bool) -> None:
        """Verifies that a document has a text or a vector, or both if the index requires them."""
        if not (has_text or has_vector):
            raise UsageError(
                "a document of this index needs a text, a vector or both; this one has neither"
            )
        if self.requires_both and not (has_text and has_vector):
            missing = "vector" if has_text else "text"
            raise UsageError(
                f"this index compares texts and vectors "
                f"({name_setting('combine', 'both')}), and a document has no "
                f"{missing}; give both, or use an index with {name_setting('combine', 'either')}"
            )

    def digest(self, document: CheckedDocument) -> bytes:
        """Returns the digest of a document's content, of 128 bits."""
        if not isinstance(document, CheckedPair):
            return self.first.digest(document)
        if document.digest:
            return document.digest
        content = b"text and vector\0"
        if document.text is not None:
            content += b"t" + self.first.digest(document.text)
        if document.vector is not None:
            content += b"v" + self.first.digest(document.vector)
        return hashlib.sha256(content).digest()[:DIGEST_BYTES]

    def prepare(
        self, scope: str, documents: Sequence[CheckedDocument], digests: list[bytes]
    ) -> PreparedBatch:
        """Prepares documents together, with the kernels of batch runs."""
        if self.second is None:
            parts = [part for part in documents if not isinstance(part, CheckedPair)]
            kinds = (self.first.prepare(scope, parts, digests),)
            return PreparedBatch(scope, digests, kinds, documents)
        pairs = [pair for pair in documents if isinstance(pair, CheckedPair)]
        texts: list[CheckedPart] = ["" if pair.text is None else pair.text for pair in pairs]
        absent = self.second.absent_vector
        vectors: list[CheckedPart] = [
            absent if pair.vector is None else pair.vector for pair in pairs
        ]
        prepared_texts = self.first.prepare(scope, texts, digests)
        prepared_vectors = self.second.prepare(scope, vectors, digests)
        lacks_vector = np.array([pair.vector is None for pair in pairs], bool)
        prepared_vectors = prepared_vectors._replace(empty=prepared_vectors.empty | lacks_vector)
        return PreparedBatch(scope, digests, (prepared_texts, prepared_vectors), documents)

    def is_exact_copy(
        self, prepared: PreparedBatch, position: int, other: Entry | int, similarity: float
    ) -> bool | None:
        """Returns whether documents are exact duplicates, or None if their similarity is below 1.

        A similarity of 1 says nothing about symbols, punctuation, order and repetitions: C++ and C#
        have the same words. Texts are exact duplicates, as in a run, if all of this is equal.
        Vectors, and documents whose text is not stored, are if their bytes are equal.
        """
        if similarity < 1:
            return None
        if isinstance(other, int):
            digest = prepared.digests[other]
            text = prepared.text(other)
        else:
            digest = other.digest
            text = other.text
        if digest == prepared.digests[position]:
            return True
        own_text = prepared.text(position)
        if text is None or own_text is None:
            return False
        return self.first.have_same_content(own_text, text)

    # -- Stored documents

    def split(self, entries: Sequence[Entry]) -> list[list[Entry]]:
        """Returns stored documents as each kind of evidence sees them, with placeholders."""
        second = self.second
        if second is None:
            return [list(entries)]
        texts: list[Entry] = []
        vectors: list[Entry] = []
        for entry in entries:
            text_bytes = 0 if entry.text is not None else entry.size * self.first.row_bytes
            vector = entry.payload[text_bytes:]
            text_signature = entry.signature[: self.first.signature_bytes if entry.size else 0]
            vector_signature = entry.signature[len(text_signature) :]
            has_text = entry.size > 0 or entry.text is not None
            texts.append(
                entry._replace(
                    signature=text_signature or bytes(self.first.signature_bytes),
                    text=entry.text if has_text else "",
                    payload=entry.payload[:text_bytes],
                )
            )
            vectors.append(
                entry._replace(
                    size=0,
                    signature=vector_signature or bytes(second.signature_bytes),
                    text=None,
                    payload=vector or second.absent_vector.tobytes(),
                )
            )
        return [texts, vectors]

    def vector_of(self, entry: Entry) -> np.ndarray | None:
        """Returns the vector of a stored document of an index of both kinds, or None."""
        assert self.second is not None
        text_bytes = 0 if entry.text is not None else entry.size * self.first.row_bytes
        vector = entry.payload[text_bytes:]
        return np.frombuffer(vector, np.float32) if vector else None

    def stored_kinds(self, entries: Sequence[Entry]) -> list[StoredKind]:
        """Returns what exact comparison needs of stored documents, for each kind of evidence."""
        payloads = [
            kind.payload_of(part)
            for kind, part in zip(self.kinds, self.split(entries), strict=True)
        ]
        return [
            StoredKind(payload, empty)
            for payload, empty in zip(payloads, self._empty(entries), strict=True)
        ]

    def signatures_of(self, entries: Sequence[Entry]) -> list[np.ndarray]:
        """Returns the signatures of stored documents, (n, w), for each kind of evidence."""
        return [
            kind.signatures_of(part)
            for kind, part in zip(self.kinds, self.split(entries), strict=True)
        ]

    def _empty(self, entries: Sequence[Entry]) -> list[np.ndarray]:
        """Returns which stored documents lack each kind of evidence, bool (n,)."""
        if self.second is None:
            return [np.zeros(len(entries), bool)]
        lacks_text = [entry.size == 0 for entry in entries]
        lacks_vector = [self.vector_of(entry) is None for entry in entries]
        return [np.array(lacks_text, bool), np.array(lacks_vector, bool)]

    def prepare_stored(self, scope: str, entries: Sequence[Entry]) -> PreparedBatch:
        """Prepares stored documents again, as if they were new."""
        kinds = [
            kind.prepare_stored(scope, part)
            for kind, part in zip(self.kinds, self.split(entries), strict=True)
        ]
        if self.second is not None:
            kinds = [
                prepared._replace(empty=prepared.empty | empty)
                for prepared, empty in zip(kinds, self._empty(entries), strict=True)
            ]
        return PreparedBatch(scope, [entry.digest for entry in entries], tuple(kinds))

    def keys_of(self, scope: str, entries: Sequence[Entry]) -> list[np.ndarray]:
        """Returns the band keys of stored documents, uint64 (b,) for each."""
        keys = [
            kind.keys_of(scope, part)
            for kind, part in zip(self.kinds, self.split(entries), strict=True)
        ]
        if self.second is None:
            return list(keys[0])
        empty = self._empty(entries)
        nothing = np.empty(0, np.uint64)
        return [
            np.concatenate(
                [nothing, *(keys[kind][i] for kind in range(len(keys)) if not empty[kind][i])]
            )
            for i in range(len(entries))
        ]


def _as_pair(document: Document) -> TextAndVector | CheckedPair:
    """Returns a document of an index of both kinds with its text and its vector apart."""
    if isinstance(document, TextAndVector | CheckedPair):
        return document
    if isinstance(document, str):
        return TextAndVector(text=document)
    if isinstance(document, ShingledDocument):
        return CheckedPair(document, None)
    if isinstance(document, Mapping):
        raise UsageError(
            "a document of this index is a text, a vector or TextAndVector(text=, vector=), not "
            f"{type(document).__name__}"
        )
    return TextAndVector(vector=document)
