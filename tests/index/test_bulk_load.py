"""Tests of indexes that are built from saved runs and from files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import StoreError
from nearkin.index.changes import Changes
from nearkin.index.maintenance import check_index
from nearkin.index.stores.sqlite import SqliteStore
from tests.index.conftest import corpus


def test_a_run_with_an_id_that_is_too_long_is_refused_before_writing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A document whose id cannot be requested could not be deleted."""
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


@pytest.mark.parametrize("slot_bits", ["32", "8"])
def test_a_saved_run_is_built_into_a_sound_index(
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
        check = check_index(index)
        assert check.sound, check.problems[:3]
        assert index.upsert("web", texts[0], "d000").kind in ("exact", "resolved")
        copy = index.upsert("web", texts[5] + " more", "new")
        assert copy.kind == "match"
    assert command(["index", "build", str(tmp_path / "run"), "--store", url]) == 2


def test_an_interrupted_load_is_completed_by_a_repetition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The third step of each load fails: of a run, of files, and of another index.

    The same command then loads the rest.
    """
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
            "copy": ["migrate", "--store", url["files"], "--to", url["copy"]],
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
            assert {entry.id: entry.text for entry in index.scan()} == {
                f"d{i:04d}": t for i, t in enumerate(texts)
            }
            assert check_index(index).sound


def test_an_index_needs_the_frequency_cut_of_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list of frequent shingles comes from the folder of the run, or from resources."""
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
    assert "but none was given; pass them with --spec-resources" in capsys.readouterr().err
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
    assert command(["index", "check", "--store", url, "--spec-resources", run]) == 0
    with nk.Index.open(url, spec_resources=run) as index:
        assert index.upsert("default", f"{texts[0]} more", "near").representative == "d0"


def test_a_run_of_components_cannot_be_built_into_an_index(
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
