"""Completion of commands, options and values in a shell."""

import os
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.cli import app

WORDS = [
    ("nearkin ded", "dedup"),
    ("nearkin index che", "check"),
    ("nearkin dedup --thres", "--threshold"),
    ("nearkin dedup x --measure sim", "simhash"),
    ("nearkin dedup x --normalise mar", "markup"),
    ("nearkin dedup x --base-hash fn", "fnv1a"),
    ("nearkin dedup x --scheme cl", "classic"),
    ("nearkin dedup x --weights tfi", "tfidf"),
    ("nearkin dedup x --shingle chars:5", "chars:5"),
    ("nearkin dedup x --on-error qua", "quarantine"),
    ("nearkin dedup x --verify est", "estimate"),
    ("nearkin dedup x --cluster com", "components"),
    ("nearkin dedup x --empty dr", "drop"),
    ("nearkin dedup x --readable-by gr", "group"),
    ("nearkin pairs x --relation con", "containment"),
    ("nearkin index build x --postings le", "leaders"),
    ("nearkin dedup x --executor sp", "spark"),
    ("nearkin plan --engine ind", "index"),
    ("nearkin dedup x --stem eng", "english"),
    ("nearkin lab synth --format js", "jsonl"),
    ("nearkin dedup x --delimiter se", "semicolon"),
    ("nearkin dedup x --normalise nfkc,lo", "nfkc,lower"),
]
FILES = {
    "csv": "id;title;body\n1;one;two\n",
    "jsonl": '{"id": 1, "title": "one", "body": "two"}\n',
    "json": '[{"id": 1, "title": "one", "body": "two"}]',
}
COLUMN_OPTIONS = [
    "--text",
    "--tokens",
    "--vector",
    "--id",
    "--block-by",
    "--across",
    "--same",
    "--url",
    "--source",
]
COLUMN_OPTIONS += ["--split"]


def complete(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Returns what a shell offers for the last word of a command line."""
    monkeypatch.setenv("_NEARKIN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", shlex.join(line) if line[-1] else f"{shlex.join(line[:-1])} ")
    monkeypatch.setenv("COMP_CWORD", str(len(line) - 1))
    assert app.run([]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.split()


@pytest.mark.parametrize("suffix", FILES)
def test_shell_completes_columns_of_the_first_file(
    suffix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text(FILES[suffix])
    (tmp_path / "b.csv").write_text("other\n")
    for given in (path, tmp_path, tmp_path / "a*"):
        line = ["nearkin", "dedup", str(given), "--text", ""]
        assert complete(line, monkeypatch, capsys) == ["id", "title", "body"]


def test_shell_completes_columns_in_every_option_that_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["1"], "title": ["one"], "body": ["two"]}), path)
    for option in COLUMN_OPTIONS:
        line = ["nearkin", "dedup", str(path), option, "bo"]
        assert complete(line, monkeypatch, capsys) == ["body"]
    line = ["nearkin", "dedup", str(path), "--text", "title,bo"]
    assert complete(line, monkeypatch, capsys) == ["title,body"]
    line = ["nearkin", "dedup", str(path), "--keep", "le"]
    assert complete(line, monkeypatch, capsys) == ["length"]
    line = ["nearkin", "index", "build", str(path), "--id", "i"]
    assert complete(line, monkeypatch, capsys) == ["id"]


def test_shell_completes_no_column_of_inputs_that_cannot_be_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and nothing else")
    (tmp_path / "empty.csv").write_text("")
    os.mkfifo(tmp_path / "pipe.csv")
    names = ("nowhere", "empty", "damaged.parquet", "empty.csv", "pipe.csv", "*.none")
    for given in (*(str(tmp_path / name) for name in names), "s3://bucket/a.parquet"):
        line = ["nearkin", "dedup", given, "--text", ""]
        assert complete(line, monkeypatch, capsys) == []


@pytest.mark.parametrize(("line", "completed"), WORDS)
def test_shell_completes_commands_options_and_values(
    line: str,
    completed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert completed in complete(line.split(), monkeypatch, capsys)


def test_installed_completion_is_a_script_for_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    assert app.run(["--show-completion"]) == 0
    assert "_NEARKIN_COMPLETE=complete_bash" in capsys.readouterr().out
