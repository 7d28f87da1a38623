"""What every file format does: tell its columns, read pieces, write the rows that are kept."""

import csv
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.input_file import InputFile

Item = TypeVar("Item")


class FileSlice(NamedTuple):
    """Some consecutive rows of one file."""

    rows: np.ndarray
    """int64 (n,): positions of the documents in the file."""
    documents: pa.RecordBatch
    rejected: list[tuple[int, str, str]]
    """(row, reason, raw prefix)."""
    next_row: int
    """Where reading goes on after this piece."""
    whole: Any = None
    """The documents' complete rows, in the form the format's writer takes; None unless asked for."""


UNREADABLE = (OSError, EOFError, ValueError, pa.ArrowException, csv.Error)
"""The exceptions that reading a damaged file raises."""


class ItemsBeforeDamage(Generic[Item]):
    """Items that are read from a file, up to where it is damaged; the error waits until what was read is passed on.

    Attributes:
        damage: The error that ended the reading, if one did.
    """

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self.damage: Exception | None = None

    def __iter__(self) -> Iterator[Item]:
        try:
            yield from self._items
        except UNREADABLE as error:
            self.damage = error

    def raise_damage(self) -> None:
        """Raises the error that ended the reading, if one did."""
        if self.damage is not None:
            raise self.damage


def describe_error(error: BaseException) -> str:
    """Returns what an error says, in a line."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return " ".join(text.split())[:200]


class Writer(Protocol):
    """Writes kept rows in the format of their file; selecting and writing may overlap, in two threads."""

    def select(self, whole: Any, keep: np.ndarray, added: pa.RecordBatch | None) -> Any:
        """Rows of a piece at which `keep` is true, with the added columns (of the kept rows) if any, ready to write."""

    def write(self, rows: Any) -> None:
        """Writes selected rows."""

    def close(self) -> None:
        """Completes the file."""


class Format(Protocol):
    """One file format. Failures to read come out as OSError, ValueError or Arrow's errors, wrapped by the corpus."""

    def columns(self, file: InputFile) -> list[str] | None:
        """Names of the columns; None where every row has its own."""

    def read(self, file: InputFile, columns: Columns, start: int, whole: bool) -> Iterator[FileSlice]:
        """Pieces from row `start` on, with complete rows if `whole`."""

    def writer(self, file: InputFile, target: str) -> Writer:
        """A writer that makes a file like `file` at the path `target`."""


def make_unused_name(name: str, taken: set[str]) -> str:
    """An added column's name, prefixed where the input has one of that name.

    Examples:
        >>> make_unused_name("cluster", {"cluster", "text"})
        'nearkin_cluster'
    """
    while name in taken:
        name = f"nearkin_{name}"
    return name


def open_compressed_sink(file: InputFile, target: str) -> Any:
    """A stream that writes with the compression of the input."""
    sink = pa.OSFile(target, "wb")
    return pa.CompressedOutputStream(sink, file.compression) if file.compression else sink
