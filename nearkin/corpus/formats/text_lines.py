"""Text files of which each line is one document. Kept lines are copied byte for byte."""

from collections.abc import Iterator, Sequence
from itertools import compress

import numpy as np
import pyarrow as pa

from nearkin.corpus.batches import Rejection
from nearkin.corpus.columns import BATCH_ROWS, Columns
from nearkin.corpus.formats.base import (
    FileSlice,
    ItemsBeforeDamage,
    Reading,
)
from nearkin.corpus.formats.json_lines import LineWriter, open_lines, read_line_blocks
from nearkin.corpus.formats.json_rows import BOM
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import check_rows, format_raw_prefix, too_long_reason
from nearkin.runtime.dialect import decode_text

TEXT = "text"
"""The only column of a text file."""


def read_text_lines(file: InputFile, reading: Reading) -> Iterator[FileSlice]:
    """Yields the lines of a file in slices, as described in `Format`. Blank lines are left out."""
    columns = reading.columns
    with open_lines(file, reading.span) as (stream, row):
        blocks = ItemsBeforeDamage(read_line_blocks(stream, columns.document_limit, row))
        for first, read_lines in blocks:
            lines = [None] if read_lines is None else read_lines
            if not reading.needs(first, first + len(lines)):
                continue
            for begin in range(max(reading.start - first, 0), len(lines), BATCH_ROWS):
                part = lines[begin : begin + BATCH_ROWS]
                yield _make_slice(part, first + begin, columns, whole=reading.whole)
        blocks.raise_damage()


def _make_slice(
    lines: Sequence[bytes | None], first: int, columns: Columns, *, whole: bool
) -> FileSlice:
    rows: list[int] = []
    texts: list[str] = []
    complete: list[bytes] = []
    rejected: list[Rejection] = []
    for row, line in enumerate(lines, first):
        if line is None or len(line) > columns.document_limit:
            reason = too_long_reason("the line", columns.document_limit)
            rejected.append(Rejection(row, reason, "", row + 1))
            continue
        raw = line.removeprefix(BOM) if row == 0 else line
        if not raw.strip():
            continue
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            texts.append(decode_text(raw, columns.encoding, "the line"))
        except ValueError as error:
            rejected.append(Rejection(row, str(error), format_raw_prefix(raw), row + 1))
            continue
        rows.append(row)
        if whole:
            complete.append(line if line.endswith(b"\n") else line + b"\n")
    checked = check_rows(pa.record_batch([pa.array(texts, pa.large_string())], [TEXT]), columns)
    rejected += [Rejection(rows[at], why, raw, rows[at] + 1) for at, why, raw in checked.rejected]
    return FileSlice(
        np.array(rows, np.int64)[checked.kept],
        checked.documents,
        sorted(rejected, key=lambda entry: entry.row),
        first + len(lines),
        list(compress(complete, checked.mask.tolist())) if whole else None,
    )


class TextLineWriter(LineWriter):
    """A writer of lines."""

    def replace_values(
        self, complete_rows: Sequence[bytes], name: str, values: pa.Array
    ) -> list[bytes]:
        """Returns lines with other texts, each with the end of its line."""
        return [
            line if text is None else text.encode() + line[len(line.rstrip(b"\r\n")) :]
            for line, text in zip(complete_rows, values.to_pylist(), strict=True)
        ]
