"""Another banding beside the live one, over the same documents: what it would answer, what it would cost, and the way over.

What the live index took goes to the other one after its answer was given, by name: as each document is in the live one by then.
So whatever comes between, another worker, a kill, the way over itself, both end with the same documents. A shadow never delays
an answer until it lags so far behind that its queue is full.

The way over is a move of the index (`nearkin.index.migration.cutover.cut_over`): every process that has it open follows, none
writes to the old one any longer, and a restart finds the new one. The old index still receives all documents, so that the way
back is as short.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from threading import Condition, Thread
from typing import Any, NamedTuple

from nearkin.errors import IncompatibleError, MovedError, NearkinError, StoreError, UsageError
from nearkin.index.entry import Entry, Outcome
from nearkin.index.index import Index
from nearkin.index.migration.copy import Source, claim_target, copy_documents, copy_missing, document_of, shares_shingles
from nearkin.index.migration.cutover import cut_over
from nearkin.index.migration.state import CLOSING, COPYING
from nearkin.index.parts import is_parts_scope
from nearkin.server.golden_probe import GoldenResult

log = logging.getLogger("nearkin.server")

WAITING = 100_000
"""Documents that may wait for the shadow."""
AT_ONCE = 1000
SHORTLY, LATER = 0.5, 5.0
"""Seconds after which a wait looks again, and after which a store that failed is tried again."""


class _Touched(NamedTuple):
    """What became of a document: whether it was a duplicate, where it was upserted."""

    duplicate: bool | None


class _Job(NamedTuple):
    """Something that only the shadow's thread does."""

    work: Callable[[], Any]
    done: "Future[Any]"


