"""Formats whose libraries yield one record at a time, for example WARC, Avro and tar."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus.batches import Rejection
from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, Columns, FieldKind
from nearkin.corpus.formats.base import (
    FileSlice,
    Format,
    ItemsBeforeDamage,
    Reading,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.integers import convert_values
from nearkin.corpus.nested_columns import MISSING, find_value
from nearkin.corpus.text_forms import format_as_text
from nearkin.corpus.validation import CheckedRows, check_rows, make_empty_documents
from nearkin.errors import UsageError

NO_COMMON_TYPE = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    OverflowError,
)
"""The errors of Arrow for values that have no type in common."""


class Record(NamedTuple):
    """A row of a file of records."""

    values: dict[str, Any]
    """The values by the name of the column. A missing one is null."""
    size: int
    """The number of bytes that the record takes in memory, approximately."""
    fault: str | None = None
    """The reason why the record is not a document, or None."""
    stored: Any = None
    """The bytes or values from which the writer copies the record. None unless requested."""
    skipped: str | None = None
    """The kind of a record that is not a row, and that is only counted. None for a row."""
    line: int | None = None
    """The number of the record in its file as its users count, if they count from 1."""


class RecordFormat(Format):
    """A format of records. Rows before damage are read; the rest of the file is one rejection."""

    @abstractmethod
    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        """Yields the records of a file."""

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices, as described in `Format`."""
        columns, start, whole, rows, _ = reading
        needed = None if rows is None else set(rows.tolist())
        row = start - 1
        skipped: Counter[str] = Counter()
        records = ItemsBeforeDamage(self.records(file, columns, whole=whole))
        waiting = _WaitingRecords(columns, whole=whole)
        for row, record in enumerate(_remove_skipped(records, skipped)):
            if row < start or (needed is not None and row not in needed):
                continue
            waiting.add(row, record)
            if waiting.size >= BATCH_BYTES or len(waiting.rows) >= BATCH_ROWS:
                yield waiting.take_slice()
        if waiting.rows:
            yield waiting.take_slice()
        if skipped:
            no_rows = FileSlice(np.empty(0, np.int64), make_empty_documents(columns), [], row + 1)
            yield no_rows._replace(skipped=skipped)
        records.raise_damage()


def _remove_skipped(records: Iterable[Record], skipped: Counter[str]) -> Iterator[Record]:
    """Yields the records that are rows, and counts the others by their kind."""
    for record in records:
        if record.skipped is None:
            yield record
        else:
            skipped[record.skipped] += 1


class _WaitingRecords:
    """Records that become one slice."""

    def __init__(self, columns: Columns, *, whole: bool) -> None:
        self._columns = columns
        self._whole = whole
        self._records: list[Record] = []
        self.rows: list[int] = []
        self.size = 0

    def add(self, row: int, record: Record) -> None:
        if record.fault is None:
            fault = _find_other_type(record, self._columns)
            fault = fault or _find_invalid_text(record, self._columns)
            record = record._replace(fault=fault)
        self.rows.append(row)
        self._records.append(record)
        self.size += record.size

    def take_slice(self) -> FileSlice:
        rows, records = self.rows, self._records
        self.rows = []
        self._records = []
        self.size = 0
        fit = [at for at, record in enumerate(records) if record.fault is None]
        rejected = [
            Rejection(row, record.fault, "", record.line)
            for row, record in zip(rows, records, strict=True)
            if record.fault is not None
        ]
        if not fit:
            documents = make_empty_documents(self._columns)
            return FileSlice(np.empty(0, np.int64), documents, rejected, rows[-1] + 1, [])
        checked = self._check([records[at] for at in fit])
        rejected += [
            Rejection(rows[fit[at]], reason, raw, records[fit[at]].line)
            for at, reason, raw in checked.rejected
        ]
        kept = [fit[at] for at in checked.kept.tolist()]
        return FileSlice(
            np.array([rows[at] for at in kept], np.int64),
            checked.documents,
            sorted(rejected, key=lambda entry: entry.row),
            rows[-1] + 1,
            [records[at] for at in kept] if self._whole else None,
        )

    def _check(self, records: list[Record]) -> CheckedRows:
        """Returns the documents among records, of which each may have values of another type."""
        try:
            checked = check_rows(self._make_batch(records), self._columns)
        except UsageError:
            faults = {
                at: reason
                for at, record in enumerate(records)
                if (reason := self._find_type_fault(record)) is not None
            }
            # The others have one type, and a null fits any.
            fitting = [
                record._replace(values={}) if at in faults else record
                for at, record in enumerate(records)
            ]
            if len(faults) == len(records):
                documents = make_empty_documents(self._columns)
                rejected = [(at, reason, "") for at, reason in faults.items()]
                return CheckedRows(
                    documents, np.empty(0, np.int64), rejected, np.zeros(len(records), bool)
                )
            checked = check_rows(self._make_batch(fitting), self._columns, faults)
            reasons = [(at, faults.get(at, why), raw) for at, why, raw in checked.rejected]
            checked = checked._replace(rejected=reasons)
        return checked

    def _find_type_fault(self, record: Record) -> str | None:
        try:
            check_rows(self._make_batch([record]), self._columns)
        except UsageError as error:
            return str(error).partition(";")[0]
        return None

    def _make_batch(self, records: list[Record]) -> pa.RecordBatch:
        parts = {name: self._make_column(name, records) for name in self._columns.stored}
        # Without columns, a batch has no rows.
        parts = parts or {"": pa.nulls(len(records))}
        return pa.record_batch(list(parts.values()), list(parts))

    def _make_column(self, name: str, records: list[Record]) -> pa.Array:
        values = [_read_value(record, name) for record in records]
        if name not in self._columns.sources and any(map(_has_own_keys, values)):
            # In a column of structs, each value would have the keys of all values of the slice.
            return pa.array(map(format_alone, values), pa.large_string())
        return make_column(values)


