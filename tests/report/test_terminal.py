"""The end of a run on a terminal, and which clusters it shows."""

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from nearkin.report.model import Cluster, Example, ReportData
from nearkin.report.terminal import most_interesting, print_clusters, print_summary

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


def test_the_summary_has_numbers_warnings_and_places(data: ReportData, tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    console = printed()
    print_summary(data, console, tmp_path)
    text = text_of(console)
    assert data.headline in text
    for words in (
        "Near duplicates",
        "18.0%",
        "4.00 s, 250 documents/s, peak memory 1.3 GB",
        "warning mirror loses",
        "report",
    ):
        assert words in text
    assert str(tmp_path / "report.html") in text.replace("\n", "")
    assert "pairs.parquet" not in text


def test_clusters_are_side_by_side_with_signs_in_a_file_and_styles_on_a_terminal(
    data: ReportData,
) -> None:
    console = printed()
    print_clusters(data, console)
    assert "[-old-] end" in text_of(console)
    assert "{+new+} end" in text_of(console)
    assert "left/a.py:f:1" in text_of(console)
    console = printed(terminal=True)
    print_clusters(data, console)
    assert "[-old-]" not in text_of(console)
    assert "\x1b[4;32mnew" in text_of(console)


def test_hostile_text_is_shown_not_obeyed(data: ReportData, tmp_path: Path) -> None:
    clusters = (
        Cluster(HOSTILE, HOSTILE + " a", 2, (Example(HOSTILE, 0.9, HOSTILE + " b"),)),
        Cluster(HOSTILE, HOSTILE, 2),
    )
    console = printed()
    print_summary(replace(data, warnings=(HOSTILE,)), console, tmp_path)
    print_clusters(replace(data, clusters=clusters), console)
    text = text_of(console)
    assert "[bold]markup[/] [/nothing] ␛[2J␇" in text
    assert not set("\x1b\x07\u202e") & set(text)


def cluster(
    left: str, right: str, similarity: float = 0.9, length: int = 1000, members: int = 2
) -> Cluster:
    return Cluster(
        f"{left}/a.py:f:1", "x" * length, members, (Example(f"{right}/a.py:f:1", similarity, "y"),)
    )


def test_code_that_travelled_comes_first_then_near_then_long() -> None:
    travelled, near, exact = cluster("a", "b"), cluster("c", "c"), cluster("d", "d", 1.0)
    longer = cluster("e", "e", length=2000)
    assert most_interesting([exact, near, longer, travelled]) == [travelled, longer, near, exact]


def test_one_pair_of_packages_does_not_fill_the_list() -> None:
    vendored = [cluster("a", "b", length=1900 - i) for i in range(5)]
    other = cluster("c", "d", length=900)
    assert most_interesting([*vendored, other], top=3).index(other) < 2


def test_giant_clusters_gain_nothing_and_ties_keep_their_order() -> None:
    first, second = cluster("a", "b", members=8), cluster("c", "d", members=100_000)
    assert most_interesting([first, second]) == [first, second]
    assert most_interesting([second, first]) == [second, first]
    assert most_interesting([], top=3) == []
