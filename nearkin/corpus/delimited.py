"""Comma- and tab-separated values, through Python's csv."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.accept import MAX_DOCUMENT, check_rows, raw_prefix
from nearkin.corpus.batches import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.files import InputFile
from nearkin.corpus.formats import Piece, compressed_sink, fresh_name

ESCAPE = "surrogateescape"


class Delimited:
    """Rows with a header; values are text, an empty one is an empty text."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter

    def columns(self, file: InputFile) -> list[str]:
        with file.open_decompressed() as stream:
            return self._header(self._rows(stream))

    def _rows(self, stream: Any) -> Iterator[list[str]]:
        """Bytes that are no UTF-8 come through as lone surrogates, so that only their row is lost."""
        csv.field_size_limit(MAX_DOCUMENT)
        text = io.TextIOWrapper(stream, "utf-8-sig", ESCAPE, newline="")
        return csv.reader(text, delimiter=self._delimiter)

    @staticmethod
    def _header(rows: Iterator[list[str]]) -> list[str]:
        try:
            names = next(rows, [])
        except csv.Error as error:
            raise ValueError(f"not delimited text: {error}") from error
        return names

    def read(self, file: InputFile, columns: Columns, start: int, whole: bool) -> Iterator[Piece]:
        with file.open_decompressed() as stream:
            rows = self._rows(stream)
            names = self._header(rows)
            held, rejected, size, at = [], [], 0, -1
            for at, row in self._each(rows):
                if at < start or not row:
                    continue
                if fault := _fault(row, names):
                    rejected.append((at, fault, raw_prefix(self._delimiter.join(row).encode("utf-8", ESCAPE))))
                else:
                    held.append((at, row))
                    size += sum(map(len, row))
                if size >= BATCH_BYTES or len(held) + len(rejected) >= BATCH_ROWS:
                    yield _piece(held, names, rejected, at + 1, columns, whole)
                    held, rejected, size = [], [], 0
            if held or rejected:
                yield _piece(held, names, rejected, at + 1, columns, whole)

    @staticmethod
    def _each(rows: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
        at = 0
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(f"not delimited text after row {at}: {error}") from error
            yield at, row
            at += 1

    def writer(self, file: InputFile, target: str) -> "DelimitedWriter":
        return DelimitedWriter(self.columns(file), self._delimiter, compressed_sink(file, target))


def _fault(row: list[str], names: list[str]) -> str | None:
    if len(row) != len(names):
        return f"{len(row)} values for {len(names)} columns"
    try:
        for value in row:
            value.encode()
    except UnicodeEncodeError:
        return "invalid UTF-8"
    return None


def _piece(
    held: list[tuple[int, list[str]]],
    names: list[str],
    rejected: list[tuple[int, str, str]],
    next_row: int,
    columns: Columns,
    whole: bool,
) -> Piece:
    wanted = {name: names.index(name) for name in columns.all}
    batch = pa.record_batch([pa.array([row[at] for _, row in held], pa.large_string()) for at in wanted.values()], list(wanted))
    documents = check_rows(batch, columns).documents
    complete = [row for _, row in held] if whole else None
    return Piece(np.array([at for at, _ in held], np.int64), documents, rejected, next_row, complete)


class DelimitedWriter:
    """Writes the header and kept rows."""

    def __init__(self, names: list[str], delimiter: str, sink: Any) -> None:
        self._names = names
        self._sink = io.TextIOWrapper(sink, "utf-8", newline="")
        self._writer = csv.writer(self._sink, delimiter=delimiter, lineterminator="\n")
        self._begun = False

    def select(self, whole: list[list[str]], keep: np.ndarray, added: pa.RecordBatch | None) -> list[list[str]]:
        self._begin(() if added is None else added.schema.names)
        rows = [whole[at] for at in np.flatnonzero(keep).tolist()]
        if added is not None:
            rows = [
                row + [_shown(value) for value in extra.values()] for row, extra in zip(rows, added.to_pylist(), strict=True)
            ]
        return rows

    def write(self, rows: list[list[str]]) -> None:
        self._writer.writerows(rows)

    def _begin(self, added: Any) -> None:
        if not self._begun and self._names:
            self._writer.writerow([*self._names, *(fresh_name(name, set(self._names)) for name in added)])
        self._begun = True

    def close(self) -> None:
        self._begin(())
        self._sink.close()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
