"""Passages and lines that Spark cuts from kept documents are those of the local engine."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import UsageError
from tests.cli.conftest import run

SCHEMA = "name string, body string, site string, score long"
SHARED = "all visitors leave their bags at the desk before they enter the reading room"
NOTICE = "Write to us! Ça va — naïve ünï"
LINES = ["Home | News", "home |  NEWS", "© north 2024", "© south", "The end.\r"]


def make_rows() -> list[dict[str, Any]]:
    """Returns texts with duplicates, shared passages and lines, a null, and an empty text."""
    rng = np.random.default_rng(8)
    words = [f"word{number}" for number in range(200)]
    texts: list[str | None] = []
    for number in range(9):
        lines = [" ".join(rng.choice(words, 6)) for _ in range(3)]
        lines[1] += f" {SHARED}." if number % 3 == 0 else f". {NOTICE} {NOTICE}."
        lines.insert(int(rng.integers(4)), LINES[number % len(LINES)])
        lines.append(LINES[int(rng.integers(len(LINES)))])
        texts.append(("\n\n" if number % 2 else "\n").join(lines))
    texts += [f"{texts[0]}", str(texts[1]).upper(), f"{SHARED} {SHARED}", SHARED, "", None]
    names = rng.permutation(len(texts)).tolist()
    return [
        {"name": f"n{name}", "body": text, "site": site, "score": name % 4}
        for name, text, site in zip(names, texts, ["x", "y", None] * 5, strict=True)
    ]


ROWS = make_rows()
SAME = {"id": "name", "text": "body", "threshold": 0.7, "keep": "score desc, length desc"}
REQUESTS: list[dict[str, Any]] = [
    {"passages": 5, "min_left": 8},
    {"repeated_lines": 2, "source": "site"},
    {"passages": "8:chars", "cut_unit": "sentence"},
    {"passages": 5, "cut_unit": "document:0.4"},
    {"repeated_paragraphs": "2:places", "lines_action": "remove"},
]


def to_rows(table: Any) -> list[dict[str, Any]]:
    """Returns the rows of a DataFrame as those of Arrow."""
    return pa.Table.to_pylist(table.toArrow())


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_cuts_of_frames_are_those_of_the_local_engine(
    spark: SparkSession, number: int, full: bool
) -> None:
    if number > 0 and not full:
        pytest.skip("the test of files cuts lines too")
    request = {**SAME, **REQUESTS[number]}
    ordered = pa.Table.from_pylist(sorted(ROWS, key=lambda row: row["name"]))
    local = nk.dedup(ordered, **request)
    expected = local.kept_documents.to_pylist()
    assert 4 < len(expected) < len(ROWS)
    frame = spark.createDataFrame(ROWS, SCHEMA).repartition(3)
    with nks.dedup(frame, **request) as result:
        assert to_rows(result.cuts) == local.cuts.to_pylist()
        kept = sorted(to_rows(result.kept), key=lambda row: row["name"])
        assert [
            {"id": row["name"], "text": row["body"], "cut_spans": row["cut_spans"]} for row in kept
        ] == expected
        assert {row["name"] for row in kept} < {row["name"] for row in ROWS}
        if "passages" not in request:
            assert len(local.repeated_lines) > 1
            assert to_rows(result.repeated_lines) == local.repeated_lines.to_pylist()


@pytest.mark.full
def test_frames_without_anything_repeated_are_kept_whole(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("a", "one two three"), ("b", "four five")], "id string, t string"
    )
    with nks.dedup(frame, id="id", text="t", passages=2) as result:
        assert to_rows(result.cuts) == []
        rows = sorted(to_rows(result.kept), key=lambda row: row["id"])
        assert [(row["t"], row["cut_spans"]) for row in rows] == [
            ("one two three", []),
            ("four five", []),
        ]


def test_contradictory_arguments_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    for more, message in (
        ({"passages": 5, "repeated_lines": 2}, "passages=5 has no effect with repeated_lines=2"),
        ({"min_left": 5}, "min_left=5 has no effect without `passages`"),
        ({"passages": 5, "merge_parts": True}, "and passages='5' exclude each other"),
        ({"repeated_lines": 2, "lines_action": "report"}, "cuts nothing from the kept"),
        ({"passages": 5, "text": ["body", "site"]}, "rewrites one column of texts"),
    ):
        with pytest.raises(UsageError, match=message):
            nks.dedup(frame, **{"id": "name", "text": "body", **more})
    named = frame.withColumnRenamed("site", "Cut_Spans")
    with pytest.raises(UsageError, match="column 'cut_spans' cannot be added"):
        nks.dedup(named, id="name", text="body", passages=5)


def write_inputs(folder: Path) -> None:
    """Writes the rows into files of two formats, with rejected rows and a repeated id."""
    folder.mkdir()
    lines = [json.dumps(row) for row in ROWS]
    (folder / "a.jsonl").write_text("\n".join([*lines[:9], "{", *lines[9:13], lines[2]]) + "\n")
    pq.write_table(pa.Table.from_pylist(ROWS[13:]), folder / "b.parquet")
    (folder / "c.jsonl").write_text("")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            ("--passages", "5", "--cut", "sentence", "--min-left", "8", "--sizes"),
            marks=pytest.mark.full,
        ),
        pytest.param(("--passages", "5", "--cut", "document:0.4"), marks=pytest.mark.full),
        ("--repeated-lines", "2", "--source", "site"),
    ],
)
def test_output_of_files_is_that_of_the_local_engine(
    options: tuple[str, ...], spark: SparkSession, tmp_path: Path
) -> None:
    write_inputs(tmp_path / "docs")
    same = ("--id", "name", "--text", "body", "--threshold", "0.7", "--keep", "score desc")
    for engine in ("local", "spark"):
        out = tmp_path / engine
        command = ("dedup", tmp_path / "docs", *same, *options)
        assert run(*command, "--engine", engine, "--out", out, "-q") == 0
    local, distributed = (tmp_path / "local", tmp_path / "spark")
    tables = ["clusters.parquet", "cuts.parquet", "kept/b.parquet"]
    if "--repeated-lines" in options:
        tables.append("repeated_lines.parquet")
    for name in tables:
        assert pq.read_table(distributed / name).to_pylist() == (
            pq.read_table(local / name).to_pylist()
        ), name
    for name in ("kept/a.jsonl", "kept/c.jsonl", "rejected.jsonl"):
        assert (distributed / name).read_bytes() == (local / name).read_bytes(), name
    facts, expected = (json.loads((out / "run.json").read_text()) for out in (distributed, local))
    section = "lines" if "--repeated-lines" in options else "passages"
    assert facts[section] == expected[section]
    counts = facts[section]["counts"]
    assert counts["cuts"] + counts["documents_removed"] > 0
    assert facts["counts"] == expected["counts"]
    reports = [json.loads((out / "report.json").read_text()) for out in (distributed, local)]
    assert reports[0].get(section) == reports[1].get(section)
    assert facts["stages"]["cut"]["seconds"] >= 0
