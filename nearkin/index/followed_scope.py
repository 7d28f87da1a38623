"""A scope whose documents are those of a source, and what it has taken over from the source."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import (
    PROGRESS_PREFIX,
    OutcomeKind,
    internal_entry,
    require_id,
    reserved_scope,
)
from nearkin.index.index import Index

INSERTED = "inserted"
UPDATED = str(OutcomeKind.UPDATED)
UNCHANGED = "unchanged"
"""The names of what happens to documents."""
STATE = "state"
"""The id of the entry of the state, in a reserved scope."""


class SourceState(NamedTuple):
    """The state of a table that a scope has taken over."""

    version: int
    """The number of the version of the table."""
    documents: int
    """The number of documents of the scope then."""


class FollowedScope:
    """A scope of an index whose documents are those of a source.

    Args:
        source: Text that names the table and its columns. It is empty for files.
    """

    def __init__(self, index: Index, scope: str, source: str = "") -> None:
        self.index = index
        self.scope = scope
        self._session = index._session
        self._source = source
        self._place = reserved_scope(PROGRESS_PREFIX, json.dumps(["sync", scope]))

    def read_ids(self) -> pa.Array:
        """Returns the ids of the documents, large_string (n,)."""
        entries = self.index.scan(self.scope, content=False)
        return pa.array((entry.id for entry in entries), pa.large_string())

    def read_state(self) -> SourceState | None:
        """Returns what was taken over from the source. None of other sources, or if it was lost."""
        (stored,) = self._session.store.entries(self._place, [STATE])
        is_empty = next(self.index.scan(self.scope, content=False), None) is None
        if stored is None or is_empty:
            return None
        source, version, documents = json.loads(stored.text or "")
        return SourceState(version, documents) if source == self._source else None

    def write_state(self, version: int | None) -> None:
        """Stores that the scope has the documents of a version of the source."""
        text = json.dumps([self._source, version, len(self.read_ids())])
        self._session.run_step(self._place, lambda: self._write(text))

    def forget_state(self) -> None:
        """Forgets what was taken over from any source, before documents of this one are."""
        self._session.run_step(self._place, lambda: self._write(None))

    def _write(self, text: str | None) -> None:
        """Stores the text of a state, or deletes the stored one."""
        changes = Changes()
        (stored,) = self._session.store.entries(self._place, [STATE])
        if stored is not None:
            changes.dropped.append(KeyedEntry(stored, None))
        if text is not None:
            digest = hashlib.sha256(text.encode()).digest()[:16]
            entry = internal_entry(self._place, STATE, digest, self._session.clock(), text)
            changes.new.append(KeyedEntry(entry, None))
        if changes:
            self._session.apply(changes)

    def compare(self, documents: Sequence[Any], ids: Sequence[str]) -> Iterator[str]:
        """Yields what an upsert of each document would do. Nothing is written."""
        preparer = self._session.documents
        digests = preparer.digests(preparer.check_all(documents))
        stored = self.index.get_many(self.scope, list(map(require_id, ids)))
        for digest, entry in zip(digests, stored, strict=True):
            if entry is None:
                yield INSERTED
            else:
                yield UNCHANGED if entry.digest == digest else UPDATED
