"""The construction of entries from prepared documents, for upserts and for loads of runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nearkin.index.changes import NewDocuments
from nearkin.index.documents import CheckedDocument, CheckedPair
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
    ) -> NewDocuments:
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
        keys, key_counts = prepared.keys_of(posted)
        if crowded:
            ends = np.cumsum(key_counts)[:-1]
            parts = np.split(keys, ends)
            for i in crowded:
                if posted[i]:
                    parts[i] = with_spare_keys(prepared.scope, prepared.digests[i], parts[i])
            keys = np.concatenate(parts)
            key_counts = [len(part) for part in parts]
        return NewDocuments(
            scope=prepared.scope,
            ids=ids,
            digests=prepared.digests,
            leaders=leaders,
            clusters=clusters,
            similarities=similarities,
            sizes=sizes,
            now=self._now,
            posted=posted,
            signatures=prepared.stored_signatures(posted),
            texts=texts,
            payloads=payloads,
            keys=keys,
            key_counts=key_counts,
        )

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
