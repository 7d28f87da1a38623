"""Tests of the progress display, which is shown on terminals only."""

import io
import threading

from rich.console import Console

from nearkin.report.progress import TerminalProgress


def run(console: Console) -> str:
    progress = TerminalProgress(console)
    progress.advance(1)
    progress.close()
    progress.stage("sketch [b]x", 4000)
    threads = [
        threading.Thread(target=lambda: [progress.advance(1) for _ in range(1000)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    progress.stage("nothing to do", 0)
    progress.stage("cluster", None)
    progress.advance(7)
    progress.close()
    progress.close()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_nothing_is_written_without_a_terminal() -> None:
    assert run(Console(file=io.StringIO())) == ""


def test_finished_stages_stay_on_the_terminal_with_their_counts() -> None:
    shown = run(Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None))
    last = shown[shown.rindex("✓ sketch") :]
    assert "sketch [b]x" in last
    assert "4,000" in last
    assert "✓ cluster" in last
    assert "nothing to do" in last
