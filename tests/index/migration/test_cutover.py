"""Tests of an index that moves to another store while it is in use, and of the way back.

Nothing that was acknowledged is missing afterwards.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import IncompatibleError, RacedError, StoreError, UsageError
from nearkin.index.maintenance import check_index
from nearkin.index.migration.cutover import PhaseWriter, cut_back, cut_over, rebuild
from nearkin.index.migration.state import CLOSING, COPYING, FILLING, MOVED, OPEN, MigrationState
from nearkin.index.session import REFRESH_SECONDS
from nearkin.index.stores.urls import recorded_url, with_passwords
from tests.index.conftest import (
    STORES,
    Clock,
    Opener,
    corpus,
    empty_store,
    replace_store,
    store_of,
)
from tests.index.failing import Failing
from tests.index.processes import change_and_remove, start_process

Url = "str | list[str]"
OTHER = nk.Spec(n=2)


class Writer:
    """A process that upserts, changes and removes documents, and reports what was acknowledged."""

    def __init__(self, url: Any, name: str, seed: int) -> None:
        self.worker = start_process(change_and_remove, url, name, seed)
        self.holds: dict[str, str] = {}
        self.gone: set[str] = set()
        self.place, self.steps = "", 0
        self._go_on = True
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                done = self.worker.pipe.recv()
                if done is None:
                    self.worker.pipe.send(self._go_on)
                    continue
                what, name, text, self.place = done
                self.steps += 1
                if what == "has":
                    self.holds[name] = text
                    self.gone.discard(name)
                else:
                    del self.holds[name]
                    self.gone.add(name)

    def wait_for(self, steps: int, place: str = "") -> None:
        """Waits until the process has done a number of further steps, in a given store."""
        until = self.steps + steps
        while self.steps < until or place not in self.place:
            assert self.worker.process.is_alive()
            self._thread.join(0.01)

    def end(self) -> None:
        self._go_on = False
        self._thread.join()
        self.worker.end()

    def kill(self) -> None:
        self.worker.kill()
        self._thread.join()


@contextmanager
def writing(url: Any, *names: str) -> Iterator[list[Writer]]:
    writers = [Writer(url, name, seed) for seed, name in enumerate(names, 40)]
    try:
        yield writers
    finally:
        for writer in writers:
            writer.kill()


def assert_holds(index: nk.Index, wanted: dict[str, str]) -> None:
    stored = {entry.id: entry.text for entry in index.scan("a")}
    assert set(stored) == set(wanted)
    assert stored == wanted
    checked = check_index(index)
    assert checked.sound, checked.problems[:3]


# one case with shards runs over the three kinds of stores together; alone, they locate a failure
@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        pytest.param("redis", marks=pytest.mark.full),
        pytest.param("postgres", marks=pytest.mark.full),
        "sharded",
    ],
)
def test_processes_follow_a_cutover_and_the_way_back(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, full: bool
) -> None:
    """Two processes write during the cutover, and during the way back."""
    url, target = (empty_store(kind, request, tmp_path) for _ in range(2))
    texts = corpus(300 if full else 100, seed=9)
    expected = {f"d{i}": text for i, text in enumerate(texts)}
    live = nk.Index.open(url, threshold=0.7)
    live.upsert_many("a", texts, list(expected))
    with writing(url, "x", "y") as writers, live:
        for writer in writers:
            writer.wait_for(10)
        with nk.Index.open(target, OTHER, 0.6, follow=False) as new_index:
            there = " ".join(new_index.public_urls)
            report = cut_over(live, new_index, wait=0)
        assert report["moved_to"] == there == " ".join(live.public_urls)
        assert (live.spec, live.threshold) == (OTHER, 0.6)
        for writer in writers:
            writer.wait_for(20, there)
        back = cut_back(url, wait=0)
        here = back["moved_to"]
        for writer in writers:
            writer.wait_for(20, here)
            writer.end()
        for writer in writers:
            expected |= writer.holds
            assert not writer.gone & set(expected)
    with nk.Index.open(target) as index:
        assert " ".join(index.public_urls) == here
        assert index.spec == nk.Spec()
        assert_holds(index, expected)


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "memory"])
def test_threads_follow_a_cutover_from_memory(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, full: bool
) -> None:
    """The threads of one index write and read during a cutover to another kind of store."""
    least = 200 if full else 20
    pause = 0 if full else 0.01
    target = empty_store(kind, request, tmp_path)
    expected = {}
    failed = []
    ended = threading.Event()
    with nk.Index.open("memory://", threshold=0.7) as live:

        def write(name: str, texts: list[str]) -> None:
            try:
                for at, text in enumerate(texts):
                    live.upsert(name, text, f"{name}{at}")
                    expected[name, f"{name}{at}"] = text
                    assert live.query(name, text, 1)[0].similarity == 1.0
                    assert live.cluster(name, f"{name}{at}") is not None
                    # the cutover, which copies what is written meanwhile, is given the processor
                    if ended.wait(pause) and at > least:
                        break
            except (StoreError, UsageError, AssertionError) as error:
                failed.append(error)

        threads = [
            threading.Thread(target=write, args=(name, corpus(3000, seed=ord(name), share=0.0)))
            for name in "abc"
        ]
        for thread in threads:
            thread.start()
        with nk.Index.open(target, OTHER, 0.6, follow=False) as new_index:
            cut_over(live, new_index, wait=0)
            assert live.public_urls == new_index.public_urls
        ended.set()
        for thread in threads:
            thread.join()
        assert failed == []
        assert {(entry.scope, entry.id): entry.text for entry in live.scan()} == expected
        assert check_index(live).sound


@pytest.mark.parametrize("kind", ["sqlite", "aerospike"])
def test_openings_follow_a_cutover_from_aerospike(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The cluster is simulated in this process, so threads with indexes of their own replace
    processes.
    """
    url, target = (empty_store(one, request, tmp_path) for one in ("aerospike", kind))
    expected: dict[str, str] = {}
    failed: list[Exception] = []
    ended = threading.Event()

    def write(name: str, texts: list[str]) -> None:
        try:
            with nk.Index.open(url) as index:
                for at, text in enumerate(texts):
                    index.upsert("a", text, f"{name}{at}")
                    expected[f"{name}{at}"] = text
                    if at % 5 == 4:
                        del expected[f"{name}{at - 2}"]
                        index.remove("a", f"{name}{at - 2}")
                    if ended.is_set() and at > 30:
                        break
        except (StoreError, UsageError) as error:
            failed.append(error)

    with nk.Index.open(url, threshold=0.7) as live:
        threads = [
            threading.Thread(target=write, args=(name, corpus(3000, seed=ord(name))))
            for name in "abc"
        ]
        for thread in threads:
            thread.start()
        with nk.Index.open(target, OTHER, 0.6, follow=False) as new_index:
            cut_over(live, new_index, wait=0)
        ended.set()
        for thread in threads:
            thread.join()
        assert failed == []
        assert_holds(live, expected)


