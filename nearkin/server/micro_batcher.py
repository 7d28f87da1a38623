"""Documents that come one by one are worked on together: what arrives while a batch runs is the next batch.

Nothing waits for company: a lone document is a batch of one. Under load, batches grow by themselves, so that a store's round
trip or commit is shared; and what would wait too long is refused at once instead (Retry-After), so memory does not grow.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from nearkin.index.entry import Outcome
from nearkin.index.preparation import Document
from nearkin.server.http.problems import ProblemError
from nearkin.server.http.shares import CURRENT_CALLER, Caller, FairExecutor, Pool

BATCH_BYTES = 4 << 20
"""Bytes of documents that are worked on at once."""
NUMBER_BYTES = 32
"""Bytes of a number in a list: the pointer and the float."""

Work = Callable[[str, Sequence[Document], Sequence[str | None]], list[Outcome]]


class _Waiting(NamedTuple):
    caller: Caller
    document: Document
    size: int
    id: str | None
    done: "asyncio.Future[Outcome]"


def size_of(document: Document) -> int:
    """Returns the bytes of memory that a document takes."""
    return sys.getsizeof(document) if isinstance(document, str) else NUMBER_BYTES * len(document)


class MicroBatcher:
    """Upserts of one scope in the order in which they came, one batch at a time; scopes beside each other.

    Args:
        work: Upserts a batch; called in a thread.
        threads: The threads. A batch is counted for the caller of its first document.
        most: Maximum number of documents of a batch.
        places: Documents that may wait, of all scopes together.
        memory: Bytes that may be in memory; those of documents that wait are counted there.
    """

    def __init__(self, work: Work, threads: FairExecutor, most: int, places: Pool, memory: Pool) -> None:
        self._work, self._threads, self._most = work, threads, most
        self._places, self._memory = places, memory
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._running: set[str] = set()
        self._alone: dict[str, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def depth(self) -> int:
        """The number of documents that wait or are worked on."""
        return self._places.used

    async def upsert(self, scope: str, document: Document, id: str | None) -> Outcome:
        """Upserts a document for the current caller.

        Raises:
            ProblemError: `busy` if too much waits, `rate-limited` if too much of this caller does.
        """
        caller = CURRENT_CALLER.get()
        size = size_of(document)
        self._places.take(caller, 1)
        try:
            self._memory.take(caller, size)
        except ProblemError:
            self._places.release(caller, 1)
            raise
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(scope, deque()).append(_Waiting(caller, document, size, id, done))
        self._idle.clear()
        if scope not in self._running:
            self._start(scope)
        return await done

    async def drain(self) -> None:
        """Until everything that was accepted is done."""
        await self._idle.wait()

    def _start(self, scope: str) -> None:
        waiting = self._waiting[scope]
        alone = self._alone.pop(scope, 0)
        if alone > 1:
            self._alone[scope] = alone - 1
        batch = self._next_batch(waiting, 1 if alone else self._most)
        if not waiting:
            del self._waiting[scope]
        self._running.add(scope)
        documents, ids = [one.document for one in batch], [one.id for one in batch]
        work = partial(self._work, scope, documents, ids)
        self._threads.start(batch[0].caller, work, lambda ended: self._ended(scope, batch, ended))

    @staticmethod
    def _next_batch(waiting: deque[_Waiting], most: int) -> list[_Waiting]:
        """Takes the documents that came first: at least one, and no more bytes than a batch should have."""
        batch = [waiting.popleft()]
        size = batch[0].size
        while waiting and len(batch) < most and size + waiting[0].size <= BATCH_BYTES:
            size += waiting[0].size
            batch.append(waiting.popleft())
        return batch

    def _ended(self, scope: str, batch: list[_Waiting], job: "asyncio.Future[list[Outcome]]") -> None:
        error = job.exception()
        if isinstance(error, ValueError) and len(batch) > 1:
            # one document that cannot be worked on must not fail those that came with it
            self._waiting.setdefault(scope, deque()).extendleft(reversed(batch))
            self._alone[scope] = len(batch)
        else:
            for one in batch:
                self._places.release(one.caller, 1)
                self._memory.release(one.caller, one.size)
            for at, one in enumerate(batch):
                if one.done.done():
                    continue
                if error is not None:
                    one.done.set_exception(error)
                else:
                    one.done.set_result(job.result()[at])
        self._running.discard(scope)
        if scope in self._waiting:
            self._start(scope)
        elif not self._waiting and not self._running:
            self._idle.set()
