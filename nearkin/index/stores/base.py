"""The interface of a store, and the sizes of the portions in which stores are read."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np

from nearkin.errors import IncompatibleError, UsageError
from nearkin.index.changes import Changes, Event, LogPortion
from nearkin.index.entry import Entry, PostingPortion, Postings
from nearkin.index.migration.state import MigrationState, StoreState

LOG_KEPT = 100_000
"""The number of lines that a change log keeps at least."""
LOG_PORTION = 1_000
"""The number of lines of the change log that are read or deleted at once."""
PORTION = 500
"""The number of documents that a listing or a sweep reads at once."""
SCAN_ROUNDS = 4
"""The number of times that a scan lists the documents with larger numbers. An index that is always
written to would have new ones each time."""
PORTION_BYTES = 16 << 20
"""The intended size of a portion of documents with content, in bytes."""
FIRST_PORTION = 50
"""The number of documents in the first portion of a scan with content."""


HEADER = "header"
PROTECTED = "protected"
"""The names of values that are written once."""


class Portions:
    """A counter that decides how many documents with content a scan reads next.

    The next portion has as many documents as fit into `PORTION_BYTES`, if they are as large as
    those of the previous portion. A portion is at most twice as long as the previous one.

    Args:
        most: Maximum number of documents of a portion.

    Attributes:
        size: Number of documents to read next.

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
        """Records the size of a portion that was read.

        Args:
            documents: Number of documents.
            size: Size of their content, in bytes.
        """
        fitting = PORTION_BYTES * documents // max(1, size)
        self.size = max(1, min(self._most, fitting, 2 * self.size))


