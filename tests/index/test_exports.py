"""Tests of exports of an index, and of loading them into another store."""

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import StoreError
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index
from tests.index.conftest import (
    Opener,
    corpus,
    filled_index,
    store_of,
)


def test_a_failed_export_keeps_the_previous_file(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled_index(opened)
    path = tmp_path / "index.parquet"
    index.export(path)
    before, really = path.read_bytes(), store_of(index).scan

    def failing(*arguments: Any) -> Iterator[Entry]:
        for at, entry in enumerate(really(*arguments)):
            if at == 50:
                raise StoreError("gone")
            yield entry

    monkeypatch.setattr(store_of(index), "scan", failing)
    with pytest.raises(StoreError, match="gone"):
        index.export(path)
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*.partial")) == []
    # a document that is written again during the scan is yielded twice
    monkeypatch.setattr(
        store_of(index),
        "scan",
        lambda *arguments: chain(really(*arguments), islice(really(*arguments), 5)),
    )
    assert index.export(path) == 120


def test_an_export_is_loaded_into_another_store(
    opened: Opener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = filled_index(opened)
    path = tmp_path / "index.parquet"
    assert index.export(path) == 120
    target = f"sqlite:///{tmp_path}/copy.db"
    assert command(["index", "migrate", "--store", str(path), "--to", target, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"documents": 120}
    with nk.Index.open(target) as copy:
        assert copy.threshold == 0.7
        assert check_index(copy).sound
        for entry in index.scan():
            assert copy.get("a", entry.id)._replace(ref=0) == entry._replace(ref=0)
        assert copy.upsert("a", corpus(120)[0], "d0").kind == "exact"
    # all documents were loaded before
    assert command(["index", "migrate", "--store", str(path), "--to", target]) == 0
    with nk.Index.open(target) as copy:
        assert copy.stats()["records"] == 120
        copy.upsert("b", "another one", "x")
    assert command(["index", "migrate", "--store", str(path), "--to", target]) == 2
    assert "already has documents" in capsys.readouterr().err
    for bad in ("missing.parquet", "copy.db"):
        assert (
            command(
                [
                    "index",
                    "migrate",
                    "--store",
                    str(tmp_path / bad),
                    "--to",
                    f"sqlite:///{tmp_path}/x.db",
                ]
            )
            == 2
        )


def test_damaged_and_incomplete_exports_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "index.parquet"
    with nk.Index.open("memory://") as index:
        index.upsert_many("a", corpus(20))
        index.export(path)
    content = bytearray(path.read_bytes())
    content[200:210] = bytes(10)
    damaged, incomplete = tmp_path / "damaged.parquet", tmp_path / "incomplete.parquet"
    damaged.write_bytes(content)
    pq.write_table(pq.read_table(path).drop_columns(["text"]), incomplete)
    for file, message in ((damaged, "cannot be read"), (incomplete, "has no column 'text'")):
        target = f"sqlite:///{tmp_path}/{file.stem}.db"
        assert command(["index", "migrate", "--store", str(file), "--to", target]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "incomplete.db").exists()
