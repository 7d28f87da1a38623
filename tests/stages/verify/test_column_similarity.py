"""The similarity of the values of a column."""

import math

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from nearkin.stages.verify.column_similarity import compare_values

VALUES = st.one_of(st.none(), st.text("abé 1-", max_size=6))


def pairs_of_characters(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(max(len(text) - 1, 1))}


def compare_in_python(first: str | None, second: str | None) -> float:
    """The similarity of two values whose inner white space is single blanks."""
    one = " ".join((first or "").lower().split())
    other = " ".join((second or "").lower().split())
    if not one or not other:
        return math.nan
    if one == other:
        return 1.0
    a, b = pairs_of_characters(one), pairs_of_characters(other)
    return min(len(a & b) / len(a | b), 1 - 1e-9)


@given(st.lists(VALUES, min_size=1, max_size=8))
def test_similarity_is_that_of_sets_in_python(values: list[str | None]) -> None:
    spaced = [None if value is None else " ".join(value.split()) for value in values]
    count = len(spaced)
    first, second = (
        place.ravel() for place in np.meshgrid(np.arange(count), np.arange(count), indexing="ij")
    )
    found = compare_values(pa.array(spaced, pa.large_string()), first, second)
    expected = [
        compare_in_python(spaced[one], spaced[other])
        for one, other in zip(first.tolist(), second.tolist(), strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_only_equal_values_have_the_similarity_one() -> None:
    values = pa.array(["abab", "ababab", "ABAB "], pa.large_string())
    found = compare_values(values, np.array([0, 0]), np.array([1, 2]))
    assert found[0] < 1.0 == found[1]
