"""Signals that end a command."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from nearkin.engine.run import Run
from nearkin.runtime.progress import Silent
from tests.cli.conftest import run


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_signal_ends_a_run_that_can_be_resumed(
    number: signal.Signals,
    code: int,
    documents: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), number)
        threading.Event().wait(60)

    # The signal comes after the first stages, so that there is a run to resume.
    monkeypatch.setattr(Run, "cluster", end)
    # Background jobs ignore SIGINT, and nohup ignores SIGHUP. This test may run under either.
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    previous = signal.signal(number, default)
    try:
        assert run("dedup", documents, "--out", tmp_path / "out") == code
    finally:
        signal.signal(number, previous)
    message = capsys.readouterr().err
    assert "interrupted" in message
    assert "--resume" in message
    monkeypatch.undo()
    assert run("dedup", documents, "--out", tmp_path / "out", "--resume") == 0
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_ignored_hangup_stays_ignored(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(
            "nearkin.cli.options.open_progress",
            lambda **_: os.kill(os.getpid(), signal.SIGHUP) or Silent(),
        )
        assert run("dedup", documents, "--out", tmp_path / "out") == 0
    finally:
        signal.signal(signal.SIGHUP, previous)
