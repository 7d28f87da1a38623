"""Comma- and tab-separated values.

Blocks of rows are decoded by Arrow if the csv module of Python would make the same of them, and by
the csv module otherwise. The two differ in what they make of quotes within values, of rows with too
many or too few values, of blank lines and of bytes that are not valid UTF-8. Kept rows have the
values, the delimiter, the encoding and the line ends of the input.
"""

import codecs
import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus.batches import RAW_PREFIX, Rejection
from nearkin.corpus.columns import BATCH_ROWS, Columns
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.corpus.formats.base import (
    FileSlice,
    Format,
    ItemsBeforeDamage,
    Reading,
    ValueReader,
    list_added_values,
    make_unused_name,
    open_compressed_sink,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.text_forms import is_utf8
from nearkin.corpus.validation import check_rows, format_raw_prefix
from nearkin.runtime.arrow_types import TEXT
from nearkin.runtime.dialect import (
    SAMPLE_BYTES,
    UTF8,
    WIDE,
    Dialect,
    describe_invalid_byte,
    detect_dialect,
    find_named_delimiter,
)

BLOCK = 1 << 20
"""The number of bytes that are read at a time."""
LARGEST_BLOCK = 16 << 20
"""The largest number of bytes that are read at a time while a row is not complete."""
HEADER_LIMIT = 1 << 22
"""The maximum number of bytes of a header, which is read before a run knows its memory."""
BOM = "\ufeff"
LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
LINE_ENDS = "\r\n"
"""The characters of the end of a line."""
UNCLOSED = "the row has a quote that is not closed"
QUOTE = ord('"')
NEWLINE = ord("\n")
RETURN = ord("\r")
csv.field_size_limit((1 << 31) - 1)  # The size of rows is bounded by _RowReader, with a reason.


class Header(NamedTuple):
    """The names of the columns of a file."""

    names: list[str]
    text: str
    """The characters of the header with its line end, and a line before it that names the
    delimiter."""
    size: int
    """The number of bytes in UTF-8 up to the first row."""
    lines: int
    """The number of lines up to the first row."""

    @property
    def line_end(self) -> str:
        """The end of its line, which rows without one receive."""
        return self.text[len(self.text.rstrip(LINE_ENDS)) :] or "\n"


class Delimited(Format):
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
        return self._header_of(file, requested).names

    def read_header(self, file: InputFile, columns: Columns) -> bytes:
        """Returns the bytes of the header, with its line end."""
        dialect = self.dialect_of(file, columns)
        return self._header_of(file, columns).text.encode(dialect.encoding, dialect.errors)

    def _header_of(self, file: InputFile, columns: Columns) -> Header:
        dialect = self.dialect_of(file, columns)
        with file.open_decompressed() as stream:
            return _read_header(_open_utf8(stream, dialect), dialect)[0]

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices, as described in `Format`.

        The complete rows are tuples of values.
        """
        dialect = self.dialect_of(file, reading.columns)
        with file.open_decompressed() as stream:
            source = _open_utf8(stream, dialect)
            header, beginning = _read_header(source, dialect)
            yield from _RowReader(header, dialect, reading).read(source, beginning)

    def writer(self, file: InputFile, columns: Columns, target: str) -> "DelimitedWriter":
        """Returns a writer that begins with the header of the input, in the same dialect."""
        header = self._header_of(file, columns)
        dialect = self.dialect_of(file, columns)
        return DelimitedWriter(header, dialect, open_compressed_sink(file, target))

    def value_reader(self, file: InputFile, columns: Columns, names: Sequence[str]) -> ValueReader:
        """Returns a function that returns the values of some columns, which are texts."""
        places = list(map(self.columns(file, columns).index, names))

        def read_values(rows: list[Sequence[str]]) -> pa.RecordBatch:
            values = [pa.array([row[at] for row in rows], TEXT) for at in places]
            return pa.record_batch(values, list(names))

        return read_values


def _read_sample(stream: Any) -> bytes:
    parts = ItemsBeforeDamage(iter(lambda: bytes(stream.read(1 << 16)), b""))
    sample = b""
    for part in parts:
        sample += part
        if len(sample) >= SAMPLE_BYTES:
            break
    return sample[:SAMPLE_BYTES]


class _Utf8Stream:
    """The content of a file in another encoding. What is not valid in it is not valid UTF-8."""

    def __init__(self, stream: Any, dialect: Dialect) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(dialect.encoding)(dialect.errors)

    def read(self, size: int) -> bytes:
        while stored := bytes(self._stream.read(size)):
            if text := self._decoder.decode(stored):
                return text.encode(UTF8, "surrogatepass")
        return self._decoder.decode(b"", final=True).encode(UTF8, "surrogatepass")


def _open_utf8(stream: Any, dialect: Dialect) -> Any:
    return stream if dialect.encoding == UTF8 else _Utf8Stream(stream, dialect)


def _decode(content: bytes, dialect: Dialect) -> str:
    """Returns the characters of a file, in which bytes that are not valid are lone surrogates."""
    return content.decode(UTF8, _utf8_errors(dialect))


def _utf8_errors(dialect: Dialect) -> str:
    return "surrogateescape" if dialect.encoding == UTF8 else "surrogatepass"


def _read_header(source: Any, dialect: Dialect) -> tuple[Header, bytes]:
    content = b""
    while True:
        part = bytes(source.read(max(BLOCK, len(content))))
        content += part
        header = _find_header(_decode(content, dialect), dialect, is_complete=not part)
        if header is not None:
            return header, content[header.size :]
        if len(content) >= HEADER_LIMIT:
            raise ValueError(f"the header is not valid: {_describe_too_long(HEADER_LIMIT)}")


def _find_header(text: str, dialect: Dialect, *, is_complete: bool) -> Header | None:
    """Returns the first row that is not blank, or None if it is not complete."""
    content = text.removeprefix(BOM)
    lines = LINE.findall(content)
    if not is_complete and len(lines) < 2:
        return None
    skipped = 1 if find_named_delimiter(content) else 0
    for row in _split_rows(lines[skipped:], dialect.delimiter):
        end = skipped + row.end
        if not is_complete and (row.values is None or end == len(lines)):
            return None
        if row.values is None:
            raise ValueError(f"the header is not valid: {UNCLOSED}")
        if row.values:
            before = text[: len(text) - len(content)] + "".join(lines[:skipped])
            head = before + "".join(lines[skipped + row.begin : end])
            size = len(before) + sum(map(len, lines[skipped:end]))
            stored = text[:size].encode(UTF8, _utf8_errors(dialect))
            return Header(row.values, head, len(stored), end)
    return Header([], "", len(text.encode(UTF8, _utf8_errors(dialect))), 0) if is_complete else None


class _SplitRow(NamedTuple):
    """A row among lines, or all lines behind a quote that is not closed."""

    begin: int
    """The number of its first line."""
    end: int
    """The number of the line after it."""
    values: list[str] | None
    """The values, none for a blank row. None if a quote is not closed."""


def _split_rows(lines: Sequence[str], delimiter: str) -> Iterator[_SplitRow]:
    # A quote that is not closed takes the line that is added at the end.
    reader = csv.reader(chain(lines, "\n"), delimiter=delimiter)
    begin = 0
    for values in reader:
        end = reader.line_num
        if end <= len(lines):
            yield _SplitRow(begin, end, values)
        elif begin < len(lines):
            yield _SplitRow(begin, len(lines), None)
        begin = end


class _ParsedRow(NamedTuple):
    """A row of the csv module."""

    row: int
    line: int
    raw: str
    values: list[str]
    fault: str | None


class _RowReader:
    """Reads the rows after the header of a file.

    The size of a row is bounded. If a quote never closes, its row is rejected and the lines
    after the first are read again, each as a row of its own. Rows over several lines need
    quotes, so a quote that is not closed can only have passed over lines without quotes.
    """

    def __init__(self, header: Header, dialect: Dialect, reading: Reading) -> None:
        self._names = header.names
        self._columns = reading.columns
        self._dialect = dialect
        self._start = reading.start
        self._whole = reading.whole
        self._row = 0
        self._line = header.lines + 1
        self._is_decodable = set(reading.columns.stored) <= set(header.names)

    def read(self, source: Any, beginning: bytes) -> Iterator[FileSlice]:
        """Yields the rows of a stream. Before an error of reading, all complete lines are read."""
        held = beginning
        limit = self._columns.document_limit
        damage: DamageError | None = None
        is_last = False
        while not is_last:
            try:
                # A row over several blocks is parsed again each time, so they become larger.
                with decoding():
                    part = bytes(source.read(max(BLOCK, min(len(held), LARGEST_BLOCK))))
            except DamageError as error:
                damage, part = error, b""
                held = held[: held.rfind(b"\n") + 1]
            held += part
            is_last = not part
            end = len(held) if is_last else _find_row_end(held)
            if not end:
                # The rest of a line that is too long is not kept.
                held = held[: limit + 1]
                continue
            content = held[:end]
            held = held[end:]
            decoded = self._decode(content)
            if decoded is None:
                parsed, rest = self._parse(content, is_last=is_last)
                held = rest + held
                for begin in range(0, len(parsed), BATCH_ROWS):
                    yield self._make_slice(parsed[begin : begin + BATCH_ROWS])
            else:
                yield from decoded
        if damage is not None:
            raise damage

    def _parse(self, content: bytes, *, is_last: bool) -> tuple[list[_ParsedRow], bytes]:
        """Returns the rows of a block, and the bytes of a last one that is not complete."""
        lines = LINE.findall(_decode(content, self._dialect))
        delimiter = self._dialect.delimiter
        limit = self._columns.document_limit
        rows: list[_ParsedRow] = []
        for begin, end, values in _split_rows(lines, delimiter):
            raw = "".join(lines[begin:end])
            is_long = len(raw) > limit // 4 and len(raw.encode(UTF8, "surrogatepass")) > limit
            if values is None and not is_last and not is_long:
                return rows, raw.encode(UTF8, _utf8_errors(self._dialect))
            if values is not None and not is_long:
                self._add_row(rows, raw, values, None, end - begin)
                continue
            fault = _describe_too_long(limit) if is_long else UNCLOSED
            self._add_row(rows, lines[begin], [], fault)
            for line in lines[begin + 1 : end]:
                alone = next(_split_rows([line], delimiter)).values
                self._add_row(rows, line, alone or [], UNCLOSED if alone is None else None)
        return rows, b""

    def _add_row(
        self, rows: list[_ParsedRow], raw: str, values: list[str], fault: str | None, lines: int = 1
    ) -> None:
        if self._row >= self._start and (values or fault):
            if fault is None and len(values) != len(self._names):
                fault = f"the row has {len(values)} values instead of {len(self._names)}"
            if fault is None:
                try:
                    values = _decode_values(raw, values, self._dialect)
                except ValueError as error:
                    fault = str(error)
            rows.append(_ParsedRow(self._row, self._line, raw, values, fault))
        self._row += 1
        self._line += lines

    def _make_slice(self, parsed: list[_ParsedRow]) -> FileSlice:
        errors = self._dialect.errors
        rejected = [
            Rejection(row, fault, _make_raw_prefix(raw, errors), line)
            for row, line, raw, _, fault in parsed
            if fault is not None
        ]
        fitting = [row for row in parsed if row.fault is None]
        places = {name: self._names.index(name) for name in self._columns.stored}
        arrays = [
            pa.array([row.values[place] for row in fitting], pa.large_string())
            for place in places.values()
        ]
        checked = check_rows(pa.record_batch(arrays, list(places)), self._columns)
        rejected += [
            Rejection(fitting[at].row, reason, raw, fitting[at].line)
            for at, reason, raw in checked.rejected
        ]
        kept = [fitting[at] for at in checked.kept.tolist()]
        return FileSlice(
            np.array([row.row for row in kept], np.int64),
            checked.documents,
            sorted(rejected, key=lambda entry: entry.row),
            parsed[-1].row + 1,
            [tuple(row.values) for row in kept] if self._whole else None,
        )

    def _decode(self, content: bytes) -> list[FileSlice] | None:
        """Returns the slices of a block, or None if the csv module has to parse it."""
        if not self._is_decodable or not content or len(content) > self._columns.document_limit:
            return None
        codes = np.frombuffer(content, np.uint8)
        quotes = np.flatnonzero(codes == QUOTE)
        if not _is_plain(content, codes) or not self._encloses_values(codes, quotes):
            return None
        newlines = np.flatnonzero(codes == NEWLINE)
        ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0] + 1
        if not len(ends) or ends[-1] < len(content):
            ends = np.append(ends, len(content))
        starts = np.concatenate([[0], ends[:-1]])
        # A blank line is a row of empty values to Arrow.
        if np.isin(codes[starts], (NEWLINE, RETURN)).any():
            return None
        rows = self._parse_by_arrow(content)
        if rows is None or len(rows) != len(ends):
            return None
        lines = self._line + np.searchsorted(newlines, starts)
        slices = [
            self._slice_batch(rows, lines, begin)
            for begin in range(max(self._start - self._row, 0), len(rows), BATCH_ROWS)
        ]
        self._row += len(rows)
        self._line += len(newlines)
        return slices

    def _encloses_values(self, codes: np.ndarray, quotes: np.ndarray) -> bool:
        """Returns whether all quotes enclose values, or are doubled within such values."""
        if len(quotes) % 2:
            return False
        opening, closing = quotes[::2], quotes[1::2]
        is_border = np.zeros(256, bool)
        is_border[[ord(self._dialect.delimiter), NEWLINE, RETURN, QUOTE]] = True
        before = codes[np.maximum(opening - 1, 0)]
        after = codes[np.minimum(closing + 1, len(codes) - 1)]
        return bool(
            (is_border[before] | (opening == 0)).all()
            and (is_border[after] | (closing == len(codes) - 1)).all()
        )

    def _parse_by_arrow(self, content: bytes) -> pa.RecordBatch | None:
        """Returns the columns that are needed, named by their places in the header."""
        # Most runs read no CSV.
        from pyarrow import csv as arrow_csv

        places = list(map(str, range(len(self._names))))
        needed = places
        if not self._whole:
            needed = [str(self._names.index(name)) for name in self._columns.stored]
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(content),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(content) + 1, column_names=places
                ),
                arrow_csv.ParseOptions(
                    delimiter=self._dialect.delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                ),
                arrow_csv.ConvertOptions(
                    check_utf8=False,
                    include_columns=needed,
                    column_types=dict.fromkeys(needed, pa.large_string()),
                ),
            )
        except pa.ArrowInvalid:
            return None
        return table.combine_chunks().to_batches()[0]

    def _slice_batch(self, rows: pa.RecordBatch, lines: np.ndarray, begin: int) -> FileSlice:
        part = rows.slice(begin, BATCH_ROWS)
        names = self._columns.stored
        stored = [part[str(self._names.index(name))] for name in names]
        checked = check_rows(pa.record_batch(stored, list(names)), self._columns)
        first = self._row + begin
        complete = None
        if self._whole:
            values = zip(*(column.to_pylist() for column in part.columns), strict=True)
            complete = list(compress(values, checked.mask.tolist()))
        return FileSlice(
            first + checked.kept,
            checked.documents,
            [
                Rejection(first + at, reason, raw, int(lines[begin + at]))
                for at, reason, raw in checked.rejected
            ],
            first + len(part),
            complete,
        )


def _find_row_end(content: bytes) -> int:
    """Returns the end of the last line that no quotes enclose, otherwise that of the last line."""
    last = content.rfind(b"\n")
    if last < 0:
        # The last return may be the first half of a line end.
        return content.rfind(b"\r", 0, -1) + 1
    is_quote = np.frombuffer(content, np.uint8) == QUOTE
    end = last
    inside = np.count_nonzero(is_quote[:last]) % 2
    while end >= 0 and inside:
        previous = content.rfind(b"\n", 0, end)
        inside = (inside + np.count_nonzero(is_quote[max(previous, 0) : end])) % 2
        end = previous
    return (end if end >= 0 else last) + 1


def _is_plain(content: bytes, codes: np.ndarray) -> bool:
    """Returns whether no character has another meaning to Arrow than to the csv module."""
    after_returns = np.flatnonzero(codes == RETURN) + 1
    if len(after_returns) and after_returns[-1] == len(codes):
        return False
    if (codes[after_returns] != NEWLINE).any() or content.startswith(codecs.BOM_UTF8):
        return False
    return bool(codes.min() > 0) and is_utf8(content)


def _describe_too_long(limit: int) -> str:
    return f"the row is longer than {limit:,} bytes, or it has a quote that is not closed"


def _make_raw_prefix(raw: str, errors: str) -> str:
    return format_raw_prefix(raw[:RAW_PREFIX].rstrip(LINE_ENDS).encode(UTF8, errors))


def _decode_values(raw: str, values: list[str], dialect: Dialect) -> list[str]:
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


def format_rows(rows: Iterable[Iterable[str]], delimiter: str, line_end: str = "\n") -> str:
    r"""Returns the lines of rows. A row with a single empty value is not a blank line.

    The csv module takes several times as long for long values.

    Examples:
        >>> format_rows([["a", "b;c"], ["d\re", ""]], ";")
        'a;"b;c"\n"d\re";\n'
    """
    return "".join(
        (delimiter.join(_quote_value(value, delimiter) for value in row) or '""') + line_end
        for row in rows
    )


def _quote_value(value: str, delimiter: str) -> str:
    if delimiter in value or '"' in value or "\n" in value or "\r" in value:
        return '"' + value.replace('"', '""') + '"'
    return value


class DelimitedWriter:
    """A writer of the header and the values of kept rows, with added columns."""

    def __init__(self, header: Header, dialect: Dialect, sink: Any) -> None:
        self._header = header
        self._dialect = dialect
        self._sink = sink
        self._begun = False

    def replace_values(
        self, complete_rows: list[Sequence[str]], name: str, values: pa.Array
    ) -> list[Sequence[str]]:
        """Returns rows with other values of a column. A null leaves a row as it is."""
        at = self._header.names.index(name)
        return [
            row if value is None else [*row[:at], value, *row[at + 1 :]]
            for row, value in zip(complete_rows, values.to_pylist(), strict=True)
        ]

    def select(
        self, complete_rows: list[Sequence[str]], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> list[Sequence[str]]:
        """Returns the kept rows with added values."""
        self._begin([] if added is None else added.schema.names)
        rows = list(compress(complete_rows, keep.tolist()))
        if added is None:
            return rows
        return [
            [*row, *map(_format_value, values.values())]
            for row, values in zip(rows, list_added_values(added), strict=True)
        ]

    def write(self, rows: list[Sequence[str]]) -> None:
        """Writes rows that `select` returned."""
        self._write(format_rows(rows, self._dialect.delimiter, self._header.line_end))

    def _write(self, text: str) -> None:
        r"""Writes characters, with `\u2019` and the like in place of what the encoding lacks."""
        self._sink.write(text.encode(self._dialect.encoding, "backslashreplace"))

    def _begin(self, added: list[str]) -> None:
        if not self._begun and self._header.names:
            text = self._header.text.rstrip(LINE_ENDS)
            # The names need not be valid in the encoding.
            self._sink.write(text.encode(self._dialect.encoding, self._dialect.errors))
            names = [make_unused_name(name, set(self._header.names)) for name in added]
            if names:
                self._write(self._dialect.delimiter)
                self._write(format_rows([names], self._dialect.delimiter, self._header.line_end))
            else:
                self._write(self._header.line_end)
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
