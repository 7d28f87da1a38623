"""Tests of wrong clocks.

They delete nothing, and documents that were stored under them expire at the right time.
"""

import logging
import time
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import ClockError, StoreError
from nearkin.index.changes import Changes
from nearkin.index.clock import TOLERANCE, ClockWatch, SystemClock
from nearkin.index.maintenance import check_index
from nearkin.settings.decisions import Decision, Verdict
from tests.index.conftest import corpus, store_of

DAY = 86400.0
TTL = 90 * DAY
TEN_YEARS = 3650 * DAY


class Machine:
    """The clock of a machine, which can be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = 0.0
        self.slept = 0.0
        real = time.time
        running = time.monotonic
        monkeypatch.setattr(
            "nearkin.index.clock.time.time", lambda: real() + self.error + self.slept
        )
        monkeypatch.setattr("nearkin.index.clock.running_seconds", lambda: running() + self.slept)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def open_index(url: Any, **fields: Any) -> nk.Index:
    return nk.Index.open(url, threshold=0.7, record_ttl=TTL, bucket_ttl=TTL / 2, **fields)


def skip_without_measure_of_time(url: Any) -> None:
    if url == "memory://":
        pytest.skip("memory begins with its process; see test_a_clock_that_jumps_deletes_nothing")
    if "aerospike" in str(url):
        pytest.skip("the store gives no time")


@pytest.mark.parametrize("error", [TEN_YEARS, TTL + DAY, -TEN_YEARS])
def test_a_process_with_a_wrong_clock_deletes_nothing(
    error: float, url: Any, machine: Machine
) -> None:
    skip_without_measure_of_time(url)
    with open_index(url) as right:
        right.upsert_many("a", corpus(30))
        before = right.counts()
        machine.error = error
        with open_index(url) as wrong:
            wrong.upsert(
                "a",
                "a document that comes while the clock is wrong and is stored all the same",
                "late",
            )
            with pytest.raises(ClockError, match="nothing is swept"):
                wrong.expire()
            assert wrong.counts()["records"] == before["records"] + 1
        machine.error = 0.0
        assert right.expire() == {"records": 0, "postings": 0}
        assert right.get("a", "late") is not None
        assert check_index(right).sound


def test_a_callers_clock_that_is_ahead_deletes_nothing(url: Any) -> None:
    skip_without_measure_of_time(url)
    with open_index(url) as right, open_index(url, clock=lambda: time.time() + TEN_YEARS) as wrong:
        right.upsert_many("a", corpus(10))
        with pytest.raises(ClockError, match="nothing is swept"):
            wrong.expire()
        assert right.counts()["records"] > 5


def test_documents_get_the_time_of_the_store(url: Any, machine: Machine) -> None:
    """Otherwise another process would delete them too early, or never."""
    with open_index(url) as right:
        if not store_of(right).times():
            pytest.skip("the store has no clock of its own")
        for error in (TEN_YEARS, -TEN_YEARS):
            machine.error = error
            with open_index(url) as wrong:
                wrong.upsert("a", corpus(1, seed=int(error) % 7)[0], f"{error}")
            machine.error = 0.0
            entry = right.get("a", f"{error}")
            assert entry is not None
            assert abs(entry.seen - time.time()) < TOLERANCE
            assert entry.created == entry.seen


def test_a_corrected_clock_deletes_expired_documents_again(url: Any, machine: Machine) -> None:
    with open_index(url) as index:
        if not store_of(index).times():
            pytest.skip("the store has no clock of its own")
        index.upsert("a", corpus(1)[0], "x")
        machine.error = TEN_YEARS
        with pytest.raises(ClockError):
            index.expire()
        machine.error = 0.0
        assert index.expire() == {"records": 0, "postings": 0}
        assert abs(index._session.clock() - time.time()) < TOLERANCE


@pytest.mark.parametrize("is_empty_at_first", [False, True])
def test_documents_that_a_wrong_clock_wrote_do_not_confirm_it(
    is_empty_at_first: bool, tmp_path: Path, machine: Machine
) -> None:
    """Neither in the process that wrote them, nor in the next one of the same machine."""
    url = f"sqlite:///{tmp_path}/kin.db"
    ahead = TTL + 10 * DAY
    if not is_empty_at_first:
        with open_index(url) as right:
            right.upsert_many("a", corpus(10, seed=1))
    machine.error = ahead
    with open_index(url) as wrong:
        if is_empty_at_first:
            assert wrong.expire() == {"records": 0, "postings": 0}
            machine.error = 0.0
            with open_index(url) as right:
                right.upsert_many("a", corpus(10, seed=1))
            machine.error = ahead
        before = wrong.counts()["records"]
        wrong.upsert_many("b", corpus(30, seed=2))
        assert wrong.counts()["records"] > 2 * before
        with pytest.raises(ClockError, match="nothing is swept"):
            wrong.expire()
    with open_index(url) as wrong, pytest.raises(ClockError, match="nothing is swept"):
        wrong.sweep(60.0)
    machine.error = 0.0
    with open_index(url) as right:
        assert len(list(right.scan("a"))) == before


def test_each_time_to_live_is_compared_with_the_documents_that_it_concerns(
    tmp_path: Path, machine: Machine
) -> None:
    """Documents that left their buckets stay, and most of them are older than the shorter one."""
    url = f"sqlite:///{tmp_path}/kin.db"
    ttls = {"bucket_ttl": 10 * DAY, "record_ttl": 90 * DAY}
    texts = corpus(12)
    for week in range(12):
        machine.error = (week - 11) * 7 * DAY
        with nk.Index.open(url, threshold=0.7, **ttls) as index:
            index.upsert("a", texts[week], f"d{week}")
            index.expire()
    with nk.Index.open(url, threshold=0.7, **ttls) as index:
        assert index.counts()["records"] == 12
        assert sum(entry.posted for entry in index.scan()) < 4


def test_decisions_of_long_ago_do_not_stop_sweeps(tmp_path: Path, machine: Machine) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    machine.error = -TEN_YEARS
    with open_index(url) as index:
        index.decide("a", [Decision("x", "y", Verdict.DIFFERENT)])
    machine.error = 0.0
    with open_index(url) as index:
        index.upsert_many("a", corpus(20))
    with open_index(url) as index:
        assert index.expire() == {"records": 0, "postings": 0}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("jump", [TEN_YEARS, -TEN_YEARS])
def test_a_clock_that_jumps_deletes_nothing(
    store: str, jump: float, tmp_path: Path, machine: Machine
) -> None:
    with open_index("memory://" if store == "memory" else f"sqlite:///{tmp_path}/kin.db") as index:
        index.upsert_many("a", corpus(20))
        before = index.counts()["records"]
        machine.error = jump
        with pytest.raises(ClockError, match="has jumped"):
            index.expire()
        assert index.counts()["records"] == before


def test_a_machine_that_was_suspended_deletes_expired_documents(machine: Machine) -> None:
    """The clock of a suspended machine agrees with its uptime, so this is not a jump."""
    with open_index("memory://") as index:
        index.upsert_many("a", corpus(20))
        machine.slept = TTL + DAY
        assert index.expire()["records"] > 0
        assert index.counts()["records"] == 0


def test_an_unused_index_is_swept_when_the_clock_is_confirmed(
    tmp_path: Path, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file cannot tell a machine that was off from a wrong clock, so a person must decide."""
    url = f"sqlite:///{tmp_path}/kin.db"
    machine.error = -(TTL + DAY)
    with open_index(url) as index:
        index.upsert_many("a", corpus(20), [f"d{at}" for at in range(20)])
    machine.error = 0.0
    with open_index(url) as index:
        with pytest.raises(ClockError, match="--trust-clock"):
            index.expire()
        assert index.counts()["records"] == 20
    assert command(["index", "expire", "--store", url, "--record-ttl", "90d"]) == 1
    assert "--trust-clock" in capsys.readouterr().err
    assert command(["index", "expire", "--store", url, "--record-ttl", "90d", "--trust-clock"]) == 0
    with open_index(url) as index:
        assert index.counts()["records"] == 0


