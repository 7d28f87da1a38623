"""Tests of folders of Delta Lake, Iceberg, Hudi and Lance tables among the inputs."""

import base64
import json
import struct
import sys
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.inputs import InputListing, Selection, find_inputs
from nearkin.errors import MissingExtraError, UsageError
from tests.corpus.samples import run_dedup_on, words_of

TEXTS = {"text": [words_of(1), words_of(2)], "day": ["mon/é", "tue day"]}
MARKERS = {
    "Iceberg": "metadata/v1.metadata.json",
    "Lance": "_versions/1.manifest",
    "Hudi": ".hoodie/hoodie.properties",
}
"""A file of each format that shows that a folder is a table."""


def write_file(path: Path, content: str = '{"text": "x"}\n') -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def write_delta(path: Path, data: dict[str, Any] | None = None, **options: Any) -> Any:
    """Returns the Delta table with two rows of which the first one was removed."""
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(path, pa.table(data or TEXTS), **options)
    table = deltalake.DeltaTable(path)
    table.delete("day = 'mon/é'")
    return table


def texts_in(listing: InputListing) -> list[str]:
    """Returns the texts of Parquet files."""
    return [
        text
        for file in listing.files
        for text in pq.ParquetFile(file.path).read(["text"]).column("text").to_pylist()
    ]


@pytest.mark.parametrize("form", MARKERS)
def test_table_that_cannot_be_read_is_refused_wherever_it_is_met(form: str, tmp_path: Path) -> None:
    table = tmp_path / "lake" / "t"
    write_file(table / MARKERS[form])
    write_file(table / "data" / "a.jsonl")
    for given in (table.parent, table, table / "data", f"{table}/data/*.jsonl", f"{tmp_path}/**"):
        with pytest.raises(UsageError, match=f"{form} table") as caught:
            find_inputs([str(given)])
        assert str(table) in str(caught.value)
    assert len(find_inputs([str(table / "data" / "a.jsonl")]).files) == 1
    write_file(tmp_path / "lake" / "other.jsonl")
    left = find_inputs([str(tmp_path / "lake")], Selection(exclude=("t",)))
    assert [file.name for file in left.files] == ["other.jsonl"]
    assert [entry.path for entry in left.skipped] == [str(table)]


def test_folder_of_metadata_is_not_taken_for_a_table(tmp_path: Path) -> None:
    for name in ("metadata/page.metadata.json", "data/a.json", "_versions/notes.txt", "v1.json"):
        write_file(tmp_path / name)
    listing = find_inputs([str(tmp_path)])
    assert {file.name for file in listing.files} == {
        "metadata/page.metadata.json",
        "data/a.json",
        "v1.json",
    }


@pytest.mark.parametrize("marker", MARKERS.values())
def test_table_in_object_storage_is_refused(marker: str) -> None:
    storage = fsspec.filesystem("memory")
    for name in (marker, "part.jsonl"):
        storage.pipe(f"/lake/t/{name}", b'{"text": "x"}\n')
    try:
        for given in ("memory://lake", "memory://lake/t"):
            with pytest.raises(UsageError, match=r"table memory://lake/t as files: .* removed"):
                find_inputs([given])
        with pytest.raises(UsageError, match="table memory://lake/t as files"):
            find_inputs(["memory://lake/**"])
        with pytest.raises(UsageError, match="no files match"):
            find_inputs(["memory://lake"], Selection(exclude=("t",)))
    finally:
        storage.rm("/lake", recursive=True)


