"""Tests of reading the columns of documents in portions."""

import numpy as np
import pyarrow as pa
import pytest

from nearkin.engine.documents import take_values
from nearkin.runtime.arrow_portions import iterate_portions


def test_values_of_a_chunked_column_are_taken_in_any_order() -> None:
    column = pa.chunked_array(
        [[f"{i}" for i in range(10)], [], [f"{i}" for i in range(10, 30)]], pa.large_string()
    )
    chosen = np.random.default_rng(1).integers(0, 30, 100)
    assert take_values(column, chosen).to_pylist() == [f"{i}" for i in chosen]
    assert take_values(column, np.empty(0, np.int64)).to_pylist() == []


def test_a_column_is_read_in_portions_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.runtime.arrow_portions.PORTION_BYTES", 1_000)
    column = pa.chunked_array([["x" * 90] * 100, ["y"] * 3], pa.large_string())
    parts = list(iterate_portions(column))
    assert pa.chunked_array(parts).to_pylist() == column.to_pylist()
    assert max(part.nbytes for part in parts) < 1_500
