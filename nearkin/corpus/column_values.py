"""The text form of values: of ids, and of the columns that ride along for keep policy, block, source and split.

The form of a value depends on the value alone, never on its neighbours, so a result cannot depend on how rows are divided into
files and batches. Every Arrow type has a form.
"""

import uuid
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()
UUID_BYTES = 16
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def text_form(values: pa.Array) -> pa.Array:
    """Returns each value of a column as text, large_string; a null stays null.

    Numbers are decimal, dates and times have their ISO form (times with a zone in UTC), a duration is its nanoseconds. In a
    column of fixed size, 16 bytes are a uuid and others hexadecimal digits; other bytes are their UTF-8 text, or `\\x` and
    hexadecimal digits. Lists and structs are JSON. A text column is not validated: see `valid_text`.

    Examples:
        >>> text_form(pa.array([1.5, 2.0, None])).to_pylist()
        ['1.5', '2', None]
        >>> text_form(pa.array([{"a": [1, 2]}])).to_pylist()
        ['{"a":[1,2]}']
        >>> text_form(pa.array([bytes(16)], pa.binary(16))).to_pylist()
        ['00000000-0000-0000-0000-000000000000']
    """
    if isinstance(values, pa.ExtensionArray):
        return text_form(values.storage)
    if is_encoded(values.type):
        stored, places = stored_values(values)
        return text_form(stored).take(places)
    kind = values.type
    if is_text(kind):
        return as_bytes(values).view(TEXT)
    if is_binary(kind):
        return pa.array(map(_text_of_bytes, values.to_pylist()), TEXT)
    if pa.types.is_fixed_size_binary(kind):
        convert = _uuid_text if kind.byte_width == UUID_BYTES else bytes.hex
        return pa.array([None if value is None else convert(value) for value in values.to_pylist()], TEXT)
    if pa.types.is_float16(kind):
        return values.cast(pa.float32()).cast(TEXT)
    if pa.types.is_timestamp(kind):
        return _text_of_times(values)
    if pa.types.is_time(kind):
        return _without_trailing_zeros(values.cast(TEXT))
    if pa.types.is_date64(kind):
        return values.cast(pa.date32()).cast(TEXT)
    if pa.types.is_duration(kind):
        factor = NANOSECONDS[kind.unit]
        counts = values.cast(pa.int64()).to_pylist()
        return pa.array([None if count is None else str(count * factor) for count in counts], TEXT)
    if is_nested(kind) or pa.types.is_interval(kind):
        return pa.array([None if value is None else _json(value) for value in _json_values(values)], TEXT)
    return values.cast(TEXT)


def valid_text(values: pa.Array) -> tuple[pa.Array, list[int]]:
    """Returns text or bytes as large_string, null where they are not valid UTF-8, and the positions where that is so."""
    raw = as_bytes(values)
    text = raw.view(TEXT)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        broken = [at for at, value in enumerate(raw.to_pylist()) if value is not None and not _is_utf8(value)]
        fit = np.ones(len(raw), bool)
        fit[broken] = False
        return pc.if_else(pa.array(fit), raw, None).cast(TEXT), broken
    return text, []


def readable_text(values: pa.Array) -> pa.Array:
    """Returns `text_form` of a column; bytes of a text that are not valid UTF-8 are escaped as in `\\xff`."""
    found = text_form(values)
    text, broken = valid_text(found)
    if not broken:
        return text
    raw = found.view(pa.large_binary()).to_pylist()
    return pa.array([None if value is None else value.decode("utf-8", "backslashreplace") for value in raw], TEXT)


