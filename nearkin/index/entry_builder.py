"""The construction of entries from prepared documents, for upserts and for loads of runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nearkin.index.changes import KeyedEntry
from nearkin.index.documents import CheckedDocument, CheckedPair
from nearkin.index.entry import Entry
from nearkin.index.settings import IndexSettings

if TYPE_CHECKING:
    from nearkin.index.document_preparation import DocumentPreparer, PreparedBatch


class EntryBuilder:
    """Builds the entries of one batch of new documents.

    Args:
        documents: Preparer of the index's documents.
        prepared: The n prepared documents.
        contents: The n documents, whose texts are kept if the settings say so. A document without
            a text keeps its payload.
        settings: Settings of the index. They decide which documents enter buckets, and which keep
            a text or a payload.
        now: Time of insertion, in seconds of the clock.
    """

    def __init__(
        self,
        documents: "DocumentPreparer",
        prepared: "PreparedBatch",
        *,
        contents: Sequence[CheckedDocument],
        settings: IndexSettings,
        now: float,
    ) -> None:
        self._documents = documents
        self._prepared = prepared
        self._contents = contents
        self._keeps_text = settings.store_text
        self._posts_members = settings.postings == "all"
        # documents in buckets are compared with those that come later, and members of an index of
        # texts and vectors are compared again by both when their representative is removed
        self._keeps_member_content = (
            settings.member_content or self._posts_members or settings.vector is not None
        )
        self._is_empty = prepared.empty
        self._now = now
        self._starts: list[np.ndarray] = []

    def build(
        self, position: int, id: str, leader: str, cluster: str, similarity: float
    ) -> KeyedEntry:
        """Returns the entry of a document, with the keys of its buckets if it enters any.

        Args:
            position: Position of the document in the batch.
            id: Id of the document.
            leader: Id of the representative that it is resolved to, or its own.
            cluster: Id of its cluster.
            similarity: Exact similarity to the leader.
        """
        prepared = self._prepared
        posted = (leader == id or self._posts_members) and not self._is_empty[position]
        text = self._text(position)
        payload = b""
        if leader == id or self._keeps_member_content:
            payload = self._payload(position, has_text=text is not None)
        has_no_size = self._documents.first.vectors or bool(prepared.kinds[0].empty[position])
        entry = Entry(
            scope=prepared.scope,
            id=id,
            ref=0,
            digest=prepared.digests[position],
            leader=leader,
            cluster=cluster,
            similarity=similarity,
            size=0 if has_no_size else int(prepared.kinds[0].payload.sizes[position]),
            created=self._now,
            seen=self._now,
            posted=posted,
            signature=prepared.signature(position) if posted else b"",
            text=text,
            payload=payload,
        )
        return KeyedEntry(entry, prepared.keys(position) if posted else None)

    def _text(self, position: int) -> str | None:
        """Returns the text of a document that its entry keeps, or None."""
        content = self._contents[position]
        text = content.text if isinstance(content, CheckedPair) else content
        return text if self._keeps_text and isinstance(text, str) else None

    def _payload(self, position: int, *, has_text: bool) -> bytes:
        """Returns the payloads of a document, without that of a text that is kept."""
        if has_text and len(self._documents.kinds) == 1:
            return b""
        if not self._starts:
            self._starts = [kind.payload_starts() for kind in self._prepared.kinds]
        parts: list[bytes] = []
        for kind in self._prepared.present_kinds(position):
            preparer = self._documents.kinds[kind]
            if has_text and not preparer.vectors:
                continue
            payload = self._prepared.kinds[kind].payload
            parts.append(preparer.packed_payload(payload, self._starts[kind], position))
        return b"".join(parts)
