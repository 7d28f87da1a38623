"""The copies of the inputs in `kept/`, in the same formats, without the removed rows."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.corpus import FileCorpus
from nearkin.corpus.file_names import join_inside, make_output_names
from nearkin.corpus.foreign_errors import (
    DamageError,
    decoding,
    describe_error,
    translate_foreign_errors,
)
from nearkin.corpus.formats.base import FileSlice, Writer
from nearkin.corpus.formats.json_lines import JsonLines
from nearkin.corpus.formats.json_rows import JsonRow, JsonSliceBuilder
from nearkin.corpus.formats.record_batches import TableWriter
from nearkin.corpus.input_file import InputFile
from nearkin.errors import RunError
from nearkin.runtime.setting_names import name_flag

AHEAD = 6
"""The maximum number of slices that wait to be written."""
LANCE = ".lance"
"""The suffix of copies that are folders."""
Annotations = Callable[[int, int], pa.RecordBatch]
"""A function that returns the columns to add for the documents from one ordinal to another."""
Rewriter = Callable[[int, pa.Array], pa.Array | None]
"""A function that receives the first ordinal and the documents of a slice, and returns their new
texts, null for each that stays as it is; or None if all do."""
Observer = Callable[[int, pa.Array], None]
"""A function that receives the first ordinal and the documents of each slice.

Documents that it does not need are null if `KnownDocuments` are given.
"""


class KnownDocuments(NamedTuple):
    """The n documents of a corpus, as a run has found them in its files."""

    files: np.ndarray
    """The number of each document's file, ascending, int32 (n,)."""
    rows: np.ndarray
    """The row of each document in its file, int64 (n,)."""
    observed: np.ndarray
    """The ordinals of the documents that the observer needs, ascending, int64 (m,)."""

    def rows_of(self, number: int) -> np.ndarray:
        """Returns the rows of the documents of a file, ascending, int64."""
        first, end = np.searchsorted(self.files, [number, number + 1])
        return np.asarray(self.rows[first:end])


