"""Signals that end a command."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nearkin.cli.signals import EndedBySignalError, ending_signals
from nearkin.engine.run import Run
from nearkin.runtime.compilation import COMPILATION
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


@pytest.fixture
def default_interrupt() -> Iterator[None]:
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_compilation_of_all_threads_at_the_next_kernel(
    number: signal.Signals, default_interrupt: None
) -> None:
    """Numba and LLVM ignore an error that a handler raises within their calls."""
    error = KeyboardInterrupt if number == signal.SIGINT else EndedBySignalError
    with ending_signals():
        COMPILATION.start("kernel")
        os.kill(os.getpid(), number)
        with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
            pool.submit(COMPILATION.start, "other").result()
        with pytest.raises(error):
            COMPILATION.finish()
        with pytest.raises(error):
            os.kill(os.getpid(), number)
    COMPILATION.start("kernel")
    COMPILATION.finish()


def test_second_signal_does_not_wait_for_the_kernel(default_interrupt: None) -> None:
    with ending_signals():
        COMPILATION.start("kernel")
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            COMPILATION.finish()


def test_signal_between_kernels_is_raised_at_once(default_interrupt: None) -> None:
    with ending_signals(), pytest.raises(EndedBySignalError):
        os.kill(os.getpid(), signal.SIGTERM)
