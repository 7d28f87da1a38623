"""Lines of logs, and other texts that look like them."""

import pyarrow as pa
import pytest

from nearkin.quality.fit.log_lines import LogShares, measure_log_shares


def measure(texts: list[str]) -> LogShares:
    return measure_log_shares(pa.array(texts, pa.large_string()))


def test_shares_count_lines_of_templates_and_values_of_machines() -> None:
    shares = measure(
        [
            "10:00:01 the disk is full",
            "10:00:02 the disk is full",
            "10:00:03 the fan is broken",
            "the lamp is on",
        ]
    )
    assert shares == LogShares(repeated=0.5, machine=0.75)
    assert shares.are_logs


@pytest.mark.parametrize(
    "time", ["2026-01-31T10:00:0{0}Z", "[31/Jan/2026:10:00:0{0} +0100]", "Jun 14 15:16:0{0}"]
)
def test_times_with_seconds_are_values_of_machines(time: str) -> None:
    lines = [f"{time.format(second)} the disk is full" for second in range(9)]
    assert measure(lines) == LogShares(1.0, 1.0)


def test_dates_and_times_of_day_are_written_by_people() -> None:
    texts = [f"the meeting of 2026-01-0{day} begins at 10:30" for day in range(1, 9)]
    assert measure(texts) == LogShares(1.0, 0.0)


def test_equal_lines_are_not_equal_but_for_values() -> None:
    assert measure(["10:00:01 the disk is full"] * 5).repeated == 0


@pytest.mark.parametrize("line", ["10.0.0.{0}", "/var/log/app{0}.txt", "a@b.org 10:00:{0:02d}"])
def test_values_alone_have_no_template(line: str) -> None:
    assert measure([line.format(number) for number in range(9)]).repeated == 0


def test_long_texts_are_no_lines() -> None:
    texts = [f"10:00:0{second} the disk is full" + " of files" * 200 for second in range(9)]
    assert measure(texts) == LogShares(0.0, 0.0)
    assert measure([]) == LogShares(0.0, 0.0)
