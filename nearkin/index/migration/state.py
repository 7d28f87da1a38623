"""The migration state of a store, which each store keeps beside its header.

The epoch is a fencing token (M. Kleppmann, Designing Data-Intensive Applications, chapter 8): every
step names the epoch under which it was made, and a store refuses steps of another epoch. So when a
phase is written, no step of an earlier phase can follow, however long a process was suspended. To
wait "until everybody must have noticed" would prove nothing of the kind.
"""

from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """The phases of a migration."""

    OPEN = "open"
    """The index is in this store, and no migration is under way."""
    FILLING = "filling"
    """The store is being filled from another index, and nobody else writes to it."""
    COPYING = "copying"
    """The index is being copied. Steps log the documents that they touch."""
    CLOSING = "closing"
    """The last touched documents are being copied. Writers wait."""
    MOVED = "moved"
    """The index is in another store."""


OPEN = Phase.OPEN
FILLING = Phase.FILLING
COPYING = Phase.COPYING
CLOSING = Phase.CLOSING
MOVED = Phase.MOVED


class MigrationState(NamedTuple):
    """The migration state of a store."""

    epoch: int = 0
    """The number of times that the state was written."""
    phase: Phase = Phase.OPEN
    urls: tuple[str, ...] = ()
    """The URLs that the index is moved to or filled from, without passwords. Shards have several.
    """


class StoreState(NamedTuple):
    """The state that a process with an open index reads at intervals."""

    migration: MigrationState
    generation: int
    """The number of steps that made cached resolutions of other processes wrong."""
