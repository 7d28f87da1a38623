"""Tests of Delta and Iceberg tables as outputs, with the libraries of both."""

import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import cloud_storage
from nearkin.errors import UsageError
from nearkin.runs.table_output import ROWS, DeltaOutput, IcebergOutput, TableOutput
from tests.cli.conftest import run
from tests.corpus.object_storage import point_to, serve_objects

TEXT = "the council approved the new budget on tuesday evening after a long debate"
ROWS_IN = [
    {"id": 1, "text": TEXT, "day": "2026-01-01"},
    {"id": 2, "text": TEXT, "day": "2026-01-02"},
    {"id": 3, "text": "a dog ran", "day": "2026-01-02"},
]


class Lake:
    """A table of one format: how a test looks at it and changes it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.out = "delta:lake/pages" if kind == "delta" else "iceberg:lake/docs.pages"
        self.file = Path("pages.kept.parquet" if kind == "delta" else "docs.pages.kept.parquet")

    @property
    def folder(self) -> str:
        return "lake/pages" if self.kind == "delta" else "lake/docs/pages"

    def load(self) -> Any:
        from deltalake import DeltaTable
        from pyiceberg.catalog import load_catalog

        if self.kind == "delta":
            return DeltaTable("lake/pages")
        return load_catalog("lake").load_table("docs.pages")

    def rows(self) -> list[dict[str, Any]]:
        from deltalake import QueryBuilder

        table = self.load()
        if self.kind == "delta":
            read = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t"))
        else:
            read = table.scan().to_arrow()
        return sorted(read.to_pylist(), key=lambda row: int(row["id"]))

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]

    def version(self) -> int:
        table = self.load()
        return table.version() if self.kind == "delta" else len(table.snapshots())

    def append(self, rows: list[dict[str, Any]]) -> None:
        from deltalake import write_deltalake

        table = pa.Table.from_pylist(rows)
        if self.kind == "delta":
            write_deltalake("lake/pages", table, mode="append")
        else:
            self.load().append(table)


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    from pyiceberg import catalog
    from pyiceberg.utils.config import Config

    monkeypatch.chdir(tmp_path)
    Path("lake").mkdir()
    settings = {"URI": f"sqlite:///{tmp_path}/catalog.db", "TYPE": "sql", "WAREHOUSE": "lake"}
    settings["WAREHOUSE"] = f"file://{tmp_path}/lake"
    for name, value in settings.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", value)
    monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())
    catalog.load_catalog("lake").create_namespace("docs")
    write_rows("in.jsonl", ROWS_IN)
    return Lake(request.param)


def write_rows(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def dedup(lake: Lake, *options: object, data: str = "in.jsonl") -> int:
    return run("dedup", data, "--id", "id", "--out", lake.out, *options)


def delete(lake: Lake, *options: object) -> int:
    return dedup(lake, "--write-mode", "delete", *options, data=lake.folder)


def test_kept_rows_are_written_once(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert dedup(lake) == 0
    assert f"wrote 2 rows to {lake.out}" in capsys.readouterr().err
    assert lake.ids() == [1, 3]
    assert dedup(lake) == 2
    assert f"{lake.out} exists; add to it with --write-mode append" in capsys.readouterr().err
    before = lake.version()
    assert dedup(lake, "--resume") == 0
    assert "has these rows since version" in capsys.readouterr().err
    assert lake.version() == before


def test_rows_are_appended_once(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    append = ("--write-mode", "append")
    assert dedup(lake, *append) == 0, "the first append creates the table"
    write_rows("more.jsonl", [{"id": 9, "text": "a cat sat", "day": "2026-01-03"}])
    assert dedup(lake, *append, data="more.jsonl") == 0
    assert lake.ids() == [1, 3, 9]
    # A repeated command, with and without what the first one has left.
    assert dedup(lake, *append, data="more.jsonl") == 0
    lake.file.unlink()
    assert dedup(lake, *append, "--overwrite", data="more.jsonl") == 0
    assert "has these rows since version" in capsys.readouterr().err
    assert lake.ids() == [1, 3, 9]


def test_a_run_that_is_killed_before_its_commit_writes_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kill is before the commit, or after it and before the answer."""
    kind = DeltaOutput if lake.kind == "delta" else IcebergOutput
    write = kind._write

    def fail_after(*arguments: Any, **options: Any) -> None:
        write(*arguments, **options)
        raise OSError("the answer was lost")

    def fail_before(*_: Any, **__: Any) -> None:
        raise OSError("no connection")

    for fail in (fail_before, fail_after):
        monkeypatch.setattr(kind, "_write", fail)
        assert dedup(lake, "--resume") == 1
        assert "is complete; correct that, and repeat" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setattr(kind, "_write", write)
    assert dedup(lake, "--resume") == 0
    assert lake.ids() == [1, 3]


