"""Values of columns as they are stored in files, which keeps their types when rows are changed.

A format of Arrow columns stores the type of a column. JSON and the values of Python (Avro, Excel)
have a type for each value, so a column of them holds their JSON texts, or their pickles.
"""

import json
import math
import pickle
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.encoded_columns import (
    encode_runs,
    remove_encoding,
    replace_list_views,
    use_large_offsets,
)
from nearkin.corpus.formats.base import ValueForm
from nearkin.corpus.formats.json_rows import parse_exact_json
from nearkin.corpus.text_forms import format_as_readable_text
from nearkin.runtime.arrow_types import TEXT, is_list, is_text


class ValueKind(StrEnum):
    """The kinds of values between which rules distinguish."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "date or time"
    DURATION = "duration"
    BOOLEAN = "boolean"
    LIST = "list"
    OTHER = "other"


class DecodedValues(NamedTuple):
    """The values of a column as objects of Python, which can be compared."""

    values: list[Any]
    """Each value. An empty one is None: a null, a text without characters but spaces, NaN, and a
    list without elements."""
    kinds: list[ValueKind]
    """The kind of each value."""


def decode_values(values: pa.Array, form: ValueForm) -> DecodedValues:
    """Returns stored values as objects of Python.

    Examples:
        >>> decode_values(pa.array(["a", " ", None]), ValueForm.ARROW).values
        ['a', None, None]
        >>> decode_values(pa.array(["[1, 2]", "1.50"]), ValueForm.JSON).values
        [[1, 2], 1.5]
    """
    if form is ValueForm.ARROW:
        kind = kind_of_type(values.type)
        decoded = _decode_column(values, kind)
        kinds = [kind] * len(decoded)
    else:
        decoded = load_objects(values) if form is ValueForm.OBJECT else _parse_texts(values)
        kinds = list(map(kind_of_value, decoded))
    return DecodedValues([None if is_empty(value) else value for value in decoded], kinds)


def _parse_texts(texts: pa.Array) -> list[Any]:
    return [None if text is None else parse_exact_json(text.encode()) for text in texts.to_pylist()]


def load_objects(values: pa.Array) -> list[Any]:
    """Returns the objects of Python that a column holds."""
    return [None if value is None else pickle.loads(value) for value in values.to_pylist()]


def store_objects(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> pa.RecordBatch:
    """Returns the values of some columns of rows of Python."""
    listed = list(rows)
    columns = [
        encode_values([row.get(name) for row in listed], ValueForm.OBJECT, pa.large_binary())
        for name in names
    ]
    return pa.record_batch(columns, list(names))


def store_texts(texts: pa.Array, form: ValueForm) -> pa.Array:
    """Returns texts, large_string (n,), in the form of a format."""
    kind = pa.large_binary() if form is ValueForm.OBJECT else TEXT
    return texts if form is ValueForm.ARROW else encode_values(texts.to_pylist(), form, kind)


def _decode_column(values: pa.Array, kind: ValueKind) -> list[Any]:
    if kind in (ValueKind.TIME, ValueKind.DURATION):
        # Nanoseconds do not fit the objects of Python.
        width = pa.int32() if values.type.bit_width == 32 else pa.int64()
        return list(values.view(width).to_pylist())
    if kind is ValueKind.LIST:
        items = _decode_column(_flatten(values), kind_of_type(values.type.value_type))
        return [items[start:end] for start, end in pairwise(_find_lists(values))]
    if kind is ValueKind.OTHER:
        return list(format_as_readable_text(values).to_pylist())
    return list(values.to_pylist())


def _find_lists(lists: pa.Array) -> list[int]:
    """Returns where each list begins among the elements of all, and the number of elements."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return [0, *np.cumsum(lengths).tolist()]


def _flatten(lists: pa.Array) -> pa.Array:
    """Returns the elements of all lists, as `to_plain` returns a column."""
    return to_plain(lists.flatten())


def encode_values(values: Sequence[Any], form: ValueForm, kind: pa.DataType) -> pa.Array:
    """Returns objects of Python as stored values, of which each None is null.

    Args:
        kind: The type of the column of stored values.

    Examples:
        >>> encode_values(["é", None, [1]], ValueForm.JSON, pa.large_string()).to_pylist()
        ['"é"', None, '[1]']
    """
    if form is ValueForm.ARROW:
        return pa.array(values, kind)
    encode = _to_json if form is ValueForm.JSON else pickle.dumps
    return pa.array([None if value is None else encode(value) for value in values], kind)


