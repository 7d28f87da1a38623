"""Tests of the service: background tasks that fail, and requests that nobody waits for any more.

The bounds of its resources are tested in test_bounds.py.
"""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nearkin.errors import StoreError, UsageError
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.streams.format import StreamItem
from nearkin.service.server.streams.response import _upsert_items
from tests.service.server.exchange import run, running, until

ERRORS = (
    StoreError("the store failed"),
    UsageError("the standby index failed"),
    ProblemError("busy", "all requests are in use"),
)


class RecordedShadow:
    """A shadow index that records what it has to copy."""

    def __init__(self) -> None:
        self.changed: list[tuple[str, str]] = []

    def mark_changed(self, scope: str, id: str) -> None:
        self.changed.append((scope, id))


def test_background_tasks_go_on_after_any_expected_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with running(tmp_path, expire_every=0.001) as app:
            errors = list(ERRORS)

            def sweep(_every: float) -> dict[str, int]:
                if errors:
                    raise errors.pop()
                swept.set()
                return {}

            swept = threading.Event()
            monkeypatch.setattr(app.service.index, "sweep", sweep)
            await until(swept.is_set)
            assert not errors

    run(test())


def test_a_removal_that_nobody_waits_for_is_copied_to_the_shadow_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with running(tmp_path) as app:
            service, shadow = app.service, RecordedShadow()
            begun, released = threading.Event(), threading.Event()

            def remove(scope: str, id: str) -> bool:
                begun.set()
                released.wait()
                raise StoreError("the answer of the store was lost")

            with monkeypatch.context() as patched:
                patched.setattr(service, "shadow", shadow)
                patched.setattr(service.index, "remove", remove)
                removal = asyncio.create_task(service.run_in_thread(service.remove, "a", "one"))
                await until(begun.is_set)
                removal.cancel()
                released.set()
                await until(lambda: shadow.changed)
            assert shadow.changed == [("a", "one")]

    run(test())


@pytest.mark.parametrize(("error", "failures"), [(ERRORS[0], ["stream"]), (ERRORS[1], [])])
def test_only_failures_of_the_store_count_as_such(error: Exception, failures: list[str]) -> None:
    class Instruments:
        def __init__(self) -> None:
            self.failures: list[str] = []
            self.problems: list[str] = []

        def record_store_error(self, operation: str) -> None:
            self.failures.append(operation)

        def record_problem(self, code: str) -> None:
            self.problems.append(code)

    class FailingService:
        def __init__(self) -> None:
            self.instruments = Instruments()
            self.index = self

        def check_document(self, document: object) -> None:
            """Accepts every document."""

        def upsert_batch(self, *_arguments: Sequence[Any]) -> None:
            raise error

    service: Any = FailingService()
    items = [StreamItem(line, None, "a text", None) for line in (1, 2)]
    answers = _upsert_items(service, "a", items)
    codes = [answer.problem.code for answer in answers if answer.problem is not None]
    assert service.instruments.problems == codes
    assert (len(codes), service.instruments.failures) == (2, failures)
