"""The id of a cluster is inherited once, whenever the removal of its representative is killed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.backup import backup, restore
from nearkin.index.changes import Changes
from nearkin.index.entry import Entry
from nearkin.index.handovers import Handover, handovers_scope, is_handovers_scope
from nearkin.index.maintenance import (
    SHARED_CLUSTER_ID,
    check_index,
    check_resolutions,
    merge_clusters,
)
from nearkin.index.migration.cutover import rebuild
from nearkin.index.migration.state import MOVED, MigrationState
from nearkin.index.removal import Removals
from nearkin.index.stores.base import FIRST_PORTION
from nearkin.index.stores.sharded import ShardedStore
from tests.index.conftest import Clock, Opener, jaccard, near, words

PORTION = 6
MEMBERS = 20


class KilledError(BaseException):
    """Stands for the end of the process."""


class WriteCounter:
    """Counts the writes of an index, and ends the process before one of them.

    Over shards, each write of one shard counts.

    Args:
        index: The index.
        last: Number of writes that are done; None for all.
    """

    def __init__(self, index: nk.Index, last: int | None = None) -> None:
        store = index._session.store
        self.done = 0
        self._last = last
        self.stores = store.shards if isinstance(store, ShardedStore) else [store]

    def __enter__(self) -> "WriteCounter":
        for store in self.stores:
            self._count(store)
        return self

    def _count(self, store: Any) -> None:
        apply = store.apply

        def counted(changes: Changes) -> list[int]:
            if self.done == self._last:
                raise KilledError
            self.done += 1
            written: list[int] = apply(changes)
            return written

        store.apply = counted

    def __exit__(self, *_: object) -> None:
        for store in self.stores:
            del store.apply


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.index.removal.MAX_REASSIGNED", PORTION)


def fill(index: nk.Index, members: int = MEMBERS) -> None:
    """Inserts a representative, and members that resemble it but hardly each other."""
    rng = np.random.default_rng(4)
    base = words(rng, 100)
    texts = [" ".join(base), *(" ".join(near(base, rng, 10)) for _ in range(members))]
    index.upsert_many("a", texts, ["base", *(f"m{i}" for i in range(members))])
    assert index._session.store.member_count("a", "base") == members


def leaders(index: nk.Index) -> list[Entry]:
    return [entry for entry in index._session.store.scan("a") if entry.is_leader]


def leave_buckets(index: nk.Index) -> None:
    """Takes all documents but `base` out of their buckets, so that no search finds an heir."""
    entries = [entry for entry in index._session.store.scan("a") if entry.id != "base"]
    index._expiry.remove_postings(index._session.store, "a", entries)


def handovers(index: nk.Index) -> int:
    return sum(1 for _ in index._session.store.scan(handovers_scope("a")))


def kill_removal(index: nk.Index, last: int) -> bool:
    """Removes `base`, with the process killed after some writes. Returns True if it was."""
    try:
        with WriteCounter(index, last):
            index.remove("a", "base")
    except KilledError:
        return True
    return False


def heirs(index: nk.Index) -> list[Entry]:
    return [entry for entry in leaders(index) if entry.cluster == "base" != entry.id]


def interrupted(index: nk.Index) -> None:
    """Leaves `base` and one heir with the same cluster id."""
    fill(index)
    # over shards, a portion takes several writes
    last = 1
    while not heirs(index):
        assert kill_removal(index, last)
        last += 1


@pytest.mark.parametrize("members", [4, MEMBERS])
def test_a_cluster_id_is_inherited_once_wherever_the_removal_is_killed(
    opened: Opener, members: int, full: bool
) -> None:
    """Whoever completes the removal finds the heir, although it shares no bucket any more."""
    index = opened(threshold=0.5)
    fill(index, members)
    at = 1
    while kill_removal(index, at):
        assert not check_index(index).problems, at
        leave_buckets(index)
        repeated = Removals(index._session)
        if index.get("a", "base") is not None:
            assert repeated.remove("a", "base")
        clusters = [entry.cluster for entry in leaders(index)]
        assert clusters.count("base") == 1, at
        report = check_index(index)
        assert not report.problems, at
        assert report.unfinished_removals == 0
        merge_clusters(index)
        assert handovers(index) == 0
        for scope in index.scopes():
            for entry in list(index._session.store.scan(scope)):
                index.remove(scope, entry.id)
        fill(index, members)
        # over shards there are many writes
        of_shards = 3 if full else 7
        at += 1 if len(WriteCounter(index).stores) == 1 else of_shards
    assert handovers(index) == 0
    assert at > members // PORTION


def test_an_heir_that_is_removed_hands_the_cluster_id_on(opened: Opener) -> None:
    index = opened(threshold=0.5)
    interrupted(index)
    (heir,) = heirs(index)
    # a member of the heir becomes the next heir
    rng = np.random.default_rng(8)
    assert heir.text is not None
    for i in range(3):
        outcome = index.upsert("a", " ".join(near(heir.text.split(), rng, 1)), f"late{i}")
        assert outcome.cluster == "base"
    index.remove("a", heir.id)
    leave_buckets(index)
    assert index.remove("a", "base")
    clusters = [entry.cluster for entry in leaders(index)]
    assert clusters.count("base") <= 1
    assert not check_index(index).problems


def test_check_counts_removals_that_are_not_complete(opened: Opener) -> None:
    index = opened(threshold=0.5)
    interrupted(index)
    report = check_index(index)
    assert not report.problems
    assert report.unfinished_removals == 1
    assert report.to_dict()["unfinished_removals"] == 1
    assert check_resolutions(index._session.store).unfinished_removals == 1


def test_compact_takes_an_interrupted_removal_back(opened: Opener) -> None:
    """The heir, which may share no bucket, is resolved to the representative again."""
    index = opened(threshold=0.5)
    interrupted(index)
    leave_buckets(index)
    assert merge_clusters(index)["merged"] >= 1
    report = check_index(index)
    assert not report.problems
    assert report.unfinished_removals == 0
    assert [entry.id for entry in leaders(index) if entry.cluster == "base"] == ["base"]
    assert handovers(index) == 0
    assert not any(is_handovers_scope(scope) for scope in index.scopes())


def test_compact_separates_two_representatives_with_one_cluster_id(opened: Opener) -> None:
    index = opened(threshold=0.5)
    rng = np.random.default_rng(2)
    first, second = (" ".join(words(rng, 60)) for _ in range(2))
    for name, text in (("x", first), ("y", second)):
        index.upsert("a", text, name)
        for i in range(2 * PORTION):
            near_text = " ".join(near(text.split(), rng, 2))
            assert index.upsert("a", near_text, f"{name}{i}").representative == name
    wrong = [
        entry._replace(cluster="gone")
        for entry in index._session.store.scan("a")
        if entry.leader in ("x", "y")
    ]
    index._session.store.apply(Changes(changed=wrong, invalidates_caches=True))
    for report in (check_index(index), check_resolutions(index._session.store)):
        assert [(shared.what, shared.id) for shared in report.sharing] == [(SHARED_CLUSTER_ID, "y")]
        assert report.shared_cluster_ids == 1
    # they are not similar, so the younger one gets an id of its own, in portions
    assert merge_clusters(index)["merged"] == 0
    assert check_index(index).shared_cluster_ids == 0
    assert {entry.id: entry.cluster for entry in leaders(index)} == {"x": "gone", "y": "y"}
    listed = index.cluster("a", "y3")
    assert listed is not None
    assert (listed.id, len(listed.members)) == ("y", 2 * PORTION + 1)


def test_a_deleted_id_that_comes_again_is_no_problem(opened: Opener) -> None:
    index = opened(threshold=0.5)
    fill(index, 3)
    assert index.remove("a", "base")
    other = " ".join(words(np.random.default_rng(9), 60))
    assert index.upsert("a", other, "base").cluster == "base"
    assert [entry.cluster for entry in leaders(index)].count("base") == 2
    assert check_index(index).sound
    merge_clusters(index)
    assert [entry.cluster for entry in leaders(index)].count("base") == 2


def test_a_handover_stays_while_its_heir_does(opened: Opener, clock: Clock) -> None:
    index = opened(threshold=0.5, record_ttl=1000)
    interrupted(index)
    kept = [entry.id for entry in index._session.store.scan("a")]
    clock.now += 900
    for entry in list(index._session.store.scan("a")):
        if entry.text is not None:
            index.upsert("a", entry.text, entry.id)
    clock.now += 500
    index.expire(trust_clock=True)
    assert [entry.id for entry in index._session.store.scan("a")] == kept
    assert handovers(index) == 1
    clock.now += 5000
    for _ in range(2):
        index.expire(trust_clock=True)
    assert leaders(index) == []
    assert handovers(index) == 0


def test_an_interrupted_removal_does_not_hinder_a_copy(tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/old.db"
    target = f"sqlite:///{tmp_path}/new.db"
    with nk.Index.open(source, threshold=0.5) as index:
        interrupted(index)
        documents = index.stats()["records"]
    rebuild(source, target, {}, 0.4, None)
    with nk.Index.open(target) as copy:
        assert copy.stats()["records"] == documents
        assert not check_index(copy).problems


def hand_over_twice(index: nk.Index) -> tuple[str, str]:
    """Removes `base`, stores another text under its id with members, and removes it again.

    Returns:
        The ids of both heirs of the cluster id, the older one first.
    """
    rng = np.random.default_rng(12)
    heirs_by_time: list[str] = []
    for time in range(2):
        base = words(rng, 60)
        index.upsert("a", " ".join(base), "base")
        for i in range(3):
            near_text = " ".join(near(base, rng, 1))
            assert index.upsert("a", near_text, f"t{time}m{i}").representative == "base"
        assert index.remove("a", "base")
        heirs_by_time += [entry.id for entry in leaders(index) if entry.id.startswith(f"t{time}m")]
    first, second = heirs_by_time
    return first, second


def test_a_cluster_id_that_two_documents_of_one_id_leave_is_counted_and_separated(
    opened: Opener,
) -> None:
    """The index is sound: both clusters are found, and keep their members."""
    index = opened(threshold=0.5)
    first, second = hand_over_twice(index)
    assert sorted(entry.id for entry in heirs(index)) == sorted((first, second))
    report = check_index(index)
    assert report.sound
    assert [(shared.what, shared.id) for shared in report.sharing] == [(SHARED_CLUSTER_ID, second)]
    assert report.to_dict()["sharing"] == [shared._asdict() for shared in report.sharing]
    assert merge_clusters(index) == {"merged": 0, "moved": 0, "posted": 0}
    assert check_index(index).shared_cluster_ids == 0
    assert {entry.id: entry.cluster for entry in leaders(index)} == {
        first: "base",
        second: second,
    }
    for heir in (first, second):
        cluster = index.cluster("a", heir)
        assert cluster is not None
        assert sorted(name for name, _ in cluster.members) == [f"{heir[:2]}m{i}" for i in range(3)]


def test_clusters_with_the_same_id_do_not_hinder_a_backup(tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/index.db"
    restored = f"sqlite:///{tmp_path}/restored.db"
    with nk.Index.open(source, threshold=0.5) as index:
        _, second = hand_over_twice(index)
        assert check_index(index).shared_cluster_ids == 1
        entries = list(index.scan())
    assert backup(source, tmp_path / "copy.db").documents == len(entries)
    restore(tmp_path / "copy.db", restored)
    with nk.Index.open(restored) as index:
        assert list(index.scan()) == entries
        merge_clusters(index)
        assert check_index(index).shared_cluster_ids == 0
        assert second in [entry.cluster for entry in leaders(index)]


def shared_by_heirs(index: nk.Index) -> set[str]:
    """Returns the cluster ids that several heirs have, by brute force."""
    inherited = [entry.cluster for entry in leaders(index) if entry.cluster != entry.id]
    return {cluster for cluster in inherited if inherited.count(cluster) > 1}


@pytest.mark.parametrize("seed", range(5))
def test_ids_that_come_and_go_leave_cluster_ids_that_compact_separates(seed: int) -> None:
    """A model in plain Python has the same documents, and finds the ids that heirs share."""
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    for _ in range(4):
        base = words(rng, 60)
        texts += [" ".join(near(base, rng, int(rng.integers(0, 7)))) for _ in range(8)]
    model: dict[str, str] = {}
    with nk.Index.open("memory://", threshold=0.6) as index:
        for _ in range(80):
            id = f"d{rng.integers(0, 12)}"
            if rng.random() < 0.5:
                model[id] = texts[rng.integers(0, len(texts))]
                index.upsert("a", model[id], id)
            else:
                assert index.remove("a", id) == (model.pop(id, None) is not None)
            assert {entry.id: entry.text for entry in index.scan("a")} == model
            report = check_index(index)
            assert report.sound
            reported = {stored_entry(index, shared.id).cluster for shared in report.sharing}
            assert shared_by_heirs(index) <= reported
            for entry in index.scan("a"):
                assert jaccard(model[entry.id], model[entry.leader]) >= 0.6
        merge_clusters(index)
        assert check_index(index).shared_cluster_ids == 0
        assert not shared_by_heirs(index)


def stored_entry(index: nk.Index, id: str) -> Entry:
    entry = index.get("a", id)
    assert entry is not None
    return entry


def test_handovers_are_deleted_while_the_index_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new"))
    with nk.Index.open(old) as index, nk.Index.open(new) as target:
        for opened in (index, target):
            changes = Changes()
            for number in range(FIRST_PORTION + 2):
                Handover("a", f"c{number}", "heir", frozenset({"r"})).stage(changes, 0.0)
            opened._session.apply(changes)
        delete = index._removals._delete_if_finished

        def move_first(handover: Handover) -> None:
            store = index._session.store
            if store.url == old:
                store.redirect(MigrationState(1, MOVED, (new,)))
                index.refresh()
            delete(handover)

        monkeypatch.setattr(index._removals, "_delete_if_finished", move_first)
        index._removals.delete_finished_handovers()
        assert target.stats()["records"] == 0
