"""Excel workbooks (.xlsx): the rows of their first visible sheet, below its header.

The values of cells are texts to a run, as those of CSV are. A kept copy has the values in their own
types, without formulas, formats and other sheets.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.base import (
    ValueForm,
    ValueReader,
    list_added_values,
    make_unused_name,
)
from nearkin.corpus.formats.record_rows import Record, RecordFormat
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.stored_values import load_objects, store_objects
from nearkin.errors import UsageError
from nearkin.runtime.excel_workbook import (
    SheetRow,
    Value,
    Workbook,
    name_column,
)
from nearkin.runtime.excel_writer import SheetWriter, format_value, load_xlsxwriter

CELL_BYTES = 16
"""The number of bytes that a value takes beside its characters."""


class Header(NamedTuple):
    """The names of the columns of a sheet."""

    names: dict[int, str]
    """The names by the number of their column, counted from 0."""
    line: int
    """The number of the row in the sheet, counted from 1. Zero if the sheet is empty."""


class Excel(RecordFormat):
    """The format of workbooks. Rows without values are not rows."""

    value_form = ValueForm.OBJECT

    def columns(self, file: InputFile, requested: Columns) -> list[str]:
        """Returns the names in the header."""
        # A run must not fail when it writes the copy.
        load_xlsxwriter()
        with _open_workbook(file, requested) as workbook:
            return list(_take_header(workbook.rows(workbook.sheets[0]), file).names.values())

    def describe_doubts(self, file: InputFile, columns: Columns) -> list[str]:
        """Returns warnings about sheets that are not read, and about merged cells."""
        with _open_workbook(file, columns) as workbook:
            name = workbook.sheets[0].name
            others = workbook.list_others()
            for _ in workbook.rows(workbook.sheets[0]):
                # The merged ranges are behind the rows.
                pass
            merged = workbook.merged
        doubts = []
        if others:
            listed = ", ".join(map(repr, others))
            doubts.append(
                f"read the sheet {name!r} of {file.name!r} and not {listed}; to read another one, "
                "move it to the front, or save it as a file of its own"
            )
        if merged:
            doubts.append(
                f"{file.name!r} has merged cells ({', '.join(merged)}), of which only the first "
                "one has the value; unmerge them and fill in the others"
            )
        return doubts

    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        """Yields the rows of a file, as described in `RecordFormat`.

        The stored form of a record is the list of its values.
        """
        with _open_workbook(file, columns) as workbook:
            rows = workbook.rows(workbook.sheets[0])
            header = _take_header(rows, file)
            for row in rows:
                yield _make_record(row, header.names, whole=whole)

    def writer(self, file: InputFile, columns: Columns, target: str) -> "ExcelWriter":
        """Returns a writer of a workbook with the columns of the input."""
        return ExcelWriter(self.columns(file, columns), target)

    def value_reader(self, file: InputFile, columns: Columns, names: Sequence[str]) -> ValueReader:
        """Returns a function that returns the values of some columns."""

        def read_values(records: list[Record]) -> pa.RecordBatch:
            rows = (dict(zip(row.values, row.stored, strict=True)) for row in records)
            return store_objects(rows, names)

        return read_values


@contextmanager
def _open_workbook(file: InputFile, columns: Columns) -> Iterator[Workbook]:
    with file.open() as source:
        yield Workbook(source, file.shown_path, columns.document_limit)


def _take_header(rows: Iterator[SheetRow], file: InputFile) -> Header:
    """Returns the names in the first row of a sheet, which must differ."""
    line, values = next(rows, SheetRow(0, {}))
    names: dict[int, str] = {}
    for column, value in sorted(values.items()):
        name = format_value(value)
        if name in names.values():
            first = next(at for at, known in names.items() if known == name)
            raise UsageError(
                f"cannot read {file.shown_path}: the columns {name_column(first)} and "
                f"{name_column(column)} are both named {name!r} in row {line}; rename one of them"
            )
        names[column] = name
    return Header(names, line)


def _make_record(row: SheetRow, names: dict[int, str], *, whole: bool) -> Record:
    unnamed = [column for column in row.values if column not in names]
    fault = None
    if unnamed:
        fault = (
            f"the row has a value in column {name_column(unnamed[0])}, which has no name in the "
            "header"
        )
    texts = {name: format_value(row.values.get(column, "")) for column, name in names.items()}
    stored: list[Value] | None = None
    if whole:
        stored = [row.values.get(column, "") for column in names]
    size = sum(map(len, texts.values())) + CELL_BYTES * len(texts)
    return Record(texts, size, fault, stored, line=row.line)


class ExcelWriter:
    """A writer of the values of kept rows, with added columns behind them."""

    def __init__(self, names: Sequence[str], target: str) -> None:
        self._names = list(names)
        self._target = target
        self._writer: SheetWriter | None = None

    def replace_values(
        self, complete_rows: list[Record], name: str, values: pa.Array
    ) -> list[Record]:
        """Returns rows with other values of a column. A null leaves a row as it is."""
        at = self._names.index(name)
        return [
            record
            if value is None
            else record._replace(stored=[*record.stored[:at], value, *record.stored[at + 1 :]])
            for record, value in zip(complete_rows, load_objects(values), strict=True)
        ]

    def select(
        self, complete_rows: list[Record], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> list[Sequence[Any]]:
        """Returns the values of kept rows, with added values."""
        self._begin([] if added is None else added.schema.names)
        rows = [record.stored for record in compress(complete_rows, keep.tolist())]
        if added is None:
            return rows
        return [
            [*row, *values.values()]
            for row, values in zip(rows, list_added_values(added), strict=True)
        ]

    def write(self, rows: list[Sequence[Any]]) -> None:
        """Writes rows that `select` returned."""
        for row in rows:
            self._begin([]).write_row(row)

    def close(self) -> None:
        """Completes the file."""
        self._begin([]).close()

    def _begin(self, added: Sequence[str]) -> SheetWriter:
        if self._writer is None:
            taken = set(self._names)
            names = [*self._names, *(make_unused_name(name, taken) for name in added)]
            self._writer = SheetWriter(self._target, names)
        return self._writer
