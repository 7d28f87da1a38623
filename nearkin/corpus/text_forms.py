"""The text form of values of any type, for ids and carried columns.

The form of a value depends on the value alone. A result therefore does not depend on how rows
are divided into files and batches.
"""

import uuid
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.encoded_columns import split_encoding
from nearkin.runtime.arrow_types import (
    TEXT,
    is_binary,
    is_encoded,
    is_list,
    is_nested,
    is_text,
    view_as_binary,
)

UUID_BYTES = 16
"""The number of bytes of a UUID."""
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""The number of nanoseconds in each unit of a duration."""


def format_as_text(values: pa.Array) -> pa.Array:
    r"""Returns each value of a column as text, large_string. A null stays null.

    Numbers are decimal. Dates and times have their ISO form, in UTC if they have a time zone. A
    duration is its number of nanoseconds. In columns of a fixed size, 16 bytes are a UUID, and
    other bytes are hexadecimal digits. Bytes of any length are their UTF-8 text, or `\x` and
    hexadecimal digits if they are not valid UTF-8. Lists and structs are JSON. A text column is
    not validated; use `validate_text` for that.

    Examples:
        >>> format_as_text(pa.array([1.5, 2.0, None])).to_pylist()
        ['1.5', '2', None]
        >>> format_as_text(pa.array([{"a": [1, 2]}])).to_pylist()
        ['{"a":[1,2]}']
        >>> format_as_text(pa.array([bytes(16)], pa.binary(16))).to_pylist()
        ['00000000-0000-0000-0000-000000000000']
    """
    if isinstance(values, pa.ExtensionArray):
        return format_as_text(values.storage)
    if is_encoded(values.type):
        stored, places = split_encoding(values)
        return format_as_text(stored).take(places)
    kind = values.type
    if is_text(kind):
        return view_as_binary(values).view(TEXT)
    if is_binary(kind):
        return pa.array(map(_text_of_bytes, values.to_pylist()), TEXT)
    if pa.types.is_fixed_size_binary(kind):
        convert = _uuid_text if kind.byte_width == UUID_BYTES else bytes.hex
        return pa.array(
            [None if value is None else convert(value) for value in values.to_pylist()], TEXT
        )
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
        return pa.array(
            [None if value is None else _json(value) for value in _json_values(values)], TEXT
        )
    return values.cast(TEXT)


def validate_text(values: pa.Array) -> tuple[pa.Array, list[int]]:
    """Returns text or bytes as large_string, and the positions of values that are not valid UTF-8.

    Those values are null in the result.
    """
    raw = view_as_binary(values)
    text = raw.view(TEXT)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        # Arrow does not check the offsets of values that it reads from a file.
        raw.validate(full=True)
        broken = [
            at
            for at, value in enumerate(raw.to_pylist())
            if value is not None and not is_utf8(value)
        ]
        fit = np.ones(len(raw), bool)
        fit[broken] = False
        return pc.if_else(pa.array(fit), raw, None).cast(TEXT), broken
    return text, []


def is_utf8(content: bytes) -> bool:
    r"""Returns whether bytes are valid UTF-8, without decoding them.

    Examples:
        >>> is_utf8("é".encode()), is_utf8(b"\xe9")
        (True, False)
    """
    if content.isascii():
        return True
    offsets = pa.py_buffer(np.array([0, len(content)], np.int64))
    text = pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(content))
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def format_as_readable_text(values: pa.Array) -> pa.Array:
    r"""Returns `format_as_text` of a column, with invalid UTF-8 escaped as `\xff`."""
    formatted = format_as_text(values)
    text, broken = validate_text(formatted)
    if not broken:
        return text
    raw = formatted.view(pa.large_binary()).to_pylist()
    return pa.array(
        [None if value is None else value.decode("utf-8", "backslashreplace") for value in raw],
        TEXT,
    )


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
    """Returns ISO times without trailing zeros.

    Equal times of different units have equal forms, and the forms sort like the times.
    """
    short = _without_trailing_zeros(values.cast(pa.timestamp(values.type.unit)).cast(TEXT))
    if values.type.tz is None:
        return short
    # "+" sorts before ".", so a whole second sorts before its fractions.
    return pc.binary_join_element_wise(short, pa.scalar("+00:00", TEXT), pa.scalar("", TEXT))


def _without_trailing_zeros(times: pa.Array) -> pa.Array:
    short = pc.replace_substring_regex(times, r"(\.\d*[1-9])0+$", r"\1")
    return pc.replace_substring_regex(short, r"\.0+$", "")


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def _json_values(values: pa.Array) -> list[Any]:
    """Returns the values of a column as JSON types. Types that JSON does not have become text."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _json_values(values.storage)
    if is_encoded(kind):
        stored, places = split_encoding(values)
        return _json_values(stored.take(places))
    if pa.types.is_map(kind):
        return _json_values(
            values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        )
    if is_list(kind):
        return _json_lists(values)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        columns = [_json_values(column) for column in values.flatten()]
        rows: list[dict[str, object]] = [{}] * len(values)
        if columns:
            rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        valid = values.is_valid().to_pylist()
        return [row if there else None for row, there in zip(rows, valid, strict=True)]
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    ):
        return list(values.to_pylist())
    if pa.types.is_interval(kind):
        return [None if value is None else list(value) for value in values.to_pylist()]
    if pa.types.is_union(kind):
        return [
            value if value is None or isinstance(value, str | int | float) else str(value)
            for value in values.to_pylist()
        ]
    return list(format_as_readable_text(values).to_pylist())


def _json_lists(values: pa.Array) -> list[Any]:
    lengths = pc.list_value_length(values).to_pylist()
    # flatten() leaves out the elements of null lists, also of lists of a fixed size.
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


def format_content(content: Any, most_items: int) -> str:
    """Returns the content of a document as a text, for people to read.

    It is a text, tokens or a vector as a list, a fingerprint as bytes, or a dictionary of these by
    the names of their columns. Nulls of a dictionary are left out.

    Examples:
        >>> format_content([1.5, 2.5, 3.5], 2), format_content(bytes([255]), 2)
        ('1.5 2.5', 'ff')
        >>> format_content({"tags": ["a", "b"], "body": None, "text": "one"}, 9).splitlines()
        ['tags: a b', 'text: one']
    """
    match content:
        case dict():
            return "\n".join(
                f"{name}: {format_content(value, most_items)}"
                for name, value in content.items()
                if value is not None
            )
        case bytes():
            return content.hex()
        case str():
            return content
        case _:
            return " ".join(map(str, content[:most_items]))
