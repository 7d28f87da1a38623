"""Doubtful removals: removed near-duplicates that may be distinct documents."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from benchmarks.doubtful import RECORD
from benchmarks.quality.populations.population import make_population
from nearkin.cli.app import run
from nearkin.engine.removal_limit import WRONG_SHARES
from nearkin.quality.evaluate.doubtful_removals import (
    LEAST_EXAMINED,
    MOST_EXAMINED,
    DoubtfulRemovals,
    Reason,
    draw_pairs,
)
from nearkin.reports.model import ReportData

NAMES = [
    f"{first}{last}" for first in ("an", "bo", "ke", "lu", "mi") for last in ("na", "ris", "to")
]
STREETS = ["oak street", "mill lane", "church road", "station road", "park avenue", "high street"]


def make_members(rng: random.Random, count: int) -> list[str]:
    """Returns the address lines of distinct people, of whom two live in each house."""
    lines = []
    for house in range(count // 2):
        street = f"{house * 7 + 3} {rng.choice(STREETS)} {rng.choice(NAMES)}ville {house * 13:05d}"
        surname = f"{rng.choice(NAMES)}son"
        first, second = rng.sample(NAMES, 2)
        lines += [f"{name} {surname} {street}" for name in (first, second)]
    return lines


def misspell(rng: random.Random, line: str) -> str:
    """Returns a line with two letters of a word exchanged."""
    words = line.split()
    longest = max(range(len(words)), key=lambda place: len(words[place]))
    letters = list(words[longest])
    place = rng.randrange(1, len(letters) - 2)
    letters[place : place + 2] = letters[place + 1], letters[place]
    words[longest] = "".join(letters)
    return " ".join(words)


def find_doubtful(texts: list[str], **settings: object) -> DoubtfulRemovals:
    result = nk.dedup(texts, measure="idf-jaccard", shingle="chars:3", max_removed=1.0, **settings)  # type: ignore[arg-type]
    data = result.report_data
    assert ReportData.from_json(data.to_json()) == data
    assert data.doubtful is not None
    return data.doubtful


def test_households_are_doubtful_and_misspelled_copies_are_not() -> None:
    rng = random.Random(3)
    members = make_members(rng, 400)
    households = find_doubtful(members, threshold=0.5)
    assert households.share > 0.8
    assert households.reasons[Reason.REPLACED] > 0.8 * households.doubtful
    assert households.low <= households.share <= households.high
    assert households.warn() is not None
    first = households.listed[0]
    assert first.removed_words
    assert first.kept_words
    assert set(first.removed_words).isdisjoint(first.kept_words)

    people = members[::2]
    copies = [misspell(rng, line) for line in people]
    found = find_doubtful([*people, *copies], threshold=0.5)
    assert found.examined >= 100
    assert found.share < 0.1
    assert found.warn() is None


@pytest.mark.parametrize(
    ("population", "settings", "least", "most"),
    [
        ("members", {"shingle": "chars:3", "measure": "idf-jaccard", "threshold": 0.4}, 0.7, 1.0),
        ("products", {"shingle": "chars:3", "measure": "idf-jaccard", "threshold": 0.5}, 0.7, 1.0),
        ("companies", {"shingle": "chars:3", "measure": "idf-jaccard", "threshold": 0.7}, 0.0, 0.2),
        ("pages", {}, 0.0, 0.05),
    ],
)
def test_share_of_doubtful_removals_is_large_where_distinct_rows_are_removed(
    population: str, settings: dict[str, object], least: float, most: float
) -> None:
    rows = make_population(population, 1500, 1)
    result = nk.dedup(rows.documents, id="id", max_removed=1.0, **settings)  # type: ignore[arg-type]
    doubtful = result.report_data.doubtful
    assert doubtful is not None
    assert least <= doubtful.share <= most
    clusters = dict(zip(rows.documents["id"].to_pylist(), rows.clusters.tolist(), strict=True))
    removed = [row for row in result.removed.arrow.to_pylist() if row["kind"] == "near"]
    wrong = np.mean([clusters[row["id"]] != clusters[row["cluster"]] for row in removed])
    assert abs(wrong - doubtful.share) < 0.25


def test_few_removals_and_other_documents_are_not_examined() -> None:
    rng = random.Random(3)
    people = make_members(rng, 60)[::2]
    few = [misspell(rng, line) for line in people[: LEAST_EXAMINED - 1]]
    settings = {"measure": "idf-jaccard", "shingle": "chars:3", "threshold": 0.6}
    result = nk.dedup([*people, *few], **settings)  # type: ignore[arg-type]
    assert 0 < result.statistics["removed_near"] < LEAST_EXAMINED
    assert result.report_data.doubtful is None
    vectors = np.repeat(np.eye(8, dtype=np.float32), 4, axis=0)
    vectors += np.random.default_rng(1).normal(0, 0.01, vectors.shape).astype(np.float32)
    by_vector = nk.dedup(
        pa.table({"vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8)}),
        vector="vector",
        max_removed=1.0,
    )
    assert by_vector.report_data.doubtful is None


def test_sample_is_bounded_and_the_same_again() -> None:
    members = make_members(random.Random(3), 1600)
    first, again = (find_doubtful(members, threshold=0.5, workers=count) for count in (1, 2))
    assert first == again
    assert first.examined == MOST_EXAMINED
    assert first.near > MOST_EXAMINED
    assert first.doubtful == sum(first.reasons.values())


def test_run_shows_doubtful_removals_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A summary has at most eight lines, and details are left out if there is no room.
    monkeypatch.setenv("COLUMNS", "200")
    lines = make_members(random.Random(3), 200)
    path = tmp_path / "members.parquet"
    pq.write_table(pa.table({"id": [f"m{row}" for row in range(len(lines))], "text": lines}), path)
    out = tmp_path / "out"
    options = ["--text", "text", "--id", "id", "--preset", "records", "--threshold", "0.5"]
    assert run(["dedup", str(path), *options, "--max-removed", "1", "--out", str(out)]) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert re.search(r"Doubtful: \d+ of 100 examined removals; expected to be wrong: \d+%", printed)
    assert "may be distinct documents" in printed
    record = json.loads((out / "run.json").read_text("utf-8"))["doubtful_removals"]
    assert record["doubtful"] > record["examined"] / 2
    assert set(record["reasons"]) == set(Reason)
    # ids and words are in the report alone, which quotes documents
    assert "listed" not in record
    page = (out / "report.html").read_text("utf-8")
    section = page.partition('<section id="doubtful"')[2].partition("</section>")[0]
    assert "other words that other documents have" in section
    assert ">m" in section


def test_shares_of_wrong_removals_are_those_that_were_measured() -> None:
    tables = {table["name"]: table for table in json.loads(RECORD.read_bytes())["tables"]}
    rows = tables["doubtful-shares"]["rows"]
    assert [row[2:] for row in rows] == [
        [f"{wrong.mean:.0%}", f"{wrong.low:.0%} to {wrong.high:.0%}"] for _, wrong in WRONG_SHARES
    ]
    assert [row[0].partition(" to ")[2] for row in rows] == [f"{up:.0%}" for up, _ in WRONG_SHARES]


def write_members(folder: Path, *, households: bool) -> list[str]:
    """Returns a command that deduplicates people, and some misspelled copies of them."""
    rng = random.Random(3)
    lines = make_members(rng, 200)[:: 1 if households else 2]
    lines += [misspell(rng, line) for line in lines[:40]]
    path = folder / "members.parquet"
    pq.write_table(pa.table({"text": lines}), path)
    command = ["dedup", str(path), "--shingle", "chars:3", "--measure", "idf-jaccard"]
    return [*command, "--threshold", "0.5", "--out", str(folder / "out")]


def test_run_that_is_expected_to_be_less_precise_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = write_members(tmp_path, households=True)
    assert run([*command, "--expect", "precision>=0.9", "--max-removed", "1"]) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert "are expected to be distinct documents" in shown
    assert "more than --expect 'precision>=0.9' allows" in shown
    assert "nothing was written. " in shown
    assert not (tmp_path / "out").exists()
    lower = ["--expect", "precision>=0.5", "--max-removed", "1", "--resume"]
    assert run([*command, *lower]) == 0
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())["doubtful_removals"]
    assert record["expected_wrong"]["mean"] > 0.1
    singles = write_members(tmp_path, households=False)
    assert run([*singles, "--expect", "precision>=0.9", "--overwrite"]) == 0


def test_result_of_the_library_that_is_expected_to_be_less_precise_is_an_error() -> None:
    members = make_members(random.Random(3), 200)
    settings = {"shingle": "chars:3", "measure": "idf-jaccard", "threshold": 0.5}
    with pytest.raises(nk.RunError, match=r"more than expect='precision>=0.9' allows"):
        nk.dedup(members, expect="precision>=0.9", max_removed=1.0, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"expect": "recall>=0.9"}, "write it as precision>=SHARE"),
        ({"expect": "precision>=2"}, "write it as precision>=SHARE"),
        ({"expect": "precision>=0.99"}, "is never expected without labels"),
        ({"expect": "precision>=0.9", "vector": "vector"}, "estimated from the words of texts"),
    ],
)
def test_expectation_that_is_not_valid_is_refused(settings: dict[str, str], message: str) -> None:
    vectors = pa.array([[1.0, 0.0]], pa.list_(pa.float32(), 2))
    with pytest.raises(nk.UsageError, match=message):
        nk.dedup(pa.table({"text": ["a"], "vector": vectors}), **settings)  # type: ignore[arg-type]


def test_advised_threshold_leaves_few_wrong_removals() -> None:
    rows = make_population("members", 2000, 1)
    settings: dict[str, object] = {"shingle": "chars:3", "measure": "idf-jaccard"}
    clusters = dict(zip(rows.documents["id"].to_pylist(), rows.clusters.tolist(), strict=True))

    def remove(threshold: float) -> tuple[DoubtfulRemovals, float]:
        result = nk.dedup(rows.documents, id="id", max_removed=1.0, threshold=threshold, **settings)  # type: ignore[arg-type]
        removed = [row for row in result.removed.arrow.to_pylist() if row["kind"] == "near"]
        wrong = np.mean([clusters[row["id"]] != clusters[row["cluster"]] for row in removed])
        assert result.report_data.doubtful is not None
        return result.report_data.doubtful, float(wrong)

    doubtful, wrong = remove(0.4)
    assert wrong > 0.6
    advised = doubtful.advised_threshold
    assert advised is not None
    warning = doubtful.warn()
    assert warning is not None
    assert f"at {advised:g}" in warning
    again, wrong = remove(advised)
    assert wrong < 0.15
    assert again.share < 0.15


def test_pairs_of_clusters_are_drawn_with_equal_probability() -> None:
    """Each pair of documents of one cluster, in both orders, is drawn as often as the others."""
    sizes = [1, 40, 2, 1, 90, 7]
    leader = np.repeat(np.arange(len(sizes)), sizes)[np.random.default_rng(5).permutation(141)]
    drawn = draw_pairs(leader)
    assert len(drawn) == MOST_EXAMINED
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert (leader[drawn[:, 0]] == leader[drawn[:, 1]]).all()
    counted = np.bincount(leader[drawn[:, 0]], minlength=len(sizes))
    expected = np.array([size * (size - 1) for size in sizes]) * MOST_EXAMINED
    total = sum(size * (size - 1) for size in sizes)
    assert (np.abs(counted - expected / total) < 2).all()
    assert len(np.unique(drawn, axis=0)) == MOST_EXAMINED
    assert len(np.unique(drawn)) > 100
