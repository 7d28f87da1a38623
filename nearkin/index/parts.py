"""Documents that arrive in parts, which are kept in the store until the document is finished.

Each part is shingled by itself, so a document is the union of the shingle sets of its parts. Minima
of signatures can be merged: the order of parts does not matter, and a part that arrives twice
changes nothing. Parts outlive the process, and any process can add the next one.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.documents import ShingledDocument
from nearkin.index.entry import RESERVED, Entry, Outcome, reserved_scope
from nearkin.index.session import Session
from nearkin.packed_pairs import sorted_unique

PARTS_PREFIX = f"{RESERVED}open:"
"""The prefix of the scopes that hold parts. It is stored, so it does not change."""


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


class DocumentParts:
    """The documents of an open index that arrive in parts.

    Args:
        session: The open index.
        upsert: Upserts a finished document by scope, document and id.
    """

    def __init__(
        self, session: Session, upsert: Callable[[str, ShingledDocument, str], Outcome]
    ) -> None:
        self._session = session
        self._upsert = upsert

    def add_part(self, scope: str, id: str, part: str | Sequence[str]) -> int:
        """Adds a part to a document, as `Index.add_part` does. The scope must be writable.

        Args:
            scope: Scope of the document.
            id: Id of the document.
            part: A text, or tokens. Shingles do not extend from one part into the next one.

        Returns:
            The number of distinct shingles of all parts.

        Raises:
            UsageError: If the documents of the index are not sets of shingles, or the document
                becomes too large.
        """
        session = self._session
        if not session.preparer.takes_shingles:
            raise UsageError(
                f"measure={session.spec.measure!r} does not support documents in parts; only "
                "sets of shingles can be merged"
            )
        added = self._shingle(part)
        place = parts_scope(scope)

        def step() -> int:
            entry = session.store.entries(place, [id])[0]
            total = added if entry is None else _union(self._document_of(entry), added)
            session.preparer.check(total)
            session.apply(
                Changes(
                    dropped=[] if entry is None else [KeyedEntry(entry, None)],
                    new=[KeyedEntry(self._entry_of(place, id, total), None)],
                )
            )
            return len(total.hashes)

        return session.run_step(place, step)

    def finish(self, scope: str, id: str) -> Outcome | None:
        """Upserts a document from its parts, as `Index.finish` does."""
        session = self._session
        place = parts_scope(scope)
        entry = session.run_step(place, lambda: session.entry_or_confirmed_absence(place, id))
        if entry is None:
            return None
        outcome = self._upsert(scope, self._document_of(entry), id)

        def delete_parts() -> None:
            current = session.store.entries(place, [id])[0]
            # parts that were added meanwhile stay
            if current is not None and current.digest == entry.digest:
                session.apply(Changes(dropped=[KeyedEntry(current, None)]))

        session.run_step(place, delete_parts)
        return outcome

    def _shingle(self, part: str | Sequence[str]) -> ShingledDocument:
        preparer = self._session.preparer
        if isinstance(part, str):
            preparer.check(part)
            return preparer.shingle(pa.array([part], pa.large_string()))
        for token in part:
            preparer.check(token)
        return preparer.shingle(pa.array([list(part)], pa.large_list(pa.large_string())))

    def _document_of(self, entry: Entry) -> ShingledDocument:
        signature = None
        if entry.signature:
            signature = np.frombuffer(entry.signature, self._session.spec.signature_type)
        return ShingledDocument(np.frombuffer(entry.payload, np.uint64), signature)

    def _entry_of(self, place: str, id: str, total: ShingledDocument) -> Entry:
        now = self._session.clock()
        return Entry(
            scope=place,
            id=id,
            ref=0,
            digest=self._session.preparer.digest(total),
            leader=id,
            cluster=id,
            similarity=1.0,
            size=len(total.hashes),
            created=now,
            seen=now,
            posted=False,
            signature=b"" if total.signature is None else total.signature.tobytes(),
            text=None,
            payload=total.hashes.tobytes(),
        )


def _union(a: ShingledDocument, b: ShingledDocument) -> ShingledDocument:
    signature = None
    if a.signature is not None and b.signature is not None:
        signature = np.minimum(a.signature, b.signature)
    return ShingledDocument(sorted_unique(np.concatenate([a.hashes, b.hashes])), signature)
