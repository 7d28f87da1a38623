"""The document frequencies of lines, in files that are divided by hash.

Every line with content is written once for each place. A partition is counted alone, in several
rounds by further bits of the hashes if it is large.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearkin.texts.passages.lines.request import Counted
from nearkin.texts.passages.partitions import PENDING_BYTES, read_partitions

LINES = "lines"
"""The name of the partitions."""
COLUMNS = 4
"""The hash of a line, its second hash, its document and first byte, and the byte after it."""
WORKING_SPACE = 16
"""A round of a partition needs less than so many times the bytes of its places."""
HALF = np.uint64(32)


class RepeatedLines(NamedTuple):
    """The places of lines that occur often enough. The places of a line are neighbours."""

    lines: np.ndarray
    """int64 (m,): The number of the line in this part, from 0, ascending."""
    documents: np.ndarray
    """int64 (m,): The document. The first place of a line is the one that is kept, and the others
    follow in keep order and by their first byte."""
    starts: np.ndarray
    """int64 (m,): The first byte."""
    ends: np.ndarray
    """int64 (m,): The byte after the last one."""
    frequencies: np.ndarray
    """int64 (k,): The number of documents of each line."""


def find_repeated_lines(
    folder: Path,
    ranks: np.ndarray,
    least: int,
    memory: int,
    counted: Counted = Counted.DOCUMENTS,
) -> Iterator[RepeatedLines]:
    """Yields the lines that occur often enough, each in one part with all its places.

    `ranks` are those of the documents in keep order, uint32 (n,). One line alone may need more
    memory than the run may have, in bytes.
    """
    for places in read_partitions(folder, LINES, COLUMNS):
        rounds = max(1, -(-places.nbytes * WORKING_SPACE // memory))
        for part in range(rounds):
            yield _count_lines(_select_round(places, rounds, part), ranks, least, counted)


def _select_round(places: np.ndarray, rounds: int, part: int) -> np.ndarray:
    if rounds == 1:
        return np.asarray(places)
    rows = max(1, PENDING_BYTES // (8 * COLUMNS))
    chosen = []
    for first in range(0, len(places), rows):
        some = places[first : first + rows]
        chosen.append(some[some[:, 1] % np.uint64(rounds) == part])
    return np.concatenate(chosen)


def _count_lines(
    places: np.ndarray, ranks: np.ndarray, least: int, counted: Counted
) -> RepeatedLines:
    documents = (places[:, 2] >> HALF).astype(np.int64)
    starts = (places[:, 2] & np.uint64(0xFFFFFFFF)).astype(np.int64)
    order = np.lexsort((starts, ranks[documents], places[:, 1], places[:, 0]))
    hashes = places[order, :2]
    ordered_documents = documents[order]
    begins_line = np.ones(len(order), bool)
    begins_line[1:] = (hashes[1:] != hashes[:-1]).any(axis=1)
    begins_document = begins_line.copy()
    begins_document[1:] |= ordered_documents[1:] != ordered_documents[:-1]
    numbers = np.cumsum(begins_line) - 1
    frequencies = np.bincount(numbers[begins_document])
    counts = frequencies if counted == Counted.DOCUMENTS else np.bincount(numbers)
    is_repeated = counts >= least
    wanted = is_repeated[numbers]
    new_numbers = np.cumsum(is_repeated) - 1
    return RepeatedLines(
        lines=new_numbers[numbers[wanted]],
        documents=ordered_documents[wanted],
        starts=starts[order][wanted],
        ends=places[order[wanted], 3].astype(np.int64),
        frequencies=frequencies[is_repeated],
    )
