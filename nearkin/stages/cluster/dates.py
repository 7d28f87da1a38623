"""Dates of keep policies: from the text of a column to microseconds since 1970.

A value is read on its own, so that the order does not depend on the other values of a column:

- ISO 8601 dates and times, with or without separators: `2024`, `2024-05`, `2024-05-01`, `20240501`,
  `2024-05-01 10:30`, `2024-05-01T10:30:00.5+02:00`, `20240501103000` (14 digits, as web archives
  write them). A missing part is its first value, and a time without a zone is in UTC.
- Other numbers are counted from 1970 in UTC: seconds below 10^11, milliseconds below 10^14,
  microseconds below 10^17, else nanoseconds.

Values are compared to the microsecond.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COMPACT_DATE = r"^(\d{4})(\d{2})(\d{2})$"
COMPACT_TIME = (
    r"^(\d{4})(\d{2})(\d{2})[Tt]?(\d{2})(\d{2})(\d{2})([.,]\d+)?([Zz]|[+-]\d{2}(?::?\d{2})?)?$"
)
ISO = (
    r"^(?P<year>\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2})"
    r"(?:[Tt ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?"
    r" ?(?P<zone>[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?)?)?$"
)
NUMBER = r"^[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?$"
ZONE = r"^(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2})?$"
MICROSECONDS = 1_000_000
MICROSECONDS_OF_UNITS = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0), (9e21, 1e-3))
"""Numbers below each limit are in a unit of so many microseconds. Larger ones are not dates."""


def read_dates(texts: pa.Array) -> pa.Array:
    """Returns the microseconds since 1970 of dates, int64 (n,).

    Examples:
        >>> dates = pa.array(["1970-01-02", "1970-01-01T01:00:00+01:00", "86400", "soon"])
        >>> read_dates(dates).to_pylist()
        [86400000000, 0, 86400000000, None]
    """
    trimmed = pc.utf8_trim_whitespace(texts.cast(pa.large_string()))
    separated = pc.replace_substring_regex(trimmed, COMPACT_DATE, r"\1-\2-\3")
    separated = pc.replace_substring_regex(separated, COMPACT_TIME, r"\1-\2-\3T\4:\5:\6\7\8")
    parts = pc.extract_regex(separated, ISO)
    is_iso = parts.is_valid().to_numpy(zero_copy_only=False)
    times = np.zeros(len(texts), np.int64)
    is_date = np.zeros(len(texts), bool)
    times[is_iso], is_date[is_iso] = _read_iso_times(parts.filter(pa.array(is_iso)))
    is_number = pc.fill_null(pc.match_substring_regex(separated, NUMBER), False)
    is_number = is_number.to_numpy(zero_copy_only=False) & ~is_iso
    times[is_number], is_date[is_number] = _read_epochs(separated.filter(pa.array(is_number)))
    return pa.array(times, mask=~is_date)


def count_unreadable_dates(texts: pa.Array) -> int:
    """Returns the number of values that are not dates. Nulls and empty texts are missing values."""
    has_value = pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(texts), ""), False)
    return int(pc.sum(pc.and_(has_value, read_dates(texts).is_null())).as_py() or 0)


def _read_iso_times(parts: pa.StructArray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the microseconds since 1970, int64 (n,), and whether the date exists, bool (n,)."""

    def number_of(name: str, default: int) -> np.ndarray:
        text = parts.field(name)
        digits = pc.if_else(pc.equal(text, ""), str(default), text)
        return np.asarray(digits.cast(pa.int64()).to_numpy())

    month = number_of("month", 1)
    day = number_of("day", 1)
    hour = number_of("hour", 0)
    minute = number_of("minute", 0)
    second = number_of("second", 0)
    is_valid = (month >= 1) & (month <= 12) & (day >= 1)
    # A leap second is the first second of the next minute.
    is_valid &= (hour <= 23) & (minute <= 59) & (second <= 60)
    months = (number_of("year", 1970) - 1970) * 12 + np.where(is_valid, month, 1) - 1
    first_day = months.astype("datetime64[M]").astype("datetime64[D]")
    next_month = (months + 1).astype("datetime64[M]").astype("datetime64[D]")
    is_valid &= day <= (next_month - first_day).astype(np.int64)
    days = first_day.astype(np.int64) + day - 1
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(parts.field("fraction"), 0, 6), 6, "0")
    offset, has_valid_offset = _read_zones(parts.field("zone"))
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset
    times = seconds * MICROSECONDS + fraction.cast(pa.int64()).to_numpy()
    return times, is_valid & has_valid_offset


def _read_zones(zones: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns the seconds east of UTC, int64 (n,), and whether the zone exists, bool (n,)."""
    parts = pc.extract_regex(zones, ZONE)

    def number_of(name: str) -> np.ndarray:
        text = pc.fill_null(parts.field(name), "")
        return np.asarray(pc.if_else(pc.equal(text, ""), "0", text).cast(pa.int64()).to_numpy())

    hours = number_of("hours")
    minutes = number_of("minutes")
    is_west = pc.fill_null(pc.equal(parts.field("sign"), "-"), False)
    sign = np.where(is_west.to_numpy(zero_copy_only=False), -1, 1)
    return sign * (hours * 3_600 + minutes * 60), (hours <= 23) & (minutes <= 59)


def _read_epochs(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns the microseconds of numbers, int64 (n,), and which are in range, bool (n,)."""
    numbers = texts.cast(pa.float64()).to_numpy()
    size = np.abs(numbers)
    limits = np.array([limit for limit, _ in MICROSECONDS_OF_UNITS])
    factors = np.array([factor for _, factor in MICROSECONDS_OF_UNITS])
    unit = np.searchsorted(limits, size, side="right")
    is_valid = unit < len(limits)
    factor = factors[np.minimum(unit, len(limits) - 1)]
    return np.round(np.where(is_valid, numbers, 0.0) * factor).astype(np.int64), is_valid
