"""Tests that the pictures in the documentation show what the program shows."""

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from nearkin.cli.app import run
from scripts.docs_screenshots import (
    FOLDER,
    NUMBER,
    STORM,
    WORDS,
    take_console,
    take_report,
    words_of_page,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


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


@pytest.mark.parametrize("take", [take_report, take_console])
def test_pictures_of_pages_show_todays_words(
    take: Callable[..., None], browser: "Browser", tmp_path: Path
) -> None:
    seen = {}

    def collect(page: "Page", name: str) -> None:
        seen[name] = words_of_page(page)

    take(browser, tmp_path, collect)
    pictures = {name: Image.open(FOLDER / name).info[WORDS] for name in seen}
    # if the program has changed: python -m scripts.docs_screenshots
    assert seen == pictures
