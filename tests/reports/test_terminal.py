"""Tests of the summary and the clusters that a terminal shows."""

import io
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from nearkin.quality.plan.tune import tune
from nearkin.reports.model import ClosestCall, ClusterExcerpt, RemovedExample, ReportData
from nearkin.reports.terminal.clusters import print_clusters, rank_clusters
from nearkin.reports.terminal.planning import tuning_table
from nearkin.reports.terminal.summary import print_summary
from nearkin.reports.terminal.summary_lines import MOST_LINES, SummaryLines

HOSTILE = "[bold]markup[/] [/nothing] \x1b[2J\x07 \u202e"


def printed(terminal: bool = False) -> Console:
    return Console(
        file=io.StringIO(),
        width=110,
        force_terminal=terminal,
        color_system="truecolor" if terminal else None,
    )


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_summary_shows_numbers_warnings_and_output_files(data: ReportData, tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    console = printed()
    print_summary(data, console, tmp_path)
    text = text_of(console)
    assert data.headline in text
    for words in (
        "4.00 s, 250 documents/s, peak memory 1.3 GB",
        f"{len(data.all_warnings) - 1} more warnings in",
    ):
        assert words in text
    assert text.count("warning: ") == 1
    assert f"Results in {tmp_path}/: report.html …" in text.replace("\n", "")
    assert "clusters.parquet" not in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_summary_has_at_most_eight_lines_and_the_most_important_warning(
    data: ReportData, tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = Path("deduped")
    output.mkdir()
    for name in ("clusters.parquet", "report.html", "run.json", "rejected.jsonl"):
        (output / name).touch()
    console = Console(file=io.StringIO(), width=width)
    rejections = "7 rows were rejected: text is null (7)"
    warned = replace(
        data,
        leakage=None,
        counts=replace(data.counts, rejected=7),
        warnings=("first of all", rejections, "last of all"),
        closest_call=ClosestCall("kept one", "removed", 0.8),
    )
    print_summary(warned, console, output)
    lines = text_of(console).splitlines()
    if width >= 80:
        assert len(lines) <= MOST_LINES
    joined = " ".join(line.strip() for line in lines)
    assert rejections in joined
    assert "warning: first of all (2 more warnings in deduped/report.html)" in joined
    assert "last of all" not in joined
    assert "rejected.jsonl" in joined
    assert lines[-1].startswith("Next: nearkin explain 'kept one' removed --run ")


def test_details_are_left_out_if_there_is_no_room() -> None:
    console = Console(file=io.StringIO(), width=80)
    details = ["short", "long " * 100, *(f"detail {number}" for number in range(9))]
    SummaryLines("headline", ["fact"], details, speed="1 s").print(console)
    assert text_of(console).splitlines() == [
        "headline",
        "fact",
        "short",
        *(f"detail {number}" for number in range(5)),
    ]


def test_differences_are_symbols_in_a_file_and_styles_on_a_terminal(
    data: ReportData,
) -> None:
    console = printed()
    print_clusters(data, console)
    assert "{+old+} end" in text_of(console)
    assert "[-new-] end" in text_of(console)
    assert "left/a.py:f:1" in text_of(console)
    console = printed(terminal=True)
    print_clusters(data, console)
    assert "[-new-]" not in text_of(console)
    assert "\x1b[4;32mold" in text_of(console)


@pytest.mark.parametrize("width", [80, 140])
def test_only_text_that_is_lost_with_the_removed_document_is_red_and_struck_out(
    data: ReportData, width: int
) -> None:
    example = RemovedExample("copy", 0.9, "one two three lost four five")
    clusters = (ClusterExcerpt("original", "one two three remaining four five", 2, (example,)),)
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system="standard")
    print_clusters(replace(data, clusters=clusters), console)
    text = text_of(console)
    assert "\x1b[9;31mlost" in text
    assert "\x1b[4;32mremaining" in text
    assert text.count("\x1b[9;31m") == 1


def test_summary_ends_with_the_comparison_of_the_closest_call(
    data: ReportData, tmp_path: Path
) -> None:
    (tmp_path / "report.html").touch()
    call = ClosestCall("kept one", "removed", 0.8004)
    console = printed()
    print_summary(replace(data, closest_call=call), console, tmp_path)
    text = text_of(console)
    command = text.splitlines()[-1].removeprefix("Next: ")
    assert shlex.split(command) == [
        "nearkin",
        "explain",
        "kept one",
        "removed",
        "--run",
        str(tmp_path),
    ]
    console = printed()
    print_summary(replace(data, closest_call=ClosestCall("-1", "b", 0.9)), console, tmp_path)
    command = text_of(console).splitlines()[-1].removeprefix("Next: ")
    assert shlex.split(command)[2:] == ["--run", str(tmp_path), "--", "-1", "b"]
    console = printed()
    print_summary(replace(data, closest_call=call), console, tmp_path, can_explain=False)
    assert "explain" not in text_of(console)


def test_command_that_is_proposed_breaks_no_id(data: ReportData, tmp_path: Path) -> None:
    call = ClosestCall("pages/" + "a" * 60 + ".txt:12", "it's\n" + "b" * 50, 0.9)
    for is_terminal in (True, False):
        console = printed(is_terminal)
        console.width = 80
        print_summary(replace(data, closest_call=call), console, Path("out"))
        command = text_of(console).partition("Next:")[2].strip()
        lines = [re.sub("\x1b[^m]*m", "", line).strip() for line in command.splitlines()]
        quoted = ["nearkin explain", call.kept, f"$'it\\'s\\n{'b' * 50}'", "--run out"]
        if is_terminal:
            assert lines == [*(f"{word} \\" for word in quoted[:-1]), quoted[-1]]
        else:
            assert lines == [" ".join(quoted)]


def test_table_of_operating_points_fits_into_80_columns() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(tuning_table(tune(0.8, 0.95), 5))
    text = text_of(console)
    assert "(1/b)^1/r" in text
    assert "cand./doc" in text
    assert "…" not in text


def test_hostile_text_does_not_control_the_terminal(data: ReportData, tmp_path: Path) -> None:
    clusters = (
        ClusterExcerpt(HOSTILE, HOSTILE + " a", 2, (RemovedExample(HOSTILE, 0.9, HOSTILE + " b"),)),
        ClusterExcerpt(HOSTILE, HOSTILE, 2),
    )
    console = printed()
    print_summary(replace(data, warnings=(HOSTILE,)), console, tmp_path)
    print_clusters(replace(data, clusters=clusters), console)
    text = text_of(console)
    assert "[bold]markup[/] [/nothing] ␛[2J␇" in text
    assert not set("\x1b\x07\u202e") & set(text)


def cluster(
    left: str, right: str, similarity: float = 0.9, length: int = 1000, members: int = 2
) -> ClusterExcerpt:
    return ClusterExcerpt(
        f"{left}/a.py:f:1",
        "x" * length,
        members,
        (RemovedExample(f"{right}/a.py:f:1", similarity, "y"),),
    )


def test_rank_prefers_several_packages_then_near_duplicates_then_length() -> None:
    travelled = cluster("a", "b")
    near = cluster("c", "c")
    exact = cluster("d", "d", 1.0)
    longer = cluster("e", "e", length=2000)
    assert rank_clusters([exact, near, longer, travelled]) == [travelled, longer, near, exact]


def test_one_pair_of_packages_does_not_fill_the_ranking() -> None:
    vendored = [cluster("a", "b", length=1900 - i) for i in range(5)]
    other = cluster("c", "d", length=900)
    assert rank_clusters([*vendored, other], top=3).index(other) < 2


def test_rank_ignores_sizes_above_eight_and_keeps_the_order_of_ties() -> None:
    first, second = cluster("a", "b", members=8), cluster("c", "d", members=100_000)
    assert rank_clusters([first, second]) == [first, second]
    assert rank_clusters([second, first]) == [second, first]
    assert rank_clusters([], top=3) == []


def test_dedup_imports_neither_plans_nor_lab() -> None:
    code = (
        "import sys, nearkin.runs.dedup, nearkin.reports.terminal.summary; "
        "unwanted = ('nearkin.quality.plan', 'nearkin.quality.lab'); "
        "print([name for name in sys.modules if name.startswith(unwanted)])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert printed.stdout.strip() == "[]"


def test_the_command_of_the_shown_warning_is_the_next_one_and_stays_whole() -> None:
    command = f"nearkin fit {'long-name-' * 9}.csv --id id --out settings.toml"
    warnings = [f"the texts are short. nearkin can choose settings:\n  {command}", "second"]
    console = Console(width=60, record=True, file=io.StringIO())
    SummaryLines("2 of 2 kept", warnings=warnings, next_command=["nearkin", "explain"]).print(
        console
    )
    lines = console.export_text().splitlines()
    assert lines[-1] == f"Next: {command}"
    flat = " ".join(" ".join(lines).split())
    assert "can choose settings (1 more warning with --json)" in flat
    assert "explain" not in lines[-1]
