"""Corpora: files of any format in the order of their names, or a table in memory."""

import math
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.batches import WHOLE_FILE, Batch, Rejection
from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, DOCUMENT_SHARE, Columns
from nearkin.corpus.decompression import (
    VERIFIED_BYTES,
    ZSTD,
    find_change,
    is_change,
    read_window,
)
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.corpus.formats.arrow_ipc import ArrowIpc
from nearkin.corpus.formats.avro import Avro
from nearkin.corpus.formats.base import (
    END_OF_FILE,
    FileSlice,
    Format,
    ItemsBeforeDamage,
    Reading,
    make_damaged_slice,
)
from nearkin.corpus.formats.delimited import Delimited
from nearkin.corpus.formats.excel import Excel
from nearkin.corpus.formats.foreign_content import READABLE, SPREADSHEET, find_foreign_content
from nearkin.corpus.formats.json_fields import (
    FieldSample,
    contains_path,
    format_names,
    sample_fields,
)
from nearkin.corpus.formats.json_forms import LINES, detect_json_form
from nearkin.corpus.formats.json_lines import JsonLines, divide_lines
from nearkin.corpus.formats.json_values import SeveralListsError
from nearkin.corpus.formats.lance import Lance
from nearkin.corpus.formats.orc import Orc
from nearkin.corpus.formats.parquet import Parquet
from nearkin.corpus.formats.plain_text import PlainText
from nearkin.corpus.formats.record_batches import (
    AHEAD,
    ColumnarFormat,
    check_batches,
    split_batches,
)
from nearkin.corpus.formats.record_rows import RecordFormat
from nearkin.corpus.formats.tar_samples import TarSamples
from nearkin.corpus.formats.warc import CONTINUATION, REVISIT, UNKNOWN, Warc
from nearkin.corpus.input_file import FileStatus, InputFile
from nearkin.corpus.inputs import Selection, SkippedPath, find_inputs
from nearkin.corpus.long_windows import ARROW_WINDOW, WINDOW_SHARE
from nearkin.corpus.nested_columns import (
    SEPARATOR,
    find_root,
    is_column,
    list_paths,
    list_paths_of_lists,
    list_roots,
)
from nearkin.corpus.places import ByteSpan, RowGroup, RowRange, places_from, split_places
from nearkin.corpus.rejects import MAY_BE_CHANGED
from nearkin.corpus.remote import raise_hidden_failure
from nearkin.corpus.table_versions import TableRecord, TableVersion
from nearkin.corpus.validation import check_rows
from nearkin.errors import RunError, UsageError
from nearkin.runtime.dialect import LABELS, UTF8, WINDOWS, Dialect
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.suggestions import describe_columns, did_you_mean, require_choice
from nearkin.settings.table import SETTINGS

TEXT = PlainText()
FORMATS: dict[str, Format] = {
    ".jsonl": LINES,
    ".ndjson": LINES,
    ".json": LINES,
    ".arrow": ArrowIpc(),
    ".arrows": ArrowIpc(),
    ".feather": ArrowIpc(),
    ".ipc": ArrowIpc(),
    ".avro": Avro(),
    ".lance": Lance(),
    ".orc": Orc(),
    ".xlsx": Excel(),
    ".tar": TarSamples(),
    ".warc": Warc(),
    ".wet": Warc(),
}
"""The formats by suffix, without parquet, CSV and TSV, whose readers belong to a corpus. Files with
other suffixes are one text each."""
SKIPPED_RECORDS = {
    REVISIT: "whose content is that of an earlier record",
    CONTINUATION: "whose content is a part of an earlier record",
    UNKNOWN: "whose type nearkin does not know",
}
"""Why records are not rows, by their kind."""
ON_ERROR = ("quarantine", "fail")


class ReadFiles(NamedTuple):
    """The facts of some files that another process has read."""

    statuses: Mapping[int, FileStatus]
    """The status of each file, by its number."""
    skipped_records: Mapping[int, Mapping[str, int]]
    """The records that are not rows, by the numbers of files."""


