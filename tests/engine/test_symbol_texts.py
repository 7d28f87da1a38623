"""Tests of texts that differ in symbols alone: near-duplicates, counted apart, in every preset."""

import json
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.engine.settings_file import PRESETS
from nearkin.runs.resolved_run import LEAST_CUT
from tests.engine.symbol_texts import EMPTY, EXACT, SAME_SHINGLES, SYMBOL_TEXTS


def kinds_of(texts: list[str], **options: object) -> list[str]:
    result = nk.dedup(texts, **options)  # type: ignore[arg-type]
    kinds: list[str] = result.clusters["kind"].to_pylist()
    return kinds


@pytest.mark.filterwarnings("ignore:.*have so few shingles")
def test_texts_that_differ_in_symbols_are_near_and_counted_apart() -> None:
    result = nk.dedup(SYMBOL_TEXTS)
    counts = result.statistics
    assert counts["removed_exact"] == EXACT
    assert counts["removed_near"] == counts["same_shingles"] == SAME_SHINGLES
    assert counts["empty"] == EMPTY
    assert counts["kept"] == len(SYMBOL_TEXTS) - EXACT - SAME_SHINGLES
    near = [row for row in result.clusters.to_pylist() if row["kind"] == "near"]
    assert {row["similarity"] for row in near} == {1.0}


PAIRS = [
    ("we learn C++ in ten days", "we learn C# in ten days"),
    ("solve x+1 for all x", "solve x\u22121 for all x"),
    ("this film was good \U0001f600", "this film was good \U0001f621"),
    ("a field of 10\u00b2 metres", "a field of 102 metres"),
    ("a cup of \u00bd litre", "a cup of 1/2 litre"),
    ("wait, what?", "wait what"),
    ("\U0001f600", "\U0001f621"),
]


@pytest.mark.filterwarnings("ignore:.*have so few shingles")
@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_no_preset_takes_symbols_for_nothing(preset: str | None) -> None:
    for first, second in PAIRS:
        assert "exact" not in kinds_of([first, second], preset=preset), (first, second)
    assert sorted(kinds_of(["!!!", "!!!", "---"], preset=preset)) == ["exact", "kept", "unique"]


@pytest.mark.filterwarnings("ignore:.*have so few shingles")
def test_texts_that_differ_in_cut_shingles_are_not_counted_as_equal() -> None:
    others = [f"the word{i}" for i in range(LEAST_CUT)]
    result = nk.dedup(["the old mill", "old mill", *others], shingle="words:1", max_df=0.6)
    assert result.statistics["removed_near"] == 1
    assert "same_shingles" not in result.statistics
    moved = nk.dedup(["old mill", "mill, old"], shingle="words:1")
    assert moved.statistics["same_shingles"] == 1


@pytest.mark.filterwarnings("ignore:.*have so few shingles")
def test_logs_of_events_with_other_words_stay_apart() -> None:
    head = (
        "2017-05-16 00:00:0{} 2931 INFO nova.compute.manager [req-3ea4052c - - - - -] [instance: "
    )
    head += "b9000564-fe1a-409b-b8cc-1e88b294cd1{}] VM"
    lines = [
        f"{head.format(i, i)} {event} (Lifecycle Event)"
        for i, event in enumerate(["Started", "Paused", "Started", "Resumed"])
    ]
    assert sorted(kinds_of(lines, preset="logs")) == ["exact", "kept", "unique", "unique"]
    for first, second in (
        ("port 5 changed from up to down", "port 6 changed from down to up"),
        ("retry retry failed", "retry failed"),
        ("a != b failed", "a == b failed"),
    ):
        assert kinds_of([first, second], preset="logs") == ["unique", "unique"]


@pytest.mark.filterwarnings("ignore:.*have so few shingles")
def test_symbols_step_tells_texts_apart() -> None:
    texts = ["C++", "C#", "C", "-5", "5", "10\u00b2", "102", "50 %", "50", "@ann", "ann", "#ann"]
    options = {"shingle": "words:1", "threshold": 0.9}
    assert set(kinds_of(texts, normalise="nfkc,lower,symbols", **options)) == {"unique"}


@pytest.mark.filterwarnings("ignore:.*have so few shingles")
def test_version_1_of_a_spec_reads_texts_as_before() -> None:
    spec = nk.Spec(version=1)
    texts = ["we learn C++ in ten days", "we learn C# in ten days", "!!!", "!!!"]
    assert kinds_of(texts, spec=spec) == ["kept", "exact", "empty", "empty"]
    with pytest.raises(nk.UsageError, match="'symbols' needs version 2"):
        nk.Spec(version=1, normalise=("nfkc", "symbols"))


def test_run_record_and_report_say_what_was_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A summary has at most eight lines, and details are left out if there is no room.
    monkeypatch.setenv("COLUMNS", "200")
    corpus = tmp_path / "texts.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in SYMBOL_TEXTS))
    assert app.run(["dedup", str(corpus), "--out", str(tmp_path / "out")]) == app.DONE
    printed = "".join(capsys.readouterr())
    counts = json.loads((tmp_path / "out" / "run.json").read_text())["counts"]
    assert (counts["same_shingles"], counts["empty"]) == (SAME_SHINGLES, EMPTY)
    page = (tmp_path / "out" / "report.html").read_text()
    for text in (" ".join(printed.split()), " ".join(page.split())):
        assert f"{SAME_SHINGLES} near-duplicates have the same shingles as the kept" in text
        assert f"{EMPTY} documents were not compared: they have no words." in text
