"""The most frequent reasons of rejected rows, wherever a run is summarized."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli import app
from tests.cli.conftest import run

TEXTS = [" ".join(f"w{number}x{at}" for at in range(30)) for number in range(6)]
COUNTED = (
    "the row is not valid UTF-8 (4), the row is not valid JSON (3), text is null (2), "
    "other reasons (1)"
)
WARNING = f"10 rows were rejected: {COUNTED}"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Six documents, and ten rows that are rejected for four reasons."""
    lines = [json.dumps({"text": text}).encode() for text in TEXTS]
    lines += [b'{"text": "Gr\xf6\xdfe %d"}' % number for number in range(4)]
    lines += [b'{"text": '] * 3 + [b'{"text": null}'] * 2 + [b'{"text": 1}']
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(lines))
    return path


def test_summary_report_and_record_name_the_reasons(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run("dedup", rows, "--out", out, "--quiet") == app.DONE
    shown = " ".join(capsys.readouterr().err.split())
    assert f"{WARNING}; --encoding utf-8,windows-1252 reads rows that are not UTF-8" in shown
    record = json.loads((out / "run.json").read_text())
    assert record["stages"]["sketch"]["rejected_reasons"] == {
        "the row is not valid UTF-8": 4,
        "the row is not valid JSON": 3,
        "text is null": 2,
    }
    assert any(warning.startswith(WARNING) for warning in record["warnings"])
    assert COUNTED in (out / "report.html").read_text()
    rejected = [json.loads(line) for line in (out / "rejected.jsonl").read_text().splitlines()]
    assert rejected[0]["line"] == 7
    assert rejected[0]["reason"].startswith("the row is not valid UTF-8: byte 13 is 0xF6; ")
    # The encoding that is proposed reads the rows.
    encoding = ("--encoding", "utf-8,windows-1252")
    assert run("dedup", rows, *encoding, "--out", tmp_path / "all", "--quiet") == app.DONE
    assert "6 rows were rejected" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "command",
    [
        ("pairs", "{rows}", "--out", "{out}/pairs.jsonl"),
        ("check", "{rows}", "{other}", "--max", "9"),
        ("split", "{rows}", "--groups", "0.5,0.5", "--out", "{out}/split"),
        ("lab", "sketch", "{rows}", "--out", "{out}/s.arrow"),
        ("passages", "{rows}", "--min", "8", "--out", "{out}/passages"),
        ("index", "build", "{rows}", "--store", "sqlite:///{out}/kin.db"),
    ],
)
def test_every_command_names_the_reasons(
    command: tuple[str, ...], rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "something else of its own"}\n')
    arguments = [part.format(rows=rows, other=other, out=tmp_path) for part in command]
    assert run(*arguments) == app.DONE
    assert WARNING in " ".join(capsys.readouterr().err.split())


def test_results_of_the_library_name_the_reasons(rows: Path) -> None:
    result = nk.dedup(rows)
    assert repr(result) == f"<DedupResult: 6 documents, 6 kept; {WARNING}>"
    assert result.warnings[0].startswith(WARNING)
    assert repr(nk.pairs(rows)) == f"<PairsResult: 0 pairs of 6 documents; {WARNING}>"
    assert repr(nk.passages(rows, min_tokens=8)).endswith(f"of 6 documents; {WARNING}>")
    without = nk.dedup(["a text", None, "another one"])
    assert "1 row was rejected: text is null (1)" in repr(without)
    assert "rejected" not in repr(nk.dedup(["a text"]))


def test_run_of_rows_counts_as_all_of_them_in_every_result(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [None] * 2000 + ["a text"]}), path, row_group_size=2000)
    reasons = "; 2,000 rows were rejected: text is null (2,000)>"
    for result in (nk.dedup(path), nk.pairs(path), nk.passages(path, min_tokens=8)):
        assert repr(result).endswith(reasons)
        assert len(result.rejected) == 1
