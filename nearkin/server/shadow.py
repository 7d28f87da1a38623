"""Another banding beside the live one, over the same documents: what it would answer, what it would cost, and the way over.

Every document that the live index took goes to the other one too, in order, after its answer was given; a shadow never delays
an answer until it lags so far behind that its queue is full. Which of the two answers is a mark in the first one's store, so
that all workers agree, now and after a restart; the other one goes on being fed, so that the way back is as short.
"""

import contextlib
import logging
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, NamedTuple

from nearkin.errors import IncompatibleError, NearkinError, UsageError
from nearkin.index.entry import RESERVED, Outcome
from nearkin.index.index import Index
from nearkin.index.preparing import Document
from nearkin.index.rebuilding import bring, fill
from nearkin.server.prober import Probed

log = logging.getLogger("nearkin.server")

SCOPE, MARK = RESERVED + "server", "shadow-is-live"
WAITING = 1000
"""Batches that may wait for the shadow."""
SHORTLY = 0.5
"""Seconds after which a wait looks again whether the shadow's thread lives."""
FEW, PATIENCE = 4, 20.0
"""Batches behind with which it may answer (it has them within milliseconds), and seconds to wait for that."""


class _Batch(NamedTuple):
    target: Index
    scope: str
    documents: Sequence[Document]
    outcomes: list[Outcome]
    seconds: float


class _Removed(NamedTuple):
    target: Index
    scope: str
    id: str


@dataclass
class Side:
    """What one of the two did with the same documents."""

    documents: int = 0
    duplicates: int = 0
    candidates: int = 0
    seconds: float = 0.0
    golden: Probed | None = None

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


