"""Tests of documents that arrive in parts."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearkin.errors import UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import Entry
from nearkin.index.index import Index
from nearkin.index.maintenance import check_index
from nearkin.index.migration.copy import Copier
from nearkin.index.migration.cutover import fill_copy
from nearkin.index.parts import parts_scope
from nearkin.index.stores.base import Store
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.builder import MinHashBuilder
from tests.index.conftest import (
    Clock,
    KilledError,
    Opener,
    preparer_of,
    replace_store,
    store_of,
)

PIECES = [
    "the cat sat on the mat and looked",
    "a dog lay on a rug all day long",
    "birds sang in the old tree",
]


def test_parts_make_one_document(opened: Opener) -> None:
    with opened(threshold=0.5) as index:
        for piece in PIECES:
            size = index.add_part("a", "one", piece)
        assert index.add_part("a", "one", PIECES[0]) == size, (
            "a piece that comes twice changes nothing"
        )
        assert index.get("a", "one") is None, "it is not resolved yet"
        sealed = index.finish("a", "one")
        assert sealed is not None
        assert sealed.kind == "new"
        entry = index.get("a", "one")
        assert entry is not None
        assert entry.size == size
        running = MinHashBuilder(index.spec).update(*PIECES).snapshot()
        assert np.array_equal(np.frombuffer(entry.signature, np.uint32), running)
        assert index.finish("a", "one") is None
        assert index.add_part("a", "two", PIECES[2]) < size
        for piece in PIECES[:2]:
            index.add_part("a", "two", piece)
        again = index.finish("a", "two")
        assert again is not None
        assert (again.kind, again.representative, again.similarity) == ("match", "one", 1.0)
        assert index.add_part("b", "one", "another scope") == 1
        assert check_index(index).sound


def test_a_removed_document_that_is_not_finished_does_not_return(opened: Opener) -> None:
    with opened(threshold=0.5) as index:
        for stored in (False, True):
            if stored:
                index.upsert("a", " ".join(PIECES), "doc")
            for piece in PIECES:
                index.add_part("a", "doc", piece)
            index.add_part("a", "other", PIECES[0])
            assert index.remove("a", "doc")
            assert not index.remove("a", "doc")
            assert index.finish("a", "doc") is None
            assert index.get("a", "doc") is None
        assert index.finish("a", "other") is not None


def test_parts_of_single_tokens_equal_the_whole_document() -> None:
    spec = Spec(unit="words", n=1)
    with Index.open("memory://", spec=spec, threshold=0.5) as index:
        words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
        index.add_part("a", "pieces", words[:3])
        index.add_part("a", "pieces", words[3:])
        whole = index.upsert("a", " ".join(words), "whole")
        sealed = index.finish("a", "pieces")
        assert whole.kind == "new"
        assert sealed is not None
        assert (sealed.representative, sealed.similarity) == ("whole", 1.0)


@pytest.mark.parametrize("spec", [Spec(measure="simhash"), Spec(measure="weighted-jaccard")])
def test_measures_without_mergeable_documents_refuse_parts(spec: Spec) -> None:
    with (
        Index.open("memory://", spec=spec, threshold=0.98) as index,
        pytest.raises(UsageError, match=spec.measure),
    ):
        index.add_part("a", "one", "some text")


def test_truncated_slots_and_probes_support_parts() -> None:
    for fields in ({"spec": Spec(slot_bits=8)}, {"bands": 13, "rows": 7, "probes": 2}):
        with Index.open("memory://", threshold=0.6, **fields) as index:
            for name in ("one", "two"):
                for piece in PIECES:
                    index.add_part("a", name, piece)
            first, second = index.finish("a", "one"), index.finish("a", "two")
            assert first is not None
            assert second is not None
            assert second.representative == "one"


def test_parts_are_limited_in_size_and_expire() -> None:
    now = [0.0]
    with Index.open("memory://", max_document=400, record_ttl=10.0, clock=lambda: now[0]) as index:
        for i in range(5):
            index.add_part("a", "one", " ".join(f"w{i}x{j}" for j in range(12)))
        with pytest.raises(UsageError, match="max_document"):
            index.add_part("a", "one", "and one more")
        assert index.get(parts_scope("a"), "one") is not None
        now[0] = 11.0
        index.expire()
        assert index.finish("a", "one") is None


def test_an_index_without_texts_is_rebuilt_if_shingles_are_equal(tmp_path: Path) -> None:
    with Index.open(f"sqlite:///{tmp_path}/a.db", threshold=0.8, store_text=False) as live:
        live.upsert_many("a", PIECES, ["1", "2", "3"])
        live.add_part("a", "open", PIECES[0])
        with Index.open(
            f"sqlite:///{tmp_path}/b.db",
            threshold=0.6,
            store_text=False,
            spec=Spec(k=64),
            follow=False,
        ) as anew:
            fill_copy(live, anew)
            assert check_index(anew).sound
            assert anew.upsert("a", PIECES[1], "2").kind == "exact"
            assert anew.finish("a", "open") is not None
        with (
            Index.open(
                f"sqlite:///{tmp_path}/c.db", store_text=False, spec=Spec(n=2), follow=False
            ) as other,
            pytest.raises(UsageError, match="other shingles"),
        ):
            fill_copy(live, other)


def test_a_copy_keeps_unfinished_documents(tmp_path: Path) -> None:
    """Two unfinished documents that are similar are not resolved to each other in a copy."""
    with Index.open(f"sqlite:///{tmp_path}/a.db", threshold=0.8) as live:
        texts = [f"document {i} of its own with number {i * 7919}" for i in range(120)]
        live.upsert_many("a", texts, [str(i) for i in range(120)])
        for name in ("one", "two"):
            for piece in PIECES:
                live.add_part("a", name, f"{piece} {name}")
        with Index.open(
            f"sqlite:///{tmp_path}/b.db", threshold=0.4, follow=False, max_batch=50
        ) as anew:
            fill_copy(live, anew)
            assert check_index(anew).sound
            parts = anew.get_many(parts_scope("a"), ["one", "two"])
            assert [(entry.leader, entry.posted) for entry in parts if entry is not None] == [
                ("one", False),
                ("two", False),
            ]
            assert anew.add_part("a", "one", "and one more piece") > 0
            first, second = anew.finish("a", "one"), anew.finish("a", "two")
            assert first is not None
            assert second is not None
            assert (first.kind, second.kind, second.representative) == ("new", "match", "one")
            assert check_index(anew).sound


def _part(number: int, words: int = 12) -> str:
    return " ".join(f"w{number}x{word}" for word in range(words))


def test_many_parts_make_the_document_of_their_union(opened: Opener) -> None:
    with opened(threshold=0.5) as index:
        parts = [_part(number % 50) for number in range(70)]
        sizes = [index.add_part("a", "one", part) for part in parts]
        assert sizes[:50] == [10 * (number + 1) for number in range(50)]
        # shingles of parts that were merged may be counted again when they come again
        assert 500 <= sizes[-1] <= 700
        outcome = index.finish("a", "one")
        assert outcome is not None
        entry = index.get("a", "one")
        assert entry is not None
        assert entry.size == 500
        running = MinHashBuilder(index.spec).update(*parts).snapshot()
        assert np.array_equal(np.frombuffer(entry.signature, np.uint32), running)
        assert index.get(parts_scope("a"), "one") is None
        assert [found.id for found in index.scan(parts_scope("a"))] == []
        assert check_index(index).sound


def test_a_part_reads_and_writes_no_other_parts() -> None:
    """The bytes of a document of n parts grow with n·log(n), not with its square."""
    written: list[int] = []
    for count in (256, 1024):
        with Index.open("memory://", threshold=0.5) as index:
            recorder = _ByteRecorder(store_of(index))
            replace_store(index, recorder)
            for number in range(count):
                index.add_part("a", "one", _part(number))
            written.append(recorder.bytes)
            whole = 8 * 10 * count
            # each shingle is written once a level, and the list of names with each part
            assert recorder.bytes < 3 * whole + 4000 * count
    # sixteen times as much if each part wrote all parts before it
    assert written[1] < 8 * written[0]


class _ByteRecorder:
    """A store that counts the payload that is written and read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.bytes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def apply(self, changes: Changes) -> list[int]:
        self.bytes += sum(len(entry.payload) for entry, _ in changes.new)
        return self._store.apply(changes)

    def entries(self, scope: str, ids: list[str]) -> list[Entry | None]:
        entries = self._store.entries(scope, ids)
        self.bytes += sum(len(entry.payload) for entry in entries if entry is not None)
        return entries


