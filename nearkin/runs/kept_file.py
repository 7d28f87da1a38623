"""The kept documents of a run as one file, whose suffix decides the format.

Rows of the same format are copied as they are. Rows of other formats become columns: the values of
CSV are texts, and a file that is one text becomes a row with its name as `id`.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from nearkin.corpus import Columns, FileCorpus, TableCorpus, list_kept, write_kept
from nearkin.corpus.corpus import require_unique_columns
from nearkin.corpus.foreign_errors import (
    DamageError,
    decoding,
    describe_error,
    translate_foreign_errors,
)
from nearkin.corpus.formats.arrow_ipc import ArrowIpc
from nearkin.corpus.formats.delimited import Delimited
from nearkin.corpus.formats.excel import Excel
from nearkin.corpus.formats.html import decode_page, is_page
from nearkin.corpus.formats.json_fields import find_sampled_repetition
from nearkin.corpus.formats.json_lines import JsonLines
from nearkin.corpus.formats.json_rows import (
    BOM,
    find_repeated_key,
    parse_exact_json,
    replace_not_finite,
    to_utf8,
)
from nearkin.corpus.formats.plain_text import PlainText
from nearkin.corpus.formats.record_batches import ColumnarFormat
from nearkin.corpus.formats.record_rows import RecordFormat
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.nested_columns import find_root, list_paths
from nearkin.engine.cluster_columns import CLUSTER_SOURCES
from nearkin.engine.clustering import Clustering
from nearkin.engine.merged_rows import MERGED_FROM, MergedRows
from nearkin.engine.run import Run
from nearkin.errors import RunError, UsageError
from nearkin.reports.run_warnings import log_warnings
from nearkin.runs.document_output import (
    DocumentOutput,
    columns_to_add,
    copy_rows,
    documents_to_copy,
    known_documents,
)
from nearkin.runs.kept_columns import TableColumns, UnfitColumnError
from nearkin.runs.table_files import (
    TableFile,
    TableFormat,
    to_plain_rows,
    write_json_lines,
    write_table_file,
)
from nearkin.runtime.dialect import decode_text, row_encoding_of
from nearkin.runtime.files import Readers
from nearkin.runtime.outputs import RUN_SUFFIX, is_output, published_file, require_apart
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.texts.passages.cutting.request import CUT_SPANS

SHOWN_COLUMNS = 5
"""The number of columns that a warning names."""


@dataclass(frozen=True)
class KeptFile:
    """A file that receives the kept documents of a run.

    Attributes:
        table: The file and its format.
    """

    table: TableFile

    @classmethod
    def parse(cls, out: Path, columns: Columns) -> "KeptFile | None":
        """Returns the file that an output names, or None if the output is a folder."""
        table = None if out.is_dir() else TableFile.parse(out, lines=columns.lines)
        return None if table is None else cls(table)

    @property
    def run_folder(self) -> Path:
        """The folder of the other results: the report, the clusters, the pairs and the record."""
        return self.table.path.with_name(self.table.path.name + RUN_SUFFIX)

    def require_free(
        self, inputs: Iterable[Path | str], *, resume: bool = False, overwrite: bool = False
    ) -> None:
        """Requires that the file can be written."""
        out = self.table.path
        require_apart(out, inputs, marked=False)
        if not os.path.lexists(out):
            return
        if not resume and not overwrite:
            raise UsageError(
                f"{out} exists; replace it with {name_flag('overwrite')}, or choose another "
                f"{name_setting('out')}"
            )
        if not is_output(self.run_folder) or not out.is_file() or out.is_symlink():
            raise UsageError(
                f"{out} exists and was not written by a run in {self.run_folder}, so it is never "
                f"replaced; move or delete it, or choose another {name_setting('out')}"
            )

    def require_holds(self, names: Iterable[str]) -> None:
        """Requires that the format can hold the columns that are added to documents."""
        nested = sorted({CLUSTER_SOURCES, CUT_SPANS, MERGED_FROM} & set(names))
        if nested and self.table.is_flat:
            kind = "list" if nested[0] == CUT_SPANS else "map"
            raise UsageError(
                f"cannot write {str(self.table.path)!r}: column {nested[0]!r} is a {kind}, "
                f"which .{self.table.format} cannot hold; use .parquet or .arrow, or a folder"
            )

    def require_convertible(self, corpus: FileCorpus, columns: Columns) -> None:
        """Requires that the file can hold the rows and columns of the inputs, as far as known."""
        join = _FileJoin(corpus, columns, self.table)
        for file in corpus.files:
            form = corpus.format_of(file)
            if self.table.format is TableFormat.TEXT and not isinstance(form, PlainText):
                raise UsageError(
                    f"cannot write {str(self.table.path)!r}: {file.shown_path} is not a text, and "
                    "its rows have columns; use a suffix such as .jsonl, or a folder"
                )
            try:
                with decoding():
                    if isinstance(form, ColumnarFormat):
                        schema = form.schema(file)
                    elif isinstance(form, Delimited) and not join.can_copy:
                        schema = _make_text_schema(form.columns(file, columns))
                    elif isinstance(form, JsonLines) and not join.copies_json(file):
                        if (key := find_sampled_repetition(file, form, columns)) is not None:
                            raise UsageError(_describe_repeated_key(key, file))
                        continue
                    else:
                        continue
            except DamageError:
                continue
            _require_unique_columns(schema, file.shown_path)
            self.table.require_types(schema)

    def write_folder(
        self,
        kept: Path,
        columns: Columns,
        readers: Readers,
        *,
        overwrite: bool,
        is_stream: bool = False,
    ) -> list[str]:
        """Writes the documents of a folder of kept files."""
        join = _FileJoin(FileCorpus(list_kept(kept, kept)), columns, self.table)
        if is_stream and join.holds_lines:
            join = replace(join, target=replace(self.table, format=TableFormat.TEXT))
        return self._describe_texts(self._publish(join.write, readers, overwrite=overwrite))

    def _describe_texts(self, names: Sequence[str]) -> list[str]:
        """Returns a warning about columns that became texts, or none."""
        if not names:
            return []
        shown = ", ".join(map(repr, names[:SHOWN_COLUMNS]))
        more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
        has = "have" if len(names) > 1 else "has"
        return [
            f"{shown}{more} {has} values that .{self.table.format} cannot hold in one column of "
            f"their types, so {self.table.path} holds them as texts"
        ]

    def write_table(self, table: pa.Table, readers: Readers) -> None:
        """Writes the rows of a table."""

        def write(staged: Path) -> list[str]:
            columns = TableColumns(self.table, keeps_dictionaries=True)
            columns.add_schema(table.schema)
            # An Arrow file has one dictionary for all batches.
            batches = map(columns.convert_batch, table.unify_dictionaries().to_batches())
            write_table_file(self.table, staged, columns.schema, batches)
            return []

        _require_unique_columns(table.schema, "the table")
        self.table.require_types(table.schema)
        self._publish(write, readers, overwrite=False)

    def _publish(
        self, write: Callable[[Path], list[str]], readers: Readers, *, overwrite: bool
    ) -> list[str]:
        out = self.table.path
        with (
            published_file(out, "nearkin dedup", readers, replaces=overwrite) as staged,
            translate_foreign_errors(self._make_error),
        ):
            return write(staged)

    def _make_error(self, error: BaseException) -> BaseException:
        """Returns the error to raise for an exception of a reader or a writer."""
        if isinstance(error, OSError):
            return error
        return RunError(
            f"cannot write {str(self.table.path)!r}: {describe_error(error)}; write a folder, "
            "which keeps the format of each input"
        )


ONE_OF_EACH_NAME = "a file of kept documents has one column of each name"
KEEP_BOTH = "rename all but one, or choose a folder as the output, whose copies keep both"


def _require_unique_columns(schema: pa.Schema, place: str) -> None:
    """Requires that rows of different formats can become columns of one file by their names."""
    require_unique_columns(list_paths(schema), place, ONE_OF_EACH_NAME, KEEP_BOTH)


def _describe_repeated_key(key: str, file: InputFile) -> str:
    """Returns the message about a row of JSON that has a key twice."""
    return (
        f"{file.shown_path} has a row with two keys named {key!r}, and {ONE_OF_EACH_NAME}; "
        f"{KEEP_BOTH}"
    )


def write_kept_file(
    run: Run,
    clustering: Clustering,
    file: KeptFile,
    readers: Readers,
    output: DocumentOutput,
    merged: MergedRows | None = None,
) -> Path:
    """Writes the kept documents of a run of the library into a new file."""
    corpus = run.corpus
    inputs = (
        [input_file.path for input_file in corpus.files] if isinstance(corpus, FileCorpus) else []
    )
    path = file.table.path
    require_apart(path, inputs, marked=False)
    if os.path.lexists(path):
        raise UsageError(f"{path} exists; choose another file")
    if isinstance(corpus, FileCorpus | TableCorpus):
        output.require_new_columns(
            corpus, run.columns, run.options, compares_others=run.compares_others
        )
    file.require_holds(output.added_names(run.options.source))
    if isinstance(corpus, TableCorpus):
        file.write_table(copy_rows(run, corpus, clustering, output, merged), readers)
    elif isinstance(corpus, FileCorpus):
        file.require_convertible(corpus, run.columns)
        copied = documents_to_copy(clustering, output)
        columns = columns_to_add(run, clustering, output, merged)
        with TemporaryFolder(run.work.path) as folder:
            known = known_documents(run)
            write_kept(
                corpus,
                run.columns,
                copied,
                folder,
                columns,
                known=known,
                new_values=None if merged is None else merged.new_values,
                workers=run.copying_workers,
            )
            log_warnings(file.write_folder(folder, run.columns, readers, overwrite=False))
    return path


BLOCK = 1 << 20
"""The number of bytes that are copied at a time."""
ROWS = 8192
"""The number of rows whose columns are inferred at a time."""


@dataclass(frozen=True)
class _FileJoin:
    """Files of kept rows that become one file."""

    corpus: FileCorpus
    columns: Columns
    target: TableFile

    def write(self, staged: Path) -> list[str]:
        """Writes all rows: as they are if every file has the format, otherwise by columns."""
        if self.can_copy:
            with self.target.create(staged) as sink:
                for file in self.corpus.files:
                    self._copy_rows(file, sink, with_header=file is self.corpus.files[0])
            return []
        if self.target.format is TableFormat.JSON_LINES:
            with self.target.create(staged) as sink:
                for number in range(len(self.corpus.files)):
                    self._write_lines(number, sink)
            return []
        return self._write_table(staged)

    def _write_table(self, staged: Path) -> list[str]:
        """Writes the columns of all rows. Those that do not fit are tried again as texts."""
        texts: list[str] = []
        keeps_dictionaries = self._has_one_dictionary()
        while True:
            columns = TableColumns(self.target, texts, keeps_dictionaries=keeps_dictionaries)
            for number in range(len(self.corpus.files)):
                self._add_columns(number, columns)
            try:
                write_table_file(self.target, staged, columns.schema, self._convert_rows(columns))
            except UnfitColumnError as error:
                texts.append(error.name)
            else:
                return sorted(columns.texts)

    def _has_one_dictionary(self) -> bool:
        """Returns whether all rows share the dictionary of a column."""
        if len(self.corpus.files) > 1:
            return False
        forms = [(file, self.corpus.format_of(file)) for file in self.corpus.files]
        return all(
            isinstance(form, ArrowIpc) and form.has_one_dictionary(file) for file, form in forms
        )

    @property
    def holds_lines(self) -> bool:
        """True if all files are texts of which each line is a document."""
        forms = map(self.corpus.format_of, self.corpus.files)
        return self.columns.lines and all(isinstance(form, PlainText) for form in forms)

    @cached_property
    def can_copy(self) -> bool:
        """True if the bytes of all files can follow each other in the target."""
        if self.target.format is TableFormat.TEXT:
            return True
        if any(file.partitions for file in self.corpus.files):
            return False
        forms = [self.corpus.format_of(file) for file in self.corpus.files]
        if self.target.format is TableFormat.JSON_LINES:
            return all(isinstance(form, JsonLines) and form.has_lines for form in forms)
        if self.target.format is TableFormat.EXCEL:
            return len(forms) == 1 and isinstance(forms[0], Excel)
        if not self.target.delimits:
            return False
        beginnings = set()
        for file, form in zip(self.corpus.files, forms, strict=True):
            if not isinstance(form, Delimited) or form.delimiter != self.target.delimiter:
                return False
            beginnings.add((form.dialect_of(file, self.columns), self._header_of(file)))
        return len(beginnings) == 1

    def copies_json(self, file: InputFile) -> bool:
        """Returns whether the rows of a file of JSON are copied, and not parsed."""
        if self.target.format is not TableFormat.JSON_LINES or file.partitions:
            return False
        return isinstance(self.corpus.format_of(file), JsonLines)

    def _header_of(self, file: InputFile) -> bytes:
        """Returns the bytes at the beginning of a file that only the first file has."""
        form = self.corpus.format_of(file)
        if isinstance(form, Delimited):
            return form.read_header(file, self.columns)
        with file.open_decompressed() as stream:
            beginning = bytes(stream.read(len(BOM)))
        return BOM if beginning == BOM else b""

    def _copy_rows(self, file: InputFile, sink: Any, *, with_header: bool) -> None:
        with file.open_decompressed() as stream:
            if not with_header:
                stream.read(len(self._header_of(file)))
            while block := stream.read(BLOCK):
                sink.write(block)

    def _read_slices(self, number: int) -> Iterator[Any]:
        """Yields the complete rows of a file, in the form of its format."""
        file = self.corpus.files[number]
        columns = replace(self.columns, id=None, carried_columns=())
        names = self.corpus.format_of(file).columns(file, columns) or columns.all
        # The files below `kept` need not have the partition folders of the inputs.
        unknown = {name: None for name in columns.all if find_root(name, names) is None}
        columns = columns.with_partitions(unknown)
        for file_slice in self.corpus.read_slices(number, columns, whole=True):
            if file_slice.rejected:
                raise RunError(
                    f"cannot read {file.shown_path} again: {file_slice.rejected[0].reason}; run "
                    f"again with {name_flag('overwrite')}"
                )
            if file_slice.complete_rows is not None:
                yield file_slice.complete_rows

    def _read_objects(self, number: int) -> Iterator[list[bytes]]:
        """Yields the objects of a file of JSON, in UTF-8."""
        encoding = row_encoding_of(self.columns.encoding)
        for elements in self._read_slices(number):
            objects = [element.removeprefix(BOM) for element in elements]
            yield objects if encoding is None else [to_utf8(raw, encoding) for raw in objects]

    def _write_lines(self, number: int, sink: Any) -> None:
        """Writes the rows of a file as JSON lines. Rows of JSON keep all digits."""
        if not self.copies_json(self.corpus.files[number]):
            for rows in self._read_rows(number):
                write_json_lines(sink, rows)
            return
        for objects in self._read_objects(number):
            for raw in objects:
                line = replace_not_finite(raw).replace(b"\r", b" ").replace(b"\n", b" ")
                sink.write(line.strip() + b"\n")

    def _read_rows(self, number: int) -> Iterator[list[dict[str, Any]]]:
        """Yields the rows of a file as objects, with the columns of its partitions."""
        partitions = self.corpus.files[number].partitions
        for rows in self._read_stored_rows(number):
            yield [{**partitions, **row} for row in rows] if partitions else rows

    def _read_stored_rows(self, number: int) -> Iterator[list[dict[str, Any]]]:
        file = self.corpus.files[number]
        form = self.corpus.format_of(file)
        if isinstance(form, JsonLines):
            for objects in self._read_objects(number):
                for raw in objects:
                    if (key := find_repeated_key(raw)) is not None:
                        raise RunError(_describe_repeated_key(key, file))
                yield [parse_exact_json(raw) for raw in objects]
            return
        for rows in self._read_slices(number):
            if isinstance(form, ColumnarFormat):
                yield to_plain_rows(rows)
            elif isinstance(form, Delimited):
                names = form.columns(file, self.columns)
                yield [dict(zip(names, row, strict=True)) for row in rows]
            elif isinstance(form, RecordFormat):
                yield [record.values for record in rows]
            elif self.columns.lines:
                lines = (row.removesuffix(b"\n").removesuffix(b"\r") for row in rows)
                encoding = self.columns.encoding
                yield [{"text": decode_text(line, encoding, "the line")} for line in lines]
            elif is_page(file, self.columns):
                yield [{"id": file.name, "text": decode_page(rows)}]
            else:
                text = decode_text(rows, self.columns.encoding, "the text")
                yield [{"id": file.name, "text": text}]

    def _add_columns(self, number: int, columns: TableColumns) -> None:
        """Adds the columns of a file, and those of its partitions, to those of the table."""
        file = self.corpus.files[number]
        form = self.corpus.format_of(file)
        if isinstance(form, JsonLines | RecordFormat):
            for rows in self._read_rows(number):
                for start in range(0, len(rows), ROWS):
                    columns.add_rows(rows[start : start + ROWS])
            return
        if isinstance(form, ColumnarFormat):
            schema = form.schema(file)
        elif isinstance(form, Delimited):
            schema = _make_text_schema(form.columns(file, self.columns))
        else:
            schema = _make_text_schema(["text"] if self.columns.lines else ["id", "text"])
        columns.add_schema(schema)
        further = [name for name in file.partitions if name not in schema.names]
        columns.add_schema(_make_text_schema(further))

    def _convert_rows(self, columns: TableColumns) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all files as batches of one schema."""
        for number, file in enumerate(self.corpus.files):
            if isinstance(self.corpus.format_of(file), ColumnarFormat):
                for batch in self._read_slices(number):
                    yield columns.convert_batch(_add_partitions(batch, file.partitions))
            else:
                for rows in self._read_rows(number):
                    yield columns.convert_rows(rows)


def _make_text_schema(names: Iterable[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def _add_partitions(batch: pa.RecordBatch, partitions: Mapping[str, str | None]) -> pa.RecordBatch:
    """Returns rows with the columns of the partitions of their file that they do not have."""
    for name, value in partitions.items():
        if name not in batch.schema.names:
            values = pa.repeat(pa.scalar(value, pa.string()), len(batch))
            batch = batch.append_column(name, values)
    return batch
