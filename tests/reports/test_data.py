"""Tests of the data of a report: JSON round trip, totals and warnings."""

import json
from dataclasses import replace

import pytest

from nearkin.errors import UsageError
from nearkin.reports.model import Counts, ReportData, SourceCount


def test_json_round_trip(data: ReportData) -> None:
    assert ReportData.from_json(data.to_json()) == data
    assert ReportData.from_dict(json.loads(json.dumps(data.to_dict()))) == data
    assert ReportData.from_dict(data.to_dict()) == data


def test_unknown_and_missing_fields_are_named(data: ReportData) -> None:
    with pytest.raises(UsageError, match="'colour', which a newer nearkin wrote"):
        ReportData.from_dict({**data.to_dict(), "colour": 1})
    with pytest.raises(UsageError, match="title"):
        ReportData.from_dict(
            {name: value for name, value in data.to_dict().items() if name != "title"}
        )
    with pytest.raises(UsageError, match="JSON object"):
        ReportData.from_json("[1, 2]")


def test_every_row_is_kept_removed_or_rejected() -> None:
    counts = Counts(100, 70, removed_exact=10, removed_near=5, empty=8, rejected=7)
    assert counts.removed_empty == 8
    assert counts.kept + counts.removed + counts.rejected == counts.read


def test_headline_uses_singular_and_plural(data: ReportData) -> None:
    one = replace(data, counts=Counts(1, 1, removed_near=0))
    assert one.headline == (
        "1 of 1 document kept; 0 exact duplicates and 0 near-duplicates removed."
    )


def test_source_that_loses_nearly_all_documents_causes_a_warning(data: ReportData) -> None:
    assert data.all_warnings[-2:] == (
        "2 rows share an id",
        "the source mirror lost 190 of 200 documents (95.0%)",
    )
    nine_tenths = replace(
        data,
        leakage=None,
        sources=(SourceCount("a", 10, 9), SourceCount("none", 0, 0)),
        warnings=(),
    )
    assert nine_tenths.all_warnings == ()
    unnamed = replace(nine_tenths, sources=(SourceCount("", 10, 10),))
    assert unnamed.all_warnings == ("the source (empty) lost 10 of 10 documents (100%)",)
