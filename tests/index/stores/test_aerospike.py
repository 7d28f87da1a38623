"""The Aerospike store over a cluster that is simulated in this process."""

import copy
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import aerospike
import numpy as np
import pytest
from aerospike_helpers.batch.records import BatchRecords, Read, Remove, Write

import nearkin as nk
from nearkin.errors import (
    MissingExtraError,
    OutcomeUnknownError,
    RacedError,
    StoreError,
    UsageError,
)
from nearkin.index.changes import TOUCHED, Changes, KeyedEntry
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.index.migration.state import COPYING, MigrationState
from nearkin.index.stores import aerospike_buckets, aerospike_records, aerospike_steps
from nearkin.index.stores.aerospike_namespace import Namespace
from nearkin.index.stores.aerospike_records import Records
from nearkin.index.stores.aerospike_steps import (
    LEASE,
    ChangePlan,
    LockedRecord,
    Steps,
    Version,
)
from tests.index.conftest import corpus
from tests.index.fake_aerospike import Cluster, Fault, Query, Record
from tests.services import free_port

URL = "aerospike://127.0.0.1:3000/test"
TEXT = "one two three four five six seven eight nine ten"
NEAR = f"{TEXT} eleven"
Work = Callable[[nk.Index], Any]


@pytest.fixture
def cluster(aerospike_cluster: Cluster) -> Cluster:
    return aerospike_cluster


def opened(**fields: Any) -> nk.Index:
    return nk.Index.open(URL, **{"threshold": 0.7, **fields})


def removed(index: nk.Index) -> None:
    index.remove("a", "x")


def member_removed(index: nk.Index) -> None:
    index.remove("a", "y")


def joined(index: nk.Index) -> None:
    """Returns a text that is similar to the text of x."""
    index.upsert("a", f"{TEXT} v", "v")


def upserted(index: nk.Index) -> None:
    index.upsert_many(
        "a", [f"{TEXT} {word}" for word in ("p", "q")] + corpus(4, seed=7), list("pqrstu")
    )


def updated(index: nk.Index) -> None:
    index.upsert("a", corpus(1, seed=9)[0], "x")


def compacted(index: nk.Index) -> None:
    assert merge_clusters(index)["merged"] == 1


def two_clusters(index: nk.Index) -> None:
    """Creates two clusters, x with y and z with w, whose representatives are similar."""
    index.upsert_many("a", [TEXT, NEAR], ["x", "y"])
    with nk.Index.open("memory://", threshold=0.7) as other:
        other.upsert_many("a", [f"{TEXT} twelve", f"{TEXT} thirteen"], ["z", "w"])
        new = []
        for entry in other._session.store.scan():
            keys = other._session.preparer.keys_of("a", [entry])[0] if entry.posted else None
            new.append((entry._replace(ref=0), keys))
    index._session.store.apply(Changes(new=[KeyedEntry(*one) for one in new]))


WORKS: dict[str, Work] = {
    "upsert": upserted,
    "update": updated,
    "remove": removed,
    "compact": compacted,
}


PLACES = ("before", "half", "after")
"""The moments of a call at which the work of a test ends."""
FAULTS = [
    pytest.param(
        name, where, marks=pytest.mark.full if name == "compact" and where != "half" else ()
    )
    for name in WORKS
    for where in PLACES
]
"""Works, and where in a call they end. A merge of clusters has the most calls."""


@pytest.fixture
def step(full: bool) -> int:
    """Returns 1 if every call of a work is disturbed, or 2 for every other one."""
    return 1 if full else 2


def contents(index: nk.Index) -> set[tuple[Any, ...]]:
    """Returns the content of an index without numbers and times."""
    return {
        (entry.id, entry.leader, entry.cluster, entry.text, entry.posted)
        for entry in index._session.store.scan()
    }


def outcomes(
    cluster: Cluster, work: Work
) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]], int]:
    """Returns the content before and after some work, and the number of its calls."""
    with opened() as index:
        two_clusters(index)
        before = contents(index)
        saved = copy.deepcopy(cluster.records)
        calls = cluster.calls
        work(index)
        calls = cluster.calls - calls
        after = contents(index)
        assert check_index(index).sound
    cluster.records = saved
    return before, after, calls


@pytest.mark.parametrize(("name", "where"), FAULTS)
def test_index_is_sound_after_a_process_dies_at_any_call(
    cluster: Cluster, name: str, where: str, step: int
) -> None:
    """Whichever call is the last, all of the step is visible afterwards, or nothing of it."""
    before, after, calls = outcomes(cluster, WORKS[name])
    saved = copy.deepcopy(cluster.records)
    for at in range(calls - PLACES.index(where) % step, 0, -step):
        cluster.records = copy.deepcopy(saved)
        dying = opened()
        cluster.fault = Fault(at, where, forever=True)
        try:
            WORKS[name](dying)
            acknowledged = True
        except StoreError:
            acknowledged = False
        cluster.fault = None
        with opened() as reader:
            # nobody has tidied up yet, for the step may be under way
            seen = contents(reader)
            assert seen in (before, after), at
            assert not acknowledged or seen == after, at
        cluster.now += LEASE
        with opened() as index:
            assert contents(index) == seen, at
            assert check_index(index).sound, (at, check_index(index))
            assert not cluster.kind("steps"), at
            assert not [record for record in cluster.kind("documents") if "s" in record.bins], at
            assert len(cluster.kind("refs")) == len(seen)
            if name != "compact":
                WORKS[name](index)
                assert contents(index) == after, at
                assert check_index(index).sound


