"""Text files, each of which is one document, or of which each line is one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.batches import Rejection
from nearkin.corpus.bounded_stream import read_up_to
from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.base import (
    FileSlice,
    Format,
    Reading,
    open_compressed_sink,
)
from nearkin.corpus.formats.foreign_content import find_binary_content
from nearkin.corpus.formats.html import extract_main_text, is_page
from nearkin.corpus.formats.text_lines import TextLineWriter, read_text_lines
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import check_rows, format_raw_prefix, too_long_reason
from nearkin.runtime.dialect import decode_text


class PlainText(Format):
    """The format of files that are one text, or one a line. The only column is `text`."""

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the text as one slice, or its lines in slices, as described in `Format`."""
        columns = reading.columns
        if columns.lines:
            yield from read_text_lines(file, reading)
            return
        if reading.start > 0:
            return
        with file.open_decompressed() as stream:
            raw = read_up_to(stream, columns.document_limit + 1)
        reads_page = is_page(file, columns)
        fault = None
        texts = []
        if len(raw) > columns.document_limit:
            fault = too_long_reason("text", columns.document_limit)
        elif reads_page and (binary := find_binary_content(raw)) is not None:
            fault = f"the content is not a page: {binary}"
        else:
            try:
                texts.append(
                    extract_main_text(raw)
                    if reads_page
                    else decode_text(raw, columns.encoding, "the text")
                )
            except ValueError as error:
                fault = str(error)
        checked = check_rows(
            pa.record_batch([pa.array(texts, pa.large_string())], ["text"]), columns
        )
        for _, reason, _ in checked.rejected:
            fault = reason
        rejected = [Rejection(0, fault, format_raw_prefix(raw))] if fault else []
        yield FileSlice(
            checked.kept, checked.documents, rejected, 1, raw if reading.whole else None
        )

    def writer(
        self, file: InputFile, columns: Columns, target: str
    ) -> "FileWriter | TextLineWriter":
        """Returns a writer of one text, or of lines."""
        if columns.lines:
            return TextLineWriter(open_compressed_sink(file, target))
        return FileWriter(file, target)


class FileWriter:
    """A writer that writes the file if it is kept, and nothing otherwise."""

    def __init__(self, file: InputFile, target: str) -> None:
        self._file, self._target = file, Path(target)

    def replace_values(self, complete_rows: bytes, name: str, values: pa.Array) -> bytes:
        """Returns the bytes of another text."""
        text = values[0].as_py()
        return complete_rows if text is None else text.encode()

    def select(self, complete_rows: bytes, keep: np.ndarray, added: Any) -> bytes | None:
        """Returns the text if it is kept, or None."""
        return complete_rows if keep.any() else None

    def write(self, rows: bytes | None) -> None:
        """Writes the text that `select` returned."""
        if rows is not None:
            with open_compressed_sink(self._file, str(self._target)) as sink:
                sink.write(rows)

    def close(self) -> None:
        """Does nothing, because `write` closes the file."""
