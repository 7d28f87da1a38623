"""Comma- and tab-separated values.

The csv module of Python parses the values. Kept rows are copied character by character, with the
delimiter, the encoding and the line ends of the input.
"""

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus.batches import RAW_PREFIX
from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.dialect import (
    SAMPLE_BYTES,
    WIDE,
    Dialect,
    describe_invalid_byte,
    detect_dialect,
    find_named_delimiter,
)
from nearkin.corpus.formats.base import (
    FileSlice,
    ItemsBeforeDamage,
    RejectedRow,
    list_added_values,
    make_unused_name,
    open_compressed_sink,
)
from nearkin.corpus.formats.delimited_blocks import (
    BLOCK,
    BlockDecoder,
    DecodedBlock,
    JoinedStream,
    RowBlocks,
)
from nearkin.corpus.formats.delimited_rows import (
    BOM,
    DelimitedRow,
    DelimitedRowReader,
    join_values,
    quote_value,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import check_rows, format_raw_prefix

SAMPLE_BLOCK = 1 << 16
HEADER_LIMIT = 1 << 22
"""The maximum number of characters of a header, which is read before a run knows its memory."""


class Delimited:
    """The format of rows with a header. All values are text, and an empty value is an empty text.

    The dialect of each file is detected once, unless the columns name it.

    Attributes:
        delimiter: The usual character between values.
    """

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter
        self._dialects: dict[tuple[str, str | None, str | None], Dialect] = {}

    def dialect_of(self, file: InputFile, columns: Columns) -> Dialect:
        """Returns the delimiter and the encoding of a file."""
        key = (file.path, columns.delimiter, columns.encoding)
        if key not in self._dialects:
            with file.open_decompressed() as stream:
                sample = _read_sample(stream)
            self._dialects[key] = detect_dialect(
                sample, self.delimiter, columns.delimiter, columns.encoding
            )
        return self._dialects[key]

    def is_wide(self, file: InputFile, columns: Columns) -> bool:
        """Returns whether a file is UTF-16 or UTF-32, which other readers of text refuse."""
        return self.dialect_of(file, columns).encoding.startswith(WIDE)

    def columns(self, file: InputFile, requested: Columns) -> list[str]:
        """Returns the names in the header."""
        dialect = self.dialect_of(file, requested)
        with file.open_decompressed() as stream:
            return self._header(DelimitedRowReader(stream, dialect, HEADER_LIMIT)).values

    def read_header(self, file: InputFile, columns: Columns) -> bytes:
        """Returns the bytes of the header, with its line end."""
        dialect = self.dialect_of(file, columns)
        with file.open_decompressed() as stream:
            header = self._header(DelimitedRowReader(stream, dialect, HEADER_LIMIT))
        return header.raw.encode(dialect.encoding, dialect.errors)

    def _header(self, records: DelimitedRowReader) -> DelimitedRow:
        return self._rows_to_header(records)[-1]

    @staticmethod
    def _rows_to_header(records: DelimitedRowReader) -> list[DelimitedRow]:
        """Returns the header, and the blank rows before it.

        A line that names the delimiter is a part of the header, so that it is copied.
        """
        rows: list[DelimitedRow] = []
        named = ""
        for record in records:
            if not rows and not named and find_named_delimiter(record.raw.removeprefix(BOM)):
                named = record.raw
                continue
            if record.values and named:
                line = record.line - _count_lines(named)
                record = record._replace(raw=named + record.raw, line=line)
            rows.append(record)
            if record.fault:
                raise ValueError(f"the header is not valid: {record.fault}")
            if record.values:
                return rows
        return [*rows, DelimitedRow("", [], None, 1)]

    def read(
        self,
        file: InputFile,
        columns: Columns,
        start: int,
        *,
        whole: bool,
        rows: np.ndarray | None = None,
    ) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices, as described in `Format`."""
        dialect = self.dialect_of(file, columns)
        limit = columns.document_limit
        with file.open_decompressed() as stream:
            # The beginning may end within the header, or be all of the file.
            beginning = bytes(stream.read(BLOCK))
            first_rows = self._rows_to_header(
                DelimitedRowReader(io.BytesIO(beginning), dialect, limit, is_complete=False)
            )
            header = first_rows[-1]
            decoder = BlockDecoder(header.values, columns, dialect)
            if decoder.is_usable and header.raw.endswith("\n"):
                raw = "".join(row.raw for row in first_rows)
                size = len(raw.encode(dialect.encoding, dialect.errors))
                blocks = RowBlocks(stream, beginning[size:])
                line = header.line + _count_lines(header.raw)
                builder = _DelimitedSliceBuilder(header.values, columns, dialect, whole=whole)
                yield from _read_blocks(blocks, decoder, builder, start, line)
                return
            records = DelimitedRowReader(JoinedStream(beginning, stream), dialect, limit)
            names = self._header(records).values
            builder = _DelimitedSliceBuilder(names, columns, dialect, whole=whole)
            yield from _read_rows(records, builder, 0, start)

    def writer(self, file: InputFile, columns: Columns, target: str) -> "DelimitedWriter":
        """Returns a writer that begins with the header of the input, in the same dialect."""
        dialect = self.dialect_of(file, columns)
        with file.open_decompressed() as stream:
            header = self._header(DelimitedRowReader(stream, dialect, HEADER_LIMIT))
        sink = open_compressed_sink(file, target)
        return DelimitedWriter(header, dialect, sink, columns.source)


def _read_rows(
    records: DelimitedRowReader, builder: "_DelimitedSliceBuilder", first: int, start: int
) -> Iterator[FileSlice]:
    """Yields the slices of rows of a stream, of which the first has a given number."""
    rows = ItemsBeforeDamage(enumerate(records, first))
    for at, record in rows:
        if at >= start and (record.values or record.fault):
            builder.add(at, record)
            if builder.full:
                yield builder.take_slice()
    if builder.begun:
        yield builder.take_slice()
    rows.raise_damage()


def _read_blocks(
    blocks: RowBlocks,
    decoder: BlockDecoder,
    builder: "_DelimitedSliceBuilder",
    start: int,
    line: int,
) -> Iterator[FileSlice]:
    """Yields the slices of rows of blocks."""
    at = 0
    contents = ItemsBeforeDamage(blocks.read())
    for content in contents:
        decoded = decoder.decode(content)
        if decoded is not None:
            if builder.begun:
                yield builder.take_slice()
            yield from builder.slice_block(decoded, at, start)
            at += len(decoded.rows)
            line += decoded.lines
            continue
        records = builder.parse(io.BytesIO(content), line, is_complete=blocks.is_last)
        for record in records:
            if at >= start and (record.values or record.fault):
                builder.add(at, record)
                if builder.full:
                    yield builder.take_slice()
            at += 1
        line = records.next_line
        blocks.put_back(builder.encode(records.rest))
    if blocks.rest is not None:
        yield from _read_rows(builder.parse(blocks.rest, line), builder, at, start)
    elif builder.begun:
        yield builder.take_slice()
    contents.raise_damage()


def _read_sample(stream: Any) -> bytes:
    """Returns the first bytes of a file, or those before damage."""
    parts = ItemsBeforeDamage(iter(lambda: bytes(stream.read(SAMPLE_BLOCK)), b""))
    sample = b""
    for part in parts:
        sample += part
        if len(sample) >= SAMPLE_BYTES:
            break
    return sample[:SAMPLE_BYTES]


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

    def parse(self, stream: Any, line: int, *, is_complete: bool = True) -> DelimitedRowReader:
        """Returns the rows of a stream that begins at a line and may end before the file does."""
        limit = self._columns.document_limit
        return DelimitedRowReader(stream, self._dialect, limit, line, is_complete=is_complete)

    def encode(self, text: str) -> bytes:
        """Returns the bytes of characters of the file."""
        return text.encode(self._dialect.encoding, self._dialect.errors)

    def slice_block(self, block: DecodedBlock, first: int, start: int) -> Iterator[FileSlice]:
        """Yields the slices of a decoded block, whose rows are all documents."""
        complete = block.complete_rows() if self._whole else None
        for begin in range(max(start - first, 0), len(block.rows), BATCH_ROWS):
            part = block.rows.slice(begin, BATCH_ROWS)
            end = begin + len(part)
            yield FileSlice(
                np.arange(first + begin, first + end),
                check_rows(part, self._columns).documents,
                [],
                first + end,
                None if complete is None else complete[begin:end],
            )

    def add(self, at: int, record: DelimitedRow) -> None:
        self._next = at + 1
        fault = record.fault or _find_fault(record, self._names)
        if fault is None:
            try:
                values = decode_values(record.raw, record.values, self._dialect)
            except ValueError as error:
                fault = str(error)
            else:
                record = record._replace(values=values)
        if fault is not None:
            beginning = record.raw[:RAW_PREFIX].rstrip("\r\n").encode("utf-8", self._dialect.errors)
            raw = format_raw_prefix(beginning)
            self._rejected.append(RejectedRow(at, fault, raw, record.line))
            return
        self._rows.append(at)
        self._records.append(record)
        self._size += len(record.raw)

    def take_slice(self) -> FileSlice:
        """Returns the collected rows as a slice, and begins the next one."""
        wanted = {name: self._names.index(name) for name in self._columns.stored}
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


def _count_lines(raw: str) -> int:
    return len(io.StringIO(raw, newline="").readlines())


def _find_fault(record: DelimitedRow, names: list[str]) -> str | None:
    if len(record.values) != len(names):
        return f"the row has {len(record.values)} values instead of {len(names)}"
    return None


def decode_values(raw: str, values: list[str], dialect: Dialect) -> list[str]:
    """Returns the values of a row as valid Unicode.

    Bytes that are not valid in the encoding of the file are lone surrogates. Values with them are
    decoded again in the encoding that such rows have.
    """
    if raw.isascii():
        return values
    encoding, errors = dialect.encoding, dialect.errors
    try:
        raw.encode()
    except UnicodeEncodeError:
        try:
            if dialect.row_encoding is not None:
                return [v.encode(encoding, errors).decode(dialect.row_encoding) for v in values]
        except UnicodeDecodeError:
            # The row is not valid in any of the encodings.
            pass
        place = describe_invalid_byte(raw.encode(encoding, errors), encoding)
        raise ValueError(f"the row is not valid {dialect.encoding_label}: {place}") from None
    return values


class DelimitedWriter:
    """A writer that copies the header and kept rows, and appends the added values."""

    def __init__(self, header: DelimitedRow, dialect: Dialect, sink: Any, text_column: str) -> None:
        self._header = header
        self._text_column = text_column
        self._delimiter = dialect.delimiter
        self._encoding = dialect.encoding
        self._line_end = header.raw[len(header.raw.rstrip("\r\n")) :] or "\n"
        self._sink = io.TextIOWrapper(sink, dialect.encoding, dialect.errors, newline="")
        self._begun = False

    def replace_texts(self, complete_rows: list[str], texts: pa.Array) -> list[str]:
        """Returns rows with other texts. Other values of such a row may be quoted differently.

        Args:
            texts: The new text of each row, or null to leave a row as it is, large_string (n,).
        """
        return [
            row if text is None else self._replace_text(row, text)
            for row, text in zip(complete_rows, texts.to_pylist(), strict=True)
        ]

    def _replace_text(self, row: str, text: str) -> str:
        values = next(csv.reader(io.StringIO(row, newline=""), delimiter=self._delimiter))
        values[self._header.values.index(self._text_column)] = text
        line_end = row[len(row.rstrip("\r\n")) :]
        return join_values(values, self._delimiter) + line_end

    def select(
        self, complete_rows: list[str], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> list[str]:
        """Returns the kept rows with added values.

        Args:
            keep: True for each row that is kept, bool (n,).
        """
        self._begin([] if added is None else added.schema.names)
        rows = [complete_rows[at] for at in np.flatnonzero(keep).tolist()]
        extra: list[tuple[object, ...]] = [()] * len(rows)
        if added is not None:
            extra = [tuple(row.values()) for row in list_added_values(added)]
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
                *(
                    self._delimiter + quote_value(self._make_encodable(value), self._delimiter)
                    for value in values
                ),
                row[len(body) :] or self._line_end,
            ]
        )

    def _make_encodable(self, value: str) -> str:
        r"""Returns a value with `\u2019` and the like in place of what the encoding lacks."""
        return value.encode(self._encoding, "backslashreplace").decode(self._encoding)

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
    if isinstance(value, dict | list):
        return orjson.dumps(value).decode()
    return "" if value is None else str(value)