@pytest.mark.parametrize(("name", "where"), FAULTS)
def test_step_survives_one_failed_call(cluster: Cluster, name: str, where: str, step: int) -> None:
    """The process undoes the step, or finds that it was committed; repeated, it succeeds once."""
    before, after, calls = outcomes(cluster, WORKS[name])
    saved = copy.deepcopy(cluster.records)
    for at in range(calls - PLACES.index(where) % step, 0, -step):
        cluster.records = copy.deepcopy(saved)
        index = opened()
        cluster.fault = Fault(at, where)
        try:
            WORKS[name](index)
            assert contents(index) == after, at
        except StoreError:
            cluster.fault = None
            assert contents(index) == before, at
            WORKS[name](index)
        cluster.fault = None
        assert contents(index) == after, at
        assert check_index(index).sound, (at, check_index(index))
        assert not cluster.kind("steps"), at


@pytest.mark.parametrize("name", WORKS)
def test_readers_see_all_of_a_step_or_nothing(cluster: Cluster, name: str) -> None:
    before, after, _ = outcomes(cluster, WORKS[name])
    writer, reader = opened(), opened()
    seen: list[set[tuple[Any, ...]]] = []
    postings = 0

    def look() -> None:
        nonlocal postings
        cluster.during = None
        seen.append(contents(reader))
        for text in (TEXT, NEAR, *corpus(4, seed=7)):
            postings += len(reader.query("a", text))
        cluster.during = look

    cluster.during = look
    WORKS[name](writer)
    cluster.during = None
    assert all(one in (before, after) for one in seen)
    assert seen[0] == before
    assert seen[-1] == after
    assert postings


@pytest.mark.parametrize("name", WORKS)
def test_stalled_step_cannot_commit_after_another_process_ended_it(
    cluster: Cluster, name: str, step: int
) -> None:
    """Another process undoes the step at any call; the step is retried and not committed twice."""
    _, after, calls = outcomes(cluster, WORKS[name])
    saved = copy.deepcopy(cluster.records)
    for at in range(calls, 0, -step):
        cluster.records = copy.deepcopy(saved)
        index, left = opened(), at

        def stall() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                cluster.during = None
                cluster.now += LEASE
                opened().close()
                cluster.during = stall

        cluster.during = stall
        WORKS[name](index)
        cluster.during = None
        cluster.now += LEASE
        assert check_index(index).sound, (at, check_index(index))
        assert contents(index) == after, at
        assert not cluster.kind("steps"), at


def test_a_step_that_another_process_completes_is_not_undone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the commit is lost, and comes too late to find the plan of the step."""
    commit = Steps._commit

    def lose_answer(steps: Steps, step: int) -> None:
        monkeypatch.setattr(Steps, "_commit", commit)
        commit(steps, step)
        cluster.now += LEASE
        opened(passages=4).close()
        raise StoreError("the answer was lost")

    with opened(passages=4) as index:
        monkeypatch.setattr(Steps, "_commit", lose_answer)
        with pytest.raises(OutcomeUnknownError):
            index.upsert("a", TEXT, "x")
        assert [match.id for match in index.query("a", NEAR)] == ["x"]
        assert [match.id for match in index.passages("a", NEAR).documents] == ["x"]
        assert check_index(index).sound


def test_what_a_step_writes_after_it_was_undone_is_undone(
    device: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan that another process has undone is kept, because the server would restore it."""
    enter = Steps._enter

    def stall(steps: Steps, plan: ChangePlan) -> list[int]:
        monkeypatch.setattr(Steps, "_enter", enter)
        device.now += LEASE
        opened().close()
        return enter(steps, plan)

    with opened() as index:
        monkeypatch.setattr(Steps, "_enter", stall)
        index.upsert("a", TEXT, "x")
        assert len(device.kind("refs")) == 1


def test_a_step_with_a_record_that_is_too_large_is_undone(cluster: Cluster) -> None:
    with opened() as index:
        size = cluster.record_size
        cluster.record_size = 3000
        with pytest.raises(UsageError, match="is larger than"):
            index.upsert_many("a", [TEXT, " ".join(corpus(20))], ["x", "y"])
        cluster.record_size = size
        assert not cluster.kind("steps")
        assert contents(index) == set()
        index.upsert("a", TEXT, "y")


