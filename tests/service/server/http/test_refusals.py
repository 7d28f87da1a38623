"""Tests of the pauses before the answers to invalid requests."""

import asyncio
from pathlib import Path

import pytest

from nearkin.service.server.http.callers import UNKNOWN_CALLER, Caller
from nearkin.service.server.http.refusals import LONGEST, PAUSE, Pauses
from tests.service.server.exchange import run, running


def test_answers_to_invalid_requests_of_one_caller_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    callers = [Caller(name) for name in ("a", "a", "b", "a", *["c"] * 500)]
    waited: list[float] = []

    async def test() -> None:
        all_wait = asyncio.Event()

        async def sleep(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == len(callers):
                all_wait.set()
            await all_wait.wait()

        monkeypatch.setattr(asyncio, "sleep", sleep)
        pauses = Pauses()
        free = [UNKNOWN_CALLER, Caller("this machine", unshared=True)] * 2
        await asyncio.gather(*map(pauses.wait, [*free, *callers]))
        assert not pauses._waiting

    run(test())
    assert waited[:4] == [0.0, PAUSE, 0.0, 2 * PAUSE]
    assert max(waited) == LONGEST


@pytest.mark.promise("Many invalid requests of one caller wait for each other.")
def test_invalid_requests_pause_and_valid_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[str] = []

    async def wait(self: Pauses, caller: Caller) -> None:
        paused.append(caller.key)

    monkeypatch.setattr(Pauses, "wait", wait)

    async def test() -> None:
        async with running(tmp_path, "one", "other") as app:
            query = "/v1/scopes/one/query"
            for body in (b'{"texd": "a"}', b"{", b'{"text": "a b c"}'):
                await (await app.post("one", query, body)).status()
            await (await app.post("other", "/v1/scopes/other/query", b"{}")).status()

    run(test())
    assert paused == ["token one", "token one", "token other"]
