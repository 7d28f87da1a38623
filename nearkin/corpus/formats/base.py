"""The interface of a file format, and what formats share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import compress
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from nearkin.corpus.batches import WHOLE_FILE, Rejection
from nearkin.corpus.columns import Columns
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.places import ByteSpan, has_row_between
from nearkin.corpus.validation import make_empty_documents
from nearkin.errors import UsageError
from nearkin.runtime.compressed_files import create_file
from nearkin.stages.packed_pairs import isin_sorted

Item = TypeVar("Item")


END_OF_FILE = 1 << 62
"""The next row of a slice behind which a file has no row that can be read."""


class ValueForm(StrEnum):
    """The forms in which values of a format are stored in an Arrow column, with their types."""

    ARROW = "Arrow"
    """A column has one type, which is that of the values."""
    JSON = "JSON"
    """Each value is its JSON text, large_string."""
    OBJECT = "Python"
    """Each value is a pickled object of Python, large_binary."""


class FileSlice(NamedTuple):
    """Consecutive rows of one file, divided into documents and rejected rows."""

    rows: np.ndarray
    """The positions of the documents in the file, int64 (n,)."""
    documents: pa.RecordBatch
    rejected: list[Rejection]
    """The rejected rows, in order."""
    next_row: int
    """The row at which reading continues after this slice."""
    complete_rows: Any = None
    """The complete rows of the documents, in the form that the writer of the format takes. None
    unless they were requested."""
    skipped: Mapping[str, int] = MappingProxyType({})
    """The numbers of records of the whole file that are not rows, by their kind."""

    def select(self, rows: np.ndarray) -> "FileSlice":
        """Returns the slice with some rows, ascending, int64 (n,), without their complete rows."""
        is_selected = isin_sorted(self.rows, rows)
        rejected_rows = np.array([entry.row for entry in self.rejected], np.int64)
        return FileSlice(
            self.rows[is_selected],
            self.documents.filter(pa.array(is_selected)),
            list(compress(self.rejected, isin_sorted(rejected_rows, rows))),
            self.next_row,
        )

    def without(self, rows: np.ndarray) -> "FileSlice":
        """Returns the slice without some documents, given by their rows, ascending, int64 (n,)."""
        is_left = ~isin_sorted(self.rows, rows)
        if is_left.all():
            return self
        mask = pa.array(is_left)
        complete_rows = self.complete_rows
        if isinstance(complete_rows, pa.RecordBatch):
            complete_rows = complete_rows.filter(mask)
        elif complete_rows is not None:
            complete_rows = list(compress(complete_rows, is_left.tolist()))
        return self._replace(
            rows=self.rows[is_left],
            documents=self.documents.filter(mask),
            complete_rows=complete_rows,
        )


class ItemsBeforeDamage(Generic[Item]):
    """The items of a file up to the place where it is damaged.

    Iterating ends at the damage without an error. The caller raises the error after it has
    passed on the items.

    Attributes:
        damage: The error that ended the reading, or None.
    """

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self.damage: DamageError | None = None

    def __iter__(self) -> Iterator[Item]:
        try:
            with decoding():
                yield from self._items
        except DamageError as error:
            self.damage = error

    def raise_damage(self) -> None:
        """Raises the error that ended the reading, if there is one."""
        if self.damage is not None:
            raise self.damage


def make_rejected_slice(rejected: Rejection, next_row: int, columns: Columns) -> FileSlice:
    """Returns a slice with one rejection and no documents."""
    documents = make_empty_documents(columns)
    return FileSlice(np.empty(0, np.int64), documents, [rejected], next_row)


def make_damaged_slice(
    reason: str, first: int, end: int, columns: Columns, *, are_counted: bool = True
) -> FileSlice:
    """Returns a slice with the rejection of rows that cannot be decoded."""
    is_known = are_counted and end != END_OF_FILE
    rejected = Rejection(
        first if is_known else WHOLE_FILE,
        reason,
        "",
        rows=end - first if is_known else 1,
        is_damage=True,
    )
    return make_rejected_slice(rejected, end, columns)


class Writer(Protocol):
    """A writer of kept rows in the format of their file.

    `select` and `write` may run at the same time in two threads.
    """

    def replace_values(self, complete_rows: Any, name: str, values: pa.Array) -> Any:
        """Returns the rows of a slice with other values of a column, in the form of the format.

        A null leaves a row as it is.
        """

    def select(self, complete_rows: Any, keep: np.ndarray, added: pa.RecordBatch | None) -> Any:
        """Returns the rows of a slice that are kept, bool (n,), ready to be written."""

    def write(self, rows: Any) -> None:
        """Writes rows that `select` returned."""

    def close(self) -> None:
        """Completes the file."""


ValueReader = Callable[[Any], pa.RecordBatch]
"""A function from the complete rows of a slice to values in the form of their format."""


class Reading(NamedTuple):
    """The rows and columns that are read of a file."""

    columns: Columns
    start: int = 0
    """The row from which on rows are read."""
    whole: bool = False
    """True if slices have the complete rows of their documents."""
    rows: np.ndarray | None = None
    """The rows that are needed, ascending, int64 (n,), or None for all. Others may be left out."""
    span: ByteSpan | None = None
    """The lines that are read, if the file has lines. None for all."""

    def needs(self, first: int, end: int) -> bool:
        """Returns whether a row in a range is needed."""
        return end > self.start and has_row_between(self.rows, first, end)


class Format(ABC):
    """A file format.

    A method that meets damage raises any exception. The corpus turns it into a rejection of the
    rows from there on, so a format catches none itself, unless it can read on behind the damage.

    Attributes:
        value_form: The form of the values that its rows have, and that replace them.
    """

    value_form = ValueForm.ARROW

    def columns(self, file: InputFile, requested: Columns) -> list[str] | None:
        """Returns the names of the columns, or None if each row has fields of its own."""
        return None

    @abstractmethod
    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices."""

    @abstractmethod
    def writer(self, file: InputFile, columns: Columns, target: str) -> Writer:
        """Returns a writer of a file in the same format."""

    def value_reader(self, file: InputFile, columns: Columns, names: Sequence[str]) -> ValueReader:
        """Returns a function that returns the values of some columns of complete rows."""
        raise UsageError(
            f"the values of {file.shown_path} cannot be changed, because its rows have no columns; "
            "write them in another format, for example as JSON lines"
        )


def list_added_values(added: pa.RecordBatch) -> list[dict[str, object]]:
    """Returns the rows of added columns as values of Python. Maps are dictionaries.

    Examples:
        >>> counts = pa.array([[("web", 2)]], pa.map_(pa.string(), pa.int64()))
        >>> list_added_values(pa.record_batch([counts], ["sources"]))
        [{'sources': {'web': 2}}]
    """
    columns = []
    for column in added.columns:
        values = column.to_pylist()
        if pa.types.is_map(column.type):
            values = [None if entries is None else dict(entries) for entries in values]
        columns.append(values)
    return [dict(zip(added.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def make_unused_name(name: str, taken: set[str]) -> str:
    """Returns the name of an added column, with a prefix if the input has a column of that name.

    Examples:
        >>> make_unused_name("cluster", {"cluster", "text"})
        'nearkin_cluster'
    """
    while name in taken:
        name = f"nearkin_{name}"
    return name


def open_compressed_sink(file: InputFile, target: str) -> Any:
    """Returns a stream that writes with the compression of the input."""
    return create_file(target, file.compression)