def test_overwrite_replaces_the_rows(lake: Lake) -> None:
    assert dedup(lake) == 0
    write_rows("in.jsonl", [{"id": 7, "text": "a cat sat", "day": "x"}])
    assert dedup(lake, "--overwrite") == 0
    assert lake.ids() == [7]
    lake.append([{"id": 8, "text": "b", "day": "x"}])
    assert dedup(lake, "--overwrite") == 0
    assert lake.ids() == [7]


def test_removed_rows_are_deleted_in_one_commit(lake: Lake, tmp_path: Path) -> None:
    lake_rows(lake)
    before = lake.version()
    assert delete(lake) == 0
    assert lake.ids() == [1, 3]
    assert lake.version() == before + 1
    assert delete(lake) == 0, "a repetition finds no duplicates"
    assert lake.version() == before + 1
    table = lake.load()
    if lake.kind == "delta":
        assert ROWS in table.history(1)[0]
    else:
        assert ROWS in table.current_snapshot().summary.additional_properties


def test_ids_may_be_texts(lake: Lake) -> None:
    lake_rows(lake, [{**row, "day": f"day '{row['id']}\""} for row in ROWS_IN])
    options = ("--id", "day", "--out", lake.out, "--write-mode", "delete")
    assert run("dedup", lake.folder, *options) == 0
    assert lake.ids() == [1, 3]


def lake_rows(lake: Lake, rows: list[dict[str, Any]] = ROWS_IN) -> None:
    """Makes a table with duplicates."""
    write_rows("all.jsonl", rows[:1])
    assert dedup(lake, "--quiet", data="all.jsonl") == 0
    lake.append(rows[1:])


