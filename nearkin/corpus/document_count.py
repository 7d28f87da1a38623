"""Estimates the number of documents of a corpus before it is read, so that progress has a total."""

import csv
import io
from collections.abc import Sequence

import pyarrow as pa
from pyarrow import parquet as pq

from nearkin.corpus.batches import Corpus
from nearkin.corpus.columns import Columns
from nearkin.corpus.corpus import FileCorpus, TableCorpus
from nearkin.corpus.decompression import decompress_beginning
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.corpus.formats.arrow_ipc import ArrowIpc
from nearkin.corpus.formats.base import Format, ItemsBeforeDamage
from nearkin.corpus.formats.delimited import Delimited
from nearkin.corpus.formats.json_lines import JsonLines
from nearkin.corpus.formats.lance import Lance
from nearkin.corpus.formats.orc import Orc
from nearkin.corpus.formats.parquet import Parquet
from nearkin.corpus.formats.plain_text import PlainText
from nearkin.corpus.formats.record_rows import RecordFormat
from nearkin.corpus.input_file import InputFile
from nearkin.errors import NearkinError

ARROW_FILE = b"ARROW1"
"""The first bytes of an Arrow file. A stream has no such beginning."""
SAMPLED_FILES = 8
"""The largest number of files of each suffix whose rows are counted."""
SAMPLED_BYTES = 1 << 20
"""The largest number of stored bytes that are read of a file of rows of text."""
SAMPLED_CONTENT = 1 << 24
"""The largest number of bytes that the stored ones are decompressed to."""
SMALL_FILE = 1 << 12
"""The largest size of a file that is opened to see whether it has rows, in bytes."""
SAMPLED_REMOTE_FILES = 2
"""The largest number of remote files of each suffix whose rows are counted."""
SAMPLED_REMOTE_BYTES = 1 << 18
"""The largest number of stored bytes that are read of a remote file of rows of text."""


def estimate_documents(corpus: Corpus, columns: Columns | None = None) -> int | None:
    """Estimates the number of documents of a corpus from samples of its files.

    The estimate is exact for a table, for files of one text each, and for at most `SAMPLED_FILES`
    parquet files. Otherwise the rows of some files, or of their beginnings, are extrapolated to the
    sizes of all files. Rejected rows count as documents. Of remote files, fewer are read, and the
    others are taken to have as many rows, because each size would be a request.
    """
    if isinstance(corpus, TableCorpus):
        return corpus.table.num_rows
    if not isinstance(corpus, FileCorpus):
        return None
    files_by_kind: dict[tuple[str, bool], list[InputFile]] = {}
    for file in corpus.files:
        files_by_kind.setdefault((file.suffix, file.remote), []).append(file)
    try:
        rows = sum(
            _estimate_rows(corpus, files, columns or Columns()) for files in files_by_kind.values()
        )
    except OSError:
        # Reading the file fails later, with its path.
        return None
    return round(rows) or None


def list_empty_files(corpus: FileCorpus) -> list[InputFile]:
    """Returns the small local files of rows that hold no row, for example only a header."""
    empty = []
    for file in corpus.files:
        form = corpus.format_of(file)
        if file.remote or isinstance(form, PlainText):
            continue
        try:
            with decoding():
                size = file.status().size
                if size == 0 or (size <= SMALL_FILE and not _rows_of_file(file, form)):
                    empty.append(file)
        except (DamageError, NearkinError):
            # a damaged file is rejected, or ends the run, when it is read
            continue
    return empty


def _estimate_rows(corpus: FileCorpus, files: Sequence[InputFile], columns: Columns) -> float:
    """Estimates the rows of files of one suffix, all local or all remote, from some of them."""
    if isinstance(corpus.format_of(files[0]), PlainText) and not columns.lines:
        return len(files)
    is_remote = files[0].remote
    step = -(-len(files) // (SAMPLED_REMOTE_FILES if is_remote else SAMPLED_FILES))
    sampled: list[InputFile] = []
    sampled_rows = 0.0
    for file in files[::step]:
        try:
            with decoding():
                sampled_rows += _rows_of_file(file, corpus.format_of(file))
                sampled.append(file)
        except (DamageError, NearkinError):
            # a damaged file is rejected, or ends the run, when it is read
            continue
    if is_remote:
        return sampled_rows * len(files) / max(len(sampled), 1)
    sampled_size = sum(file.status().size for file in sampled)
    size = sum(file.status().size for file in files)
    return sampled_rows * size / max(sampled_size, 1)


def _rows_of_file(file: InputFile, form: Format) -> float:
    if isinstance(form, Parquet):
        with file.open_decompressed() as stream:
            return float(pq.read_metadata(stream).num_rows)
    if isinstance(form, ArrowIpc):
        return _rows_of_batches(file)
    if isinstance(form, Orc | Lance):
        return float(form.count_rows(file))
    if isinstance(form, RecordFormat):
        raise ValueError("the number of records is known only after all of them were read")
    size = file.status().size
    with file.open() as stored:
        beginning = stored.read(SAMPLED_REMOTE_BYTES if file.remote else SAMPLED_BYTES)
    content = beginning
    if file.compression is not None:
        content = decompress_beginning(beginning, file.compression, SAMPLED_CONTENT)
    is_complete = len(beginning) >= size
    share = 1.0 if is_complete else len(beginning) / size
    return _rows_of_text(content, form) / max(share, 1e-12)


def _rows_of_batches(file: InputFile) -> float:
    """Estimates the rows of an Arrow file or stream from its first record batch."""
    if file.compression is not None:
        raise ValueError("a compressed file must be read completely")
    with file.open() as stream:
        if stream.read(len(ARROW_FILE)) == ARROW_FILE:
            reader = pa.ipc.open_file(stream)
            batches = reader.num_record_batches
            return float(reader.get_batch(0).num_rows * batches) if batches else 0.0
        stream.seek(0)
        batches_of_stream = pa.ipc.open_stream(stream)
        begin = stream.tell()
        first_batch = next(iter(batches_of_stream), None)
        if first_batch is None:
            return 0.0
        batch_size = stream.tell() - begin
        return float(first_batch.num_rows * (stream.size() - begin) / batch_size)


def _rows_of_text(content: bytes, form: Format) -> int:
    if isinstance(form, Delimited):
        lines = io.StringIO(content.decode("utf-8", "replace"), newline="")
        rows = sum(1 for row in csv.reader(lines) if row)
        return max(0, rows - 1)
    if isinstance(form, JsonLines):
        with pa.BufferReader(content) as stream:
            # an array that was cut has no end, which is an error after its elements
            rows_before_cut = ItemsBeforeDamage(form.read_rows(stream, SAMPLED_BYTES))
            return sum(1 for json_row in rows_before_cut if json_row.raw)
    return sum(1 for line in content.splitlines() if line.strip())
