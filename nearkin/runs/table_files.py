"""Tables in files whose suffix decides the format: parquet, CSV, JSON lines, Arrow or Excel."""

import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus import Columns, Corpus, FileCorpus
from nearkin.corpus.formats.delimited import Delimited, format_rows
from nearkin.corpus.input_file import COMPRESSIONS
from nearkin.corpus.text_forms import format_as_readable_text
from nearkin.engine import result_tables
from nearkin.errors import UsageError
from nearkin.runtime.arrow_types import is_binary, is_text, plain_type
from nearkin.runtime.compressed_files import create_file
from nearkin.runtime.dialect import UTF8, Dialect
from nearkin.runtime.excel_writer import SheetWriter, load_xlsxwriter
from nearkin.runtime.files import require_file_path
from nearkin.runtime.outputs import published_file
from nearkin.runtime.setting_names import name_setting

WRITABLE = (
    ".parquet, .csv, .tsv, .jsonl, .xlsx and .arrow; .csv, .tsv and .jsonl also with .gz, .zst, "
    ".bz2 or .lz4 behind them"
)
"""The list of suffixes, for messages."""


class TableFormat(StrEnum):
    """A format in which tables are written."""

    PARQUET = "parquet"
    CSV = "csv"
    TSV = "tsv"
    JSON_LINES = "jsonl"
    ARROW = "arrow"
    EXCEL = "xlsx"
    TEXT = "txt"
    """The lines of text files, without columns."""

    @property
    def is_text(self) -> bool:
        """True if the format consists of lines, which a codec may compress."""
        return self not in (TableFormat.PARQUET, TableFormat.ARROW, TableFormat.EXCEL)


FORMATS = {
    ".parquet": TableFormat.PARQUET,
    ".pq": TableFormat.PARQUET,
    ".csv": TableFormat.CSV,
    ".tsv": TableFormat.TSV,
    ".jsonl": TableFormat.JSON_LINES,
    ".ndjson": TableFormat.JSON_LINES,
    ".arrow": TableFormat.ARROW,
    ".feather": TableFormat.ARROW,
    ".ipc": TableFormat.ARROW,
    ".xlsx": TableFormat.EXCEL,
}
TEXT_FILES = {".txt": TableFormat.TEXT, ".log": TableFormat.TEXT}
"""The formats of files that hold lines of text files."""
OTHER_FILES = frozenset(
    {".json", ".txt", ".xls", ".ods", ".zip", ".tar", ".html", ".pdf", ".db", ".sqlite"}
    | {".duckdb", ".orc", ".avro", ".pkl", ".warc", ".wet", ".lance"}
)
"""Suffixes that people give to files and not to folders, in formats that nearkin does not write."""


@dataclass(frozen=True)
class TableFile:
    """A file that holds a table.

    Attributes:
        path: The path of the file.
        format: The format that its suffix decides.
        compression: The codec of Arrow that its last suffix stands for, or None.
        separator: The delimiter of CSV and TSV, if it is not the one of the format.
        mark: The bytes before the header of CSV, by which Excel knows that it is UTF-8.
    """

    path: Path
    format: TableFormat
    compression: str | None = None
    separator: str | None = None
    mark: bytes = b""

    @classmethod
    def parse(cls, path: Path, *, lines: bool = False) -> "TableFile | None":
        """Returns the file that a path names, or None if its suffix is not that of a file.

        Examples:
            >>> TableFile.parse(Path("kept.csv.gz")).compression
            'gzip'
            >>> TableFile.parse(Path("deduped")) is None
            True
        """
        compression = COMPRESSIONS.get(path.suffix.lower())
        suffix = (Path(path.stem) if compression else path).suffix.lower()
        formats = {**FORMATS, **TEXT_FILES} if lines else FORMATS
        file_format = formats.get(suffix)
        if file_format is not None and (compression is None or file_format.is_text):
            if file_format is TableFormat.EXCEL:
                load_xlsxwriter()
            return cls(path, file_format, compression)
        if file_format is not None or compression is not None or suffix in OTHER_FILES:
            raise UsageError(
                f"cannot write {str(path)!r}: nearkin does not write files with the suffix "
                f"{''.join(path.suffixes[-2:]) if compression else suffix}; it writes {WRITABLE}"
            )
        return None

    @classmethod
    def require(cls, path: Path) -> "TableFile":
        """Returns the file that a path names. A path without a suffix is a parquet file."""
        table_file = cls.parse(path)
        if table_file is not None:
            return table_file
        if path.suffix:
            raise UsageError(
                f"cannot write {str(path)!r}: the suffix {path.suffix} names no format; nearkin "
                f"writes {WRITABLE}"
            )
        return cls(path, TableFormat.PARQUET)

    @property
    def delimiter(self) -> str:
        """The character between the values of CSV and TSV."""
        return self.separator or ("\t" if self.format is TableFormat.TSV else ",")

    def in_dialect_of(self, corpus: Corpus, columns: Columns) -> "TableFile":
        """Returns the file with the delimiter of the first input of its format.

        It is marked as UTF-8 unless the input is plain CSV.
        """
        if not self.delimits or not isinstance(corpus, FileCorpus):
            return self
        for file in corpus.files:
            form = corpus.format_of(file)
            if isinstance(form, Delimited) and form.delimiter == self.delimiter:
                dialect = form.dialect_of(file, columns)
                is_plain = dialect == Dialect(self.delimiter, UTF8)
                if is_plain and not form.read_header(file, columns).startswith(BOM_UTF8):
                    return self
                return replace(self, separator=dialect.delimiter, mark=BOM_UTF8)
        return self

    def require_types(self, schema: pa.Schema) -> None:
        """Requires that the format can hold the columns of a table."""
        for field in schema:
            kind = plain_type(field.type)
            nested = pa.types.is_nested(kind)
            binary = is_binary(kind) or pa.types.is_fixed_size_binary(field.type)
            if (binary and (self.format.is_text or self.is_flat)) or (nested and self.is_flat):
                raise UsageError(
                    f"cannot write {str(self.path)!r}: column {field.name!r} has the type "
                    f"{field.type}, which .{self.format} cannot hold; use .parquet or .arrow"
                )

    def create(self, staged: Path) -> Any:
        """Returns a new file of bytes, which is compressed as the suffix says."""
        return create_file(str(staged), self.compression)

    @property
    def is_flat(self) -> bool:
        """True if the format has no lists, maps, structs and bytes: CSV, TSV and Excel."""
        return self.delimits or self.format is TableFormat.EXCEL

    @property
    def delimits(self) -> bool:
        """True if the format is CSV or TSV."""
        return self.format in (TableFormat.CSV, TableFormat.TSV)


