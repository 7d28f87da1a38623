"""Columns with dictionary or run-end encoding: their values, and the size of their text."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.runtime.arrow_types import (
    TEXT,
    is_binary,
    is_encoded,
    is_list,
    is_nested,
    is_text,
    view_as_binary,
)


def split_encoding(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Returns the stored values of an encoded array, and the place of each row among them.

    The place of a null is null.
    """
    if pa.types.is_dictionary(values.type):
        return use_large_offsets(values.dictionary), values.indices
    rows = np.arange(values.offset, values.offset + len(values))
    return use_large_offsets(values.values), pa.array(
        np.searchsorted(values.run_ends.to_numpy(), rows, side="right")
    )


def use_large_offsets(values: pa.Array) -> pa.Array:
    """Returns text and bytes with 64-bit offsets, which cannot overflow when rows are taken.

    Other columns are returned unchanged.
    """
    if is_text(values.type):
        return view_as_binary(values).view(TEXT)
    return values.cast(pa.large_binary()) if is_binary(values.type) else values


def remove_encoding(values: pa.Array) -> pa.Array:
    """Returns a column without dictionary, extension or run-end encoding."""
    if isinstance(values, pa.ExtensionArray):
        return remove_encoding(values.storage)
    if is_encoded(values.type):
        stored, places = split_encoding(values)
        return remove_encoding(stored.take(places))
    return values


def encode_runs(values: pa.Array, kind: pa.DataType) -> pa.RunEndEncodedArray:
    """Returns a column with run-end encoding.

    Arrow cannot encode views and dictionaries, but it can cast the values of runs.

    Args:
        values: A column without encoding.
        kind: The type to return.
    """
    runs = pc.run_end_encode(values, run_end_type=kind.run_end_type)
    return pa.RunEndEncodedArray.from_arrays(runs.run_ends, runs.values.cast(kind.value_type), kind)


def without_dictionary(kind: pa.DataType) -> pa.DataType:
    """Returns the type of a column without dictionary encoding. Run-end encoding is kept.

    Args:
        kind: The type of the column.
    """
    if pa.types.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, without_dictionary(kind.value_type))
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def measure_decoded_rows(values: pa.Array) -> np.ndarray | None:
    """Returns the number of bytes of text that each row takes once the encoding is removed.

    Args:
        values: A column. Its text may be encoded as a whole, or inside lists, maps and structs.

    Returns:
        int64 (n,), or None if the column has no encoded text.
    """
    if isinstance(values, pa.ExtensionArray):
        return measure_decoded_rows(values.storage)
    kind = values.type
    if pa.types.is_map(kind):
        entries = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return measure_decoded_rows(values.cast(pa.list_(entries)))
    if pa.types.is_struct(kind):
        parts = [
            sizes
            for field in values.flatten()
            if (sizes := measure_decoded_rows(field)) is not None
        ]
        return np.sum(parts, axis=0) if parts else None
    if is_list(kind):
        return _measure_decoded_lists(values)
    if not is_encoded(kind):
        return None
    stored, places = split_encoding(values)
    if not (is_text(stored.type) or is_binary(stored.type)):
        return None
    lengths = pc.binary_length(view_as_binary(stored)).take(places)
    return np.asarray(lengths.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _measure_decoded_lists(lists: pa.Array) -> np.ndarray | None:
    element_sizes = measure_decoded_rows(lists.flatten())
    if element_sizes is None:
        return None
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    totals = np.concatenate([[0], np.cumsum(element_sizes)])
    return np.asarray(totals[ends] - totals[ends - lengths], np.int64)


def cast_to_stored_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns a column in the type that it had before its text was read as dictionaries.

    Args:
        values: The column.
        kind: The type.
    """
    if values.type == kind:
        return values
    if is_nested(kind) and measure_decoded_rows(values) is not None:
        # A cast would decode all elements of the array of which these rows are a slice.
        values = values.take(pa.array(np.arange(len(values))))
    if pa.types.is_dictionary(values.type):
        values = use_large_offsets(values.dictionary).take(values.indices)
    if pa.types.is_run_end_encoded(kind):
        return encode_runs(remove_encoding(values), kind)
    return replace_list_views(values).cast(kind)


def replace_list_views(values: pa.Array) -> pa.Array:
    """Returns a column of list views as large lists, and any other column as it is.

    Arrow's own cast (26.0) loses the last list after an empty one, and fails or returns wrong
    lists for slices.

    Args:
        values: The column.

    Examples:
        >>> views = pa.array([["a"], [], ["b"]], pa.list_view(pa.string()))
        >>> replace_list_views(views).to_pylist()
        [['a'], [], ['b']]
    """
    if not (pa.types.is_list_view(values.type) or pa.types.is_large_list_view(values.type)):
        return values
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return pa.LargeListArray.from_arrays(pa.array(offsets), values.flatten(), mask=values.is_null())


def remove_encoding_within(values: pa.Array, limit: int) -> tuple[pa.Array, list[int]]:
    """Returns a column without encoding, and the positions of its values that are too long.

    A few bytes can stand for a text of any length in each row of an encoded column, so values
    that are too long are not decoded and become null. Text inside lists, maps and structs stays
    encoded.

    Args:
        values: The column.
        limit: The maximum size of a value in bytes.
    """
    sizes = measure_decoded_rows(values)
    if sizes is None or not (sizes > limit).any():
        return remove_encoding(values), []
    if isinstance(values, pa.ExtensionArray):
        return remove_encoding_within(values.storage, limit)
    if not is_encoded(values.type):
        rows = pa.array(np.arange(len(values)), mask=sizes > limit)
        return values.take(rows), list(np.flatnonzero(sizes > limit).tolist())
    stored, places = split_encoding(values)
    within = pc.if_else(pa.array(sizes <= limit), places, None)
    return remove_encoding(stored.take(within)), list(np.flatnonzero(sizes > limit).tolist())