def test_a_kill_between_parts_loses_nothing_acknowledged(opened: Opener) -> None:
    """Each step of the 40th part fails in turn, before or after it was written."""
    parts = [_part(number) for number in range(40)]
    for written in (False, True):
        for failing in range(4):
            scope = f"{failing}{written}"
            with opened(threshold=0.5) as index:
                for part in parts[:39]:
                    index.add_part(scope, "one", part)
                killer = _Killer(store_of(index), failing, written=written)
                replace_store(index, killer)
                with suppress(KilledError):
                    index.add_part(scope, "one", parts[39])
                replace_store(index, killer.store)
                # the caller repeats what was not acknowledged
                assert index.add_part(scope, "one", parts[39]) == 400
                assert index.finish(scope, "one") is not None
                entry = index.get(scope, "one")
                assert entry is not None
                assert entry.size == 400


class _Killer:
    """A store whose process is killed at a step, before or after the step is written."""

    def __init__(self, store: Store, failing: int, *, written: bool) -> None:
        self.store = store
        self._left = failing
        self._written = written

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    def apply(self, changes: Changes) -> list[int]:
        self._left -= 1
        if self._left >= 0:
            return self.store.apply(changes)
        if self._written:
            self.store.apply(changes)
        raise KilledError


def test_parts_of_two_processes_make_one_document(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    with Index.open(url, threshold=0.5) as index, Index.open(url, threshold=0.5) as other:

        def add(which: Index, start: int) -> None:
            for number in range(start, 60, 2):
                which.add_part("a", "one", _part(number))

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(add, index, 0), pool.submit(add, other, 1)]:
                done.result()
        assert index.finish("a", "one") is not None
        entry = other.get("a", "one")
        assert entry is not None
        assert entry.size == 600