def test_a_confirmed_clock_must_still_agree_with_the_store(
    redis_port: int, machine: Machine
) -> None:
    with open_index(f"redis://127.0.0.1:{redis_port}/0?prefix=clocks") as index:
        index.upsert("a", corpus(1)[0], "x")
        machine.error = TEN_YEARS
        with pytest.raises(ClockError, match="differs from that of the store"):
            index.expire(trust_clock=True)
        assert index.get("a", "x") is not None


def test_a_document_with_a_future_time_is_corrected_by_a_hit(
    tmp_path: Path, machine: Machine
) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with open_index(url) as index:
        index.upsert_many("b", corpus(10))
    machine.error = TEN_YEARS
    with open_index(url) as index:
        index.upsert("a", corpus(1)[0], "x")
    machine.error = 0.0
    with open_index(url) as index:
        index.upsert("a", corpus(1)[0], "x")
        entry = index.get("a", "x")
        assert entry is not None
        assert abs(entry.seen - time.time()) < TOLERANCE


def test_a_process_with_a_wrong_clock_does_not_keep_others_from_sweeping(
    redis_port: int, machine: Machine
) -> None:
    url = f"redis://127.0.0.1:{redis_port}/0?prefix=clocks3"
    with open_index(url) as wrong, open_index(url) as right:
        wrong.upsert("a", corpus(1)[0], "x")
        machine.error = TEN_YEARS
        with pytest.raises(ClockError):
            wrong.sweep(60.0)
        machine.error = 0.0
        entry = right.get("a", "x")
        assert entry is not None
        store_of(right).apply(Changes(changed=[entry._replace(seen=time.time() - TTL - DAY)]))
        assert right.sweep(60.0)["records"] == 1


def test_a_wrong_clock_is_logged_once(
    redis_port: int, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        open_index(f"redis://127.0.0.1:{redis_port}/0?prefix=clocks2") as index,
        caplog.at_level(logging.WARNING),
    ):
        machine.error = TEN_YEARS
        for _ in range(3):
            index.refresh()
        assert [record.name for record in caplog.records] == ["nearkin.clock"]


def test_a_store_that_cannot_report_its_time_is_an_error() -> None:
    class Silent:
        url = "silent://"

        def times(self) -> list[float]:
            raise StoreError("no answer")

    with pytest.raises(StoreError, match="no answer"):
        ClockWatch(SystemClock(), Silent())