def _read_value(record: Record, name: str) -> Any:
    """Returns the value of a column, or of a path inside one, or None if the record lacks it."""
    value = find_value(record.values, name)
    return None if value is MISSING else value


def _has_own_keys(value: Any) -> bool:
    """Returns whether a value is a dictionary, or a list that begins with one."""
    return isinstance(value[0] if isinstance(value, list) and value else value, dict)


def _find_other_type(record: Record, columns: Columns) -> str | None:
    """Returns the reason why a text of a record has another type, or None.

    Whether a record is a document must not depend on the types of the others.
    """
    texts = columns.sources if columns.content == "text" else ()
    if columns.fields:
        texts = tuple(field.name for field in columns.fields if field.kind == FieldKind.TEXT)
    for name in texts:
        if not isinstance(_read_value(record, name), str | bytes | None):
            return f"{name} is not a text"
    return None


def _find_invalid_text(record: Record, columns: Columns) -> str | None:
    """Returns the reason why a text of a record cannot be stored as UTF-8, or None.

    The names of members of archives, and texts in some encodings, can have lone surrogates.
    """
    for name in columns.stored:
        value = _read_value(record, name)
        if isinstance(value, str) and not _is_valid_text(value):
            return f"the column {name} has characters that UTF-8 cannot hold"
    return None


def _is_valid_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def make_column(values: list[Any]) -> pa.Array:
    """Returns values as a column. Values of several types become texts.

    Examples:
        >>> make_column(["a", None]).to_pylist(), make_column([1, "a"]).to_pylist()
        (['a', None], ['1', 'a'])
    """
    if all(value is None for value in values):
        return pa.nulls(len(values), pa.large_string())
    try:
        return convert_values(values)
    except NO_COMMON_TYPE:
        return pa.array(map(format_alone, values), pa.large_string())


def format_alone(value: Any) -> str | None:
    """Returns the text of a value, which does not depend on the other values of its column."""
    if value is None or isinstance(value, str):
        return value
    try:
        text: str = format_as_text(convert_values([value]))[0].as_py()
    except NO_COMMON_TYPE:
        text = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    return text


class RecordCopier(ABC):
    """A writer that copies records as they are stored, and cannot change or extend them."""

    def replace_values(
        self, complete_rows: list[Record], name: str, values: pa.Array
    ) -> list[Record]:
        """Raises ValueError, because the text of a record cannot be replaced."""
        raise ValueError("records of this format cannot get other texts")

    def select(
        self, complete_rows: list[Record], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> list[Record]:
        """Returns the kept records."""
        return [complete_rows[at] for at in np.flatnonzero(keep).tolist()]

    @abstractmethod
    def write(self, rows: list[Record]) -> None:
        """Copies records that `select` returned."""

    @abstractmethod
    def close(self) -> None:
        """Completes the file."""
