"""`--verbose`, `-qq` and `--color`, and help pages that need nothing."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nearkin.cli import app
from nearkin.cli.verbosity import COLOR_VARIABLES, StageTimes
from nearkin.runtime.progress import Silent
from tests.cli.conftest import run

WITHOUT_EXTRAS = """
from scripts.core_commands import hide_extras
hide_extras()
import contextlib, io
from nearkin.cli.app import all_entries, run

for entry in all_entries():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = run(["help", *entry.path.split()])
    if code or "Usage: nearkin " + entry.path not in printed.getvalue():
        print(entry.path, code, printed.getvalue())
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file with two similar documents and one line that is not a document."""
    path = tmp_path / "rows.jsonl"
    texts = ["the council voted on a new bridge today", "the council voted on a new bridge"]
    lines = [json.dumps({"text": text}) for text in texts]
    path.write_text("\n".join([*lines, "no JSON", ""]))
    return path


def test_every_help_page_needs_no_extra() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=True
    )
    assert ended.stdout == ""


@pytest.mark.parametrize("line", ["--help", "help all", "help dedup", "serve -h", "index build -h"])
def test_help_needs_no_valid_defaults_and_environment(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nearkin.toml").write_text("[dedupp")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "0")
    monkeypatch.setenv("NEARKIN_READABLE_BY", "x")
    assert run(*line.split()) == app.DONE
    assert run("tune") == app.USAGE
    assert "NUMBA_NUM_THREADS" in capsys.readouterr().err


def test_verbose_shows_settings_and_the_seconds_of_stages(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ("pairs", rows, "--threshold", "0.5", "--out", tmp_path / "p.csv")
    assert run(*line, "-v") == app.DONE
    printed = capsys.readouterr().err
    assert "  --threshold 0.5  (given)\n" in printed
    assert re.search(r"^ +\d+\.\d\d s  Read documents$", printed, re.MULTILINE)
    assert run(*line, "--overwrite") == app.DONE
    assert "Read documents" not in capsys.readouterr().err


def test_verbose_and_quiet_exclude_each_other(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("pairs", rows, "--out", tmp_path / "p.csv", "-q", "-v") == app.USAGE
    assert "--verbose and --quiet exclude each other" in capsys.readouterr().err


def test_quiet_twice_prints_nothing_but_errors(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("dedup", rows, "--out", tmp_path / "one", "-q") == app.DONE
    assert "rejected" in capsys.readouterr().err
    assert run("dedup", rows, "--out", tmp_path / "two", "-qq") == app.DONE
    assert capsys.readouterr().err == ""
    assert run("dedup", rows, "--out", tmp_path / "two", "-qq") == app.USAGE
    assert capsys.readouterr().err.startswith("nearkin: ")
    rows.write_text("no JSON\n")
    assert run("dedup", rows, "--out", tmp_path / "three", "--quiet", "--quiet") == 3
    assert "no document could be read" in capsys.readouterr().err


def test_quiet_can_be_a_default_of_a_file(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nearkin.toml").write_text('[pairs]\nquiet = true\ncolor = "never"\n')
    assert run("pairs", rows, "--out", "p.csv") == app.DONE
    assert "Inputs" not in capsys.readouterr().err


@pytest.mark.parametrize(("color", "colored"), [("always", True), ("never", False)])
def test_color_decides_over_the_environment(color: str, colored: bool) -> None:
    environment = {**os.environ, "NO_COLOR" if colored else "FORCE_COLOR": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "nearkin", "dedup", "--color", color, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert ("\x1b[" in ended.stdout) == colored


def test_color_is_one_of_three_and_leaves_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in COLOR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert run("--color", "never", "help", "all") == app.DONE
    assert not {*COLOR_VARIABLES} & {*os.environ}
    assert run("--color", "blue", "help", "all") == app.USAGE
    assert "--color blue is not one of auto, always, never" in capsys.readouterr().err


def test_stage_that_begins_twice_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    times = StageTimes(Silent())
    for name in ("sketch", "verify", "sketch"):
        times.stage(name)
    times.close()
    times.close()
    assert len(capsys.readouterr().err.splitlines()) == 2