def _to_json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # An integer has more than 64 bits.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def join_lists(values: pa.Array, form: ValueForm, items: Sequence[Any]) -> pa.Array:
    """Returns new lists of the elements of stored lists.

    Args:
        items: The elements of each new list, as positions of a list and of an element in it; None
            for a null.

    Examples:
        >>> lists = pa.array([[1, 2], [3]])
        >>> join_lists(lists, ValueForm.ARROW, [[(0, 1), (1, 0)], None]).to_pylist()
        [[2, 3], None]
    """
    if form is not ValueForm.ARROW:
        decoded = decode_values(values, form).values
        lists = [
            None if places is None else [decoded[at][place] for at, place in places]
            for places in items
        ]
        return encode_values(lists, form, values.type)
    starts = _find_lists(values)
    taken = [starts[at] + place for places in items for at, place in places or ()]
    offsets = np.cumsum([0, *(len(places or ()) for places in items)])
    mask = pa.array([places is None for places in items])
    joined = pa.LargeListArray.from_arrays(
        pa.array(offsets), _flatten(values).take(pa.array(taken, pa.int64())), mask=mask
    )
    return joined.cast(values.type)


def is_empty(value: Any) -> bool:
    """Returns whether a value says nothing: null, NaN, spaces alone, or a list of no elements."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or value == []


def kind_of_type(kind: pa.DataType) -> ValueKind:
    """Returns the kind of the values of an Arrow type."""
    types = pa.types
    if is_text(kind):
        return ValueKind.TEXT
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return ValueKind.NUMBER
    if types.is_time(kind) or types.is_duration(kind):
        return ValueKind.DURATION
    if types.is_date(kind) or types.is_timestamp(kind):
        return ValueKind.TIME
    if types.is_boolean(kind):
        return ValueKind.BOOLEAN
    has_any_length = is_list(kind) and not types.is_fixed_size_list(kind)
    return ValueKind.LIST if has_any_length else ValueKind.OTHER


def kind_of_value(value: Any) -> ValueKind:
    """Returns the kind of an object of Python."""
    if isinstance(value, str):
        return ValueKind.TEXT
    if isinstance(value, bool):
        return ValueKind.BOOLEAN
    if isinstance(value, int | float | Decimal):
        return ValueKind.NUMBER
    if isinstance(value, time | timedelta):
        return ValueKind.DURATION
    if isinstance(value, date):
        return ValueKind.TIME
    return ValueKind.LIST if isinstance(value, list) else ValueKind.OTHER


def to_plain(values: pa.Array) -> pa.Array:
    """Returns a column without encodings and views, so that its values can be taken."""
    return replace_list_views(use_large_offsets(remove_encoding(values)))


def replace_stored(before: pa.Array, values: pa.Array) -> pa.Array:
    """Returns a column with other values, in its encoding. A null leaves a value as it is.

    Args:
        values: The other values, of the type that `to_plain` returns.

    Examples:
        >>> replace_stored(pa.array(["a", "b"]), pa.array([None, "c"], pa.large_string()))[1]
        <pyarrow.LargeStringScalar: 'c'>
    """
    kept = np.arange(len(values))
    is_new = values.is_valid().to_numpy(zero_copy_only=False)
    places = np.where(is_new, len(kept) + kept, kept)
    plain = to_plain(before)
    # Texts may be stored as bytes.
    replaced = pa.concat_arrays([plain, values.cast(plain.type)]).take(pa.array(places))
    if pa.types.is_dictionary(before.type):
        return replaced.dictionary_encode()
    if pa.types.is_run_end_encoded(before.type):
        return encode_runs(replaced, before.type)
    return replaced


def show_values(values: pa.Array, form: ValueForm) -> list[str | None]:
    """Returns stored values as texts, for people."""
    if form is ValueForm.ARROW:
        return list(format_as_readable_text(values).to_pylist())
    if form is ValueForm.OBJECT:
        return [None if value is None else str(value) for value in load_objects(values)]
    return list(values.to_pylist())
