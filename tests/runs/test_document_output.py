"""Outputs with copies of the documents, with the removed ids alone, or without documents."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from tests.cli.conftest import run

TEXTS = [f"the {word} fox jumps over the lazy dog and runs away" for word in ("red", "grey")]
TABLE = pa.table(
    {"id": ["a", "b", "c", "d"], "text": [TEXTS[0], "nothing like it", TEXTS[0].upper(), TEXTS[1]]}
)
COMMAND = ("--id", "id", "--threshold", 0.6, "--shingle", "words:1")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "documents.parquet"
    pq.write_table(TABLE, path, compression="gzip")
    return path


def codec_of(path: Path) -> str:
    return str(pq.ParquetFile(path).metadata.row_group(0).column(0).compression)


@pytest.mark.parametrize("output", ["ids", "none"])
def test_output_without_copies_has_the_same_tables_and_report(
    output: str, documents: Path, tmp_path: Path
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert run("dedup", documents, *COMMAND, "--out", whole) == 0
    assert run("dedup", documents, *COMMAND, "--out", out, "--output", output) == 0
    names = {path.name for path in whole.iterdir()} - {"kept"}
    assert {path.name for path in out.iterdir()} - {"removed.parquet"} == names
    assert not (out / "kept").exists()
    for name in ("clusters.parquet", "pairs.parquet", "rejected.jsonl"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    reports = [json.loads((folder / "report.json").read_bytes()) for folder in (out, whole)]
    assert reports[0]["clusters"] == reports[1]["clusters"]
    assert json.loads((out / "run.json").read_bytes())["output"] == output


def test_ids_lists_the_removed_documents(documents: Path, tmp_path: Path) -> None:
    assert run("dedup", documents, *COMMAND, "--out", tmp_path / "o", "--output", "ids") == 0
    removed = pq.read_table(tmp_path / "o/removed.parquet")
    assert removed.column_names == ["id"]
    clusters = pq.read_table(tmp_path / "o/clusters.parquet")
    assert removed["id"].to_pylist() == [
        row["id"] for row in clusters.to_pylist() if not row["kept"]
    ]
    assert removed["id"].to_pylist() == ["a", "c"]


def test_run_without_copies_can_be_explained(
    documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("dedup", documents, *COMMAND, "--out", tmp_path / "o", "--output", "none") == 0
    capsys.readouterr()
    assert run("explain", "a", "d", "--run", tmp_path / "o") == 0
    assert "removed" in capsys.readouterr().out


@pytest.mark.parametrize("codec", ["snappy", "zstd", "lz4", "none"])
def test_codec_is_that_of_kept_parquet_files(codec: str, documents: Path, tmp_path: Path) -> None:
    assert run("dedup", documents, *COMMAND, "--out", tmp_path / "o", "--codec", codec) == 0
    kept = tmp_path / "o/kept/documents.parquet"
    assert codec_of(kept) == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    assert pq.read_table(kept)["id"].to_pylist() == ["b", "d"]
    assert json.loads((tmp_path / "o/run.json").read_bytes())["codec"] == codec


def test_codec_is_that_of_the_input_by_default(documents: Path, tmp_path: Path) -> None:
    assert run("dedup", documents, *COMMAND, "--out", tmp_path / "o") == 0
    assert codec_of(tmp_path / "o/kept/documents.parquet") == "GZIP"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "id"], "--output id is not one of kept, ids, none; did you mean 'ids'"),
        (["--codec", "zst"], "--codec zst is not one of same, snappy, zstd, lz4, none"),
        (["--output", "ids", "--annotate"], "--annotate has no effect with --output ids"),
        (["--output", "none", "--codec", "zstd"], "--codec has no effect with --output none"),
    ],
)
def test_options_without_effect_are_refused_before_anything_is_written(
    options: list[str],
    message: str,
    documents: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("dedup", documents, *COMMAND, "--out", tmp_path / "o", *options) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["documents.parquet"]


@pytest.mark.parametrize("options", [["--output", "ids"], ["--codec", "zstd"]])
def test_output_of_one_file_has_neither_ids_nor_codec(
    options: list[str], documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o.parquet"
    assert run("dedup", documents, *COMMAND, "--out", out, *options) == 2
    assert f"{options[0]} {options[1]} needs an output folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["documents.parquet"]


def test_codec_without_parquet_inputs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    assert run("dedup", tmp_path / "a.jsonl", "--out", tmp_path / "o", "--codec", "zstd") == 2
    assert "no input is a Parquet file" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_run_is_not_resumed_with_another_output_or_codec(
    documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    assert run("dedup", documents, *COMMAND, "--out", out, "--output", "ids") == 0
    assert run("dedup", documents, *COMMAND, "--out", out, "--output", "ids", "--resume") == 0
    capsys.readouterr()
    assert run("dedup", documents, *COMMAND, "--out", out, "--resume") == 2
    assert "made with --output ids, and this run has no --output" in capsys.readouterr().err
    copies = tmp_path / "copies"
    assert run("dedup", documents, *COMMAND, "--out", copies) == 0
    assert run("dedup", documents, *COMMAND, "--out", copies, "--codec", "lz4", "--resume") == 2
    assert "made with no --codec, and this run has --codec lz4" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["table", "files"])
def test_library_writes_ids_or_another_codec(source: str, documents: Path, tmp_path: Path) -> None:
    data: Any = TABLE if source == "table" else documents
    with nk.dedup(data, id="id", threshold=0.6, shingle="words:1") as result:
        result.write(tmp_path / "ids", output="ids")
        result.write(tmp_path / "none", output="none")
        result.write(tmp_path / "zstd", codec="zstd")
        with pytest.raises(UsageError, match="output='all' is not one of kept, ids, none"):
            result.write(tmp_path / "all", output="all")
        with pytest.raises(UsageError, match=r"output='ids' needs an output folder"):
            result.write(tmp_path / "one.csv", output="ids")
    assert pq.read_table(tmp_path / "ids/removed.parquet")["id"].to_pylist() == ["a", "c"]
    assert not (tmp_path / "ids/kept").exists()
    assert not (tmp_path / "none/removed.parquet").exists()
    assert codec_of(tmp_path / "zstd/kept/documents.parquet") == "ZSTD"
