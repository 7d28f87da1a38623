"""Arrow IPC files and streams, which are read by record batch."""

import itertools
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.base import FileSlice, Reading, open_compressed_sink
from nearkin.corpus.formats.record_batches import (
    ColumnarFormat,
    TableWriter,
    check_stored_batches,
    number_batches,
)
from nearkin.corpus.input_file import InputFile
from nearkin.runtime.ipc_messages import CONTINUATION, MAGIC, MAGIC_BYTES, measure_messages
from nearkin.runtime.setting_names import name_setting

BATCH_SHARE = 16
"""A record batch is read as a whole. It may unfold into this many times the document limit, which
is half of the memory bound."""


END = struct.pack("<Ii", CONTINUATION, 0)
"""The marker at the end of a stream."""


class ArrowIpc(ColumnarFormat):
    """The format of Arrow IPC files and streams, including Feather version 2."""

    def schema(self, file: InputFile) -> pa.Schema:
        """Returns the stored schema of a file."""
        with file.open_decompressed() as source:
            return self._open(source).schema

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices, as described in `Format`."""
        with file.open_decompressed() as opened:
            source = opened if opened.seekable() else _WatchedStream(opened)
            limit = BATCH_SHARE * reading.columns.document_limit
            fitting, fault = self._fitting(source, limit)
            batches = number_batches(self._each(source, fitting))
            yield from check_stored_batches(batches, reading)
            if fault is not None:
                raise ValueError(fault)

    @staticmethod
    def _fitting(source: Any, limit: int) -> tuple[int | None, str | None]:
        """Returns the number of record batches that can be read, and an error message.

        The number is None if all batches can be read. Otherwise the message is about the next
        one, which is too large.
        """
        if not isinstance(source, pa.OSFile):
            return None, None
        batches = 0
        for message in measure_messages(source):
            if message.size > limit:
                return batches, (
                    f"a record batch unfolds into {message.size:,} bytes, more "
                    f"than the {limit:,} that {name_setting('memory')} leaves room "
                    "for; write the file in smaller batches"
                )
            batches += message.is_batch
        return None, None

    @staticmethod
    def _open(source: Any) -> Any:
        """Returns a reader of a file or a stream.

        A file has its index at the end.
        """
        if not _is_file(source):
            return pa.ipc.open_stream(source)
        try:
            return pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            # The end and the index are missing. A file contains a stream, which is read instead.
            source.seek(MAGIC_BYTES)
            return pa.ipc.open_stream(source)

    def _each(self, source: Any, most: int | None) -> Iterator[pa.RecordBatch]:
        """Yields the first batches, or all if `most` is None."""
        reader = self._open(source)
        if hasattr(reader, "num_record_batches"):
            for number in range(reader.num_record_batches if most is None else most):
                yield reader.get_batch(number)
            return
        yield from itertools.islice(reader, most)
        if most is not None:
            return
        if not _has_ended(source):
            raise ValueError("the end of the stream is missing")
        if _is_file(source):
            raise ValueError("the index at the end of the file is damaged, so rows may be, too")

    def has_one_dictionary(self, file: InputFile) -> bool:
        """Returns whether all batches of a file share the dictionary of a column.

        A stream may replace it. A file whose end is missing is read as a stream, too.
        """
        with file.open_decompressed() as source:
            return _is_file(source)

    def writer(self, file: InputFile, columns: Columns, target: str) -> TableWriter:
        """Returns a writer of a file or a stream, like the input."""
        schema = self.schema(file)
        is_file = self.has_one_dictionary(file)
        sink = open_compressed_sink(file, target)
        open_writer = pa.ipc.new_file if is_file else pa.ipc.new_stream

        class _Closing:
            def __init__(self, schema: pa.Schema) -> None:
                self._writer = open_writer(sink, schema)

            def write(self, batch: pa.RecordBatch) -> None:
                self._writer.write(batch)

            def close(self) -> None:
                self._writer.close()
                sink.close()

        return TableWriter(schema, _Closing, has_one_dictionary=is_file)


def _is_file(source: Any) -> bool:
    """Returns whether data begins with the magic word of a file, and goes to its beginning."""
    if not source.seekable():
        return False
    # Arrow needs a seek after a read at a position.
    source.seek(0)
    magic: bytes = source.read(len(MAGIC))
    source.seek(0)
    return magic == MAGIC


class _WatchedStream:
    """A stream that cannot go back, and remembers its first and last bytes."""

    closed = False

    def __init__(self, source: Any) -> None:
        self._source = source
        self.first = b""
        self.last = b""

    def seekable(self) -> bool:
        return False

    def read(self, size: int) -> bytes:
        content: bytes = self._source.read(size)
        self.first = self.first or content[: len(END)]
        self.last = (self.last + content[-len(END) :])[-len(END) :]
        return content


def _has_ended(source: Any) -> bool:
    """Returns whether the bytes that were read of a stream end with its marker.

    Streams of Arrow before version 0.15 have another one, and are taken for complete. A file is
    read as a stream only if its end is missing.
    """
    if isinstance(source, _WatchedStream):
        return source.last == END or source.first[:4] != END[:4]
    end = source.tell()
    is_file = _is_file(source)
    first: bytes = source.read(len(END))
    source.seek(max(end - len(END), 0))
    last: bytes = source.read(len(END))
    return last == END or (first[:4] != END[:4] and not is_file)
