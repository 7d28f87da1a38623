"""Keep policies over columns of long values, which are converted in portions."""

import pyarrow as pa
import pytest

from nearkin.cluster.keep import as_numbers, number_type


@pytest.mark.parametrize("chunks", [1, 3])
def test_the_type_of_a_long_column_is_found_in_portions(
    chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of long values is never converted as a whole; one value at its end decides."""
    monkeypatch.setattr("nearkin.cluster.keep.PORTION_BYTES", 200)
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
