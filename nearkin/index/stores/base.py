"""What an index asks of a store."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from nearkin.index.changes import Changes, Event
from nearkin.index.entry import Entry, PostingPortion, Postings
from nearkin.index.migration.state import Move, StoreState

LOG_KEPT = 100_000
"""Lines of the log that a store keeps at least."""
LOG_PORTION = 1_000
"""Lines of the log that are dropped, or read, at once."""
PORTION = 500
"""Documents that a listing or a sweep reads at once."""


PORTION_BYTES = 16 << 20
"""Bytes that a portion with content should have, by the documents of the portion before it."""
FIRST_PORTION = 50


class Portions:
    """Decides how many documents with content a scan reads next: as many as fit into PORTION_BYTES, as far as is known.

    Examples:
        >>> portions = Portions(500)
        >>> portions.size
        50
        >>> portions.read(50, 50 * 2_000), portions.size
        (None, 100)
        >>> portions.read(100, 100 * 4_000_000), portions.size
        (None, 4)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = min(most, FIRST_PORTION)

    def read(self, documents: int, size: int) -> None:
        """Records how much was read: the number of documents, and their bytes."""
        fits = PORTION_BYTES * documents // max(1, size)
        self.size = max(1, min(self._most, fits, 2 * self.size))


class Store(Protocol):
    """Entries by id and by number, buckets of postings by key, one atomic step at a time.

    Every method may raise StoreError: nothing of the step was written then, and it may be tried again. `apply` and `redirect`
    raise OutcomeUnknownError, a kind of StoreError, if the step may have been done.
    """

    @property
    def url(self) -> str:
        """Where it is, without a password."""

    @property
    def durability(self) -> str:
        """Returns in words what an acknowledged step survives, as far as the store's server reports it."""

    def claim(self, header: dict[str, Any]) -> dict[str, Any]:
        """Writes the header if there is none; returns the one that is there."""

    def protect(self) -> None:
        """Marks the index for good as one that was served with tokens; marking it again changes nothing."""

    def is_protected(self) -> bool:
        """Returns whether the index was marked by `protect`."""

    def state(self) -> StoreState:
        """Whether the index moves, and its generation: one small look."""

    def redirect(self, move: Move) -> None:
        """Writes the state of a move; steps of another epoch are refused from then on.

        Raises:
            RacedError: The store's own epoch is as high already.
        """

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        """By id."""

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        """By number."""

    def postings(self, keys: np.ndarray) -> Postings:
        """The buckets of keys, uint64 (m,), each as it was filled, oldest first."""

    def reserve(self, count: int) -> list[int]:
        """Numbers that no other call gets, ascending."""

    def apply(self, changes: Changes) -> list[int]:
        """Carries out one atomic step; returns the numbers of the new documents.

        Raises:
            RacedError: An id is there already, or something that was needed or changed is not; nothing was written.
            MovedError: The changes are of another epoch than the store; nothing was written.
            OutcomeUnknownError: The answer was lost, and the store cannot be asked whether the step was done. If it can be
                asked, it is: then the step was done once, and is not reported as a failure.
        """

    def members(self, scope: str, leader: str, limit: int | None = None) -> list[Entry]:
        """Returns the documents resolved to a representative, itself apart, in the order of their numbers.

        Args:
            scope: Tenant or group.
            leader: Id of the representative.
            limit: Maximum number of documents; None for all.
        """

    def member_page(self, scope: str, leader: str, after: int, skip: int, limit: int) -> list[Entry]:
        """Returns some members of a cluster without their content, in the order of their numbers.

        Args:
            scope: Tenant or group.
            leader: Id of the representative, which itself is not among the members.
            after: Number of the last member that is known; 0 for the beginning.
            skip: Members behind that one that are passed over.
            limit: Maximum number of members.
        """

    def member_count(self, scope: str, leader: str) -> int:
        """Returns the number of documents resolved to a representative, itself apart."""

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        """Yields all documents, or those of a scope, in the order of their numbers; reads a bounded portion at a time.

        Args:
            scope: Tenant or group; None for all.
            content: Whether signatures, texts and payloads are read; without them listings read a small part of the bytes.
        """

    def scopes(self) -> Iterator[str]:
        """Yields the scopes that have documents, each once, in no particular order; no document is read for it."""

    def due(self, before: float, posted: bool) -> Iterator[Entry]:
        """Yields documents last seen before a time, oldest first, without their content; reads a bounded portion at a time.

        Args:
            before: Seconds of the clock.
            posted: Whether only documents that stand in buckets are yielded.
        """

    def posting_portion(self, place: Any, most: int) -> PostingPortion:
        """Returns some of the postings that were entered on their own (`Changes.entering`), as those of shards are.

        Others are stored with their documents, or may be left out. Postings that come or go meanwhile may be left out, too.

        Args:
            place: Where to begin: the place of the portion before; None for the beginning.
            most: About how many postings to return.
        """

    def times(self) -> list[float]:
        """Returns what the clocks of its servers say now, in seconds; nothing if it has no clock of its own."""

    def median_seen(self) -> float | None:
        """Returns the time before which half of its documents were last seen.

        None if it has no documents, or has a clock of its own and needs no other measure of time.
        """

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        """Returns whether it is a process' turn to do what one process at a time should do.

        It stays the turn of that process until it has not asked again for so long. Two at once would do no harm; this only
        spares work.

        Args:
            work: What is to be done.
            holder: Name of the process, which no other one has.
            seconds: How long it is its turn, by the clock of the store.
        """

    def log_end(self) -> Any:
        """Returns the place where the log ends now, for `events`; None if the store reads its log as a whole."""

    def events(self, after: Any = None) -> Iterator[Event]:
        """Yields the lines of the log, oldest first; reads a bounded portion at a time.

        A line that was written after `log_end` was asked is among those after it; a line from before may be, too. The log keeps
        the last LOG_KEPT lines; none are dropped while the index is copied.

        Args:
            after: A place of `log_end`; None for the beginning.
        """

    def counts(self) -> dict[str, int]:
        """Returns records, leaders, postings, evicted, bytes, …; the steps keep these counts, so no documents are counted."""

    def close(self) -> None:
        """Gives back what it holds."""
