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
    """
    runs = pc.run_end_encode(values, run_end_type=kind.run_end_type)
    return pa.RunEndEncodedArray.from_arrays(runs.run_ends, runs.values.cast(kind.value_type), kind)


def without_dictionary(kind: pa.DataType) -> pa.DataType:
    """Returns the type of a column without dictionary encoding. Run-end encoding is kept."""
    if pa.types.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, without_dictionary(kind.value_type))
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def measure_decoded_rows(values: pa.Array) -> np.ndarray | None:
    """Returns the number of bytes that each row takes once the encoding is removed, int64 (n,).

    It is None if rows do not share stored values.
    """
    return _measure_rows(values) if shares_values(values.type) else None


def shares_values(kind: pa.DataType) -> bool:
    """Returns whether one stored value of a type can stand for any number of values."""
    if isinstance(kind, pa.BaseExtensionType):
        return shares_values(kind.storage_type)
    is_shared = (
        is_encoded(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )
    return is_shared or any(shares_values(field.type) for field in _fields_of(kind))


def _fields_of(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return [kind.field(number) for number in range(kind.num_fields)]
    return [kind.value_field] if is_list(kind) else []


def _measure_rows(values: pa.Array) -> np.ndarray:
    """Returns the number of bytes of each value, int64 (n,). Nulls and numbers of unions have 0."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        sizes = _measure_rows(values.storage)
    elif is_encoded(kind):
        stored, places = split_encoding(values)
        stored_sizes = pa.array(_measure_rows(stored))
        sizes = stored_sizes.take(places).fill_null(0).to_numpy(zero_copy_only=False)
    elif pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # Each view has four numbers, of which the first is its length. Arrow cannot compute it.
        end = 4 * (values.offset + len(values))
        views = np.frombuffer(values.buffers()[1] or b"", np.int32)
        sizes = views[4 * values.offset : end : 4].astype(np.int64)
    elif is_text(kind) or is_binary(kind):
        lengths = pc.binary_length(view_as_binary(values)).fill_null(0)
        sizes = lengths.to_numpy(zero_copy_only=False)
    elif pa.types.is_struct(kind):
        sizes = np.zeros(len(values), np.int64)
        for field in values.flatten():
            sizes = sizes + _measure_rows(field)
    elif is_list(kind) or pa.types.is_map(kind):
        return _measure_lists(values)
    else:
        is_fixed = not pa.types.is_null(kind) and not pa.types.is_union(kind)
        sizes = np.full(len(values), kind.bit_width // 8 if is_fixed else 0, np.int64)
    return _without_nulls(np.asarray(sizes, np.int64), values)


def _without_nulls(sizes: np.ndarray, values: pa.Array) -> np.ndarray:
    if not values.null_count:
        return sizes
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), sizes, 0)


def _measure_lists(lists: pa.Array) -> np.ndarray:
    """Returns the number of bytes of the elements of each list or map, int64 (n,)."""
    kind = lists.type
    if pa.types.is_fixed_size_list(kind):
        starts = (lists.offset + np.arange(len(lists))) * kind.list_size
        ends = starts + kind.list_size
    else:
        offsets = lists.offsets.to_numpy().astype(np.int64)
        starts = offsets[: len(lists)]
        ends = offsets[1:]
        if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
            ends = starts + lists.sizes.to_numpy()
    # The elements may be those of a whole batch, of which these lists are a slice.
    first = int(np.min(starts, initial=0 if not len(lists) else starts[0]))
    count = int(np.max(ends, initial=first)) - first
    parts = [lists.keys, lists.items] if pa.types.is_map(kind) else [lists.values]
    sizes = sum(_measure_rows(part.slice(first, count)) for part in parts)
    totals = np.concatenate([[0], np.cumsum(sizes)])
    return _without_nulls(totals[ends - first] - totals[starts - first], lists)


def cast_to_stored_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns a column in the type that it had before its text was read as dictionaries."""
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
    """Returns a column without encoding, and the positions of its values above a limit in bytes.

    A few bytes can stand for a text of any length in each row of an encoded column, so values that
    are too long are not decoded and become null. Text inside lists, maps and structs stays encoded.
    """
    sizes = measure_decoded_rows(values)
    if sizes is None or not (sizes > limit).any():
        return remove_encoding(values), []
    if isinstance(values, pa.ExtensionArray):
        return remove_encoding_within(values.storage, limit)
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        return _remove_long_views(values, sizes > limit), np.flatnonzero(sizes > limit).tolist()
    if not is_encoded(values.type):
        rows = pa.array(np.arange(len(values)), mask=sizes > limit)
        return values.take(rows), list(np.flatnonzero(sizes > limit).tolist())
    stored, places = split_encoding(values)
    within = pc.if_else(pa.array(sizes <= limit), places, None)
    return remove_encoding(stored.take(within)), list(np.flatnonzero(sizes > limit).tolist())


def _remove_long_views(views: pa.Array, mask: np.ndarray) -> pa.Array:
    """Returns views with null at each true position. Arrow cannot take views."""
    valid = views.is_valid().to_numpy(zero_copy_only=False) & ~mask
    bitmap = np.packbits(np.concatenate([np.zeros(views.offset, bool), valid]), bitorder="little")
    buffers = [pa.py_buffer(bitmap), *views.buffers()[1:]]
    return pa.Array.from_buffers(views.type, len(views), buffers, offset=views.offset)
