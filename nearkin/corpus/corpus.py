"""Corpora: files of any format in the order of their names, or a table in memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearkin.corpus.batches import WHOLE_FILE, Batch, Rejection
from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.file_names import format_path
from nearkin.corpus.formats.arrow_ipc import ArrowIpc
from nearkin.corpus.formats.base import UNREADABLE, FileSlice, Format, describe_error
from nearkin.corpus.formats.delimited import Delimited
from nearkin.corpus.formats.foreign_content import READABLE, find_foreign_content
from nearkin.corpus.formats.json_array import JsonArray, holds_array
from nearkin.corpus.formats.json_fields import FieldSample, contains_string, format_names, sample_fields
from nearkin.corpus.formats.json_lines import JsonLines
from nearkin.corpus.formats.parquet import Parquet
from nearkin.corpus.formats.plain_text import PlainText
from nearkin.corpus.formats.record_batches import AHEAD, check_batches, split_batch
from nearkin.corpus.input_file import FileStatus, InputFile
from nearkin.corpus.inputs import Selection, SkippedPath, find_inputs
from nearkin.corpus.validation import make_empty_documents
from nearkin.errors import NearkinError, RunError, UsageError

LINES = JsonLines()
ARRAY = JsonArray()
TEXT = PlainText()
FORMATS: dict[str, Format] = {
    ".jsonl": LINES,
    ".ndjson": LINES,
    ".json": LINES,
    ".csv": Delimited(","),
    ".tsv": Delimited("\t"),
    ".arrow": ArrowIpc(),
    ".arrows": ArrowIpc(),
    ".feather": ArrowIpc(),
    ".ipc": ArrowIpc(),
}
"""By suffix; and parquet."""
ON_ERROR = ("quarantine", "fail")


class FileCorpus:
    """Files, in the order of their relative paths (bytes).

    Args:
        files: In order.
        on_error: `quarantine` or `fail`.
        ahead: Bytes up to which parts of a file are decoded ahead.
        skipped: What was found among the inputs and is not read.

    Attributes:
        statuses: The status of each file that was read, by its path. A file whose status differs later has changed.
    """

    def __init__(
        self,
        files: Sequence[InputFile],
        on_error: str = "quarantine",
        ahead: int = AHEAD,
        skipped: Sequence[SkippedPath] = (),
    ) -> None:
        if on_error not in ON_ERROR:
            raise UsageError(f"on-error {on_error!r} is not one of {', '.join(ON_ERROR)}")
        self.files = tuple(files)
        self.on_error = on_error
        self._parquet = Parquet(ahead)
        self._formats = {**FORMATS, ".parquet": self._parquet, ".pq": self._parquet}
        self.skipped = tuple(skipped)
        self.statuses: dict[str, FileStatus] = {}
        self._json_formats: dict[str, JsonLines] = {}

    @classmethod
    def open(
        cls,
        inputs: Sequence[str],
        on_error: str = "quarantine",
        ahead: int = AHEAD,
        selection: Selection | None = None,
    ) -> "FileCorpus":
        """From paths, globs, folders and URLs."""
        found = find_inputs(inputs, selection)
        return cls(found.files, on_error, ahead, found.skipped)

    def set_scratch_folder(self, folder: Path) -> None:
        """Sets the folder whose disk is used for what reading needs beside the memory. Until then it is the system's."""
        self._parquet.scratch_folder = folder

    def format_of(self, file: InputFile) -> Format:
        """Returns the reader of a file: by its suffix, for JSON also by how the file begins. Every other file is one text."""
        form = self._formats.get(file.suffix, TEXT)
        if form is not LINES:
            return form
        if file.path not in self._json_formats:
            self._json_formats[file.path] = self._json_format(file)
        return self._json_formats[file.path]

    @staticmethod
    def _json_format(file: InputFile) -> JsonLines:
        try:
            return ARRAY if holds_array(file) else LINES
        except UNREADABLE:
            return LINES

    @property
    def names(self) -> list[str]:
        return [file.name for file in self.files]

    def check(self, columns: Columns) -> None:
        """Checks what can be known about the files before anything long begins.

        Raises:
            UsageError: If no reader understands a file, a file lacks a column, or no JSON object has one.
        """
        fields: dict[str, FieldSample] = {}
        for file in self.files:
            try:
                names = self._column_names(file, columns, fields)
            except UsageError:
                raise
            except UNREADABLE:
                continue
            if names is not None:
                _require(columns, names, file)
        self._require_fields(columns, fields)

    def _column_names(self, file: InputFile, columns: Columns, fields: dict[str, FieldSample]) -> list[str] | None:
        form = self.format_of(file)
        if not isinstance(form, (Parquet, ArrowIpc)):
            # what remote files hold is told when they are read
            if not file.remote and (content := find_foreign_content(file, form is TEXT)):
                raise UsageError(f"cannot read {format_path(file.path)}: it holds {content}. {READABLE}; leave the file out")
            if columns.vector and not isinstance(form, JsonLines):
                raise UsageError(f"{format_path(file.path)} cannot hold vectors; they are read from parquet, Arrow and JSON")
        if isinstance(form, JsonLines):
            found = fields[file.path] = sample_fields(file, form)
            return list(dict.fromkeys([*found.names, *columns.carried_columns])) if found.objects else None
        if form is TEXT:
            return ["text"]
        return form.columns(file) or None

    def _require_fields(self, columns: Columns, fields: dict[str, FieldSample]) -> None:
        """Requires that each column that rides along is a field of some object, if all files are JSON and have objects."""
        if not fields or len(fields) < len(self.files) or not any(found.objects for found in fields.values()):
            return
        files = [file for file in self.files if not fields[file.path].complete]
        for name in columns.carried_columns:
            if any(name in found.names for found in fields.values()) or any(contains_string(file, name) for file in files):
                continue
            seen = dict.fromkeys(other for found in fields.values() for other in found.names)
            raise UsageError(
                f"no object of the inputs has the field {name!r} (they have {format_names(seen)}); correct its name"
            )

    def batches(self, columns: Columns, start: tuple[int, int] = (0, 0), first: int = 0) -> Iterator[Batch]:
        gathered = _BatchBuilder(first)
        for number in range(start[0], len(self.files)):
            for piece in self.read_slices(number, columns, start[1] if number == start[0] else 0):
                if gathered.add(number, piece):
                    yield gathered.take()
        if gathered.begun:
            yield gathered.take()

    def read_slices(self, number: int, columns: Columns, start: int = 0, whole: bool = False) -> Iterator[FileSlice]:
        """One file; what cannot be read of it is one rejection, or an error if so asked."""
        file, row = self.files[number], start
        self.require_unchanged(number)
        try:
            for piece in self.format_of(file).read(file, columns, start, whole):
                row = piece.next_row
                self._refuse(file, piece.rejected)
                yield piece
        except NearkinError:
            raise
        except UNREADABLE as error:
            self.require_unchanged(number)
            reason = f"unreadable{f' from row {row}' if row else ''}: {describe_error(error)}"
            self._refuse(file, [(WHOLE_FILE, reason, "")])
            yield FileSlice(np.empty(0, np.int64), make_empty_documents(columns), [(WHOLE_FILE, reason, "")], row + 1)
        except KeyError as error:
            raise UsageError(f"{file.path} has no column {error}") from error
        self.require_unchanged(number)

    def _refuse(self, file: InputFile, rejected: list[tuple[int, str, str]]) -> None:
        if rejected and self.on_error == "fail":
            row, reason, raw = rejected[0]
            place = file.path if row == WHOLE_FILE else f"{file.path}, row {row}"
            shown = f" ({raw[:60]!r})" if raw else ""
            raise RunError(f"{place}: {reason}{shown}. Fix it, or set bad rows aside with --on-error quarantine")

    def require_unchanged(self, number: int) -> FileStatus:
        """Compares a file with what it was when it was first read. Each reading begins and ends with this.

        Raises:
            RunError: If the file has changed, or cannot be reached.
        """
        file = self.files[number]
        try:
            status = file.status()
        except OSError as error:
            raise RunError(
                f"cannot read {format_path(file.path)}: {error.strerror or error}; restore it, then run again"
            ) from error
        if self.statuses.setdefault(file.path, status) != status:
            raise RunError(f"{format_path(file.path)} has changed while the run was reading it; run again with --overwrite")
        return status

    def require_all_unchanged(self) -> None:
        """Compares every file with what it was when it was first read; raises as `require_unchanged`."""
        for number in range(len(self.files)):
            self.require_unchanged(number)


