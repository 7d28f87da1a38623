"""The rows of comma- and tab-separated values, which the csv module of Python parses."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from nearkin.corpus.batches import RAW_PREFIX
from nearkin.corpus.dialect import Dialect

BOM = "\ufeff"
LINE_ENDS = ("\n", "\r")
EMPTY_VALUE = '""'
"""The row whose only value is an empty text."""
UNCLOSED = "the row has a quote that is not closed"
csv.field_size_limit((1 << 31) - 1)  # The size of rows is bounded by _LineReader, with a reason.


def quote_value(value: str, delimiter: str) -> str:
    r"""Returns a value in quotes if it has a character that is special in CSV.

    The csv module of Python (3.11) does not quote a carriage return, at which a line ends.

    Examples:
        >>> quote_value("a b", ","), quote_value("a\rb,c", ",")
        ('a b', '"a\rb,c"')
    """
    if not any(special in value for special in (delimiter, '"', *LINE_ENDS)):
        return value
    return '"' + value.replace('"', '""') + '"'


def join_values(values: Iterable[str], delimiter: str) -> str:
    """Returns a row without its line end. A row is never empty, because readers skip such lines."""
    return delimiter.join(quote_value(value, delimiter) for value in values) or EMPTY_VALUE


class DelimitedRow(NamedTuple):
    """A row of a file, or the reason why it cannot be read."""

    raw: str
    """All characters of the row with the end of its last line, or the first characters if it has a
    fault."""
    values: list[str]
    fault: str | None
    line: int
    """The line at which the row begins, counted from 1."""


class DelimitedRowReader:
    """The rows of a stream, including the header.

    The size of a row is bounded. If a quote never closes, its row is rejected and the lines
    after the first are read again, each as a row of its own. Rows over several lines need
    quotes, so a quote that is not closed can only have passed over lines without quotes.

    Args:
        stream: A stream of bytes.

    Attributes:
        rest: The characters of a row in which a stream ends before the file does.
    """

    def __init__(
        self, stream: Any, dialect: Dialect, limit: int, line: int = 1, *, is_complete: bool = True
    ) -> None:
        buffered = io.BufferedReader(stream) if isinstance(stream, io.RawIOBase) else stream
        self._text = io.TextIOWrapper(buffered, dialect.encoding, dialect.errors, newline="")
        self._delimiter = dialect.delimiter
        self._limit = limit
        self._is_complete = is_complete
        self._lines = _LineReader(self._text, limit, line)
        self._records = self._every_record()
        self.rest = ""

    @property
    def next_line(self) -> int:
        """The number of the line after the rows that were read, counted from 1."""
        return self._lines.next_line

    def __iter__(self) -> Iterator[DelimitedRow]:
        return self._records

    def _every_record(self) -> Iterator[DelimitedRow]:
        lines = self._lines
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
                if not self._is_complete:
                    lines.return_row()
                    self.rest = "".join(taken)
                    return
            if fault is None:
                yield DelimitedRow("".join(taken), values, None, line)
                continue
            yield DelimitedRow(taken[0][:RAW_PREFIX] if taken else "", [], fault, line)
            for number, text in enumerate(taken[1:], line + 1):
                yield self._read_single_line(text, number)
            reader = csv.reader(lines, delimiter=self._delimiter)

    def _read_single_line(self, text: str, number: int) -> DelimitedRow:
        lines = _LineReader(io.StringIO(text, newline=""), self._limit, 1)
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
        next_line: The number of the next line, counted from 1.
        taken: The lines of the current row.
        first_line: The number of the first of these lines, counted from 1.
        ended_inside: Whether the file ended while a quote was open.
    """

    def __init__(self, text: io.TextIOBase, limit: int, line: int) -> None:
        self._text = text
        self._limit = limit
        self.next_line = line
        self.begin_row()

    def return_row(self) -> None:
        """Counts the lines of the current row as not read."""
        self.next_line = self.first_line

    def begin_row(self) -> None:
        self.taken: list[str] = []
        self.first_line = self.next_line
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
        self.next_line += 1
        if len(line) >= self._limit and not line.endswith(LINE_ENDS):
            self._skip_rest_of_line()
            raise self._too_long()
        self._size += len(line)
        if self._size > self._limit:
            raise self._too_long()
        return line.removeprefix(BOM) if self.next_line == 2 else line

    def _skip_rest_of_line(self) -> None:
        while (part := self._text.readline(self._limit)) and not part.endswith(LINE_ENDS):
            pass

    def _too_long(self) -> _TooLongError:
        return _TooLongError(
            f"the row is longer than {self._limit:,} characters, or it has a "
            "quote that is not closed"
        )
