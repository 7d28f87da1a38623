"""Tests of the progress of runs in notebooks."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import nearkin as nk
from nearkin.runtime import notebook_progress
from nearkin.runtime.notebook_progress import NotebookProgress, in_notebook, open_progress
from nearkin.runtime.progress import LoggedProgress, Progress


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
    with open_progress() as progress:
        assert isinstance(progress, NotebookProgress)
        progress.stage("verify", 2000)
        progress.advance(500)
        progress.advance(1000)
        progress.stage("write")
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
        with open_progress() as progress:
            assert isinstance(progress, LoggedProgress)


class FailingProgress:
    """A receiver that fails at the first stage, as a run can, and counts how often it is closed."""

    closed = 0

    def stage(self, name: str, total: int | None = None) -> None:
        raise nk.RunError(f"the stage {name} failed")

    def advance(self, count: int) -> None: ...

    def close(self) -> None:
        self.closed += 1


TEXTS = ["one two three four", "five six seven eight"]
TABLE = {"id": ["a", "b", "c"], "text": [*TEXTS, TEXTS[0]]}


@pytest.mark.parametrize(
    "function",
    [
        lambda progress: nk.dedup(TEXTS, progress=progress),
        lambda progress: nk.pairs(TEXTS, progress=progress),
        lambda progress: nk.split(TEXTS, progress=progress),
        lambda progress: nk.check(TEXTS, TEXTS, progress=progress),
        lambda progress: nk.passages(TEXTS, progress=progress),
        lambda progress: nk.decontaminate(TEXTS, {"s": [{"question": "x"}]}, progress=progress),
        lambda progress: nk.fit(TABLE, {"a": "1", "b": "2", "c": "1"}, id="id", progress=progress),
    ],
)
def test_progress_is_closed_if_a_run_fails(function: Callable[[Progress], object]) -> None:
    progress = FailingProgress()
    with pytest.raises(nk.RunError, match="the stage"):
        function(progress)
    assert progress.closed == 1


def test_the_bar_of_a_run_that_failed_is_removed(shown: list[Any]) -> None:
    copies = {"text": [TEXTS[0]] * 4, "source": ["s"] * 4}
    with pytest.raises(nk.RunError, match="max_removed"):
        nk.dedup(copies, max_removed="source:0.1")
    assert any("sketch" in content["text/html"] for content in shown)
    assert shown[-1] == {"text/plain": "", "text/html": ""}