class FileCorpus:
    """Files in the order of their relative paths, compared as bytes.

    Args:
        ahead: The number of bytes up to which parts of a file are decoded ahead.

    Attributes:
        inputs: The paths, globs, folders and URLs that name the files, if they were found by them.
        selection: The rules by which files of folders were found.
        row_remedy: The end of a message about a row that is not a document.
        statuses: The status of each file that was read, by its path. A file has changed if its
            status differs later.
    """

    def __init__(
        self,
        files: Sequence[InputFile],
        on_error: str = "quarantine",
        ahead: int = AHEAD,
        skipped: Sequence[SkippedPath] = (),
        searched: frozenset[str] = frozenset(),
        tables: Sequence[TableVersion] = (),
    ) -> None:
        require_choice("on_error", on_error, ON_ERROR)
        self.files = tuple(files)
        self.inputs: tuple[str, ...] = ()
        self.selection = Selection()
        self.on_error = on_error
        self._parquet = Parquet(ahead)
        self._formats = {
            **FORMATS,
            ".parquet": self._parquet,
            ".pq": self._parquet,
            ".csv": Delimited(","),
            ".tsv": Delimited("\t"),
        }
        self.skipped = tuple(skipped)
        self._searched = searched
        self._tables = tuple(tables)
        self.row_remedy = advise_to_reject()
        self.statuses: dict[str, FileStatus] = {}
        self._skipped_records: dict[int, Mapping[str, int]] = {}
        self._json_formats: dict[str, JsonLines] = {}
        self._checked: set[Columns] = set()
        self._changes: dict[int, DamageError | None] = {}
        self._counted_lines: dict[int, list[RowGroup]] = {}
        self._withdrawn: dict[int, np.ndarray] = {}

    @classmethod
    def open(
        cls,
        inputs: Sequence[str],
        on_error: str = "quarantine",
        ahead: int = AHEAD,
        selection: Selection | None = None,
    ) -> "FileCorpus":
        """Returns the corpus of all files that the inputs name.

        Up to `ahead` bytes, parts of a file are decoded ahead.
        """
        found = find_inputs(inputs, selection)
        corpus = cls(found.files, on_error, ahead, found.skipped, found.searched, found.tables)
        corpus.inputs = tuple(map(str, inputs))
        corpus.selection = selection or Selection()
        return corpus

    @property
    def tables(self) -> list[TableRecord]:
        """The versions of the tables among the inputs, for run.json."""
        return [table.record for table in self._tables]

    @property
    def single_table(self) -> TableVersion | None:
        """The version of the table that the inputs are, or None if they are anything else."""
        if not len(self.inputs) == len(self._tables) == 1:
            return None
        (table,) = self._tables
        return table if len(table.files) == len(self.files) else None

    def arrange(self, names: Mapping[str, str]) -> None:
        """Gives the files, before they are read, the order and the names of their paths."""
        own = {file.path: file for file in self.files}
        self.files = tuple(replace(own[path], name=name) for path, name in names.items())

    def append(self, other: "FileCorpus", columns: Columns) -> None:
        """Adds the files of another corpus after those of this one, and checks them alone.

        The folders above a file are added to its name as far as the name is taken.
        """
        other.check(columns)
        self._checked.add(columns)
        taken = {file.name for file in self.files}
        for file in other.files:
            name = _free_name(file, taken)
            taken.add(name)
            self.files = (*self.files, replace(file, name=name))
        self.skipped = (*self.skipped, *other.skipped)
        self._searched |= other._searched
        self._tables = (*self._tables, *other._tables)

    def withdraw(self, places: np.ndarray) -> None:
        """Leaves out rows from now on, given by their places, ascending, uint64 (n,)."""
        self._withdrawn = dict(split_places(places))

    def set_codec(self, codec: str | None) -> None:
        """Sets the codec of copies of Parquet files. The default is that of each file."""
        self._parquet.codec = codec

    def set_ahead(self, ahead: int) -> None:
        """Sets the number of bytes up to which parts of a file are decoded ahead."""
        self._parquet.ahead = ahead

    def format_of(self, file: InputFile) -> Format:
        """Returns the format of a file.

        It is decided by the suffix, for JSON also by the beginning of the content. A file with
        any other suffix is one text.
        """
        form = self._formats.get(file.suffix, TEXT)
        if form is not LINES:
            return form
        if file.path not in self._json_formats:
            self._json_formats[file.path] = self._json_format(file)
        return self._json_formats[file.path]

    @staticmethod
    def _json_format(file: InputFile) -> JsonLines:
        try:
            with decoding():
                return detect_json_form(file)
        except DamageError:
            return LINES

    @property
    def skipped_records(self) -> Counter[str]:
        """The numbers of records of the files that were read that are not rows, by their kind."""
        total: Counter[str] = Counter()
        for counts in self._skipped_records.values():
            total.update(counts)
        return total

    @property
    def names(self) -> list[str]:
        """The relative names of the files."""
        return [file.name for file in self.files]

    def describe_files(self, columns: Columns) -> str:
        """Returns a sentence with the numbers of files by kind, and of the skipped ones.

        It is empty if all files are of one kind that is read in the usual way, and none is skipped.
        """
        kinds = Counter(self._kind_of(file, columns) for file in self.files)
        parts = [
            f"{count:,} {kind} {'file' if count == 1 else 'files'}{note}"
            for (kind, note), count in sorted(kinds.items())
        ]
        if len(kinds) == 1 and not self.skipped and not next(iter(kinds))[1]:
            return ""
        if self.skipped:
            parts.append(f"{len(self.skipped):,} skipped")
        return f"Inputs: {', '.join(parts)}"

    def _kind_of(self, file: InputFile, columns: Columns) -> tuple[str, str]:
        """Returns the suffix of a file, and how it is read if that is not the usual way."""
        kind = file.suffix or "unnamed"
        form = self.format_of(file)
        if form is TEXT:
            return kind, " (one document a line)" if columns.lines else " (one text each)"
        if not isinstance(form, Delimited):
            return kind, ""
        try:
            with decoding():
                dialect = form.dialect_of(file, columns)
        except DamageError:
            return kind, ""
        usual = Dialect(form.delimiter, UTF8)
        notes = []
        if dialect.delimiter != usual.delimiter:
            notes.append(f"separated by {dialect.delimiter_label}")
        if dialect.encoding != usual.encoding:
            notes.append(dialect.encoding_label)
        return kind, f" ({', '.join(notes)})" if notes else ""

    def describe_doubts(self, columns: Columns) -> list[str]:
        """Returns warnings about files that may have been read otherwise than intended.

        These are files of an unknown suffix that a folder or a pattern contributed beside files
        with rows, files whose encoding was guessed, and workbooks with other sheets or merged
        cells.
        """
        texts = self._texts_beside_tables()
        doubts = []
        if texts and not columns.lines:
            doubts.append(
                f"read {_name_with_others(texts)} as one text each, because the suffix is not that "
                f"of a file with rows; {_advise_to_exclude(texts)}"
            )
        guessed = [
            file
            for file in self.files
            if columns.encoding is None
            and self._kind_of(file, columns)[1].endswith(f"{LABELS[WINDOWS]})")
        ]
        if guessed:
            doubts.append(
                f"read {_name_with_others(guessed)} as Windows-1252, because it is not valid "
                f"UTF-8; name another encoding with {name_setting('encoding')}"
            )
        for file in self.files:
            form = self.format_of(file)
            if isinstance(form, Excel):
                try:
                    with decoding():
                        doubts += form.describe_doubts(file, columns)
                except DamageError:
                    continue
        return doubts

    def check(self, columns: Columns) -> None:
        """Checks what can be known about the files before they are read completely, once."""
        if columns in self._checked:
            return
        fields: dict[str, FieldSample] = {}
        texts = {file.path for file in self._texts_beside_tables()}
        unusable = []
        for file in self.files:
            try:
                self._check_file(file, columns, fields)
            except UsageError:
                if file.path not in texts:
                    raise
                unusable.append(file)
        if unusable:
            raise UsageError(
                f"cannot read {_name_with_others(unusable)} beside files with rows, because the "
                f"suffix is not that of one; {_advise_to_exclude(unusable)}"
            )
        self._require_fields(columns, fields)
        self._checked.add(columns)

    def _check_file(
        self, file: InputFile, columns: Columns, fields: dict[str, FieldSample]
    ) -> None:
        """Checks what can be known about one file, and adds the sample of a file of JSON."""
        form = self.format_of(file)
        own_columns = columns.with_partitions(file.partitions)
        schema: pa.Schema | None = None
        try:
            with decoding():
                _require_usable_compression(file, form, columns)
                if isinstance(form, ColumnarFormat):
                    schema = form.schema(file)
                    names: list[str] | None = _list_schema_columns(schema, columns)
                else:
                    names = self._column_names(file, columns, fields)
        except DamageError:
            return
        if names is not None:
            _require(own_columns, names, file)
        if schema is not None:
            _require_types(schema, own_columns, file.shown_path)
        if isinstance(form, Avro):
            form.require_types(file, own_columns)

    def _texts_beside_tables(self) -> list[InputFile]:
        """Returns the files of one text that a folder or a pattern contributed beside others."""
        texts = [file for file in self.files if self.format_of(file) is TEXT]
        if len(texts) == len(self.files):
            return []
        return [file for file in texts if file.path in self._searched]

    def list_columns(self, columns: Columns) -> set[str]:
        """Returns the columns of lists of the first file that can be read, with paths."""
        for file in self.files:
            form = self.format_of(file)
            try:
                with decoding():
                    if isinstance(form, JsonLines):
                        return sample_fields(file, form, columns).lists
                    if isinstance(form, ColumnarFormat):
                        return list_paths_of_lists(form.schema(file))
            except DamageError:
                continue
            return set()
        return set()

    def require_new_columns(self, names: Sequence[str], columns: Columns) -> None:
        """Requires that the files can have further columns, and have none of these names.

        Of JSON, the first rows of each file are looked at.
        """
        for file in self.files:
            form = self.format_of(file)
            if form is TEXT or isinstance(form, Warc | TarSamples):
                kind = "is a text" if form is TEXT else "has records"
                raise UsageError(
                    f"column {names[0]!r} cannot be added to {file.shown_path}, which "
                    f"{kind} without columns; write another format, or leave out the option"
                )
            try:
                with decoding():
                    read = replace(columns, carried_columns=())
                    existing = self._column_names(file, read, {}) or []
            except DamageError:
                continue
            for name in names:
                if name in existing:
                    raise UsageError(
                        f"column {name!r} cannot be added, because {file.shown_path} has a "
                        "column of this name; rename that column"
                    )

    def require_replaceable(self, names: Iterable[str], columns: Columns) -> None:
        """Requires that each file has columns of its own of some names, so that they can change."""
        inside = [name for name in names if SEPARATOR in name]
        for file in self.files if inside else ():
            own_columns = self.format_of(file).columns(file, columns)
            _require_own_columns(inside, own_columns or (), file.shown_path)

    def column_names(self) -> list[str]:
        """Returns the columns of the first file, from its schema, its header or its first rows."""
        with decoding():
            return self._column_names(self.files[0], Columns(), {}) or []

    def _column_names(
        self, file: InputFile, columns: Columns, fields: dict[str, FieldSample]
    ) -> list[str] | None:
        form = self.format_of(file)
        if isinstance(form, ColumnarFormat):
            return _list_schema_columns(form.schema(file), columns)
        if isinstance(form, RecordFormat):
            if columns.vector and not isinstance(form, Avro):
                raise UsageError(
                    f"{file.shown_path} cannot hold vectors; they are read from parquet, "
                    "Arrow, Avro and JSON"
                )
            names = form.columns(file, columns)
            if names is None:
                return None
            # What is inside a column is not in the list.
            return [*names, *_list_further(columns, names, lambda name: find_root(name, names))]
        # The content of remote files is checked when they are read.
        content = None
        if not file.remote and not (isinstance(form, Delimited) and form.is_wide(file, columns)):
            content = find_foreign_content(file, whole_text=form is TEXT)
        if content:
            way = "" if content == SPREADSHEET else "; remove the file from the inputs"
            raise UsageError(f"cannot read {file.shown_path}: it holds {content}. {READABLE}{way}")
        if form is TEXT and (columns.fingerprint or columns.fields):
            raise UsageError(
                f"{file.shown_path} is one text without columns; fingerprints and "
                "fields are read from files with columns, such as parquet, CSV and JSON"
            )
        if columns.vector and not isinstance(form, JsonLines):
            raise UsageError(
                f"{file.shown_path} cannot hold vectors; they are read from parquet, Arrow and JSON"
            )
        if isinstance(form, JsonLines):
            try:
                found = fields[file.path] = sample_fields(file, form, columns)
            except SeveralListsError as error:
                raise UsageError(f"cannot read {file.shown_path}: {error}") from error
            if found.misfit:
                raise UsageError(f"cannot read {file.shown_path}: {found.misfit}")
            if not found.objects:
                return None
            return list(dict.fromkeys([*found.names, *columns.carried_columns]))
        if form is TEXT:
            return ["text"]
        return form.columns(file, columns) or None

    def _require_fields(self, columns: Columns, fields: dict[str, FieldSample]) -> None:
        """Requires that each carried column is a field of some object, if all files are JSON."""
        if (
            not fields
            or len(fields) < len(self.files)
            or not any(found.objects for found in fields.values())
        ):
            return
        files = [file for file in self.files if not fields[file.path].complete]
        partitions = {name for file in self.files for name in file.partitions}
        for name in columns.carried_columns:
            if (
                name in partitions
                or any(name in found.names for found in fields.values())
                or any(contains_path(file, name) for file in files)
            ):
                continue
            known_names = dict.fromkeys(
                known for sampled in fields.values() for known in sampled.names
            )
            raise UsageError(
                f"no object of the inputs has the field {name!r} (they have "
                f"{format_names(known_names)})"
                f"{_suggest_carried(name, known_names)}"
            )

    def batches(
        self, columns: Columns, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents in batches."""
        numbers = range(start[0], len(self.files))
        files = (RowRange(number, start[1] if number == start[0] else 0) for number in numbers)
        yield from self.batches_of(columns, files, first)

    def batches_of(
        self, columns: Columns, ranges: Iterable[RowRange], first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents of some rows in batches.

        A range that ends before its file consists of whole row groups, see `row_groups`.
        """
        builder = _BatchBuilder(first)
        for number, begin, end, span in ranges:
            rows = None if end is None else np.arange(begin, end)
            slices = self.read_slices(number, columns, begin, rows=rows, span=span)
            for file_slice in slices:
                if builder.add(number, file_slice):
                    yield builder.take_batch()
        if builder.begun:
            yield builder.take_batch()

    def row_groups(self, rows: RowRange, columns: Columns, least: int) -> Iterable[RowGroup] | None:
        """Returns the row groups of a file that hold some of its rows, or groups of its lines.

        The latter have at least `least` bytes. It is None for a file that is read from the
        beginning: one without row groups, with large ones, or whose footer is damaged, one that is
        compressed, and one that is not local.
        """
        if not self.can_divide(rows.file, columns):
            return None
        file = self.files[rows.file]
        form = self.format_of(file)
        if not isinstance(form, Parquet):
            groups = self._line_groups(rows.file, least)
            return (group for group in groups if group.first + group.rows > rows.first)
        try:
            with decoding():
                return form.row_groups(file, rows.first)
        except DamageError:
            return None

    def can_divide(self, number: int, columns: Columns) -> bool:
        """Returns whether a file of this kind can be read from the middle."""
        file = self.files[number]
        form = self.format_of(file)
        if file.remote:
            return False
        has_lines = form is LINES or (form is TEXT and columns.lines)
        return isinstance(form, Parquet) or (has_lines and file.compression is None)

    def suits_threads(self, number: int, columns: Columns) -> bool:
        """Returns whether several threads can read files of this kind at a time, and sooner.

        Parts of columnar files, the shared texts of workbooks and windows of zstd may be larger
        than the memory of a worker.
        Files of one text are small, so that threads would wait for the interpreter. A remote file
        is not looked at.
        """
        file = self.files[number]
        form = self.format_of(file)
        has_large_parts = isinstance(form, ColumnarFormat | Excel)
        if file.remote or has_large_parts or (form is TEXT and not columns.lines):
            return False
        if file.compression != ZSTD:
            return True
        with file.open() as stored:
            return read_window(stored) <= BATCH_BYTES

    def _line_groups(self, number: int, least: int) -> Iterable[RowGroup]:
        """Yields groups of the lines of a file, which are counted once."""
        counted = self._counted_lines.get(number)
        if counted is None:
            self.require_unchanged(number)
            counted = []
            for group in divide_lines(self.files[number], least):
                counted.append(group)
                yield group
            self._counted_lines[number] = counted
        else:
            yield from counted

    def batches_at(
        self, columns: Columns, places: np.ndarray, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents at some places in batches, as described in `Corpus`."""
        builder = _BatchBuilder(first)
        for number, rows in split_places(places_from(places, start)):
            for file_slice in self.read_slices(number, columns, int(rows[0]), rows=rows):
                selected = file_slice.select(rows)
                is_filled = bool(len(selected.rows) or selected.rejected)
                if is_filled and builder.add(number, selected):
                    yield builder.take_batch()
                if file_slice.next_row > rows[-1]:
                    break
        if builder.begun:
            yield builder.take_batch()

    def read_slices(
        self,
        number: int,
        columns: Columns,
        start: int = 0,
        *,
        whole: bool = False,
        rows: np.ndarray | None = None,
        span: ByteSpan | None = None,
    ) -> Iterator[FileSlice]:
        """Yields the rows of a file, or of a span. A part that cannot be read is one rejection.

        All formats pass through here, so what their readers raise is damage of the file, whatever
        it is. It is a rejection of the rows from the first one on that was not read. If some rows
        are needed, ascending, int64 (n,), others may be left out.
        """
        file, row = self.files[number], start
        columns = columns.with_partitions(file.partitions)
        form = self.format_of(file)
        self.require_unchanged(number)
        if (change := self._find_change(number)) is not None:
            reason = f"the file cannot be read, because its content was changed: {change}"
            changed = make_damaged_slice(reason, row, END_OF_FILE, columns)
            self._refuse(file, changed.rejected)
            yield changed
            return
        reading = Reading(columns, start, whole=whole, rows=rows, span=span)
        slices = ItemsBeforeDamage(form.read(file, reading))
        for file_slice in slices:
            self._refuse(file, file_slice.rejected)
            if whole:
                self._require_copied(file, columns, file_slice, row)
            if file_slice.skipped and rows is None:
                self._skipped_records[number] = file_slice.skipped
            row = file_slice.next_row
            if number in self._withdrawn:
                file_slice = file_slice.without(self._withdrawn[number])
            yield file_slice
        self.require_unchanged(number)
        if slices.damage is not None:
            raise_hidden_failure(file.path)
            place = f" from row {row}" if row else ""
            reason = f"the file cannot be read{place}: {slices.damage}"
            damaged = make_damaged_slice(reason, row, END_OF_FILE, columns)
            if row and file.compression is not None and is_change(slices.damage):
                reason = f"rows 0 to {row - 1} of {file.name} {MAY_BE_CHANGED}, and {reason}"
                (rejection,) = damaged.rejected
                damaged.rejected[:] = [rejection._replace(reason=reason, changed_rows=row)]
            self._refuse(file, damaged.rejected)
            if whole:
                self._require_copied(file, columns, damaged, row)
            yield damaged

    def _find_change(self, number: int) -> DamageError | None:
        """Returns the error that a small compressed file was changed, or None.

        Its checksum is at the end, so a small file is verified before its first row is read. The
        members of WARC files are records, and each is verified when it is read.
        """
        file = self.files[number]
        status = self.statuses[file.path]
        is_verified = file.compression is not None and status.size <= VERIFIED_BYTES
        if not is_verified or isinstance(self.format_of(file), Warc):
            return None
        if number not in self._changes:
            with decoding(), file.open_decompressed() as stream:
                self._changes[number] = find_change(stream)
        return self._changes[number]

    def _require_copied(
        self, file: InputFile, columns: Columns, copied: FileSlice, row: int
    ) -> None:
        """Requires that rows that cannot be copied are no documents.

        A row that is a document must be copied. It cannot be copied if a column is damaged that
        the run does not read.
        """
        for entry in copied.rejected:
            if not entry.is_damage:
                continue
            first = row if entry.row == WHOLE_FILE else entry.row
            end = copied.next_row if entry.row == WHOLE_FILE else first + entry.rows
            form = self.format_of(file)
            for readable in ItemsBeforeDamage(form.read(file, Reading(columns, first))):
                found = readable.rows[readable.rows < end]
                if len(found):
                    raise RunError(
                        f"cannot copy rows {found[0]} to {found[-1]} of {file.shown_path}: a "
                        f"column that the run did not read is damaged or too large "
                        f"({entry.reason}); drop that column from the file, or leave the file out"
                    )
                if readable.next_row >= end:
                    break

    def _refuse(self, file: InputFile, rejected: list[Rejection]) -> None:
        if rejected and self.on_error == "fail":
            first = rejected[0]
            place = file.shown_path
            if first.line is not None:
                place = f"{file.shown_path}, line {first.line}"
            elif first.row != WHOLE_FILE:
                place = f"{file.shown_path}, row {first.row} (counted from 0)"
            shown = f" ({first.raw[:60]!r})" if first.raw else ""
            raise RunError(f"{place}: {first.reason}{shown}. {self.row_remedy}")

    def require_unchanged(self, number: int) -> FileStatus:
        """Compares a file with its status at the first reading.

        Each reading begins and ends with this.
        """
        file = self.files[number]
        try:
            status = file.status()
        except OSError as error:
            raise RunError(
                f"cannot read {file.shown_path}: "
                f"{error.strerror or error}; restore it, then run again"
            ) from error
        self._require_status(file, status)
        return status

    def _require_status(self, file: InputFile, status: FileStatus) -> None:
        if self.statuses.setdefault(file.path, status) != status:
            raise RunError(
                f"{file.shown_path} has changed while the run was reading "
                f"it; run again with {name_flag('overwrite')}"
            )

    def tell(self, numbers: Iterable[int]) -> ReadFiles:
        """Returns what this process knows from reading some files."""
        statuses = {number: self.statuses[self.files[number].path] for number in numbers}
        skipped = self._skipped_records
        return ReadFiles(statuses, {key: skipped[key] for key in statuses if key in skipped})

    def learn(self, read: ReadFiles) -> None:
        """Takes over what another process knows from reading files, which must be the same."""
        for number, status in read.statuses.items():
            self._require_status(self.files[number], status)
        self._skipped_records.update(read.skipped_records)

    def require_all_unchanged(self) -> None:
        """Compares every file with its status at the first reading."""
        for number in range(len(self.files)):
            self.require_unchanged(number)


def _free_name(file: InputFile, taken: Container[str]) -> str:
    """Returns the name of a file, after as many of the folders above it as make it free."""
    name = file.name
    folders = file.path.removesuffix(f"/{name}").split("/")
    while name in taken and folders:
        name = f"{folders.pop()}/{name}"
    if name in taken:
        raise UsageError(f"{file.shown_path} is an input already; leave it out")
    return name


def advise_to_reject() -> str:
    """Returns the end of a message about a row that is not a document."""
    return f"Correct the row, or reject such rows with {name_setting('on_error', 'quarantine')}"


def _require(columns: Columns, names: Sequence[str], file: InputFile) -> None:
    options: dict[str | None, str] = dict.fromkeys(columns.sources, columns.option)
    options[columns.id] = name_setting("id")
    for name in columns.stored:
        if name not in names:
            if name in options:
                way = did_you_mean(name, names) or f"; choose one with {options[name]}"
            else:
                way = _suggest_carried(name, names)
            raise UsageError(
                f"{file.shown_path} has no column {name!r} ({describe_columns(names)}){way}"
            )
        require_unique_column(name, names, file.shown_path)


def _suggest_carried(name: str, names: Iterable[str]) -> str:
    """Returns the end of a message about an unknown column that a setting names."""
    criteria = SETTINGS["keep"].setting.known_values()
    return did_you_mean(name, (*names, *criteria)) or (
        f"; correct its name ({name_setting('keep')} has the criteria {', '.join(criteria)}, which "
        "need no column)"
    )


def _require_own_columns(names: Iterable[str], own_names: Collection[str], place: str) -> None:
    for name in names:
        if name not in own_names:
            raise UsageError(
                f"the values of {place} cannot be rewritten, because {name!r} is inside another "
                "column; write them into a column of their own first"
            )


def _require_types(schema: pa.Schema, columns: Columns, place: str) -> None:
    """Requires that columns can hold documents, ids and so on, whatever their values are."""
    # The size of vectors may be unknown yet, and is not a part of the type of their column.
    sized = tuple(field._replace(size=field.size or 1) for field in columns.fields)
    columns = replace(columns, fields=sized)
    roots = list_roots(columns, schema.names)
    no_values = [pa.nulls(0, schema.field(name).type) for name in roots]
    try:
        check_rows(pa.record_batch(no_values, roots), columns)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error


def require_unique_column(name: str, names: Sequence[str], place: str) -> None:
    """Raises UsageError if several columns have the name, because it is ambiguous then."""
    if names.count(name) > 1:
        raise UsageError(
            f"{place} has {names.count(name)} columns named {name!r}; rename all but one"
        )


def require_unique_columns(names: Sequence[str], place: str, reason: str, remedy: str) -> None:
    """Requires that no two columns have one name, for a result that would lose one of them."""
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise UsageError(f"{place} has {count} columns named {name!r}, and {reason}; {remedy}")


def _require_usable_compression(file: InputFile, form: Format, columns: Columns) -> None:
    if file.compression is None:
        return
    if isinstance(form, Parquet | Orc | Excel):
        raise UsageError(
            f"cannot read {file.shown_path}: the parts of {file.suffix} files are compressed, and "
            "not the file as a whole; decompress it first"
        )
    if isinstance(form, Warc) and file.compression != "gzip":
        raise UsageError(
            f"cannot read {file.shown_path}: WARC files are compressed by gzip only, one record at "
            "a time; decompress it first"
        )
    if file.remote or file.compression != ZSTD:
        return
    with file.open() as stored:
        window = read_window(stored)
    memory = columns.document_limit * DOCUMENT_SHARE
    if window > ARROW_WINDOW and window > WINDOW_SHARE * memory:
        needed = math.ceil(window / WINDOW_SHARE / 1e8) / 10
        raise UsageError(
            f"cannot read {file.shown_path}: it was compressed with a window of "
            f"{window >> 20:,} MiB, which must fit into memory; run with "
            f"{name_setting('memory', f'{needed:g}GB')}, or compress it again with zstd --long=27"
        )


def _list_schema_columns(schema: pa.Schema, columns: Columns) -> list[str]:
    """Returns the columns of a schema, the paths inside them, and the paths that a run reads."""
    paths = list_paths(schema)
    # The keys of maps are not in the schema.
    return [*paths, *_list_further(columns, paths, lambda name: is_column(name, schema))]


def _list_further(
    columns: Columns, names: Sequence[str], exists: Callable[[str], object]
) -> list[str]:
    """Returns the columns that a run reads and that exist, but are not among some names."""
    return [name for name in columns.all if name not in names and exists(name)]


def describe_skipped_records(counts: Mapping[str, int]) -> list[str]:
    """Returns a sentence for each kind of records that are not rows.

    Examples:
        >>> describe_skipped_records({"revisit": 2})
        ['skipped 2 revisit records, whose content is that of an earlier record']
    """
    return [
        f"skipped {count:,} {kind} {'record' if count == 1 else 'records'}, {SKIPPED_RECORDS[kind]}"
        for kind, count in sorted(counts.items())
    ]


def _advise_to_exclude(files: Sequence[InputFile]) -> str:
    """Returns the remedy for files that should not be read, with a pattern for each suffix."""
    patterns = {}
    for file in files:
        name = PurePosixPath(file.name)
        patterns[name.name if file.compression or not name.suffix else f"*{name.suffix}"] = True
    return f"leave such files out with {name_setting('exclude', list(patterns)[:5])}"


def _name_with_others(files: Sequence[InputFile]) -> str:
    more_files = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return f"{files[0].name!r}{more_files}"


class _BatchBuilder:
    """Joins small slices, such as text files, into batches that are large enough for a thread."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._parts: list[tuple[int, FileSlice]] = []
        self._bytes = self._rows = 0

    @property
    def begun(self) -> bool:
        return bool(self._parts)

    def add(self, number: int, file_slice: FileSlice) -> bool:
        """Adds a slice. Returns True if the batch is large enough now."""
        self._parts.append((number, file_slice))
        self._rows += len(file_slice.rows) + len(file_slice.rejected)
        self._bytes += file_slice.documents.nbytes
        return self._bytes >= BATCH_BYTES // 2 or self._rows >= BATCH_ROWS // 2

    def take_batch(self) -> Batch:
        parts = self._parts
        self._parts = []
        self._bytes = 0
        self._rows = 0
        filled = [file_slice for _, file_slice in parts if len(file_slice.rows)]
        documents = [file_slice.documents for file_slice in filled or [parts[0][1]]]
        files = [np.full(len(file_slice.rows), number, np.int32) for number, file_slice in parts]
        rejected = [
            rejection._replace(file=number)
            for number, file_slice in parts
            for rejection in file_slice.rejected
        ]
        last_number, last_slice = parts[-1]
        following = (last_number, last_slice.next_row)
        if last_slice.next_row == END_OF_FILE:
            following = (last_number + 1, 0)
        batch = Batch(
            first=self._first,
            files=np.concatenate(files),
            rows=np.concatenate([file_slice.rows for _, file_slice in parts]),
            documents=_join_batches(documents),
            rejected=tuple(rejected),
            next=following,
        )
        self._first += len(batch.files)
        return batch


def _join_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    joint = pa.Table.from_batches(batches)
    return joint.combine_chunks().to_batches()[0] if len(joint) else batches[0]


class TableCorpus:
    """A table in memory. Ids are row numbers if no column holds ids."""

    def __init__(
        self, table: pa.Table, on_error: str = "quarantine", source: object = None
    ) -> None:
        require_choice("on_error", on_error, ON_ERROR)
        self.table = table
        self.on_error = on_error
        self.source = source

    @property
    def names(self) -> list[str]:
        """One empty name, because a table has no files."""
        return [""]

    def check(self, columns: Columns) -> None:
        """Checks that the columns exist."""
        schema = self.table.schema
        for name in columns.all:
            if not is_column(name, schema):
                paths = list_paths(schema)
                is_source = name in (*columns.sources, columns.id)
                way = did_you_mean(name, paths) if is_source else _suggest_carried(name, paths)
                raise UsageError(
                    f"the table has no column {name!r} ({describe_columns(paths)}){way}"
                )
            require_unique_column(str(find_root(name, schema.names)), schema.names, "the table")

    def list_columns(self, columns: Columns) -> set[str]:
        """Returns the columns of lists, with paths."""
        return list_paths_of_lists(self.table.schema)

    def require_new_columns(self, names: Sequence[str], columns: Columns) -> None:
        """Requires that the table has no columns of these names."""
        for name in names:
            if name in self.table.schema.names:
                raise UsageError(
                    f"column {name!r} cannot be added, because the table has a column of this "
                    "name; rename that column"
                )

    def require_replaceable(self, names: Iterable[str], columns: Columns) -> None:
        """Requires that the table has columns of its own of some names, so that they can change."""
        _require_own_columns(names, self.table.schema.names, "the table")

    def batches(
        self, columns: Columns, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents in batches."""
        batches = self.table.select(list_roots(columns, self.table.schema.names)).to_batches()
        for file_slice in check_batches(split_batches(batches, 0, start[1]), columns, whole=False):
            if file_slice.rejected and self.on_error == "fail":
                first_row = file_slice.rejected[0]
                raise RunError(
                    f"row {first_row.row} (counted from 0): {first_row.reason} "
                    f"({first_row.raw[:60]!r}). {advise_to_reject()}"
                )
            yield Batch(
                first=first,
                files=np.zeros(len(file_slice.rows), np.int32),
                rows=file_slice.rows,
                documents=file_slice.documents,
                rejected=tuple(file_slice.rejected),
                next=(0, file_slice.next_row),
            )
            first += len(file_slice.rows)

    def batches_at(
        self, columns: Columns, places: np.ndarray, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents at some places in batches, as described in `Corpus`."""
        for batch in self.batches(columns, start):
            selected = batch.select(places)._replace(first=first)
            first += len(selected.rows)
            yield selected
