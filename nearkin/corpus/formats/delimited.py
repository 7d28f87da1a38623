"""Comma- and tab-separated values.

The csv module of Python parses the values. Kept rows are copied character by character, with the
delimiter, the encoding and the line ends of the input.
"""

import csv
import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.batches import RAW_PREFIX
from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.dialect import SAMPLE_BYTES, WIDE, Dialect, detect_dialect
from nearkin.corpus.formats.base import (
    FileSlice,
    ItemsBeforeDamage,
    RejectedRow,
    make_unused_name,
    open_compressed_sink,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import check_rows, format_raw_prefix

BOM = "\ufeff"
LINE_ENDS = ("\n", "\r")
SAMPLE_BLOCK = 1 << 16
UNCLOSED = "the row has a quote that is not closed"
csv.field_size_limit((1 << 31) - 1)  # The size of rows is bounded by _LineReader, with a reason.


class DelimitedRow(NamedTuple):
    """A row of a file, or the reason why it cannot be read."""

    raw: str
    """All characters of the row with the end of its last line, or the first characters if it has a
    fault."""
    values: list[str]
    fault: str | None
    line: int
    """The line at which the row begins, counted from 1."""


class Delimited:
    """The format of rows with a header. All values are text, and an empty value is an empty text.

    The dialect of each file is detected once, unless the columns name it.

    Args:
        delimiter: The usual character between values.

    Attributes:
        delimiter: The usual character between values.
    """

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter
        self._dialects: dict[tuple[str, str | None, str | None], Dialect] = {}

    def dialect_of(self, file: InputFile, columns: Columns) -> Dialect:
        """Returns the delimiter and the encoding of a file.

        Args:
            file: The file.
            columns: The columns to read, which may name the delimiter and the encoding.
        """
        key = (file.path, columns.delimiter, columns.encoding)
        if key not in self._dialects:
            with file.open_decompressed() as stream:
                sample = _read_sample(stream)
            self._dialects[key] = detect_dialect(
                sample, self.delimiter, columns.delimiter, columns.encoding
            )
        return self._dialects[key]

    def is_wide(self, file: InputFile, columns: Columns) -> bool:
        """Returns whether a file is UTF-16 or UTF-32, which other readers of text refuse.

        Args:
            file: The file.
            columns: The columns to read, which may name the encoding.
        """
        return self.dialect_of(file, columns).encoding.startswith(WIDE)

    def columns(self, file: InputFile, requested: Columns) -> list[str]:
        """Returns the names in the header.

        Args:
            file: The file.
            requested: The columns to read, which may name the delimiter and the encoding.
        """
        dialect = self.dialect_of(file, requested)
        with file.open_decompressed() as stream:
            return self._header(
                _DelimitedRowReader(stream, dialect, Columns().document_limit)
            ).values

    def read_header(self, file: InputFile, columns: Columns) -> bytes:
        """Returns the bytes of the header, with its line end.

        Args:
            file: The file.
            columns: The columns to read, which may name the delimiter and the encoding.
        """
        dialect = self.dialect_of(file, columns)
        with file.open_decompressed() as stream:
            header = self._header(_DelimitedRowReader(stream, dialect, columns.document_limit))
        return header.raw.encode(dialect.encoding, dialect.errors)

    @staticmethod
    def _header(records: "_DelimitedRowReader") -> DelimitedRow:
        header = next(
            (record for record in records if record.fault or record.values),
            DelimitedRow("", [], None, 1),
        )
        if header.fault:
            raise ValueError(f"the header is not valid: {header.fault}")
        return header

    def read(
        self, file: InputFile, columns: Columns, start: int, *, whole: bool
    ) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices, as described in `Format`.

        Args:
            file: The file.
            columns: The columns to read.
            start: The row at which reading starts.
            whole: Whether the slices hold the complete rows.
        """
        dialect = self.dialect_of(file, columns)
        with file.open_decompressed() as stream:
            records = _DelimitedRowReader(stream, dialect, columns.document_limit)
            names = self._header(records).values
            builder = _DelimitedSliceBuilder(names, columns, dialect, whole=whole)
            rows = ItemsBeforeDamage(enumerate(records))
            for at, record in rows:
                if at >= start and (record.values or record.fault):
                    builder.add(at, record)
                    if builder.full:
                        yield builder.take_slice()
            if builder.begun:
                yield builder.take_slice()
            rows.raise_damage()

    def writer(self, file: InputFile, columns: Columns, target: str) -> "DelimitedWriter":
        """Returns a writer that begins with the header of the input, in the same dialect.

        Args:
            file: The input file.
            columns: The columns that were read, which may name the delimiter and the encoding.
            target: The path of the file to write.
        """
        dialect = self.dialect_of(file, columns)
        with file.open_decompressed() as stream:
            header = self._header(_DelimitedRowReader(stream, dialect, Columns().document_limit))
        return DelimitedWriter(header, dialect, open_compressed_sink(file, target))


def _read_sample(stream: Any) -> bytes:
    """Returns the first bytes of a file, or those before damage."""
    parts = ItemsBeforeDamage(iter(lambda: bytes(stream.read(SAMPLE_BLOCK)), b""))
    sample = b""
    for part in parts:
        sample += part
        if len(sample) >= SAMPLE_BYTES:
            break
    return sample[:SAMPLE_BYTES]


class _DelimitedRowReader:
    """The rows of a stream, including the header.

    The size of a row is bounded. If a quote never closes, its row is rejected and the lines
    after the first are read again, each as a row of its own. Rows over several lines need
    quotes, so a quote that is not closed can only have passed over lines without quotes.

    Args:
        stream: A stream of bytes.
        dialect: The delimiter and the encoding.
        limit: The maximum number of characters of a row.
    """

    def __init__(self, stream: Any, dialect: Dialect, limit: int) -> None:
        buffered = io.BufferedReader(stream) if isinstance(stream, io.RawIOBase) else stream
        self._text = io.TextIOWrapper(buffered, dialect.encoding, dialect.errors, newline="")
        self._delimiter = dialect.delimiter
        self._limit = limit
        self._records = self._every_record()

    def __iter__(self) -> Iterator[DelimitedRow]:
        return self._records

    def _every_record(self) -> Iterator[DelimitedRow]:
        lines = _LineReader(self._text, self._limit)
        reader = csv.reader(lines, delimiter=self._delimiter)
        while True:
            fault = None
            lines.begin_row()
            try:
                values = next(reader)
            except StopIteration:
                return
            except (csv.Error, _TooLongError) as error:
                values, fault = [], str(error)
            taken = lines.taken
            line = lines.first_line
            if lines.ended_inside:
                fault = UNCLOSED
            if fault is None:
                yield DelimitedRow("".join(taken), values, None, line)
                continue
            yield DelimitedRow(taken[0][:RAW_PREFIX] if taken else "", [], fault, line)
            for number, text in enumerate(taken[1:], line + 1):
                yield self._read_single_line(text, number)
            reader = csv.reader(lines, delimiter=self._delimiter)

    def _read_single_line(self, text: str, number: int) -> DelimitedRow:
        lines = _LineReader(io.StringIO(text, newline=""), self._limit)
        try:
            values = next(csv.reader(lines, delimiter=self._delimiter))
        except (csv.Error, _TooLongError) as error:
            return DelimitedRow(text[:RAW_PREFIX], [], str(error), number)
        if lines.ended_inside:
            return DelimitedRow(text[:RAW_PREFIX], [], UNCLOSED, number)
        return DelimitedRow(text, values, None, number)


class _TooLongError(Exception):
    """An error for a row with more characters than a document may have."""


class _LineReader:
    """Lines for the reader of the csv module, which requests lines while a quote is open.

    Attributes:
        taken: The lines of the current row.
        first_line: The number of the first of these lines, counted from 1.
        ended_inside: Whether the file ended while a quote was open.
    """

    def __init__(self, text: io.TextIOBase, limit: int) -> None:
        self._text = text
        self._limit = limit
        self._lines_read = 0
        self.begin_row()

    def begin_row(self) -> None:
        self.taken: list[str] = []
        self.first_line = self._lines_read + 1
        self.ended_inside = False
        self._size = 0

    def __iter__(self) -> "_LineReader":
        return self

    def __next__(self) -> str:
        line = self._text.readline(self._limit)
        self.ended_inside = not line and bool(self.taken)
        if not line:
            raise StopIteration
        self.taken.append(line)
        self._lines_read += 1
        if len(line) >= self._limit and not line.endswith(LINE_ENDS):
            self._skip_rest_of_line()
            raise self._too_long()
        self._size += len(line)
        if self._size > self._limit:
            raise self._too_long()
        return line.removeprefix(BOM) if self._lines_read == 1 else line

    def _skip_rest_of_line(self) -> None:
        while (part := self._text.readline(self._limit)) and not part.endswith(LINE_ENDS):
            pass

    def _too_long(self) -> _TooLongError:
        return _TooLongError(
            f"the row is longer than {self._limit:,} characters, or it has a "
            "quote that is not closed"
        )


class _DelimitedSliceBuilder:
    """Collects rows into a slice."""

    def __init__(
        self, names: list[str], columns: Columns, dialect: Dialect, *, whole: bool
    ) -> None:
        self._names = names
        self._columns = columns
        self._dialect = dialect
        self._whole = whole
        self._clear()

    def _clear(self) -> None:
        self._rows: list[int] = []
        self._records: list[DelimitedRow] = []
        self._rejected: list[RejectedRow] = []
        self._size = 0
        self._next = 0

    @property
    def full(self) -> bool:
        return self._size >= BATCH_BYTES or len(self._records) + len(self._rejected) >= BATCH_ROWS

    @property
    def begun(self) -> bool:
        return bool(self._records or self._rejected)

    def add(self, at: int, record: DelimitedRow) -> None:
        self._next = at + 1
        if fault := record.fault or _find_fault(record, self._names, self._dialect):
            beginning = record.raw[:RAW_PREFIX].rstrip("\r\n").encode("utf-8", self._dialect.errors)
            raw = format_raw_prefix(beginning)
            self._rejected.append(RejectedRow(at, fault, raw, record.line))
            return
        self._rows.append(at)
        self._records.append(record)
        self._size += len(record.raw)

    def take_slice(self) -> FileSlice:
        """Returns the collected rows as a slice, and begins the next one."""
        wanted = {name: self._names.index(name) for name in self._columns.all}
        arrays = [
            pa.array([record.values[at] for record in self._records], pa.large_string())
            for at in wanted.values()
        ]
        checked = check_rows(pa.record_batch(arrays, list(wanted)), self._columns)
        rows = np.array(self._rows, np.int64)
        rejected = [
            RejectedRow(self._rows[at], reason, raw, self._records[at].line)
            for at, reason, raw in checked.rejected
        ]
        whole = [self._records[at].raw for at in checked.kept.tolist()] if self._whole else None
        file_slice = FileSlice(
            rows[checked.kept],
            checked.documents,
            sorted([*self._rejected, *rejected], key=lambda entry: entry.row),
            self._next,
            whole,
        )
        self._clear()
        return file_slice


def _find_fault(record: DelimitedRow, names: list[str], dialect: Dialect) -> str | None:
    if len(record.values) != len(names):
        return f"the row has {len(record.values)} values instead of {len(names)}"
    if not record.raw.isascii():
        try:
            record.raw.encode()
        except UnicodeEncodeError:
            return f"the row is not valid {dialect.encoding_label}"
    return None


class DelimitedWriter:
    """A writer that copies the header and kept rows, and appends the added values.

    Args:
        header: The header of the input.
        dialect: The delimiter and the encoding.
        sink: The stream to write to.
    """

    def __init__(self, header: DelimitedRow, dialect: Dialect, sink: Any) -> None:
        self._header = header
        self._delimiter = dialect.delimiter
        self._line_end = header.raw[len(header.raw.rstrip("\r\n")) :] or "\n"
        self._sink = io.TextIOWrapper(sink, dialect.encoding, dialect.errors, newline="")
        self._begun = False

    def select(
        self, complete_rows: list[str], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> list[str]:
        """Returns the kept rows with added values.

        Args:
            complete_rows: The lines of a slice, with their line ends.
            keep: True for each row that is kept, bool (n,).
            added: The columns to add to the kept rows, or None.
        """
        self._begin([] if added is None else added.schema.names)
        rows = [complete_rows[at] for at in np.flatnonzero(keep).tolist()]
        extra: list[tuple[object, ...]] = [()] * len(rows)
        if added is not None:
            extra = [tuple(row.values()) for row in added.to_pylist()]
        return [
            self._append_values(row, map(_format_value, values))
            for row, values in zip(rows, extra, strict=True)
        ]

    def write(self, rows: list[str]) -> None:
        """Writes rows that `select` returned."""
        self._sink.writelines(rows)

    def _append_values(self, row: str, values: Any) -> str:
        """Returns a row with further values. A last row without a line end receives one."""
        body = row.rstrip("\r\n")
        return "".join(
            [
                body,
                *(self._delimiter + self._quote_value(value) for value in values),
                row[len(body) :] or self._line_end,
            ]
        )

    def _quote_value(self, value: str) -> str:
        if not any(special in value for special in (self._delimiter, '"', *LINE_ENDS)):
            return value
        return '"' + value.replace('"', '""') + '"'

    def _begin(self, added: list[str]) -> None:
        if not self._begun and self._header.values:
            names = (make_unused_name(name, set(self._header.values)) for name in added)
            self._sink.write(self._append_values(self._header.raw, names))
        self._begun = True

    def close(self) -> None:
        """Completes the file."""
        self._begin([])
        self._sink.close()


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
