"""Checks of record batches of strangers, before anything else looks at their values.

Arrow does not check what it reads from a file or receives from another library. An offset that is
wrong then ends the process, or copies memory of the process into a result.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import BATCH_ROWS
from nearkin.corpus.foreign_errors import describe_error
from nearkin.corpus.text_forms import validate_text
from nearkin.runtime.arrow_types import is_list, is_text

VALUES_OF_BYTE = 8
"""The largest number of values that a byte stands for. Truth values take a bit each."""
BYTES_OF_TEXT = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
"""The type of any bytes with the layout of each type of text."""
LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)
"""The test for each layout of lists of any length, and the function that makes the type."""


class Examination(NamedTuple):
    """The faults of a batch."""

    damage: str | None = None
    """Why its values must not be looked at, or None."""
    has_invalid_values: bool = False
    """True if some values are not what their type allows, for example text that is not UTF-8."""


def examine_batch(batch: pa.RecordBatch) -> Examination:
    """Returns the faults of a batch."""
    size = batch.get_total_buffer_size()
    for count in _count_values(batch):
        if count > BATCH_ROWS + VALUES_OF_BYTE * size:
            return Examination(f"it claims {count:,} values in {size:,} bytes")
    return _validate(batch)


def find_damage(batch: pa.RecordBatch) -> str | None:
    """Returns why the values of a batch in memory must not be looked at, or None.

    Unlike in a file, rows may be any number, because the memory of the caller holds them already.
    """
    return _validate(batch).damage


def _validate(batch: pa.RecordBatch) -> Examination:
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        if not all(_is_valid(column, keeps_text=False) for column in batch.columns):
            return Examination(describe_error(error))
        return Examination(has_invalid_values=True)
    return Examination()


def find_invalid_text(batch: pa.RecordBatch, names: Collection[str]) -> dict[int, str]:
    """Returns the rows with text that is not valid UTF-8 in a column that is only copied.

    Few readers open a copy of such a row.
    """
    reasons: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name not in names and not _is_valid(column, keeps_text=True):
            broken = validate_text(column)[1] if is_text(column.type) else range(len(column))
            reasons.update(dict.fromkeys(broken, f"{name} is not valid UTF-8"))
    return reasons


def _is_valid(values: pa.Array, *, keeps_text: bool) -> bool:
    """Returns whether a column is valid if all values are allowed, or all but those of text."""
    if isinstance(values, pa.ExtensionArray):
        return _is_valid(values.storage, keeps_text=keeps_text)
    try:
        values.view(_widen_type(values.type, keeps_text=keeps_text)).validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _widen_type(kind: pa.DataType, *, keeps_text: bool) -> pa.DataType:
    """Returns a type of the same layout that allows all values, such as bytes in place of text."""

    def widen(inner: pa.DataType) -> pa.DataType:
        return _widen_type(inner, keeps_text=keeps_text)

    def widen_field(field: pa.Field) -> pa.Field:
        return field.with_type(widen(field.type))

    types = pa.types
    if not keeps_text and kind in BYTES_OF_TEXT:
        return BYTES_OF_TEXT[kind]
    if types.is_date64(kind) or types.is_time(kind) or types.is_decimal(kind):
        return pa.binary(kind.bit_width // 8)
    if types.is_struct(kind):
        return pa.struct([widen_field(field) for field in kind])
    if types.is_map(kind):
        return pa.map_(widen(kind.key_type), widen(kind.item_type))
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, widen(kind.value_type), kind.ordered)
    if types.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, widen(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(widen_field(kind.value_field), kind.list_size)
    for has_layout, make in LISTS:
        if has_layout(kind):
            return make(widen_field(kind.value_field))
    return kind


def _count_values(batch: pa.RecordBatch) -> Iterator[int]:
    """Yields the number of rows, and the numbers of values within lists at every depth."""
    yield len(batch)
    for column in batch.columns:
        yield from _count_nested_values(column)


def _count_nested_values(values: pa.Array) -> Iterator[int]:
    if isinstance(values, pa.ExtensionArray):
        yield from _count_nested_values(values.storage)
    elif pa.types.is_dictionary(values.type):
        yield from _count_nested_values(values.dictionary)
    elif pa.types.is_run_end_encoded(values.type):
        yield from _count_nested_values(values.values)
    elif pa.types.is_struct(values.type) or pa.types.is_union(values.type):
        for number in range(values.type.num_fields):
            yield from _count_nested_values(values.field(number))
    elif is_list(values.type) or pa.types.is_map(values.type):
        # Views may overlap, so that few values stand for any number.
        yield _count_elements(values)
        yield len(values.values)
        yield from _count_nested_values(values.values)


def _count_elements(lists: pa.Array) -> int:
    if not (pa.types.is_list_view(lists.type) or pa.types.is_large_list_view(lists.type)):
        return len(lists.values)
    sizes = lists.sizes.to_numpy(zero_copy_only=False)
    return int(np.sum(sizes, dtype=np.float64))
