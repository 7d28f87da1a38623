"""Tests of the search for ids that a spreadsheet has changed."""

import pyarrow as pa
import pytest

from nearkin.corpus.unknown_ids import find_original_ids


@pytest.mark.parametrize(
    ("original", "shown"),
    [
        ("007", "7"),
        ("007", "7.0"),
        ("-07", "-7"),
        ("+49", "49"),
        ("7", "7.00"),
        ("0", "0.0"),
        ("01.50", "1,5"),
        ("1E5", "1.00E+05"),
        ("1E5", "100000"),
        ("12e3", "1,20E+04"),
        ("1.2e4", "12000"),
        ("100000", "1E+05"),
        ("12345678901234567890", "1.23457E+19"),
        ("12345678901234567890", "12345678901234500000"),
        ("12345678901234567890", "1.23456789012346E+019"),
        ("9007199254740993", "9007199254740990"),
        ("0123456789012", "1.23457E+11"),
        ("1-2", "01.02.2026"),
        ("1/2", "2-Jan"),
        ("1-2", "2026-02-01"),
        ("01.02.2026", "2/1/26"),
        ("MARCH1", "1-Mar"),
        ("mar-1", "01.03.2026"),
        ("true", "TRUE"),
        (" x ", "x"),
    ],
)
def test_originals_of_changed_ids_are_found(original: str, shown: str) -> None:
    ids = pa.array(["x7", "77", "70", "12346", original], pa.large_string())
    assert find_original_ids(["y", shown], [ids.slice(0, 2), ids.slice(2)]) == {
        shown: original,
        "y": "",
    }


@pytest.mark.parametrize(
    ("shown", "other"),
    [
        ("7", "70"),
        ("7", "7a"),
        ("7", "7.5"),
        ("12", "1-2"),
        ("1E+05", "123456"),
        ("1.23457E+19", "12345600000000000000"),
        ("1.23457E+19", "1234567890123456789"),
        ("100000", "100001"),
        ("01.02.2026", "1-3"),
        ("a.c", "abc"),
        ("", "x"),
    ],
)
def test_other_ids_are_no_originals(shown: str, other: str) -> None:
    assert find_original_ids([shown], [pa.array([other], pa.large_string())]) == {shown: ""}


def test_any_ids_can_be_searched() -> None:
    ids = ["9" * 61, "1e999", "1e-99", "(", r"\d+", "\N{GRINNING FACE}\n", "00-00", "9" * 60]
    found = find_original_ids([*ids, *(f"{n}e99" for n in range(90))], [pa.array(["a"])])
    assert found == dict.fromkeys(ids[:3], "")
    assert find_original_ids(["9" * 61], [pa.array([""])]) == {"9" * 61: ""}
