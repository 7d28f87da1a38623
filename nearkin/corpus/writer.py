"""kept/: the inputs again, in their names, formats and schemas, without the removed rows (or with all, annotated)."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.corpus import FileCorpus
from nearkin.corpus.file_names import join_inside, make_output_names
from nearkin.corpus.formats.base import FileSlice, Writer
from nearkin.errors import RunError

AHEAD = 6
"""Pieces that may wait to be written."""
Annotations = Callable[[int, int], pa.RecordBatch]
Observer = Callable[[int, pa.Array], None]


def write_kept(
    corpus: FileCorpus,
    columns: Columns,
    kept: np.ndarray,
    folder: Path,
    rows: Annotations | None = None,
    observe: Observer | None = None,
    advance: Callable[[int], None] | None = None,
) -> None:
    """Writes a copy of every input, without the rows that were removed.

    Args:
        corpus: The inputs.
        columns: What the run read of them, so that the same rows are documents.
        kept: bool (documents,).
        folder: The folder of the copies. Each takes the relative name of its input; inputs whose names differ only by letter
            case or Unicode normalisation are numbered.
        rows: Columns to add for a range of ordinals; then all documents are written.
        observe: Receives the first ordinal and the texts of each piece.
        advance: Receives the number of documents that are done.
    """
    first = 0
    corpus.set_scratch_folder(folder)
    for number, name in enumerate(make_output_names(corpus.names)):
        target = join_inside(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        writer = _writer(corpus, number, target)
        for piece in _written(corpus.read_slices(number, columns, whole=True), writer, kept, rows, first):
            if observe is not None:
                observe(first, piece.documents[columns.content])
            first += len(piece.rows)
            if advance is not None:
                advance(len(piece.rows))
    if first != len(kept):
        raise RunError(f"the inputs have {first} documents now and had {len(kept)}; run again with --overwrite")


def _writer(corpus: FileCorpus, number: int, target: Path) -> Writer | None:
    """None for a file that cannot be read at all: it has no rows to write."""
    file = corpus.files[number]
    try:
        return corpus.format_of(file).writer(file, str(target))
    except (OSError, ValueError, pa.ArrowException):
        return None


def _written(
    pieces: Iterator[FileSlice], writer: Writer | None, kept: np.ndarray, rows: Annotations | None, first: int
) -> Iterator[FileSlice]:
    """The pieces, each being written by a thread while the next one is read."""
    with ThreadPoolExecutor(1, "nearkin-write") as pool:
        pending: deque[Future[None]] = deque()
        for piece in pieces:
            count = len(piece.rows)
            if count and writer is None:
                raise RunError("an input that was read before cannot be read now; restore it, then run again")
            if count and writer is not None:
                keep = kept[first : first + count] if rows is None else np.ones(count, bool)
                added = None if rows is None else rows(first, first + count)
                pending.append(pool.submit(writer.write, writer.select(piece.whole, keep, added)))
                if len(pending) > AHEAD:
                    pending.popleft().result()
            first += count
            yield piece
        for future in pending:
            future.result()
    if writer is not None:
        writer.close()