def test_a_table_that_has_changed_is_not_changed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The change is before the commit is begun, or while it is made."""
    lake_rows(lake)
    publish = TableOutput.publish
    kind = DeltaOutput if lake.kind == "delta" else IcebergOutput
    remove = kind._delete

    def publish_later(output: TableOutput, *, overwrite: bool) -> str:
        lake.append([{"id": 4, "text": TEXT, "day": "x"}])
        return publish(output, overwrite=overwrite)

    def delete_later(*arguments: Any) -> None:
        lake.append([{"id": 5, "text": "new", "day": "x"}])
        remove(*arguments)

    monkeypatch.setattr(TableOutput, "publish", publish_later)
    assert delete(lake) == 2
    assert "has changed since it was read" in " ".join(capsys.readouterr().err.split())
    assert lake.ids() == [1, 2, 3, 4]
    monkeypatch.setattr(TableOutput, "publish", publish)
    monkeypatch.setattr(kind, "_delete", delete_later)
    # Iceberg finds that the new rows have no removed id, and commits after them.
    assert delete(lake, "--overwrite") == (1 if lake.kind == "delta" else 0)
    assert 5 in lake.ids()
    monkeypatch.setattr(kind, "_delete", remove)
    assert delete(lake, "--overwrite") == 0
    assert lake.ids() == [1, 3, 5]


def test_ids_that_repeat_delete_nothing(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake_rows(lake, [*ROWS_IN, {"id": 2, "text": "another text", "day": "x"}])
    assert delete(lake) == 2
    assert "column 'id' of" in capsys.readouterr().err
    assert lake.ids() == [1, 2, 2, 3]


def test_columns_and_types_of_appended_rows(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert dedup(lake) == 0
    append = ("--write-mode", "append")
    write_rows("more.jsonl", [{"id": 9, "text": "a cat", "extra": 1, "day": "x"}])
    assert dedup(lake, *append, data="more.jsonl") == 2
    assert "column 'extra' is in one of" in " ".join(capsys.readouterr().err.split())
    Path("more.csv").write_text("text,day,id\na cat,x,11\n")
    assert dedup(lake, *append, "--overwrite", data="more.csv") == 0
    assert lake.rows()[-1] == {"id": 11, "text": "a cat", "day": "x"}
    Path("more.csv").write_text("text,day,id\na bird,x,eleven\n")
    assert dedup(lake, *append, data="more.csv") == 1
    assert "eleven" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--write-mode", "delete"), "deletes rows of the table that is the only input"),
        (("--write-mode", "delet"), "--write-mode delet is not one of"),
        (("--write-mode", "append", "--output", "ids"), "needs an output folder"),
    ],
)
def test_requests_without_a_meaning_are_refused(
    options: tuple[str, ...], message: str, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dedup(lake) == 0
    before = sorted(Path().iterdir())
    assert dedup(lake, *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert sorted(Path().iterdir()) == before
    assert lake.ids() == [1, 3]


def test_write_mode_needs_a_table(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("dedup", "in.jsonl", "--out", "x", "--write-mode", "append") == 2
    assert "--write-mode append needs a table" in capsys.readouterr().err
    assert run("pairs", "in.jsonl", "--out", lake.out) == 2
    assert "tables receive the documents that a deduplication keeps" in capsys.readouterr().err
    lake_rows(lake)
    assert run("dedup", lake.folder, "--write-mode", "delete", "--out", lake.out) == 2
    assert "add --id COL" in capsys.readouterr().err


def test_tables_that_cannot_be_opened(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    for out, message in (
        ("iceberg:nowhere/docs.pages", "URI missing"),
        ("iceberg:lake/pages", "write delta:PATH"),
        ("delta:https://host/x", "write delta:PATH"),
        ("delta:lake/a%20b", "does not support a path"),
        ("delta:..", "write delta:PATH"),
    ):
        assert run("dedup", "in.jsonl", "--out", out) != 0
        assert message in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in Path().glob("*.parquet*")] == []


def test_the_library_writes_tables(lake: Lake) -> None:
    result = nk.dedup("in.jsonl", id="id", out=lake.out)
    with pytest.raises(UsageError, match="add to it with write_mode='append'"):
        result.write(lake.out)
    assert nk.dedup("in.jsonl", id="id", out=lake.out, write_mode="append") is not None
    assert lake.ids() == [1, 3]
    nk.dedup({"id": [9], "text": ["a cat"], "day": ["x"]}, id="id").write(
        lake.out, write_mode="append"
    )
    assert lake.ids() == [1, 3, 9]
    lake.append([{"id": 10, "text": TEXT, "day": "x"}])
    result = nk.dedup(lake.folder, id="id")
    lake.append([{"id": 11, "text": "later", "day": "x"}])
    with pytest.raises(UsageError, match="has changed since it was read"):
        result.write(lake.out, write_mode="delete")
    nk.dedup(lake.folder, id="id", out=lake.out, write_mode="delete", overwrite=True)
    assert lake.ids() == [1, 3, 9, 11]
    with pytest.raises(UsageError, match="the table that is the only input"):
        nk.dedup(["a"], out=lake.out, write_mode="delete")


def test_partitions_of_tables_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltalake import DeltaTable, write_deltalake

    monkeypatch.chdir(tmp_path)
    days = pa.array(["2026-01-01", "2026-01-02"]).cast(pa.date32())
    table = pa.table({"id": [1, 2], "text": [TEXT, "a dog"], "day": days})
    write_deltalake("pages", table, partition_by="day")
    append = ("--write-mode", "append", "--out", "delta:copy")
    write_deltalake("copy", table.slice(0, 0), partition_by="day")
    assert run("dedup", "pages", "--id", "id", *append) == 0
    copied = DeltaTable("copy").to_pyarrow_table().sort_by("id")
    assert copied.select(table.column_names).equals(table.cast(copied.schema))
    assert DeltaTable("copy").metadata().partition_columns == ["day"]


def serve(connection: Any, options: dict[str, Any]) -> None:
    with serve_objects({}, options) as address:
        connection.send(address)
        connection.recv()


@contextmanager
def served_elsewhere(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> Iterator[None]:
    """Starts a server of S3 in another process, because deltalake waits with the GIL."""
    processes = multiprocessing.get_context("spawn")
    connection, other = processes.Pipe()
    process = processes.Process(target=serve, args=(other, options))
    process.start()
    point_to(connection.recv(), monkeypatch)
    yield
    connection.send(None)
    process.join()
    cloud_storage._connect_s3.cache_clear()


def test_delta_table_in_object_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from deltalake import DeltaTable

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    write_rows("in.jsonl", ROWS_IN)
    write_rows("more.jsonl", [{"id": 9, "text": TEXT, "day": "x"}])
    out = "delta:s3://bucket/lake/pages"
    with served_elsewhere(monkeypatch, {"status_of_writes": 403}):
        assert run("dedup", "in.jsonl", "--id", "id", "--out", out) == 2
        assert "check the policy of the bucket" in capsys.readouterr().err
    with served_elsewhere(monkeypatch, {}):
        assert run("dedup", "in.jsonl", "--id", "id", "--out", out) == 0
        assert run("dedup", "in.jsonl", "--id", "id", "--out", out, "--resume") == 0
        append = ("--write-mode", "append", "--out", out)
        assert run("dedup", "more.jsonl", "--id", "id", *append) == 0
        delete = ("--write-mode", "delete", "--out", out)
        assert run("dedup", "s3://bucket/lake/pages", "--id", "id", *delete) == 0
        table = DeltaTable("s3://bucket/lake/pages", storage_options={"allow_http": "true"})
        assert table.version() == 2
        assert table.to_pyarrow_table()["id"].to_pylist() == [1, 3]


def test_an_input_may_have_the_name_of_the_table(lake: Lake) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS_IN), "pages.parquet")
    assert dedup(lake, data="pages.parquet") == 0
    assert lake.ids() == [1, 3]
    assert Path("pages.parquet").exists()
