"""Reads and writes of an index stay bounded, however many documents it has."""

import itertools
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

import nearkin as nk
from nearkin.errors import StoreError
from nearkin.index.changes import TOUCHED, Changes, KeyedEntry
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index
from nearkin.index.migration.state import COPYING, MOVED, OPEN, STOPPED, MigrationState
from nearkin.index.opening import FORMAT
from nearkin.index.stores import memory, postgres, redis, sqlite
from nearkin.index.stores.sharded import ShardedStore
from nearkin.measures.base import as_stored
from tests.index.conftest import Clock, Opener, corpus, empty_store, near, words
from tests.services import redis_server, wait_until

SQL = ("sqlite", "postgres")


class Meter:
    """Counts the entries that stores read, and the bytes of their content."""

    def __init__(self) -> None:
        self.entries = 0
        self.content = 0

    def counted(self, entry: Entry) -> Entry:
        self.entries += 1
        self.content += len(entry.signature) + len(entry.text or "") + len(entry.payload)
        return entry

    def reset(self) -> None:
        self.entries = self.content = 0


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    found = Meter()

    def count(module: Any, name: str) -> None:
        made = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *values: found.counted(made(*values)))

    for module, names in (
        (sqlite, ["_entry"]),
        (postgres, ["_entry"]),
        (memory, ["unpack_entry", "unpack_head"]),
        (redis, ["unpack_entry", "unpack_head"]),
    ):
        for name in names:
            count(module, name)
    return found


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> int:
    """Portions of seven entries, so that a hundred documents are many."""
    for module in (sqlite, postgres, memory, redis):
        monkeypatch.setattr(module, "PORTION", 7)
    return 7


def bounded(url: "str | list[str]") -> bool:
    """Returns whether the store has indexes for this; Aerospike scans its records."""
    return not str(url).startswith("aerospike")


def shards(url: "str | list[str]") -> int:
    return 1 if isinstance(url, str) else len(url)


def family(members: int, seed: int = 5) -> dict[str, str]:
    """A representative, `base`, and documents that resemble it and each other."""
    rng = np.random.Generator(np.random.PCG64(seed))
    base = words(rng, 60)
    texts = {"base": " ".join(base)}
    return texts | {
        f"m{number:04d}": " ".join(near(base, rng, 1 + number % 3)) for number in range(members)
    }


def fill(index: nk.Index, texts: dict[str, str], scope: str = "a") -> None:
    for name in list(texts)[:1]:
        index.upsert(scope, texts[name], name)
    rest = list(texts)[1:]
    for start in range(0, len(rest), 50):
        some = rest[start : start + 50]
        index.upsert_many(scope, [texts[name] for name in some], some)


# -- clusters


