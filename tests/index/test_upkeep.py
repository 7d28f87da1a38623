"""Indexes looked after: checked, compacted, copied, built in bulk, rebuilt, from the library and
the command line."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import StoreError, UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.index.stores.sqlite import SqliteStore
from tests.index.conftest import Opener, corpus, empty_store, near, words


def filled(opened: Opener, documents: int = 120, **fields: object) -> nk.Index:
    index = opened(**fields)
    index.upsert_many("a", corpus(documents), [f"d{i}" for i in range(documents)])
    return index


def test_a_sound_index_is_sound(opened: Opener) -> None:
    found = check_index(filled(opened))
    assert found.sound
    assert found.records == 120
    assert found.postings > 0


def test_damage_is_found(opened: Opener) -> None:
    index = filled(opened)
    member = next(entry for entry in index._session.store.scan() if not entry.is_leader)
    leader = index.get("a", member.leader)
    assert leader is not None
    other = next(e for e in index._session.store.scan() if e.is_leader and e.id != leader.id)
    index._session.store.apply(Changes(changed=[member._replace(leader=other.id)]))
    keys = index._session.preparer.keys_of("a", [other])[0]
    index._session.store.apply(Changes(unposted=[KeyedEntry(other, keys[:1])]))
    found = check_index(index)
    whats = {problem.what for problem in found.problems}
    assert {"its cluster differs from its representative's", "not in a bucket"} <= whats
    index._session.store.apply(
        Changes(changed=[member._replace(leader=other.id, cluster=other.cluster)])
    )
    assert "less similar to its representative than the threshold" in {
        problem.what for problem in check_index(index).problems
    }
    assert not check_index(index).sound


def test_compacting_merges_what_verifies_by_now(opened: Opener) -> None:
    rng = np.random.Generator(np.random.PCG64(11))
    base = words(rng)
    one, two = near(base, rng), near(base, rng)
    index = opened()
    index.upsert("a", " ".join(one), "one")
    index.upsert("a", " ".join(near(one, rng)), "with one")
    # as two processes at once would leave it: a cluster of its own for what resembles another
    # representative
    second = opened() if index._session.store.url != "memory://" else index
    second.upsert("b", " ".join(two), "two")
    moved = second.get("b", "two")
    assert moved is not None
    keys = second._session.preparer.keys_of("b", [moved])[0]
    new_keys = second._session.preparer.keys_of("a", [moved._replace(scope="a")])[0]
    stray = moved._replace(scope="a", ref=0)
    second._session.store.apply(
        Changes(dropped=[KeyedEntry(moved, keys)], new=[KeyedEntry(stray, new_keys)])
    )
    joined = second.upsert("a", " ".join(near(two, rng, 1)), "with two")
    assert joined.kind == "match"
    assert merge_clusters(second)["merged"] == 1
    assert check_index(second).sound
    two_now = second.get("a", "two")
    assert two_now is not None
    assert (two_now.leader, two_now.cluster, two_now.posted) == ("one", "one", False)
    assert ("merged", "two", "one") in [
        (e.kind, e.id, e.into) for e in second._session.store.events()
    ]
    assert merge_clusters(second) == {"merged": 0, "moved": 0}


def test_an_export_that_fails_leaves_what_was_there(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(opened)
    path = tmp_path / "index.parquet"
    index.export(path)
    before, really = path.read_bytes(), index._session.store.scan

    def failing(*arguments: Any) -> Iterator[Entry]:
        for at, entry in enumerate(really(*arguments)):
            if at == 50:
                raise StoreError("gone")
            yield entry

    monkeypatch.setattr(index._session.store, "scan", failing)
    with pytest.raises(StoreError, match="gone"):
        index.export(path)
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*.partial")) == []
    # one that is written again while it is read comes twice
    monkeypatch.setattr(
        index._session.store,
        "scan",
        lambda *arguments: chain(really(*arguments), islice(really(*arguments), 5)),
    )
    assert index.export(path) == 120


def test_exports_are_loaded_elsewhere(
    opened: Opener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = filled(opened)
    path = tmp_path / "index.parquet"
    assert index.export(path) == 120
    target = f"sqlite:///{tmp_path}/copy.db"
    assert command(["index", "migrate", str(path), target, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"documents": 120}
    with nk.Index.open(target) as copy:
        assert copy.threshold == 0.7
        assert check_index(copy).sound
        for entry in index._session.store.scan():
            assert copy.get("a", entry.id)._replace(ref=0) == entry._replace(ref=0)
        assert copy.upsert("a", corpus(120)[0], "d0").kind == "exact"
    # all of it is there already
    assert command(["index", "migrate", str(path), target]) == 0
    with nk.Index.open(target) as copy:
        assert copy.stats()["records"] == 120
        copy.upsert("b", "another one", "x")
    assert command(["index", "migrate", str(path), target]) == 2
    assert "already has documents" in capsys.readouterr().err
    for bad in ("missing.parquet", "copy.db"):
        assert command(["index", "migrate", str(tmp_path / bad), f"sqlite:///{tmp_path}/x.db"]) == 2


def test_ids_that_an_index_does_not_take_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written: a document that nobody could name could not be erased."""
    pq.write_table(
        pa.table({"id": ["short", "x" * 2000], "text": ["a b c d", "e f g h"]}),
        tmp_path / "docs.parquet",
    )
    run = str(tmp_path / "run")
    assert (
        command(
            [
                "dedup",
                str(tmp_path / "docs.parquet"),
                "--id",
                "id",
                "--save-signatures",
                "--out",
                run,
            ]
        )
        == 0
    )
    url = f"sqlite:///{tmp_path}/kin.db"
    assert command(["index", "build", run, "--store", url]) == 2
    assert "a text of 1 to 1024 bytes" in capsys.readouterr().err
    with nk.Index.open(url) as index:
        assert index.stats()["records"] == 0


