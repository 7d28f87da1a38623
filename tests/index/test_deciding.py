"""Tests of decisions that an index stores, and of copies of it, which follow them."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest

import nearkin as nk
from nearkin.cli.app import run as run_command
from nearkin.errors import StoreError, UsageError
from nearkin.index import deciding
from nearkin.index.backup import backup, restore
from nearkin.index.changes import Changes
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.index.migration.cutover import cut_over, fill_copy, rebuild
from nearkin.index.migration.key_rotation import rotate_key
from nearkin.index.migration.state import MOVED, MigrationState
from nearkin.index.session import Session
from nearkin.index.stores.sharded import ShardedStore
from nearkin.index.stores.sqlite import SqliteStore
from nearkin.runs.loading import migrate
from nearkin.settings.decisions import Decision, Decisions, Verdict, read_decisions
from nearkin.settings.keys import HashKey
from tests.index.test_decided_pairs import (
    IDS,
    SCOPE,
    WORDS,
    random_decisions,
    random_text,
    require_followed,
)

SAME = Verdict.SAME
DIFFERENT = Verdict.DIFFERENT
TEXT = " ".join(WORDS)


def open_index(url: str | list[str] = "memory://", **fields: object) -> nk.Index:
    return nk.Index.open(url, nk.Spec(n=1), 0.6, **fields)  # type: ignore[arg-type]


def leaders_of(index: nk.Index) -> dict[str, str]:
    return {entry.id: entry.leader for entry in index.scan(SCOPE)}


def random_step(index: nk.Index, rng: random.Random) -> None:
    action = rng.random()
    if action < 0.2:
        index.remove(SCOPE, rng.choice(IDS))
    elif action < 0.5:
        index.upsert(SCOPE, random_text(rng), rng.choice(IDS))
    elif action < 0.95:
        ids = rng.sample(IDS, rng.randrange(2, 6))
        index.upsert_many(SCOPE, [random_text(rng) for _ in ids], ids)
    else:
        merge_clusters(index)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "shards", "all posted", "no texts"])
@pytest.mark.parametrize("seed", range(2))
def test_random_decisions_are_followed_by_the_documents_that_are_stored(
    kind: str, seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    decisions = list(random_decisions(rng))
    rng.shuffle(decisions)
    url: str | list[str] = f"sqlite:///{tmp_path}/index.db"
    if kind == "shards":
        url = [f"sqlite:///{tmp_path}/{name}.db" for name in "xy"]
    fields = {"all posted": {"postings": "all"}, "no texts": {"store_text": False}}.get(kind, {})
    with open_index("memory://" if kind == "memory" else url, **fields) as index:
        followed: dict[tuple[str, str], Decision] = {}
        for decision in decisions:
            for _ in range(2):
                random_step(index, rng)
            assert index.decide(SCOPE, [decision]) == 1
            followed[decision.pair] = decision
            require_followed(index, Decisions(followed))
            assert check_index(index).problems == ()
        assert index.decide(SCOPE, list(index.decisions(SCOPE))) == 0
        assert {one.pair for one in index.decisions(SCOPE)} == set(followed)
    if kind == "sqlite":
        with open_index(url) as index:
            for _ in range(10):
                random_step(index, rng)
                require_followed(index, Decisions(followed))


def test_decisions_are_followed_in_every_store(url: str | list[str]) -> None:
    rng = random.Random(3)
    decisions = list(random_decisions(rng))[:5]
    with open_index(url) as index:
        for decision in decisions:
            random_step(index, rng)
            assert index.decide(SCOPE, [decision]) == 1
        require_followed(index, Decisions({one.pair: one for one in decisions}))
        assert check_index(index).problems == ()
    if url == "memory://":
        return  # it ends with its process
    with open_index(url) as index:
        assert {one.pair for one in index.decisions(SCOPE)} == {one.pair for one in decisions}
        for _ in range(3):
            random_step(index, rng)
        require_followed(index, index.decisions(SCOPE))


def test_decisions_separate_and_join_whole_groups() -> None:
    with open_index() as index:
        index.upsert_many(SCOPE, [TEXT] * 4, ["a", "b", "c", "d"])
        index.upsert_many(SCOPE, ["of its own", "of its own kind"], ["x", "y"])
        assert leaders_of(index) == {"a": "a", "b": "a", "c": "a", "d": "a", "x": "x", "y": "x"}
        index.decide(SCOPE, [Decision("b", "c", SAME), Decision("a", "b", DIFFERENT)])
        assert leaders_of(index) == {"a": "a", "b": "b", "c": "b", "d": "a", "x": "x", "y": "x"}
        # both are representatives; the members of the younger one are searched for again
        index.decide(SCOPE, [Decision("x", "a", SAME)])
        assert leaders_of(index) == {"a": "a", "b": "b", "c": "b", "d": "a", "x": "a", "y": "y"}
        # the later decision counts
        index.decide(SCOPE, [Decision("a", "b", SAME)])
        assert leaders_of(index)["b"] == leaders_of(index)["c"] == "a"
        assert check_index(index).sound


def test_documents_that_are_the_same_as_one_that_is_not_stored_are_separated() -> None:
    with open_index() as index:
        index.upsert_many(SCOPE, [TEXT, TEXT], ["kept", "copy"])
        index.decide(SCOPE, [Decision("absent", "copy", SAME)])
        index.decide(SCOPE, [Decision("absent", "kept", DIFFERENT)])
        assert leaders_of(index) == {"kept": "kept", "copy": "copy"}
        index.upsert(SCOPE, "quite another text", "absent")
        assert leaders_of(index) == {"kept": "kept", "copy": "copy", "absent": "copy"}
        assert check_index(index).sound


def test_different_documents_get_different_cluster_ids() -> None:
    """An heir has the id of a document that was deleted, and that comes again."""
    with open_index() as index:
        index.upsert_many(SCOPE, [TEXT, TEXT], ["first", "heir"])
        index.remove(SCOPE, "first")
        index.upsert(SCOPE, "quite another text", "first")
        assert {entry.cluster for entry in index.scan(SCOPE)} == {"first"}
        index.decide(SCOPE, [Decision("heir", "first", DIFFERENT)])
        assert len({entry.cluster for entry in index.scan(SCOPE)}) == 2
        require_followed(index, index.decisions(SCOPE))
        assert check_index(index).sound


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("unlike", ["unlike", "an unlike"])
def test_documents_that_a_later_decision_parts_leave_what_they_do_not_resemble(
    moved: bool, unlike: str
) -> None:
    """A decision that they are the same had joined them to its representative."""
    with open_index() as index:
        index.upsert(SCOPE, TEXT, "kept")
        index.upsert(SCOPE, TEXT, "copy")
        index.decide(SCOPE, [Decision("copy", unlike, SAME), Decision(unlike, "odd", SAME)])
        index.upsert_many(SCOPE, ["quite another text", "something else"], [unlike, "odd"])
        assert set(leaders_of(index).values()) == {"kept"}
        if moved:
            index.remove(SCOPE, "copy")
        index.decide(SCOPE, [Decision("copy", unlike, DIFFERENT)])
        leaders = leaders_of(index)
        assert leaders[unlike] == leaders["odd"] in {unlike, "odd"}
        assert moved or leaders["copy"] == "kept"
        assert check_index(index).sound


def test_a_large_cluster_is_merged_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.index.removal.MAX_REASSIGNED", 3)
    with open_index() as index:
        index.upsert(SCOPE, "another text of its own", "old")
        index.upsert_many(SCOPE, [TEXT] * 9, [f"m{number}" for number in range(9)])
        index.decide(SCOPE, [Decision("old", "m0", SAME)])
        leaders = leaders_of(index)
        assert leaders["m0"] == "old"
        assert {leaders[f"m{number}"] for number in range(1, 9)} == {"m1"}
        assert check_index(index).sound


def test_contradictory_decisions_are_refused_and_nothing_is_stored() -> None:
    chain = [Decision("a", "b", SAME), Decision("b", "c", SAME)]
    with open_index() as index:
        index.decide(SCOPE, chain)
        with pytest.raises(UsageError, match="'a' = 'b' = 'c'"):
            index.decide(SCOPE, [Decision("x", "y", SAME), Decision("c", "a", DIFFERENT)])
        assert {one.pair for one in index.decisions(SCOPE)} == {("a", "b"), ("b", "c")}
        assert not len(index.decisions("other"))
        at = datetime(2030, 1, 1, tzinfo=UTC)
        index.decide(SCOPE, [Decision("a", "b", DIFFERENT, at=at)])
        # a decision without a time is later, whatever the clock of the earlier one was
        index.decide(SCOPE, [Decision("a", "b", SAME)])
        assert index.decisions(SCOPE).different == []
        assert index.decide(SCOPE, [Decision("a", "b", DIFFERENT, at=at)]) == 0
        for bad in (
            Decision("a\0", "b", SAME),
            Decision("a", "b", SAME, by="x\n"),
            Decision("a", "b", "maybe"),  # type: ignore[arg-type]
            Decision(1, "b", SAME),  # type: ignore[arg-type]
            "a",
        ):
            with pytest.raises(UsageError):
                index.decide(SCOPE, [bad])  # type: ignore[list-item]
        stored = next(iter(index.decisions(SCOPE)))
        with pytest.raises(UsageError, match="same time"):
            index.decide(SCOPE, [Decision(*stored.pair, DIFFERENT, at=stored.at)])


@pytest.mark.parametrize("stored", [SAME, DIFFERENT, None])
@pytest.mark.parametrize("first", [SAME, DIFFERENT])
@pytest.mark.parametrize("at", [None, datetime(2026, 5, 1, tzinfo=UTC)])
def test_verdicts_of_one_call_of_which_neither_is_later_are_refused(
    stored: Verdict | None, first: Verdict, at: datetime | None
) -> None:
    second = DIFFERENT if first == SAME else SAME
    with open_index() as index:
        if stored is not None:
            index.decide(SCOPE, [Decision("a", "b", stored)])
        before = index.decisions(SCOPE)
        with pytest.raises(UsageError, match="neither is later"):
            index.decide(SCOPE, [Decision("a", "b", first, at=at), Decision("b", "a", second)])
        assert index.decisions(SCOPE) == before


def test_times_are_stored_in_utc() -> None:
    at = datetime.fromisoformat("2026-05-01T12:00:00+02:00:30")
    with open_index() as index:
        index.decide(SCOPE, [Decision("a", "b", SAME, at=at)])
        (stored,) = index.decisions(SCOPE)
        assert stored.at is not None
        assert stored.at.isoformat() == "2026-05-01T09:59:30+00:00"
        assert index.decide(SCOPE, [Decision("a", "b", SAME, at=at)]) == 0


def test_too_many_decisions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "MAX_DECISIONS", 3)
    monkeypatch.setattr(deciding, "DECISIONS_AT_ONCE", 2)
    with open_index() as index:
        assert index.decide(SCOPE, [Decision("a", id, SAME) for id in "bcd"]) == 3
        with pytest.raises(UsageError, match="at most 3"):
            index.decide(SCOPE, [Decision("a", "e", SAME)])


def test_stored_decisions_and_given_ones_are_followed_together(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    given = tmp_path / "decisions.csv"
    given.write_text("id_a,id_b,decision\na,b,same\nc,d,different\n")
    with open_index(url) as index:
        index.decide(SCOPE, [Decision("a", "b", DIFFERENT), Decision("x", "a", SAME)])
    with open_index(url, decisions={SCOPE: given}) as index:
        index.upsert_many(SCOPE, [TEXT, TEXT, "x y", "c d", "c d"], ["a", "b", "x", "c", "d"])
        assert leaders_of(index) == {"a": "a", "b": "b", "x": "a", "c": "c", "d": "d"}


def test_a_step_of_another_process_without_the_decision_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with open_index(url) as deciding_process, open_index(url) as other:
        other.upsert(SCOPE, TEXT, "a")
        deciding_process.decide(SCOPE, [Decision("a", "b", DIFFERENT)])
        # its state was read moments ago, so that it would not look for decisions
        assert other.upsert(SCOPE, TEXT, "b").representative == "b"
        deciding_process.decide(SCOPE, [Decision("a", "c", SAME)])
        assert other.upsert(SCOPE, "something else", "c").representative == "a"


def test_a_repeated_decision_raises_the_epoch_only_if_it_is_not_in_force_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions = [Decision("a", "b", DIFFERENT), Decision("a", "c", SAME)]
    with open_index(f"sqlite:///{tmp_path}/index.db") as index:
        store = index._session.store

        def epoch() -> int:
            return store.state().migration.epoch

        for id in "abc":
            index.upsert(SCOPE, TEXT, id)
        with monkeypatch.context() as interrupted:
            interrupted.setattr(Session, "fence", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                index.decide(SCOPE, decisions)
        before = epoch()
        version = index.decisions_version(SCOPE)
        assert index.decide(SCOPE, decisions) == 0
        raised = epoch()
        assert raised > before
        assert leaders_of(index) == {"a": "a", "b": "b", "c": "a"}
        for repeated in (decisions, list(index.decisions(SCOPE))):
            assert index.decide(SCOPE, repeated) == 0
        assert epoch() == raised
        assert index.decisions_version(SCOPE) == version
        assert index.decide(SCOPE, [Decision("b", "d", SAME)]) == 1
        assert epoch() > raised
        assert version != index.decisions_version(SCOPE) != index.decisions_version("other") == ""


def test_upserts_outlast_many_decisions_of_another_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with open_index(url) as deciding_process, open_index(url) as other:
        write = other._session.store.apply
        late = iter(range(20))

        def write_late(changes: Changes) -> list[int]:
            number = next(late, None)
            if number is not None:
                deciding_process.decide(SCOPE, [Decision("a", f"x{number}", DIFFERENT)])
            return write(changes)

        other._session.store.apply = write_late  # type: ignore[method-assign]
        assert other.upsert("another scope", TEXT, "a").kind == "new"
        assert next(late, None) is None


def test_decisions_and_upserts_at_once_leave_a_sound_index(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    ids = [f"d{number}" for number in range(12)]
    pairs = [(ids[number], ids[number + 1]) for number in range(0, 12, 2)]
    with open_index(url) as first, open_index(url) as second:

        def upsert(index: nk.Index, names: list[str]) -> None:
            for id in names:
                index.upsert(SCOPE, TEXT, id)

        def decide() -> None:
            for pair in pairs:
                first.decide(SCOPE, [Decision(*pair, DIFFERENT)])

        threads = [
            Thread(target=upsert, args=(first, ids)),
            Thread(target=upsert, args=(second, ids[::-1])),
            Thread(target=decide),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(leaders_of(first)) == 12
        require_followed(first, first.decisions(SCOPE))
        assert len(first.decisions(SCOPE)) == 6
        assert check_index(first).sound


def test_two_decisions_at_once_are_both_kept_or_one_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with open_index(url) as first, open_index(url) as second:
        first.decide(SCOPE, [Decision("a", "b", SAME)])
        write = second._session.store.apply

        def write_late(changes: Changes) -> list[int]:
            second._session.store.apply = write  # type: ignore[method-assign]
            first.decide(SCOPE, [Decision("b", "c", SAME)])
            return write(changes)

        second._session.store.apply = write_late  # type: ignore[method-assign]
        with pytest.raises(UsageError, match="join the two"):
            second.decide(SCOPE, [Decision("a", "c", DIFFERENT)])
        assert second.decisions(SCOPE).different == []
        assert len(second.decisions(SCOPE)) == 2


def fill(url: str, **fields: object) -> Decisions:
    """Creates an index whose documents are alike, with decisions that keep some apart."""
    with open_index(url, **fields) as index:
        index.upsert_many(SCOPE, [TEXT] * 6, list("abcdef"))
        index.upsert(SCOPE, "of its own", "x")
        index.decide(SCOPE, [Decision("a", id, DIFFERENT, "ada") for id in "bd"])
        index.decide(SCOPE, [Decision("x", "c", SAME)])
        return index.decisions(SCOPE)


@pytest.mark.parametrize("texts", [True, False])
def test_copies_follow_the_decisions_of_their_source(texts: bool, tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    decisions = fill(source, store_text=texts)
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("rebuilt", "migrated", "imported")]
    spec_changes = {"n": 2} if texts else {}
    rebuild(source, urls[0], spec_changes, 0.3, None)
    migrate(source, urls[1], None)
    export = tmp_path / "export.parquet"
    with open_index(source) as index:
        index.export(export)
    migrate(str(export), urls[2], None)
    copy = tmp_path / "backup.db"
    restored = f"sqlite:///{tmp_path}/restored.db"
    backup(source, copy)
    restore(copy, restored)
    urls.append(restored)
    for url in urls:
        with nk.Index.open(url) as index:
            assert index.decisions(SCOPE) == decisions
            require_followed(index, decisions)
            index.upsert_many(SCOPE, [TEXT, TEXT], ["b", "d"])
            merge_clusters(index)
            require_followed(index, decisions)
            assert check_index(index).sound


@pytest.mark.parametrize("texts", [True, False])
def test_a_rebuild_follows_the_decisions_of_a_file(texts: bool, tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("source", "target")]
    file = tmp_path / "decisions.csv"
    file.write_text("id_a,id_b,decision\na,c,different\nb,c,same\n")
    with open_index(urls[0], store_text=texts) as index:
        index.upsert_many(SCOPE, [TEXT] * 4, list("abcd"))
    rebuild(urls[0], urls[1], {}, 0.5, None, decisions={SCOPE: file})
    with nk.Index.open(urls[1]) as index:
        assert leaders_of(index) == {"a": "a", "b": "b", "c": "b", "d": "a"}


def test_an_index_with_another_key_follows_the_decisions(tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    target = f"sqlite:///{tmp_path}/target.db"
    decisions = fill(source)
    secret, _ = HashKey.generate()
    assert rotate_key(source, target, secret)["finished"]
    with nk.Index.open(target, resources=nk.SpecResources(secret)) as index:
        assert index.decisions(SCOPE) == decisions
        require_followed(index, decisions)


def test_decisions_during_a_cutover_are_followed_by_the_new_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nearkin.index.migration import cutover

    source = f"sqlite:///{tmp_path}/source.db"
    fill(source)
    late = [Decision("a", "e", DIFFERENT), Decision("x", "f", SAME)]

    def compare(store: object, target: object) -> object:
        with open_index(source) as other:
            other.decide(SCOPE, late)
        return original(store, target)  # type: ignore[arg-type]

    original = cutover.keep_cluster_ids_and_compare
    monkeypatch.setattr(cutover, "keep_cluster_ids_and_compare", compare)
    with open_index(source) as index:
        with nk.Index.open(
            f"sqlite:///{tmp_path}/target.db", nk.Spec(n=1), 0.5, follow=False
        ) as target:
            cut_over(index, target, wait=0)
        decisions = index.decisions(SCOPE)
        assert set(decisions.of_pairs) >= {one.pair for one in late}
        require_followed(index, decisions)
        assert check_index(index).sound


def test_stored_decisions_do_not_expire(tmp_path: Path) -> None:
    now = [1e9]
    with open_index(f"sqlite:///{tmp_path}/index.db", clock=lambda: now[0], record_ttl=10) as index:
        index.upsert(SCOPE, TEXT, "a")
        index.decide(SCOPE, [Decision("a", "b", DIFFERENT)])
        now[0] += 1000
        assert index.expire(trust_clock=True)["records"] == 1
        assert len(index.decisions(SCOPE)) == 1


def test_a_filled_copy_drops_decisions_that_its_source_has_replaced(tmp_path: Path) -> None:
    with open_index() as source, open_index(f"sqlite:///{tmp_path}/t.db", follow=False) as target:
        source.upsert_many(SCOPE, [TEXT, TEXT], ["a", "b"])
        source.decide(SCOPE, [Decision("a", "b", DIFFERENT)])
        source.decide(SCOPE, [Decision("a", "b", SAME)])
        fill_copy(source, target)
        assert target.decisions(SCOPE) == source.decisions(SCOPE)
        assert leaders_of(target) == {"a": "a", "b": "a"}


def test_commands_store_and_print_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", f"sqlite:///{tmp_path}/index.db", "--scope", SCOPE]
    with open_index(store[1]) as index:
        index.upsert_many(SCOPE, [TEXT, TEXT], ["a", "b"])
    file = tmp_path / "decisions.jsonl"
    file.write_text('{"id_a": "b", "id_b": "a", "decision": "different"}\n')
    assert run_command(["index", "decide", str(file), *store]) == 0
    assert capsys.readouterr().out == "decisions: 1\nstored: 1\n"
    assert run_command(["index", "decisions", *store]) == 0
    file.write_text(capsys.readouterr().out)
    assert read_decisions(file).different == [("a", "b")]
    with open_index(store[1]) as index:
        assert leaders_of(index) == {"a": "a", "b": "b"}
        assert read_decisions(file) == index.decisions(SCOPE)
    file.write_text('{"id_a": "b", "id_b": "a", "decision": "maybe"}\n')
    assert run_command(["index", "decide", str(file), *store]) == 2


def test_an_epoch_that_reached_some_shards_is_raised_in_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.index.session.MAX_PAUSE_SECONDS", 0.0)
    urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(2)]
    with nk.Index.open(urls, nk.Spec(n=1), 0.5) as index:
        index.upsert_many("a", ["a b c d", "a b c d e"], ["one", "two"])
        store = index._session.store
        assert isinstance(store, ShardedStore)
        decision = Decision("one", "two", Verdict.DIFFERENT)

        def fail(migration: object) -> None:
            raise StoreError("the shard does not respond")

        with monkeypatch.context() as patched:
            patched.setattr(store.shards[1], "redirect", fail)
            with pytest.raises(StoreError, match="does not respond"):
                index.decide("a", [decision])
        index.refresh()
        assert index.decide("a", [decision]) == 0
        entry = index.get("a", "two")
        assert entry is not None
        assert entry.is_leader
        assert len({shard.state().migration for shard in store.shards}) == 1


def test_documents_are_read_from_a_store_that_the_index_leaves_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decided documents are read outside the lock of their scope."""
    old, new = (f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new"))
    read_entries = SqliteStore.entries
    with open_index(old) as index, open_index(new):
        index.upsert(SCOPE, TEXT, "x")

        def move_first(store: SqliteStore, scope: str, ids: Sequence[str]) -> list[Entry | None]:
            monkeypatch.setattr(SqliteStore, "entries", read_entries)
            store.redirect(MigrationState(1, MOVED, (new,)))
            index.refresh()
            return read_entries(store, scope, ids)

        monkeypatch.setattr(SqliteStore, "entries", move_first)
        assert [entry.id for entry in index._decisions._stored(SCOPE, ["x"])] == ["x"]
