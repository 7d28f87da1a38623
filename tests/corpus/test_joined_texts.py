"""Documents whose text is in several columns."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import nearkin as nk
from nearkin.cli.app import app
from nearkin.corpus import Columns, FileCorpus, TableCorpus

BODY = "one two three four five six seven eight nine ten eleven twelve"
ROWS = [
    {"title": "The first title", "body": BODY},
    {"title": "The first title", "body": f"{BODY} today"},
    {"title": "Something else", "body": "in words of its own that no other row has"},
    {"title": None, "body": BODY},
    {"title": "A title alone", "body": None},
]
TABLE = pa.Table.from_pylist(ROWS)
JOINED = [
    f"The first title\n{BODY}",
    f"The first title\n{BODY} today",
    "Something else\nin words of its own that no other row has",
    BODY,
    "A title alone",
]
COLUMNS = Columns(text="title", joined=("body",))


def write(folder: Path, suffix: str) -> Path:
    path = folder / f"rows{suffix}"
    if suffix == ".parquet":
        pq.write_table(TABLE, path)
    elif suffix == ".arrow":
        pa.feather.write_feather(TABLE, path)
    elif suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)))
    else:
        path.write_text(json.dumps(ROWS))
    return path


def texts_of(corpus: FileCorpus | TableCorpus, columns: Columns = COLUMNS) -> list[str]:
    return [
        text for batch in corpus.batches(columns) for text in batch.documents["text"].to_pylist()
    ]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl", ".json"])
def test_every_format_joins_texts_alike(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path, suffix)
    assert texts_of(FileCorpus.open([str(path)])) == JOINED
    result = nk.dedup(path, text=["title", "body"])
    assert result.kept.tolist() == [False, True, True, True, True]


def test_tables_join_texts() -> None:
    assert texts_of(TableCorpus(TABLE)) == JOINED
    other_types = TABLE.set_column(0, "title", TABLE["title"].dictionary_encode())
    assert texts_of(TableCorpus(other_types)) == JOINED
    assert texts_of(TableCorpus(TABLE), Columns(text="body", joined=("title",)))[:1] == [
        f"{BODY}\nThe first title"
    ]


def test_delimited_files_join_texts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("title,body\nOne title,a body\n,alone\n")
    assert texts_of(FileCorpus.open([str(tmp_path / "a.csv")])) == ["One title\na body", "\nalone"]


def test_a_joined_result_is_that_of_one_column() -> None:
    joined = nk.dedup(TABLE, text=["title", "body"])
    whole = nk.dedup({"text": JOINED})
    assert joined.clusters.arrow.equals(whole.clusters.arrow)
    assert joined.pairs.arrow.equals(whole.pairs.arrow)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_rows_without_any_text_are_rejected(suffix: str, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"title": None, "body": None, "id": 1}, {**ROWS[0], "id": 2}]
    path = tmp_path / f"a{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows[::-1]), path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    rejected = nk.dedup(path, text=["title", "body"]).rejected
    assert len(rejected) == 1
    assert rejected["reason"][0].as_py().startswith("title and body are ")


def test_values_of_other_types_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"title": "one two", "body": 5}\n')
    rejected = nk.dedup(tmp_path / "a.jsonl", text=["title", "body"]).rejected
    assert rejected["reason"].to_pylist() == ["body is not a string"]
    with pytest.raises(nk.UsageError, match="column 'body' is int64, not text"):
        nk.dedup({"title": ["one"], "body": [1]}, text=["title", "body"])
    broken = pa.array([b"\xff", b"a body"], pa.binary())
    table = pa.table({"title": pa.array(["one", "two"]), "body": broken})
    reasons = nk.dedup(table, text=["title", "body"]).rejected["reason"].to_pylist()
    assert reasons == ["body is not valid UTF-8"]


def test_the_size_of_the_joined_text_is_bounded() -> None:
    columns = Columns(text="title", joined=("body",), document_limit=100)
    table = pa.table({"title": ["a" * 60, "a" * 60], "body": ["b" * 60, "b" * 30]})
    (batch,) = TableCorpus(table).batches(columns)
    assert batch.rows.tolist() == [1]
    assert batch.rejected[0].reason.startswith("title and body is longer than 100 bytes")


@pytest.mark.parametrize("text", [[], ["title", "title"]])
def test_columns_are_named_once(text: list[str]) -> None:
    with pytest.raises(nk.UsageError, match="is not a list of different columns"):
        nk.dedup(TABLE, text=text)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(nk.UsageError, match="the table has no column 'text_body'"):
        nk.dedup(TABLE, text=["title", "text_body"])


def test_columns_are_recorded() -> None:
    assert Columns.from_record(json.loads(json.dumps(COLUMNS.to_record()))) == COLUMNS
    assert "joined" not in Columns().to_record()


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_the_commands_join_columns(tmp_path: Path) -> None:
    path = str(write(tmp_path, ".parquet"))
    out = tmp_path / "out"
    done = run("dedup", path, "--text", "title,body", "--out", str(out), "--save-signatures")
    assert done.exit_code == 0, done.output
    assert pq.read_table(out / "kept" / "rows.parquet").num_rows == 4
    assert json.loads((out / "run.json").read_text())["columns"]["joined"] == ["body"]
    # a saved run is read again with the same columns
    again = str(tmp_path / "again")
    assert run("dedup", str(out), "--text", "title,body", "--out", again).exit_code == 0
    refused = run("dedup", str(out), "--text", "title,other", "--out", f"{again}2")
    assert "made with --text title,body" in str(refused.exception)
    pairs = run("pairs", path, "--text", "title,body", "--out", str(tmp_path / "p.parquet"))
    assert pairs.exit_code == 0, pairs.output
    wrong = run("dedup", path, "--text", "title,,body", "--out", f"{again}3")
    assert "is not a list of different columns" in str(wrong.exception)


def test_indexes_are_built_from_joined_columns(tmp_path: Path) -> None:
    rows = [{"id": f"d{n}", **row} for n, row in enumerate(ROWS)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    options = ["--text", "title,body", "--id", "id", "--store", url]
    done = run("index", "build", str(path), *options)
    assert done.exit_code == 0, done.output
    with nk.Index.open(url) as index:
        assert [match.id for match in index.query("default", JOINED[2])] == ["d2"]


def test_vectors_do_not_join() -> None:
    with pytest.raises(nk.UsageError, match="exclude each other"):
        nk.dedup({"v": np.eye(2), "a": ["b", "c"]}, text=["a", "v"], vector="v")