@pytest.mark.parametrize(
    "line",
    [
        ["info", "redis://127.0.0.1:abc/0"],
        ["check", "sqlite:///none.db"],
        ["export", "sqlite:///none.db", "--out", "x.parquet"],
        ["query", "none.txt", "--store", "sqlite:///none.db"],
    ],
)
def test_what_is_not_there_is_not_made(
    line: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(["index", *line]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_prefix_of_redis_is_taken_literally(redis_port: int) -> None:
    """Neither does it match other indexes' keys, nor fail to match its own."""
    names = ["kin[1]", "kinA", "kin?", "kin*", "kin\\1"]
    indexes = [
        nk.Index.open(f"redis://127.0.0.1:{redis_port}/0?{urlencode({'prefix': name})}")
        for name in names
    ]
    for at, index in enumerate(indexes):
        index.upsert_many("a", corpus(at + 1, share=0.0))
    assert [len(list(index._session.store.scan())) for index in indexes] == [1, 2, 3, 4, 5]
    for index in indexes:
        index.close()


@pytest.mark.parametrize("slot_bits", ["32", "8"])
def test_a_saved_run_becomes_an_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slot_bits: str
) -> None:
    texts = corpus(400)
    pq.write_table(
        pa.table({"id": [f"d{i:03d}" for i in range(400)], "text": texts}),
        tmp_path / "docs.parquet",
    )
    line = [
        "dedup",
        str(tmp_path / "docs.parquet"),
        "--id",
        "id",
        "--threshold",
        "0.7",
        "--slot-bits",
        slot_bits,
        "--save-signatures",
    ]
    assert (
        command(
            [
                *line,
                "--bands",
                "16",
                "--rows",
                "5",
                "--keep",
                "id asc",
                "--out",
                str(tmp_path / "run"),
            ]
        )
        == 0
    )
    url = f"sqlite:///{tmp_path}/kin.db"
    capsys.readouterr()
    assert (
        command(
            ["index", "build", str(tmp_path / "run"), "--store", url, "--scope", "web", "--json"]
        )
        == 0
    )
    built = json.loads(capsys.readouterr().out)
    assert built["documents"] == 400
    assert built["clusters"] == pq.read_table(tmp_path / "run" / "clusters.parquet")[
        "kept"
    ].to_pylist().count(True)
    with nk.Index.open(url) as index:
        found = check_index(index)
        assert found.sound, found.problems[:3]
        assert index.upsert("web", texts[0], "d000").kind in ("exact", "resolved")
        copy = index.upsert("web", texts[5] + " more", "new")
        assert copy.kind == "match"
    assert command(["index", "build", str(tmp_path / "run"), "--store", url]) == 2


def test_what_was_broken_off_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loads of a run, of files, of another index: the third step fails, the same command then does
    the rest."""
    monkeypatch.setattr("nearkin.corpus.corpus.BATCH_ROWS", 1000)
    texts = corpus(3000, share=0.2)
    for part in range(6):
        rows = {"id": [f"d{i:04d}" for i in range(3000)][part::6], "text": texts[part::6]}
        pq.write_table(pa.table(rows), tmp_path / f"docs{part}.parquet")
    files, run = str(tmp_path / "docs*.parquet"), str(tmp_path / "run")
    assert (
        command(
            ["dedup", files, "--id", "id", "--threshold", "0.7", "--save-signatures", "--out", run]
        )
        == 0
    )
    url = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("run", "files", "copy")}
    apply, lines = (
        SqliteStore.apply,
        {
            "run": ["build", run, "--store", url["run"]],
            "files": ["build", files, "--id", "id", "--threshold", "0.7", "--store", url["files"]],
            "copy": ["migrate", url["files"], url["copy"]],
        },
    )
    for name, line in lines.items():
        steps = iter(range(1000))

        def failing(
            store: SqliteStore, changes: Changes, steps: "Iterator[int]" = steps
        ) -> list[int]:
            if next(steps) == 2:
                raise StoreError("disk full")
            return apply(store, changes)

        monkeypatch.setattr(SqliteStore, "apply", failing)
        assert command(["index", *line]) == 1
        monkeypatch.setattr(SqliteStore, "apply", apply)
        capsys.readouterr()
        with nk.Index.open(url[name]) as index:
            assert 0 < index.stats()["records"] < 3000
        assert command(["index", *line, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["documents"] == 3000
        with nk.Index.open(url[name]) as index:
            assert {entry.id: entry.text for entry in index._session.store.scan()} == {
                f"d{i:04d}": t for i, t in enumerate(texts)
            }
            assert check_index(index).sound


def test_an_index_under_a_frequency_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list that a run counted is used online: from the run's folder, or given as resources."""
    banner = " ".join(f"b{i}" for i in range(40))
    texts = [f"{banner} {text}" for text in corpus(60, share=0.0)]
    pq.write_table(
        pa.table({"id": [f"d{i}" for i in range(60)], "text": texts}), tmp_path / "docs.parquet"
    )
    run, url = str(tmp_path / "run"), f"sqlite:///{tmp_path}/kin.db"
    line = [
        "dedup",
        str(tmp_path / "docs.parquet"),
        "--id",
        "id",
        "--max-df",
        "0.5",
        "--save-signatures",
        "--out",
        run,
    ]
    assert command([*line, "--bands", "16", "--rows", "5", "--threshold", "0.7"]) == 0
    assert command(["index", "build", run, "--store", url]) == 0
    (tmp_path / "page.txt").write_text(f"{banner} {corpus(61, share=0.0)[60]}")
    assert command(["index", "query", str(tmp_path / "page.txt"), "--store", url]) == 2
    assert "pass them as SpecResources" in capsys.readouterr().err
    assert (
        command(
            [
                "index",
                "query",
                str(tmp_path / "page.txt"),
                "--store",
                url,
                "--spec-resources",
                run,
                "--json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out) == {"matches": []}
    assert command(["index", "check", url, "--spec-resources", run]) == 0
    with nk.Index.open(url, tables=run) as index:
        assert index.upsert("default", f"{texts[0]} more", "near").representative == "d0"


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = corpus(60)
    rows = [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    (tmp_path / "docs.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows[:50]) + "broken\n"
    )
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[45:]))
    url = f"sqlite:///{tmp_path}/kin.db"

    def said(*line: str, code: int = 0) -> dict:
        assert command(["index", *line, "--json"]) == code
        out = capsys.readouterr().out
        return json.loads(out) if out else {}

    built = said(
        "build", str(tmp_path / "docs.jsonl"), "--id", "id", "--store", url, "--threshold", "0.7"
    )
    assert (built["documents"], built["rejected"]) == (50, 1)
    added = said("add", str(tmp_path / "more.jsonl"), "--id", "id", "--store", url)
    assert added["documents"] == 15
    assert added["records"] == 60
    assert sum(added.get(kind, 0) for kind in ("exact", "resolved")) == 5
    (tmp_path / "page.txt").write_text(texts[3] + " and more")
    matches = said("query", str(tmp_path / "page.txt"), "--store", url)["matches"]
    assert matches[0]["similarity"] >= 0.7
    assert said("query", str(tmp_path / "page.txt"), "--store", url, "--scope", "other") == {
        "matches": []
    }
    assert said("info", url)["records"] == 60
    assert said("remove", "d3", "none", "--store", url) == {"removed": 1, "not_there": 1}
    assert said("check", url)["sound"] is True
    assert said("compact", url)["moved"] >= 0
    assert said("expire", url, "--record-ttl", "1d") == {"postings": 0, "records": 0}
    assert said("export", url, "--out", str(tmp_path / "out.parquet"))["documents"] == 59
    rebuilt = said(
        "rebuild",
        url,
        f"sqlite:///{tmp_path}/next.db",
        "--shingle",
        "chars:5",
        "--threshold",
        "0.6",
    )
    assert rebuilt["documents"] == 59
    assert rebuilt["spec_before"] != rebuilt["spec_after"]
    assert said("check", f"sqlite:///{tmp_path}/next.db")["sound"] is True
    for line in (
        ["query", str(tmp_path / "no.txt"), "--store", url],
        ["info", "ftp://x"],
        ["info", "sqlite://"],
    ):
        said(*line, code=2)
    assert command(["index", "info", f"sqlite:///{tmp_path}/kin.db"]) == 0
    assert "records: 59" in capsys.readouterr().out


def test_a_damaged_index_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert("a", "one two three four five six", "x")
        entry = index.get("a", "x")
        assert entry is not None
        index._session.store.apply(Changes(changed=[entry._replace(leader="gone")]))
    assert command(["index", "check", url]) == 1
    assert "its representative does not exist" in capsys.readouterr().out


def test_coroutines(url: str) -> None:
    async def main() -> list[str]:
        async with await nk.AsyncIndex.open(url, threshold=0.7) as index:
            first = await index.upsert("a", "one two three four five six", "x")
            many = await index.upsert_many("a", ["one two three four five six seven"], ["y"])
            found = await index.query("a", "one two three four five six")
            cluster = await index.cluster("a", "y")
            assert cluster is not None
            assert (await index.get("a", "x")) is not None
            assert (await index.explain("a", "x", "y")).verdict == "match"
            assert (await index.stats())["records"] == 2
            assert await index.expire() == {"records": 0, "postings": 0}
            assert await index.remove("a", "y")
            return [first.kind, many[0].kind, found[0].id, cluster.representative]

    assert asyncio.run(main()) == ["new", "match", "x", "x"]


def test_a_run_that_does_not_verify_is_no_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs.jsonl").write_text('{"text": "a b c d"}\n{"text": "e f g h"}\n')
    line = [
        "dedup",
        str(tmp_path / "docs.jsonl"),
        "--cluster",
        "components",
        "--save-signatures",
        "--out",
        str(tmp_path / "run"),
    ]
    assert command(line) == 0
    assert (
        command(["index", "build", str(tmp_path / "run"), "--store", f"sqlite:///{tmp_path}/x.db"])
        == 2
    )
    assert "must be verified" in capsys.readouterr().err


def test_a_rebuild_needs_texts(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = empty_store("sqlite", request, tmp_path)
    with nk.Index.open(url, threshold=0.7, store_text=False) as index:
        index.upsert("a", "one two three four")
    assert (
        command(["index", "rebuild", url, f"sqlite:///{tmp_path}/next.db", "--shingle", "words:2"])
        == 2
    )
    with nk.Index.open(url) as index, pytest.raises(UsageError, match="is not stored"):
        index.explain("a", *([entry.id for entry in index._session.store.scan()] * 2))


def test_wrong_counts_are_found(tmp_path: Path) -> None:
    """Processes of older versions are stopped; what else wrote into the file may leave them."""
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
        found = check_index(index)
        counted = index.counts()["leaders"]
        assert not found.sound
        assert [problem.what for problem in found.problems] == [
            "20 documents exist, 23 are counted",
            f"{counted - 3} representatives exist, {counted} are counted",
        ]
