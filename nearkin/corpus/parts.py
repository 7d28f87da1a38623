"""Parts of a corpus: consecutive rows that a worker opens, decodes and checks by itself."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice, starmap, zip_longest
from typing import NamedTuple

from nearkin.corpus.batches import Batch, Corpus
from nearkin.corpus.columns import Columns
from nearkin.corpus.corpus import FileCorpus
from nearkin.corpus.formats.parquet_row_groups import RowGroup
from nearkin.corpus.places import RowRange

PART_BYTES = 16 << 20
"""The decoded size from which rows are a part. Smaller row groups are joined."""
PARTS_PER_WORKER = 2
"""Files that have fewer parts than this for each worker are read by one thread, which hands batches
to all workers."""


class Part(NamedTuple):
    """Consecutive rows of a corpus, as data that another process can receive."""

    slot: int
    """The number of rows of the parts before. Documents of the part have places from there on."""
    rows: int
    """The number of rows. A part has at most as many documents."""
    ranges: Sequence[RowRange]
    """The rows in their files, unless they were read already."""
    batch: Batch | None = None
    """The documents, if they were read already."""

    def read(self, corpus: Corpus, columns: Columns) -> Iterator[Batch]:
        """Yields the documents in batches, of which the first document has the number 0."""
        if self.batch is not None:
            yield self.batch._replace(first=0)
        elif isinstance(corpus, FileCorpus):
            yield from corpus.batches_of(columns, self.ranges)


def split_corpus(
    corpus: Corpus,
    columns: Columns,
    workers: int,
    start: tuple[int, int] = (0, 0),
    slot: int = 0,
) -> Iterator[Part]:
    """Yields the parts of a corpus in order, from a place on.

    What cannot be read from the middle is read while parts are taken: each of its batches is a
    part.

    Args:
        slot: The number of rows before the place.
    """
    for part in _split(corpus, columns, workers, start):
        yield part._replace(slot=slot)
        slot += part.rows


def _split(
    corpus: Corpus, columns: Columns, workers: int, start: tuple[int, int]
) -> Iterator[Part]:
    """Yields the parts of a corpus without the numbers of rows before them."""
    if not isinstance(corpus, FileCorpus):
        yield from map(_hold, corpus.batches(columns, start))
        return
    numbers = range(start[0], len(corpus.files))
    files = (RowRange(number, start[1] if number == start[0] else 0) for number in numbers)
    divided = ((file, corpus.row_groups(file)) for file in files)
    least = PARTS_PER_WORKER * workers
    for can_split, group in groupby(divided, lambda entry: entry[1] is not None):
        if not can_split:
            yield from map(_hold, corpus.batches_of(columns, (file for file, _ in group)))
            continue
        seen: list[RowRange] = []
        parts = _join_row_groups(group, seen)
        first_parts = list(islice(parts, least))
        if len(first_parts) == least:
            yield from chain(first_parts, parts)
        else:
            yield from map(_hold, corpus.batches_of(columns, seen))


def _join_row_groups(
    divided: Iterator[tuple[RowRange, list[RowGroup] | None]], seen: list[RowRange]
) -> Iterator[Part]:
    """Yields the row groups of files as parts of at least `PART_BYTES`.

    Args:
        seen: Receives the files whose row groups were taken.
    """
    joined: list[RowRange] = []
    size = 0
    for file, groups in divided:
        seen.append(file)
        for group in groups or ():
            first = max(group.first, file.first)
            end = group.first + group.rows
            if joined and (joined[-1].file, joined[-1].end) == (file.file, first):
                joined[-1] = joined[-1]._replace(end=end)
            else:
                joined.append(RowRange(file.file, first, end))
            size += group.bytes
            if size >= PART_BYTES:
                yield _make_part(joined)
                joined = []
                size = 0
    if joined:
        yield _make_part(joined)


def _make_part(ranges: Sequence[RowRange]) -> Part:
    rows = sum(entry.end - entry.first for entry in ranges if entry.end is not None)
    return Part(0, rows, ranges)


def divide_file(corpus: FileCorpus, number: int) -> list[RowRange]:
    """Returns the rows of a file in parts of which each can be read by itself.

    They depend on the file alone. The last one extends to the end of the file.
    """
    starts = [0]
    size = 0
    for group in corpus.row_groups(RowRange(number, 0)) or ():
        if size >= PART_BYTES:
            starts.append(group.first)
            size = 0
        size += group.bytes
    return list(starmap(partial(RowRange, number), zip_longest(starts, starts[1:])))


def _hold(batch: Batch) -> Part:
    """Returns a part that was read already."""
    return Part(0, len(batch.rows), (), batch)