def test_parts_live_as_long_as_their_document(opened: Opener, clock: Clock) -> None:
    index = opened(threshold=0.5, record_ttl=100.0)
    index.add_part("a", "one", _part(1))
    clock.now += 90
    index.add_part("a", "one", _part(2))
    clock.now += 20
    index.expire()
    assert index.add_part("a", "one", _part(3)) == 30
    clock.now += 110
    assert index.expire()["records"] == 4
    assert index.finish("a", "one") is None


def test_an_unfinished_document_of_an_older_version_is_continued(opened: Opener) -> None:
    index = opened(threshold=0.5)
    shingled = preparer_of(index).shingle(pa.array([_part(1)], pa.large_string()))
    place = parts_scope("a")
    old = Entry(
        scope=place,
        id="one",
        ref=0,
        digest=preparer_of(index).digest(shingled),
        leader="one",
        cluster="one",
        similarity=1.0,
        size=10,
        created=clock_of(index),
        seen=clock_of(index),
        posted=False,
        signature=b"",
        text=None,
        payload=shingled.hashes.tobytes(),
    )
    for id in ("one", "two"):
        entry = old._replace(id=id, leader=id, cluster=id)
        store_of(index).apply(Changes(new=[KeyedEntry(entry, None)]))
    assert index.add_part("a", "one", _part(2)) == 20
    for id, size in (("one", 20), ("two", 10)):
        assert index.finish("a", id) is not None
        entry_of_id = index.get("a", id)
        assert entry_of_id is not None
        assert entry_of_id.size == size


def clock_of(index: Index) -> float:
    """Returns the time of an index's clock."""
    return index._session.clock()


def test_a_copy_of_one_unfinished_document_has_its_parts(tmp_path: Path) -> None:
    """A shadow index copies documents by their ids, as they change."""
    with (
        Index.open(f"sqlite:///{tmp_path}/a.db", threshold=0.5) as live,
        Index.open(f"sqlite:///{tmp_path}/b.db", threshold=0.5) as copy,
    ):
        for number in range(40):
            live.add_part("a", "one", _part(number))
            if number in (5, 39):
                Copier.between(live, copy).copy_documents([(parts_scope("a"), "one")])
        assert len(list(copy.scan())) == len(list(live.scan()))
        assert copy.finish("a", "one") is not None
        entry = copy.get("a", "one")
        assert entry is not None
        assert entry.size == 400
        live.finish("a", "one")
        copy.add_part("a", "one", _part(1))
        Copier.between(live, copy).copy_documents([(parts_scope("a"), "one")])
        assert list(copy.scan(parts_scope("a"))) == []
