"""Numbers the most frequent values of a column.

Values are counted by their hashes, so that memory does not depend on their lengths.
"""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.document_facts import id_hashes
from nearkin.engine.result_schema import NONE_LABEL
from nearkin.runtime.arrow_portions import iterate_portions

OTHERS_LABEL = "(others)"
"""The label of the less frequent values, which are counted together."""
MAX_LABEL_CHARACTERS = 200
"""The number of characters of a value that a label shows."""


class Labels(NamedTuple):
    """The most frequent values of a column."""

    names: tuple[str, ...]
    """The values in descending frequency, ties by name, shortened to MAX_LABEL_CHARACTERS. The last
    one is OTHERS_LABEL if there are other values."""
    codes: np.ndarray
    """The position of each document's value in `names`, uint32 (n,)."""


def most_frequent_labels(values: pa.ChunkedArray, limit: int) -> Labels:
    """Returns the labels of documents: their values, or OTHERS_LABEL for less frequent ones.

    Values with the same 64-bit hash count as equal, and null counts as NONE_LABEL.

    Examples:
        >>> labels = most_frequent_labels(pa.chunked_array([["b", "a", None, "b"]]), 2)
        >>> labels.names, labels.codes.tolist()
        (('b', '(others)'), [0, 1, 1, 0])
    """
    parts = [id_hashes(part) for part in _text_portions(values)]
    hashes = np.concatenate(parts or [np.empty(0, np.uint64)])
    keys, firsts, codes, counts = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    is_complete = len(keys) <= limit
    chosen = _rank_values(values, firsts, counts, len(keys) if is_complete else limit - 1)
    positions = np.full(len(keys), len(chosen), np.uint32)
    positions[[key for key, _ in chosen]] = np.arange(len(chosen), dtype=np.uint32)
    names = [shorten_label(name) for _, name in chosen]
    if not is_complete:
        names.append(OTHERS_LABEL)
    return Labels(tuple(names), positions[codes])


def _rank_values(
    values: pa.ChunkedArray, firsts: np.ndarray, counts: np.ndarray, limit: int
) -> list[tuple[int, str]]:
    """Returns the numbers and names of the most frequent values, ties by name.

    Each distinct value has its first document and its number of documents, int64 (m,). Only values
    that may be among the most frequent ones are read.
    """
    if not limit:
        return []
    least = np.partition(counts, len(counts) - limit)[len(counts) - limit]
    eligible = np.flatnonzero(counts >= least)
    eligible = eligible[np.argsort(firsts[eligible])]
    named = zip(eligible.tolist(), _read_values(values, firsts[eligible]), strict=True)
    return heapq.nsmallest(limit, named, key=lambda entry: (-counts[entry[0]], entry[1]))


def _read_values(values: pa.ChunkedArray, ordinals: np.ndarray) -> Iterator[str]:
    """Yields the values at some ascending ordinals, reading one portion of the column at a time."""
    first = 0
    for part in _text_portions(values):
        low, high = np.searchsorted(ordinals, [first, first + len(part)])
        for position in (ordinals[low:high] - first).tolist():
            yield part[position].as_py()
        first += len(part)


def _text_portions(values: pa.ChunkedArray) -> Iterator[pa.Array]:
    for part in iterate_portions(values):
        yield pc.fill_null(part.cast(pa.large_string()), NONE_LABEL)


def shorten_label(name: str) -> str:
    """Returns the first characters of the name of a value."""
    return name if len(name) <= MAX_LABEL_CHARACTERS else name[:MAX_LABEL_CHARACTERS] + "…"