class Shadow:
    """Two indexes, one of which answers.

    Args:
        primary: The server's index.
        other: Of the same Spec and threshold, with another banding, in a store of its own.

    Raises:
        UsageError: They differ in more than the banding, or in nothing.
    """

    def __init__(self, primary: Index, other: Index) -> None:
        if (primary.spec, primary.threshold) != (other.spec, other.threshold):
            raise IncompatibleError("a shadow has the live index' Spec and threshold; nearkin index rebuild changes those")
        if primary.banding == other.banding:
            raise UsageError(f"the shadow has the live index' banding, {primary.banding.bands} x {primary.banding.rows}")
        self.primary, self.other = primary, other
        self._work: queue.Queue[_Batch | _Removed | None] = queue.Queue(WAITING)
        self._lock = Lock()
        self._touched: set[tuple[str, str]] | None = set()
        self._filled = False
        self._failed = 0
        self._both = self._only_live = self._only_shadow = 0
        self._sides = {"live": Side(), "shadow": Side()}
        self._is_over = self._closing = False
        self.refresh()
        self._thread = Thread(target=self._run, name="nearkin-shadow", daemon=True)
        self._thread.start()

    @property
    def live(self) -> Index:
        """The one that answers."""
        return self.other if self._is_over else self.primary

    @property
    def waiting(self) -> Index:
        """The one that does not."""
        return self.primary if self._is_over else self.other

    # -- fed by the server

    def fed(self, by: Index, scope: str, documents: Sequence[Document], outcomes: list[Outcome], seconds: float) -> None:
        """What one of the two took, for the other."""
        self._put(_Batch(self._other_than(by), scope, documents, outcomes, seconds))

    def removed(self, by: Index, scope: str, id: str) -> None:
        """What one of the two erased, for the other."""
        self._put(_Removed(self._other_than(by), scope, id))

    def _other_than(self, one: Index) -> Index:
        return self.primary if one is self.other else self.other

    def probed(self, probe: Callable[[Index], Probed]) -> Probed:
        """Known pairs in both; returns the live one's."""
        found = probe(self.live)
        self._sides["live"].golden = found
        self._sides["shadow"].golden = probe(self.waiting)
        return found

    # -- the way over

    def switch(self, over: bool) -> None:
        """Lets the other index answer, or the first one again.

        Raises:
            UsageError: It has not caught up.
        """
        if over == self._is_over:
            return
        if not self._filled or self._failed:
            raise UsageError("the other index has not all documents yet; look at GET /v1/shadow")
        until = time.monotonic() + PATIENCE
        while self._work.qsize() > FEW:
            if time.monotonic() > until:
                raise UsageError(f"the other index is {self._work.qsize():,} batches behind, and does not catch up")
            time.sleep(0.05)
        # the first one's mark counts; the other one's keeps it there when that one fills the first
        if over:
            self.other.upsert(SCOPE, self._sample(), MARK)
            self.primary.upsert(SCOPE, self._sample(), MARK)
        else:
            self.primary.remove(SCOPE, MARK)
            self.other.remove(SCOPE, MARK)
        self.refresh()

    def refresh(self) -> None:
        """Which one answers, as all workers read it."""
        over = self.primary.get(SCOPE, MARK) is not None
        if over != self._is_over:
            with self._lock:
                self._is_over = over
                self._both = self._only_live = self._only_shadow = 0
                self._sides = {"live": Side(), "shadow": Side()}
            log.info("answering changed", extra={"live": "shadow" if over else "primary"})

    def facts(self) -> dict[str, Any]:
        """Both sides, and where they disagree, since the server started or the last switch."""
        with self._lock:
            compared = self._sides["shadow"].documents
            agreeing = compared - self._only_live - self._only_shadow
            return {
                "live": "shadow" if self._is_over else "primary",
                "filled": self._filled,
                "failed": self._failed,
                "behind": self._work.qsize(),
                "agreement": agreeing / compared if compared else None,
                "both_duplicates": self._both,
                "only_live_duplicates": self._only_live,
                "only_shadow_duplicates": self._only_shadow,
                "banding": {"live": _banding(self.live), "shadow": _banding(self.waiting)},
                "sides": {name: side.to_dict() for name, side in self._sides.items()},
            }

    def close(self) -> None:
        """Works off what waits, then gives the other store back; one that is being filled is filled further the next time."""
        self._closing = True
        while self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._work.put(None, timeout=SHORTLY)
            self._thread.join(SHORTLY)
        self.other.close()

    # -- its thread

    def _put(self, item: _Batch | _Removed) -> None:
        """Hands over what one took; while the other is still being filled, only which documents those were."""
        with self._lock:
            if self._touched is not None:
                names = [item.id] if isinstance(item, _Removed) else [outcome.id for outcome in item.outcomes]
                self._touched.update((item.scope, name) for name in names)
                return
        while self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._work.put(item, timeout=SHORTLY)
                return
        # its thread ended by a fault, which is in the log: it misses documents from now on
        self._failed += 1

    def _run(self) -> None:
        try:
            while not (self._fill() or self._closing):
                log.info("answering changed while the other index was filled; it is filled the other way")
        except NearkinError as error:
            self._failed += 1
            log.warning("the shadow cannot be filled", extra={"error": str(error)})
        while (item := self._work.get()) is not None:
            try:
                self._follow(item)
            except NearkinError as error:
                # it misses a document now, so that it must not answer before it is filled again
                self._failed += 1
                log.warning("the shadow failed", extra={"error": str(error)})

    def _fill(self) -> bool:
        """Brings the one that does not answer to what the one that does has; whether it got to the end.

        Never the other way: what one of them took last may not have reached the other when the server ended.
        """
        over = self._is_over
        live, waiting = self.live, self.waiting

        def still() -> bool:
            return self._is_over == over and not self._closing

        fill(live, waiting, still)
        while still():
            with self._lock:
                touched = self._touched or set()
                # few enough that what comes meanwhile fits into the queue
                last = len(touched) <= WAITING
                self._touched = None if last else set()
            bring(live, waiting, sorted(touched))
            if last:
                self._filled = True
                return True
        return False

    def _follow(self, item: _Batch | _Removed) -> None:
        if isinstance(item, _Removed):
            item.target.remove(item.scope, item.id)
            return
        began = time.perf_counter()
        outcomes = item.target.upsert_many(item.scope, item.documents, [outcome.id for outcome in item.outcomes])
        seconds = time.perf_counter() - began
        with self._lock:
            self._sides["live"].add(item.outcomes, item.seconds)
            self._sides["shadow"].add(outcomes, seconds)
            for mine, theirs in zip(item.outcomes, outcomes, strict=True):
                self._both += mine.duplicate and theirs.duplicate
                self._only_live += mine.duplicate and not theirs.duplicate
                self._only_shadow += theirs.duplicate and not mine.duplicate

    def _sample(self) -> Document:
        return [1.0] * self.primary.spec.n if self.primary.preparer.vectors else MARK


def _banding(index: Index) -> dict[str, int]:
    found = index.banding
    return {"bands": found.bands, "rows": found.rows, "probes": found.probes}
