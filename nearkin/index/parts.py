"""Documents that arrive in pieces: a running signature and the shingles so far, kept in the store until they are resolved.

Each piece is shingled by itself, so the document is the union of the pieces' shingle sets: minima of signatures merge, whatever
the order of pieces, and one that comes twice changes nothing. Pieces outlive the process, and any process can add the next one.
"""

import base64
import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import RESERVED, Entry, Outcome
from nearkin.index.index import Index
from nearkin.index.preparation import Shingled
from nearkin.packed_pairs import sorted_unique

PIECES = f"{RESERVED}open:"


def of_pieces(scope: str) -> bool:
    """Whether pieces are kept there: what is in it stands for itself, unposted, and is no document yet."""
    return scope.startswith(PIECES)


def scope_of_pieces(scope: str) -> str:
    """Where the pieces of a scope's documents are kept; no caller can name it.

    Examples:
        >>> scope_of_pieces("a") == scope_of_pieces("a"), scope_of_pieces("a") == scope_of_pieces("b")
        (True, False)
    """
    return f"{PIECES}{base64.urlsafe_b64encode(hashlib.sha256(scope.encode()).digest()).decode()}"


def fold(index: Index, scope: str, id: str, piece: str | Sequence[str]) -> int:
    """Adds a piece to a document that is not resolved yet; returns how many distinct shingles it has by now.

    Args:
        index: Of sets of shingles.
        scope: Tenant or group.
        id: Of the document.
        piece: A text, or tokens.

    Raises:
        UsageError: The index compares something else than sets, or the document would become too large.
    """
    if not index.preparer.takes_shingles:
        raise UsageError(f"measure={index.spec.measure!r} does not merge: only documents that are sets of shingles take pieces")
    index.require_writable(scope)
    kept, place = _added(index, piece), scope_of_pieces(scope)

    def step() -> int:
        held = index.store.entries(place, [id])[0]
        total = kept if held is None else _union(_shingled(index, held), kept)
        index.preparer.check(total)
        index.apply(
            Changes(
                dropped=[] if held is None else [KeyedEntry(held, None)],
                new=[KeyedEntry(_entry(index, place, id, total), None)],
            )
        )
        return len(total.hashes)

    return index.step(place, step)


def seal(index: Index, scope: str, id: str) -> Outcome | None:
    """Upserts a document from its pieces, which then are gone; None if there are none.

    Broken off between the two, it is done again with the same result.
    """
    place = scope_of_pieces(scope)
    held = index.step(place, lambda: index.entry_or_confirmed_absence(place, id))
    if held is None:
        return None
    document = _shingled(index, held)
    outcome = index.upsert(scope, document, id)

    def step() -> None:
        now = index.store.entries(place, [id])[0]
        if now is not None and now.digest == held.digest:
            index.apply(Changes(dropped=[KeyedEntry(now, None)]))

    index.step(place, step)
    return outcome


def _added(index: Index, piece: str | Sequence[str]) -> Shingled:
    if isinstance(piece, str):
        index.preparer.check(piece)
        return index.preparer.shingled(pa.array([piece], pa.large_string()))
    for token in piece:
        index.preparer.check(token)
    return index.preparer.shingled(pa.array([list(piece)], pa.large_list(pa.large_string())))


def _union(a: Shingled, b: Shingled) -> Shingled:
    signature = None if a.signature is None or b.signature is None else np.minimum(a.signature, b.signature)
    return Shingled(sorted_unique(np.concatenate([a.hashes, b.hashes])), signature)


def _shingled(index: Index, entry: Entry) -> Shingled:
    signature = np.frombuffer(entry.signature, index.spec.signature_type) if entry.signature else None
    return Shingled(np.frombuffer(entry.payload, np.uint64), signature)


def _entry(index: Index, place: str, id: str, total: Shingled) -> Entry:
    signature = b"" if total.signature is None else total.signature.tobytes()
    now, digest = index.clock(), index.preparer.digest(total)
    return Entry(place, id, 0, digest, id, id, 1.0, len(total.hashes), now, now, False, signature, None, total.hashes.tobytes())
