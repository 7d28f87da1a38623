"""Threads that callers use in turn, so that no caller delays the others."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

from nearkin.runtime.actor import Actor, acting_as
from nearkin.service.server.http.callers import Caller

ResultCallback = Callable[["asyncio.Future[Any]"], None]


class _Call:
    """A call that waits for a thread, and the callback that receives its result."""

    __slots__ = ("caller", "on_result", "work")

    def __init__(self, caller: Caller, work: Callable[[], Any], on_result: ResultCallback) -> None:
        self.caller = caller
        self.work: Callable[[], Any] | None = work
        self.on_result = on_result

    def drop(self, _: object) -> None:
        """Releases the call's function, and with it the documents that it holds."""
        self.work = None


def _run_for(name: str, work: Callable[[], Any]) -> Any:
    """Runs work of a caller in this thread. The history of the index names the caller."""
    with acting_as(Actor(name)):
        return work()


def _copy_result(source: "asyncio.Future[Any]", target: "asyncio.Future[Any]") -> None:
    """Copies the result of one future to another, unless nobody waits for the target any more."""
    error = None if source.cancelled() else source.exception()
    if target.done():
        return
    if source.cancelled():
        target.cancel()
    elif error is not None:
        target.set_exception(error)
    else:
        target.set_result(source.result())


class FairExecutor:
    """An executor whose threads are used by callers in turn.

    The calls of one caller start in order.
    """

    def __init__(self, executor: Executor, threads: int, per_caller: int) -> None:
        self._executor = executor
        self._free_threads = threads
        self._per_caller = per_caller
        self._waiting: OrderedDict[str, deque[_Call]] = OrderedDict()
        self._running: Counter[str] = Counter()

    @property
    def running(self) -> int:
        """The number of calls that run."""
        return sum(self._running.values())

    def submit(self, caller: Caller, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Calls a function in a thread in the caller's turn, and returns a future."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        call = _Call(caller, work, partial(_copy_result, target=future))
        future.add_done_callback(call.drop)
        self._add(call)
        return future

    def start(self, caller: Caller, work: Callable[[], Any], on_result: ResultCallback) -> None:
        """Calls a function like `submit`, but passes the completed future to a callback."""
        self._add(_Call(caller, work, on_result))

    def close(self) -> None:
        """Cancels the calls that wait."""
        cancelled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        waiting = [call for calls in self._waiting.values() for call in calls]
        self._waiting.clear()
        for call in waiting:
            call.on_result(cancelled)

    def _add(self, call: _Call) -> None:
        self._waiting.setdefault(call.caller.key, deque()).append(call)
        self._start_calls()

    def _start_calls(self) -> None:
        """Gives free threads to callers that are below their limit, one call each in turn."""
        skipped = 0
        while self._free_threads and self._waiting and skipped < len(self._waiting):
            key, calls = self._waiting.popitem(last=False)
            call = calls[0]
            if self._running[key] >= self._per_caller and not call.caller.unshared:
                self._waiting[key] = calls
                skipped += 1
                continue
            calls.popleft()
            if calls:
                self._waiting[key] = calls
            if call.work is not None:
                self._run(key, call)
                skipped = 0

    def _run(self, key: str, call: _Call) -> None:
        assert call.work is not None
        self._free_threads -= 1
        self._running[key] += 1
        work = partial(_run_for, call.caller.key, call.work)
        running = asyncio.get_running_loop().run_in_executor(self._executor, work)
        running.add_done_callback(lambda completed: self._complete(key, call, completed))

    def _complete(self, key: str, call: _Call, completed: "asyncio.Future[Any]") -> None:
        self._free_threads += 1
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]
        call.on_result(completed)
        self._start_calls()
