"""Tests of dates in keep policies: forms, time zones, ranges, and values that are not dates."""

import datetime as dt
import random

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.corpus.text_forms import format_as_text
from nearkin.stages.cluster.dates import count_unreadable_dates, read_dates
from nearkin.stages.cluster.keep import KeepPolicy
from tests.corpus.samples import NEAR_TEXTS

START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def microseconds_of(moment: dt.datetime) -> int:
    """Returns the microseconds since 1970, computed by Python."""
    return (moment - START) // dt.timedelta(microseconds=1)


def write_moment(moment: dt.datetime, rng: random.Random) -> str:
    """Returns a text of a moment in one of the accepted forms."""
    zone = dt.timezone(dt.timedelta(minutes=rng.choice([0, 60, -330, 345, 840, -720])))
    local = moment.astimezone(zone)
    in_utc = moment.astimezone(dt.UTC)
    epoch = microseconds_of(moment)
    forms = [
        local.isoformat(),
        local.isoformat(sep=" "),
        local.strftime("%Y-%m-%dT%H:%M:%S.%f%z"),
        local.strftime("%Y%m%dT%H%M%S.%f%z"),
        in_utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        in_utc.strftime("%Y-%m-%d %H:%M:%S.%f UTC"),
        in_utc.strftime("%Y-%m-%d %H:%M:%S.%f") + "999",
    ]
    if abs(epoch) > 10**14:
        forms.append(str(epoch))
    if abs(epoch) > 10**15:
        forms.append(f" {epoch}123 ")
    return rng.choice(forms)


def test_random_moments_in_all_forms_are_read_as_python_reads_them() -> None:
    rng = random.Random(3)
    moments = [
        START + dt.timedelta(microseconds=rng.randrange(-(10**15), 4 * 10**15)) for _ in range(2000)
    ]
    texts = pa.array([write_moment(moment, rng) for moment in moments])
    expected = np.array([microseconds_of(moment) for moment in moments])
    read = read_dates(texts).to_numpy()
    # Nanoseconds since 1970 are rounded to a microsecond.
    assert np.abs(read - expected).max() <= 1
    assert (read == expected).mean() > 0.8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        ("2024-05", dt.datetime(2024, 5, 1, tzinfo=dt.UTC)),
        ("20240229", dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
        ("20240501103007", dt.datetime(2024, 5, 1, 10, 30, 7, tzinfo=dt.UTC)),
        ("2024-05-01t10:30z", dt.datetime(2024, 5, 1, 10, 30, tzinfo=dt.UTC)),
        ("2016-12-31T23:59:60Z", dt.datetime(2017, 1, 1, tzinfo=dt.UTC)),
        ("1714559400", dt.datetime(2024, 5, 1, 10, 30, tzinfo=dt.UTC)),
        ("1.7145594e9", dt.datetime(2024, 5, 1, 10, 30, tzinfo=dt.UTC)),
        ("1714559400.5", dt.datetime(2024, 5, 1, 10, 30, 0, 500_000, tzinfo=dt.UTC)),
        ("1714559400000", dt.datetime(2024, 5, 1, 10, 30, tzinfo=dt.UTC)),
        ("-86400", dt.datetime(1969, 12, 31, tzinfo=dt.UTC)),
    ],
)
def test_form_is_read_as_documented(text: str, expected: dt.datetime) -> None:
    assert read_dates(pa.array([text])).to_pylist() == [microseconds_of(expected)]


@pytest.mark.parametrize(
    "text",
    [
        *("soon", "n/a", "01/05/2024", "2024-13-01", "2024-02-30", "2023-02-29", "2024-05-00"),
        *("2024-05-01T24:00", "2024-05-01T10:60", "2024-05-01T10:30:00+25:00", "20241301", "1e30"),
        *("inf", "nan", "-", "2024-05-01 10", "2024-05-01T10:30:00+2", "１２３４", "0x10"),
    ],
)
def test_other_texts_are_not_dates(text: str) -> None:
    dates = pa.array([text, None, "", "  "])
    assert read_dates(dates).to_pylist() == [None] * 4
    assert count_unreadable_dates(dates) == 1


@pytest.mark.parametrize(
    "column",
    [
        pa.array([dt.date(2024, 5, 1), None, dt.date(1969, 5, 1)]),
        pa.array([86_400_000, None, -86_400_000], pa.date64()),
        pa.array([10**18, None, -1], pa.timestamp("ns")),
        pa.array([10**9, None, -1], pa.timestamp("s", "Asia/Kolkata")),
        pa.array([10**12, None, -1], pa.timestamp("ms")),
    ],
)
def test_columns_of_arrow_dates_are_ordered(column: pa.Array) -> None:
    read = read_dates(format_as_text(column))
    assert count_unreadable_dates(format_as_text(column)) == 0
    assert read[1].as_py() is None
    assert read[0].as_py() >= read[2].as_py()


def order(text: str, dates: list[str | None]) -> list[int]:
    policy = KeepPolicy.parse(text)
    return policy.order(
        pa.table({"date": pa.array(dates, pa.large_string())}),
        np.zeros(len(dates), np.int64),
        np.arange(len(dates)),
    ).tolist()


def test_values_that_are_not_dates_come_last_in_both_directions() -> None:
    dates = ["soon", "2024-05-01T00:30:00+02:00", None, "2024-04-30T23:00:00Z", "1714514400"]
    assert order("newest:date", dates) == [3, 1, 4, 0, 2]
    assert order("oldest : date", dates) == [4, 1, 3, 0, 2]
    assert order("NEWEST:date", dates) == [3, 1, 4, 0, 2]


def test_other_criteria_follow_a_date() -> None:
    table = pa.table({"date": ["2024", "2024-01-01", "2023"]})
    policy = KeepPolicy.parse("newest:date, length desc")
    assert policy.order(table, np.array([1, 2, 9]), np.arange(3)).tolist() == [1, 0, 2]


def test_column_named_newest_can_be_ordered_by_values() -> None:
    policy = KeepPolicy.parse("newest:yes>, oldest desc")
    assert policy.columns == ("newest", "oldest")
    assert policy.date_columns == ()


@pytest.mark.parametrize("column", ["date", "length", "id"])
def test_newest_document_is_kept_and_values_that_are_not_dates_are_said(column: str) -> None:
    dates = ["soon", "1714559400", "2024-05-01 10:30:01", "2024-05-01T10:30:02+01:00"]
    data = {"text": [NEAR_TEXTS[0]] * 4, "id": list("abcd"), column: dates}
    result = nk.dedup(data, id="id", keep=f"newest:{column}")
    assert result.kept.tolist() == [False, False, True, False]
    assert result.stages["collapse"]["unreadable_dates"] == {column: 1}
    said = f"1 value in column {column!r} is not a date, so its document comes last"
    assert [warning for warning in result.warnings if said in warning]


def test_runs_without_dates_record_nothing_about_them() -> None:
    result = nk.dedup({"text": [NEAR_TEXTS[0]], "date": ["soon"]}, keep="date desc")
    assert "unreadable_dates" not in result.stages["collapse"]
