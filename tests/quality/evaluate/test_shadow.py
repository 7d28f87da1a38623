"""Tests of the comparison of two settings over the same signatures."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nearkin.cli.app import run as command
from nearkin.errors import UsageError
from nearkin.quality.evaluate.shadow import parse_shadow_settings
from nearkin.runs.reopen import shadow_run
from nearkin.runtime.progress import Silent


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a banded run with signatures over a corpus with known truth."""
    folder = tmp_path_factory.mktemp("shadow")
    command(
        ["lab", "synth", "--out", str(folder / "s"), "--documents", "6000", "--length", "fixed:500"]
    )
    line = [
        "dedup",
        str(folder / "s" / "documents"),
        "--id",
        "id",
        "--save-signatures",
        "--out",
        str(folder / "d"),
    ]
    assert command(line) == 0
    return folder


def test_a_setting_is_given_once() -> None:
    with pytest.raises(UsageError, match="has the setting 'bands' twice"):
        parse_shadow_settings("b=16,r=8,bands=8")


def test_equal_settings_agree_completely(saved: Path) -> None:
    distinct = saved / "distinct.csv"
    distinct.write_text("id_a,id_b,label\nd0000000000,d0000000001,0\n")
    shadow_report = shadow_run(saved / "d", {}, Silent(), golden=distinct)
    assert shadow_report.live.metrics.recall_on_labeled_set is None  # no pair of duplicates
    assert (
        shadow_report.agreement == shadow_report.live.recall == shadow_report.shadow.recall == 1.0
    )
    assert shadow_report.only_live == shadow_report.only_shadow == shadow_report.moved == 0
    assert shadow_report.disagreements == ()
    assert shadow_report.live.pairs == pq.read_metadata(saved / "d" / "pairs.parquet").num_rows
    assert shadow_report.live.candidates == shadow_report.shadow.candidates


def test_disagreements_are_the_difference_of_both_runs(saved: Path) -> None:
    other = saved / "other"
    assert (
        command(["dedup", str(saved / "d"), "--bands", "8", "--rows", "12", "--out", str(other)])
        == 0
    )
    shadow_report = shadow_run(saved / "d", {"bands": 8, "rows": 12}, Silent(), listed=10_000)

    def pairs(folder: Path) -> set[tuple[str, str]]:
        table = pq.read_table(folder / "pairs.parquet", columns=["id_a", "id_b"])
        return {
            tuple(sorted(pair))
            for pair in zip(*(table[name].to_pylist() for name in ("id_a", "id_b")), strict=True)
        }

    live, shadow = pairs(saved / "d"), pairs(other)
    for name, mine, theirs in (("live", live, shadow), ("shadow", shadow, live)):
        listed = {
            tuple(sorted((d.id_a, d.id_b)))
            for d in shadow_report.disagreements
            if d.found_by == name
        }
        assert listed == mine - theirs
    assert (shadow_report.only_live, shadow_report.only_shadow) == (
        len(live - shadow),
        len(shadow - live),
    )
    assert shadow_report.agreement == len(live & shadow) / len(live | shadow)
    assert shadow_report.only_live > 10 * max(1, shadow_report.only_shadow)
    assert {d.why for d in shadow_report.disagreements if d.found_by == "live"} == {
        "no band in common"
    }
    similarities = [d.similarity for d in shadow_report.disagreements]
    assert similarities == sorted(similarities, reverse=True)


def test_lower_threshold_finds_more_pairs_with_a_reason(saved: Path) -> None:
    shadow_report = shadow_run(saved / "d", {"threshold": 0.7}, Silent())
    assert shadow_report.shadow.recall >= 0.99
    assert shadow_report.only_shadow > 0
    low = [d for d in shadow_report.disagreements if d.similarity < 0.8]
    assert low
    assert all(d.found_by == "shadow" and d.why == "below its threshold 0.8" for d in low)


def test_golden_pairs_score_both_sides(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = pq.read_table(saved / "s" / "truth.parquet").to_pylist()
    near = [row for row in truth if row["similarity"] >= 0.85][:200]
    labels = saved / "labels.csv"
    labels.write_text("id_a,id_b\n" + "".join(f"{row['id_a']},{row['id_b']}\n" for row in near))
    line = ["shadow", str(saved / "d"), "--against", "b=4,r=20", "--golden", str(labels), "--json"]
    assert command(line) == 0
    output = json.loads(capsys.readouterr().out)
    live, shadow = output["live"]["scores"]["recall"], output["shadow"]["scores"]["recall"]
    assert live["hits"] / live["total"] > shadow["hits"] / shadow["total"]
    assert output["live"]["metrics"]["recall_on_labeled_set"] == live["hits"] / live["total"]


def test_comparison_does_not_change_the_run(saved: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (saved / "d").rglob("*")}
    shadow_run(saved / "d", {"verify": "estimate"}, Silent())
    assert {path: path.stat().st_mtime_ns for path in (saved / "d").rglob("*")} == before


@pytest.mark.parametrize("text", ["k=64", "b=x", "b", "keep=length asc"])
def test_setting_that_cannot_differ_is_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        parse_shadow_settings(text)


def test_a_floor_without_components_is_rejected(saved: Path) -> None:
    with pytest.raises(UsageError, match=r"floor.* has no effect on clusters around leaders"):
        shadow_run(saved / "d", {"floor": 0.5}, Silent())


def test_error_quotes_the_setting_as_it_was_written() -> None:
    with pytest.raises(UsageError, match=r"^'b=x' in 'r=8,b=x' is not valid: 'x' is not a number"):
        parse_shadow_settings("r=8,b=x")


def test_run_without_signatures_is_rejected(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one two three"}\n')
    command(["dedup", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "d")])
    assert command(["shadow", str(tmp_path / "d"), "--against", "b=2,r=2"]) == 2
    assert "--save-signatures" in capsys.readouterr().err


def test_terminal_shows_both_sides(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["shadow", str(saved / "d"), "--against", "b=8,r=12", "--show", "3"]) == 0
    text = capsys.readouterr().out
    assert "8 × 12" in text
    assert "no band in common" in text


def test_another_threshold_is_rejected_for_a_run_with_an_acceptance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The acceptance replaces the threshold, so the results would always be equal."""
    (tmp_path / "a.jsonl").write_text('{"text": "one two three"}\n')
    line = ["dedup", str(tmp_path / "a.jsonl"), "--accept", "jaccard >= 0.6", "--save-signatures"]
    command([*line, "--out", str(tmp_path / "d")])
    assert command(["shadow", str(tmp_path / "d"), "--against", "threshold=0.9"]) == 2
    assert "an acceptance replaces the threshold" in " ".join(capsys.readouterr().err.split())
    assert command(["shadow", str(tmp_path / "d"), "--against", "b=16,r=4"]) == 0
