"""The construction of entries from prepared documents, for upserts and for loads of runs."""

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from nearkin.index.changes import KeyedEntry
from nearkin.index.documents import CheckedDocument, CheckedPair
from nearkin.index.entry import Entry
from nearkin.index.settings import IndexSettings
from nearkin.index.spare_buckets import with_spare_keys

if TYPE_CHECKING:
    from nearkin.index.document_preparation import DocumentPreparer, PreparedBatch


class EntryBuilder:
    """Builds the entries of one batch of new documents.

    Args:
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
        self._now = now
        self._starts: list[np.ndarray] = []

    def build(
        self,
        ids: Sequence[str],
        leaders: Sequence[str],
        clusters: Sequence[str],
        similarities: Sequence[float],
        crowded: Sequence[int] = (),
    ) -> list[KeyedEntry]:
        """Returns the entries of all documents, with the keys of the buckets that they enter."""
        prepared = self._prepared
        n = len(ids)
        leads = [leader == id for leader, id in zip(leaders, ids, strict=True)]
        posted = [
            not is_empty and (is_leader or self._posts_members)
            for is_empty, is_leader in zip(prepared.empty.tolist(), leads, strict=True)
        ]
        texts: list[str | None] = [None] * n
        if self._keeps_text:
            texts = [_text_of(content) for content in self._contents]
        payloads = [b""] * n
        if None in texts or len(prepared.kinds) > 1:
            payloads = [
                self._payload_of(i, has_text=texts[i] is not None)
                if leads[i] or self._keeps_member_content
                else b""
                for i in range(n)
            ]
        sizes = [0] * n
        if not self._documents.first.vectors:
            first = prepared.kinds[0]
            columns = zip(first.payload.sizes.tolist(), first.empty.tolist(), strict=True)
            sizes = [0 if is_empty else size for size, is_empty in columns]
        entries = map(
            Entry,
            repeat(prepared.scope),
            ids,
            repeat(0),
            prepared.digests,
            leaders,
            clusters,
            similarities,
            sizes,
            repeat(self._now),
            repeat(self._now),
            posted,
            prepared.stored_signatures(posted),
            texts,
            payloads,
        )
        keys = [prepared.keys(i) if is_posted else None for i, is_posted in enumerate(posted)]
        for i in crowded:
            own_keys = keys[i]
            if own_keys is not None:
                keys[i] = with_spare_keys(prepared.scope, prepared.digests[i], own_keys)
        return list(map(KeyedEntry, entries, keys))

    def _payload_of(self, position: int, *, has_text: bool) -> bytes:
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


def _text_of(content: CheckedDocument) -> str | None:
    """Returns the text of a document, or None if it has no text."""
    if type(content) is str:
        return content
    text = content.text if isinstance(content, CheckedPair) else content
    return text if isinstance(text, str) else None
