"""The construction of entries from prepared documents, for upserts and for loads of runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nearkin.index.changes import KeyedEntry
from nearkin.index.entry import Entry
from nearkin.index.settings import IndexSettings

if TYPE_CHECKING:
    from nearkin.index.preparation import PreparedDocuments, Preparer


class EntryBuilder:
    """Builds the entries of one batch of new documents.

    Args:
        preparer: Preparer of the index.
        prepared: The n prepared documents.
        contents: Texts to keep, n of them. None if payloads are kept instead. An item that is not
            a text keeps its payload.
        settings: Settings of the index. They decide which documents enter buckets, and which keep
            a payload.
        now: Time of insertion, in seconds of the clock.
    """

    def __init__(
        self,
        preparer: "Preparer",
        prepared: "PreparedDocuments",
        *,
        contents: Sequence[object] | None,
        settings: IndexSettings,
        now: float,
    ) -> None:
        self._preparer = preparer
        self._prepared = prepared
        self._contents = contents
        self._posts_members = settings.postings == "all"
        # documents in buckets are compared with those that come later
        self._keeps_member_content = settings.member_content or self._posts_members
        self._now = now
        packs = contents is None or not all(isinstance(content, str) for content in contents)
        self._starts = prepared.payload_starts() if packs else None

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
        posted = (leader == id or self._posts_members) and not prepared.empty[position]
        content = None if self._contents is None else self._contents[position]
        text = content if isinstance(content, str) else None
        payload = b""
        keeps_payload = leader == id or self._keeps_member_content
        if self._starts is not None and text is None and keeps_payload:
            payload = self._preparer.packed_payload(prepared.payload, self._starts, position)
        has_no_size = self._preparer.vectors or bool(prepared.empty[position])
        entry = Entry(
            scope=prepared.scope,
            id=id,
            ref=0,
            digest=prepared.digests[position],
            leader=leader,
            cluster=cluster,
            similarity=similarity,
            size=0 if has_no_size else int(prepared.payload.sizes[position]),
            created=self._now,
            seen=self._now,
            posted=posted,
            signature=prepared.signatures[position].tobytes() if posted else b"",
            text=text,
            payload=payload,
        )
        return KeyedEntry(entry, prepared.keys[position] if posted else None)
