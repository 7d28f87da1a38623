import datetime

import numpy as np
import pyarrow as pa
import pytest

from nearkin.cluster.keep import KeepPolicy
from nearkin.errors import UsageError


def order(text: str, columns: dict[str, list[object]], lengths: list[int] | None = None) -> list[int]:
    n = len(next(iter(columns.values()))) if columns else len(lengths or [])
    return KeepPolicy.parse(text).order(pa.table(columns), np.array(lengths or [0] * n), np.arange(n)).tolist()


def test_values_in_order_then_others_then_nulls() -> None:
    assert order("source:gold>web", {"source": ["x", None, "web", "gold", "web"]}) == [3, 2, 4, 0, 1]


def test_directions_and_nulls_last_both_ways() -> None:
    assert order("q desc", {"q": [1, None, 3, 2]}) == [2, 3, 0, 1]
    assert order("q asc", {"q": [1, None, 3, 2]}) == [0, 3, 2, 1]


def test_length_is_built_in_and_ties_go_to_the_smaller_id() -> None:
    assert order("length desc", {}, [3, 9, 3, 9]) == [1, 3, 0, 2]


def test_dates() -> None:
    day = datetime.date
    assert order("date asc", {"date": [day(2024, 1, 2), None, day(2023, 5, 1)]}) == [2, 0, 1]


def test_numbers_in_text_sort_as_numbers_and_other_text_by_bytes() -> None:
    assert order("q desc", {"q": ["9", "10", "", "1.5"]}) == [1, 0, 3, 2]
    assert order("q asc", {"q": ["b", "10", "B"]}) == [1, 2, 0]


def test_criteria_in_order() -> None:
    assert order("a asc, length desc", {"a": [1, 1, 0]}, [5, 6, 1]) == [2, 1, 0]


@pytest.mark.parametrize("bad", ["quality down", "a b c", "quality desc asc"])
def test_a_bad_expression_names_itself(bad: str) -> None:
    with pytest.raises(UsageError, match="not of the form"):
        KeepPolicy.parse(bad)
