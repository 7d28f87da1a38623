"""Tests of the order of ids, against a plain oracle."""

import random
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin.stages.cluster.id_order import list_in_order, rank_ids, sort_ids

IDS = [
    *("", "0", "00", "-0", "7", "007", "-7", "9", "10", "100", "20", "3", "-10", "7#a:0000000001"),
    *("7#a\nb", "10#", "10x", "x10", "1.5", "+1", " 1", "1 ", "1\n", "a", "é", "\x00", "7é", "٣"),
    *(str(2**63), str(2**64 - 1), "9" * 19, "9" * 20, "1" + "0" * 19, "-" + "9" * 19),
    *("a/b.jsonl:0000000010", "a/b.jsonl:0000000009", "#1", "-", "--1", "-x"),
]
"""Ids of every kind, without negative numbers of more than 19 digits."""
ANY_ID = st.one_of(
    st.integers(-(10**18), 10**25).map(str), st.text("01-#x9 ", max_size=4), st.sampled_from(IDS)
)


def key_of(name: str) -> tuple[int, int, bytes]:
    """Returns what orders an id: whole numbers by their values, others behind them."""
    number = re.match(r"(-?)([0-9]+)(#|\Z)", name)
    if number is None:
        return 1, 0, name.encode()
    value = int(number[2])
    # Minus zero comes before zero.
    return 0, -2 * value - 1 if number[1] else 2 * value, name.encode()


def texts(names: list[str]) -> pa.Array:
    return pa.array(names, pa.large_string())


def test_ids_of_every_kind_are_ordered_as_by_the_oracle() -> None:
    names = random.Random(1).sample(IDS, len(IDS))
    expected = sorted(names, key=key_of)
    assert list_in_order(names) == expected
    assert texts(names).take(pa.array(sort_ids(texts(names)))).to_pylist() == expected
    chunks = pa.chunked_array([texts(names[:5]), texts([]), texts(names[5:])])
    assert [names[at] for at in np.argsort(rank_ids(chunks))] == expected


@given(st.lists(ANY_ID, max_size=8))
def test_order_is_that_of_the_oracle(names: list[str]) -> None:
    assert list_in_order(names) == sorted(names, key=key_of)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_smallest_number_of_equal_documents_is_kept(kind: pa.DataType) -> None:
    numbers = [100, 20, 3, 10, 9]
    text = ["a b c d e"] * 3 + ["v w x y z"] * 2
    table = pa.table({"id": pa.array(numbers).cast(kind), "text": text})
    for rows in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]):
        result = nk.dedup(table.take(rows), id="id")
        clusters = result.clusters.arrow
        assert sorted(clusters.filter(clusters["kept"])["id"].to_pylist()) == ["3", "9"]


def test_smallest_number_of_a_reference_is_named() -> None:
    reference = {"id": ["100", "20", "3"], "text": ["a b c d e"] * 3}
    result = nk.dedup({"id": ["x"], "text": ["a b c d e"]}, id="id", against=reference)
    assert result.clusters["duplicate_of"].to_pylist() == ["3"]
