"""Integers of any size: of Python objects and of JSON, as Arrow columns.

Arrow takes all integers of Python for numbers of 64 bits with a sign, and refuses larger ones. Here
a column of integers from 0 to 2^64 - 1 has the type uint64, and one with other integers is decimal.
In a column of floats, integers are floats.
"""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nearkin.runtime.arrow_types import is_list

SIGNED = (-(1 << 63), (1 << 63) - 1)
UNSIGNED = (0, (1 << 64) - 1)
DECIMAL = pa.decimal128(38)
LONG_DECIMAL = pa.decimal256(76)


def convert_values(values: Sequence[Any], kind: pa.DataType | None = None) -> Any:
    """Returns Python objects as an Arrow array, or in chunks if it is large.

    Examples:
        >>> convert_values([2**63, 1]).type, convert_values([2**63, -1]).type
        (DataType(uint64), Decimal128Type(decimal128(38, 0)))
        >>> convert_values([{"a": [2**64]}]).to_pylist()
        [{'a': [Decimal('18446744073709551616')]}]
        >>> convert_values([0.5, 2**63]).to_pylist()
        [0.5, 9.223372036854776e+18]
    """
    try:
        return pa.array(values, kind, from_pandas=True)
    except (OverflowError, pa.ArrowInvalid) as error:
        objects = list(values)
        inferred = kind or pa.infer_type(objects, from_pandas=True)
        widened, objects = _widen(inferred, objects, is_fixed=kind is not None)
        try:
            return pa.array(objects, widened, from_pandas=True)
        except OverflowError as still:
            raise pa.ArrowInvalid(str(still)) from error


def _widen(
    kind: pa.DataType, values: list[Any], *, is_fixed: bool
) -> tuple[pa.DataType, list[Any]]:
    """Returns the type that holds all integers of some values, and the values for this type."""
    if pa.types.is_floating(kind):
        return kind, [float(value) if _is_integer(value) else value for value in values]
    if pa.types.is_integer(kind) and not is_fixed:
        return _smallest_type(int(value) for value in values if _is_integer(value)), values
    if is_list(kind):
        lists = [value for value in values if isinstance(value, Iterable)]
        items = [item for value in lists for item in value]
        item_type, widened = _widen(kind.value_type, items, is_fixed=is_fixed)
        rest = iter(widened)
        parts = (
            [next(rest) for _ in value] if isinstance(value, Iterable) else value
            for value in values
        )
        return (kind if is_fixed else pa.list_(item_type)), list(parts)
    if pa.types.is_struct(kind):
        rows = [dict(value) if isinstance(value, Mapping) else value for value in values]
        fields = []
        for field in kind:
            places = [row for row in rows if isinstance(row, dict) and field.name in row]
            old = [row[field.name] for row in places]
            field_type, widened = _widen(field.type, old, is_fixed=is_fixed)
            for row, value in zip(places, widened, strict=True):
                row[field.name] = value
            fields.append(field.with_type(field_type))
        return pa.struct(fields), rows
    return kind, values


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _smallest_type(numbers: Iterable[int]) -> pa.DataType:
    present = list(numbers)
    low = min(present, default=0)
    high = max(present, default=0)
    if SIGNED[0] <= low and high <= SIGNED[1]:
        return pa.int64()
    if UNSIGNED[0] <= low and high <= UNSIGNED[1]:
        return pa.uint64()
    if max(-low, high) < 10**DECIMAL.precision:
        return DECIMAL
    if max(-low, high) < 10**LONG_DECIMAL.precision:
        return LONG_DECIMAL
    raise pa.ArrowInvalid(
        f"an integer has more than {LONG_DECIMAL.precision} digits; pass such numbers as texts"
    )


def unify_schemas(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Returns a schema for the rows of several ones."""
    mixed = _columns_of_both_signs(schemas)
    widened = [
        pa.schema(
            field.with_type(DECIMAL)
            if field.name in mixed and pa.types.is_integer(field.type)
            else field
            for field in schema
        )
        for schema in schemas
    ]
    return pa.unify_schemas(widened, promote_options="permissive")


def concat_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Returns the rows of tables whose columns can have different types."""
    aligned = list(tables)
    for name in _columns_of_both_signs([table.schema for table in tables]):
        parts = {at: table[name] for at, table in enumerate(tables) if name in table.column_names}
        parts = {at: part for at, part in parts.items() if pa.types.is_integer(part.type)}
        least = [pc.min(part).as_py() for part in parts.values()]
        is_unsigned = all(value is None or value >= 0 for value in least)
        for at, part in parts.items():
            position = aligned[at].schema.get_field_index(name)
            column = part.cast(pa.uint64() if is_unsigned else DECIMAL)
            aligned[at] = aligned[at].set_column(position, name, column)
    return pa.concat_tables(aligned, promote_options="permissive")


def _columns_of_both_signs(schemas: Sequence[pa.Schema]) -> list[str]:
    """Returns the columns that are of type uint64 in one schema and of signed integers in another.

    Arrow combines them to int64, which does not hold all values.
    """
    kinds: dict[str, set[pa.DataType]] = {}
    for schema in schemas:
        for field in schema:
            kinds.setdefault(field.name, set()).add(field.type)
    return [
        name
        for name, types in kinds.items()
        if pa.uint64() in types and any(map(pa.types.is_signed_integer, types))
    ]
