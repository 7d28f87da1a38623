"""The copies of the inputs in `kept/`, in the same formats, without the removed rows."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.corpus import FileCorpus
from nearkin.corpus.file_names import join_inside, make_output_names
from nearkin.corpus.formats.base import FileSlice, Writer
from nearkin.errors import RunError
from nearkin.setting_names import name_flag

AHEAD = 6
"""The maximum number of slices that wait to be written."""
Annotations = Callable[[int, int], pa.RecordBatch]
"""A function that returns the columns to add for the documents from one ordinal to another."""
Rewriter = Callable[[int, pa.Array], pa.Array | None]
"""A function that receives the first ordinal and the documents of a slice, and returns their new
texts, null for each that stays as it is; or None if all do."""
Observer = Callable[[int, pa.Array], None]
"""A function that receives the first ordinal and the documents of each slice."""


def write_kept(
    corpus: FileCorpus,
    columns: Columns,
    kept: np.ndarray,
    folder: Path,
    rows: Annotations | None = None,
    observe: Observer | None = None,
    advance: Callable[[int], None] | None = None,
    rewrite: Rewriter | None = None,
) -> None:
    """Writes a copy of every input with the rows that are kept.

    Args:
        corpus: The inputs.
        columns: The columns that the run read, so that the same rows are documents.
        kept: True for each document that is kept, bool (n,).
        folder: The folder of the copies. Each has the relative name of its input. Inputs whose
            names differ only by case or Unicode normalization are numbered.
        rows: Returns the columns to add for a range of ordinals.
        observe: Receives the first ordinal and the documents of each slice.
        advance: Receives the number of documents that were processed.
        rewrite: Returns the new texts of documents, or None if no text changes.

    Raises:
        RunError: If the inputs have changed, or a row cannot be copied.
    """
    first = 0
    corpus.set_scratch_folder(folder)
    for number, name in enumerate(make_output_names(corpus.names)):
        target = join_inside(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        writer = _writer(corpus, columns, number, target)
        for file_slice in _written(
            corpus.read_slices(number, columns, whole=True),
            writer,
            kept,
            rows,
            first,
            None if rewrite is None else _RewrittenColumn(columns.content, rewrite),
        ):
            if observe is not None:
                observe(first, file_slice.documents[columns.content])
            first += len(file_slice.rows)
            if advance is not None:
                advance(len(file_slice.rows))
    if first != len(kept):
        raise RunError(
            f"the inputs have {first} documents now, but had {len(kept)} before; "
            f"run again with {name_flag('overwrite')}"
        )


class _RewrittenColumn(NamedTuple):
    """The column of documents in a slice, and the function that returns its new texts."""

    name: str
    rewrite: Rewriter


def _writer(corpus: FileCorpus, columns: Columns, number: int, target: Path) -> Writer | None:
    """Returns the writer for a file.

    It is None for a file that cannot be read at all and has no rows to write.
    """
    file = corpus.files[number]
    try:
        return corpus.format_of(file).writer(file, columns, str(target))
    except (OSError, ValueError, pa.ArrowException):
        return None


def _written(
    file_slices: Iterator[FileSlice],
    writer: Writer | None,
    kept: np.ndarray,
    rows: Annotations | None,
    first: int,
    rewritten: _RewrittenColumn | None,
) -> Iterator[FileSlice]:
    """Yields the slices.

    A thread writes each slice while the next one is read.
    """
    with ThreadPoolExecutor(1, "nearkin-write") as pool:
        pending: deque[Future[None]] = deque()
        for file_slice in file_slices:
            count = len(file_slice.rows)
            if count and writer is None:
                raise RunError(
                    "an input could be read before but cannot be read now; "
                    "restore it, then run again"
                )
            if count and writer is not None:
                keep = kept[first : first + count]
                complete_rows = file_slice.complete_rows
                if rewritten is not None:
                    texts = rewritten.rewrite(first, file_slice.documents[rewritten.name])
                    if texts is not None:
                        complete_rows = writer.replace_texts(complete_rows, texts)
                added = None
                if rows is not None:
                    added = rows(first, first + count).filter(pa.array(keep))
                pending.append(pool.submit(writer.write, writer.select(complete_rows, keep, added)))
                if len(pending) > AHEAD:
                    pending.popleft().result()
            first += count
            yield file_slice
        for future in pending:
            future.result()
    if writer is not None:
        writer.close()
