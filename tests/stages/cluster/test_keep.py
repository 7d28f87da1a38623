"""Tests of keep policies: order of values, types of columns, ties and errors."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from nearkin.errors import UsageError
from nearkin.stages.cluster.keep import KeepPolicy, as_numbers, number_type


def order(
    text: str, columns: dict[str, list[object]], lengths: list[int] | None = None
) -> list[int]:
    n = len(next(iter(columns.values()))) if columns else len(lengths or [])
    return (
        KeepPolicy.parse(text)
        .order(pa.table(columns), np.array(lengths or [0] * n), np.arange(n))
        .tolist()
    )


def test_listed_values_come_first_and_nulls_last() -> None:
    assert order("source:gold>web", {"source": ["x", None, "web", "gold", "web"]}) == [
        3,
        2,
        4,
        0,
        1,
    ]


def test_nulls_are_last_in_both_directions() -> None:
    assert order("q desc", {"q": [1, None, 3, 2]}) == [2, 3, 0, 1]
    assert order("q asc", {"q": [1, None, 3, 2]}) == [0, 3, 2, 1]


def test_length_is_built_in_and_smaller_id_wins_ties() -> None:
    assert order("length desc", {}, [3, 9, 3, 9]) == [1, 3, 0, 2]


def test_dates_are_ordered() -> None:
    day = datetime.date
    assert order("date asc", {"date": [day(2024, 1, 2), None, day(2023, 5, 1)]}) == [2, 0, 1]


def test_text_of_numbers_is_sorted_as_numbers_and_other_text_by_bytes() -> None:
    assert order("q desc", {"q": ["9", "10", "", "1.5"]}) == [1, 0, 3, 2]
    assert order("q asc", {"q": ["b", "10", "B"]}) == [1, 2, 0]


def test_criteria_apply_in_order() -> None:
    assert order("a asc, length desc", {"a": [1, 1, 0]}, [5, 6, 1]) == [2, 1, 0]


@pytest.mark.parametrize("bad", ["quality down", "a b c", "quality desc asc"])
def test_error_names_invalid_criterion(bad: str) -> None:
    with pytest.raises(UsageError, match="invalid keep criterion"):
        KeepPolicy.parse(bad)


@pytest.mark.parametrize("chunks", [1, 3])
def test_type_of_a_long_column_is_found_in_portions(
    chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of long values is converted in portions. The last value decides the type."""
    monkeypatch.setattr("nearkin.runtime.arrow_portions.PORTION_BYTES", 200)
    values = [f" {at}" for at in range(300)]
    for last, kind in (
        (" 7 ", pa.int64()),
        ("18446744073709551615", pa.uint64()),
        ("1.5", pa.float64()),
        ("n/a", None),
    ):
        texts = [*values, None, "", last]
        size = -(-len(texts) // chunks)
        column = pa.chunked_array(
            [texts[at : at + size] for at in range(0, len(texts), size)], pa.large_string()
        )
        assert number_type(column) == kind
        if kind is not None:
            numbers = as_numbers(column, kind)
            assert numbers.to_pylist()[:300] == list(range(300))
            assert numbers.to_pylist()[300:302] == [None, None]
            assert numbers.num_chunks > 3
    assert as_numbers(pa.chunked_array([], pa.large_string()), pa.int64()).to_pylist() == []
