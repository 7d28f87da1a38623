"""Tests of the deletion of postings that an interrupted step over shards left behind."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.errors import StoreError
from nearkin.index.changes import Changes
from nearkin.index.entry import REF_SHIFT
from nearkin.index.index import Index
from nearkin.index.maintenance import check_index
from nearkin.index.stores.sharded import ShardedStore
from nearkin.index.stray_postings import MIN_AGE, StraySweeper
from tests.index.conftest import corpus, empty_store, preparer_of, store_of


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    return [str(empty_store(request.param, request, tmp_path)) for _ in range(2)]


@pytest.fixture
def index(urls: list[str]) -> Iterator[Index]:
    with nk.Index.open(urls, threshold=0.7) as found:
        found.upsert_many("a", corpus(60))
        yield found


def sweeper_of(index: Index, seconds: Seconds) -> StraySweeper:
    assert isinstance(store_of(index), ShardedStore)
    return StraySweeper(store_of(index).shards, store_of(index).by_refs, seconds)


def sweep_all(sweeper: StraySweeper, seconds: Seconds) -> int:
    """Sweeps all buckets twice, with the time in between after which a posting is a stray."""
    deleted = 0
    for _ in range(2):
        passed = [False] * len(sweeper._places)
        while not all(passed):
            deleted += sweeper.sweep()
            passed = [
                there or place is None for there, place in zip(passed, sweeper._places, strict=True)
            ]
        seconds.now += MIN_AGE
    return deleted + sweeper.sweep()


def leave_strays(index: Index, refs: list[int]) -> np.ndarray:
    """Writes postings without their documents, as a process that is killed in between."""
    assert isinstance(store_of(index), ShardedStore)
    rng = np.random.default_rng(1)
    keys = rng.integers(1, 2**63, (len(refs), 20), np.uint64)
    entry = next(index.scan())
    # some of them are in buckets with other documents
    keys[:, :3] = preparer_of(index).keys_of("a", [entry])[0][:3]
    entering = [(ref << REF_SHIFT | 7, row) for ref, row in zip(refs, keys, strict=True)]
    store_of(index)._write_postings(entering, [], Changes())
    return keys


def test_stray_postings_are_deleted(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.index.stray_postings.PORTION", 300)
    assert check_index(index).sound
    leave_strays(index, [10_000_001, 10_000_002])
    assert check_index(index).stray == 40
    seconds = Seconds()
    # a document counts once for each portion that has buckets of it
    assert sweep_all(sweeper_of(index, seconds), seconds) >= 2
    assert check_index(index).sound
    assert index.query("a", corpus(1)[0])


def test_stray_postings_beyond_the_capacity_are_deleted(urls: list[str]) -> None:
    with nk.Index.open(urls, threshold=0.7, bucket_capacity=2) as index:
        index.upsert_many("a", corpus(20, share=0))
        keys = np.random.default_rng(2).integers(1, 2**63, 20, np.uint64)
        entering = [(ref << REF_SHIFT | 7, keys) for ref in range(10_000_001, 10_000_005)]
        assert isinstance(store_of(index), ShardedStore)
        store_of(index)._write_postings(entering, [], Changes(may_overflow=True))
        assert index.stats()["evicted"] == 40
        seconds = Seconds()
        sweep_all(sweeper_of(index, seconds), seconds)
        assert index.stats()["evicted"] == 0
        assert check_index(index).sound


def test_postings_of_a_failed_step_over_shards_are_deleted(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second shard fails when documents are written, and when postings are removed again."""
    assert isinstance(store_of(index), ShardedStore)
    store = store_of(index)
    records, withdraw = store._write_records, store._withdraw

    def failing(changes: Changes) -> None:
        raise StoreError("a shard is gone")

    monkeypatch.setattr(store, "_write_records", failing)
    monkeypatch.setattr(store, "_withdraw", lambda posted: None)
    with pytest.raises(StoreError, match="repeated safely"):
        index.upsert(
            "a", "a document of which the postings alone will be there when all is over", "late"
        )
    monkeypatch.setattr(store, "_write_records", records)
    monkeypatch.setattr(store, "_withdraw", withdraw)
    assert check_index(index).stray > 0
    seconds = Seconds()
    sweep_all(sweeper_of(index, seconds), seconds)
    assert check_index(index).sound
    assert (
        index.upsert(
            "a", "a document of which the postings alone will be there when all is over", "late"
        ).kind
        == "new"
    )


def test_postings_of_a_step_in_progress_are_kept(index: Index) -> None:
    leave_strays(index, [10_000_001])
    seconds = Seconds()
    sweeper = sweeper_of(index, seconds)
    for _ in range(20):
        seconds.now += MIN_AGE / 50
        assert sweeper.sweep() == 0
    assert check_index(index).stray == 20


def test_a_document_inserted_during_the_sweep_keeps_its_postings(index: Index) -> None:
    """The document is inserted between the check of its posting and the deletion of it."""
    seconds = Seconds()
    sweeper = sweeper_of(index, seconds)
    look_up = sweeper._look_up
    leader = next(entry for entry in index.scan() if entry.posted)
    looks = iter(range(1000))

    def late(refs: list[int]) -> list:
        entries = look_up(refs)
        return [
            None if entry is not None and entry.ref == leader.ref and next(looks) < 2 else entry
            for entry in entries
        ]

    sweeper._look_up = late
    sweeper.sweep()
    seconds.now += MIN_AGE
    sweeper._places = [None] * 2
    sweeper.sweep()
    assert check_index(index).sound


def test_expire_deletes_stray_postings(index: Index) -> None:
    """A server expires documents regularly, so nobody has to run a command."""
    assert isinstance(store_of(index), ShardedStore)
    leave_strays(index, [10_000_001])
    seconds = Seconds()
    store_of(index)._sweeper._seconds = seconds
    for number in range(5000):
        index.expire()
        seconds.now += MIN_AGE
        if number % 20 == 19 and check_index(index).sound:
            break
    assert check_index(index).sound