def write_kept(
    corpus: FileCorpus,
    columns: Columns,
    kept: np.ndarray,
    folder: Path,
    rows: Annotations | None = None,
    observe: Observer | None = None,
    advance: Callable[[int], None] | None = None,
    rewrite: Rewriter | None = None,
    known: KnownDocuments | None = None,
) -> None:
    """Writes a copy of every input with the rows that are kept.

    Lines of JSON that are known to be documents are copied without parsing them.

    Args:
        kept: True for each document that is kept, bool (n,).
    """
    first = 0
    for number, name in enumerate(make_output_names(corpus.names)):
        target = join_inside(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        writer = _writer(corpus, columns, number, target)
        if rewrite is not None and isinstance(writer, TableWriter):
            writer.expect_new_texts()
        file = corpus.files[number]
        form = corpus.format_of(file)
        known_rows = None
        observer = None
        if known is not None and rewrite is None and isinstance(form, JsonLines) and form.has_lines:
            known_rows = known.rows_of(number)
            if observe is not None:
                own_columns = columns.with_partitions(file.partitions)
                observer = _LineObserver(own_columns, known.observed, observe)
        file_slices = _written(
            corpus.read_slices(number, columns, whole=True, rows=known_rows),
            writer,
            kept,
            rows,
            first,
            None if rewrite is None else _RewrittenColumn(columns.content, rewrite),
            corpus.files[number],
        )
        for file_slice in file_slices:
            if observer is not None:
                observer.observe(first, file_slice)
            elif observe is not None:
                observe(first, file_slice.documents[columns.content])
            first += len(file_slice.rows)
            if advance is not None:
                advance(len(file_slice.rows))
    if first != len(kept):
        raise _make_count_error(first, len(kept))


def _make_count_error(found: int, expected: int) -> RunError:
    """Returns the error for inputs that have another number of documents than before."""
    number = f"at least {found}" if found > expected else str(found)
    return RunError(
        f"the inputs have {number} documents now, but had {expected} before; "
        f"run again with {name_flag('overwrite')}"
    )


def list_kept(folder: Path, root: Path) -> list[InputFile]:
    """Returns the copies in a folder that `write_kept` wrote, sorted by name (bytes)."""
    names: set[str] = set()
    for path in folder.rglob("*"):
        if path.is_file():
            copy = path.relative_to(folder)
            tables = [parent for parent in copy.parents if parent.suffix == LANCE]
            copy = tables[-1] if tables else copy
            names.add((folder / copy).relative_to(root).as_posix())
    return [
        InputFile(str((root / name).absolute()), name) for name in sorted(names, key=os.fsencode)
    ]


class _RewrittenColumn(NamedTuple):
    """The column of documents in a slice, and the function that returns its new texts."""

    name: str
    rewrite: Rewriter


class _LineObserver:
    """Passes on the observed ones among lines that were not parsed.

    Args:
        observed: Ordinals of the documents that the observer needs, ascending, int64 (m,).
    """

    def __init__(self, columns: Columns, observed: np.ndarray, observe: Observer) -> None:
        self._content = columns.content
        self._builder = JsonSliceBuilder(columns, 0, whole=False, has_lines=True)
        self._observed = observed
        self._observe = observe

    def observe(self, first: int, lines: FileSlice) -> None:
        """Passes on the documents of a slice."""
        count = len(lines.rows)
        low, high = np.searchsorted(self._observed, [first, first + count])
        places = self._observed[low:high] - first
        if not len(places):
            return
        for place in places.tolist():
            line = lines.complete_rows[place].removesuffix(b"\n")
            self._builder.add(JsonRow(int(lines.rows[place]), line))
        parsed = self._builder.take_slice().documents[self._content]
        indices = np.zeros(count, np.int64)
        indices[places] = np.arange(len(places))
        is_parsed = np.zeros(count, bool)
        is_parsed[places] = True
        self._observe(first, parsed.take(pa.array(indices, mask=~is_parsed)))


def _writer(corpus: FileCorpus, columns: Columns, number: int, target: Path) -> Writer | RunError:
    """Returns the writer for a file, or the error to raise if the file has rows to write.

    A file that cannot be read at all has none.
    """
    file = corpus.files[number]
    try:
        with decoding():
            return corpus.format_of(file).writer(file, columns, str(target))
    except DamageError as error:
        return RunError(
            f"cannot copy {file.shown_path} to {target}: {error}; correct the problem, then run "
            "again"
        )


def _written(
    file_slices: Iterator[FileSlice],
    writer: Writer | RunError,
    kept: np.ndarray,
    rows: Annotations | None,
    first: int,
    rewritten: _RewrittenColumn | None,
    file: InputFile,
) -> Iterator[FileSlice]:
    """Yields the slices.

    A thread writes each slice while the next one is read.
    """
    with ThreadPoolExecutor(1, "nearkin-write") as pool:
        pending: deque[Future[None]] = deque()
        for file_slice in file_slices:
            count = len(file_slice.rows)
            if first + count > len(kept):
                raise _make_count_error(first + count, len(kept))
            if count:
                if isinstance(writer, RunError):
                    raise writer
                keep = kept[first : first + count]
                complete_rows = file_slice.complete_rows
                if rewritten is not None:
                    texts = rewritten.rewrite(first, file_slice.documents[rewritten.name])
                    if texts is not None:
                        with _writer_errors(file):
                            complete_rows = writer.replace_texts(complete_rows, texts)
                added = None
                if rows is not None:
                    added = rows(first, first + count).filter(pa.array(keep))
                with _writer_errors(file):
                    selected = writer.select(complete_rows, keep, added)
                    pending.append(pool.submit(writer.write, selected))
                    if len(pending) > AHEAD:
                        pending.popleft().result()
            first += count
            yield file_slice
        with _writer_errors(file):
            for future in pending:
                future.result()
            if not isinstance(writer, RunError):
                writer.close()


@contextmanager
def _writer_errors(file: InputFile) -> Iterator[None]:
    """Raises the exceptions of a writer as a RunError, apart from those of a full disk."""

    def translate(error: BaseException) -> BaseException:
        if isinstance(error, OSError):
            return error
        return RunError(
            f"cannot copy rows of {file.shown_path}: {describe_error(error)}; write them in "
            "another format, or leave the file out"
        )

    with translate_foreign_errors(translate):
        yield
