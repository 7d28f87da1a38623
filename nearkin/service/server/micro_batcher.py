"""Micro-batches: documents that arrive while a batch is processed form the next batch.

There is no artificial delay: a single document is processed at once, as a batch of one. Under load,
batches grow by themselves, so that documents share the round trips or commits of a store. Documents
that would wait too long are rejected at once with Retry-After, so that memory use does not grow.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from nearkin.index.documents import Document, TextAndVector
from nearkin.index.entry import Outcome
from nearkin.service.server.http.callers import CURRENT_CALLER, Caller
from nearkin.service.server.http.fair_executor import FairExecutor
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import ResourcePool

BATCH_BYTES = 4 << 20
"""Maximum size of the documents of a batch, in bytes. A larger document is a batch of its own."""
BYTES_PER_NUMBER = 32
"""Memory of a number in a list, in bytes: the pointer and the float."""

UpsertBatch = Callable[[str, Sequence[Document], Sequence[str | None]], list[Outcome]]


class _WaitingDocument(NamedTuple):
    caller: Caller
    document: Document
    size: int
    id: str | None
    outcome: "asyncio.Future[Outcome]"


def document_memory(document: Document) -> int:
    """Returns the memory that a document uses, in bytes."""
    if isinstance(document, TextAndVector):
        parts = (document.text, document.vector)
        return sum(document_memory(part) for part in parts if part is not None)
    return (
        sys.getsizeof(document) if isinstance(document, str) else BYTES_PER_NUMBER * len(document)
    )


class MicroBatcher:
    """A queue that upserts documents in batches.

    Each scope has one batch at a time, and scopes run concurrently.

    Args:
        memory: Counts the bytes of the documents that wait.
        separates_callers: Returns whether a batch has documents of one caller only, because the
            history of the index names the caller.
    """

    def __init__(
        self,
        upsert_batch: UpsertBatch,
        threads: FairExecutor,
        max_batch: int,
        places: ResourcePool,
        memory: ResourcePool,
        separates_callers: Callable[[], bool] = lambda: False,
    ) -> None:
        self._upsert_batch = upsert_batch
        self._threads = threads
        self._max_batch = max_batch
        self._places = places
        self._memory = memory
        self._separates_callers = separates_callers
        self._waiting: dict[str, deque[_WaitingDocument]] = {}
        self._running_scopes: set[str] = set()
        # The number of next documents of a scope that are processed one at a time, after a failure.
        self._single_documents: dict[str, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def depth(self) -> int:
        """The number of documents that wait or are processed."""
        return self._places.used

    async def upsert(self, scope: str, document: Document, id: str | None) -> Outcome:
        """Upserts a document for the current caller, and returns the outcome."""
        caller = CURRENT_CALLER.get()
        size = document_memory(document)
        self._places.take(caller, 1)
        try:
            self._memory.take(caller, size)
        except ProblemError:
            self._places.release(caller, 1)
            raise
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(scope, deque()).append(
            _WaitingDocument(caller, document, size, id, outcome)
        )
        self._idle.clear()
        if scope not in self._running_scopes:
            self._start_batch(scope)
        return await outcome

    async def drain(self) -> None:
        """Waits until all accepted documents are processed."""
        await self._idle.wait()

    def _start_batch(self, scope: str) -> None:
        waiting = self._waiting[scope]
        singles = self._single_documents.pop(scope, 0)
        if singles > 1:
            self._single_documents[scope] = singles - 1
        batch = self._take_batch(waiting, 1 if singles else self._max_batch)
        if not waiting:
            del self._waiting[scope]
        self._running_scopes.add(scope)
        documents = [waiting_document.document for waiting_document in batch]
        ids = [waiting_document.id for waiting_document in batch]
        work = partial(self._upsert_batch, scope, documents, ids)
        self._threads.start(batch[0].caller, work, partial(self._complete_batch, scope, batch))

    def _take_batch(
        self, waiting: deque[_WaitingDocument], max_batch: int
    ) -> list[_WaitingDocument]:
        """Removes the oldest documents from the queue: at least one, and at most BATCH_BYTES."""
        batch = [waiting.popleft()]
        size = batch[0].size
        while waiting and len(batch) < max_batch and size + waiting[0].size <= BATCH_BYTES:
            if self._separates_callers() and waiting[0].caller != batch[0].caller:
                break
            size += waiting[0].size
            batch.append(waiting.popleft())
        return batch

    def _complete_batch(
        self, scope: str, batch: list[_WaitingDocument], completed: "asyncio.Future[list[Outcome]]"
    ) -> None:
        error = completed.exception()
        if isinstance(error, ValueError) and len(batch) > 1:
            # One invalid document must not fail the others: the documents are processed again, one
            # at a time.
            self._waiting.setdefault(scope, deque()).extendleft(reversed(batch))
            self._single_documents[scope] = len(batch)
        else:
            self._deliver_outcomes(batch, completed)
        self._running_scopes.discard(scope)
        if scope in self._waiting:
            self._start_batch(scope)
        elif not self._waiting and not self._running_scopes:
            self._idle.set()

    def _deliver_outcomes(
        self, batch: list[_WaitingDocument], completed: "asyncio.Future[list[Outcome]]"
    ) -> None:
        error = completed.exception()
        for document in batch:
            self._places.release(document.caller, 1)
            self._memory.release(document.caller, document.size)
        for row, document in enumerate(batch):
            if document.outcome.done():
                continue
            if error is not None:
                document.outcome.set_exception(error)
            else:
                document.outcome.set_result(completed.result()[row])
