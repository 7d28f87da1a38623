"""The copies of the inputs in `kept/`, in the same formats, without the removed rows."""

import os
import shutil
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.corpus import FileCorpus, ReadFiles
from nearkin.corpus.file_names import join_inside, make_output_names
from nearkin.corpus.foreign_errors import (
    DamageError,
    decoding,
    describe_error,
    translate_foreign_errors,
)
from nearkin.corpus.formats.base import FileSlice, Writer
from nearkin.corpus.formats.json_lines import JsonLines, LineAppender
from nearkin.corpus.formats.json_rows import JsonRow, JsonSliceBuilder
from nearkin.corpus.formats.parquet import Parquet
from nearkin.corpus.formats.parquet_footers import RowGroupAppender
from nearkin.corpus.formats.record_batches import TableWriter
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.parts import divide_file
from nearkin.corpus.places import RowRange
from nearkin.corpus.stored_values import store_texts
from nearkin.errors import RunError
from nearkin.runtime.executor import Executor, Task
from nearkin.runtime.files import delete_shared_folder
from nearkin.runtime.progress import ignore_count
from nearkin.runtime.setting_names import name_flag
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.runtime.threads import ordered_map

AHEAD = 6
"""The maximum number of slices that wait to be written."""
FILES_PER_WORKER = 4
"""The number of files for each worker from which files of lines are not divided."""
BYTES_PER_COPY = 128 << 20
"""Anonymous memory of a thread that copies rows, in bytes: a row group and its encoded form."""
NO_DOCUMENTS = np.empty(0, np.int64)
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

    def count_before(self, number: int, row: int | None) -> int:
        """Returns the number of documents before a row of a file, or before the next file."""
        first, end = np.searchsorted(self.files, [number, number + 1]).tolist()
        if row is None:
            return int(end)
        return int(first + np.searchsorted(self.rows[first:end], row))