def test_readers_follow_a_cutover_at_the_next_refresh(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> None:
    url, target = (empty_store("sqlite", request, tmp_path) for _ in range(2))
    text = corpus(1)[0]
    with nk.Index.open(url, threshold=0.7) as live, nk.Index.open(url, clock=clock) as reader:
        live.upsert("a", text, "x")
        with nk.Index.open(target, OTHER, 0.6, follow=False) as new_index:
            cut_over(live, new_index, wait=0)
        live.upsert("a", text + " and more", "y")
        assert reader.get("a", "y") is None
        clock.now += REFRESH_SECONDS
        assert reader.get("a", "y") is not None
        assert reader.public_urls == live.public_urls
        assert reader.cluster("a", "x") is not None
        assert [match.id for match in reader.query("a", text)][:1] == ["x"]
        assert reader.stats()["threshold"] == 0.6


def moved(request: pytest.FixtureRequest, folder: Path) -> tuple[str, str]:
    """Returns the URL of an index with a document, and the URL of the store that it moved to."""
    url, target = (str(empty_store("sqlite", request, folder)) for _ in range(2))
    with (
        nk.Index.open(url, threshold=0.7) as live,
        nk.Index.open(target, OTHER, 0.6, follow=False) as new_index,
    ):
        live.upsert("a", corpus(1)[0], "x")
        cut_over(live, new_index, wait=0)
    return url, target


def test_settings_from_before_a_cutover_open_the_new_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url, _ = moved(request, tmp_path)
    for fields in ({"threshold": 0.7, "spec": nk.Spec()}, {"threshold": 0.6, "spec": OTHER}, {}):
        with nk.Index.open(url, **fields) as index:
            assert (index.spec, index.threshold) == (OTHER, 0.6)
            assert index.get("a", "x") is not None
    with pytest.raises(IncompatibleError, match=r"threshold=0.6"):
        nk.Index.open(url, threshold=0.9)


def test_a_migration_loop_is_reported(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url, target = moved(request, tmp_path)
    with nk.Index.open(target, follow=False) as index:
        store_of(index).redirect(MigrationState(9, MOVED, (recorded_url(url),)))
        with pytest.raises(
            StoreError, match=r"migration loop detected: .*index\d+.db.* -> .*--cut-back"
        ):
            nk.Index.open(url)
        store_of(index).redirect(MigrationState(10, MOVED, (recorded_url(target),)))
        with pytest.raises(StoreError, match="migration loop detected"):
            nk.Index.open(target)


def test_stores_that_an_index_cannot_move_to_are_refused(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url, target = (str(empty_store("sqlite", request, tmp_path)) for _ in range(2))
    with nk.Index.open(url, threshold=0.7) as live:
        live.upsert("a", corpus(1)[0], "x")
        with (
            nk.Index.open("memory://", follow=False) as new_index,
            pytest.raises(UsageError, match="cannot move to memory://"),
        ):
            cut_over(live, new_index, wait=0)
        with (
            nk.Index.open(url, follow=False) as new_index,
            pytest.raises(UsageError, match="cannot move to"),
        ):
            cut_over(live, new_index, wait=0)
        with nk.Index.open(target, follow=False) as new_index:
            new_index.upsert("a", corpus(1)[0], "other")
            with pytest.raises(UsageError, match="already has documents"):
                cut_over(live, new_index, wait=0)
        assert store_of(live).state().migration.phase == OPEN
    with pytest.raises(UsageError, match="has not been moved"):
        cut_back(url)


def test_a_failed_cutover_leaves_the_index_in_its_store(
    opened: Opener, request: Any, tmp_path: Path
) -> None:
    live, texts = opened(), corpus(1200, share=0.1)
    target = empty_store("sqlite", request, tmp_path)
    live.upsert_many("a", texts, [f"d{i}" for i in range(1200)])
    with nk.Index.open(target, OTHER, 0.6, follow=False) as new_index:
        store = store_of(new_index)
        replace_store(new_index, Failing(store, 2))
        with pytest.raises(StoreError, match="connection lost"):
            cut_over(live, new_index, wait=0)
        replace_store(new_index, store)
        assert 0 < store.counts()["records"] < 1200
        assert (store_of(live).state().migration.phase, store.state().migration.phase) == (
            OPEN,
            FILLING,
        )
    live.upsert("a", texts[0] + " changed", "d0")
    live.remove("a", "d1")
    with nk.Index.open(target) as early, pytest.raises(StoreError, match="is being filled from"):
        early.upsert("a", "too early", "d")
    with nk.Index.open(target, OTHER, 0.6, follow=False) as new_index:
        report = cut_over(live, new_index, wait=0)
    assert report["documents"] == live.counts()["records"] == 1199
    assert check_index(live).sound
    kept = live.get("a", "d0")
    assert kept is not None
    assert kept.text == texts[0] + " changed"


def test_one_of_two_simultaneous_cutovers_fails(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one raises the epoch, which the first one then meets."""
    url, target = (empty_store("sqlite", request, tmp_path) for _ in range(2))
    with (
        nk.Index.open(url, threshold=0.7) as live,
        nk.Index.open(target, OTHER, 0.6, follow=False) as new_index,
    ):
        live.upsert("a", corpus(1)[0], "x")
        monkeypatch.setattr(
            "nearkin.index.migration.cutover.LogFollower.copy_until_few",
            lambda *_: store_of(live).redirect(MigrationState(7, COPYING, ("other",))),
        )
        with pytest.raises(StoreError, match="in epoch 7 already"):
            cut_over(live, new_index, wait=0)
        assert store_of(live).state().migration == MigrationState(7, COPYING, ("other",))


@pytest.mark.parametrize("phase", [COPYING, CLOSING, FILLING])
def test_an_interrupted_migration_is_ended_by_cut_back(
    phase: str, request: Any, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    url = str(empty_store("sqlite", request, tmp_path))
    monkeypatch.setattr("nearkin.index.session.MAX_PAUSE_SECONDS", 0.1)
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert("a", corpus(1)[0], "x")
        store_of(index).redirect(MigrationState(1, phase, ("sqlite:////there.db",)))
        if phase != COPYING:
            with pytest.raises(StoreError, match="--cut-back"):
                index.upsert("a", corpus(2)[1], "y")
        assert index.query("a", corpus(1)[0])[0].id == "x"
        assert command(["index", "rebuild", "--store", url, "--cut-back", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["was"] == phase
        assert index.upsert("a", corpus(2)[1], "y").id == "y"


def test_rebuild_with_cut_over_and_cut_back_from_the_command_line(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("nearkin.index.migration.cutover.REFRESH_SECONDS", 0.0)
    url, target = (str(empty_store("sqlite", request, tmp_path)) for _ in range(2))
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert_many("default", corpus(30), [f"d{i}" for i in range(30)])

    def result_of(*line: str, code: int = 0) -> dict:
        assert command(["index", *line, "--json"]) == code
        out = capsys.readouterr()
        return json.loads(out.out) if code == 0 else {"error": out.err}

    report = result_of(
        "rebuild", "--store", url, "--to", target, "--shingle", "words:2", "--cut-over"
    )
    assert (report["documents"], report["moved_to"]) == (30, target)
    assert report["spec_before"] != report["spec_after"]
    assert result_of("info", "--store", url)["url"] == target
    result_of("remove", "d3", "--store", url)
    # as after a kill at the very end: nothing is left to do
    again = result_of(
        "rebuild", "--store", url, "--to", target, "--shingle", "words:2", "--cut-over"
    )
    assert (again["documents"], again["moved_to"]) == (29, target)
    assert (again["spec_before"], again["spec_after"]) == (
        report["spec_before"],
        report["spec_after"],
    )
    assert (
        "cannot move to"
        in result_of("rebuild", "--store", url, "--to", target, "--cut-over", code=2)["error"]
    )
    back = result_of("rebuild", "--store", url, "--cut-back")
    assert (back["documents"], back["removed_meanwhile"], back["moved_to"]) == (29, 0, url)
    assert result_of("info", "--store", target)["records"] == 29
    assert "not been moved" in result_of("rebuild", "--store", url, "--cut-back", code=2)["error"]
    assert (
        "exclude each other"
        in result_of("rebuild", "--store", url, "--to", target, "--cut-back", code=2)["error"]
    )
    assert "give an empty store" in result_of("rebuild", "--store", url, code=2)["error"]


def test_a_move_that_lacks_only_its_note_is_completed(tmp_path: Path) -> None:
    """The process was killed after it had opened the complete copy, with the source closed."""
    url, target = (f"sqlite:///{tmp_path}/{name}.db" for name in ("kin", "next"))
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert_many("a", corpus(30), [f"d{i}" for i in range(30)])
    rebuild(url, target, {"n": 2}, None, None)
    with nk.Index.open(target) as copy:
        copy.upsert("a", "a document that only the new store has", "own")
    with nk.Index.open(url) as index:
        epoch = store_of(index).state().migration.epoch
        store_of(index).redirect(MigrationState(epoch + 1, CLOSING, (recorded_url(target),)))
    result = rebuild(url, target, {"n": 2}, None, None, cuts_over=True)
    assert (result["documents"], result["moved_to"]) == (31, recorded_url(target))
    with nk.Index.open(url) as index:
        assert index.public_urls == (recorded_url(target),)
        assert index.get("a", "own") is not None


def test_a_complete_rebuild_is_reported_again(tmp_path: Path) -> None:
    url, target = (f"sqlite:///{tmp_path}/{name}.db" for name in ("kin", "next"))
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert_many("a", corpus(30), [f"d{i}" for i in range(30)])
    report = rebuild(url, target, {"n": 2}, None, None)
    assert rebuild(url, target, {"n": 2}, None, None) == report
    with pytest.raises(IncompatibleError):
        rebuild(url, target, {"n": 3}, None, None)
    with nk.Index.open(target) as copy:
        copy.upsert("a", "a document that only the new store has", "own")
    with pytest.raises(UsageError, match="already has documents"):
        rebuild(url, target, {"n": 2}, None, None)


def test_passwords_are_not_stored(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    port = request.getfixturevalue("postgres_port")
    urls = [
        f"postgresql://nearkin:secret@127.0.0.1:{port}/postgres?schema=secrets{number}"
        for number in (1, 2)
    ]
    with (
        nk.Index.open(urls[0], threshold=0.7) as live,
        nk.Index.open(urls[1], OTHER, follow=False) as new_index,
    ):
        cut_over(live, new_index, wait=0)
        assert "secret@" not in repr(live.public_urls)
        assert live._session.urls == (urls[1],)
    with nk.Index.open(urls[0]) as index:
        assert index.url == recorded_url(urls[1]).replace("nearkin@", "").partition("?")[0]
        assert index._session.urls == (urls[1],)
    assert with_passwords(["redis://other/0"], ["redis://:secret@db/0"]) == ("redis://other/0",)


def test_a_rebuild_changes_the_key(tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    old, new = nk.HashKey(bytes(16)), nk.HashKey(bytes(range(16)))
    spec = nk.Spec(base_hash="siphash", key_id=old.id)
    texts = corpus(40)
    with nk.Index.open(source, spec, 0.7, resources=nk.SpecResources(old)) as index:
        before = [
            outcome.representative
            for outcome in index.upsert_many("a", texts, [str(i) for i in range(40)])
        ]
    with pytest.raises(UsageError, match="do not know the new key"):
        rebuild(source, target, {}, None, old, cuts_over=True, new_secret=new)
    counts = rebuild(source, target, {}, None, old, new_secret=new)
    assert counts["documents"] == 40
    with nk.Index.open(target, resources=nk.SpecResources(new)) as index:
        assert index.spec.key_id == new.id
        assert [entry.leader for entry in index.scan()] == before
        assert check_index(index).sound


def test_a_rebuild_with_other_shingles_needs_texts(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = empty_store("sqlite", request, tmp_path)
    with nk.Index.open(url, threshold=0.7, store_text=False) as index:
        index.upsert("a", "one two three four")
    assert (
        command(
            [
                "index",
                "rebuild",
                "--store",
                url,
                "--to",
                f"sqlite:///{tmp_path}/next.db",
                "--shingle",
                "words:2",
            ]
        )
        == 2
    )
    with nk.Index.open(url) as index, pytest.raises(UsageError, match="is not stored"):
        index.explain("a", *([entry.id for entry in index.scan()] * 2))


def test_a_migration_that_is_refused_leaves_the_other_one_as_it_is() -> None:
    with nk.Index.open("memory://") as index:
        store = store_of(index)
        with PhaseWriter(store) as phases:
            late = PhaseWriter(store)
            phases.write(COPYING, ("first",))
            with pytest.raises(RacedError, match="in epoch 1 already"), late:
                late.write(COPYING, ("second",))
            phases.write(CLOSING, ("first",))
        assert store.state().migration == MigrationState(2, CLOSING, ("first",))
