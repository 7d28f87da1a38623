"""Writing of Excel workbooks (.xlsx) with one sheet. The library XlsxWriter writes their cells."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

import orjson

from nearkin.errors import MissingExtraError
from nearkin.runtime.excel_workbook import MAX_COLUMNS, MAX_ROWS, name_column
from nearkin.runtime.temporary_folder import TemporaryFolder

MAX_CHARACTERS = 32_767
"""The number of characters of a cell."""
MAX_EXACT = 10**15
"""The smallest number of which Excel does not show all digits."""
FIRST_DATE = date(1900, 3, 1)
"""The date from which on all programs agree about the number of a day."""
CREATED = datetime(2000, 1, 1)
"""The time of each workbook, so that equal rows become equal files."""
COLUMN_WIDTH = 18
"""The width of a column, in characters."""
FORMATS: dict[type, str] = {
    date: "yyyy-mm-dd",
    datetime: "yyyy-mm-dd hh:mm:ss",
    time: "hh:mm:ss",
    timedelta: "[h]:mm:ss",
}
"""The number format of each type."""


class SheetWriter:
    """A writer of rows of values into the sheet of a new workbook.

    The names of the columns stay visible, and filter the rows.

    A text is written as a text, also if it begins with an equals sign, so that no program takes it
    for a formula.

    Args:
        target: The path of the file.
        names: The names of the columns.
    """

    def __init__(self, target: str, names: Sequence[str]) -> None:
        if len(names) > MAX_COLUMNS:
            raise ValueError(f"a sheet has at most {MAX_COLUMNS:,} columns, not {len(names):,}")
        library = load_xlsxwriter()
        # The rows wait there until the file is complete.
        self._waiting = TemporaryFolder()
        options = {
            "constant_memory": True,
            "tmpdir": str(self._waiting.path),
            "use_zip64": True,
        }
        self._workbook = library.Workbook(target, options)
        self._workbook.set_properties({"created": CREATED})
        self._formats = {
            kind: self._workbook.add_format({"num_format": code}) for kind, code in FORMATS.items()
        }
        self._sheet = self._workbook.add_worksheet()
        self._sheet.freeze_panes(1, 0)
        self._last_column = len(names) - 1
        self._sheet.set_column(0, max(self._last_column, 0), COLUMN_WIDTH)
        self._row = 0
        self.write_row(names)

    def write_row(self, values: Iterable[Any]) -> None:
        """Writes a row. Nulls and empty texts are empty cells."""
        if self._row >= MAX_ROWS:
            raise ValueError(f"a sheet has at most {MAX_ROWS:,} rows; write .csv or .parquet")
        for column, value in enumerate(values):
            if value is not None and value != "":
                self._write(column, value)
        self._row += 1

    def close(self) -> None:
        """Completes the file."""
        if self._last_column >= 0:
            self._sheet.autofilter(0, 0, max(self._row - 1, 0), self._last_column)
        self._workbook.close()
        self._waiting.remove()

    def _write(self, column: int, value: Any) -> None:
        if isinstance(value, bool):
            self._sheet.write_boolean(self._row, column, value)
        elif isinstance(value, int | float) and abs(value) < MAX_EXACT:
            self._sheet.write_number(self._row, column, value)
        elif _is_time_of_excel(value):
            self._sheet.write_datetime(self._row, column, value, self._formats[type(value)])
        else:
            text = format_value(value)
            if len(text) > MAX_CHARACTERS:
                raise ValueError(
                    f"row {self._row + 1} has {len(text):,} characters in column "
                    f"{name_column(column)}, and a cell holds at most {MAX_CHARACTERS:,}; write "
                    ".csv or .parquet"
                )
            self._sheet.write_string(self._row, column, text)


def load_xlsxwriter() -> Any:
    """Returns the library that writes workbooks.

    Raises:
        MissingExtraError: If it is not installed.
    """
    try:
        import xlsxwriter
    except ImportError as error:
        raise MissingExtraError.for_extra("Excel files require XlsxWriter", "excel") from error
    return xlsxwriter


def _is_time_of_excel(value: object) -> bool:
    """Returns whether Excel has a number for a date or time."""
    if type(value) not in FORMATS:
        return False
    if isinstance(value, datetime):
        return value.tzinfo is None and value.date() >= FIRST_DATE
    if isinstance(value, date):
        return value >= FIRST_DATE
    if isinstance(value, timedelta):
        return value >= timedelta()
    return isinstance(value, time) and value.tzinfo is None


def format_value(value: Any) -> str:
    """Returns a value of a cell as text, whatever the language of the user is.

    Numbers have up to 15 digits, as Excel shows them.

    Examples:
        >>> format_value(7.0), format_value(0.1 + 0.2), format_value(True), format_value(1e21)
        ('7', '0.3', 'true', '1e+21')
        >>> format_value(date(2026, 5, 1)), format_value(datetime(2026, 5, 1, 8, 30))
        ('2026-05-01', '2026-05-01 08:30:00')
        >>> format_value(timedelta(hours=30, minutes=5))
        '30:05:00'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        shown = float(f"{value:.15g}")
        return str(int(shown)) if shown.is_integer() and abs(shown) < MAX_EXACT else str(shown)
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, timedelta):
        minutes, seconds = divmod(int(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if isinstance(value, dict | list):
        return orjson.dumps(value, default=str).decode()
    return str(value)
