"""Tests of the progress display, which is shown on terminals only."""

import io
import threading

from rich.console import Console

from nearkin.engine.stats import Stage
from nearkin.reports.progress import TerminalProgress
from nearkin.runtime.progress import STAGE_NAMES


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
    assert "✓ Form clusters" in last
    assert "nothing to do" in last


def test_a_run_while_an_exception_is_handled_is_not_interrupted() -> None:
    try:
        raise ValueError
    except ValueError:
        shown = run(Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None))
    assert "✓ Form clusters" in shown


def display_at_work(total: int | None) -> tuple[TerminalProgress, io.StringIO]:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, color_system=None)
    progress = TerminalProgress(console)
    progress.stage("sketch", total)
    return progress, shown


def redraw(progress: TerminalProgress) -> None:
    assert progress._progress is not None
    progress._progress.refresh()


def test_interrupted_stage_is_not_ticked() -> None:
    progress, shown = display_at_work(4000)
    try:
        progress.advance(1000)
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        progress.close()
    last = shown.getvalue().splitlines()[-2]
    assert "✗ Read documents" in last
    assert "25%" in last
    assert "✓" not in last


def test_stage_with_a_known_total_shows_its_share_and_the_time_left() -> None:
    progress, shown = display_at_work(4000)
    progress.advance(1000)
    redraw(progress)
    assert "25%" in shown.getvalue()
    progress.advance(4000)
    redraw(progress)
    # the total was an estimate, so that the stage is not over
    assert "100%" not in shown.getvalue()
    progress.close()
    last = shown.getvalue().splitlines()[-2]
    assert "100%" in last
    assert "5,000" in last


def test_lines_of_progress_fit_on_80_columns() -> None:
    progress, shown = display_at_work(987_654_321)
    for name in STAGE_NAMES:
        progress.stage(name, 987_654_321)
        progress.advance(123_456_789)
    progress.close()
    assert "…" not in shown.getvalue()


def test_every_stage_of_a_run_has_a_plain_name() -> None:
    of_passages = {"fingerprints", "windows", "sources", "plan", "lines", "line-frequencies"}
    of_suites = {"scan", "match"}
    assert {str(stage) for stage in Stage} | of_passages | of_suites <= set(STAGE_NAMES)
