"""The load of whole indexes into empty stores, which continues where an earlier attempt stopped."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.document_preparation import PreparedBatch
from nearkin.index.entry import Entry, batches_by_scope
from nearkin.index.entry_builder import EntryBuilder
from nearkin.index.index import Index
from nearkin.index.preparation import PreparedDocuments
from nearkin.index.spare_buckets import all_keys_of, is_crowded


class ClusterRow(NamedTuple):
    """A document of a run, and the representative that it is resolved to."""

    id: str
    representative: str
    similarity: float
    """The exact similarity to the representative."""


class BulkLoad:
    """Loads documents into a store in a fixed order, without searches.

    Documents that an earlier attempt wrote are skipped. The documents that the store has must be
    the first ones of the load. Nothing is written as long as the store may hold anything else.
    """

    def __init__(self, index: Index) -> None:
        self._session = index._session
        self._existing = self._session.store.counts()["records"]
        """The number of documents of the store that were not met yet."""

    def add_entries(self, entries: Iterator[Entry], *, protects: bool = False) -> int:
        """Adds documents of another index of the same Spec and threshold, unchanged."""
        documents = self._session.documents
        total = 0
        for scope, batch in batches_by_scope(entries):
            missing = self._documents_to_add(scope, batch)
            if protects:
                self._session.store.protect()
                protects = False
            posted = [entry for entry in missing if entry.posted]
            keys: dict[str, np.ndarray] = {}
            if posted:
                ids = [entry.id for entry in posted]
                keys = dict(zip(ids, documents.keys_of(scope, posted), strict=True))
            self._write(KeyedEntry(entry, keys.get(entry.id)) for entry in missing)
            total += len(batch)
        if protects and not self._existing:
            self._session.store.protect()
        return total

    def add_documents(
        self,
        scope: str,
        column: pa.Array,
        documents: Sequence[Any],
        signatures: np.ndarray,
        rows: Sequence[ClusterRow],
        now: float,
    ) -> int:
        """Adds documents of a run, with the signatures that the run saved.

        Args:
            signatures: Signatures of the run, of the Spec's type, (n, w).
            now: Time of insertion, in seconds of the clock.
        """
        settings = self._session.settings
        if self._session.documents.second is not None:
            raise UsageError(
                "a run has one kind of documents, and this index has texts and vectors; add the "
                "documents with nearkin index add"
            )
        builder = EntryBuilder(
            self._session.documents,
            self._prepare_documents(scope, column, documents, signatures),
            contents=documents,
            settings=settings,
            now=now,
        )
        leaders = [row.representative for row in rows]
        new = builder.build(
            ids=[row.id for row in rows],
            leaders=leaders,
            clusters=leaders,
            similarities=[1.0 if row.id == row.representative else row.similarity for row in rows],
        )
        for start in range(0, len(new), settings.max_batch):
            batch = new[start : start + settings.max_batch]
            missing = {
                entry.id
                for entry in self._documents_to_add(scope, [keyed.entry for keyed in batch])
            }
            self._write(keyed for keyed in batch if keyed.entry.id in missing)
        return sum(keyed.entry.is_leader for keyed in new)

    def _prepare_documents(
        self, scope: str, column: pa.Array, documents: Sequence[Any], signatures: np.ndarray
    ) -> PreparedBatch:
        """Prepares documents with saved signatures if keys follow from them, or else without."""
        preparer = self._session.preparer
        digests = [preparer.digest(document) for document in documents]
        if not preparer.signatures_suffice:
            return self._session.documents.prepare(scope, documents, digests)
        payload = preparer.payload(column)
        empty = payload.sizes == 0
        if preparer.vectors:
            empty = np.zeros(len(payload.sizes), bool)
        keys = preparer.keys_of_signatures(scope, signatures)
        prepared = PreparedDocuments(scope, digests, signatures, keys, payload, empty)
        return PreparedBatch(scope, digests, (prepared,))

    def _write(self, new: Iterable[KeyedEntry]) -> None:
        changes = Changes(new=list(new), may_overflow=True)
        self._session.stage_passages(changes)
        self._session.stage_history(changes)
        numbers = self._session.store.apply(changes)
        self._post_in_spare_buckets(changes.new, numbers)

    def _post_in_spare_buckets(self, new: Sequence[KeyedEntry], numbers: Sequence[int]) -> None:
        """Posts those new documents in spare buckets whose own ones are full."""
        keys = [np.empty(0, np.uint64) if keys is None else keys for _, keys in new]
        ends = np.cumsum([len(own_keys) for own_keys in keys])[:-1]
        if not any(map(len, keys)):
            return
        full = np.split(self._session.store.overflowed(np.concatenate(keys)), ends)
        crowded = [
            KeyedEntry(stored, all_keys_of(stored, own_keys))
            for stored, own_keys, own_full in zip(
                (
                    entry._replace(ref=number)
                    for (entry, _), number in zip(new, numbers, strict=True)
                ),
                keys,
                full,
                strict=True,
            )
            if is_crowded(own_full)
        ]
        if crowded:
            self._session.store.apply(Changes(posted=crowded, may_overflow=True))

    def _documents_to_add(self, scope: str, entries: list[Entry]) -> list[Entry]:
        """Returns those of the next documents that the store does not have."""
        if not self._existing:
            return entries
        stored = self._session.store.entries(scope, [entry.id for entry in entries])
        pairs = list(zip(entries, stored, strict=True))
        missing = [entry for entry, found in pairs if found is None]
        self._existing -= len(entries) - len(missing)
        is_same = all(
            found is None or _resolution_of(found) == _resolution_of(entry)
            for entry, found in pairs
        )
        if not is_same or (missing and self._existing):
            self._refuse_other_documents()
        return missing

    def finish(self) -> None:
        """Verifies that the store has no further documents."""
        if self._existing:
            self._refuse_other_documents()

    def _refuse_other_documents(self) -> None:
        raise UsageError(
            f"{self._session.store.url} already has documents, which are not those of an "
            "interrupted load of this input; load into an empty store, or use nearkin index add"
        )


def _resolution_of(entry: Entry) -> tuple[bytes, str, str, bool]:
    return entry.digest, entry.leader, entry.cluster, entry.posted