@dataclass
class Side:
    """What one of the two did with the same documents."""

    documents: int = 0
    duplicates: int = 0
    candidates: int = 0
    seconds: float = 0.0
    golden: GoldenResult | None = None

    def add(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """A batch."""
        self.documents += len(outcomes)
        self.duplicates += sum(outcome.duplicate for outcome in outcomes)
        self.candidates += sum(outcome.candidates for outcome in outcomes)
        self.seconds += seconds

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; rates are None before there is a document."""
        count = self.documents
        return {
            "documents": count,
            "duplicates": self.duplicates,
            "candidates_per_document": self.candidates / count if count else None,
            "seconds_per_document": self.seconds / count if count else None,
            "golden_recall": None if self.golden is None else self.golden.recall,
        }


class ShadowIndex:
    """An index, and another one that has the same documents and does not answer.

    Args:
        index: The one that answers, wherever it moves.
        second: Place of the second store, by which it is known which of the two answers.
        opened: Opens a store without following its index: the first one (False), or the second one (True).

    Raises:
        UsageError: They differ in more than the banding, or in nothing; or the other store has an index of its own.
    """

    def __init__(self, index: Index, second: tuple[str, ...], opened: Callable[[bool], Index]) -> None:
        self.index, self._second, self._opened = index, second, opened
        self._changed = Condition()
        self._touched: dict[tuple[str, str], _Touched] = {}
        self._jobs: list[_Job] = []
        self._filled = self._switching = self._closing = False
        self._failed = 0
        self.waiting = self._other()
        self._start_counting()
        self._thread = Thread(target=self._run, name="nearkin-shadow", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the second one answers."""
        return self.index.public_urls == self._second

    def _other(self) -> Index:
        other, live = self._opened(not self.is_over), self.index
        try:
            if (live.spec, live.threshold) != (other.spec, other.threshold):
                raise IncompatibleError("a shadow has the live index' Spec and threshold; nearkin index rebuild changes those")
            if live.banding == other.banding:
                raise UsageError(f"the shadow has the live index' banding, {other.banding.bands} x {other.banding.rows}")
            claim_target(Source.of(live), other)
        except NearkinError:
            other.close()
            raise
        return other

    def _start_counting(self) -> None:
        self._both = self._only_live = self._only_shadow = 0
        self._sides = {"live": Side(), "shadow": Side()}

    # -- fed by the server

    def fed(self, scope: str, outcomes: Sequence[Outcome], seconds: float) -> None:
        """What the live one took."""
        self._put({(scope, outcome.id): _Touched(outcome.duplicate) for outcome in outcomes})
        with self._changed:
            self._sides["live"].add(outcomes, seconds)

    def touched(self, scope: str, id: str) -> None:
        """A document that went from the live one, or changed otherwise."""
        self._put({(scope, id): _Touched(None)})

    def golden_result(self, probe: Callable[[Index], GoldenResult]) -> GoldenResult:
        """Known pairs in both; returns the live one's."""
        found = probe(self.index)
        self._sides["live"].golden = found
        if self._filled:
            self._sides["shadow"].golden = self._done_by_thread(lambda: probe(self.waiting))
        return found

    def expire(self) -> dict[str, int]:
        """Takes out what the other one has for too long."""
        return self._done_by_thread(lambda: self.waiting.expire()) if self._filled else {}

    # -- the way over

    def switch(self, over: bool) -> None:
        """Lets the other index answer, or the first one again; every process has gone over when it returns.

        Raises:
            UsageError: It has not all documents yet.
        """
        if over == self.is_over:
            return
        if not self._filled:
            raise UsageError("the other index has not all documents yet; look at GET /v1/shadow")
        self._switching = True
        try:
            self._done_by_thread(lambda: cut_over(self.index, self.waiting))
        finally:
            self._switching = False

    def refresh(self) -> None:
        """Another process may have switched."""
        self.index.refresh()

    def facts(self) -> dict[str, Any]:
        """Both sides, and where they disagree, since the server started or the last switch."""
        with self._changed:
            compared = self._sides["shadow"].documents
            agreeing = compared - self._only_live - self._only_shadow
            return {
                "live": "shadow" if self.is_over else "primary",
                "filled": self._filled,
                "switching": self._switching,
                "failed": self._failed,
                "behind": len(self._touched),
                "agreement": agreeing / compared if compared else None,
                "both_duplicates": self._both,
                "only_live_duplicates": self._only_live,
                "only_shadow_duplicates": self._only_shadow,
                "banding": {"live": _banding(self.index), "shadow": _banding(self.waiting)},
                "sides": {name: side.to_dict() for name, side in self._sides.items()},
            }

    def close(self) -> None:
        """Gives the other store back; what waits, or is not filled yet, is brought there the next time."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self.waiting.close()

    # -- its thread

    def _put(self, some: dict[tuple[str, str], _Touched]) -> None:
        with self._changed:
            # while the other one is filled nothing is worked off, and names alone wait
            while self._filled and not self._switching and len(self._touched) >= WAITING and self._thread.is_alive():
                self._changed.wait(SHORTLY)
            self._touched |= some
            self._changed.notify_all()

    def _done_by_thread(self, work: Callable[[], Any]) -> Any:
        job = _Job(work, Future())
        with self._changed:
            if self._closing or not self._thread.is_alive():
                raise UsageError("the server is ending")
            self._jobs.append(job)
            self._changed.notify_all()
        return job.done.result()

    def _run(self) -> None:
        try:
            while not self._closing:
                try:
                    self._turn()
                except MovedError:
                    self._wait_for_the_end_of_a_move()
                except NearkinError as error:
                    # it misses a document now, so that it must not answer before it is filled again
                    self._filled = False
                    self._failed += 1
                    with self._changed:
                        # everything is looked at then, so also what was touched until now
                        self._touched.clear()
                    log.warning("the shadow failed; it is filled again", extra={"error": _told(error)})
                    self._refuse_jobs("the other index failed, and is filled again")
                    self._pause(LATER)
        finally:
            self._closing = True
            self._refuse_jobs("the server is ending")

    def _refuse_jobs(self, why: str) -> None:
        with self._changed:
            left, self._jobs = self._jobs, []
        for job in left:
            job.done.set_exception(UsageError(why))

    def _turn(self) -> None:
        """One thing of what there is to do."""
        if self.waiting.public_urls == self.index.public_urls:
            self._change_sides()
        if not self._filled:
            self._fill()
            return
        with self._changed:
            job = self._jobs.pop(0) if self._jobs else None
            some = [] if job else list(islice(self._touched, AT_ONCE))
            if job is None and not some and not self._closing:
                self._changed.wait(SHORTLY)
        if job is not None:
            _do(job)
        for scope in dict.fromkeys(scope for scope, _ in some):
            self._follow(scope, [name for other, name in some if other == scope])

    def _change_sides(self) -> None:
        """The index has moved to the store that was waiting, so the other one waits now."""
        other = self._other()
        with self._changed:
            left, self.waiting, self._filled = self.waiting, other, False
            self._start_counting()
        left.close()
        log.info("answering changed", extra={"live": "shadow" if self.is_over else "primary"})

    def _fill(self) -> None:
        """Brings the one that does not answer to what the one that does has; never the other way."""
        self.index.refresh()
        if self.waiting.public_urls != self.index.public_urls:
            copy_missing(
                self.index, self.waiting, lambda: not self._closing and self.waiting.public_urls != self.index.public_urls
            )
            self._filled = not self._closing

    def _follow(self, scope: str, names: list[str]) -> None:
        """Documents of a scope, as they are in the live one by now."""
        live, other = self.index, self.waiting
        with self._changed:
            before = {name: self._touched[scope, name] for name in names}
        if is_parts_scope(scope):
            copy_documents(live, other, [(scope, name) for name in names])
            self._done_with(scope, before)
            return
        held = dict(zip(names, live.get_many(scope, names), strict=True))
        there = [(name, entry) for name, entry in held.items() if entry is not None]
        began = time.perf_counter()
        outcomes = self._upserted(scope, there)
        seconds = time.perf_counter() - began
        for name, entry in held.items():
            if entry is None:
                other.remove(scope, name)
        # another worker may have changed one between the look and the write, and brought that before
        now = dict(zip(names, live.get_many(scope, names), strict=True))
        same = {name: before[name] for name in names if _digest(now[name]) == _digest(held[name])}
        with self._changed:
            self._sides["shadow"].add(outcomes, seconds)
            for outcome in outcomes:
                mine = before[outcome.id].duplicate
                if mine is not None:
                    self._both += mine and outcome.duplicate
                    self._only_live += mine and not outcome.duplicate
                    self._only_shadow += outcome.duplicate and not mine
        self._done_with(scope, same)

    def _upserted(self, scope: str, there: list[tuple[str, Entry]]) -> list[Outcome]:
        """Also what has not changed: a hit keeps it alive, as it does in the live one."""
        other, most, out = self.waiting, self.waiting.settings.max_batch, list[Outcome]()
        same = shares_shingles(self.index, other)
        for start in range(0, len(there), most):
            part = there[start : start + most]
            out += other.upsert_many(
                scope, [document_of(entry, other, same_shingles=same) for _, entry in part], [name for name, _ in part]
            )
        return out

    def _done_with(self, scope: str, done: dict[str, _Touched]) -> None:
        """But for those that were touched again meanwhile."""
        with self._changed:
            for name, was in done.items():
                if self._touched[scope, name] is was:
                    del self._touched[scope, name]
            self._changed.notify_all()

    def _wait_for_the_end_of_a_move(self) -> None:
        """Another process moves the index; what is brought goes under the epoch that the store has then."""
        while not self._closing:
            with suppress(StoreError):
                self.waiting.refresh()
                self.index.refresh()
                if self.index.migration_phase not in (COPYING, CLOSING):
                    return
            self._pause(SHORTLY)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            while not self._closing and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)


def _told(error: NearkinError) -> str:
    """Returns the text of an error for the log. Errors of a store name no document; of others, which may, the type is used."""
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}; nearkin index rebuild says more"


def _do(job: _Job) -> None:
    try:
        job.done.set_result(job.work())
    except BaseException as error:
        job.done.set_exception(error)
        if not isinstance(error, NearkinError):
            raise


def _digest(entry: Entry | None) -> bytes | None:
    return None if entry is None else entry.digest


def _banding(index: Index) -> dict[str, int]:
    found = index.banding
    return {"bands": found.bands, "rows": found.rows, "probes": found.probes}
