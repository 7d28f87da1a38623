"""Tests of the check of an index, and of the merge of similar clusters."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.maintenance import check_index, merge_clusters
from tests.index.conftest import (
    Opener,
    corpus,
    filled_index,
    near,
    preparer_of,
    store_of,
    words,
)


def test_check_finds_nothing_in_a_sound_index(opened: Opener) -> None:
    check = check_index(filled_index(opened))
    assert check.sound
    assert check.records == 120
    assert check.postings > 0


def test_check_finds_wrong_resolutions_and_missing_postings(opened: Opener) -> None:
    index = filled_index(opened)
    member = next(entry for entry in index.scan() if not entry.is_leader)
    leader = index.get("a", member.leader)
    assert leader is not None
    other = next(e for e in index.scan() if e.is_leader and e.id != leader.id)
    store_of(index).apply(Changes(changed=[member._replace(leader=other.id)]))
    keys = preparer_of(index).keys_of("a", [other])[0]
    store_of(index).apply(Changes(unposted=[KeyedEntry(other, keys[:1])]))
    check = check_index(index)
    whats = {problem.what for problem in check.problems}
    assert {"its cluster differs from its representative's", "not in a bucket"} <= whats
    store_of(index).apply(
        Changes(changed=[member._replace(leader=other.id, cluster=other.cluster)])
    )
    assert "less similar to its representative than the threshold" in {
        problem.what for problem in check_index(index).problems
    }
    assert not check_index(index).sound


def test_check_beside_a_writer_reports_no_faults(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads before and after a step of another process show no state that the index had."""
    index = filled_index(opened)
    store = store_of(index)
    leaders = {entry.leader for entry in index.scan() if not entry.is_leader}
    pending = [*sorted(leaders)[:3], next(e.id for e in index.scan() if e.id not in leaders)]

    def after_removals(really: Callable[..., Any]) -> Callable[..., Any]:
        def read(*arguments: Any) -> Any:
            removed = pending[:2]
            del pending[:2]
            for id in removed:
                index.remove("a", id)
            return really(*arguments)

        return read

    for name in ("entries", "postings"):
        monkeypatch.setattr(store, name, after_removals(getattr(store, name)))
    check = check_index(index)
    assert not pending
    assert check.sound
    assert check.was_written
    monkeypatch.undo()
    check = check_index(index)
    assert check.sound
    assert not check.was_written


def test_check_sees_a_document_that_is_written_and_removed_beside_it(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts before and after the check are equal, and so are the last numbers."""
    index = filled_index(opened)
    store = store_of(index)
    write = partial(index.upsert, "a", " ".join(f"w{k}" for k in range(40)), "another")
    pending: dict[str, list[Callable[[], object]]] = {
        "last_number": [write],
        "counts": [lambda: None, partial(index.remove, "a", "another")],
    }

    def after_steps(name: str, really: Callable[[], Any]) -> Callable[[], Any]:
        def read() -> Any:
            if pending[name]:
                pending[name].pop(0)()
            return really()

        return read

    for name in pending:
        monkeypatch.setattr(store, name, after_steps(name, getattr(store, name)))
    check = check_index(index)
    assert not any(pending.values())
    assert check.sound
    assert check.was_written


def test_check_counts_again_before_it_reports_a_wrong_count(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled_index(opened)
    store = store_of(index)
    really = store.counts
    wrong = [{"records": -1}, {"records": -1}]

    def count() -> dict[str, int]:
        change = wrong.pop() if wrong else {}
        return {name: value + change.get(name, 0) for name, value in really().items()}

    monkeypatch.setattr(store, "counts", count)
    assert check_index(index).sound
    assert not wrong


def test_check_finds_wrong_counts(tmp_path: Path) -> None:
    """Another program may have written to the file."""
    path = tmp_path / "kin.db"
    with nk.Index.open(f"sqlite:///{path}", threshold=0.7) as index:
        index.upsert_many("a", corpus(20), [f"d{i}" for i in range(20)])
        assert check_index(index).sound
    with closing(sqlite3.connect(path)) as db, db:
        assert (
            db.execute(
                "UPDATE meta SET value = value + 3 WHERE name IN ('records', 'leaders')"
            ).rowcount
            == 2
        )
    with nk.Index.open(f"sqlite:///{path}") as index:
        check = check_index(index)
        counted = index.counts()["leaders"]
        assert not check.sound
        assert [problem.what for problem in check.problems] == [
            "20 documents exist, 23 are counted",
            f"{counted - 3} representatives exist, {counted} are counted",
        ]


def test_merge_clusters_resolves_a_similar_younger_representative(opened: Opener) -> None:
    rng = np.random.Generator(np.random.PCG64(11))
    base = words(rng)
    one, two = near(base, rng), near(base, rng)
    index = opened()
    index.upsert("a", " ".join(one), "one")
    index.upsert("a", " ".join(near(one, rng)), "with one")
    # as two processes at once would leave it: a cluster of its own for what resembles another
    # representative
    second = opened() if index.url != "memory://" else index
    second.upsert("b", " ".join(two), "two")
    resolved = second.get("b", "two")
    assert resolved is not None
    keys = preparer_of(second).keys_of("b", [resolved])[0]
    new_keys = preparer_of(second).keys_of("a", [resolved._replace(scope="a")])[0]
    stray = resolved._replace(scope="a", ref=0)
    store_of(second).apply(
        Changes(dropped=[KeyedEntry(resolved, keys)], new=[KeyedEntry(stray, new_keys)])
    )
    joined = second.upsert("a", " ".join(near(two, rng, 1)), "with two")
    assert joined.kind == "match"
    assert merge_clusters(second)["merged"] == 1
    assert check_index(second).sound
    two_now = second.get("a", "two")
    assert two_now is not None
    assert (two_now.leader, two_now.cluster, two_now.posted) == ("one", "one", False)
    assert ("merged", "two", "one") in [(e.kind, e.id, e.into) for e in store_of(second).events()]
    assert merge_clusters(second) == {"merged": 0, "moved": 0, "posted": 0}
