"""Documents that arrive in parts, which are kept in the store until the document is finished.

Each part is shingled by itself, so a document is the union of the shingle sets of its parts. The
order of parts does not matter, and a part that arrives twice changes nothing. Parts outlive the
process, and any process can add the next one.

A part is an entry of its own, whose name follows from its content. The entry of the document lists
the names. So a part is written once, whatever the document has so far. When `MERGED_AT_ONCE` parts
of a level are listed, they become one part of the next level: the list stays short, and each
shingle is written once a level.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.errors import RacedError, UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.documents import ShingledDocument
from nearkin.index.entry import RESERVED, Entry, Outcome, internal_entry, reserved_scope
from nearkin.index.session import Session
from nearkin.index.stores.sharded import ShardedStore
from nearkin.runtime.setting_names import name_setting
from nearkin.stages.packed_pairs import sorted_unique

PARTS_PREFIX = f"{RESERVED}open:"
"""The prefix of the scopes that hold parts. It is stored, so it does not change."""
LIST_MARK = b"\0nkparts"
"""The beginning of the payload of a document that lists its parts.

Documents of older versions hold their shingle hashes in its place.
"""
LISTED_AT_ONCE = 1000
"""The number of documents whose parts are looked up at once."""
MERGED_AT_ONCE = 32
"""The number of parts of a level that become one part of the next level."""


def is_parts_scope(scope: str) -> bool:
    """Returns True if a scope holds parts of documents that are not finished."""
    return scope.startswith(PARTS_PREFIX)


def parts_scope(scope: str) -> str:
    """Returns the scope that holds the parts of a scope's documents. Callers cannot name it.

    Examples:
        >>> parts_scope("a") == parts_scope("a"), parts_scope("a") == parts_scope("b")
        (True, False)
    """
    return reserved_scope(PARTS_PREFIX, scope)


class ListedPart(NamedTuple):
    """A part in the list of a document."""

    level: int
    """The number of times that its shingles were merged."""
    name: str
    """The id of its entry."""


def listed_parts(head: Entry | None) -> list[ListedPart]:
    """Returns the parts that the entry of an unfinished document lists."""
    if head is None or not head.payload.startswith(LIST_MARK):
        return []
    parts = json.loads(head.payload[len(LIST_MARK) :])
    return [ListedPart(level=level, name=name) for level, name in parts]


def is_part_name(scope: str, id: str) -> bool:
    """Returns True if an id names a part of a document, not the document."""
    return is_parts_scope(scope) and id.startswith(RESERVED)


def document_of_part(entry: Entry) -> str | None:
    """Returns the id of the document of a part; None for the entry of a document."""
    is_part = is_part_name(entry.scope, entry.id) and bool(entry.signature)
    return entry.signature.decode() if is_part else None


class DocumentParts:
    """The documents of an open index that arrive in parts."""

    def __init__(
        self, session: Session, upsert: Callable[[str, ShingledDocument, str], Outcome]
    ) -> None:
        self._session = session
        self._upsert = upsert

    def add_part(self, scope: str, id: str, part: str | Sequence[str]) -> int:
        """Adds a part to a document, as `Index.add_part` does. The scope must be writable."""
        session = self._session
        if not session.preparer.takes_shingles:
            raise UsageError(
                f"{name_setting('measure', session.spec.measure)} does not support documents in "
                f"parts; only "
                "sets of shingles can be merged"
            )
        if session.documents.requires_both:
            raise UsageError(
                "documents in parts have no vector, and this index compares texts and vectors "
                f"({name_setting('combine', 'both')}); upsert whole documents with both"
            )
        hashes = self._shingle(part)
        self._require_size(hashes)
        place = parts_scope(scope)
        return session.run_step(place, lambda: self._add(place, id, hashes))

    def _add(self, place: str, id: str, hashes: np.ndarray) -> int:
        """Adds a part to a document in one step. Returns its size."""
        session = self._session
        part = self._part_entry(place, id, hashes)
        head, stored = session.store.entries(place, [id, part.id])
        listed = listed_parts(head)
        if head is not None and any(part.id == name for _, name in listed):
            return head.size
        pending = {} if stored is not None else {part.id: part}
        if head is not None and not _is_list(head):
            # a document of an older version, whose shingles become its first part
            old_part = self._part_entry(place, id, _hashes_of(head))
            pending[old_part.id] = old_part
            listed.append(ListedPart(0, old_part.id))
        size = (0 if head is None else head.size) + part.size
        listed.append(ListedPart(0, part.id))
        merged: dict[str, Entry] = {}
        if 8 * size > session.settings.max_document_bytes:
            # the sum counts shingles of several parts more than once
            size += self._merge(place, id, listed, len(listed), pending, merged)
        while _has_full_level(listed):
            size += self._merge(place, id, listed, MERGED_AT_ONCE, pending, merged)
        self._write(self._head_entry(place, id, listed, size), head, pending, merged)
        return size

    def _merge(
        self,
        place: str,
        id: str,
        listed: list[ListedPart],
        count: int,
        pending: dict[str, Entry],
        merged: dict[str, Entry],
    ) -> int:
        """Merges the last parts of a list into one."""
        parts = listed[-count:]
        del listed[-count:]
        sources = self._read_parts(place, [name for _, name in parts], pending)
        union = _union(sources)
        self._require_size(union)
        for entry in sources:
            if pending.pop(entry.id, None) is None:
                merged[entry.id] = entry
        merged_part = self._part_entry(place, id, union)
        change = len(union) - sum(entry.size for entry in sources)
        if any(merged_part.id == name for _, name in listed):
            return change - len(union)
        listed.append(ListedPart(max(part.level for part in parts) + 1, merged_part.id))
        if merged.pop(merged_part.id, None) is None:
            pending[merged_part.id] = merged_part
        return change

    def _write(
        self,
        head: Entry,
        previous: Entry | None,
        pending: dict[str, Entry],
        merged: dict[str, Entry],
    ) -> None:
        """Writes new parts, the list of the document, and the deletion of merged parts.

        Over shards these are steps of their own, in an order in which a list never names a part
        that is missing.
        """
        session = self._session
        parts = [KeyedEntry(entry, None) for entry in pending.values()]
        old = [KeyedEntry(entry, None) for entry in merged.values()]
        replaced = [] if previous is None else [KeyedEntry(previous, None)]
        if not isinstance(session.store, ShardedStore):
            session.apply(Changes(dropped=[*replaced, *old], new=[*parts, KeyedEntry(head, None)]))
            return
        if parts:
            session.apply(Changes(new=parts))
        session.apply(Changes(dropped=replaced, new=[KeyedEntry(head, None)]))
        if old:
            session.apply(Changes(dropped=old))

    def _read_parts(
        self, place: str, names: Sequence[str], pending: dict[str, Entry]
    ) -> list[Entry]:
        """Returns parts by their names, from the store or from those that are not stored yet."""
        absent = [name for name in names if name not in pending]
        stored = self._session.store.entries(place, absent)
        by_name = pending | {entry.id: entry for entry in stored if entry is not None}
        if any(name not in by_name for name in names):
            raise RacedError("a part of a document was merged or deleted by another process")
        return [by_name[name] for name in names]

    def finish(self, scope: str, id: str) -> Outcome | None:
        """Upserts a document from its parts, as `Index.finish` does."""
        session = self._session
        place = parts_scope(scope)
        stored = session.run_step(place, lambda: self._read_document(place, id))
        if stored is None:
            return None
        head, *parts = stored
        hashes = _hashes_of(head) if not _is_list(head) else _union(parts)
        outcome = self._upsert(scope, ShingledDocument(hashes), id)

        def delete_parts() -> None:
            current = session.store.entries(place, [id])[0]
            # parts that were added meanwhile stay
            if current is not None and current.digest == head.digest:
                dropped = [KeyedEntry(entry, None) for entry in (current, *parts)]
                session.apply(Changes(dropped=dropped))

        session.run_step(place, delete_parts)
        return outcome

    def discard(self, scope: str, id: str) -> bool:
        """Deletes the parts of an unfinished document. Returns False if there are none."""
        session = self._session
        place = parts_scope(scope)

        def delete_parts() -> bool:
            stored = self._read_document(place, id)
            if stored is None:
                return False
            session.apply(Changes(dropped=[KeyedEntry(entry, None) for entry in stored]))
            return True

        return session.run_step(place, delete_parts)

    def discard_many(self, scope: str, ids: Sequence[str]) -> set[str]:
        """Deletes the parts of unfinished documents, and returns the ids of those."""
        place = parts_scope(scope)
        unfinished: list[str] = []
        for first in range(0, len(ids), LISTED_AT_ONCE):
            portion = list(ids[first : first + LISTED_AT_ONCE])
            step = partial(self._find_unfinished, place, portion)
            unfinished += self._session.run_step(place, step)
        return {id for id in unfinished if self.discard(scope, id)}

    def _find_unfinished(self, place: str, ids: list[str]) -> list[str]:
        """Returns the ids of documents that have parts. Only the current store leaves any out."""
        # it keeps the store open if the index moves meanwhile
        searcher = self._session.searcher
        heads = searcher.store.entries(place, ids)
        self._session.confirm_state()
        return [head.id for head in heads if head is not None]

    def discard_scope(self, scope: str) -> None:
        """Deletes the parts of all unfinished documents of a scope."""
        place = parts_scope(scope)
        # it keeps the store open if the index moves meanwhile
        searcher = self._session.searcher
        for entry in searcher.store.scan(place, content=False):
            if not is_part_name(place, entry.id):
                self.discard(scope, entry.id)

    def _read_document(self, place: str, id: str) -> list[Entry] | None:
        """Returns the entry of an unfinished document and its parts. None if it does not exist."""
        session = self._session
        head = session.entry_or_confirmed_absence(place, id)
        if head is None:
            return None
        names = [name for _, name in listed_parts(head)]
        parts = session.store.entries(place, names)
        stored = [entry for entry in parts if entry is not None]
        if len(stored) == len(names):
            return [head, *stored]
        current = session.store.entries(place, [id])[0]
        if current is None or current.digest != head.digest:
            raise RacedError("an unfinished document was changed by another process")
        # shards have deleted a part of a finished document; the rest is deleted here
        session.apply(Changes(dropped=[KeyedEntry(entry, None) for entry in (head, *stored)]))
        return None

    def _require_size(self, hashes: np.ndarray) -> None:
        """Verifies that a document is not larger than `max_document`."""
        self._session.preparer.check(ShingledDocument(hashes))

    def _shingle(self, part: str | Sequence[str]) -> np.ndarray:
        """Returns the distinct shingle hashes of a part, uint64 (n,), ascending."""
        preparer = self._session.preparer
        if isinstance(part, str):
            preparer.check(part)
            return preparer.shingle(pa.array([part], pa.large_string())).hashes
        for token in part:
            preparer.check(token)
        return preparer.shingle(pa.array([list(part)], pa.large_list(pa.large_string()))).hashes

    def _part_entry(self, place: str, id: str, hashes: np.ndarray) -> Entry:
        """Returns the entry of a part. Its name follows from the document's id and the hashes.

        It has no signature, so that field holds the document's id, for `document_of_part`.
        """
        digest = self._session.preparer.digest(ShingledDocument(hashes))
        name = hashlib.sha256(id.encode() + b"\0" + digest).digest()[:18]
        part_id = f"{RESERVED}{base64.urlsafe_b64encode(name).decode()}"
        part = self._entry(place, part_id, digest, hashes.tobytes(), len(hashes))
        return part._replace(signature=id.encode())

    def _head_entry(self, place: str, id: str, listed: Sequence[ListedPart], size: int) -> Entry:
        """Returns the entry of a document, which lists its parts."""
        payload = LIST_MARK + json.dumps(listed).encode()
        digest = hashlib.sha256(payload).digest()[:16]
        return self._entry(place, id, digest, payload, size)

    def _entry(self, place: str, id: str, digest: bytes, payload: bytes, size: int) -> Entry:
        entry = internal_entry(place, id, digest, self._session.clock())
        return entry._replace(payload=payload, size=size)


def _is_list(head: Entry) -> bool:
    return head.payload.startswith(LIST_MARK)


def _has_full_level(listed: Sequence[ListedPart]) -> bool:
    """Returns True if the last parts of a list are due to be merged."""
    last = listed[-MERGED_AT_ONCE:]
    return len(last) == MERGED_AT_ONCE and all(part.level == last[0].level for part in last)


def _hashes_of(entry: Entry) -> np.ndarray:
    return np.frombuffer(entry.payload, np.uint64)


def _union(parts: Iterable[Entry]) -> np.ndarray:
    """Returns the distinct shingle hashes of parts, uint64 (n,), ascending."""
    return sorted_unique(
        np.concatenate([np.empty(0, np.uint64), *(_hashes_of(part) for part in parts)])
    )