def write_table_file(
    target: TableFile, staged: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> int:
    """Writes a table in the format of a file."""
    target.require_types(schema)
    if target.format is TableFormat.PARQUET:
        return result_tables.write_batches(staged, schema, iter(batches))
    if target.format is TableFormat.EXCEL:
        return _write_sheet(staged, schema, batches)
    with target.create(staged) as sink:
        if target.format is TableFormat.ARROW:
            return _write_arrow(sink, schema, batches)
        if target.format is TableFormat.JSON_LINES:
            return sum(write_json_lines(sink, to_plain_rows(batch)) for batch in batches)
        sink.write(target.mark)
        return _write_delimited(sink, target.delimiter, schema, batches)


def require_new_table(path: Path, option: str) -> TableFile:
    """Returns the file of a table that an option names, which must not exist."""
    target = TableFile.require(path)
    require_file_path(path)
    if os.path.lexists(path):
        raise UsageError(f"{path} exists; delete it, or name another {name_setting(option)}")
    return target


def publish_table(table: pa.Table, path: Path, command: str) -> None:
    """Writes a table into a new file, in the format of its suffix. A killed command leaves none."""
    target = TableFile.require(path)
    target.require_types(table.schema)
    with published_file(path, command, replaces=False) as staged:
        write_table_file(target, staged, table.schema, table.to_batches())


def _write_sheet(staged: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    writer = SheetWriter(str(staged), schema.names)
    rows = 0
    for batch in batches:
        for row in to_plain_rows(batch):
            writer.write_row(row.values())
        rows += len(batch)
    writer.close()
    return rows


def _write_arrow(sink: Any, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    rows = 0
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += len(batch)
    return rows


def write_json_lines(sink: Any, rows: list[dict[str, object]]) -> int:
    """Writes objects, one a line.

    Args:
        sink: The stream of bytes.
    """
    lines = [_dump_json(row) for row in rows]
    if lines:
        sink.write(b"\n".join(lines) + b"\n")
    return len(lines)


def _dump_json(row: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(row, default=_to_json_value)
    except TypeError:
        # A whole number has more than 64 bits.
        text = json.dumps(row, default=_to_json_value, ensure_ascii=False, separators=(",", ":"))
        return text.encode()


def _to_json_value(value: object) -> str:
    """Returns the text of a value that JSON does not have."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"\\x{value.hex()}"
    return str(value)


def _write_delimited(
    sink: Any, delimiter: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> int:
    rows = 0
    sink.write(format_rows([schema.names], delimiter).encode())
    for batch in batches:
        values = (map(format_csv_value, row.values()) for row in to_plain_rows(batch))
        sink.write(format_rows(values, delimiter).encode())
        rows += len(batch)
    return rows


def format_csv_value(value: object) -> str:
    """Returns a value as CSV files hold it. Numbers are written without loss.

    Examples:
        >>> format_csv_value(True), format_csv_value(None), format_csv_value(0.9995)
        ('true', '', '0.9995')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _to_values(column: pa.Array) -> list[Any]:
    """Returns the values of a column, or their texts if Python cannot hold some of them."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        # A text is not valid UTF-8, or a time is out of the range of datetime.
        values = format_as_readable_text(column).to_pylist()
    return values


def to_plain_rows(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """Returns rows of Python values. Numbers of 32 bits have as few digits as identify them.

    Maps from text are dictionaries.
    """
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = _to_values(column)
        if pa.types.is_float32(column.type):
            values = [None if value is None else float(str(np.float32(value))) for value in values]
        elif pa.types.is_map(column.type) and is_text(column.type.key_type):
            values = [None if value is None else dict(value) for value in values]
        columns[name] = values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