@pytest.mark.parametrize("library", ["deltalake", "pyiceberg.table", "lance"])
def test_table_without_its_library_is_refused(
    library: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    extra = {"deltalake": "delta", "lance": "lance"}.get(library, "iceberg")
    marker = "_delta_log/0.json" if extra == "delta" else MARKERS[extra.capitalize()]
    write_file(tmp_path / "t" / marker)
    write_file(tmp_path / "t" / "part.jsonl")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"rows that were removed.*\[{extra}\]"):
        find_inputs([str(tmp_path)])
    assert app.run(["dedup", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert f"[{extra}]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("partitions", [None, ["day"]])
def test_only_rows_of_the_newest_version_are_read(
    partitions: list[str] | None, tmp_path: Path
) -> None:
    folder = tmp_path / "my lake" / "t é"
    table = write_delta(tmp_path / "lake", partition_by=partitions)
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 2
    folder.parent.mkdir()
    (tmp_path / "lake").rename(folder)
    assert table.version() == 1
    (tmp_path / "link").symlink_to(folder)
    for given in (folder, folder.parent, tmp_path / "link", f"{tmp_path}/my lake/**/*.parquet"):
        assert texts_in(find_inputs([str(given)])) == [words_of(2)]
    summary = run_dedup_on([str(folder)], tmp_path / "out")
    assert summary["counts"]["read"] == 1
    assert pq.read_table(tmp_path / "out" / "kept").column("text").to_pylist() == [words_of(2)]


def test_partition_folder_of_a_delta_table_has_its_current_files(tmp_path: Path) -> None:
    write_delta(tmp_path / "t", partition_by=["day"])
    removed, current = sorted((tmp_path / "t").glob("day=*"))
    assert texts_in(find_inputs([str(current)])) == [words_of(2)]
    with pytest.raises(UsageError, match="no files in the folder"):
        find_inputs([str(removed)])
    with pytest.raises(UsageError, match="not in the newest version of the Delta table"):
        find_inputs([f"{removed}/*.parquet"])


def test_partition_column_of_a_delta_table_is_that_of_its_folders(tmp_path: Path) -> None:
    write_delta(tmp_path / "t", partition_by=["day"])
    corpus = FileCorpus.open([str(tmp_path / "t")])
    columns = Columns(id="day")
    corpus.check(columns)
    assert [batch.documents["id"].to_pylist() for batch in corpus.batches(columns)] == [["tue day"]]


def edit_log(table: Path, kind: str, **changes: Any) -> None:
    """Changes an action of the first version of a Delta table."""
    path = table / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if kind in action:
            action[kind] |= changes
    path.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def encode_z85(data: bytes) -> str:
    """Returns bytes in the alphabet of ZeroMQ, with which logs hold small deletion vectors."""
    ours = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    other = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    return base64.b85encode(data).decode().translate(str.maketrans(ours, other))


def make_deletion_vector(row: int) -> dict[str, Any]:
    """Returns the entry of a log for a deletion vector that removes one row.

    It is a Roaring bitmap of 64 bits with one array container.
    """
    bitmap = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, row)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    text = encode_z85(data.ljust(-(-len(data) // 4) * 4, b"\0"))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": 1}


def test_table_with_deletion_vectors_is_refused(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path, pa.table({"text": list(map(str, range(30)))}))
    feature = ["deletionVectors"]
    edit_log(
        tmp_path,
        "protocol",
        minReaderVersion=3,
        minWriterVersion=7,
        readerFeatures=feature,
        writerFeatures=feature,
    )
    assert len(texts_in(find_inputs([str(tmp_path)]))) == 30
    edit_log(tmp_path, "add", deletionVector=make_deletion_vector(3))
    with pytest.raises(UsageError, match=r"deletion vectors.*QueryBuilder"):
        find_inputs([str(tmp_path)])
    table = deltalake.DeltaTable(str(tmp_path))
    rows = pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t"))
    assert len(rows) == 29


def test_table_with_column_mapping_or_unknown_features_is_refused(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "a", pa.table(TEXTS))
    edit_log(tmp_path / "a", "metaData", configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(UsageError, match="column mapping"):
        find_inputs([str(tmp_path / "a")])
    deltalake.write_deltalake(tmp_path / "b", pa.table(TEXTS))
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    edit_log(tmp_path / "b", "protocol", minReaderVersion=3, minWriterVersion=7, **features)
    with pytest.raises(UsageError, match="typeWidening"):
        find_inputs([str(tmp_path / "b")])


def test_damaged_delta_table_is_a_usage_error(tmp_path: Path) -> None:
    write_delta(tmp_path / "t")
    (current,) = find_inputs([str(tmp_path / "t")]).files
    Path(current.path).unlink()
    with pytest.raises(UsageError, match="is missing"):
        find_inputs([str(tmp_path / "t")])
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").write_text("{")
    with pytest.raises(UsageError, match="cannot read the Delta table"):
        find_inputs([str(tmp_path)])


@pytest.mark.parametrize("name", ["a%20b", "a\\b"])
def test_delta_table_in_a_folder_that_its_library_decodes_is_refused(
    name: str, tmp_path: Path
) -> None:
    write_delta(tmp_path / "a b")
    (tmp_path / "a b").rename(tmp_path / name)
    with pytest.raises(UsageError, match="rename the folder"):
        find_inputs([str(tmp_path / name)])


@pytest.mark.parametrize("entry", ["../a.parquet", "%2E%2E/a.parquet", "file:///a.parquet"])
def test_data_file_outside_of_the_table_is_refused(entry: str, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "t", pa.table(TEXTS))
    (tmp_path / "a.parquet").write_bytes(b"")
    edit_log(tmp_path / "t", "add", path=entry)
    with pytest.raises(UsageError, match="outside of its folder"):
        find_inputs([str(tmp_path / "t")])
