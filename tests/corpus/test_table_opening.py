"""Tests of the versions of tables: what is read while a table changes, and what is recorded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearkin.corpus import Columns, FileCorpus, describe_inputs, find_first_change
from nearkin.corpus.inputs import find_inputs
from nearkin.corpus.table_folders import TableFolder, TableFormat
from nearkin.corpus.table_versions import table_library_errors
from nearkin.errors import RunError, UsageError
from nearkin.runtime.progress import Silent
from tests.corpus.samples import lines_of, run_dedup_on, words_of

ROWS = pa.table({"text": [words_of(1), words_of(2)]})


def create_delta(folder: Path) -> Callable[[], Any]:
    """Returns a function that adds rows to a new Delta table."""
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(folder, ROWS)
    return lambda: deltalake.write_deltalake(folder, ROWS, mode="append")


def create_lance(folder: Path) -> Callable[[], Any]:
    """Returns a function that adds rows to a new Lance table."""
    lance = pytest.importorskip("lance")
    lance.write_dataset(ROWS, folder)
    return lambda: lance.write_dataset(ROWS, folder, mode="append")


def create_iceberg(folder: Path) -> Callable[[], Any]:
    """Returns a function that adds rows to a new Iceberg table."""
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("test", uri="sqlite://", warehouse=f"file://{folder.parent}")
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", schema=ROWS.schema, location=f"file://{folder}")
    table.append(ROWS)
    return lambda: table.append(ROWS)


TABLES = {"Delta": create_delta, "Iceberg": create_iceberg, "Lance": create_lance}


@pytest.mark.parametrize("form", TABLES)
def test_version_is_read_after_the_table_has_a_newer_one(form: str, tmp_path: Path) -> None:
    append = TABLES[form](tmp_path / "t")
    corpus = FileCorpus.open([str(tmp_path / "t")])
    described = describe_inputs(corpus)
    append()
    assert sum(len(batch.rows) for batch in corpus.batches(Columns())) == 2
    corpus.require_all_unchanged()
    # a run that is resumed, or whose result is used again, compares the files
    change = find_first_change(described, FileCorpus.open([str(tmp_path / "t")]))
    assert change is not None


@pytest.mark.parametrize("form", TABLES)
def test_run_records_the_version(form: str, tmp_path: Path) -> None:
    TABLES[form](tmp_path / "t")
    (version,) = find_inputs([str(tmp_path / "t")]).tables
    record = run_dedup_on([str(tmp_path / "t")], tmp_path / "out")
    expected = [{"path": str(tmp_path / "t"), "format": form, "version": version.number}]
    assert record["tables"] == expected
    assert isinstance(version.number, int)
    (tmp_path / "new.jsonl").write_text(lines_of(1, 3))
    record = run_dedup_on(
        [str(tmp_path / "new.jsonl")], tmp_path / "new", against=(str(tmp_path / "t"),)
    )
    assert "tables" not in record
    assert record["against"]["tables"] == expected
    assert record["counts"]["removed_reference"] == 1


class _Changing(Silent):
    """Progress that changes a table at a stage."""

    def __init__(self, change: Callable[[], Any]) -> None:
        self._change = change

    def stage(self, name: str, total: int | None) -> None:
        if name == "write":
            self._change()


def test_run_keeps_the_rows_of_the_version_that_it_began_with(tmp_path: Path) -> None:
    append = create_delta(tmp_path / "t")
    record = run_dedup_on([str(tmp_path / "t")], tmp_path / "out", _Changing(append))
    assert record["counts"]["read"] == record["counts"]["kept"] == 2
    assert [table["version"] for table in record["tables"]] == [0]


def test_file_of_a_version_that_is_deleted_during_a_run_ends_it(tmp_path: Path) -> None:
    create_delta(tmp_path / "t")
    [data] = (tmp_path / "t").glob("*.parquet")
    with pytest.raises(RunError, match=r"cannot read .*parquet"):
        run_dedup_on([str(tmp_path / "t")], tmp_path / "out", _Changing(data.unlink))
    assert not (tmp_path / "out").exists()


def test_folder_inside_a_lance_table_is_refused(tmp_path: Path) -> None:
    create_lance(tmp_path / "t")
    with pytest.raises(UsageError, match="is a part of the Lance table"):
        find_inputs([str(tmp_path / "t" / "data")])


def test_named_version_of_a_lance_table_is_read(tmp_path: Path) -> None:
    append = create_lance(tmp_path / "t")
    (file,) = find_inputs([str(tmp_path / "t")]).files
    assert file.name == "t.lance"
    append()
    listing = find_inputs([file.path])
    assert [table.number for table in listing.tables] == [1]
    corpus = FileCorpus(listing.files)
    assert sum(len(batch.rows) for batch in corpus.batches(Columns())) == 2


def test_message_about_a_lance_table_names_no_source_code(tmp_path: Path) -> None:
    pytest.importorskip("lance")
    (tmp_path / "t.lance").mkdir()
    with pytest.raises(UsageError, match=r"Lance table .*/t\.lance: .*not found") as raised:
        find_inputs([str(tmp_path / "t.lance")])
    assert ".rs:" not in str(raised.value)


@pytest.mark.parametrize("size", [0, 20])
def test_damaged_manifest_is_a_usage_error(size: int, tmp_path: Path) -> None:
    create_lance(tmp_path / "t")
    for manifest in (tmp_path / "t" / "_versions").glob("*.manifest"):
        manifest.write_bytes(manifest.read_bytes()[:size])
    with pytest.raises(UsageError, match=r"cannot read the Lance table .*repair it"):
        find_inputs([str(tmp_path / "t")])


def test_panic_of_a_library_is_a_usage_error(tmp_path: Path) -> None:
    # A library has its own class of this name.
    panic = type("PanicException", (BaseException,), {})
    with (
        pytest.raises(UsageError, match=r"cannot read the Delta table .*: out of range; repair"),
        table_library_errors(TableFolder(str(tmp_path), TableFormat.DELTA)),
    ):
        raise panic("out of range")
    with (
        pytest.raises(KeyboardInterrupt),
        table_library_errors(TableFolder(str(tmp_path), TableFormat.DELTA)),
    ):
        raise KeyboardInterrupt
