"""Documents that come one by one are worked on together: what arrives while a batch runs is the next batch.

Nothing waits for company: a lone document is a batch of one. Under load, batches grow by themselves, so that a store's round
trip or commit is shared; and what would wait too long is refused at once instead (Retry-After), so memory does not grow.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

from nearkin.index.entry import Outcome
from nearkin.index.preparing import Document
from nearkin.server.problems import ProblemError

RETRY_AFTER = 1.0

Work = Callable[[str, Sequence[Document], Sequence[str | None]], list[Outcome]]


class _Waiting(NamedTuple):
    document: Document
    id: str | None
    done: "asyncio.Future[Outcome]"


class WaitingRoom:
    """Upserts of one scope in the order in which they came, one batch at a time; scopes beside each other.

    Args:
        work: Upserts a batch; called in a thread.
        executor: Of the threads.
        most: Documents of a batch.
        room: Documents that may wait, of all scopes together.
    """

    def __init__(self, work: Work, executor: Executor, most: int, room: int) -> None:
        self._work, self._executor, self._most, self._room = work, executor, most, room
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._running: set[str] = set()
        self._alone: dict[str, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.depth = 0

    async def upsert(self, scope: str, document: Document, id: str | None) -> Outcome:
        """What became of a document.

        Raises:
            ProblemError: `busy`: too much is waiting.
        """
        if self.depth >= self._room:
            raise ProblemError("busy", f"{self.depth:,} documents are waiting", retry_after=RETRY_AFTER)
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(scope, deque()).append(_Waiting(document, id, done))
        self.depth += 1
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
        batch = [waiting.popleft() for _ in range(1 if alone else min(len(waiting), self._most))]
        if not waiting:
            del self._waiting[scope]
        self._running.add(scope)
        documents, ids = [one.document for one in batch], [one.id for one in batch]
        job = asyncio.get_running_loop().run_in_executor(self._executor, self._work, scope, documents, ids)
        job.add_done_callback(lambda ended: self._ended(scope, batch, ended))

    def _ended(self, scope: str, batch: list[_Waiting], job: "asyncio.Future[list[Outcome]]") -> None:
        error = job.exception()
        if isinstance(error, ValueError) and len(batch) > 1:
            # one document that cannot be worked on must not fail those that came with it
            self._waiting.setdefault(scope, deque()).extendleft(reversed(batch))
            self._alone[scope] = len(batch)
        else:
            self.depth -= len(batch)
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
