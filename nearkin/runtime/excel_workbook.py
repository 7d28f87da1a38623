"""The sheets of an Excel workbook (.xlsx), read in one pass without holding a sheet in memory.

Libraries that read workbooks hold all cells of a sheet, with a copy of its text for each cell that
refers to a shared one. A file of a few kilobytes can take any amount of memory that way. So the XML
of a sheet is parsed here as a stream, in which each row is handed on once it is complete.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from enum import Enum, auto
from typing import Any, NamedTuple
from xml.parsers import expat
from zipfile import ZipFile, is_zipfile

from nearkin.errors import UsageError

MAX_ROWS = 1 << 20
"""The number of rows of a sheet."""
MAX_COLUMNS = 1 << 14
"""The number of columns of a sheet."""
BLOCK = 1 << 16
"""The number of bytes of XML that are parsed at a time."""
MAX_TOKEN = 1 << 22
"""The maximum number of bytes of XML that the parser holds, for example of a tag."""
UNPACKED_SHARE = 8
"""A part of a workbook, unpacked, may have this many times the document limit."""
SHARED_SHARE = 2
"""The shared texts of a workbook, unpacked, may have this many times the document limit."""
PEEKED_BYTES = 1 << 20
"""The number of bytes of another sheet in which a value is looked for."""
MAX_LISTED_RANGES = 3
"""The number of merged ranges that are remembered."""
WORKBOOK = "xl/workbook.xml"
WORKBOOK_LINKS = "xl/_rels/workbook.xml.rels"
OLD_DOCUMENT = b"\xd0\xcf\x11\xe0"
"""The first bytes of old Office documents, and of new ones with a password."""
VALUE_TAG = re.compile(rb"<(\w+:)?(v|is)>")
"""The tag of a value of a cell."""
COLUMN = re.compile(r"[A-Z]{1,3}")
"""The letters of a column."""
DIGITS = "0123456789"
LITERALS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]')
"""The parts of a number format that are shown as they are, colours and conditions."""
ELAPSED = re.compile(r"\[(h+|m+|s+)\]")
ESCAPED = re.compile(r"_x(?![Dd][89A-Fa-f])([0-9A-Fa-f]{4})_")
"""A character that XML cannot hold, as Excel writes it, without halves of characters."""


class NumberKind(Enum):
    """The kind of value that a number format shows."""

    NUMBER = auto()
    DATE = auto()
    DATE_TIME = auto()
    TIME = auto()
    ELAPSED = auto()


STANDARD_FORMATS = {
    **dict.fromkeys([14, 15, 16, 17, *range(27, 32), 36, *range(50, 59)], NumberKind.DATE),
    **dict.fromkeys([18, 19, 20, 21, 32, 33, 34, 35, 45, 47], NumberKind.TIME),
    22: NumberKind.DATE_TIME,
    46: NumberKind.ELAPSED,
}
"""The formats that files name by a number only (ECMA-376, 18.8.30)."""

Value = str | bool | int | float | date | datetime | time | timedelta
"""A value of a cell."""


class SheetRow(NamedTuple):
    """A row of a sheet that has values."""

    line: int
    """The number of the row in the sheet, counted from 1."""
    values: dict[int, Value]
    """The values by the number of their column, counted from 0."""


class Sheet(NamedTuple):
    """A sheet of a workbook."""

    name: str
    part: str
    """The name of its XML in the archive."""


class Workbook:
    """A workbook, of which sheets can be read.

    Args:
        source: The file, which can be positioned.
        place: The name of the file, for messages.
        document_limit: The size of the largest document of the run, in bytes, from which the limits
            of this file follow.

    Attributes:
        sheets: The visible sheets, in their order.
        merged: Some merged ranges of the sheet that was read last.
    """

    def __init__(self, source: Any, place: str, document_limit: int) -> None:
        self._place = place
        self._limit = document_limit
        self._archive = _open_archive(source, place)
        self._parts = {name.replace("\\", "/").lower(): name for name in self._archive.namelist()}
        if WORKBOOK not in self._parts:
            raise UsageError(
                f"cannot read {place}: it is not an Excel workbook; save it as .xlsx, or as CSV"
            )
        self._links = self._read_links()
        self._first_day = datetime(1899, 12, 30)
        self.sheets = self._list_sheets()
        self.merged: list[str] = []

    def list_others(self) -> list[str]:
        """Returns the names of the sheets after the first one that have values."""
        return [sheet.name for sheet in self.sheets[1:] if self._has_values(sheet)]

    def rows(self, sheet: Sheet) -> Iterator[SheetRow]:
        """Yields the rows of a sheet that have values."""
        shared = self._read_shared_texts()
        handler = _SheetHandler(shared, self._read_styles(), self._first_day, self._limit)
        self.merged = handler.merged
        for _ in self._parse(sheet.part, handler.start, handler.end, handler.add_text):
            yield from handler.take_rows()

    def _has_values(self, sheet: Sheet) -> bool:
        with self._archive.open(self._parts[sheet.part]) as stream:
            return VALUE_TAG.search(stream.read(PEEKED_BYTES)) is not None

    def _read_links(self) -> dict[str, str]:
        """Returns the names of parts that the workbook refers to, by their ids and their kinds."""
        links: dict[str, str] = {}

        def start(name: str, attributes: dict[str, str]) -> None:
            if name == "Relationship" and attributes.get("TargetMode") != "External":
                target = attributes.get("Target", "").lower()
                part = target[1:] if target.startswith("/") else f"xl/{target}"
                links[attributes.get("Id", "")] = part
                links[attributes.get("Type", "").rpartition("/")[2]] = part

        self._parse_all(WORKBOOK_LINKS, start)
        return links

    def _list_sheets(self) -> list[Sheet]:
        sheets: list[Sheet] = []

        def start(name: str, attributes: dict[str, str]) -> None:
            if name == "workbookPr" and attributes.get("date1904") in ("1", "true"):
                self._first_day = datetime(1904, 1, 1)
            if name == "sheet" and attributes.get("state", "visible") == "visible":
                # The prefix of the namespace of ids differs from file to file.
                ids = (value for key, value in attributes.items() if key.endswith(":id"))
                part = self._links.get(next(ids, ""), "")
                if part in self._parts and "worksheets/" in part:
                    sheets.append(Sheet(attributes.get("name", ""), part))

        self._parse_all(WORKBOOK, start)
        if not sheets:
            raise UsageError(
                f"cannot read {self._place}: the workbook has no visible sheet; unhide the one to "
                "read"
            )
        return sheets

    def _read_shared_texts(self) -> list[str]:
        texts: list[str] = []
        part = self._links.get("sharedStrings", "")
        if part in self._parts:
            handler = _SharedTextHandler(texts, self._limit)
            limit = SHARED_SHARE * self._limit
            for _ in self._parse(part, handler.start, handler.end, handler.add_text, limit):
                pass
        return texts

    def _read_styles(self) -> list[NumberKind]:
        """Returns what numbers are, by the style of their cell."""
        codes: dict[str, str] = {}
        styles: list[NumberKind] = []
        inside = [""]

        def start(name: str, attributes: dict[str, str]) -> None:
            if name == "numFmt":
                codes[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
            if name in ("cellXfs", "cellStyleXfs"):
                inside[0] = name
            if name == "xf" and inside[0] == "cellXfs":
                number = attributes.get("numFmtId", "0")
                if number in codes:
                    styles.append(classify_number_format(codes[number]))
                else:
                    styles.append(STANDARD_FORMATS.get(int(number), NumberKind.NUMBER))

        self._parse_all(self._links.get("styles", ""), start)
        return styles

    def _parse_all(self, part: str, start: Callable[[str, dict[str, str]], None]) -> None:
        """Parses a part of which only the attributes matter, if there is one."""
        if part in self._parts:
            for _ in self._parse(part, start, _ignore, _ignore, SHARED_SHARE * self._limit):
                pass

    def _parse(
        self,
        part: str,
        start: Callable[[str, dict[str, str]], None],
        end: Callable[[str], None],
        add_text: Callable[[str], None],
        limit: int | None = None,
    ) -> Iterator[None]:
        """Parses a part of the archive, and yields after each block."""
        limit = limit or UNPACKED_SHARE * self._limit
        # Excel writes UTF-8, and no declaration of a file changes it.
        parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = True

        def begin(name: str, attributes: dict[str, str]) -> None:
            # All tags of a part have the prefix of the first one, which is rarely there.
            prefix = f"{name.partition(':')[0]}:" if ":" in name else ""
            parser.StartElementHandler = start
            parser.EndElementHandler = end
            if prefix:
                parser.StartElementHandler = lambda tag, values: start(
                    tag.removeprefix(prefix), values
                )
                parser.EndElementHandler = lambda tag: end(tag.removeprefix(prefix))
            start(name.removeprefix(prefix), attributes)

        parser.StartElementHandler = begin
        parser.CharacterDataHandler = add_text
        parser.StartDoctypeDeclHandler = _reject_doctype
        size = 0
        with self._archive.open(self._parts[part]) as stream:
            while block := stream.read(BLOCK):
                size += len(block)
                if size > limit:
                    raise UsageError(
                        f"cannot read {self._place}: {part} has more than {limit:,} bytes "
                        "unpacked; save the sheet as CSV, or run with more memory"
                    )
                parser.Parse(block)
                if size - parser.CurrentByteIndex > MAX_TOKEN:
                    raise ValueError(f"a tag of {part} has more than {MAX_TOKEN:,} bytes")
                yield
        parser.Parse(b"", True)  # noqa: FBT003 (pyexpat has no names)
        yield


def _open_archive(source: Any, place: str) -> ZipFile:
    beginning = bytes(source.read(len(OLD_DOCUMENT)))
    source.seek(0)
    if beginning == OLD_DOCUMENT:
        raise UsageError(
            f"cannot read {place}: it is an old workbook (.xls), or has a password; save it as "
            ".xlsx without a password"
        )
    if not is_zipfile(source):
        raise UsageError(
            f"cannot read {place}: it is not a complete Excel workbook; save it as .xlsx again, or "
            "as CSV"
        )
    return ZipFile(source)


def _ignore(_: str) -> None:
    """Ignores an end tag or a text."""


def _reject_doctype(*_: object) -> None:
    raise ValueError("the XML declares a document type, which no workbook does")


class _TextHandler:
    """A handler of texts, which may consist of several parts with a format each."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._is_text = False
        self._is_phonetic = False
        self._parts: list[str] = []
        self._size = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Handles a start tag."""
        if name == "t":
            # The pronunciation of a text is not a part of it.
            self._is_text = not self._is_phonetic
        elif name == "rPh":
            self._is_phonetic = True

    def end(self, name: str) -> None:
        """Handles an end tag."""
        if name == "t":
            self._is_text = False
        elif name == "rPh":
            self._is_phonetic = False

    def add_text(self, text: str) -> None:
        """Adds characters to the current text."""
        if self._is_text:
            self._size += len(text)
            if self._size > self._limit:
                raise ValueError(f"a text has more than {self._limit:,} characters")
            self._parts.append(text)

    def take_text(self) -> str:
        """Returns the text that was read."""
        text = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return text


class _SharedTextHandler(_TextHandler):
    """A handler of the texts to which cells refer."""

    def __init__(self, texts: list[str], limit: int) -> None:
        super().__init__(limit)
        self._texts = texts

    def end(self, name: str) -> None:
        super().end(name)
        if name == "si":
            self._texts.append(unescape_text(self.take_text()))


class _SheetHandler(_TextHandler):
    """A handler of the rows of a sheet."""

    def __init__(
        self, shared: list[str], styles: list[NumberKind], first_day: datetime, limit: int
    ) -> None:
        super().__init__(limit)
        self._shared = shared
        self._styles = styles
        self._first_day = first_day
        self._rows: list[SheetRow] = []
        self._line = 0
        self._column = -1
        self._kind = ""
        self._style = ""
        self._values: dict[int, Value] = {}
        self._columns: dict[str, int] = {}
        self.merged: list[str] = []

    def take_rows(self) -> list[SheetRow]:
        """Returns the rows that are complete."""
        rows = self._rows
        self._rows = []
        return rows

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "c":
            reference = attributes.get("r")
            if reference is None:
                self._column += 1
            else:
                self._column = self._find_column(reference.rstrip(DIGITS))
            if self._column >= MAX_COLUMNS:
                raise ValueError(f"row {self._line} has more than {MAX_COLUMNS:,} columns")
            self._kind = attributes.get("t", "n")
            self._style = attributes.get("s", "")
        elif name == "v":
            self._is_text = True
        elif name == "row":
            self._line = int(attributes.get("r", self._line + 1))
            if self._line > MAX_ROWS:
                raise ValueError(f"the sheet has more than {MAX_ROWS:,} rows")
            self._column = -1
        elif name == "mergeCell" and len(self.merged) < MAX_LISTED_RANGES:
            self.merged.append(attributes.get("ref", ""))
        else:
            super().start(name, attributes)

    def end(self, name: str) -> None:
        if name == "v":
            self._is_text = False
        elif name == "c":
            text = self.take_text()
            if text:
                value = self._convert(text)
                if value != "":
                    self._values[self._column] = value
        elif name == "row":
            if self._values:
                self._rows.append(SheetRow(self._line, self._values))
                self._values = {}
        else:
            super().end(name)

    def _find_column(self, letters: str) -> int:
        column = self._columns.get(letters)
        if column is None:
            column = self._columns[letters] = parse_column(letters)
        return column

    def _convert(self, text: str) -> Value:
        if self._kind == "s":
            return self._shared[int(text)]
        if self._kind == "b":
            return text.strip() in ("1", "true")
        if self._kind in ("str", "inlineStr"):
            return unescape_text(text)
        if self._kind != "n":
            # Errors such as #N/A, and dates in the form of ISO 8601.
            return text
        number = float(text)
        if not self._style:
            return number
        return convert_number(number, self._styles[int(self._style)], self._first_day)


def parse_column(letters: str) -> int:
    """Returns the number of a column, counted from 0.

    Examples:
        >>> parse_column("A"), parse_column("AB"), parse_column("XFD")
        (0, 27, 16383)
    """
    if not COLUMN.fullmatch(letters):
        raise ValueError(f"the column {letters[:20]!r} of a cell is not valid")
    column = 0
    for letter in letters:
        column = 26 * column + ord(letter) - ord("A") + 1
    return column - 1


def name_column(column: int) -> str:
    """Returns the letters of a column, counted from 0.

    Examples:
        >>> name_column(0), name_column(27), name_column(16_383)
        ('A', 'AB', 'XFD')
    """
    letters = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def classify_number_format(code: str) -> NumberKind:
    """Returns what a number format shows.

    Examples:
        >>> classify_number_format("dd/mm/yyyy"), classify_number_format('0.00" days"')
        (<NumberKind.DATE: 2>, <NumberKind.NUMBER: 1>)
        >>> classify_number_format("[h]:mm"), classify_number_format("h:mm AM/PM")
        (<NumberKind.ELAPSED: 5>, <NumberKind.TIME: 4>)
    """
    # Of up to four sections, the first one is for positive numbers.
    shown = LITERALS.sub("", code.lower()).partition(";")[0].replace("am/pm", "h")
    shown = shown.replace("general", "")
    if ELAPSED.search(shown):
        return NumberKind.ELAPSED
    has_time = "h" in shown or "s" in shown
    has_day = "d" in shown or "y" in shown
    if has_time:
        return NumberKind.DATE_TIME if has_day else NumberKind.TIME
    return NumberKind.DATE if has_day or "m" in shown else NumberKind.NUMBER


def convert_number(number: float, kind: NumberKind, first_day: datetime) -> Value:
    """Returns the date or time that a number of a cell stands for, to the millisecond.

    A number that is not one of a date stays a number.

    Examples:
        >>> convert_number(45658.0, NumberKind.DATE, datetime(1899, 12, 30))
        datetime.date(2025, 1, 1)
        >>> convert_number(0.5, NumberKind.TIME, datetime(1899, 12, 30))
        datetime.time(12, 0)
    """
    if kind is NumberKind.NUMBER or not 0 <= number < 2_958_466:
        return number
    span = timedelta(milliseconds=round(number * 86_400_000))
    if kind is NumberKind.ELAPSED:
        return span
    if kind is NumberKind.TIME and span < timedelta(days=1):
        return (datetime.min + span).time()
    if first_day.year == 1899 and number < 60:
        # To Excel, 1900 is a leap year.
        span += timedelta(days=1)
    moment = first_day + span
    is_day = kind is NumberKind.DATE and moment.time() == time()
    return moment.date() if is_day else moment


def unescape_text(text: str) -> str:
    r"""Returns a text with the characters that XML cannot hold.

    Examples:
        >>> unescape_text("a_x0001_b"), unescape_text("_x005F_x0001_")
        ('a\x01b', '_x0001_')
    """
    if "_x" not in text:
        return text
    return ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
