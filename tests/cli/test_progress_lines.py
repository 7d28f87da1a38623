"""Tests of progress as plain lines, which commands write if standard error is not a terminal."""

import io
from pathlib import Path

import pytest

from nearkin.cli import progress_lines
from nearkin.cli.app import run
from nearkin.cli.progress_lines import PlainProgress
from tests.services import wait_until


def test_lines_appear_while_a_stage_counts_nothing() -> None:
    written = io.StringIO()
    progress = PlainProgress(written, seconds=0.01)
    progress.stage("collapse")
    wait_until(lambda: written.getvalue().count("\n") >= 2, "two lines are written", 60)
    progress.close()
    assert written.getvalue().startswith("nearkin: Find exact copies: 0 s\n")


def test_lines_have_total_percent_and_time_left() -> None:
    progress = PlainProgress(io.StringIO())
    progress.stage("sketch", 1000)
    assert progress.describe(27) == "Read documents: 0 of 1,000, 27 s"
    progress.advance(250)
    assert progress.describe(50) == "Read documents: 250 of 1,000 (25%), 5/s, 2.5 min left"
    progress.advance(900)
    assert progress.describe(50) == "Read documents: 1,150 of 1,000 (99%), 23/s, 0 s left"
    progress.close()


def test_closed_stream_does_not_end_a_run() -> None:
    written = io.StringIO()
    written.close()
    progress = PlainProgress(written, seconds=0.001)
    progress.stage("sketch")
    progress.close()


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    rows = [f"{row},word{row} and some more words that differ in number {row}" for row in range(99)]
    path.write_text("id,text\n" + "\n".join(rows) + "\n")
    return path


def test_commands_write_lines_without_a_terminal_and_none_with_quiet(
    texts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_lines, "SECONDS_BETWEEN_LINES", 0.001)
    assert run(["dedup", str(texts), "--id", "id", "--out", str(tmp_path / "a")]) == 0
    assert "nearkin: Read documents" in capfd.readouterr().err
    assert run(["dedup", str(texts), "--id", "id", "--out", str(tmp_path / "b"), "--quiet"]) == 0
    assert "nearkin: Read documents" not in capfd.readouterr().err
