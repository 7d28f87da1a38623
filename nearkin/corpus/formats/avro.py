"""Avro object container files. The library fastavro reads and writes their records."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.bounded_stream import BoundedStream
from nearkin.corpus.columns import Columns
from nearkin.corpus.foreign_errors import decoding
from nearkin.corpus.formats.base import (
    ValueForm,
    ValueReader,
    list_added_values,
    make_unused_name,
)
from nearkin.corpus.formats.record_rows import Record, RecordFormat
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.nested_columns import find_root, list_roots
from nearkin.corpus.stored_values import load_objects, store_objects
from nearkin.errors import MissingExtraError, UsageError
from nearkin.runtime.arrow_types import is_list
from nearkin.runtime.setting_names import name_setting

NULL = "null"
NO_TEXTS = (NULL, "boolean", "int", "long", "float", "double", "record", "array", "map")
"""The types whose values are not texts. Names of other types are not looked up."""


class Avro(RecordFormat):
    """The format of Avro files whose schema is a record."""

    value_form = ValueForm.OBJECT

    def columns(self, file: InputFile, requested: Columns) -> list[str] | None:
        """Returns the names of the fields."""
        with file.open_decompressed() as stream:
            return [field["name"] for field in _open_reader(stream).writer_schema["fields"]]

    def require_types(self, file: InputFile, columns: Columns) -> None:
        """Requires that the fields of texts can be texts."""
        if columns.content != "text":
            return
        with file.open_decompressed() as stream:
            schema = _open_reader(stream).writer_schema
        for name in columns.sources:
            kinds = list(_list_types(schema, name))
            if kinds and not any(map(_may_be_text, kinds)):
                shown = " or ".join(map(str, kinds))
                raise UsageError(
                    f"{file.shown_path}: column {name!r} is {shown}, not text; choose "
                    f"another column with {name_setting('text')}"
                )

    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        """Yields the records of a file, as described in `RecordFormat`."""
        with file.open_decompressed() as stream:
            reader = _open_reader(stream)
            names = [field["name"] for field in reader.writer_schema["fields"]]
            roots = list_roots(columns, names)
            with decoding("the next block is damaged"):
                for values in reader:
                    needed = values
                    if not whole:
                        needed = {name: values.get(name) for name in roots}
                    yield Record(needed, _size_of(needed))

    def writer(self, file: InputFile, columns: Columns, target: str) -> "AvroWriter":
        """Returns a writer with the schema and the codec of the input."""
        with file.open_decompressed() as stream:
            reader = _open_reader(stream)
            return AvroWriter(reader.writer_schema, reader.codec, target)

    def value_reader(self, file: InputFile, columns: Columns, names: Sequence[str]) -> ValueReader:
        """Returns a function that returns the values of some fields."""
        return lambda records: store_objects((record.values for record in records), names)


def _load_fastavro() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise MissingExtraError.for_extra("Avro files require fastavro", "avro") from error
    return fastavro


def _open_reader(stream: Any) -> Any:
    fastavro = _load_fastavro()
    with decoding("the header is damaged"):
        reader = fastavro.reader(BoundedStream(stream))
        schema = reader.writer_schema
        is_record = schema["type"] == "record"
    if not is_record:
        raise ValueError("the schema is not a record, so the file has no columns")
    if _takes_no_bytes(schema, {}):
        raise ValueError("the records of the schema take no bytes, so their number has no bound")
    return reader


def _list_types(kind: Any, path: str) -> Iterator[Any]:
    """Yields the types at the end of a path, without those behind maps and names of types."""
    if isinstance(kind, list):
        for option in kind:
            yield from _list_types(option, path)
    elif not path:
        yield kind
    elif isinstance(kind, dict) and kind["type"] == "array":
        yield from _list_types(kind["items"], path)
    elif isinstance(kind, dict) and kind["type"] == "record":
        members = {field["name"]: field["type"] for field in kind["fields"]}
        name = find_root(path, list(members))
        if name is not None:
            yield from _list_types(members[name], path[len(name) + 1 :])


def _may_be_text(kind: Any) -> bool:
    if isinstance(kind, list):
        return any(map(_may_be_text, kind))
    if isinstance(kind, dict):
        return _may_be_text(kind["type"])
    return kind not in NO_TEXTS


def _takes_no_bytes(kind: Any, named: dict[str, bool | None]) -> bool:
    """Returns True if values of a type take no bytes.

    A few bytes of a file can then stand for any number of such values.
    """
    if isinstance(kind, str):
        known = named.get(kind, kind == NULL)
        if known is None:
            raise ValueError(f"the type {kind!r} contains itself, which nearkin does not read")
        return known
    if isinstance(kind, list):
        for member in kind:
            _takes_no_bytes(member, named)
        return False
    shape = kind["type"]
    if shape in ("record", "error"):
        named[kind["name"]] = None
        fields = [_takes_no_bytes(field["type"], named) for field in kind["fields"]]
        named[kind["name"]] = all(fields)
        return all(fields)
    if shape == "fixed":
        named[kind["name"]] = kind["size"] == 0
        return bool(kind["size"] == 0)
    if shape == "enum":
        return False
    if shape == "map":
        _takes_no_bytes(kind["values"], named)
        return False
    if shape == "array":
        if _takes_no_bytes(kind["items"], named):
            raise ValueError("the items of an array take no bytes, so their number has no bound")
        return False
    return _takes_no_bytes(shape, named)


def _size_of(values: dict[str, Any]) -> int:
    """Returns the size of the texts and bytes among values, and 16 bytes for each other value."""
    return sum(len(value) if isinstance(value, str | bytes) else 16 for value in values.values())


class AvroWriter:
    """A writer of records in the schema of the input, with added columns behind its fields."""

    def __init__(self, schema: dict[str, Any], codec: str, target: str) -> None:
        self._fastavro = _load_fastavro()
        # A schema or a codec that cannot be written is known before the first record.
        self._fastavro.write.Writer(BytesIO(), schema, codec)
        self._schema = schema
        self._taken = {field["name"] for field in schema["fields"]}
        self._codec = codec
        self._sink = pa.OSFile(target, "wb")
        self._writer: Any = None

    def replace_values(
        self, complete_rows: list[Record], name: str, values: pa.Array
    ) -> list[Record]:
        """Returns records with other values of a field. A null leaves a record as it is."""
        return [
            record if value is None else record._replace(values={**record.values, name: value})
            for record, value in zip(complete_rows, load_objects(values), strict=True)
        ]

    def select(
        self, complete_rows: list[Record], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> list[dict[str, Any]]:
        """Returns the values of kept records, with those of added columns."""
        kept = [complete_rows[at].values for at in np.flatnonzero(keep).tolist()]
        if added is None:
            return kept
        names = {name: make_unused_name(name, self._taken) for name in added.schema.names}
        # All slices have the same added columns.
        if len(self._schema["fields"]) == len(self._taken):
            fields = [
                {
                    "name": names[field.name],
                    "type": [NULL, _to_avro_type(field.type, names[field.name])],
                }
                for field in added.schema
            ]
            self._schema = {**self._schema, "fields": [*self._schema["fields"], *fields]}
        return [
            {**values, **{names[name]: value for name, value in entry.items()}}
            for values, entry in zip(kept, list_added_values(added), strict=True)
        ]

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Writes records that `select` returned."""
        self._open()
        for values in rows:
            self._writer.write(values)

    def close(self) -> None:
        """Completes the file."""
        self._open()
        self._writer.flush()
        self._sink.close()

    def _open(self) -> None:
        if self._writer is None:
            self._writer = self._fastavro.write.Writer(self._sink, self._schema, self._codec)


def _to_avro_type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_map(kind):
        return {"type": "map", "values": _to_avro_type(kind.item_type, name)}
    if is_list(kind):
        return {"type": "array", "items": _to_avro_type(kind.value_type, name)}
    if pa.types.is_struct(kind):
        fields = [
            {"name": field.name, "type": _to_avro_type(field.type, f"{name}_{field.name}")}
            for field in kind
        ]
        return {"type": "record", "name": name, "fields": fields}
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "long"
    if pa.types.is_floating(kind):
        return "double"
    return "string"
