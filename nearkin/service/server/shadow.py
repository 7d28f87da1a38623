"""A shadow index: a second index with another banding and the same documents.

After the live index has answered, the ids of the changed documents are queued, and a thread copies
the documents as they are in the live index by then. Whatever happens in between, such as a change
by another worker, a kill or a switch, both indexes end with the same documents. The shadow index
does not delay answers unless its queue is full.

The index that does not answer is the standby index: the shadow index before a switch, and the
primary index after it.

A switch is a migration of the index (`cut_over`): all processes that have it open follow, none
writes to the old store any more, and a restart uses the new store. The old index continues to
receive all documents, so that switching back is equally fast.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from threading import Condition, Thread
from typing import Any, NamedTuple, TypedDict

from nearkin.errors import IncompatibleError, MovedError, NearkinError, StoreError, UsageError
from nearkin.index.decision_records import is_decisions_scope
from nearkin.index.entry import SCOPES_PLACE, Entry, Outcome, OutcomeKind
from nearkin.index.index import Index
from nearkin.index.migration.copy import Copier
from nearkin.index.migration.cutover import cut_over
from nearkin.index.migration.state import CLOSING, COPYING
from nearkin.index.parts import is_parts_scope
from nearkin.service.server.golden_probe import GoldenResult
from nearkin.settings.spec import Spec

log = logging.getLogger("nearkin.server")

MAX_QUEUED = 100_000
"""Maximum number of documents that wait to be copied."""
COPY_BATCH = 1000
"""Maximum number of documents that are copied at once."""
POLL_SECONDS = 0.5
"""Seconds after which a waiting thread checks its condition again."""
RETRY_SECONDS = 5.0
"""Seconds after which a store that failed is tried again."""


class LiveSide(StrEnum):
    """The index that answers requests."""

    PRIMARY = "primary"
    SHADOW = "shadow"


class _Change(NamedTuple):
    """A change of a document in the live index.

    Attributes:
        duplicate: For an upsert, whether the document was a duplicate; None for other changes.
    """

    duplicate: bool | None


class _Job(NamedTuple):
    """A function that the shadow's thread calls."""

    work: Callable[[], Any]
    result: "Future[Any]"