class Store(ABC):
    """A database that holds an index: documents, buckets of postings, the state and the change log.

    A store writes the twelve abstract methods and `url`. The other methods follow from them, or
    answer for a store without the ability; a store overrides those that it can do better.

    All changes are made in atomic steps. Every method may raise StoreError. Nothing of the step was
    written in that case, and it may be repeated. `apply` and `redirect` raise OutcomeUnknownError,
    which is a StoreError, if the step may have been written.
    """

    @property
    @abstractmethod
    def url(self) -> str:
        """The address of the store, without a password."""

    @abstractmethod
    def write_once(self, name: str, value: object) -> Any:
        """Writes a value that describes the index, unless one is stored under its name.

        Args:
            name: Name of the value.
            value: The value, which JSON can express. If it is None, nothing is written.

        Returns:
            The value that is stored, or None.
        """

    @abstractmethod
    def state(self) -> StoreState:
        """Returns the migration state and the generation of the index, with one small read."""

    @abstractmethod
    def redirect(self, migration: MigrationState) -> None:
        """Writes the state of a migration. Steps of an older epoch are refused from then on.

        Args:
            migration: The new state.

        Raises:
            RacedError: If the store has reached the epoch of `migration` already.
        """

    @abstractmethod
    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        """Returns documents by their ids, with None for an id that is not stored."""

    @abstractmethod
    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        """Returns documents by their numbers, with None for a number that is not stored."""

    @abstractmethod
    def members(
        self,
        scope: str,
        leader: str,
        limit: int | None = None,
        *,
        after: int = 0,
        skip: int = 0,
        content: bool = True,
    ) -> list[Entry]:
        """Returns members of a cluster, in the order of their numbers.

        Args:
            scope: Scope of the representative.
            leader: Id of the representative. It is not among the members.
            limit: Maximum number of documents; None for all.
            after: Number of the last member of the previous page; 0 for the first page.
            skip: Number of members behind `after` that are left out.
            content: Whether to read signatures, texts and payloads. Listings do without them.
        """

    @abstractmethod
    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        """Yields documents in the order of their numbers. It reads a bounded portion at a time.

        A document that is replaced meanwhile, which gives it a larger number, is yielded in one of
        its versions, or in several.

        Args:
            scope: Scope of the documents; None for all scopes.
            content: Whether to read signatures, texts and payloads. Listings do without them.
        """

    @abstractmethod
    def postings(self, keys: np.ndarray) -> Postings:
        """Returns the buckets of band keys, each in the order of its postings, oldest first.

        Of a bucket with more postings than its capacity, the oldest ones are returned. A store with
        room for the others keeps them, and returns them as soon as older ones were deleted.

        Args:
            keys: Band keys, uint64 of shape (m,).
        """

    @abstractmethod
    def reserve(self, count: int) -> list[int]:
        """Returns document numbers, ascending, that no other call returns."""

    @abstractmethod
    def apply(self, changes: Changes) -> list[int]:
        """Writes one atomic step.

        Args:
            changes: The changes of the step.

        Returns:
            The numbers of the new documents.

        Raises:
            RacedError: If another process changed the same data first. Nothing was written.
            MovedError: If the changes are of another epoch than the store. Nothing was written.
            OutcomeUnknownError: If the answer was lost and the store cannot tell whether the step
                was written. If it can tell, a step that was written is not reported as a failure.
        """

    @abstractmethod
    def events(self, after: Any = None) -> Iterator[Event]:
        """Yields the lines of the change log, oldest first. It reads a bounded portion at a time.

        A line that was written after the call of `log_end` is among the lines after that end; an
        earlier line may be, too. The log keeps the last `LOG_KEPT` lines. None of them are deleted
        while the index is copied.

        Args:
            after: An end that `log_end` returned; None for the beginning.
        """

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """Returns the numbers of records, leaders, postings, evicted postings and bytes.

        Evicted postings are those beyond the capacity of their buckets, which are not read.

        Each step keeps these numbers up to date, so that nothing is counted here.
        """

    @property
    def durability(self) -> str:
        """The failures that an acknowledged step survives, as far as the server reports them."""
        return "unknown: the store does not say what an acknowledged step survives"

    def claim(self, header: dict[str, object]) -> dict[str, object]:
        """Writes the header of a new index.

        Args:
            header: Spec, banding and threshold of the index.

        Returns:
            The header that is stored. It is another one if the index existed already.

        Raises:
            IncompatibleError: If the store consists of shards that do not belong to one index.
        """
        return cast(dict[str, object], self.write_once(HEADER, header))

    def read_header(self) -> dict[str, object] | None:
        """Returns the header of the index, or None if the store has none. Nothing is written."""
        header: dict[str, object] | None = self.write_once(HEADER, None)
        return header or None

    def protect(self) -> None:
        """Marks the index permanently as one that requires tokens. Repeating it has no effect."""
        self.write_once(PROTECTED, 1)

    def is_protected(self) -> bool:
        """Returns whether the index was marked by `protect`."""
        return self.write_once(PROTECTED, None) is not None

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        """Takes the turn to do work that one process at a time should do.

        The turn ends when the holder has not renewed it for `seconds`, by the clock of the store.
        Two processes that do the work at the same time cause no harm; a turn only saves work, so
        that a store may give it to everyone.

        Args:
            work: Name of the work.
            holder: Name of the process, which must be unique.
            seconds: Duration of the turn, in seconds.

        Returns:
            True if it is the turn of `holder`.
        """
        return True

    def member_count(self, scope: str, leader: str) -> int:
        """Returns the number of documents that are resolved to a representative."""
        return len(self.members(scope, leader, content=False))

    def scopes(self) -> Iterator[str]:
        """Yields each scope that has documents once, in no particular order."""
        yield from dict.fromkeys(entry.scope for entry in self.scan(content=False))

    def due(self, before: float, *, posted: bool) -> Iterator[Entry]:
        """Yields documents without their content, those that were seen longest ago first.

        It reads a bounded portion at a time, if the store has an order by time.

        Args:
            before: Time before which the documents were last seen, in seconds since 1970.
            posted: Whether to yield only documents that have postings.
        """
        due_entries = [
            entry
            for entry in self.scan(content=False)
            if entry.seen < before and (entry.posted or not posted)
        ]
        yield from sorted(due_entries, key=lambda entry: (entry.seen, entry.ref))

    def overflowed(self, keys: np.ndarray) -> np.ndarray:
        """Returns whether buckets may lack postings beyond their capacity, bool of shape (m,).

        A bucket is not marked if it never held more postings than its capacity. One that did may
        stay marked after postings were deleted from it. All buckets are marked if it is not known
        which ones lost postings, after a version that deleted them and did not record it.

        Args:
            keys: Band keys, uint64 of shape (m,).
        """
        return np.ones(len(keys), bool)

    def posting_portion(self, place: Any, most: int) -> PostingPortion:
        """Returns some of the postings that were stored without their documents.

        These are the postings of documents on other shards (`Changes.postings_added`), also those
        beyond the capacity of their buckets. Postings that come or go during the scan may be
        missing. A store that leaves none returns nothing.

        Args:
            place: End of the previous portion; None for the beginning.
            most: Approximate number of postings.
        """
        return PostingPortion(np.empty(0, np.uint64), np.empty(0, np.int64), None)

    def snapshot(self) -> AbstractContextManager[None]:
        """Returns a context in which all reads of this thread see one state, for a few reads.

        A store that cannot do that returns a context without an effect. A reader must then expect
        that steps are applied between its reads.
        """
        return nullcontext()

    def last_number(self) -> int:
        """Returns the last document number that was given, or a larger one.

        A store that records the number writes nothing.
        """
        return self.reserve(1)[0]

    def log_end(self) -> Any:
        """Returns the present end of the change log; None if the log is always read as a whole."""
        return None

    def log_lines(self, after: int, limit: int) -> LogPortion:
        """Returns lines of the change log, as a history is read.

        Lines about one document have the order of the steps that wrote them. A line is returned
        only when no line with a smaller number can be written any more.

        Args:
            after: Number of the last line that was read; 0 for the beginning.
            limit: Maximum number of lines.

        Raises:
            UsageError: If the store has no such numbers.
        """
        raise UsageError(
            f"{self.url} cannot keep a history, because its change log has no order; use another "
            "kind of store"
        )

    def drop_lines(self, until: int) -> None:
        """Deletes the lines of the change log up to a number that `log_lines` returned."""
        raise NotImplementedError

    def times(self) -> list[float]:
        """Returns the times of the servers' clocks, in seconds since 1970.

        The list is empty if the store has no clock of its own.
        """
        return []

    def median_seen(self, before: float, *, posted: bool) -> float | None:
        """Returns the median of the times before a time at which documents were last seen.

        Args:
            before: The time, in seconds.
            posted: True to read only documents that are in buckets.

        Returns:
            The median. None if there are no such documents, or if only one clock has set the times:
            that of the store, or that of this process.
        """
        return None

    def first_seen(self, after: float, before: float, *, posted: bool) -> float | None:
        """Returns the earliest time in a range at which a document was last seen.

        Documents in reserved scopes do not count, because some of them are never deleted.

        Args:
            after: The first time of the range, in seconds.
            before: The time at which the range ends. It is not in the range.
            posted: True to read only documents that are in buckets.

        Returns:
            The time. None as for `median_seen`.
        """
        return None

    def close(self) -> None:  # noqa: B027
        """Closes the store and releases its connections, if it has any."""


def require_layout(where: str, kind: str, stored: int, supported: int) -> None:
    """Requires that a store has the version of the layout that this version of nearkin supports."""
    if stored == supported:
        return
    remedy = (
        "upgrade nearkin"
        if stored > supported
        else "export it with the version of nearkin that made it, and build it again"
    )
    raise IncompatibleError(
        f"{where} has {kind} {stored}, and this version of nearkin supports {supported}; {remedy}"
    )
