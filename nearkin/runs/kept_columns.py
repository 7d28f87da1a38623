"""Columns of kept rows of several formats as those of one table.

The values of a column may fit no common type, or none that the format of the table has. Such a
column becomes text, in the form that ids and other columns have as text.
"""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from nearkin.corpus.encoded_columns import cast_to_stored_type, remove_encoding
from nearkin.corpus.formats.record_rows import NO_COMMON_TYPE, format_alone
from nearkin.corpus.integers import convert_values, unify_schemas
from nearkin.corpus.text_forms import format_as_readable_text
from nearkin.runs.table_files import TableFile, TableFormat
from nearkin.runtime.arrow_types import TEXT, is_binary, is_list, replace_views_in_type

MAX_DEPTH = 32
"""The maximum depth of lists and structs in a column."""


class UnfitColumnError(Exception):
    """An error: the values of a column do not have the type that its other values have.

    Attributes:
        name: The name of the column.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class TableColumns:
    """The columns of a table, whose types are merged from those of its parts.

    Attributes:
        texts: The names of columns that are texts because no other type holds their values.
    """

    def __init__(
        self, target: TableFile, texts: Sequence[str] = (), *, keeps_dictionaries: bool = False
    ) -> None:
        self._target = target
        self._keeps_dictionaries = keeps_dictionaries
        self._types: dict[str, pa.DataType] = {}
        self.texts = set(texts)

    @property
    def schema(self) -> pa.Schema:
        """The columns, in the order of their first appearance."""
        return pa.schema(
            [(name, TEXT if name in self.texts else kind) for name, kind in self._types.items()]
        )

    def add_schema(self, schema: pa.Schema) -> None:
        """Adds the columns of a part."""
        for field in schema:
            self._add(field.name, field.type)

    def add_rows(self, rows: Sequence[dict[str, Any]]) -> None:
        """Adds the columns of rows, whose types follow from their values."""
        for name in dict.fromkeys(name for row in rows for name in row):
            try:
                kind = convert_values([row.get(name) for row in rows]).type
            except NO_COMMON_TYPE:
                self.texts.add(name)
                kind = TEXT
            self._add(name, kind)

    def _add(self, name: str, kind: pa.DataType) -> None:
        stored = _storable_type(kind, self._target, keeps_dictionaries=self._keeps_dictionaries)
        known = self._types.get(name, pa.null())
        merged = None if stored is None else _merge_types(known, stored)
        if merged is None:
            self.texts.add(name)
        self._types[name] = merged or TEXT

    def convert_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns rows with the columns of the table. Columns that they do not have are null."""
        columns = []
        for field in self.schema:
            if field.name not in batch.schema.names:
                columns.append(pa.nulls(len(batch), field.type))
            elif field.name in self.texts:
                columns.append(format_as_readable_text(batch[field.name]))
            else:
                columns.append(_convert_column(batch[field.name], field))
        return pa.record_batch(columns, schema=self.schema)

    def convert_rows(self, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
        """Returns rows with the columns of the table, as `convert_batch` does."""
        columns = []
        for field in self.schema:
            values = [row.get(field.name) for row in rows]
            if field.name in self.texts:
                columns.append(pa.array(map(_to_text, values), TEXT))
                continue
            if pa.types.is_floating(field.type) and any(map(_loses_digits, values)):
                raise UnfitColumnError(field.name)
            try:
                columns.append(convert_values(values, field.type))
            except (*NO_COMMON_TYPE, pa.ArrowException) as error:
                raise UnfitColumnError(field.name) from error
        return pa.record_batch(columns, schema=self.schema)


def _convert_column(values: pa.Array, field: pa.Field) -> pa.Array:
    try:
        converted = cast_to_stored_type(values, field.type)
        if converted.type != field.type:
            converted = remove_encoding(converted).cast(field.type)
    except pa.ArrowException as error:
        raise UnfitColumnError(field.name) from error
    return converted


def _loses_digits(value: Any) -> bool:
    """Returns whether a value is a whole number that a float does not hold."""
    try:
        return isinstance(value, int) and int(float(value)) != value
    except OverflowError:
        return True


def _merge_types(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """Returns a type that holds the values of both, or None."""
    try:
        return unify_schemas([pa.schema([("", kind)]) for kind in (first, second)]).field(0).type
    except pa.ArrowException:
        return None


def _storable_type(
    kind: pa.DataType, target: TableFile, *, keeps_dictionaries: bool, depth: int = 0
) -> pa.DataType | None:
    """Returns the type in which a format holds values of a type, or None if it holds texts only."""

    def convert(inner: pa.DataType) -> pa.DataType | None:
        return _storable_type(inner, target, keeps_dictionaries=keeps_dictionaries, depth=depth + 1)

    types = pa.types
    is_parquet = target.format is TableFormat.PARQUET
    if types.is_dictionary(kind) and not (is_parquet or keeps_dictionaries):
        return convert(kind.value_type)
    if types.is_run_end_encoded(kind) and (is_parquet or target.is_flat):
        return convert(kind.value_type)
    if target.is_flat and (types.is_nested(kind) or is_binary(kind)):
        return None
    if is_parquet and (types.is_union(kind) or types.is_interval(kind)):
        return None
    if depth > MAX_DEPTH:
        return None
    if types.is_struct(kind):
        fields = [(field.name, convert(field.type)) for field in kind]
        if (is_parquet and not fields) or any(inner is None for _, inner in fields):
            return None
        return pa.struct(fields)
    if is_list(kind):
        inner = convert(kind.value_type)
        if inner is None:
            return None
        if types.is_fixed_size_list(kind):
            return pa.list_(inner, kind.list_size)
        return pa.list_(inner) if types.is_list(kind) else pa.large_list(inner)
    if types.is_map(kind):
        parts = (convert(kind.key_type), convert(kind.item_type))
        return None if None in parts else pa.map_(*parts)
    return replace_views_in_type(kind)


def _to_text(value: Any) -> str | None:
    """Returns the text of a value of Python."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    try:
        return format_alone(value)
    except TypeError:
        # An integer in it has more than 64 bits, or it is nested deeply.
        return json.dumps(value, ensure_ascii=False, default=str)