@dataclass
class SideStats:
    """Statistics of one index over the documents that both have processed.

    Attributes:
        documents: Number of documents.
        duplicates: Number of documents that were duplicates.
        candidates: Number of stored documents that they were compared with.
        seconds: Time that the upserts took.
        golden: Result of the golden pairs, if they were queried.
    """

    documents: int = 0
    duplicates: int = 0
    candidates: int = 0
    seconds: float = 0.0
    golden: GoldenResult | None = None

    def add(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """Adds the outcomes of a batch.

        Args:
            seconds: Time that the batch took.
        """
        self.documents += len(outcomes)
        self.duplicates += sum(outcome.duplicate for outcome in outcomes)
        self.candidates += sum(outcome.candidates for outcome in outcomes)
        self.seconds += seconds

    def to_dict(self) -> dict[str, float | None]:
        """Returns the statistics as JSON-serializable values.

        Means are None before the first document.
        """
        count = self.documents
        return {
            "documents": count,
            "duplicates": self.duplicates,
            "candidates_per_document": self.candidates / count if count else None,
            "seconds_per_document": self.seconds / count if count else None,
            "golden_recall": None if self.golden is None else self.golden.recall,
        }


class ShadowStatus(TypedDict):
    """The comparison of the live index with the shadow index, as JSON.

    Attributes:
        live: The index that answers requests, a value of LiveSide.
        filled: Whether the standby index has all documents.
        switching: Whether a switch is under way.
        failed: Number of failures of the standby index.
        behind: Number of documents that wait to be copied.
        agreement: Share of the compared documents on which both indexes agree, or None without
            such documents.
        both_duplicates: Number of documents that are duplicates in both indexes.
        only_live_duplicates: Number of documents that are duplicates in the live index only.
        only_shadow_duplicates: Number of documents that are duplicates in the standby index only.
        banding: Bands, rows and probes of the live index and of the standby index.
        sides: Statistics of the live index and of the standby index.
    """

    live: str
    filled: bool
    switching: bool
    failed: int
    behind: int
    agreement: float | None
    both_duplicates: int
    only_live_duplicates: int
    only_shadow_duplicates: int
    banding: dict[str, dict[str, int]]
    sides: dict[str, dict[str, float | None]]


class ShadowIndex:
    """The live index and a standby index, which has the same documents."""

    def __init__(
        self, index: Index, shadow_place: tuple[str, ...], open_side: Callable[[LiveSide], Index]
    ) -> None:
        self.index = index
        self._shadow_place = shadow_place
        self._open_side = open_side
        self._condition = Condition()
        self._changes: dict[tuple[str, str], _Change] = {}
        self._jobs: list[_Job] = []
        self._filled = False
        self._switching = False
        self._closing = False
        self._failures = 0
        self.standby = self._open_standby()
        self._reset_statistics()
        self._thread = Thread(target=self._run, name="nearkin-shadow", daemon=True)
        self._thread.start()

    @property
    def live_side(self) -> LiveSide:
        """The index that answers requests."""
        return LiveSide.SHADOW if self.index.public_urls == self._shadow_place else LiveSide.PRIMARY

    def _open_standby(self) -> Index:
        live = self.index
        standby_side = LiveSide.PRIMARY if self.live_side == LiveSide.SHADOW else LiveSide.SHADOW
        standby = self._open_side(standby_side)
        try:
            if _definition_of(live) != _definition_of(standby):
                raise IncompatibleError(
                    "the shadow index must have the Spec, the threshold and the settings "
                    "`related` and `passages` of the live index; "
                    "change those with nearkin index rebuild"
                )
            if live.banding == standby.banding:
                raise UsageError(
                    f"the shadow index has the banding of the live index, {standby.banding.bands} "
                    f"x {standby.banding.rows}; set other shadow_bands or shadow_rows"
                )
            Copier.between(live, standby).claim()
        except NearkinError:
            standby.close()
            raise
        return standby

    def _reset_statistics(self) -> None:
        self._both_duplicates = 0
        self._only_live_duplicates = 0
        self._only_shadow_duplicates = 0
        self._sides = {"live": SideStats(), "shadow": SideStats()}

    # -- calls of the server

    def record_upserts(self, scope: str, outcomes: Sequence[Outcome], seconds: float) -> None:
        """Queues documents that the live index has upserted.

        Args:
            seconds: Time that the live index took.
        """
        outcomes = [outcome for outcome in outcomes if outcome.kind is not OutcomeKind.BLOCKED]
        self._queue_changes(
            {(scope, outcome.id): _Change(outcome.duplicate) for outcome in outcomes}
        )
        with self._condition:
            self._sides["live"].add(outcomes, seconds)

    def mark_changed(self, scope: str, *ids: str) -> None:
        """Queues documents that were deleted or otherwise changed in the live index.

        They are copied together: a decision counts with the head of its scope only.
        """
        self._queue_changes({(scope, id): _Change(None) for id in ids})

    def compare_golden_pairs(self, query_pairs: Callable[[Index], GoldenResult]) -> GoldenResult:
        """Queries the golden pairs in both indexes, and returns the result of the live index."""
        golden_result = query_pairs(self.index)
        self._sides["live"].golden = golden_result
        if self._filled:
            self._sides["shadow"].golden = self._run_in_thread(lambda: query_pairs(self.standby))
        return golden_result

    def expire(self) -> dict[str, int]:
        """Deletes expired entries of the standby index, and returns their numbers."""
        return self._run_in_thread(lambda: self.standby.expire()) if self._filled else {}

    # -- switching

    def switch(self, live: str) -> None:
        """Makes the primary or the shadow index answer requests.

        All processes have switched when it returns.
        """
        if live == self.live_side:
            return
        if not self._filled:
            raise UsageError(
                "the standby index does not have all documents yet; see GET /v1/shadow"
            )
        self._switching = True
        try:
            self._run_in_thread(lambda: cut_over(self.index, self.standby))
        finally:
            self._switching = False

    def refresh(self) -> None:
        """Notices when another process has switched."""
        self.index.refresh()

    def status(self) -> ShadowStatus:
        """Returns statistics of both indexes since the start or the last switch."""
        with self._condition:
            compared = self._sides["shadow"].documents
            agreeing = compared - self._only_live_duplicates - self._only_shadow_duplicates
            return {
                "live": str(self.live_side),
                "filled": self._filled,
                "switching": self._switching,
                "failed": self._failures,
                "behind": len(self._changes),
                "agreement": agreeing / compared if compared else None,
                "both_duplicates": self._both_duplicates,
                "only_live_duplicates": self._only_live_duplicates,
                "only_shadow_duplicates": self._only_shadow_duplicates,
                "banding": {
                    "live": _describe_banding(self.index),
                    "shadow": _describe_banding(self.standby),
                },
                "sides": {name: side.to_dict() for name, side in self._sides.items()},
            }

    def close(self) -> None:
        """Closes the standby index.

        Documents that it does not have yet are copied the next time.
        """
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        self._thread.join()
        self.standby.close()

    # -- the thread that copies documents

    def _queue_changes(self, changes: dict[tuple[str, str], _Change]) -> None:
        with self._condition:
            # While the standby index is being filled, nobody takes ids out of the queue.
            while (
                self._filled
                and not self._switching
                and len(self._changes) >= MAX_QUEUED
                and self._thread.is_alive()
            ):
                self._condition.wait(POLL_SECONDS)
            self._changes |= changes
            self._condition.notify_all()

    def _run_in_thread(self, work: Callable[[], Any]) -> Any:
        job = _Job(work, Future())
        with self._condition:
            if self._closing or not self._thread.is_alive():
                raise UsageError("the server is shutting down")
            self._jobs.append(job)
            self._condition.notify_all()
        return job.result.result()

    def _run(self) -> None:
        try:
            while not self._closing:
                try:
                    self._run_step()
                except MovedError:
                    self._wait_for_migration()
                except NearkinError as error:
                    self._handle_failure(error)
        finally:
            self._closing = True
            self._reject_jobs("the server is shutting down")

    def _handle_failure(self, error: NearkinError) -> None:
        """Schedules a complete copy, because the standby index may miss documents.

        Until the copy is complete, no switch to the standby index is possible.
        """
        self._filled = False
        self._failures += 1
        with self._condition:
            # the complete copy includes all queued changes
            self._changes.clear()
        log.warning(
            "the standby index failed; all documents are copied again",
            extra={"error": _describe_for_log(error)},
        )
        self._reject_jobs("the standby index failed; all documents are copied again")
        self._pause(RETRY_SECONDS)

    def _reject_jobs(self, reason: str) -> None:
        with self._condition:
            jobs = self._jobs
            self._jobs = []
        for job in jobs:
            job.result.set_exception(UsageError(reason))

    def _run_step(self) -> None:
        """Fills the standby index, calls a queued function, or copies a batch of documents."""
        if self.standby.public_urls == self.index.public_urls:
            self._swap_sides()
        if not self._filled:
            self._fill()
            return
        with self._condition:
            job = self._jobs.pop(0) if self._jobs else None
            keys = [] if job else list(islice(self._changes, COPY_BATCH))
            if job is None and not keys and not self._closing:
                self._condition.wait(POLL_SECONDS)
        if job is not None:
            _complete_job(job)
        for scope in dict.fromkeys(scope for scope, _ in keys):
            self._copy_changes(scope, [id for key_scope, id in keys if key_scope == scope])

    def _swap_sides(self) -> None:
        """Opens the previous live store as the standby index after a switch."""
        standby = self._open_standby()
        with self._condition:
            previous = self.standby
            self.standby = standby
            self._filled = False
            self._reset_statistics()
        previous.close()
        log.info("live index switched", extra={"live": str(self.live_side)})

    def _fill(self) -> None:
        """Copies all missing documents from the live index to the standby index."""
        self.index.refresh()
        if self.standby.public_urls != self.index.public_urls:
            self._copier().copy_missing(
                lambda: not self._closing and self.standby.public_urls != self.index.public_urls
            )
            self._filled = not self._closing

    def _copy_changes(self, scope: str, ids: list[str]) -> None:
        """Copies documents of a scope as they are in the live index now."""
        with self._condition:
            changes = {id: self._changes[scope, id] for id in ids}
        if is_parts_scope(scope) or is_decisions_scope(scope) or scope == SCOPES_PLACE:
            self._copier().copy_documents([(scope, id) for id in ids])
            self._remove_changes(scope, changes)
            return
        entries = dict(zip(ids, self.index.get_many(scope, ids), strict=True))
        existing = [entry for entry in entries.values() if entry is not None]
        began = time.perf_counter()
        # unchanged ones too, so that they live as long as in the live index
        outcomes = self._copier().upsert(scope, existing)
        seconds = time.perf_counter() - began
        for id, entry in entries.items():
            if entry is None:
                self.standby.remove(scope, id)
        # Another worker may have changed a document between the read and the write. These changes
        # stay in the queue.
        current = dict(zip(ids, self.index.get_many(scope, ids), strict=True))
        unchanged = {
            id: changes[id] for id in ids if _digest_of(current[id]) == _digest_of(entries[id])
        }
        with self._condition:
            self._sides["shadow"].add(outcomes, seconds)
            for outcome in outcomes:
                self._count_agreement(changes[outcome.id], outcome)
        self._remove_changes(scope, unchanged)

    def _count_agreement(self, change: _Change, outcome: Outcome) -> None:
        """Counts whether the live index and the standby index agree on a document."""
        if change.duplicate is None:
            return
        self._both_duplicates += change.duplicate and outcome.duplicate
        self._only_live_duplicates += change.duplicate and not outcome.duplicate
        self._only_shadow_duplicates += outcome.duplicate and not change.duplicate

    def _copier(self) -> Copier:
        """Returns the copier from the present store of the live index."""
        return Copier.between(self.index, self.standby)

    def _remove_changes(self, scope: str, copied: dict[str, _Change]) -> None:
        """Removes copied changes from the queue, unless a document changed again."""
        with self._condition:
            for id, change in copied.items():
                if self._changes[scope, id] is change:
                    del self._changes[scope, id]
            self._condition.notify_all()

    def _wait_for_migration(self) -> None:
        """Waits while another process migrates the index. Later writes belong to the new epoch."""
        while not self._closing:
            with suppress(StoreError):
                self.standby.refresh()
                self.index.refresh()
                if self.index.migration_phase not in (COPYING, CLOSING):
                    return
            self._pause(POLL_SECONDS)

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._condition:
            while not self._closing and (remaining := deadline - time.monotonic()) > 0:
                self._condition.wait(remaining)


def _describe_for_log(error: NearkinError) -> str:
    """Returns the text of an error for the log.

    Only errors of stores are known to contain no ids of documents.
    """
    if isinstance(error, StoreError):
        return str(error)
    return f"{type(error).__name__}; nearkin index rebuild shows the details"


def _complete_job(job: _Job) -> None:
    """Calls the function of a job, whose caller receives the result or the error."""
    try:
        job.result.set_result(job.work())
    except BaseException as error:
        job.result.set_exception(error)
        if not isinstance(error, NearkinError):
            raise


def _digest_of(entry: Entry | None) -> bytes | None:
    return None if entry is None else entry.digest


def _describe_banding(index: Index) -> dict[str, int]:
    return {
        "bands": index.banding.bands,
        "rows": index.banding.rows,
        "probes": index.banding.probes,
    }


def _definition_of(index: Index) -> tuple[Spec, float, float | None, int | None]:
    """Returns what decides the answers of an index, besides its banding."""
    return index.spec, index.threshold, index.settings.related, index.settings.passages
