import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nearkin.runtime.compilation import ANNOUNCEMENT

COMMANDS = ("dedup", "pairs", "sketch", "merge", "info", "synth", "demo", "bench")


def nearkin(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "nearkin", *map(str, arguments)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "corpus"
    nearkin(
        "synth",
        "--documents",
        6000,
        "--length",
        "fixed:400",
        "--files",
        2,
        "--hostile",
        12,
        "--out",
        folder,
    )
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(command: str) -> None:
    shown = nearkin(command, "--help").stdout
    assert "Examples" in shown
    assert f"nearkin {command}" in shown


def test_help_lists_every_command() -> None:
    shown = nearkin("--help").stdout
    assert all(command in shown for command in COMMANDS)
    assert nearkin("--version").stdout.startswith("nearkin ")


def test_dedup(corpus: Path, tmp_path: Path) -> None:
    ended = nearkin(
        "dedup", corpus / "documents", "--id", "id", "--source", "source", "--out", tmp_path / "out"
    )
    assert ended.stdout == ""
    assert "documents" in ended.stderr
    assert "report.html" in "".join(ended.stderr.split())
    assert "\x1b" not in ended.stderr
    assert {path.name for path in (tmp_path / "out/kept").iterdir()} == {
        "part-00000.parquet",
        "part-00001.parquet",
    }
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "<script src" not in page
    assert not re.findall(r"https?://|@import|url\(|\bsrc=", page.replace("http://www.w3.org", ""))


def test_json_is_the_only_thing_on_standard_output(corpus: Path, tmp_path: Path) -> None:
    ended = nearkin("dedup", corpus / "documents", "--out", tmp_path / "out", "--json")
    summary = json.loads(ended.stdout)
    # a first command on a machine announces the compilation of kernels
    assert [line for line in ended.stderr.splitlines() if ANNOUNCEMENT not in line] == []
    assert summary == json.loads((tmp_path / "out/run.json").read_bytes())
    counts = summary["counts"]
    assert counts["read"] == counts["kept"] + counts["removed"] + counts["rejected"] == 6000


def test_resume_and_overwrite(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    nearkin("dedup", corpus / "documents", "--out", out)
    assert (
        "exists; continue it with --resume"
        in nearkin("dedup", corpus / "documents", "--out", out, code=2).stderr
    )
    nearkin("dedup", corpus / "documents", "--out", out, "--resume")
    nearkin("dedup", corpus / "documents", "--out", out, "--overwrite", "--annotate")
    assert len(pq.read_table(out / "kept")) == 5999


def test_saved_run_is_an_input(corpus: Path, tmp_path: Path) -> None:
    nearkin("dedup", corpus / "documents", "--out", tmp_path / "saved", "--save-signatures")
    nearkin("pairs", tmp_path / "saved", "--threshold", 0.6, "--out", tmp_path / "a.parquet")
    nearkin("pairs", corpus / "documents", "--threshold", 0.6, "--out", tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert json.loads(nearkin("info", tmp_path / "saved", "--json").stdout)["signatures"] is True


def test_signature_files(corpus: Path, tmp_path: Path) -> None:
    parts = sorted((corpus / "documents").iterdir())
    for name, part in zip("ab", parts, strict=True):
        nearkin("sketch", part, "--id", "id", "--k", 64, "--out", tmp_path / f"{name}.arrow")
    nearkin("merge", tmp_path / "a.arrow", tmp_path / "b.arrow", "--out", tmp_path / "c.arrow")
    facts = json.loads(nearkin("info", tmp_path / "c.arrow", "--json").stdout)
    assert (facts["documents"], facts["spec"]["k"]) == (5999, 64)
    nearkin(
        "sketch", corpus / "documents", "--id", "id", "--k", 64, "--out", tmp_path / "whole.arrow"
    )
    assert json.loads(nearkin("info", tmp_path / "whole.arrow", "--json").stdout) == facts
    nearkin("sketch", parts[0], "--k", 128, "--out", tmp_path / "d.arrow")
    ended = nearkin(
        "merge", tmp_path / "a.arrow", tmp_path / "d.arrow", "--out", tmp_path / "e.arrow", code=2
    )
    assert "was made with k=128, this with 64" in ended.stderr
    assert "fingerprint" in nearkin("info", tmp_path / "a.arrow").stdout


FAULTS = [
    (["dedup", "nowhere.parquet", "--out", "x"], "no such file or folder: nowhere.parquet"),
    (
        ["dedup", "DOCS", "--out", "x", "--text", "body"],
        "has no column 'body' (it has 'id', 'text', 'source')",
    ),
    (
        ["dedup", "DOCS", "--out", "x", "--threshold", "1.2"],
        "threshold 1.2 is out of range; it must be above 0 and at most 1",
    ),
    (["dedup", "DOCS", "--out", "x", "--bands", "4"], "bands and rows go together"),
    (["dedup", "DOCS", "--out", "x", "--bands", "40", "--rows", "4"], "k=128"),
    (["dedup", "DOCS", "--out", "x", "--k", "0"], "k=0 is outside 1 to 1024"),
    (
        ["dedup", "DOCS", "--out", "x", "--shingle", "lines:3"],
        "invalid shingle 'lines:3'; write it as words:3",
    ),
    (
        ["dedup", "DOCS", "--out", "x", "--keep", "quality up"],
        "invalid keep criterion 'quality up'",
    ),
    (["dedup", "DOCS", "--out", "x", "--keep", "quality desc"], "has no column 'quality'"),
    (["dedup", "DOCS", "--out", "x", "--memory", "lots"], "memory 'lots' is not a size"),
    (
        ["dedup", "DOCS", "--out", "x", "--memory", "10MB"],
        "a run needs 536870912 bytes (512MiB) or more",
    ),
    (
        ["dedup", "DOCS", "--out", "x", "--verify", "maybe"],
        "verify='maybe' is not valid; choose one of exact, estimate, none",
    ),
    (["dedup", "DOCS", "--out", "x", "--normalise", "upper"], "normalise step 'upper'"),
    (["dedup", "DOCS", "--out", "x", "--stem", "klingon"], "stem='klingon' is not one of"),
    (
        ["dedup", "DOCS", "--out", "x", "--on-error", "ignore"],
        "on-error 'ignore' is not one of quarantine, fail",
    ),
    (
        ["dedup", "DOCS", "--out", "x", "--measure", "nearest"],
        "measure='nearest' is not one of 'jaccard'",
    ),
    (["dedup", "DOCS", "--out", "x", "--text", "text", "--tokens", "text"], "exclude each other"),
    (["dedup", "DOCS"], "Missing option"),
    (["dedup", "--no-such-option"], "No such option"),
    (["no-such-command"], "No such command"),
    (["pairs", "DOCS", "--out", "DOCS"], "is a folder"),
    (["info", "nowhere"], "no such file"),
    (["synth", "--out", "DOCS"], "exists; choose another folder"),
    (["synth", "--out", "x", "--length", "gamma:3"], "length 'gamma:3' is not of the form"),
    (["synth", "--out", "x", "--edits", "paint=3"], "unknown operation 'paint'"),
    (["synth", "--out", "x", "--similarity", "a:b"], "similarity 'a:b' is not of the form"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), FAULTS, ids=lambda value: value if isinstance(value, str) else None
)
def test_wrong_usage_is_one_clear_message(
    arguments: list[str], message: str, corpus: Path, tmp_path: Path
) -> None:
    line = [
        str(corpus / "documents")
        if word == "DOCS"
        else str(tmp_path / "x")
        if word == "x"
        else word
        for word in arguments
    ]
    ended = nearkin(*line, code=2)
    assert message in " ".join(ended.stderr.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_failure_while_running(tmp_path: Path) -> None:
    """A run that fails before it has a result leaves nothing, so that the corrected command works
    as it is."""
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    ended = nearkin(
        "dedup", tmp_path / "a.jsonl", "--out", tmp_path / "out", "--on-error", "fail", code=1
    )
    assert "a.jsonl, row 1: the row is not valid JSON" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n')
    nearkin("dedup", tmp_path / "a.jsonl", "--out", tmp_path / "out")


def test_output_that_cannot_be_written(corpus: Path) -> None:
    ended = nearkin("dedup", corpus / "documents", "--out", "/proc/nearkin/out", code=1)
    assert "cannot write in /proc" in ended.stderr


def test_progress_on_a_terminal(corpus: Path, tmp_path: Path) -> None:
    reader, writer = pty.openpty()
    line = [
        sys.executable,
        "-m",
        "nearkin",
        "dedup",
        str(corpus / "documents"),
        "--out",
        str(tmp_path / "out"),
    ]
    running = subprocess.Popen(
        line, stderr=writer, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"}
    )
    os.close(writer)
    shown = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert running.wait() == 0
    assert all(stage in shown for stage in (b"sketch", b"bands", b"verify", b"write"))


def test_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from nearkin.cli import app

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nearkin.lab.synth.synth", interrupt)
    assert app.run(["synth", "--out", str(tmp_path / "x")]) == app.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_demo_shows_three_clusters_in_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nearkin.cli import app

    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "demo"
    assert app.run(["demo", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert shown.out.count(" documents ─") == 3
    lines = shown.out.splitlines()
    command = lines.pop()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 50, "three clusters fit on a screen or two"
    assert "report.html" in "".join(shown.err.split())
    assert command.startswith("Why they match: nearkin explain ")
    assert app.run(command.split()[4:]) == 0
    assert "match" in capsys.readouterr().out


def test_demo_of_source_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nearkin.cli import app
    from nearkin.lab import demo_corpus

    write_all = demo_corpus.write_source_corpus
    monkeypatch.setattr(
        demo_corpus,
        "write_source_corpus",
        lambda path, least_lines: write_all(path, limit=3000, least_lines=least_lines),
    )
    assert app.run(["demo", "--source-code", "--out", str(tmp_path / "demo"), "--top", "2"]) == 0
    shown = capsys.readouterr()
    assert "removed" in shown.out
    assert "explain" not in shown.out, "the source code was read from a temporary file"
