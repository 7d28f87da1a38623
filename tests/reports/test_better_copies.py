"""Tests of how often the keep policy kept a copy that another measure would call worse."""

import random

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.reports.model import BetterCopies, ReportData
from nearkin.reports.page import render_page
from tests.engine.test_keep_criteria import WORDS, make_versions


@pytest.mark.parametrize("keep", ["length desc", "oldest:date", "id asc", "central"])
def test_clusters_with_a_better_removed_document_are_counted(keep: str) -> None:
    table = make_versions(41)
    years = [random.Random(at).choice(["2021", "2022", "soon", None]) for at in range(len(table))]
    table = table.set_column(2, "date", pa.array(years))
    result = nk.dedup(table, keep=keep, **WORDS)
    rows = {row["id"]: row for row in table.to_pylist()}
    years_of = {"2021": 2021, "2022": 2022}
    better: dict[str, set[str]] = {"longer": set(), "with more shingles": set(), "newer": set()}
    clusters = set()
    for removed in result.removed.to_pylist():
        one, kept = rows[removed["id"]], rows[removed["cluster"]]
        clusters.add(removed["cluster"])
        if len(one["text"]) > len(kept["text"]):
            better["longer"].add(removed["cluster"])
        if len(one["text"].split()) > len(kept["text"].split()):
            better["with more shingles"].add(removed["cluster"])
        if years_of.get(one["date"], 0) > years_of.get(kept["date"], 0):
            better["newer"].add(removed["cluster"])
    names = ["longer", "with more shingles"]
    expected = [BetterCopies(name, len(better[name]), len(clusters)) for name in names]
    if "date" in keep:
        expected.append(BetterCopies("newer by date", len(better["newer"]), len(clusters)))
        assert better["newer"]
    data = result.report_data
    assert list(data.better_copies) == expected
    assert ReportData.from_dict(data.to_dict()).better_copies == data.better_copies
    assert f"of {len(clusters)} clusters" in render_page(data)
    if keep == "length desc":
        assert data.better_copies[0].clusters == 0


def test_run_without_clusters_says_nothing() -> None:
    data = nk.dedup({"text": ["one text", "another one"]}).report_data
    assert [better.total for better in data.better_copies] == [0, 0]
    assert "The keep policy removed" not in render_page(data)
