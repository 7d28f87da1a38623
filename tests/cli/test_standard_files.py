"""`-` as an input and as an output."""

import bz2
import csv
import gzip
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from nearkin.cli import app
from nearkin.cli.standard_streams import prepare_streams
from nearkin.stages.sketch.signature_file import read_signatures
from tests.cli.conftest import SECRET, run


@pytest.fixture
def rows() -> bytes:
    """Four documents in near-duplicate pairs, and a row that is not valid JSON."""
    texts = [" ".join(f"{SECRET}{i // 2}x{j}" for j in range(60)) + f" {i}" for i in range(4)]
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    return "\n".join([*lines, '{"text": ']).encode()


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Returns a function that makes bytes the standard input."""

    def make_standard_input(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return make_standard_input


def test_dedup_writes_only_kept_rows_to_standard_output(
    rows: bytes, feed: Callable[[bytes], None], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    feed(rows)
    assert run("dedup", "-", "--id", "id", "--out", "-") == app.DONE
    written, messages = capfdbinary.readouterr()
    lines = rows.splitlines()
    assert written == b"\n".join([lines[0], lines[2]]) + b"\n"
    assert b"2 of 5 documents kept" in messages
    assert b"Results in standard output" in messages


def test_pairs_writes_json_lines_to_standard_output(
    rows: bytes, feed: Callable[[bytes], None], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    feed(rows)
    assert run("pairs", "-", "--out", "-") == app.DONE
    pairs = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    # Without a column of ids, documents are named after the standard input and their row.
    assert [pair["id_a"].partition(":")[0] for pair in pairs] == ["stdin.jsonl"] * 2


def test_sketch_writes_the_signatures_of_a_signature_file(
    rows: bytes,
    feed: Callable[[bytes], None],
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
) -> None:
    options = ("--id", "id", "--k", 4)
    feed(rows)
    assert run("lab", "sketch", "-", *options, "--out", "-") == app.DONE
    written = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    feed(rows)
    assert run("lab", "sketch", "-", *options, "--out", tmp_path / "x.arrow") == app.DONE
    expected = read_signatures(tmp_path / "x.arrow")
    assert [row["signature"] for row in written] == expected.signatures.tolist()
    assert {row["spec"] for row in written} == {expected.spec.fingerprint}


def test_standard_input_is_not_kept_beside_the_output(
    rows: bytes, feed: Callable[[bytes], None], tmp_path: Path
) -> None:
    feed(rows)
    assert run("dedup", "-", "--id", "id", "--out", tmp_path / "out", "--quiet") == app.DONE
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len((tmp_path / "out/kept/stdin.jsonl").read_bytes().splitlines()) == 2


def test_file_is_deduplicated_to_standard_output(
    documents: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("dedup", documents, "--out", "-", "--quiet") == app.DONE
    kept = capfdbinary.readouterr().out.splitlines()
    assert len(kept) == 20
    assert set(kept) < set(documents.read_bytes().splitlines())


def test_failed_run_over_standard_input_leaves_nothing_to_resume(
    rows: bytes,
    feed: Callable[[bytes], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    feed(rows)
    monkeypatch.setattr("nearkin.runs.dedup._write_outputs", fail)
    assert run("dedup", "-", "--out", tmp_path / "kept.jsonl") != app.DONE
    assert list(tmp_path.iterdir()) == []
    assert "--resume" not in capfd.readouterr().err


def test_nothing_is_written_to_standard_output_if_a_row_is_refused(
    rows: bytes, feed: Callable[[bytes], None], capfd: pytest.CaptureFixture[str]
) -> None:
    feed(rows)
    assert run("dedup", "-", "--out", "-", "--on-error", "fail") == app.FAILED
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dedup", "-", "--out", "o", "--resume"], "--resume cannot be combined with the input -"),
        (["dedup", "-", "x.jsonl", "--out", "o"], "cannot be combined with other inputs"),
        (["dedup", "-", "--out", "-", "--overwrite"], "--overwrite has no effect with --out -"),
        (["dedup", "-", "--out", "-", "--save-signatures"], "--save-signatures has no effect"),
        (["dedup", "-", "--out", "-", "--executor", "spark"], "cannot be combined with -"),
        (["pairs", "-", "--out", "-", "--json"], "--json has no effect with --out -"),
        (["dedup", "-", "--out", "-", "--output", "ids"], "needs an output folder"),
        (["dedup", "-", "--out", "/"], "/ cannot be an output"),
    ],
)
def test_options_without_a_meaning_are_refused_before_reading(
    arguments: list[str],
    message: str,
    feed: Callable[[bytes], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    feed(b"unread")
    assert run(*arguments) == app.USAGE
    assert message in capfd.readouterr().err
    assert sys.stdin.read() == "unread"


def csv_bytes(rows: list[dict[str, str]], delimiter: str, encoding: str = "utf-8") -> bytes:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, ["id", "text"], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode(encoding)


def tar_bytes(rows: list[dict[str, str]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for row in rows:
            member = tarfile.TarInfo(f"{row['id']}.txt")
            member.size = len(row["text"].encode())
            archive.addfile(member, io.BytesIO(row["text"].encode()))
    return buffer.getvalue()


def columnar_bytes(rows: list[dict[str, str]], write: Callable[[pa.Table, Any], None]) -> bytes:
    buffer = io.BytesIO()
    write(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def write_stream(table: pa.Table, sink: Any) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


ENCODERS: dict[str, Callable[[list[dict[str, str]]], bytes]] = {
    "csv": lambda rows: csv_bytes(rows, ","),
    "csv-semicolon": lambda rows: b"sep=;\r\n" + csv_bytes(rows, ";"),
    "csv-utf16": lambda rows: csv_bytes(rows, ",", "utf-16"),
    "csv-column": lambda rows: "\n".join(["text", *(row["text"] for row in rows)]).encode(),
    "tsv": lambda rows: csv_bytes(rows, "\t"),
    "array": lambda rows: json.dumps(rows).encode(),
    "array-lines": lambda rows: json.dumps(rows, indent=1).encode(),
    "objects": lambda rows: "\n".join(json.dumps(row, indent=1) for row in rows).encode(),
    "list": lambda rows: json.dumps({"n": 4, "data": rows}).encode(),
    "parquet": lambda rows: columnar_bytes(rows, pq.write_table),
    "arrow": lambda rows: columnar_bytes(rows, pa.feather.write_feather),
    "stream": lambda rows: columnar_bytes(rows, write_stream),
    "orc": lambda rows: columnar_bytes(rows, orc.write_table),
    "gz": lambda rows: gzip.compress("\n".join(map(json.dumps, rows)).encode()),
    "zst": lambda rows: pa.compress(csv_bytes(rows, ","), "zstd", asbytes=True),
    "bz2": lambda rows: bz2.compress(csv_bytes(rows, "\t")),
    "tar": tar_bytes,
}


@pytest.mark.parametrize("form", ENCODERS)
def test_format_of_standard_input_is_detected(
    form: str,
    rows: bytes,
    feed: Callable[[bytes], None],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    documents = [json.loads(line) for line in rows.splitlines()[:4]]
    feed(ENCODERS[form](documents))
    assert run("pairs", "-", "--out", "-") == app.DONE
    assert len(capfdbinary.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize("form", ["csv", "csv-utf16", "array", "list", "parquet", "zst"])
def test_rows_of_any_format_become_json_lines(
    form: str,
    rows: bytes,
    feed: Callable[[bytes], None],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    documents = [json.loads(line) for line in rows.splitlines()[:4]]
    feed(ENCODERS[form](documents))
    assert run("dedup", "-", "--id", "id", "--out", "-") == app.DONE
    written = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert written == [documents[0], documents[2]]


@pytest.mark.parametrize("options", [("--lines",), ("--preset", "logs")])
def test_lines_of_standard_input_stay_lines(
    options: tuple[str, ...],
    feed: Callable[[bytes], None],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    lines = [b"[12:00:01] a message of the first kind", b"", b"another, quite different message"]
    feed(b"\n".join([*lines, lines[0], b""]))
    assert run("dedup", "-", *options, "--out", "-") == app.DONE
    assert capfdbinary.readouterr().out == b"\n".join([lines[0], lines[2], b""])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a log line\nanother one\n", "neither JSON nor CSV with the column 'text'"),
        (b"%PDF-1.7\n\x80", "standard input holds a PDF document"),
        (b"PK\x03\x04\x00\xff", "standard input holds"),
        (b"id;body\n1;x y\n", "standard input has no column 'text' (it has 'id', 'body')"),
    ],
)
def test_standard_input_without_documents_is_one_error(
    content: bytes,
    message: str,
    feed: Callable[[bytes], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    feed(content)
    assert run("dedup", "-", "--out", "-") == app.USAGE
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_damaged_standard_input_is_rejected_with_a_reason(
    rows: bytes, feed: Callable[[bytes], None], capfd: pytest.CaptureFixture[str]
) -> None:
    feed(gzip.compress(rows)[:40])
    assert run("dedup", "-", "--out", "-") == 3
    assert "the file cannot be read" in capfd.readouterr().err


def test_terminal_is_refused_as_input(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert run("dedup", "-", "--out", "-") == app.USAGE
    assert "standard input is a terminal" in capfd.readouterr().err


def test_closed_standard_input_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.setattr(sys, "stdin", None)
    prepare_streams()
    assert run("dedup", "-", "--out", "-") == app.USAGE
    assert "standard input is closed" in capfd.readouterr().err


@pytest.mark.parametrize("out", ["-", "out"])
def test_errors_name_standard_input_and_not_its_file(
    out: str,
    feed: Callable[[bytes], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    feed(b'{"body": "a text"}\n')
    assert run("dedup", "-", "--out", out) == app.USAGE
    assert "nearkin: standard input has no column 'text'" in capfd.readouterr().err


def test_reason_is_shown_if_every_row_is_rejected(
    feed: Callable[[bytes], None], capfd: pytest.CaptureFixture[str]
) -> None:
    feed(b"[1, 2]\n")
    assert run("dedup", "-", "--out", "-") == 3
    assert "the first one because the row is not a JSON object" in capfd.readouterr().err


def test_command_that_reads_files_alone_names_those_that_read_standard_input(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run("passages", "-", "--out", "o") == app.USAGE
    message = " ".join(capfd.readouterr().err.split())
    assert "no such file or folder: -; standard input is read by nearkin dedup, pairs" in message


def test_reader_of_standard_output_may_stop_early(rows: bytes) -> None:
    line = f"{sys.executable} -m nearkin dedup - --out - --quiet | head -c 1"
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], input=rows, capture_output=True, check=False
    )
    assert ended.returncode == app.DONE, ended.stderr
    assert ended.stdout == b"{"
    assert b"Traceback" not in ended.stderr
