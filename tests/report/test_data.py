"""The report's data: JSON round trip, totals, histograms, warnings."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.errors import UsageError
from nearkin.report.model import BINS, Counts, Histogram, ReportData, SourceCount


def test_json_round_trip(data: ReportData) -> None:
    assert ReportData.from_json(data.to_json()) == data
    assert ReportData.from_dict(json.loads(json.dumps(data.to_dict()))) == data
    assert ReportData.from_dict(data.to_dict()) == data


def test_unknown_and_missing_fields_are_named(data: ReportData) -> None:
    with pytest.raises(UsageError, match="'colour': a newer nearkin"):
        ReportData.from_dict({**data.to_dict(), "colour": 1})
    with pytest.raises(UsageError, match="title"):
        ReportData.from_dict(
            {name: value for name, value in data.to_dict().items() if name != "title"}
        )
    with pytest.raises(UsageError, match="JSON object"):
        ReportData.from_json("[1, 2]")


def test_every_row_has_one_fate() -> None:
    counts = Counts(100, 70, removed_exact=10, removed_near=5, empty=8, rejected=7)
    assert counts.removed_empty == 8
    assert counts.kept + counts.removed + counts.rejected == counts.read


def test_the_headline_agrees_in_number(data: ReportData) -> None:
    one = replace(data, counts=Counts(1, 1, removed_near=0))
    assert one.headline == "Of 1 document 1 is kept; 0 exact and 0 near duplicates removed."


def test_a_source_that_loses_nearly_everything_is_warned_about(data: ReportData) -> None:
    assert data.all_warnings[:2] == (
        "2 rows share an id",
        "mirror loses 95.0% of its documents (190 of 200)",
    )
    nine_tenths = replace(
        data,
        leakage=None,
        sources=(SourceCount("a", 10, 9), SourceCount("none", 0, 0)),
        warnings=(),
    )
    assert nine_tenths.all_warnings == ()


@given(st.integers(0, BINS))
def test_a_bin_holds_its_left_edge(step: int) -> None:
    counts = Histogram.of(np.array([step / BINS])).counts
    assert counts.index(1) == min(step, BINS - 1)


@given(st.lists(st.floats(0, 1)), st.lists(st.floats(0, 1)))
def test_histograms_of_parts_add_up(a: list[float], b: list[float]) -> None:
    assert Histogram.of(np.array(a)) + Histogram.of(np.array(b)) == Histogram.of(np.array(a + b))


def test_a_histogram_of_other_bins_is_refused() -> None:
    with pytest.raises(UsageError, match="50 bins, not 3"):
        Histogram((1, 2, 3))