def as_bytes(values: pa.Array) -> pa.Array:
    """Returns text or bytes as large_binary without looking at the bytes (a cast from text would refuse the whole array)."""
    if pa.types.is_large_string(values.type):
        return values.view(pa.large_binary())
    if pa.types.is_string(values.type):
        values = values.view(pa.binary())
    return values.cast(pa.large_binary())


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_binary(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes of any length."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def is_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists, of whatever layout."""
    return (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def is_nested(kind: pa.DataType) -> bool:
    """Whether values of a type have parts."""
    return is_list(kind) or pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_union(kind)


def type_without_views(kind: pa.DataType) -> pa.DataType:
    """Returns a type with large text or bytes in place of views, inside of lists and structs too."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(type_without_views(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return make(kind.value_field.with_type(type_without_views(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(type_without_views(kind.value_type)), kind.list_size)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, type_without_views(kind.value_type), kind.ordered)
    return kind


def is_encoded(kind: pa.DataType) -> bool:
    """Whether an array of a type stores each distinct value, or each run of equal ones, once."""
    return bool(pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind))


def stored_values(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Returns what a dictionary or run-end encoded array stores, and each row's place there (null for a null index)."""
    if pa.types.is_dictionary(values.type):
        return large_offsets(values.dictionary), values.indices
    rows = np.arange(values.offset, values.offset + len(values))
    return large_offsets(values.values), pa.array(np.searchsorted(values.run_ends.to_numpy(), rows, side="right"))


def large_offsets(values: pa.Array) -> pa.Array:
    """Returns text and bytes with 64-bit offsets, so that taking rows of them cannot overflow; another column as it is."""
    if is_text(values.type):
        return as_bytes(values).view(TEXT)
    return values.cast(pa.large_binary()) if is_binary(values.type) else values


def decoded(values: pa.Array) -> pa.Array:
    """Returns a column without dictionary, extension or run-end encoding."""
    if isinstance(values, pa.ExtensionArray):
        return decoded(values.storage)
    if is_encoded(values.type):
        stored, places = stored_values(values)
        return decoded(stored.take(places))
    return values


def unfolded_sizes(values: pa.Array) -> np.ndarray | None:
    """Returns the number of bytes of text that each row takes once the encoding is removed.

    Args:
        values: A column. Its text may be encoded as a whole, or inside lists, maps and structs.

    Returns:
        int64 (n,), or None if the column has no encoded text.
    """
    if isinstance(values, pa.ExtensionArray):
        return unfolded_sizes(values.storage)
    kind = values.type
    if pa.types.is_map(kind):
        entries = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return unfolded_sizes(values.cast(pa.list_(entries)))
    if pa.types.is_struct(kind):
        parts = [sizes for field in values.flatten() if (sizes := unfolded_sizes(field)) is not None]
        return np.sum(parts, axis=0) if parts else None
    if is_list(kind):
        return _unfolded_list_sizes(values)
    if not is_encoded(kind):
        return None
    stored, places = stored_values(values)
    if not (is_text(stored.type) or is_binary(stored.type)):
        return None
    lengths = pc.binary_length(as_bytes(stored)).take(places)
    return np.asarray(lengths.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _unfolded_list_sizes(lists: pa.Array) -> np.ndarray | None:
    element_sizes = unfolded_sizes(lists.flatten())
    if element_sizes is None:
        return None
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    totals = np.concatenate([[0], np.cumsum(element_sizes)])
    return np.asarray(totals[ends] - totals[ends - lengths], np.int64)


def in_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns a column in the type that it had before its reader encoded its text as dictionaries."""
    if values.type == kind:
        return values
    if is_nested(kind) and unfolded_sizes(values) is not None:
        # a cast would decode all elements of the array that these rows are a slice of
        values = values.take(pa.array(np.arange(len(values))))
    if pa.types.is_dictionary(values.type):
        values = large_offsets(values.dictionary).take(values.indices)
    return values.cast(kind)


def decoded_within(values: pa.Array, limit: int) -> tuple[pa.Array, list[int]]:
    """Returns `decoded` of a column without the values of more than `limit` bytes, and where those are; they become null.

    A few bytes can stand for a text of any length in each row of an encoded column, so that they are never unfolded. Text
    inside lists, maps and structs stays encoded.
    """
    sizes = unfolded_sizes(values)
    if sizes is None or not (sizes > limit).any():
        return decoded(values), []
    if isinstance(values, pa.ExtensionArray):
        return decoded_within(values.storage, limit)
    if not is_encoded(values.type):
        rows = pa.array(np.arange(len(values)), mask=sizes > limit)
        return values.take(rows), list(np.flatnonzero(sizes > limit).tolist())
    stored, places = stored_values(values)
    within = pc.if_else(pa.array(sizes <= limit), places, None)
    return decoded(stored.take(within)), list(np.flatnonzero(sizes > limit).tolist())


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text_of_bytes(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"\\x{value.hex()}"


def _uuid_text(value: bytes) -> str:
    return str(uuid.UUID(bytes=value))


def _text_of_times(values: pa.Array) -> pa.Array:
    """Returns ISO times without trailing zeros, so that equal times of different units are equal, and sort as text."""
    short = _without_trailing_zeros(values.cast(pa.timestamp(values.type.unit)).cast(TEXT))
    if values.type.tz is None:
        return short
    # "+" sorts before ".", as a whole second does before its fractions
    return pc.binary_join_element_wise(short, pa.scalar("+00:00", TEXT), pa.scalar("", TEXT))


def _without_trailing_zeros(times: pa.Array) -> pa.Array:
    short = pc.replace_substring_regex(times, r"(\.\d*[1-9])0+$", r"\1")
    return pc.replace_substring_regex(short, r"\.0+$", "")


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def _json_values(values: pa.Array) -> list[Any]:
    """Returns the values of a column as JSON has them: numbers, truth values, nulls, lists, objects, and text for all else."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _json_values(values.storage)
    if is_encoded(kind):
        stored, places = stored_values(values)
        return _json_values(stored.take(places))
    if pa.types.is_map(kind):
        return _json_values(values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))))
    if is_list(kind):
        return _json_lists(values)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        columns = [_json_values(column) for column in values.flatten()]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if columns else [{}] * len(values)
        valid = values.is_valid().to_pylist()
        return [row if there else None for row, there in zip(rows, valid, strict=True)]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return list(values.to_pylist())
    if pa.types.is_union(kind) or pa.types.is_interval(kind):
        return [None if value is None else str(value) for value in values.to_pylist()]
    return list(readable_text(values).to_pylist())


def _json_lists(values: pa.Array) -> list[Any]:
    lengths = pc.list_value_length(values).to_pylist()
    # flatten leaves out what null lists refer to, those of a fixed size too
    items = _json_values(values.flatten())
    rows: list[Any] = []
    start = 0
    for length in lengths:
        if length is None:
            rows.append(None)
            continue
        rows.append(items[start : start + length])
        start += length
    return rows