def test_documents_are_unlocked_if_their_generations_are_not_the_expected_ones(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that replaces a tombstone does not begin with the first generation."""
    lock = aerospike_steps._locked_records

    def expect_others(step: int, plan: ChangePlan) -> dict[str, LockedRecord]:
        return {
            name: record._replace(generation=record.generation + 1)
            for name, record in lock(step, plan).items()
        }

    monkeypatch.setattr(aerospike_steps, "_locked_records", expect_others)
    with opened() as index:
        index.upsert("a", TEXT, "x")
        assert not [record for record in cluster.kind("documents") if "s" in record.bins]
        assert contents(index) == {("x", "x", "x", TEXT, True)}


def test_documents_that_are_replaced_during_a_scan_are_found(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible = Steps.visible

    with opened() as index:
        index.upsert_many("a", corpus(3), list("xyz"))

        def replace_first(steps: Steps, fields: Sequence[str]) -> dict[str, Version]:
            monkeypatch.setattr(Steps, "visible", visible)
            index.upsert("a", TEXT, "y")
            return visible(steps, fields)

        monkeypatch.setattr(Steps, "visible", replace_first)
        assert [entry.id for entry in index.scan("a")] == ["x", "z", "y"]


def test_running_step_is_not_ended_by_others(cluster: Cluster) -> None:
    """Other processes do not end a step between its calls before its lease is over."""
    with opened() as index:
        two_clusters(index)
        cluster.log.clear()

        def come_by() -> None:
            cluster.during = None
            cluster.now += LEASE / 100
            opened().close()
            cluster.during = come_by

        cluster.during = come_by
        upserted(index)
        cluster.during = None
        begun = [
            one
            for one in writes_of(cluster, "nearkin_steps")
            if isinstance(one, Write) and "q" in _bins(one)
        ]
        assert len(begun) == 1
        assert check_index(index).sound


@pytest.mark.parametrize("name", WORKS)
def test_migration_between_any_two_calls_of_a_step_refuses_it(
    cluster: Cluster, name: str, step: int
) -> None:
    """The step is complete, or is executed in the new epoch; a copy finds its documents."""
    _, after, calls = outcomes(cluster, WORKS[name])
    saved = copy.deepcopy(cluster.records)
    for at in range(calls, 0, -step):
        cluster.records = copy.deepcopy(saved)
        index = opened()
        mover = opened(follow=False)
        left = at
        copied: set[tuple[Any, ...]] = set()

        def begin_migration(mover: nk.Index = mover, copied: set[tuple[Any, ...]] = copied) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                cluster.during = None
                mover._session.store.redirect(MigrationState(1, COPYING, ("there",)))
                copied |= contents(mover)

        cluster.during = begin_migration
        WORKS[name](index)
        cluster.during = None
        assert contents(index) == after, at
        assert check_index(index).sound
        touched = {event.id for event in index._session.store.events() if event.kind == TOUCHED}
        texts = [{(one[0], one[3]) for one in seen} for seen in (copied, after)]
        assert {one for one, _ in texts[0] ^ texts[1]} <= touched, at
        assert not cluster.kind("steps")
        index.remove("a", "w")
        assert index._session.store.state().migration.epoch == 1


@pytest.mark.parametrize("where", ["before", "half", "after"])
def test_next_process_completes_an_interrupted_migration_state(
    cluster: Cluster, where: str
) -> None:
    """An announced state does not stop a running step; the next reader completes it."""
    opened().close()
    saved, migration = copy.deepcopy(cluster.records), MigrationState(1, COPYING, ("there",))
    for at in range(1, 8):
        cluster.records = copy.deepcopy(saved)
        dying, index = opened(), opened()
        cluster.fault = Fault(at, where, forever=True)
        with suppress(StoreError):
            dying._session.store.redirect(migration)
        cluster.fault = None
        index.upsert("a", TEXT, "x")
        known = opened()._session.store.state().migration
        assert known in (MigrationState(), migration)
        assert [event.id for event in index._session.store.events()] == ["x"] * known.epoch
        if known == migration:
            with pytest.raises(RacedError):
                index._session.store.redirect(migration)
        else:
            index._session.store.redirect(migration)
        assert index._session.store.state().migration == migration


def test_log_contains_lines_of_committed_steps_that_were_not_completed(cluster: Cluster) -> None:
    """A process dies directly after the commit of its step."""
    for at in range(1, 40):
        with opened() as index:
            index._session.store.redirect(
                MigrationState(
                    index._session.store.state().migration.epoch + 1, COPYING, ("there",)
                )
            )
            index.refresh()
            cluster.fault = Fault(at, "after", forever=True)
            with suppress(StoreError):
                index.upsert("a", f"{corpus(at)[-1]}", f"d{at}")
            cluster.fault = None
            with opened() as reader:
                # not the dead process itself, which would end what it left
                there = reader.get("a", f"d{at}") is not None
                assert there == (f"d{at}" in [event.id for event in reader._session.store.events()])
        cluster.now += LEASE


def _bins(request: Any) -> dict[str, Any]:
    return {operation["bin"]: operation.get("val") for operation in request.ops}


@pytest.mark.parametrize("first", [upserted, updated, removed])
@pytest.mark.parametrize("second", [removed, member_removed, joined])
def test_at_least_one_of_two_conflicting_steps_fails(
    cluster: Cluster, first: Work, second: Work, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Another process changes the conditions of a step between any two of its calls."""
    _, _, calls = outcomes(cluster, first)
    saved = copy.deepcopy(cluster.records)
    has_settled = threading.Event()
    pause = aerospike_steps.pause

    def pausing(attempt: int) -> None:
        has_settled.set()
        pause(attempt)

    # the second step waits for the one that is under way
    monkeypatch.setattr("nearkin.index.stores.aerospike.pause", pausing)

    def do_second(other: nk.Index) -> None:
        second(other)
        has_settled.set()

    for at in range(calls, 0, -step):
        cluster.records = copy.deepcopy(saved)
        has_settled.clear()
        one = opened()
        other = opened()
        left = at
        working = threading.Thread(target=do_second, args=(other,))

        def meanwhile(working: threading.Thread = working) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                cluster.during = None
                working.start()
                has_settled.wait(0.02)

        cluster.during = meanwhile
        first(one)
        cluster.during = None
        working.join()
        assert check_index(one).sound, (at, check_index(one))
        assert not cluster.kind("steps")


def test_shards_over_two_sets(cluster: Cluster, step: int) -> None:
    """The shards write steps that consist of postings only."""
    urls = [f"{URL}?set={name}" for name in ("one", "two", "three")]
    texts = corpus(60)
    with nk.Index.open(urls, threshold=0.7, postings="all") as index:
        index.upsert_many("a", texts, [f"d{at}" for at in range(60)])
        for at in range(0, 60, 3):
            index.remove("a", f"d{at}")
        assert check_index(index).sound
        assert len(list(index._session.store.scan())) == 40
        assert not cluster.kind("steps")
        calls = cluster.calls
        index.upsert("a", texts[0], "again")
        for at in range(1, cluster.calls - calls, step):
            cluster.fault = Fault(at, "half")
            with suppress(StoreError):
                index.upsert("a", f"{texts[0]} {at}", f"e{at}")
            cluster.fault = None
            index.upsert("a", f"{texts[0]} {at}", f"e{at}")
            assert index.get("a", f"e{at}") is not None
            assert not check_index(index).problems
        assert not cluster.kind("steps")


def test_four_processes_open_a_new_index_at_once(cluster: Cluster) -> None:
    """Two of the four write the same documents."""
    failed: list[Exception] = []
    opened().close()

    def write(seed: int) -> None:
        try:
            texts = corpus(100, seed=seed)
            with opened(bands=16, rows=5) as index:
                for start in range(0, 100, 10):
                    index.upsert_many("a", texts[start : start + 10])
        except StoreError as error:
            failed.append(error)

    cluster.records.clear()
    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with opened() as index:
        entries = list(index._session.store.scan())
        wanted = {text for seed in (1, 2, 3) for text in corpus(100, seed=seed)}
        assert len(entries) == len({entry.id for entry in entries}) == len(wanted)
        assert check_index(index).sound
        merge_clusters(index)
        assert check_index(index).sound


def writes_of(cluster: Cluster, kind: str) -> list[Any]:
    """Returns the requests for records of a set, in their order."""
    return [
        record
        for name, what, _ in cluster.log
        if name == "batch_write"
        for record in what
        if record.key[1] == kind
    ]


def test_calls_of_an_upsert(cluster: Cluster) -> None:
    with opened(bands=4, rows=4, documents=1000) as index:
        # scopes of old versions are looked for once in a process
        index.require_writable("a")
        cluster.log.clear()
        index.upsert("a", TEXT, "x")
    calls = [name for name, _, _ in cluster.log]
    assert "query" not in calls
    assert len(calls) <= 16
    never = aerospike.TTL_NEVER_EXPIRE
    policies = [policy for name, _, policy in cluster.log if name in ("batch_write", "batch_read")]
    assert all(policy["total_timeout"] == 30_000 for policy in policies)
    # what writes is sent once; what reads goes to the master
    assert {policy["max_retries"] for policy in policies if "replica" not in policy} == {0}
    assert {policy["replica"] for policy in policies if "replica" in policy} == {
        aerospike.POLICY_REPLICA_MASTER
    }

    groups = writes_of(cluster, "nearkin_buckets")
    reads = [one for one in groups if isinstance(one, Read)]
    puts = [one for one in groups if isinstance(one, Write)]
    assert len(reads) == 4
    assert [one.ops[0]["op"] for one in reads] == [aerospike.OP_MAP_GET_BY_KEY_RANGE] * 4
    assert all(
        one.ops[0]["range"] == one.ops[0]["key"][:8] + bytes([0x80, *[0] * 7]) for one in reads
    )
    entry = index.get("a", "x")
    assert entry is not None
    items = {key: value for one in puts for key, value in one.ops[0]["val"].items()}
    keys = index._session.preparer.keys_of("a", [entry])[0]
    assert items == {
        int(key).to_bytes(8, "big") + entry.posting.to_bytes(8, "big"): 0 for key in keys
    }
    assert all(
        one.key[2] == int.from_bytes(next(iter(one.ops[0]["val"]))[:8], "big") >> 48 for one in puts
    )
    assert all(one.policy == {"ttl": never} for one in puts)

    lock, settled = writes_of(cluster, "nearkin_documents")
    named = {operation["bin"]: operation["val"] for operation in lock.ops}
    assert lock.policy == {"exists": aerospike.POLICY_EXISTS_CREATE, "ttl": never}
    assert (named["nr"], named["f"]) == (entry.ref, lock.key[2])
    assert set(named) == {"f", "z", "s", "nr", "ne"}
    assert settled.policy == {
        "gen": aerospike.POLICY_GEN_EQ,
        "exists": aerospike.POLICY_EXISTS_REPLACE,
        "ttl": never,
    }
    assert settled.meta == {"gen": 1}
    assert {operation["bin"] for operation in settled.ops} == {"f", "z", "r", "e"}

    begun, committed, gone = writes_of(cluster, "nearkin_steps")
    assert begun.policy["exists"] == aerospike.POLICY_EXISTS_CREATE
    assert (committed.meta, committed.policy["gen"]) == ({"gen": 1}, aerospike.POLICY_GEN_EQ)
    assert isinstance(gone, Remove)
    assert gone.policy == {"durable_delete": False}


def test_real_client_accepts_the_operations(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official client checks all operations before it finds that there is no server."""
    monkeypatch.setattr(aerospike_buckets, "ROOM", 200)
    with opened(record_ttl=100.0, bucket_ttl=50.0) as index:
        two_clusters(index)
        for work in (compacted, upserted, updated, removed):
            work(index)
        index.upsert_many("b", corpus(20, share=0.0))
        index.stats()
    cluster.fault = Fault(20)
    with suppress(StoreError):
        opened().upsert("b", TEXT)
    monkeypatch.undo()
    config = {
        "hosts": [("127.0.0.1", free_port())],
        "fail_if_not_connected": False,
        "validate_keys": True,
    }
    client = aerospike.client({**config, "connect_timeout": 100})
    names = set()
    for name, what, policy in cluster.log:
        names.add(name)
        if name == "batch_write":
            client.batch_write(BatchRecords(what), policy)
        elif name == "batch_read":
            client.batch_read(what, policy=policy)
        else:
            query = client.query("test", what)
            query.select("r", "nr")
            if policy is not None:
                query.where(aerospike.predicates.equals(*policy))
    assert names == {"batch_write", "batch_read", "query"}
    with pytest.raises(aerospike.exception.ParamError):
        client.batch_write(BatchRecords([Remove(("test", "x", 1), policy={"unknown": 1})]))


def test_number_of_calls_does_not_grow_with_the_batch(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of more than AT_ONCE records take one more call for each AT_ONCE records."""
    monkeypatch.setattr(aerospike_records, "AT_ONCE", 2000)
    with opened() as index:
        # the first document of a scope writes down its name
        index.upsert("a", TEXT, "x")
        taken = []
        for size in (10, 60):
            calls = cluster.calls
            index.upsert_many("a", corpus(size, seed=size))
            taken.append(cluster.calls - calls)
    assert taken[0] == taken[1]


def test_plan_larger_than_a_record_is_divided(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr("nearkin.index.stores.aerospike_steps.PART", 2000)
    before, after, calls = outcomes(cluster, upserted)
    saved = copy.deepcopy(cluster.records)
    for at in range(calls, 0, -step):
        cluster.records = copy.deepcopy(saved)
        dying = opened()
        cluster.fault = Fault(at, "half", forever=True)
        with suppress(StoreError):
            upserted(dying)
        cluster.fault = None
        cluster.now += LEASE
        with opened() as index:
            assert contents(index) in (before, after)
            assert check_index(index).sound
            assert not cluster.kind("steps")


def test_records_carry_native_times_to_live(cluster: Cluster) -> None:
    """They are multiples of the settings; a match renews a document and its groups of buckets."""
    now = [1e6]
    with opened(record_ttl=100.0, bucket_ttl=50.0, clock=lambda: now[0]) as index:
        index.upsert("a", TEXT, "x")
        index.upsert("a", NEAR, "y")
        lives = sorted(record.until - cluster.now for record in cluster.kind("documents"))
        assert lives == [200, 400]
        assert {record.until for record in cluster.kind("buckets")} == {200}
        assert {record.until for record in cluster.kind("refs")} == {400}
        for _ in range(10):
            now[0] += 45
            cluster.now += 45
            assert index.upsert("a", TEXT, "x").kind == "exact"
        # hit all the time: everything of it is there, and what was not hit is gone
        assert check_index(index).sound
        assert [entry.id for entry in index._session.store.scan()] == ["x"]
        assert index.query("a", NEAR)[0].id == "x"
        assert index.expire() == {"records": 0, "postings": 0}
    cluster.now += 400
    kinds = ("documents", "refs", "buckets", "steps")
    assert not [record for kind in kinds for record in cluster.kind(kind)]


def test_counts_equal_the_postings_of_all_groups(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sizes of maps are not stored; the groups are counted in several batches."""
    monkeypatch.setattr(aerospike_records, "AT_ONCE", 30)
    with opened(documents=1000) as index:
        assert index._session.store.counts()["postings"] == 0
        index.upsert_many("a", corpus(30, share=0.0), [str(number) for number in range(30)])
        for number in range(10):
            index.remove("a", str(number))
        groups = cluster.kind("buckets")
        assert len(groups) > 30
        assert {name for group in groups for name in group.bins} == {"m"}
        assert (
            index._session.store.counts()["postings"]
            == sum(len(group.bins["m"]) for group in groups)
            > 0
        )


def test_batches_of_documents_stay_below_the_size_of_a_request(cluster: Cluster) -> None:
    """Documents are large, and groups of buckets small."""
    with opened() as index:
        index.upsert_many("a", corpus(400, seed=6))
        sizes: dict[str, int] = {}
        for name, batch, _ in cluster.log:
            if name in ("batch_write", "batch_read"):
                keys = [record if isinstance(record, tuple) else record.key for record in batch]
                kind = keys[0][1].removeprefix("nearkin_")
                sizes[kind] = max(sizes.get(kind, 0), len(keys))
    assert sizes["documents"] == aerospike_records.AT_ONCE == 250
    assert sizes["buckets"] == aerospike_records.SMALL_AT_ONCE == 1000


def test_records_never_expire_without_times_to_live(cluster: Cluster) -> None:
    with opened() as index:
        index.upsert("a", TEXT, "x")
        cluster.now += 1e9
        assert index.get("a", "x") is not None
        assert check_index(index).sound


def test_group_stays_below_the_record_size(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest buckets lose their newest postings, although no bucket is full."""
    monkeypatch.setattr(aerospike_buckets, "ROOM", 40)
    with opened(documents=1000) as index:
        group = 7 << 48
        for number in range(1, 31):
            keys = np.array([group + 1, group + number % 3 + 2], np.uint64)
            index._session.store.apply(Changes(postings_added=[(number << 24, keys)]))
        counts = index._session.store.counts()
        assert counts["postings"] <= 40
        assert counts["postings"] + counts["evicted"] == 60
        postings = index._session.store.postings(np.array([group + 1, group + 2], np.uint64))
        refs = (postings.words >> 24).tolist()
        assert refs[: postings.offsets[1]] == list(range(1, 1 + postings.offsets[1]))


def test_bucket_and_document_larger_than_a_record_are_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Records] = []
    with monkeypatch.context() as patched:
        patched.setattr(Records, "close", lambda records: closed.append(records))
        with pytest.raises(UsageError, match=r"bucket_capacity=20200 .* maximum is 20,164"):
            opened(bucket_capacity=20_200)
    assert len(closed) == 1
    with opened() as index:
        with pytest.raises(UsageError, match="store_text=False"):
            index.upsert("a", " ".join(corpus(2000, share=0.0)), "long")
        assert index.stats()["records"] == 0
        assert not cluster.kind("steps")


def test_invalid_urls_are_refused(cluster: Cluster) -> None:
    bad = (
        "aerospike://h:3000",
        "aerospike://h/a/b",
        "aerospike:///test",
        f"{URL}?x=1",
        f"{URL}?set=a-b",
    )
    for url in (*bad, f"{URL}?durable_delete=yes"):
        with pytest.raises(UsageError):
            nk.Index.open(url)
    with pytest.raises(UsageError, match="Community Edition"):
        nk.Index.open(f"{URL}?durable_delete=true")
    cluster.edition = "Enterprise"
    with nk.Index.open(
        "aerospike://user:secret@h:3001/test?set=other&durable_delete=true", threshold=0.7
    ) as index:
        assert index._session.store.url == "aerospike://h:3001/test?set=other"
        cluster.log.clear()
        index.upsert("a", TEXT, "x")
        assert writes_of(cluster, "other_steps")[-1].policy == {"durable_delete": True}
    with pytest.raises(StoreError, match="no namespace 'other'"):
        nk.Index.open("aerospike://h/other")


def test_unreachable_server_is_an_error() -> None:
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:9"):
        nk.Index.open("aerospike://127.0.0.1:9/test")


def test_missing_client_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aerospike", None)
    with pytest.raises(MissingExtraError, match=r"\.\[aerospike\]"):
        nk.Index.open(URL)


# -- what servers were seen to do


@pytest.fixture
def device(cluster: Cluster) -> Cluster:
    """A server of the Community Edition with its data in a file."""
    cluster.persistent = True
    return cluster


def test_community_edition_gets_no_linearizable_reads(cluster: Cluster) -> None:
    with opened() as index:
        assert index.upsert("a", TEXT, "x").kind == "new"
        assert index.query("a", NEAR)[0].id == "x"


def test_strongly_consistent_namespace_gets_linearizable_reads(cluster: Cluster) -> None:
    cluster.edition, cluster.strong = "Enterprise", True
    with opened() as index:
        index.upsert("a", TEXT, "x")
        cluster.log.clear()
        index.get("a", "x")
    modes = {policy["read_mode_sc"] for name, _, policy in cluster.log if name == "batch_read"}
    assert modes == {aerospike.POLICY_READ_MODE_SC_LINEARIZE}


def test_enterprise_edition_deletes_durably_by_default(cluster: Cluster) -> None:
    cluster.edition, cluster.persistent = "Enterprise", True
    with opened() as index:
        index.upsert("a", TEXT, "x")
        index.remove("a", "x")
    assert not cluster.deleted


@pytest.mark.parametrize("name", WORKS)
def test_cold_start_restores_no_deleted_documents_or_postings(device: Cluster, name: str) -> None:
    """Deleted plans and documents return from the device several times without any effect."""
    with opened() as index:
        two_clusters(index)
        WORKS[name](index)
        for entry in list(index._session.store.scan()):
            index.upsert("a", f"{TEXT} changed again {entry.id}", entry.id)
        index.remove("a", "y")
        before = contents(index)
        postings = index._session.store.counts()["postings"]
    for _ in range(5):
        device.cold_start()
        device.now += LEASE
        with opened() as index:
            index._session.store.counts()
            assert contents(index) == before
            assert index.get("a", "y") is None
            assert check_index(index).sound
            assert index._session.store.counts()["postings"] == postings


@pytest.mark.parametrize("name", WORKS)
def test_process_dies_before_a_cold_start(device: Cluster, name: str, step: int) -> None:
    """Whichever call is the last, the step is complete or undone after the restart."""
    before, after, calls = outcomes(device, WORKS[name])
    saved = copy.deepcopy(device.records)
    for at in range(calls, 0, -step):
        device.records = copy.deepcopy(saved)
        device.deleted.clear()
        dying = opened()
        device.fault = Fault(at, "half", forever=True)
        with suppress(StoreError):
            WORKS[name](dying)
        device.fault = None
        device.cold_start()
        device.now += LEASE
        with opened() as index:
            assert contents(index) in (before, after), at
            assert check_index(index).sound, (at, check_index(index))
        device.cold_start()
        with opened() as index:
            assert contents(index) in (before, after), at
            assert check_index(index).sound, (at, check_index(index))


def test_finished_plans_are_deleted_and_ignored_if_restored(
    device: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aerospike_steps, "PURGED", 10)
    with opened() as index:
        for number in range(35):
            index.upsert("a", f"{TEXT} {number}", str(number % 5))
            device.now += 3
        assert len(device.kind("steps")) < 20
        before = contents(index)
    states = {version.bins.get("t") for versions in device.deleted.values() for version in versions}
    assert {aerospike_steps.PENDING, aerospike_steps.COMMITTED} <= states
    for _ in range(5):
        device.cold_start()
        device.now += LEASE
        with opened() as index:
            index._session.store.counts()
            assert contents(index) == before
            assert check_index(index).sound


def test_step_with_a_finished_number_takes_a_new_one(device: Cluster) -> None:
    with opened() as index:
        index.upsert("a", TEXT, "x")
        (number,) = index._session.store.reserve(1)
        device.records[("nearkin_meta", "finished")] = Record(
            {"v": number + 3}, 1, float("inf"), 0.0
        )
        assert index.upsert("a", corpus(1)[0], "y").kind == "new"
        assert check_index(index).sound


def test_index_is_sound_after_a_killed_server_lost_a_second(device: Cluster) -> None:
    with opened() as index:
        for number, text in enumerate(corpus(20, seed=3)):
            index.upsert("a", text, str(number))
            device.now += 0.3
        index.remove("a", "19")
    device.kill()
    device.now += LEASE
    with opened() as index:
        index._session.store.counts()
        assert {str(number) for number in range(16)} <= {
            entry.id for entry in index._session.store.scan()
        }
        assert check_index(index).sound


def test_namespace_with_small_records_accepts_batches(cluster: Cluster) -> None:
    cluster.record_size = 128 << 10
    with pytest.raises(UsageError, match="bucket_capacity=10000"):
        opened()
    with opened(bucket_capacity=2000) as index:
        texts = corpus(1000, seed=4)
        kinds = [outcome.kind for outcome in index.upsert_many("a", texts)]
        assert kinds.count("new") > 500
        assert check_index(index).sound


def test_namespace_with_tiny_records_is_refused(cluster: Cluster) -> None:
    cluster.record_size = 16 << 10
    with pytest.raises(UsageError, match=r"write-block-size .* max-record-size"):
        opened()


def test_times_to_live_require_nsup_period(cluster: Cluster) -> None:
    cluster.expires = False
    with pytest.raises(UsageError, match="nsup-period"):
        opened(record_ttl=100.0)
    opened().close()


def test_match_restores_postings_of_expired_groups(cluster: Cluster) -> None:
    now = [1e6]
    with opened(record_ttl=1000.0, bucket_ttl=50.0, clock=lambda: now[0]) as index:
        index.upsert("a", TEXT, "x")
        places = [place for place in cluster.records if place[0].endswith("_buckets")]
        for place in places[::2]:
            del cluster.records[place]
        now[0] += 20
        cluster.now += 20
        assert index.upsert("a", TEXT, "x").kind == "exact"
        assert check_index(index).sound


def test_oldest_postings_leave_a_group_with_too_many_buckets(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every bucket of the group has one posting, and the group is too large."""
    monkeypatch.setattr(aerospike_buckets, "ROOM", 40)
    with opened(documents=1000) as index:
        for number in range(1, 61):
            index._session.store.apply(
                Changes(postings_added=[(number << 24, np.array([(7 << 48) + number], np.uint64))])
            )
        index._session.store.apply(
            Changes(
                postings_added=[
                    (61 << 24, np.arange(100, 200).astype(np.uint64) + np.uint64(7 << 48))
                ]
            )
        )
        counts = index._session.store.counts()
        assert counts["postings"] <= 40
        assert counts["postings"] + counts["evicted"] == 160


def test_existing_secondary_index_is_not_created_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened().close()

    def refuse(*_: Any) -> None:
        raise AssertionError("created again, for which the client waits for seconds")

    monkeypatch.setattr("tests.index.fake_aerospike.Client.index_single_value_create", refuse)
    opened().close()


def test_scans_retry_while_partitions_migrate(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aerospike_records, "SCAN_PAUSE", 0.0)
    migrating = [3]
    really = Query.results

    def results(query: Query, policy: dict[str, Any], options: dict[str, Any]) -> Any:
        if migrating[0]:
            migrating[0] -= 1
            error = aerospike.exception.ClusterError()
            error.code = aerospike_records.UNAVAILABLE
            raise error
        return really(query, policy, options)

    with opened() as index:
        index.upsert("a", TEXT, "x")
        monkeypatch.setattr(Query, "results", results)
        assert [entry.id for entry in index._session.store.scan()] == ["x"]
        migrating[0] = 100
        with pytest.raises(StoreError, match="code 11"):
            list(index._session.store.scan())


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "memory"),
        ({"persistent": True}, "within 1 s"),
        ({"persistent": True, "commits": True}, "before it is acknowledged"),
    ],
)
def test_durability_of_each_configuration(facts: dict[str, bool], words: str) -> None:
    assert words in Namespace("test", **facts).durability  # type: ignore[arg-type]


def test_listing_a_scope_reads_no_other_scope(cluster: Cluster) -> None:
    with opened() as index:
        for scope in ("a", "b"):
            index.upsert_many(scope, corpus(30, seed=ord(scope)))
        (only,) = [outcome.id for outcome in index.upsert_many("c", [TEXT])]
        index.upsert_many("gone", [TEXT])
        index.remove("gone", only)
        cluster.log.clear()
        assert sorted(index._session.store.scopes()) == ["a", "b", "c"]
        assert not [keys for name, keys, _ in cluster.log if name == "batch_read"]
        cluster.log.clear()
        assert [entry.id for entry in index._session.store.scan("c")] == [only]
        read = [key for name, keys, _ in cluster.log if name == "batch_read" for key in keys]
        assert len([key for key in read if key[1] == "nearkin_documents"]) == 1


def test_one_process_at_a_time_has_the_turn(cluster: Cluster) -> None:
    with opened() as index, opened() as other:
        assert index._session.store.take_turn("sweep", "one", 60.0)
        assert not other._session.store.take_turn("sweep", "two", 60.0)
        assert index._session.store.take_turn("sweep", "one", 60.0)
        cluster.now += 61
        assert other._session.store.take_turn("sweep", "two", 60.0)
        assert not index._session.store.take_turn("sweep", "one", 60.0)


def test_namespace_without_free_secondary_indexes_is_refused(cluster: Cluster) -> None:
    cluster.indexes = {("other", str(number)) for number in range(256)}
    with pytest.raises(UsageError, match="needs three"):
        opened()