def limit_copying_workers(workers: int, memory: int) -> int:
    """Returns the number of threads that copy rows within half of a memory bound."""
    return max(1, min(workers, memory // 2 // BYTES_PER_COPY))


def write_kept(
    corpus: FileCorpus,
    columns: Columns,
    kept: np.ndarray,
    folder: Path,
    rows: Annotations | None = None,
    observe: Observer | None = None,
    advance: Callable[[int], None] = ignore_count,
    rewrite: Rewriter | None = None,
    known: KnownDocuments | None = None,
    *,
    new_values: Annotations | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    finished: Mapping[int, Path] = MappingProxyType({}),
) -> None:
    """Writes a copy of every input with the rows that are kept.

    Lines of JSON that are known to be documents are copied without parsing them. If all documents
    are known, each worker reads, filters and writes its part of a file by itself.

    Args:
        kept: True for each document that is kept, bool (n,).
        new_values: Returns values of columns of the inputs, which replace those of the documents,
            in the form of their format. A null leaves a value as it is.
        executor: Copies parts in other processes, if documents are known and not rewritten.
        finished: Copies that are made already, by the numbers of files whose documents are known.
            The observer does not receive their documents.
    """
    targets = [join_inside(folder, name) for name in make_output_names(corpus.names)]
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
    copier = _Copier(corpus, columns, len(kept), rows, rewrite, new_values)
    if known is not None:
        if observe is None:
            known = known._replace(observed=NO_DOCUMENTS)
        for number, copy in finished.items():
            shutil.copyfile(copy, targets[number])
            advance(known.count_before(number, None) - known.count_before(number, 0))
        with TemporaryFolder(folder) as parts_folder:
            parts = _divide_files(
                corpus, columns, kept, known, targets, parts_folder, finished, workers
            )
            if executor is None or executor.shares_memory or rewrite is not None:
                copied = _copy_in_threads(copier, parts, advance, workers)
            else:
                copied = _copy_elsewhere(copier, parts, advance, executor, parts_folder)
            _join_parts(corpus, copied, targets, observe, workers)
            delete_shared_folder(parts_folder)
        return
    first = 0
    for number, target in enumerate(targets):
        part = CopiedPart(RowRange(number, 0), first, len(kept), kept[first:], target)
        first += copier.copy(part, observe, advance, in_threads=True)
    if first != len(kept):
        raise make_count_error(first, len(kept))


class CopiedPart(NamedTuple):
    """A part of a file that is copied."""

    rows: RowRange
    first: int
    """The ordinal of its first document."""
    end: int
    """The ordinal after its last document, or after that of the corpus if it is not known."""
    kept: np.ndarray
    """True for each of its documents that is kept, bool."""
    target: Path
    known: np.ndarray | None = None
    """The rows of its documents, ascending, int64, or None if they are not known."""
    observed: np.ndarray = NO_DOCUMENTS
    """The ordinals of its documents that the observer needs, ascending, int64."""
    added: pa.RecordBatch | None = None
    """The columns to add, if another process copies the part."""
    new_values: pa.RecordBatch | None = None
    """The values that replace others, if another process copies the part."""

    @property
    def is_whole(self) -> bool:
        """True if the part is a file."""
        return not self.rows.first and self.rows.end is None


class _ObservedDocuments(NamedTuple):
    """The documents of a slice that an observer needs."""

    first: int
    documents: pa.Array


class _CopiedRows(NamedTuple):
    """The outcome of copying a part."""

    part: CopiedPart
    documents: int
    observed: list[_ObservedDocuments]
    path: Path
    """The file of the copy."""
    read: ReadFiles | None = None
    """The status of the file and its skipped records, if another process has read it."""


def _divide_files(
    corpus: FileCorpus,
    columns: Columns,
    kept: np.ndarray,
    known: KnownDocuments,
    targets: Sequence[Path],
    parts_folder: Path,
    finished: Container[int],
    workers: int,
) -> Iterator[CopiedPart]:
    """Yields the parts of all files in order. A copy of several parts is joined from theirs.

    To divide a file of lines, they must be counted. One of many such files is a part as a whole.
    """
    known_sizes = {path: status.size for path, status in corpus.statuses.items()}
    sizes = [known_sizes.get(file.path, 0) for file in corpus.files]
    most = sum(sizes) // (FILES_PER_WORKER * workers)
    for number, target in enumerate(targets):
        if number in finished:
            continue
        ranges = [RowRange(number, 0)]
        if sizes[number] > most or isinstance(corpus.format_of(corpus.files[number]), Parquet):
            ranges = divide_file(corpus, columns, number)
        for place, part in enumerate(ranges):
            first = known.count_before(number, part.first)
            end = known.count_before(number, part.end)
            low, high = np.searchsorted(known.observed, [first, end])
            yield CopiedPart(
                rows=part,
                first=first,
                end=end,
                kept=kept[first:end],
                target=target if len(ranges) == 1 else parts_folder / f"{number}-{place}",
                known=known.rows[first:end],
                observed=known.observed[low:high],
            )


def _copy_in_threads(
    copier: "_Copier", parts: Iterator[CopiedPart], advance: Callable[[int], None], workers: int
) -> Iterator[_CopiedRows]:
    first_parts = list(islice(parts, max(workers, 2)))
    # A part is read by one thread and encoded by another one if workers would be idle.
    in_threads = len(first_parts) < workers
    parts = chain(first_parts, parts)
    if workers == 1 or len(first_parts) == 1:
        for part in parts:
            yield copier.copy_part(part, advance, in_threads=in_threads)
        return

    def copy(part: CopiedPart) -> _CopiedRows:
        return copier.copy_part(part, ignore_count, in_threads=in_threads)

    for done in ordered_map(copy, parts, workers):
        advance(done.documents)
        yield done


def _copy_elsewhere(
    copier: "_Copier",
    parts: Iterator[CopiedPart],
    advance: Callable[[int], None],
    executor: Executor,
    parts_folder: Path,
) -> Iterator[_CopiedRows]:
    rows = copier.rows
    new_values = copier.new_values
    if rows is not None:
        parts = (part._replace(added=rows(part.first, part.end)) for part in parts)
    if new_values is not None:
        parts = (part._replace(new_values=new_values(part.first, part.end)) for part in parts)
    task = CopyApart(replace(copier, rows=None, new_values=None), parts_folder)
    for done in executor.map(task, parts):
        advance(done.documents)
        yield done


def _join_parts(
    corpus: FileCorpus,
    copied: Iterator[_CopiedRows],
    targets: Sequence[Path],
    observe: Observer | None,
    workers: int,
) -> None:
    with ThreadPoolExecutor(workers, "nearkin-join") as pool:
        for number, copies in groupby(copied, lambda done: done.part.rows.file):
            target = targets[number]
            has_lines = not isinstance(corpus.format_of(corpus.files[number]), Parquet)
            make_appender = LineAppender if has_lines else RowGroupAppender
            appender = make_appender(target, pool)
            for done in copies:
                if done.read is not None:
                    corpus.learn(done.read)
                if observe is not None:
                    for observed in done.observed:
                        observe(observed.first, observed.documents)
                if done.part.is_whole and done.path != target:
                    if done.path.exists():
                        done.path.replace(target)
                elif done.path != target:
                    with _writer_errors(corpus.files[number]):
                        appender.append(done.path)
            with _writer_errors(corpus.files[number]):
                appender.close()


@dataclass(frozen=True)
class CopyApart(Task):
    """A task that copies a part of a file to a new file of a folder."""

    copier: "_Copier"
    folder: Path

    def __call__(self, part: CopiedPart) -> _CopiedRows:
        """Copies one part."""
        path = self.folder / f"{uuid4().hex}{part.target.suffix}"
        done = self.copier.copy_part(part._replace(target=path), ignore_count, in_threads=False)
        read = self.copier.corpus.tell([part.rows.file])
        # What the run knows of the part is not sent back.
        return done._replace(
            part=part._replace(kept=NO_DOCUMENTS, known=None, added=None, new_values=None),
            read=read,
        )


@dataclass(frozen=True)
class _Copier(Task):
    """A job that copies parts of files.

    Attributes:
        documents: Number of documents of the corpus.
    """

    corpus: FileCorpus
    columns: Columns
    documents: int
    rows: Annotations | None
    rewrite: Rewriter | None
    new_values: Annotations | None

    def copy_part(
        self, part: CopiedPart, advance: Callable[[int], None], *, in_threads: bool
    ) -> _CopiedRows:
        seen: list[_ObservedDocuments] = []
        see = partial(_collect_observed, part.observed, seen)
        documents = self.copy(part, see, advance, in_threads=in_threads)
        return _CopiedRows(part, documents, seen, part.target)

    def copy(
        self,
        part: CopiedPart,
        observe: Observer | None,
        advance: Callable[[int], None],
        *,
        in_threads: bool,
    ) -> int:
        corpus = self.corpus
        columns = self.columns
        number = part.rows.file
        writer = _writer(corpus, columns, number, part.target)
        if isinstance(writer, TableWriter):
            writer.expect_new_values(self._list_replaced(part))
        file = corpus.files[number]
        form = corpus.format_of(file)
        needed = None if part.rows.end is None else np.arange(part.rows.first, part.rows.end)
        observer = None
        copies_lines = isinstance(form, JsonLines) and form.has_lines
        if part.known is not None and self.rewrite is None and copies_lines:
            needed = part.known
            if len(part.observed) and observe is not None:
                own_columns = columns.with_partitions(file.partitions)
                observer = _LineObserver(own_columns, part.observed, observe)
        file_slices = corpus.read_slices(
            number, columns, part.rows.first, whole=True, rows=needed, span=part.rows.span
        )
        first = part.first
        for file_slice in self._write(file_slices, writer, part, in_threads=in_threads):
            if observer is not None:
                observer.observe(first, file_slice)
            elif observe is not None and (part.known is None or len(part.observed)):
                observe(first, file_slice.documents[columns.content])
            first += len(file_slice.rows)
            advance(len(file_slice.rows))
        if observer is not None:
            observer.flush()
        if part.known is not None and first != part.end:
            raise make_count_error(self.documents - part.end + first, self.documents)
        return first - part.first

    def _list_replaced(self, part: CopiedPart) -> list[str]:
        """Returns the columns of which values are replaced."""
        new_values = part.new_values
        if new_values is None and self.new_values is not None:
            new_values = self.new_values(part.first, part.first)
        names = [] if self.rewrite is None else [self.columns.source]
        return names if new_values is None else [*names, *new_values.schema.names]

    def _write(
        self,
        file_slices: Iterator[FileSlice],
        writer: Writer | RunError,
        part: CopiedPart,
        *,
        in_threads: bool,
    ) -> Iterator[FileSlice]:
        """Yields slices after their kept rows were handed to the writer.

        A thread writes each slice while the next one is read, if `in_threads` is true.
        """
        file = self.corpus.files[part.rows.file]
        first = part.first
        with ThreadPoolExecutor(1, "nearkin-write") as pool:
            pending: deque[Future[None]] = deque()
            for file_slice in file_slices:
                count = len(file_slice.rows)
                if first + count > part.end:
                    found = self.documents - part.end + first + count
                    raise make_count_error(found, self.documents)
                if count:
                    if isinstance(writer, RunError):
                        raise writer
                    with _writer_errors(file):
                        selected = self._select(file_slice, writer, part, first)
                        if in_threads:
                            pending.append(pool.submit(writer.write, selected))
                        else:
                            writer.write(selected)
                        if len(pending) > AHEAD:
                            pending.popleft().result()
                first += count
                yield file_slice
            with _writer_errors(file):
                for future in pending:
                    future.result()
                if not isinstance(writer, RunError):
                    writer.close()

    def _select(self, file_slice: FileSlice, writer: Writer, part: CopiedPart, first: int) -> Any:
        count = len(file_slice.rows)
        keep = part.kept[first - part.first :][:count]
        complete_rows = file_slice.complete_rows
        if self.rewrite is not None:
            texts = self.rewrite(first, file_slice.documents[self.columns.content])
            if texts is not None:
                form = self.corpus.format_of(self.corpus.files[part.rows.file]).value_form
                new_texts = store_texts(texts, form)
                complete_rows = writer.replace_values(complete_rows, self.columns.source, new_texts)
        new_values = _take_rows(part, part.new_values, self.new_values, first, count)
        if new_values is not None:
            for name in new_values.schema.names:
                if new_values[name].null_count < count:
                    complete_rows = writer.replace_values(complete_rows, name, new_values[name])
        added = _take_rows(part, part.added, self.rows, first, count)
        if added is not None:
            added = added.filter(pa.array(keep))
        return writer.select(complete_rows, keep, added)


def _take_rows(
    part: CopiedPart,
    values: pa.RecordBatch | None,
    make_values: Annotations | None,
    first: int,
    count: int,
) -> pa.RecordBatch | None:
    """Returns the rows of a slice of what a part has for its documents, or of what is made."""
    if values is not None:
        return values.slice(first - part.first, count)
    return None if make_values is None else make_values(first, first + count)


def _collect_observed(
    observed: np.ndarray, seen: list[_ObservedDocuments], first: int, documents: pa.Array
) -> None:
    """Collects the documents of a slice that an observer needs. The others become null."""
    low, high = np.searchsorted(observed, [first, first + len(documents)])
    places = observed[low:high] - first
    if len(places):
        values = spread_values(documents.take(pa.array(places)), places, len(documents))
        seen.append(_ObservedDocuments(first, values))


def spread_values(values: pa.Array, places: np.ndarray, count: int) -> pa.Array:
    """Returns an array of `count` values with some at places, ascending, and null at the others.

    Examples:
        >>> spread_values(pa.array(["a", "b"]), np.array([0, 2]), 3).to_pylist()
        ['a', None, 'b']
    """
    indices = np.zeros(count, np.int64)
    indices[places] = np.arange(len(places))
    is_empty = np.ones(count, bool)
    is_empty[places] = False
    return values.take(pa.array(indices, mask=is_empty))


def make_count_error(found: int, expected: int) -> RunError:
    """Returns the error to raise if inputs have another number of documents than before."""
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


class _LineObserver:
    """Passes on the observed ones among lines that were not parsed, many at a time.

    Args:
        observed: Ordinals of the documents that the observer needs, ascending, int64 (m,).
    """

    def __init__(self, columns: Columns, observed: np.ndarray, observe: Observer) -> None:
        self._content = columns.content
        self._builder = JsonSliceBuilder(columns, 0, whole=False, has_lines=True)
        self._observed = observed
        self._observe = observe
        self._held: list[int] = []
        """The ordinals of the documents that were not passed on yet."""

    def observe(self, first: int, lines: FileSlice) -> None:
        low, high = np.searchsorted(self._observed, [first, first + len(lines.rows)])
        for ordinal in self._observed[low:high].tolist():
            row = int(lines.rows[ordinal - first])
            line = lines.complete_rows[ordinal - first].removesuffix(b"\n")
            self._builder.add(JsonRow(row, line))
            self._held.append(ordinal)
            if self._builder.full:
                self.flush()

    def flush(self) -> None:
        """Passes on the documents that are held."""
        if self._held:
            ordinals = np.array(self._held)
            self._held = []
            parsed = self._builder.take_slice().documents[self._content]
            first = int(ordinals[0])
            count = int(ordinals[-1]) + 1 - first
            self._observe(first, spread_values(parsed, ordinals - first, count))


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
