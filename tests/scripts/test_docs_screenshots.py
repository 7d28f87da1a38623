"""Tests that the pictures of the terminal in the documentation show what the program prints."""

import html
import re
from pathlib import Path

import pytest

from nearkin.cli.app import run
from scripts.docs_screenshots import FOLDER, STORM

TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")
NUMBER = re.compile(r"[\d.,]+(%| [kM]B)?")
"""A number, or a share or a size, which differ between corpora."""


def words_of_picture(name: str) -> str:
    """Returns the words of a picture of a terminal, with a space between two of them."""
    parts = TEXT.findall((FOLDER / name).read_text("utf-8"))
    return " ".join(html.unescape(" ".join(parts)).split())


def words_of(printed: str) -> str:
    return " ".join(printed.split())


def test_picture_of_the_help_shows_todays_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    commands = re.findall(r"│ (\w+ +[A-Z].*?) +│", capsys.readouterr().out)
    picture = words_of_picture("help.svg")
    assert len(commands) == 8
    for line in commands:
        assert words_of(line) in picture, line


def test_picture_of_a_run_shows_todays_summary_and_explanation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "96")
    picture = words_of_picture("terminal.svg")
    assert run(["lab", "synth", "--documents", "1000", "--out", "corpus"]) == 0
    capsys.readouterr()
    assert run(["dedup", "corpus/documents", "--id", "id", "--out", "deduped/"]) == 0
    headline, *_, results, following = capsys.readouterr().err.splitlines()
    without_numbers = NUMBER.sub("#", picture)
    assert NUMBER.sub("#", headline) in without_numbers
    assert results in picture
    assert following.split()[:3] == ["Next:", "nearkin", "explain"]
    assert "Next: nearkin explain" in picture
    Path("a.txt").write_text(STORM, "utf-8")
    Path("b.txt").write_text(STORM.replace("two days", "three days"), "utf-8")
    assert run(["explain", "a.txt", "b.txt"]) == 0
    # a terminal underlines what a file has in quotation marks
    for line in re.sub("[«»]", "", capsys.readouterr().out).splitlines():
        assert words_of(line) in picture, line
