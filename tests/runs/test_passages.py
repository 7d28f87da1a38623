"""Runs over passages of files: rewritten copies in the format of each input."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from nearkin.texts.passages.cutting.run import CutRun
from tests.cli.conftest import run

SHARED = "Alle „Gäste“ lassen ihre Taschen am Eingang"
TEXTS = [f"Hier: {SHARED}, bitte.", f'{SHARED} "sonst", ja\nnein', "nichts davon"]
LEFT = [TEXTS[0], '"sonst", ja\nnein', TEXTS[2]]
SPANS = [[], [{"start": 0, "end": len(SHARED.encode()) + 1}], []]


def cut_file(path: Path, out: Path, *options: object) -> None:
    names = ("--min", "5", "--cut", "passage", "--keep", "length asc", "--out", out, "-q")
    if "--keep" in options:
        names = ("--min", "5", "--cut", "passage", "--out", out, "-q")
    assert run("passages", path, *names, *options) == 0


KINDS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
]
RUN_KINDS = [
    pa.run_end_encoded(pa.int16(), pa.string()),
    pa.run_end_encoded(pa.int32(), pa.string_view()),
]


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        *[(kind, ".parquet") for kind in KINDS],
        *[(kind, ".arrow") for kind in [*KINDS, *RUN_KINDS]],
    ],
    ids=str,
)
def test_tables_keep_their_columns_and_types(
    kind: pa.DataType, suffix: str, tmp_path: Path
) -> None:
    texts = pa.array(TEXTS)
    if pa.types.is_run_end_encoded(kind):
        ends = pa.array(range(1, len(TEXTS) + 1), kind.run_end_type)
        column = pa.RunEndEncodedArray.from_arrays(ends, texts.cast(kind.value_type))
    else:
        column = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    table = pa.table({"n": [3, 1, 2], "text": column, "m": [None, 1.5, 2.5]})
    path = tmp_path / f"in{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    cut_file(path, tmp_path / "out", "--keep", "n desc")
    kept = tmp_path / "out" / "kept" / f"in{suffix}"
    written = pq.read_table(kept) if suffix == ".parquet" else pa.ipc.open_file(kept).read_all()
    assert written.schema.names == ["n", "text", "m", "cut_spans"]
    expected = table.schema.field("text").type
    if suffix == ".arrow" and pa.types.is_dictionary(kind):
        expected = pa.string()
    assert written.schema.field("text").type == expected
    assert written["text"].to_pylist() == LEFT
    assert written["m"].to_pylist() == [None, 1.5, 2.5]
    assert written["cut_spans"].to_pylist() == SPANS


ENCODINGS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "dictionary": pa.Array.dictionary_encode,
    "runs of a dictionary": lambda texts: pa.RunEndEncodedArray.from_arrays(
        pa.array(range(1, len(texts) + 1), pa.int32()), texts.dictionary_encode()
    ),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("open_writer", [pa.ipc.new_file, pa.ipc.new_stream])
def test_dictionaries_of_many_batches_are_rewritten(
    open_writer: Any, encoding: str, tmp_path: Path
) -> None:
    """An Arrow file has one dictionary, so another one for the new texts of a batch is an error."""
    table = pa.table({"n": [3, 1, 2], "text": ENCODINGS[encoding](pa.array(TEXTS))})
    path = tmp_path / "in.arrow"
    with open_writer(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    cut_file(path, tmp_path / "out", "--keep", "n desc")
    source = (tmp_path / "out" / "kept" / "in.arrow").read_bytes()
    is_file = open_writer is pa.ipc.new_file
    reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
    assert reader.read_all()["text"].to_pylist() == LEFT


@pytest.mark.parametrize("depth", [10, 1000])
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_texts_beside_deeply_nested_fields_are_rewritten(
    depth: int, suffix: str, tmp_path: Path
) -> None:
    nested = '[{"]": ' * (depth // 2) + '"}]"' + "}]" * (depth // 2)
    rows = [f'{{"nested": {nested}, "text": {json.dumps(text)}}}' for text in TEXTS]
    path = tmp_path / f"in{suffix}"
    path.write_text("\n".join(rows) if suffix == ".jsonl" else f"[{', '.join(rows)}]")
    cut_file(path, tmp_path / "out", "--keep", "length asc")
    written = (tmp_path / "out" / "kept" / path.name).read_text()
    assert written.count(nested) == len(TEXTS)
    assert written.count('"cut_spans":[{') == 1


def test_other_fields_of_json_lines_are_copied_byte_for_byte(tmp_path: Path) -> None:
    lines = [
        b'{"text": %s, "n": 1}' % json.dumps(TEXTS[0]).encode(),
        b'{ "a" : [1.50, {"text": "x"}], "te\\u0078t" :%s , "big": 12345678901234567890, "e": 1e5}'
        % json.dumps(TEXTS[1]).encode(),
        b'{"text": "nichts davon"}',
    ]
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    cut_file(path, tmp_path / "out", "--keep", "n asc")
    written = gzip.decompress((tmp_path / "out" / "kept" / "in.jsonl.gz").read_bytes())
    changed = written.splitlines()[1]
    assert changed.startswith(b'{ "a" : [1.50, {"text": "x"}], "te\\u0078t" :"')
    assert b', "big": 12345678901234567890, "e": 1e5,"cut_spans":[{' in changed
    rows = [json.loads(line) for line in written.splitlines()]
    assert [row["text"] for row in rows] == LEFT
    assert [row["cut_spans"] for row in rows] == SPANS


def test_arrays_of_json_and_rows_of_csv_are_rewritten(tmp_path: Path) -> None:
    rows = [{"n": number, "text": text} for number, text in enumerate(TEXTS)]
    (tmp_path / "in.json").write_text(json.dumps(rows, indent=1))
    with (tmp_path / "in.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerows([["n", "text"], *([row["n"], row["text"]] for row in rows)])
    for name in ("in.json", "in.csv"):
        cut_file(tmp_path / name, tmp_path / f"out-{name}", "--keep", "n asc")
    kept = json.loads((tmp_path / "out-in.json" / "kept" / "in.json").read_text())
    assert [row["text"] for row in kept] == LEFT
    with (tmp_path / "out-in.csv" / "kept" / "in.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["text"] for row in written] == LEFT
    assert [json.loads(row["cut_spans"]) for row in written] == SPANS


def test_cut_tables_and_counts_are_in_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.jsonl"
    texts = [*TEXTS, f"{SHARED}."]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    out = tmp_path / "out"
    line = ("passages", path, "--min", "5", "--cut", "passage", "--min-left", "1", "--out", out)
    assert run(*line) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert "1 part was cut from 1 document" in printed
    assert "1 document with fewer than 1 word left was removed" in printed
    rows = pq.read_table(out / "cuts.parquet").to_pylist()
    assert [(row["id"], row["text"], row["kept_id"]) for row in rows] == [
        ("in.jsonl:0000000000", SHARED, "in.jsonl:0000000001"),
        ("in.jsonl:0000000003", f"{SHARED}.", None),
    ]
    facts = json.loads((out / "passages.json").read_text())
    assert facts["cut"] == {"cut": "passage", "min_left": 1, "keep": "length desc"}
    assert facts["counts"]["documents_removed"] == 1
    assert run(*line, "--resume", "-q") == 0
    assert run(*line[:-4], "--out", out, "--resume", "-q") == 2


def test_interrupted_cut_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    line = ("passages", path, "--min", "5", "--cut", "passage", "--out", tmp_path / "out", "-q")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CutRun, "_cut", interrupt)
        assert run(*line) != 0
    assert run(*line, "--resume") == 0
    rows = (tmp_path / "out" / "kept" / "in.jsonl").read_text().splitlines()
    assert len(rows) == len(TEXTS)


def test_input_with_the_added_column_is_an_error_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with_column = tmp_path / "in.jsonl"
    with_column.write_text('{"text": "a b c", "cut_spans": 1}\n')
    without_columns = tmp_path / "in.txt"
    without_columns.write_text("a b c")
    for path in (with_column, without_columns):
        assert run("passages", path, "--cut", "passage", "--out", out, "-q") == 2
        assert "cut_spans" in capsys.readouterr().err
        assert not out.exists()


def test_repeated_lines_are_cut_listed_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.jsonl"
    texts = ["Home\nfirst", "HOME\r\nsecond, longer"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    out = tmp_path / "out"
    line = ("passages", path, "--repeated-lines", "2", "--out", out)
    assert run(*line) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert "1 different line occurs in at least 2 of 2 documents, at 2 places" in printed
    kept = [json.loads(row) for row in (out / "kept" / "in.jsonl").read_text().splitlines()]
    assert [row["text"] for row in kept] == ["first", texts[1]]
    assert pq.read_table(out / "repeated_lines.parquet")["text"].to_pylist() == ["HOME\r\n"]
    facts = json.loads((out / "passages.json").read_text())
    assert facts["lines"]["documents"] == 2
    assert facts["counts"]["repeated_places"] == 2
    assert run(*line, "--resume", "-q") == 0
    assert run(*line, "--lines-action", "remove", "--resume", "-q") == 2
