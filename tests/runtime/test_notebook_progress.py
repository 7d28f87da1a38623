"""Tests of the progress of runs in notebooks."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import nearkin as nk
from nearkin.runtime import notebook_progress
from nearkin.runtime.notebook_progress import NotebookProgress, default_progress, in_notebook
from nearkin.runtime.progress import LoggedProgress


class Handle:
    """A stand-in for what IPython returns of a display."""

    def __init__(self, shown: list[dict[str, str]]) -> None:
        self.shown = shown

    def update(self, content: dict[str, str], raw: bool) -> None:
        self.shown.append(content)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The contents that a notebook shows, one after the other."""
    contents: list[dict[str, str]] = []

    def display(content: dict[str, str], **_: Any) -> Handle:
        contents.append(content)
        return Handle(contents)

    ipython: Any = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr(notebook_progress, "UPDATE_SECONDS", 0.0)
    return contents


def test_a_run_in_a_notebook_shows_its_stages_and_removes_the_bar(shown: list[Any]) -> None:
    nk.dedup(["one two three four", "one two three four!"])
    assert any("sketch" in content["text/html"] for content in shown)
    assert shown[-1] == {"text/plain": "", "text/html": ""}


def test_progress_counts_units_of_the_stage(shown: list[Any]) -> None:
    progress = default_progress()
    assert isinstance(progress, NotebookProgress)
    progress.stage("verify", 2000)
    progress.advance(500)
    progress.advance(1000)
    progress.stage("write")
    progress.close()
    progress.close()
    assert [content["text/plain"] for content in shown] == [
        "verify: 0 of 2,000",
        "verify: 500 of 2,000",
        "verify: 1,500 of 2,000",
        "write",
        "",
    ]


def test_programs_and_terminals_log_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    for ipython in (None, SimpleNamespace(get_ipython=lambda: None)):
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        assert not in_notebook()
        assert isinstance(default_progress(), LoggedProgress)
