"""The columns of DataFrames by their names, or by paths into structs, maps and arrays.

A path stands for the same values as in files and tables: see `nearkin.corpus.nested_columns`.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from nearkin.corpus.columns import TEXT_SEPARATOR
from nearkin.corpus.nested_columns import SEPARATOR, split_path
from nearkin.errors import UsageError
from nearkin.runtime.suggestions import describe_columns, did_you_mean

TEXT_TYPES = (StringType, BinaryType)


class _Member(NamedTuple):
    """The values that a path stands for."""

    column: Column
    kind: DataType
    """The type of a value, or of the elements of the array if the path leads through one."""
    is_behind_array: bool = False


def quote_column(name: str) -> str:
    """Quotes the name of a column, so that dots and backticks are part of the name."""
    return f"`{name.replace('`', '``')}`"


def read_column(frame: DataFrame, path: str) -> Column:
    """Returns the column of a name or a path, under this name."""
    if path in frame.columns:
        return f.col(quote_column(path))
    for name, rest in split_path(path):
        if name in frame.columns:
            member = _select_member(f.col(quote_column(name)), frame.schema[name].dataType, rest)
            if member is not None:
                return _join_elements(member).alias(path)
    paths = [name for field in frame.schema.fields for name in _list_paths(field)]
    raise UsageError(
        f"the DataFrame has no column {path!r} ({describe_columns(paths)})"
        f"{did_you_mean(path, paths)}"
    )


def _select_member(column: Column, kind: DataType, path: str) -> _Member | None:
    """Returns what a path inside a column stands for, or None if it leads nowhere."""
    if not path:
        return _Member(column, kind)
    if isinstance(kind, MapType):
        is_named = isinstance(kind.keyType, StringType)
        return _Member(column.getItem(path), kind.valueType) if is_named else None
    if isinstance(kind, ArrayType):
        return _select_elements(column, kind.elementType, path)
    if isinstance(kind, StructType):
        for name, rest in split_path(path):
            if name in kind.names:
                return _select_member(column.getField(name), kind[name].dataType, rest)
    return None


def _select_elements(column: Column, kind: DataType, path: str) -> _Member | None:
    """Returns what a path stands for in the elements of an array."""
    inner = _select_member(column, kind, path)
    if inner is None:
        return None

    def select(element: Column) -> Column:
        member = _select_member(element, kind, path)
        assert member is not None
        return member.column

    values = f.transform(column, select)
    if inner.is_behind_array:
        values = f.flatten(f.array_compact(values))
    return _Member(values, inner.kind, is_behind_array=True)


def _join_elements(member: _Member) -> Column:
    """Returns the values of all elements as one value. It is null if there is none."""
    if not member.is_behind_array:
        return member.column
    values = f.array_compact(member.column)
    joined = values
    if isinstance(member.kind, ArrayType):
        joined = f.flatten(values)
    elif isinstance(member.kind, TEXT_TYPES):
        joined = f.array_join(f.transform(values, lambda text: text.cast("string")), TEXT_SEPARATOR)
    return f.when(f.size(values) > 0, joined)


def _list_paths(field: StructField) -> list[str]:
    """Returns the name of a column and the paths inside it."""
    kind = field.dataType
    while isinstance(kind, ArrayType):
        kind = kind.elementType
    members = kind.fields if isinstance(kind, StructType) else []
    inner = [path for member in members for path in _list_paths(member)]
    return [field.name, *(f"{field.name}{SEPARATOR}{path}" for path in inner)]
