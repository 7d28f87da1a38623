"""Tests of Iceberg tables among the inputs."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus.arrow_conversion import to_table
from nearkin.corpus.iceberg_tables import bounded_decoder
from nearkin.corpus.inputs import Selection, find_inputs
from nearkin.errors import UsageError
from tests.corpus.samples import run_dedup_on, words_of
from tests.corpus.test_table_folders import texts_in

pytest.importorskip("pyiceberg")
TEXTS = [words_of(number) for number in range(4)]
ROWS = pa.table({"id": range(4), "text": TEXTS})


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    """Returns a catalog whose tables are in the folder lake é/ns."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("test", uri="sqlite://", warehouse=f"file://{tmp_path}/lake é")
    catalog.create_namespace("ns")
    return catalog


def create(catalog: Any, name: str, rows: pa.Table = ROWS) -> Any:
    """Returns a table with rows."""
    table = catalog.create_table(f"ns.{name}", schema=rows.schema)
    table.append(rows)
    return table


def folder_of(table: Any) -> Path:
    return Path(table.location().removeprefix("file://"))


def metadata_of(table: Any) -> str:
    return table.metadata_location.removeprefix("file://")


def test_only_rows_of_the_newest_version_are_read(catalog: Any, tmp_path: Path) -> None:
    table = create(catalog, "t")
    first = metadata_of(table)
    table.delete("id = 1")
    folder = folder_of(table)
    assert len(list(folder.rglob("*.parquet"))) == 2
    expected = [TEXTS[0], *TEXTS[2:]]
    for given in (folder, folder.parent, f"{folder.parent}/**/*.parquet", metadata_of(table)):
        assert texts_in(find_inputs([str(given)])) == expected
    record = run_dedup_on([str(folder)], tmp_path / "out")
    assert record["counts"]["read"] == 3
    assert record["tables"] == [
        {
            "path": str(folder),
            "format": "Iceberg",
            "version": table.current_snapshot().snapshot_id,
        }
    ]
    assert pq.read_table(tmp_path / "out" / "kept")["text"].to_pylist() == expected
    assert texts_in(find_inputs([first])) == TEXTS
    with pytest.raises(UsageError, match="two versions of the Iceberg table"):
        find_inputs([first, str(folder)])
    with pytest.raises(UsageError, match=r"no data files.*exclude"):
        find_inputs([first], Selection(exclude=("data",)))


def test_tables_and_scans_are_given_to_the_library(catalog: Any) -> None:
    table = create(catalog, "t")
    table.delete("id = 1")
    assert nk.dedup(table, id="id").clusters.num_rows == 3
    assert nk.dedup(table.scan("id > 2"), id="id").clusters.num_rows == 1


def test_table_without_rows_has_no_files(catalog: Any) -> None:
    table = catalog.create_table("ns.t", schema=ROWS.schema)
    with pytest.raises(UsageError, match="no files in the folder"):
        find_inputs([str(folder_of(table))])


