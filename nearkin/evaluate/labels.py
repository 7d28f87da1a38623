"""Values of a column as numbers: counted by their hashes, so that memory does not depend on how long they are."""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.local.documents import portions
from nearkin.engine.local.repeated_ids import id_hashes

NONE, OTHERS = "(none)", "(others)"
LONGEST_NAME = 200
"""Characters of a value that are shown."""


class Labels(NamedTuple):
    """The most frequent values of a column."""

    names: tuple[str, ...]
    """By falling frequency, ties by name; the first LONGEST_NAME characters of each, then OTHERS if there are others."""
    codes: np.ndarray
    """uint32 (n,): the position of each document's value in `names`."""


def most_frequent(values: pa.ChunkedArray, most: int) -> Labels:
    """Returns the labels of documents, at most `most` with OTHERS.

    Values with the same 64-bit hash count as the same.

    Args:
        values: (n,): the value of each document, large_string; null counts as NONE.
        most: Maximum number of labels.

    Examples:
        >>> found = most_frequent(pa.chunked_array([["b", "a", None, "b"]]), 2)
        >>> found.names, found.codes.tolist()
        (('b', '(others)'), [0, 1, 1, 0])
    """
    hashes = np.concatenate(
        [id_hashes(part) for part in _texts(values)] or [np.empty(0, np.uint64)]
    )
    keys, firsts, codes, counts = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    whole = len(keys) <= most
    chosen = _ranked(values, firsts, counts, len(keys) if whole else most - 1)
    place = np.full(len(keys), len(chosen), np.uint32)
    place[[key for key, _ in chosen]] = np.arange(len(chosen), dtype=np.uint32)
    names = tuple(_shortened(name) for _, name in chosen)
    return Labels(names if whole else (*names, OTHERS), place[codes])


def _ranked(
    values: pa.ChunkedArray, firsts: np.ndarray, counts: np.ndarray, most: int
) -> list[tuple[int, str]]:
    """(number, value) of the most frequent ones, by falling count and value; reads only values that may be among them."""
    if not most:
        return []
    least = np.partition(counts, len(counts) - most)[len(counts) - most]
    eligible = np.flatnonzero(counts >= least)
    eligible = eligible[np.argsort(firsts[eligible])]
    named = zip(eligible.tolist(), _values_at(values, firsts[eligible]), strict=True)
    return heapq.nsmallest(most, named, key=lambda entry: (-counts[entry[0]], entry[1]))


def _values_at(values: pa.ChunkedArray, ordinals: np.ndarray) -> Iterator[str]:
    """The values at some ordinals (ascending), a portion of the column at a time."""
    first = 0
    for part in _texts(values):
        low, high = np.searchsorted(ordinals, [first, first + len(part)])
        for at in (ordinals[low:high] - first).tolist():
            yield part[at].as_py()
        first += len(part)


def _texts(values: pa.ChunkedArray) -> Iterator[pa.Array]:
    for part in portions(values):
        yield pc.fill_null(part.cast(pa.large_string()), NONE)


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"