def _require(columns: Columns, names: Sequence[str], file: InputFile) -> None:
    options = {columns.source: columns.option, columns.id: "--id"}
    for name in columns.all:
        if name not in names:
            way = f"; choose one with {options[name]}" if name in options else ""
            raise UsageError(f"{file.path} has no column {name!r} (it has {', '.join(map(repr, names))}){way}")
        require_unique_column(name, names, file.path)


def require_unique_column(name: str, names: Sequence[str], place: str) -> None:
    """Raises UsageError if several columns have the name, because it is ambiguous then."""
    if names.count(name) > 1:
        raise UsageError(f"{place} has {names.count(name)} columns named {name!r}; rename all but one")


class _BatchBuilder:
    """Small pieces (text files) joined to batches worth a thread's while."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._parts: list[tuple[int, FileSlice]] = []
        self._bytes = self._rows = 0

    @property
    def begun(self) -> bool:
        return bool(self._parts)

    def add(self, number: int, piece: FileSlice) -> bool:
        """Whether it is enough for a batch now."""
        self._parts.append((number, piece))
        self._rows += len(piece.rows) + len(piece.rejected)
        self._bytes += piece.documents.nbytes
        return self._bytes >= BATCH_BYTES // 2 or self._rows >= BATCH_ROWS // 2

    def take(self) -> Batch:
        parts, self._parts, self._bytes, self._rows = self._parts, [], 0, 0
        full = [(number, piece) for number, piece in parts if len(piece.rows)]
        documents = _join_batches([piece.documents for _, piece in full or parts[:1]])
        files = np.concatenate([np.full(len(piece.rows), number, np.int32) for number, piece in parts])
        rejected = tuple(Rejection(number, *entry) for number, piece in parts for entry in piece.rejected)
        batch = Batch(
            self._first,
            files,
            np.concatenate([piece.rows for _, piece in parts]),
            documents,
            rejected,
            (parts[-1][0], parts[-1][1].next_row),
        )
        self._first += len(files)
        return batch


def _join_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    joint = pa.Table.from_batches(batches)
    return joint.combine_chunks().to_batches()[0] if len(joint) else batches[0]


class TableCorpus:
    """A table in memory; ids are row numbers where no column has them."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @property
    def names(self) -> list[str]:
        return [""]

    def check(self, columns: Columns) -> None:
        """Raises UsageError where a column is missing."""
        for name in columns.all:
            if name not in self.table.schema.names:
                raise UsageError(f"the table has no column {name!r} (it has {', '.join(map(repr, self.table.schema.names))})")
            require_unique_column(name, self.table.schema.names, "the table")

    def batches(self, columns: Columns, start: tuple[int, int] = (0, 0), first: int = 0) -> Iterator[Batch]:
        for piece in check_batches(self._parts(columns, start[1]), columns, False):
            rejected = tuple(Rejection(0, *entry) for entry in piece.rejected)
            yield Batch(first, np.zeros(len(piece.rows), np.int32), piece.rows, piece.documents, rejected, (0, piece.next_row))
            first += len(piece.rows)

    def _parts(self, columns: Columns, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 0
        for batch in self.table.select(list(columns.all)).to_batches():
            skipped = min(max(start - first, 0), len(batch))
            yield from split_batch(first + skipped, batch.slice(skipped))
            first += len(batch)
