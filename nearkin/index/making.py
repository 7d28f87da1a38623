"""Prepared documents to entries: the one place where a new one is made, whether it was upserted or comes from a run."""

from collections.abc import Sequence

from nearkin.index.changes import KeyedEntry
from nearkin.index.entry import Entry
from nearkin.index.preparation import Prepared, Preparer
from nearkin.measures.base import row_starts


class Maker:
    """New entries of a batch.

    Args:
        preparer: Of the index.
        scope: Of the documents.
        prepared: The documents, n of them.
        contents: Texts to keep, n of them; None, or what is no text, where payloads are kept in their place.
        every: Whether all documents are posted, not representatives alone.
        now: Seconds of the clock.
    """

    def __init__(
        self, preparer: Preparer, scope: str, prepared: Prepared, contents: Sequence[object] | None, every: bool, now: float
    ) -> None:
        self.preparer, self.scope, self.prepared, self.every, self.now = preparer, scope, prepared, every, now
        self._contents = contents
        packs = contents is None or not all(isinstance(content, str) for content in contents)
        self._starts = row_starts(prepared.payload) if packs else None

    def make(self, at: int, name: str, leader: str, cluster: str, similarity: float) -> KeyedEntry:
        """One of them, with the keys of its buckets if it is posted.

        Args:
            at: Which.
            name: Its id.
            leader: The representative that it is resolved to; itself for a new one.
            cluster: Its cluster.
            similarity: To the leader, exact.
        """
        prepared = self.prepared
        posted = (leader == name or self.every) and not prepared.empty[at]
        content = None if self._contents is None else self._contents[at]
        text = content if isinstance(content, str) else None
        payload = (
            b""
            if self._starts is None or text is not None
            else self.preparer.packed_payload(prepared.payload, self._starts, at)
        )
        signature = prepared.signatures[at].tobytes() if posted else b""
        size = 0 if self.preparer.vectors else int(prepared.payload.sizes[at])
        about = (self.scope, name, 0, prepared.digests[at], leader, cluster, similarity, size, self.now, self.now, posted)
        return KeyedEntry(Entry(*about, signature, text, payload), prepared.keys[at] if posted else None)
