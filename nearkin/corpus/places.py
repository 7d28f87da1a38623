"""Places of documents: a file and a row as one number, in corpus order."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

FILE_SHIFT = np.uint64(40)
"""A place is file << 40 | row."""


class ByteSpan(NamedTuple):
    """The bytes of consecutive lines of a file."""

    row: int
    """The number of the first line."""
    start: int
    end: int


class RowRange(NamedTuple):
    """Consecutive rows of a file."""

    file: int
    """The number of the file in the corpus."""
    first: int
    end: int | None = None
    """The row after the last one, or None for all rows up to the end of the file."""
    span: ByteSpan | None = None
    """The lines among which the rows are, or None if the format finds them."""


class RowGroup(NamedTuple):
    """The position and the size of rows that can be read by themselves."""

    number: int
    first: int
    """The number of its first row in the file."""
    rows: int
    bytes: int
    """The uncompressed size."""
    span: ByteSpan | None = None
    """The lines of the group, if the file has lines."""


class FileRows(NamedTuple):
    """Some rows of a file."""

    file: int
    """The number of the file in the corpus."""
    rows: np.ndarray
    """The rows, ascending, int64 (n,)."""


def places_of(files: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns a number for each place, file << 40 | row, in corpus order, uint64 (n,)."""
    return (np.asarray(files).astype(np.uint64) << FILE_SHIFT) | np.asarray(rows).astype(np.uint64)


def places_from(places: np.ndarray, start: tuple[int, int]) -> np.ndarray:
    """Returns the places from one on, of ascending ones, uint64 (n,)."""
    file, row = start
    first = places_of(np.array([file]), np.array([row]))
    return places[int(np.searchsorted(places, first)[0]) :]


def split_places(places: np.ndarray) -> Iterator[FileRows]:
    """Yields the rows of each file that has one of the places, ascending, uint64 (n,).

    Examples:
        >>> places = places_of(np.array([0, 0, 2]), np.array([1, 5, 0]))
        >>> [(file, rows.tolist()) for file, rows in split_places(places)]
        [(0, [1, 5]), (2, [0])]
    """
    files, rows = files_and_rows(places)
    numbers, starts = np.unique(files, return_index=True)
    for number, of_file in zip(numbers.tolist(), np.split(rows, starts[1:]), strict=False):
        yield FileRows(number, of_file)


def files_and_rows(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of the files, int32 (n,), and the rows, int64 (n,), of places.

    Examples:
        >>> places = places_of(np.array([0, 2]), np.array([5, 7]))
        >>> [part.tolist() for part in files_and_rows(places)]
        [[0, 2], [5, 7]]
    """
    rows = places & np.uint64((1 << int(FILE_SHIFT)) - 1)
    return (places >> FILE_SHIFT).astype(np.int32), rows.astype(np.int64)


def has_row_between(rows: np.ndarray | None, first: int, end: int) -> bool:
    """Returns whether a range has a needed row: ascending, int64 (n,), or None for all."""
    if rows is None:
        return True
    low, high = np.searchsorted(rows, [first, end])
    return bool(low < high)