def test_table_with_delete_files_is_refused(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.table import DataScan

    table = create(catalog, "t")
    # pyiceberg writes no delete files.
    plan = DataScan.plan_files

    def plan_with_deletes(scan: Any) -> Any:
        for task in plan(scan):
            task.delete_files = {task.file}
            yield task

    monkeypatch.setattr(DataScan, "plan_files", plan_with_deletes)
    with pytest.raises(UsageError, match=r"has delete files.*from_metadata"):
        find_inputs([str(folder_of(table))])

    def fail(scan: Any) -> Any:
        raise ValueError("PyIceberg does not yet support equality deletes")

    monkeypatch.setattr(DataScan, "plan_files", fail)
    with pytest.raises(UsageError, match="deletes of rows by value"):
        find_inputs([str(folder_of(table))])


@pytest.mark.parametrize("change", ["rename", "drop", "replace"])
def test_table_with_files_of_other_columns_is_refused(change: str, catalog: Any) -> None:
    table = create(catalog, "t")
    with table.update_schema(allow_incompatible_changes=True) as update:
        if change == "rename":
            update.rename_column("id", "key")
        else:
            update.delete_column("id")
    if change == "replace":
        with table.update_schema() as update:
            update.add_column("id", table.schema().find_type("text"))
    with pytest.raises(UsageError, match="before the column 'id' was renamed or dropped"):
        find_inputs([str(folder_of(table))])
    # the table as rewritten by its library has files of the current columns
    table.overwrite(table.scan().to_arrow())
    assert texts_in(find_inputs([str(folder_of(table))])) == TEXTS


def test_added_column_is_accepted(catalog: Any) -> None:
    table = create(catalog, "t")
    with table.update_schema() as update:
        update.add_column("score", table.schema().find_type("text"))
    assert texts_in(find_inputs([str(folder_of(table))])) == TEXTS


def test_copied_or_moved_table_is_refused(catalog: Any, tmp_path: Path) -> None:
    table = create(catalog, "t")
    folder = folder_of(table)
    shutil.copytree(folder, tmp_path / "copy")
    with pytest.raises(UsageError, match="data files outside of its folder"):
        find_inputs([str(tmp_path / "copy")])
    metadata = Path(metadata_of(table))
    metadata.write_text(metadata.read_text().replace("file://", "s3://bucket"))
    with pytest.raises(UsageError, match="is a copy: its metadata names 's3://bucket"):
        find_inputs([str(folder)])


def test_two_files_of_the_newest_metadata_are_ambiguous(catalog: Any) -> None:
    table = create(catalog, "t")
    metadata = Path(metadata_of(table))
    shutil.copy(metadata, metadata.with_name("00001-abc.metadata.json"))
    with pytest.raises(UsageError, match=r"several files of its newest metadata.*catalog"):
        find_inputs([str(folder_of(table))])
    assert texts_in(find_inputs([str(metadata)])) == TEXTS


def test_damaged_table_is_a_usage_error(catalog: Any) -> None:
    for name, pattern in (("a", "00001-*.json"), ("b", "snap-*.avro"), ("c", "*-m0.avro")):
        table = create(catalog, name)
        for path in (folder_of(table) / "metadata").glob(pattern):
            content = path.read_bytes()
            damages = [content[: len(content) // 2], content[:-60] + bytes(60)]
            if name == "c":
                # Flipped bytes of a manifest are an error of decompression. Those of a list of
                # manifests can be bytes of a value, which has no checksum.
                damages.append(content[:-40] + b"\xff" * 8 + content[-32:])
            for damaged in damages:
                path.write_bytes(damaged)
                with pytest.raises(UsageError, match="cannot read the Iceberg table"):
                    find_inputs([str(folder_of(table))])
            path.write_bytes(content)
            if path.suffix == ".avro":
                path.unlink()
                with pytest.raises(UsageError, match="cannot read the Iceberg table"):
                    find_inputs([str(folder_of(table))])
                path.write_bytes(content)


def test_any_damage_of_manifests_ends_in_an_answer(catalog: Any) -> None:
    table = create(catalog, "t")
    generator = random.Random(1)
    paths = sorted((folder_of(table) / "metadata").glob("*.avro"))
    for _ in range(40):
        path = generator.choice(paths)
        content = path.read_bytes()
        damaged = bytearray(content)
        for _ in range(4):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        path.write_bytes(damaged)
        with suppress(UsageError):
            find_inputs([str(folder_of(table))])
        with suppress(UsageError):
            to_table(table)
        path.write_bytes(content)


def test_decoder_of_manifests_stays_inside_its_bytes() -> None:
    from pyiceberg.avro import file

    compiled = file.new_decoder
    with bounded_decoder():
        with pytest.raises(EOFError):
            file.new_decoder(b"\x02\x02a").read_int_bytes_dict(1 << 40, {})
        with pytest.raises(EOFError):
            file.new_decoder(b"ab").skip(3)
        with pytest.raises(ValueError, match="-1"):
            file.new_decoder(b"ab").skip(-1)
    assert file.new_decoder is compiled


def test_message_names_the_invalid_field_of_metadata(catalog: Any) -> None:
    table = create(catalog, "t")
    metadata = Path(metadata_of(table))
    content = json.loads(metadata.read_text())
    snapshot = {**content["snapshots"][0], "timestamp-ms": "soon"}
    for change, reason in (
        ({"last-updated-ms": "soon"}, "last-updated-ms: Input should be a valid integer"),
        ({"snapshots": [snapshot]}, "snapshots.0.timestamp-ms: Input should be"),
        ({"format-version": 9}, "Input tag '9' found using"),
    ):
        metadata.write_text(json.dumps({**content, **change}))
        with pytest.raises(UsageError) as caught:
            find_inputs([str(folder_of(table))])
        assert f"its metadata {metadata.name} cannot be read: {reason}" in str(caught.value)
