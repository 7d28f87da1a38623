"""Tests that the suffix of an output file decides its format, for pairs and signatures."""

import bz2
import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from nearkin.cli import app
from nearkin.errors import UsageError
from nearkin.runs.table_files import TableFile, write_table_file
from tests.corpus.samples import compress, run_command

TEXT = "one two three four five six seven eight nine ten"
PAIR = {"id_a": "a", "id_b": "b,\n1", "similarity": 8 / 9}


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Two near-duplicates, and a document of its own."""
    path = tmp_path / "in.jsonl"
    rows = [("a", TEXT), ("b,\n1", f"{TEXT} eleven"), ("c", "a text of its own, with other words")]
    path.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in rows))
    return path


def read_pairs(path: Path) -> list[dict[str, Any]]:
    """Returns the pairs of a file, read with libraries that nearkin does not use for this."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if path.suffix == ".bz2":
        data = bz2.decompress(data)
    if path.suffix in (".zst", ".lz4"):
        codec = {".zst": "zstd", ".lz4": "lz4"}[path.suffix]
        data = pa.CompressedInputStream(pa.BufferReader(data), codec).read()
    if ".csv" in path.suffixes or ".tsv" in path.suffixes:
        delimiter = "\t" if ".tsv" in path.suffixes else ","
        rows: list[dict[str, Any]] = list(
            csv.DictReader(io.StringIO(data.decode(), newline=""), delimiter=delimiter)
        )
        return [{**row, "similarity": float(row["similarity"])} for row in rows]
    if ".jsonl" in path.suffixes:
        return [json.loads(line) for line in data.splitlines()]
    if path.suffix == ".arrow":
        return pa.ipc.open_file(data).read_all().to_pylist()
    return pq.read_table(io.BytesIO(data)).to_pylist()


FILES = [
    "p.parquet",
    "p.csv",
    "p.tsv",
    "p.jsonl",
    "p.arrow",
    "p.csv.gz",
    "p.jsonl.zst",
    "p.tsv.bz2",
    "p.jsonl.lz4",
    "p.CSV",
    "pairs",
]


@pytest.mark.parametrize("name", FILES)
def test_suffix_decides_the_format_of_pairs(name: str, documents: Path, tmp_path: Path) -> None:
    out = tmp_path / name
    arguments = ("pairs", documents, "--id", "id", "--threshold", "0.7", "--out", out)
    assert run_command(*arguments) == 0
    (pair,) = read_pairs(out.rename(tmp_path / name.lower()) if name == "p.CSV" else out)
    assert {key: pair[key] for key in PAIR} == PAIR
    assert "estimate" in pair


@pytest.mark.parametrize("name", FILES[:-2])
def test_pairs_of_each_format_are_replaced_with_overwrite_only(
    name: str, documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    arguments = ("pairs", documents, "--id", "id", "--threshold", "0.7", "--out", out)
    assert run_command(*arguments) == 0
    before = out.read_bytes()
    assert run_command(*arguments) == app.USAGE
    assert run_command(*arguments, "--overwrite") == 0
    assert out.read_bytes() == before
    assert run_command(*arguments[:-3], "1.0", "--out", out, "--overwrite") == 0
    assert read_pairs(out) == []
    assert run_command(*arguments, "--overwrite") == 0
    out.write_bytes(b"something,else\n")
    capsys.readouterr()
    assert run_command(*arguments, "--overwrite") == app.USAGE
    assert "is not a file of pairs" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["p.parquet", "p.arrow"])
def test_finished_pairs_with_a_request_are_resumed(
    name: str, documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("pairs", documents, "--threshold", "0.7", "--out", tmp_path / name, "--resume")
    assert run_command(*arguments) == 0
    capsys.readouterr()
    assert run_command(*arguments) == 0
    assert "1 verified pair in" in capsys.readouterr().err


def test_finished_pairs_without_a_request_are_not_resumed(
    documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("pairs", documents, "--out", tmp_path / "p.csv", "--resume")
    assert run_command(*arguments) == 0
    assert run_command(*arguments) == app.USAGE
    assert "its format does not record the request" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["p.xls", "p.json", "p.parquet.gz", "p.txt.gz", "p.v1", "p.gz"])
def test_other_suffixes_are_an_error_before_anything_is_written(
    name: str, documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("pairs", documents, "--out", tmp_path / name) == app.USAGE
    assert ".parquet, .csv, .tsv, .jsonl, .xlsx and .arrow" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("name", ["s.csv", "s.parquet", "s.jsonl.gz", "s.xlsx"])
def test_signatures_are_arrow_files_only(
    name: str, documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("lab", "sketch", documents, "--out", tmp_path / name) == app.USAGE
    assert ".arrow" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("command", ["dedup", "pairs", "lab sketch"])
@pytest.mark.parametrize("url", ["hdfs://host/x", "ftp://host/x.parquet", "https://a.example/x"])
def test_url_as_an_output_is_an_error_before_anything_is_written(
    command: str,
    url: str,
    documents: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    out = f"{url}.arrow" if command == "lab sketch" else url
    if command == "pairs" and not out.endswith(".parquet"):
        out = f"{url}.parquet"
    assert run_command(*command.split(), documents, "--out", out) == app.USAGE
    assert "outputs are local, and this is a URL" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_nested_columns_do_not_fit_csv(name: str, tmp_path: Path) -> None:
    schema = pa.schema([("tags", pa.list_(pa.string()))])
    with pytest.raises(UsageError, match=r"column 'tags' has the type list.*\.parquet"):
        write_table_file(TableFile.require(tmp_path / name), tmp_path / name, schema, [])
    assert not (tmp_path / name).exists()


def test_numbers_are_written_without_loss(tmp_path: Path) -> None:
    """0.9995 is not rounded to 1, and a number of 32 bits has no digits that it does not have."""
    table = pa.table({"exact": [0.9995, 1 / 3], "single": pa.array([0.9995, 0.1], pa.float32())})
    for name in ("t.csv", "t.jsonl"):
        target = TableFile.require(tmp_path / name)
        assert write_table_file(target, target.path, table.schema, table.to_batches()) == 2
    assert (tmp_path / "t.csv").read_text() == (
        "exact,single\n0.9995,0.9995\n0.3333333333333333,0.1\n"
    )
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert lines == [
        {"exact": 0.9995, "single": 0.9995},
        {"exact": 1 / 3, "single": 0.1},
    ]


def test_compression_is_that_of_the_suffix(tmp_path: Path) -> None:
    table = pa.table({"a": [1]})
    target = TableFile.require(tmp_path / "t.csv.zst")
    write_table_file(target, target.path, table.schema, table.to_batches())
    assert target.path.read_bytes()[:4] == compress("zstd", b"")[:4]
