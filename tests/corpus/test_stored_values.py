"""Tests of stored values: their kinds, and columns in which some of them are replaced."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.encoded_columns import cast_to_stored_type
from nearkin.corpus.formats.base import ValueForm
from nearkin.corpus.stored_values import (
    ValueKind,
    decode_values,
    encode_values,
    kind_of_type,
    kind_of_value,
    replace_stored,
    show_values,
    store_texts,
    to_plain,
)

KINDS = [
    (pa.string(), ["a", "b", None]),
    (pa.large_string(), ["a", "b", None]),
    (pa.string_view(), ["a", "b", None]),
    (pa.binary(), [b"a", b"b", None]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None]),
    (pa.run_end_encoded(pa.int32(), pa.string()), ["a", "b", None]),
    (pa.int16(), [1, 2, None]),
    (pa.decimal128(5, 2), [1, 2, None]),
    (pa.timestamp("ns", "UTC"), [datetime(2024, 1, 1), datetime(2024, 1, 2), None]),
    (pa.date32(), [date(2024, 1, 1), date(2024, 1, 2), None]),
    (pa.list_(pa.string()), [["a"], [], None]),
    (pa.list_(pa.float32(), 2), [[1, 2], [3, 4], None]),
    (pa.struct([("a", pa.int8())]), [{"a": 1}, {"a": None}, None]),
    (pa.map_(pa.string(), pa.int8()), [[("a", 1)], [], None]),
    (pa.bool_(), [True, False, None]),
]


@pytest.mark.parametrize(("kind", "values"), KINDS)
def test_replaced_values_have_the_type_of_the_column(kind: pa.DataType, values: list[Any]) -> None:
    plain = pa.array(values, kind.value_type if hasattr(kind, "run_end_type") else kind)
    before = pa.compute.run_end_encode(plain) if hasattr(kind, "run_end_type") else plain
    new = to_plain(before).take(pa.array([1, None, 0]))
    replaced = cast_to_stored_type(replace_stored(before, new), before.type)
    assert replaced.type == before.type
    listed = before.to_pylist()
    assert replaced.to_pylist() == [listed[1], listed[1], listed[0]]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.string(), ValueKind.TEXT),
        (pa.float16(), ValueKind.NUMBER),
        (pa.decimal256(40, 2), ValueKind.NUMBER),
        (pa.date64(), ValueKind.TIME),
        (pa.time32("s"), ValueKind.DURATION),
        (pa.bool_(), ValueKind.BOOLEAN),
        (pa.large_list(pa.int8()), ValueKind.LIST),
        (pa.list_(pa.float32(), 2), ValueKind.OTHER),
        (pa.binary(), ValueKind.OTHER),
    ],
)
def test_kinds_of_types(kind: pa.DataType, expected: ValueKind) -> None:
    assert kind_of_type(kind) is expected


def test_kinds_of_values() -> None:
    values = ["a", True, 1, 1.5, date(2024, 1, 1), [1], {"a": 1}, None]
    assert [kind_of_value(value) for value in values] == [
        ValueKind.TEXT,
        ValueKind.BOOLEAN,
        ValueKind.NUMBER,
        ValueKind.NUMBER,
        ValueKind.TIME,
        ValueKind.LIST,
        ValueKind.OTHER,
        ValueKind.OTHER,
    ]


@pytest.mark.parametrize("form", [ValueForm.JSON, ValueForm.OBJECT])
def test_values_of_python_are_stored_and_shown(form: ValueForm) -> None:
    kind = pa.large_string() if form is ValueForm.JSON else pa.large_binary()
    values = ["é", 2**70, [1, None], {"a": [1.5]}, None]
    stored = encode_values(values, form, kind)
    assert stored.type == kind
    assert decode_values(stored, form).values == values
    shown = show_values(stored, form)
    assert [str(shown[1]), shown[4]] == [str(2**70), None]


def test_texts_are_stored_in_the_form_of_their_format() -> None:
    texts = pa.array(['a"b', None], pa.large_string())
    assert store_texts(texts, ValueForm.ARROW) is texts
    assert store_texts(texts, ValueForm.JSON).to_pylist() == ['"a\\"b"', None]
    assert decode_values(store_texts(texts, ValueForm.OBJECT), ValueForm.OBJECT).values == [
        'a"b',
        None,
    ]


def test_texts_that_are_stored_as_bytes_are_replaced(tmp_path: Path) -> None:
    table = pa.table({"text": pa.array([b"one", b"two"], pa.binary())})
    pq.write_table(table, tmp_path / "a.parquet")
    texts = pa.array([None, "new"], pa.large_string())
    corpus = FileCorpus.open([str(tmp_path / "a.parquet")])
    kept = np.ones(2, bool)
    write_kept(corpus, Columns(), kept, tmp_path / "out", rewrite=lambda first, _: texts)
    assert pq.read_table(tmp_path / "out" / "a.parquet").equals(
        pa.table({"text": pa.array([b"one", b"new"], pa.binary())})
    )
