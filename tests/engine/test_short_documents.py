"""Tests of documents that are too short for their shingles, against edited texts."""

import json
import logging
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearkin as nk
import nearkin.pandas
import nearkin.polars
from nearkin.cli.app import run
from nearkin.engine.short_documents import (
    count_short_documents,
    fewest_robust_shingles,
)
from nearkin.reports import run_warnings
from nearkin.sklearn import NearDuplicateGroups

TITLES = [
    "Senior Data Engineer in Berlin",
    "Senior Data Engineer Berlin",
    "Junior Accountant Hamburg",
    "Junior Accountant in Hamburg",
    "Truck driver wanted",
    "Truck drivers wanted",
    "Night nurse at city hospital",
    "Night nurse, city hospital",
    "Barista",
    "Barista wanted",
]
"""Ten titles, in pairs of obvious copies."""


def similarity(first: list[str], second: list[str], spec: nk.Spec) -> float:
    """Returns the similarity of two lists of words that do not repeat a shingle."""
    n = spec.n
    a, b = (
        {tuple(words[i : i + n]) for i in range(len(words) - n + 1)} for words in (first, second)
    )
    if spec.measure == "simhash":
        return len(a & b) / (len(a) * len(b)) ** 0.5
    return len(a & b) / len(a | b)


@pytest.mark.parametrize("measure", ["jaccard", "weighted-jaccard", "simhash"])
@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.8])
def test_copies_with_one_changed_word_reach_the_threshold_from_this_length(
    measure: str, n: int, threshold: float
) -> None:
    spec = nk.Spec(n=n, measure=measure)
    robust = fewest_robust_shingles(spec, threshold)
    for shingles, is_robust in ((robust, True), (robust - 1, False)):
        words = [f"w{i}" for i in range(shingles + n - 1)]
        changed = words.copy()
        changed[len(words) // 2] = "other"
        assert (similarity(words, changed, spec) >= threshold - 1e-9) == is_robust


def test_vectors_and_empty_documents_are_not_short() -> None:
    spec = nk.Spec(measure="cosine", unit="vector", n=4)
    assert count_short_documents(np.ones(5), spec, 0.8) == (0, 0)
    assert count_short_documents(np.zeros(5), nk.Spec(), 0.8) == (0, 0)


def test_a_run_with_shorter_shingles_is_not_told_to_take_longer_ones() -> None:
    names = [f"name {number}" for number in range(10)]
    (warning,) = nk.dedup(names, shingle="chars:2", threshold=0.95).warnings
    assert warning.endswith("nearkin can choose settings for short texts:\n  nk.choose(data)")


def test_short_texts_cause_a_warning_that_names_the_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ten titles with obvious copies: nothing is found, and the warning says why."""
    with caplog.at_level(logging.WARNING, "nearkin"):
        result = nk.dedup(TITLES)
    assert result.statistics["removed"] == 0
    warning = next(text for text in result.warnings if "shingles words:3" in text)
    assert warning.startswith("10 of 10 documents (100%)")
    assert "5 of them (50%) are not longer than one shingle" in warning
    assert warning.endswith("nearkin can choose settings for short texts:\n  nk.choose(data)")
    assert warning in result.report_data.all_warnings
    assert warning in caplog.messages
    assert warning in nk.pairs(TITLES).warnings
    assert caplog.messages.count(warning) == 2
    proposed = nk.Spec(unit="chars", n=3)
    better = nk.dedup(TITLES, threshold=0.5, spec=proposed)
    assert better.statistics["removed"] >= 3
    assert not better.warnings


CALLS: dict[str, Callable[[], object]] = {
    "library": lambda: nk.dedup(TITLES),
    "pandas": lambda: pd.DataFrame({"text": TITLES}).nearkin.dedup(),
    "polars": lambda: pl.DataFrame({"text": TITLES}).nearkin.cluster_ids("text"),
    "sklearn": lambda: NearDuplicateGroups().fit_predict(TITLES),
}


@pytest.mark.parametrize("name", CALLS)
def test_python_warning_names_the_line_of_the_program(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that has configured no logging gets a Python warning."""
    monkeypatch.setattr(run_warnings, "_has_log_handler", lambda: False)
    call = CALLS[name]
    with pytest.warns(UserWarning, match="shingles words:3") as caught:
        call()
    assert {(warning.filename, warning.lineno) for warning in caught} == {
        (__file__, call.__code__.co_firstlineno)
    }


def test_long_texts_cause_no_warning_of_short_texts() -> None:
    texts = [" ".join(f"word{i}x{j}" for j in range(40)) for i in range(20)]
    assert not nk.dedup([*texts, *TITLES[:1]]).warnings


@pytest.mark.filterwarnings("error")
def test_equal_texts_are_no_reason_to_compare_short_ones() -> None:
    lines = [f"user {number} opened the door" for number in range(9)]
    assert nk.dedup(lines, preset="logs").kept.sum() == 1
    assert nk.dedup(lines, threshold=1).kept.sum() == 9


def test_warning_of_short_texts_in_fields_names_their_limits() -> None:
    """A run over fields has no threshold that could be lowered."""
    result = nk.dedup({"title": TITLES}, fields=["title:jaccard>=0.9"])
    (warning,) = result.warnings
    assert warning.endswith("use shingle='chars:3' and lower limits in `fields`")


def test_commands_warn_of_short_texts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The warning is on the terminal and in the run record, and tune gives the same advice."""
    (tmp_path / "titles.csv").write_text("text\n" + "\n".join(f'"{t}"' for t in TITLES) + "\n")
    source = str(tmp_path / "titles.csv")
    assert run(["dedup", source, "--out", str(tmp_path / "out")]) == 0
    warned = "10 of 10 documents (100%) have so few shingles words:3"
    assert warned in " ".join(capfd.readouterr().err.split())
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert any(warned in text for text in record["warnings"])
    assert record["stages"]["collapse"]["single"] == 5
    assert run(["pairs", source, "--out", str(tmp_path / "p.parquet")]) == 0
    assert warned in capfd.readouterr().err
    assert run(["tune", source]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    assert "Most sampled texts are too short for shingles words:3 and the threshold 0.8." in printed
    command = f"nearkin fit {shlex.quote(source)} --out settings.toml"
    assert printed.endswith(f"nearkin can choose settings for short texts: {command}")
    assert any(command in text for text in record["warnings"])
    assert run(["tune", source, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["short_texts"] is True
    assert run(["tune", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["short_texts"] is False


def pairs_of_short_texts(shared: int, own: list[str]) -> list[str]:
    """Returns 2,000 pairs of texts of `shared` words, of which the second has more words."""
    texts = []
    for pair in range(2000):
        words = [f"s{pair}x{word}" for word in range(shared)]
        more = [f"{word}{pair}" if word else words[0] for word in own]
        texts += [" ".join(words), " ".join(words + more)]
    return texts


@pytest.mark.parametrize("slot_bits", [1, 2, 4, 32])
@pytest.mark.parametrize(
    ("measure", "shared", "own", "threshold"),
    [
        ("jaccard", 1, ["o"], 0.5),
        ("jaccard", 2, ["o"], 0.66),
        ("jaccard", 3, ["o"], 0.75),
        ("jaccard", 2, ["o", "p"], 0.5),
        ("weighted-jaccard", 1, [""], 0.5),
    ],
)
def test_recall_holds_for_documents_of_few_shingles(
    measure: str,
    shared: int,
    own: list[str],
    threshold: float,
    slot_bits: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few shingles may differ in the same bit of all slots, so no agreement by chance is assumed.

    The tolerance is three standard errors.
    """
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    texts = pairs_of_short_texts(shared, own)
    result = nk.pairs(
        texts, shingle="words:1", measure=measure, threshold=threshold, slot_bits=slot_bits
    )
    assert not result.stages["verify"]["brute_force"]
    assert len(result.pairs) / 2000 >= 0.95 - 3 * (0.95 * 0.05 / 2000) ** 0.5
