"""Spark finds the same items of suites as the local engine, row for row."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.spark.contamination_search import TextReading
from nearkin.texts.decontamination.suites import spec_of_words
from tests.cli.conftest import run

SCHEMA = "name long, body string, label string"
QUESTION = (
    "If a train leaves the northern station at nine o'clock and travels at eighty kilometres per "
    "hour, when does it reach the harbour of the well-known southern town?"
)
SUITES = {
    "trains": [
        {"question": QUESTION, "answer": "At noon, with the tide"},
        {"question": "Who painted the bridge?", "answer": "Nobody"},
    ],
    "boats": [{"question": "How many boats crossed the frozen bay on the second day of spring?"}],
    "empty": [{"question": ""}],
}


def make_rows() -> list[dict[str, Any]]:
    """Returns rows with items in one, two or no texts, a null, and an empty text."""
    rng = np.random.default_rng(4)
    words = [f"word{number}" for number in range(60)]
    boats = SUITES["boats"][0]["question"]
    texts: list[str | None] = [" ".join(rng.choice(words, 30)) for _ in range(12)]
    texts += [
        f"Quiz: {QUESTION.upper()} Write to us! {texts[0]}",
        f"{boats}\n\nÇa — naïve. {QUESTION} At noon, with the tide.",
        f"{texts[1]} Who painted the bridge? Nobody. {texts[2]}",
        QUESTION.replace("eighty", "ninety"),
        "",
        None,
    ]
    names = rng.permutation(len(texts)).tolist()
    return [
        {"name": name, "body": text, "label": f"l{name}"}
        for name, text in zip(names, texts, strict=True)
    ]


ROWS = make_rows()


def to_rows(table: Any) -> list[dict[str, Any]]:
    """Returns the rows of a DataFrame as those of Arrow."""
    return pa.Table.to_pylist(table.toArrow())


# the quick form cuts documents in the test of files
@pytest.mark.parametrize(
    "action",
    [
        "annotate",
        pytest.param("cut", marks=pytest.mark.full),
        pytest.param("drop", marks=pytest.mark.full),
    ],
)
def test_items_are_those_of_the_local_engine(spark: SparkSession, action: str) -> None:
    ordered = pa.Table.from_pylist(sorted(ROWS, key=lambda row: int(str(row["name"]))))
    local = nk.decontaminate(ordered, SUITES, id="name", text="body", action=action)
    assert len(local) == 4
    frame = spark.createDataFrame(ROWS, SCHEMA).repartition(3)
    with nks.decontaminate(frame, SUITES, id="name", text="body", action=action) as result:
        assert dict(result.statistics) == dict(local.statistics)
        assert result.warnings == local.warnings
        for name in ("hits", "items", "suites", "documents", "cuts"):
            assert to_rows(getattr(result, name)) == getattr(local, name).to_pylist(), name
        assert [row["reason"] for row in to_rows(result.rejected)] == [
            row["reason"] for row in local.rejected.to_pylist()
        ]
        kept = sorted(to_rows(result.kept), key=lambda row: int(row["name"]))
        assert len(kept) == len(ROWS) - 1 - (4 if action == "drop" else 0)
        assert all(row["label"] == f"l{row['name']}" for row in kept)
        added = {"annotate": "contamination", "cut": "cut_spans"}.get(action)
        expected = local.kept_documents.to_pylist()
        rows = [{"id": str(row["name"]), "text": row["body"]} for row in kept]
        if added is not None:
            rows = [{**row, added: of[added]} for row, of in zip(rows, kept, strict=True)]
        assert rows == expected
        assert set(kept[0]) == {"name", "body", "label"} | ({added} - {None})


def test_clean_rows_have_empty_tables(spark: SparkSession) -> None:
    table = pa.table({"the.name": ["a", "b"], "the `body`": ["clean words", "more clean words"]})
    names = {"id": "the.name", "text": "the `body`"}
    local = nk.decontaminate(table, SUITES, **names, action="annotate")
    frame = spark.createDataFrame(table.to_pandas())
    with nks.decontaminate(frame, SUITES, **names, action="annotate") as result:
        assert dict(result.statistics) == dict(local.statistics)
        for name in ("hits", "items", "suites", "documents", "cuts"):
            assert to_rows(getattr(result, name)) == getattr(local, name).to_pylist(), name
        kept = [{**row, "contamination": []} for row in table.to_pylist()]
        assert sorted(to_rows(result.kept), key=lambda row: str(row["the.name"])) == kept


@pytest.mark.full
def test_keyed_suites_are_found_in_frames(spark: SparkSession, tmp_path: Path) -> None:
    write_inputs(tmp_path / "docs")
    key = HashKey.read(str(write_keyed_suites(tmp_path / "suites")))
    ordered = pa.Table.from_pylist(sorted(ROWS, key=lambda row: int(str(row["name"]))))
    same = {"id": "name", "text": "body", "action": "cut", "key": key}
    suites = tmp_path / "suites" / "keyed.arrow"
    local = nk.decontaminate(ordered, suites, **same)
    assert len(local) == 3
    frame = spark.createDataFrame(ROWS, SCHEMA)
    with nks.decontaminate(frame, suites, **same) as result:
        assert dict(result.statistics) == dict(local.statistics)
        for name in ("hits", "cuts"):
            assert to_rows(getattr(result, name)) == getattr(local, name).to_pylist(), name


def test_tasks_read_the_key_themselves(tmp_path: Path) -> None:
    key_file = tmp_path / "key.txt"
    key_file.write_text("0" * 31 + "1")
    key = HashKey.read(str(key_file))
    options = RunOptions(spec=spec_of_words(key.id))
    reading = TextReading.of(Columns("text"), options, key, "quarantine")
    sent = pickle.dumps(reading)
    assert key_file.read_bytes() not in sent
    assert bytes.fromhex(key_file.read_text()) not in sent
    received: TextReading = pickle.loads(sent)
    assert received.key is not None
    assert received.key.read() == key
    key_file.write_text("0" * 31 + "2")
    with pytest.raises(UsageError, match="give all machines the same key"):
        received.make_reader(1)


def test_tasks_without_the_key_of_the_driver_end_the_run_with_nothing_written(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_inputs(tmp_path / "docs")
    suites = tmp_path / "suites"
    secret = write_keyed_suites(suites).read_text()
    # The processes of Spark's tasks began before, so they do not have the variable.
    monkeypatch.setenv("NEARKIN_TEST_KEY", secret)
    out = tmp_path / "out"
    options = ("--text", "body", "--against", suites / "keyed.arrow", "--engine", "spark")
    before = sorted(tmp_path.iterdir())
    for source, message in (
        ("env:NEARKIN_TEST_KEY", "environment variable NEARKIN_TEST_KEY is not set; give all"),
        (None, "and no key was given; give the key of the suites with --key-file"),
    ):
        key = () if source is None else ("--key-file", source)
        assert run("decontaminate", tmp_path / "docs", *options, *key, "--out", out) == 2
        printed = capsys.readouterr().err
        assert message in printed
        assert "Traceback" not in printed
        assert secret not in printed
        assert sorted(tmp_path.iterdir()) == before


def test_a_hash_key_that_tasks_cannot_read_is_refused(spark: SparkSession) -> None:
    key = HashKey(bytes(16))
    frame = spark.createDataFrame(ROWS, SCHEMA)
    with pytest.raises(UsageError, match="they cannot read this `key`; read it with"):
        nks.decontaminate(frame, SUITES, id="name", text="body", key=key)
    with pytest.raises(UsageError, match="a hash key is not sent to the tasks of Spark"):
        nks.passages(
            frame,
            id="name",
            text="body",
            spec=Spec(n=1, base_hash="siphash", key_id=key.id),
            key=key,
        )


def test_contradictory_arguments_are_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"not a Spark DataFrame; nearkin\.decontaminate takes"):
        nks.decontaminate(pa.table({"id": ["x"]}), SUITES, id="id")
    frame = spark.createDataFrame([{"name": 1, "body": "a", "label": "b"}] * 2, SCHEMA)
    with pytest.raises(UsageError, match="has no column 'text'"):
        nks.decontaminate(frame, SUITES, id="name")
    with pytest.raises(UsageError, match="the id '1' of the column 'name' is repeated"):
        nks.decontaminate(frame, SUITES, id="name", text="body")
    annotated = frame.withColumnRenamed("label", "Contamination")
    with pytest.raises(UsageError, match="column 'contamination' cannot be added"):
        nks.decontaminate(annotated, SUITES, id="name", text="body", action="annotate")


def write_inputs(folder: Path) -> None:
    """Writes the rows into files of two formats, with rejected rows, and two suites."""
    folder.mkdir()
    lines = [json.dumps({"name": row["name"], "body": row["body"]}) for row in ROWS]
    (folder / "a.jsonl").write_text("\n".join([*lines[:9], "{", *lines[9:14]]) + "\n")
    pq.write_table(pa.Table.from_pylist(ROWS[14:]), folder / "b.parquet")
    (folder / "c.jsonl").write_text("")
    suites = folder.parent / "suites"
    suites.mkdir()
    for name, items in SUITES.items():
        (suites / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))


def write_keyed_suites(folder: Path) -> Path:
    """Saves the suites of a folder in it without words, and returns the file of their key."""
    key_file = folder / "key.txt"
    key_file.write_text("0" * 31 + "1")
    suites = [folder / f"{name}.jsonl" for name in SUITES]
    options = ("--build", folder / "keyed.arrow", "--keyed", "--key-file", key_file)
    assert run("decontaminate", *suites, *options) == 0
    return key_file


def read_output(out: Path) -> dict[str, Any]:
    """Returns the tables, the copies and the facts of an output."""
    names = ("hits", "items", "suites", "documents")
    tables = {name: pq.read_table(out / f"{name}.parquet").to_pylist() for name in names}
    if (out / "cuts.parquet").exists():
        tables["cuts"] = pq.read_table(out / "cuts.parquet").to_pylist()
    copies = {path.name: path.read_bytes() for path in (out / "kept").glob("*.jsonl")}
    rows = pq.read_table(out / "kept" / "b.parquet").to_pylist()
    facts = json.loads((out / "run.json").read_text())
    rejected = (out / "rejected.jsonl").read_text()
    page = (out / "report.html").read_text()
    return {**tables, **copies, "b": rows, "counts": facts["counts"], "r": rejected, "page": page}


@pytest.mark.parametrize(
    ("action", "keyed"),
    [
        ("cut", True),
        pytest.param("annotate", False, marks=pytest.mark.full),
        pytest.param("cut", False, marks=pytest.mark.full),
        pytest.param("drop", True, marks=pytest.mark.full),
    ],
)
def test_output_of_files_is_that_of_the_local_engine(
    spark: SparkSession, tmp_path: Path, action: str, keyed: bool
) -> None:
    write_inputs(tmp_path / "docs")
    suites = tmp_path / "suites"
    options: tuple[object, ...] = ("--text", "body", "--action", action, "--against", suites)
    if keyed:
        options = (*options[:-1], suites / "keyed.arrow", "--key-file", write_keyed_suites(suites))
    for engine in ("local", "spark"):
        out = tmp_path / engine
        assert (
            run("decontaminate", tmp_path / "docs", *options, "--engine", engine, "--out", out) == 0
        )
    local = read_output(tmp_path / "local")
    assert len(local["documents"]) == (3 if keyed else 4)
    distributed = read_output(tmp_path / "spark")
    for name, value in local.items():
        assert distributed[name] == value, name
    assert not list((tmp_path / "spark" / "kept").glob(".attempt*"))


def test_run_over_a_delta_table_records_its_version(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    table = tmp_path / "table"
    deltalake.write_deltalake(str(table), pa.table({"text": [QUESTION, "something else"]}))
    suite = tmp_path / "trains.jsonl"
    suite.write_text(json.dumps(SUITES["trains"][0]) + "\n")
    out = tmp_path / "out"
    assert run("decontaminate", table, "--against", suite, "--engine", "spark", "--out", out) == 0
    facts = json.loads((out / "run.json").read_text())
    assert facts["counts"]["contaminated_documents"] == 1
    assert facts["tables"] == [{"path": str(table), "format": "Delta", "version": 0}]


def test_an_unknown_engine_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_inputs(tmp_path / "docs")
    options = ("--text", "body", "--against", tmp_path / "suites", "--out", tmp_path / "out")
    assert run("decontaminate", tmp_path / "docs", *options, "--engine", "sparks") == 2
    assert "--engine sparks is not one of local, spark" in capsys.readouterr().err