def test_one_page_of_a_cluster_reads_that_page(opened: Opener, url: Any, meter: Meter) -> None:
    index = opened(threshold=0.6)
    fill(index, family(60))
    whole = index.cluster("a", "base")
    assert whole is not None
    assert len(whole.members) > 40
    meter.reset()
    part = index.cluster_part("a", "m0003", limit=1)
    assert part is not None
    assert (part.id, part.representative, part.size, part.members) == (
        "base",
        "base",
        len(whole.members),
        whole.members[:1],
    )
    if bounded(url):
        assert meter.entries <= 2
    meter.reset()
    for start in (0, 1, 5, len(whole.members) - 2, len(whole.members)):
        page = index.cluster_part("a", "base", start, 4)
        assert page is not None
        assert page.members == whole.members[start : start + 4]
    meter.reset()
    last, pages = None, [*whole.members[:1]]
    while True:
        page = index.cluster_part("a", "base", 1, 9, last if last is not None else "base")
        assert page is not None
        if not page.members:
            break
        pages += page.members
        last = page.members[-1][0]
    assert tuple(pages) == whole.members
    if bounded(url):
        # members come without content; only the documents that are named by the request have theirs
        # read
        size = len(family(60)["base"]) + 600
        assert meter.content <= 2 * size * (len(whole.members) // 9 + 2)
        assert (
            meter.entries
            <= len(whole.members) + 2 * (len(whole.members) // 9 + 3) + 9 * shards(url) * 9
        )
    meter.reset()
    part = index.cluster_part("a", "base", limit=9)
    assert part is not None
    rows = [*part.members]
    while part.end is not None:
        part = index.cluster_part_after("a", "base", part.end, 9)
        assert part is not None
        rows += part.members
    assert tuple(rows) == whole.members
    if bounded(url):
        assert meter.content <= 2 * size * (len(whole.members) // 9 + 2)
    gone = index.cluster_part("a", "base", 3, 2, "not there")
    assert gone is not None
    assert gone.members == whole.members[3:5]
    assert index.cluster_part("a", "unknown") is None


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_pages_of_a_cluster_neither_skip_nor_repeat_what_stays(opened: Opener, limit: int) -> None:
    """Between two pages, documents come and go, and at last the representative goes."""
    index, texts = opened(threshold=0.6), family(24)
    fill(index, texts)
    whole = index.cluster("a", "base")
    assert whole is not None
    names = [name for name, _ in whole.members]
    part = index.cluster_part("a", names[-1], limit=limit)
    assert part is not None
    pages = [part]
    gone = set[str]()
    for at in itertools.count():
        if part.end is None:
            break
        listed = [name for page in pages for name, _ in page.members]
        # the last that was listed and one before it go; others come
        for name in {listed[-1], listed[len(listed) // 2]} - {names[-1], "base"}:
            gone.add(name)
            index.remove("a", name)
        index.upsert("a", texts["base"], f"late{at}")
        if at == 3:
            gone.add("base")
            index.remove("a", "base")
        part = index.cluster_part_after("a", names[-1], part.end, limit)
        assert part is not None
        pages.append(part)
    left = index.cluster("a", names[-1])
    assert left is not None
    listed = [name for page in pages for name, _ in page.members]
    assert len(listed) == len(set(listed))
    stayed = {name for name, _ in left.members} & set(names) - gone
    assert stayed
    assert stayed <= set(listed)


# -- removal


class Steps:
    """Looks at every step of a store: how large it is, and what it leaves."""

    def __init__(self, index: nk.Index, die_after: int | None = None) -> None:
        self.index = index
        self.sizes = list[int]()
        self.checks = True
        self._die_after, self._apply = die_after, index._session.store.apply

    def __enter__(self) -> "Steps":
        self.index._session.store.apply = self.step  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        self.index._session.store.apply = self._apply  # type: ignore[method-assign]

    def step(self, changes: Changes) -> list[int]:
        if self._die_after is not None and len(self.sizes) == self._die_after:
            raise KilledError
        numbers = self._apply(changes)
        self.sizes.append(sum(1 for _ in changes.present))
        assert not self.checks or check_index(self.index).sound
        return numbers


class KilledError(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("nearkin.index.removal.MAX_REASSIGNED", 8)
    return 8


def cluster_ids(index: nk.Index) -> list[str]:
    return cluster_ids_of(index, "a")


def cluster_ids_of(index: nk.Index, scope: str) -> list[str]:
    return sorted(
        entry.cluster
        for entry in index._session.store.scan(scope, content=False)
        if entry.is_leader
    )


@pytest.mark.parametrize("what", ["remove", "update"])
def test_a_large_cluster_is_resolved_anew_in_portions(
    opened: Opener, few_at_once: int, what: str
) -> None:
    """Each step is bounded, and leaves a sound index."""
    index = opened(threshold=0.6)
    texts = family(40)
    fill(index, texts)
    members = index._session.store.member_count("a", "base")
    assert members > 3 * few_at_once
    with Steps(index) as steps:
        if what == "remove":
            assert index.remove("a", "base")
        else:
            assert (
                index.upsert("a", " ".join(words(np.random.default_rng(1))), "base").kind
                == "updated"
            )
    assert len(steps.sizes) > members // few_at_once - 1
    # a portion, the postings of those that stand for themselves, and the representative
    assert max(steps.sizes) <= 3 * few_at_once + 2
    assert index.stats()["records"] == len(texts) - (what == "remove")
    if what == "remove":
        assert cluster_ids(index).count("base") == 1
    assert check_index(index).sound


def test_a_large_cluster_is_merged_in_portions(opened: Opener, few_at_once: int) -> None:
    index = opened(threshold=0.6)
    texts = family(40)
    fill(index, texts)
    older = index.get("a", "base")
    assert older is not None
    # what two processes that did not see each other leave: a younger representative with most of
    # the members
    some = [
        entry
        for entry in index._session.store.scan("a")
        if entry.leader == "base" and entry.id != "base"
    ]
    head, rest = some[0], some[1:]
    keys = index._session.preparer.prepare_stored("a", [head])
    led = head._replace(
        leader=head.id,
        cluster=head.id,
        similarity=1.0,
        posted=True,
        signature=keys.signatures[0].tobytes(),
    )
    stored = index._session.preparer.payload_of([head, *rest])
    assert stored.sizes.size == len(some)
    near_head = [entry for entry in rest if similar(index, head, entry) >= 0.6]
    changed = [
        entry._replace(leader=head.id, cluster=head.id, similarity=similar(index, head, entry))
        for entry in near_head
    ]
    index._session.store.apply(
        Changes(
            changed=[led, *changed], posted=[KeyedEntry(led, keys.keys[0])], invalidates_caches=True
        )
    )
    assert check_index(index).sound
    assert index._session.store.member_count("a", head.id) > 2 * few_at_once
    with Steps(index) as steps:
        assert index.merge_into_older("a", head.id) == 1 + len(near_head)
    assert max(steps.sizes) <= 3 * few_at_once + 2
    assert index._session.store.member_count("a", head.id) == 0
    assert check_index(index).sound


def similar(index: nk.Index, a: Entry, b: Entry) -> float:
    scored = index.measure.compare(np.array([1], np.uint64), as_stored(index.payload_of([a, b])))
    return float(scored.similarity[0])


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_removal_that_is_killed_is_finished_when_it_is_repeated(
    opened: Opener, url: Any, few_at_once: int, steps: int
) -> None:
    index = opened(threshold=0.6)
    texts = family(40)
    fill(index, texts)
    with Steps(index, die_after=steps), pytest.raises(KilledError):
        index.remove("a", "base")
    assert index.get("a", "base") is not None
    assert check_index(index).sound
    again = index if url == "memory://" else opened(threshold=0.6)
    assert again.remove("a", "base")
    assert check_index(again).sound
    assert again.stats()["records"] == len(texts) - 1
    assert cluster_ids(again).count("base") == 1


def test_a_cluster_has_one_heir_although_its_removal_was_killed(
    opened: Opener, url: Any, few_at_once: int
) -> None:
    """The members of the later portions resemble the representative that goes, and not the heir."""
    index = opened(threshold=0.5)
    rng = np.random.default_rng(4)
    base = words(rng, 100)
    fill(
        index,
        {"base": " ".join(base), **{f"m{i}": " ".join(near(base, rng, 10)) for i in range(40)}},
    )
    assert index._session.store.member_count("a", "base") > 3 * few_at_once
    with Steps(index, die_after=2), pytest.raises(KilledError):
        index.remove("a", "base")
    again = index if url == "memory://" else opened(threshold=0.5)
    assert again.remove("a", "base")
    assert len(cluster_ids(again)) > few_at_once
    assert cluster_ids(again).count("base") == 1


@pytest.mark.parametrize("copies", [pytest.param(40_000, marks=pytest.mark.full), 600])
def test_many_copies_use_bounded_memory(
    tmp_path: Path, meter: Meter, few_at_once: int, copies: int
) -> None:
    """Without ids they are one record.

    With ids one cluster, of which only the representative stands in buckets.
    """
    text = " ".join(words(np.random.default_rng(3), 80))
    with nk.Index.open(f"sqlite:///{tmp_path}/kin.db", threshold=0.7) as index:
        index.upsert_many("a", [text] * 100)
        assert index.stats()["records"] == 1
        before = index.stats()["postings"]
        for start in range(0, copies, 1000):
            some = range(start, min(start + 1000, copies))
            index.upsert_many("b", [text] * len(some), [f"c{at}" for at in some])
        assert index.stats()["postings"] == 2 * before
        meter.reset()
        part = index.cluster_part("b", f"c{copies - 1}", limit=5)
        assert part is not None
        assert (part.size, len(part.members)) == (copies, 5)
        assert meter.entries <= 6
        meter.reset()
        assert index.upsert("b", text, "one more").representative == "c0"
        assert meter.entries <= 4
        looked = Steps(index)
        looked.checks = False
        with looked as steps:
            assert index.remove("b", "c0")
        assert max(steps.sizes) <= 3 * few_at_once + 2
        assert index.stats()["postings"] == 2 * before
        assert index._session.store.counts()["records"] == copies + 1
        assert cluster_ids_of(index, "b") == ["c0"]


# -- listings, sweeps, counts


def test_a_listing_of_a_scope_reads_no_other_and_no_content(
    opened: Opener, url: Any, meter: Meter, small_portions: int
) -> None:
    index = opened()
    index.upsert_many("a", corpus(40, seed=1), [f"d{i}" for i in range(40)])
    index.upsert_many("b", corpus(90, seed=2), [f"d{i}" for i in range(90)])
    meter.reset()
    listed = list(index._session.store.scan("a", content=False))
    assert [entry.id for entry in listed] == [f"d{i}" for i in range(40)]
    assert all(entry.text is None and not entry.payload and not entry.signature for entry in listed)
    if bounded(url):
        # memory:// makes an entry of a head by way of another
        assert meter.entries <= 40 * 2
        assert meter.content == 0
    whole = list(index._session.store.scan("a"))
    assert [entry._replace(signature=b"", text=None, payload=b"") for entry in whole] == listed
    meter.reset()
    next(index._session.store.scan("b", content=False))
    if bounded(url):
        assert meter.entries <= small_portions * shards(url)


def test_scopes_are_told_without_reading_documents(
    opened: Opener, url: Any, meter: Meter, small_portions: int
) -> None:
    index = opened()
    names = ["", *(f"scope {number:02d}" for number in range(20)), "é", "z z"]
    for name in names:
        index.upsert_many(name, corpus(3), ["x", "y", "z"])
    meter.reset()
    assert index.scopes() == sorted(names)
    if bounded(url):
        assert meter.entries == 0
    for name in ("x", "y", "z"):
        index.remove("scope 03", name)
    assert index.scopes() == sorted(set(names) - {"scope 03"})


@pytest.mark.parametrize("posted", [False, True])
def test_what_is_due_comes_oldest_first_in_portions(
    opened: Opener, url: Any, clock: Clock, meter: Meter, small_portions: int, posted: bool
) -> None:
    index = opened(record_ttl=1e6)
    texts = corpus(60)
    for start in range(0, 60, 20):
        # twenty of one time: more than a portion
        index.upsert_many(
            "a", texts[start : start + 20], [f"d{i}" for i in range(start, start + 20)]
        )
        clock.now += 100.0
    everything = list(index._session.store.scan("a", content=False))
    wanted = sorted((entry.seen, entry.ref) for entry in everything if entry.posted or not posted)
    assert [(entry.seen, entry.ref) for entry in index._session.store.due(np.inf, posted)] == wanted
    until = clock.now - 150.0
    early = [pair for pair in wanted if pair[0] < until]
    assert 0 < len(early) < len(wanted)
    meter.reset()
    due = list(index._session.store.due(until, posted))
    assert [(entry.seen, entry.ref) for entry in due] == early
    if bounded(url):
        assert meter.content == 0
    meter.reset()
    list(itertools.islice(index._session.store.due(np.inf, posted), 3))
    if bounded(url):
        assert meter.entries <= 2 * small_portions * shards(url)


def test_a_sweep_goes_on_while_what_is_due_changes(
    opened: Opener, clock: Clock, small_portions: int
) -> None:
    index = opened(record_ttl=50.0)
    index.upsert_many("a", corpus(60), [f"d{i}" for i in range(60)])
    clock.now += 100.0
    index.upsert_many("b", corpus(10), [f"d{i}" for i in range(10)])
    assert index.expire()["records"] == 60
    assert index.stats()["records"] == 10
    assert check_index(index).sound


def test_of_processes_that_share_an_index_one_sweeps(
    opened: Opener, url: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not bounded(url) or url == "memory://":
        pytest.skip("every process sweeps")
    first, second = opened(record_ttl=50.0), opened(record_ttl=50.0)
    first.upsert_many("a", corpus(20), [f"d{i}" for i in range(20)])
    clock.now += 100.0

    def due(before: float, posted: bool) -> Iterator[Entry]:
        raise AssertionError("it was not its turn")

    # most documents are due at once, which is not what a clock that went wrong looks like here
    first.upsert_many("b", corpus(30), [f"d{i}" for i in range(30)])
    assert first.sweep(1_000.0)["records"] == 20
    with monkeypatch.context() as patched:
        patched.setattr(second._session.store, "due", due)
        assert second.sweep(1_000.0) == {"records": 0, "postings": 0}
    assert first._session.store.take_turn("other", "first", 0.05)
    wait_until(
        lambda: second._session.store.take_turn("other", "second", 100.0),
        "the turn of the first one is over",
    )
    assert not first._session.store.take_turn("other", "first", 100.0)


def recounted(index: nk.Index) -> tuple[int, int]:
    entries = list(index._session.store.scan(content=False))
    return len(entries), sum(entry.is_leader for entry in entries)


def test_counts_are_kept_exactly(opened: Opener, url: Any, clock: Clock, meter: Meter) -> None:
    index = opened(threshold=0.6, record_ttl=1_000.0, bucket_capacity=20)
    other = (
        index
        if url == "memory://"
        else opened(threshold=0.6, record_ttl=1_000.0, bucket_capacity=20)
    )
    texts = corpus(120, seed=9, share=0.6)
    rng = np.random.default_rng(4)
    for at, text in enumerate(texts):
        chosen = (index, other)[at % 2]
        chosen.upsert("ab"[at % 2], text, f"d{rng.integers(0, 60)}")
        if at % 7 == 0:
            chosen.remove("ab"[at % 2], f"d{rng.integers(0, 60)}")
        clock.now += 5.0
    index.upsert_many("a", texts[:50], [f"e{at}" for at in range(50)])
    index.expire()
    meter.reset()
    counts = [one._session.store.counts() for one in (index, other)]
    if bounded(url):
        assert meter.entries == 0
    assert [(one["records"], one["leaders"]) for one in counts] == [recounted(index)] * 2
    assert check_index(index).stray == 0
    for entry in list(index._session.store.scan(content=False)):
        index.remove(entry.scope, entry.id)
    assert [index._session.store.counts()[name] for name in ("records", "leaders", "postings")] == [
        0,
        0,
        0,
    ]


def test_counts_read_no_table(opened: Opener, url: Any) -> None:
    """Whatever the index holds, the statements are the same, and none of them counts rows."""
    if (
        url == "memory://"
        or not isinstance(url, str)
        or url.split(":")[0] not in ("sqlite", "postgresql")
    ):
        pytest.skip("of stores that speak SQL")
    index = opened()
    index.upsert_many("a", corpus(30))
    seen: list[str] = []
    store: Any = index._session.store
    if isinstance(store, sqlite.SqliteStore):
        store._db.set_trace_callback(seen.append)
        store.counts()
        store._db.set_trace_callback(None)
        assert seen
    else:
        explained = store._portion(f"EXPLAIN SELECT count(*) FROM {store._s}.tallies", {})
        assert "entries" not in str(explained)
    assert not any(
        "COUNT(*)" in statement.upper() and "ENTRIES" in statement.upper() for statement in seen
    )


def test_a_scan_with_texts_reads_as_many_as_fit_into_memory(
    opened: Opener, url: Any, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not bounded(url) or url == "memory://":
        pytest.skip("memory:// holds every text anyhow")
    monkeypatch.setattr("nearkin.index.stores.base.FIRST_PORTION", 2)
    monkeypatch.setattr("nearkin.index.stores.base.PORTION_BYTES", 20_000)
    index = opened()
    texts = [f"{text} {'x' * 8_000}" for text in corpus(60, share=0.0)]
    index.upsert_many("a", texts, [f"d{i}" for i in range(60)])
    meter.reset()
    most, before = 0, 0
    for number, _ in enumerate(index._session.store.scan(), 1):
        most, before = max(most, meter.entries - number), meter.entries
    assert before == number == 60
    assert most <= 6 * shards(url)


# -- the log


def test_the_log_of_erasures_is_bounded(
    opened: Opener, url: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not bounded(url):
        pytest.skip("Aerospike keeps its log")
    for module in (sqlite, postgres, memory, redis):
        monkeypatch.setattr(module, "LOG_KEPT", 10)
    for module in (sqlite, postgres, redis):
        monkeypatch.setattr(module, "LOG_PORTION", 4)
    index = opened()
    names = [f"d{i}" for i in range(80)]
    index.upsert_many("a", corpus(80, share=0.0), names)
    most = (10 + 4 + 1) * shards(url)
    for name in names[:50]:
        index.remove("a", name)
        assert len(list(index._session.store.events())) <= most
    lines = [event.id for event in index._session.store.events()]
    assert set(names[40:50]) <= set(lines)
    # while an index is copied, nothing that the copy needs is dropped
    index._session.store.redirect(
        MigrationState(index._session.store.state().migration.epoch + 1, COPYING, ("memory://",))
    )
    index.refresh()
    for name in names[50:]:
        index.remove("a", name)
    touched = [event.id for event in index._session.store.events() if event.kind == TOUCHED]
    assert sorted(set(touched)) == names[50:]
    index._session.store.redirect(
        MigrationState(index._session.store.state().migration.epoch + 1, OPEN)
    )


def test_the_log_is_read_from_a_place(
    opened: Opener, url: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not bounded(url):
        pytest.skip("Aerospike reads its log as a whole")
    for module in (sqlite, postgres, redis):
        monkeypatch.setattr(module, "LOG_PORTION", 4)
    index = opened()
    names = [f"d{i:02d}" for i in range(40)]
    index.upsert_many("a", corpus(40, share=0.0), names)
    for name in names[:25]:
        index.remove("a", name)
    place = index._session.store.log_end()
    assert list(index._session.store.events(place)) == []
    for name in names[25:]:
        index.remove("a", name)
    assert sorted(event.id for event in index._session.store.events(place)) == names[25:]
    assert sorted(event.id for event in index._session.store.events()) == names


# -- stores that an older version made


def downgraded_sqlite(path: Path) -> None:
    """Takes from a file what schemas 2 and 3 brought."""
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER older_versions_are_stopped")
        db.execute(
            "UPDATE meta SET value = (SELECT value FROM meta WHERE name = 'last_step') WHERE name "
            "= 'step'"
        )
        db.execute("DELETE FROM meta WHERE name IN ('last_step', 'move')")
        db.execute("UPDATE meta SET name = 'move' WHERE name = 'place'")
        for name in ("entries_by_scope", "entries_by_seen", "entries_posted_by_seen"):
            db.execute(f"DROP INDEX {name}")
        db.execute("DELETE FROM meta WHERE name IN ('records', 'leaders')")
        db.execute("PRAGMA user_version = 1")


def downgraded_postgres(store: Any) -> None:
    s = store._s
    with store._transaction() as run:
        for statement in (
            f"ALTER TABLE {s}.documents RENAME TO entries",
            f"ALTER TABLE {s}.buckets RENAME TO postings",
            f"DELETE FROM {s}.meta WHERE name = 'move'",
            f"UPDATE {s}.meta SET name = 'move' WHERE name = 'place'",
            f"DROP INDEX {s}.entries_by_scope",
            f"DROP INDEX {s}.entries_members",
            f"CREATE INDEX entries_by_leader ON {s}.entries (scope, leader) WHERE leader <> id",
            f"DROP INDEX {s}.entries_in_order",
            f"CREATE INDEX entries_by_seen ON {s}.entries (seen)",
            f"DROP INDEX {s}.entries_posted",
            f"DROP INDEX {s}.events_by_step",
            f"ALTER TABLE {s}.events DROP COLUMN step",
            f"DROP TABLE {s}.tallies",
            f"UPDATE {s}.meta SET value = '1' WHERE name = 'schema'",
        ):
            run.execute(statement)


def downgraded_redis(store: Any) -> None:
    client, prefix = store._client, store._prefix
    for key in list(client.scan_iter(prefix + b"n:*")):
        client.sadd(
            prefix + b"m:" + key[len(prefix) + 2 :],
            *(b"%d" % int(ref) for ref in client.zrange(key, 0, -1)),
        )
        client.delete(key)
    for key in [
        *client.scan_iter(prefix + b"s:*"),
        *(prefix + name for name in (b"scopes", b"seen", b"posted", b"layout", b"move")),
    ]:
        client.delete(key)
    client.rename(prefix + b"made", prefix + b"header")
    if client.exists(prefix + b"place"):
        client.rename(prefix + b"place", prefix + b"move")


def downgrade(store: Any) -> None:
    for one in store.shards if isinstance(store, ShardedStore) else [store]:
        if isinstance(one, sqlite.SqliteStore):
            downgraded_sqlite(one.path)
        elif isinstance(one, postgres.PostgresStore):
            downgraded_postgres(one)
        else:
            downgraded_redis(one)


@pytest.fixture(params=["sqlite", "redis", "postgres", "sharded"])
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    return empty_store(request.param, request, tmp_path)  # type: ignore[return-value]


def test_an_index_of_the_older_layout_is_brought_over(old_url: Any, clock: Clock) -> None:
    texts = family(30)
    with nk.Index.open(old_url, threshold=0.6, clock=clock) as index:
        fill(index, texts)
        index.upsert_many("b", corpus(20))
        index.remove("b", next(iter(index._session.store.scan("b"))).id)
        before = {(entry.scope, entry.id): entry for entry in index._session.store.scan()}
        counts = index._session.store.counts()
        whole = index.cluster("a", "base")
        downgrade(index._session.store)
    for _ in range(2):
        with nk.Index.open(old_url, threshold=0.6, clock=clock) as index:
            assert {
                (entry.scope, entry.id): entry for entry in index._session.store.scan()
            } == before
            assert {**index._session.store.counts(), "bytes": 0} == {**counts, "bytes": 0}
            assert index.cluster("a", "base") == whole
            assert index.scopes() == ["a", "b"]
            assert len(list(index._session.store.due(np.inf, posted=False))) == len(before)
            assert [event.kind for event in index._session.store.events()] == ["erased"]
            assert check_index(index).sound
    with nk.Index.open(old_url, threshold=0.6, clock=clock) as index:
        assert index.remove("a", "base")
        assert check_index(index).sound
        assert index._session.store.counts()["records"] == len(before) - 1


class FirstVersion:
    """A process of the first version that has an index open: the statements with which it looks at
    the index and writes."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._sent = itertools.count()

    def format(self) -> object:
        """Returns the format or the schema that it reads when it opens the index."""
        raise NotImplementedError

    def migration(self) -> tuple[int, str, list[str]]:
        raise NotImplementedError

    def write(self, epoch: int | None) -> bool:
        """Writes a step that was made under an epoch, or under any; returns False if it goes to
        look at the move first.

        Raises:
            Exception: If the step is refused otherwise; it is the error of the driver.
        """
        raise NotImplementedError


class FirstVersionOverRedis(FirstVersion):
    STEP = (
        "if (redis.call('HGET', KEYS[1], 'epoch') or '0') ~= ARGV[1] then return 'moved' end "
        "redis.call('SET', KEYS[2], 'x')"
    )

    def format(self) -> object:
        return json.loads(self._store._client.get(self._store._key("header")))["format"]

    def migration(self) -> tuple[int, str, list[str]]:
        epoch, phase, urls = self._store._client.hmget(
            self._store._key("move"), "epoch", "phase", "urls"
        )
        return int(epoch or 0), (phase or b"open").decode(), json.loads(urls or b"[]")

    def write(self, epoch: int | None) -> bool:
        key = self._store._key
        return self._store._client.eval(self.STEP, 2, key("move"), key("written"), epoch) is None


class FirstVersionOverSqlite(FirstVersion):
    INSERT = (
        "INSERT INTO entries VALUES (NULL, 'a', ?, x'00', ?, ?, 1, 9, 1, 1, 0, x'', '', "
        "x'00', NULL, ?)"
    )

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._db = sqlite3.connect(store.path, isolation_level=None)

    def format(self) -> object:
        return self._db.execute("PRAGMA user_version").fetchone()[0]

    def migration(self) -> tuple[int, str, list[str]]:
        found = self._db.execute("SELECT value FROM meta WHERE name = 'move'").fetchone()
        epoch, phase, urls = json.loads(found[0]) if found else MigrationState()
        return epoch, phase, list(urls)

    def write(self, epoch: int | None) -> bool:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if epoch not in (None, self.migration()[0]):
                return False
            step = 1 + int(
                self._db.execute("SELECT value FROM meta WHERE name = 'step'").fetchone()[0]
            )
            name = f"old{next(self._sent)}"
            self._db.execute(self.INSERT, (name, name, name, step))
            self._db.execute("UPDATE meta SET value = ? WHERE name = 'step'", (str(step),))
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        return True


class FirstVersionOverPostgres(FirstVersion):
    INSERT = (
        "COPY {s}.entries (ref, scope, id, digest, leader, cluster, similarity, size, created, "
        "seen, posted, signature, "
        "payload) FROM STDIN"
    )

    def format(self) -> object:
        with self._store._pool.connection() as run:
            return run.execute(
                f"SELECT value FROM {self._store._s}.meta WHERE name = 'schema'"
            ).fetchone()[0]

    def migration(self) -> tuple[int, str, list[str]]:
        with self._store._pool.connection() as run:
            return tuple(
                run.execute(
                    f"SELECT value FROM {self._store._s}.meta WHERE name = 'move'"
                ).fetchone()[0]
            )  # type: ignore[return-value]

    def write(self, epoch: int | None) -> bool:
        s = self._store._s
        with self._store._pool.connection() as connection, connection.cursor() as run:
            if epoch is not None:
                query = f"SELECT (value->>0)::int FROM {s}.meta WHERE name = 'move' FOR SHARE"
                if run.execute(query).fetchone()[0] != epoch:
                    return False
            (ref,) = run.execute(f"SELECT nextval('{s}.refs')").fetchone()
            name = f"old{next(self._sent)}"
            with run.copy(self.INSERT.format(s=s)) as copy:
                copy.write_row(
                    (ref, "a", name, "\\x00", name, name, 1.0, 9, 1.0, 1.0, False, "\\x", "\\x00")
                )
        return True


FIRST_VERSIONS = {
    "redis": FirstVersionOverRedis,
    "sqlite": FirstVersionOverSqlite,
    "postgres": FirstVersionOverPostgres,
}


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_processes_of_the_first_version_are_stopped(
    kind: str, moved: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """They have the index open while this version converts it; each step of theirs is refused from
    then on, before the counts that they do not keep are wrong, and where they look for the index
    they find one that they cannot open."""
    url = str(empty_store(kind, request, tmp_path))
    texts = list(dict.fromkeys(corpus(20)))
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert_many("a", texts)
        if moved:
            index._session.store.redirect(MigrationState(3, COPYING, ("redis://elsewhere/0",)))
            index._session.store.redirect(MigrationState(4, OPEN))
        downgrade(index._session.store)
        first = FIRST_VERSIONS[kind](index._session.store)
        epoch = first.migration()[0]
        assert (first.format(), epoch) == (1, 4 if moved else 0)
        assert first.write(epoch)
        before = len(texts) + (kind != "redis")
        with nk.Index.open(url) as again:
            assert first.write(epoch) is False
            assert first.format() not in (1, FORMAT)
            stopped, phase, places = first.migration()
            assert (stopped, phase) == (STOPPED, MOVED)
            if kind == "redis":
                assert places == [f"{url}%3Astopped"]
                assert FirstVersionOverRedis(redis.RedisStore(places[0], 10, 10)).format() != FORMAT
            else:
                # at its own address: they open it again, and do not know the schema
                assert places == [url]
                with pytest.raises(
                    (sqlite3.DatabaseError, psycopg.DatabaseError), match=r"schema 3|does not exist"
                ):
                    # steps of bulk loads are under no epoch
                    first.write(None)
            assert again._session.store.state().migration.epoch == epoch
            assert again.upsert_many("a", texts)[0].kind == "exact"
            assert again._session.store.counts()["records"] == before
            assert [
                problem for problem in check_index(again).problems if "counted" in problem.what
            ] == []


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_a_new_index_is_not_opened_by_the_first_version(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with nk.Index.open(str(empty_store(kind, request, tmp_path))) as index:
        first = FIRST_VERSIONS[kind](index._session.store)
        assert first.format() != FORMAT
        assert first.migration()[:2] == (STOPPED, MOVED)
        assert index.upsert("a", "one two three four").kind == "new"


def test_a_full_redis_still_deletes(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Deletions make room, by hand and in a sweep, in portions."""
    clock = Clock()
    clock.now = time.time()
    with (
        redis_server(tmp_path, "--appendonly", "no", "--maxmemory-policy", "noeviction") as port,
        nk.Index.open(
            f"redis://127.0.0.1:{port}/0", threshold=0.7, record_ttl=600.0, clock=clock
        ) as index,
    ):
        index.upsert_many("a", corpus(200), [f"d{number}" for number in range(200)])
        clock.now -= 1000.0
        index.upsert_many("b", corpus(200), [f"d{number}" for number in range(200)])
        clock.now += 1000.0
        client = index._session.store._client  # type: ignore[attr-defined]
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreError, match="used memory"):
            index.upsert("a", " ".join(words(np.random.default_rng(5))))
        assert all(index.remove("a", f"d{number}") for number in range(50))
        assert index.sweep(10.0)["records"] == 200
        client.config_set("maxmemory", 0)
        assert check_index(index).sound
        assert index._session.store.counts()["records"] == 150
