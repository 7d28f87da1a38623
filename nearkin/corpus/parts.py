"""Parts of a corpus: consecutive rows that a worker opens, decodes and checks by itself."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import NamedTuple

from nearkin.corpus.batches import Batch, Corpus
from nearkin.corpus.columns import Columns
from nearkin.corpus.corpus import FileCorpus
from nearkin.corpus.places import RowGroup, RowRange

PART_BYTES = 16 << 20
"""The decoded size from which rows are a part. Smaller row groups are joined."""
PARTS_PER_WORKER = 2
"""Files that have fewer parts than this for each worker are read by one thread, which hands batches
to all workers."""
FILE_PARTS_PER_WORKER = 8
"""The number of parts of each worker that joining files to parts leaves, if there are so many."""


class Part(NamedTuple):
    """Consecutive rows of a corpus, as data that another process can receive."""

    slot: int
    """The number of rows of the parts before. Documents of the part have places from there on."""
    rows: int
    """The number of rows, of which a part has at most as many documents. It is 0 if the part was
    not counted."""
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
    """Yields the parts of a corpus in order, from a place on, before which there are `slot` rows.

    What cannot be read from the middle is read while parts are taken: each of its batches is a
    part.
    """
    for part in _split(corpus, columns, workers, start):
        yield part._replace(slot=slot)
        slot += part.rows


def are_files_parts(
    corpus: FileCorpus, columns: Columns, workers: int, start: tuple[int, int] = (0, 0)
) -> bool:
    """Returns whether files that cannot be read from the middle are parts for threads.

    So they are if the largest is at most half of all, and all files suit threads. Otherwise one
    thread reads them, and hands batches to all workers.
    """
    files = [file.file for file in _files_from(corpus, start)]
    if workers == 1 or not all(corpus.suits_threads(file, columns) for file in files):
        return False
    whole_files = [number for number in files if not corpus.can_divide(number, columns)]
    sizes = [corpus.require_unchanged(number).size for number in whole_files]
    return bool(sizes) and 2 * max(sizes) <= sum(sizes)


def split_files(
    corpus: FileCorpus,
    columns: Columns,
    start: tuple[int, int] = (0, 0),
    workers: int | None = None,
) -> Iterator[Part]:
    """Yields the parts of files in order, from a place on, without reading documents.

    A file that cannot be read from the middle is in one part. Rows are not counted.

    Args:
        workers: Number of workers, each of which has several parts of a small corpus.
    """
    files = list(_files_from(corpus, start))
    least = PART_BYTES
    if workers is not None and not any(file.remote for file in corpus.files):
        size = sum(corpus.require_unchanged(file.file).size for file in files)
        least = min(least, size // (FILE_PARTS_PER_WORKER * workers))
    for ranges in _join_ranges(_size_all(corpus, columns, files), least):
        yield Part(0, 0, ranges)


def _split(
    corpus: Corpus, columns: Columns, workers: int, start: tuple[int, int]
) -> Iterator[Part]:
    """Yields the parts of a corpus without the numbers of rows before them."""
    if not isinstance(corpus, FileCorpus):
        yield from map(_hold, corpus.batches(columns, start))
        return
    divided = (
        (file, corpus.row_groups(file, columns, PART_BYTES)) for file in _files_from(corpus, start)
    )
    least = PARTS_PER_WORKER * workers
    for can_split, group in groupby(divided, lambda entry: entry[1] is not None):
        if not can_split:
            yield from map(_hold, corpus.batches_of(columns, (file for file, _ in group)))
            continue
        seen: list[RowRange] = []
        parts = map(_count_rows, _join_ranges(_size_row_groups(group, seen), PART_BYTES))
        first_parts = list(islice(parts, least))
        if len(first_parts) == least:
            yield from chain(first_parts, parts)
        else:
            yield from map(_hold, corpus.batches_of(columns, seen))


def _files_from(corpus: FileCorpus, start: tuple[int, int]) -> Iterator[RowRange]:
    for number in range(start[0], len(corpus.files)):
        yield RowRange(number, start[1] if number == start[0] else 0)


class _SizedRange(NamedTuple):
    """Rows that can be read by themselves."""

    rows: RowRange
    bytes: int


def _size_all(
    corpus: FileCorpus, columns: Columns, files: Iterable[RowRange]
) -> Iterator[_SizedRange]:
    """Yields the row groups of files, and files without row groups as a whole."""
    for file in files:
        groups = corpus.row_groups(file, columns, PART_BYTES)
        if groups is None:
            yield _SizedRange(file, corpus.require_unchanged(file.file).size)
        else:
            yield from _size_row_groups([(file, groups)], [])


def _size_row_groups(
    divided: Iterable[tuple[RowRange, Iterable[RowGroup] | None]], seen: list[RowRange]
) -> Iterator[_SizedRange]:
    """Yields the row groups of files, and appends the files to `seen`."""
    for file, groups in divided:
        seen.append(file)
        for group in groups or ():
            first = max(group.first, file.first)
            rows = RowRange(file.file, first, group.first + group.rows, group.span)
            yield _SizedRange(rows, group.bytes)


def _join_ranges(ranges: Iterable[_SizedRange], least: int) -> Iterator[Sequence[RowRange]]:
    """Yields consecutive rows of at least `least` bytes."""
    joined: list[RowRange] = []
    size = 0
    for rows, size_of_rows in ranges:
        follows = joined and (joined[-1].file, joined[-1].end) == (rows.file, rows.first)
        if follows and rows.span is None:
            joined[-1] = joined[-1]._replace(end=rows.end)
        else:
            joined.append(rows)
        size += size_of_rows
        if size >= least:
            yield joined
            joined = []
            size = 0
    if joined:
        yield joined


def _count_rows(ranges: Sequence[RowRange]) -> Part:
    rows = sum(entry.end - entry.first for entry in ranges if entry.end is not None)
    return Part(0, rows, ranges)


def divide_file(corpus: FileCorpus, columns: Columns, number: int) -> list[RowRange]:
    """Returns the rows of a file in parts of which each can be read by itself.

    They depend on the file alone. The last one extends to the end of the file.
    """
    groups = list(corpus.row_groups(RowRange(number, 0), columns, PART_BYTES) or ())
    ranges = [RowRange(number, 0)]
    if len(groups) > 1 and groups[0].span is not None:
        ranges = [RowRange(number, one.first, one.first + one.rows, one.span) for one in groups]
    else:
        size = 0
        for group in groups:
            if size >= PART_BYTES:
                ranges[-1] = ranges[-1]._replace(end=group.first)
                ranges.append(RowRange(number, group.first))
                size = 0
            size += group.bytes
    ranges[-1] = ranges[-1]._replace(end=None)
    return ranges


def _hold(batch: Batch) -> Part:
    """Returns a part that was read already."""
    return Part(0, len(batch.rows), (), batch)
