"""Exceptions of decoders become rejections, whatever their class is."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.batches import Rejection
from nearkin.corpus.formats.base import (
    END_OF_FILE,
    FileSlice,
    Format,
    Reading,
    make_rejected_slice,
)
from nearkin.corpus.input_file import InputFile
from nearkin.errors import RunError


class _PanicError(BaseException):
    """An error as libraries in Rust raise it."""


_PanicError.__name__ = "PanicException"
MACHINE = 1 << 60
"""A number of bytes that no machine has."""


class Broken(Format):
    """A new format, whose reader yields one row and then fails.

    Args:
        error: What it raises.
        breaks_copies: Whether only complete rows cannot be read.
    """

    def __init__(self, error: BaseException, *, breaks_copies: bool = False) -> None:
        self._error = error
        self._breaks_copies = breaks_copies

    def columns(self, file: InputFile, requested: Columns) -> list[str] | None:
        raise self._error

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        for row in range(reading.start, 2):
            if row and (reading.whole or not self._breaks_copies):
                raise self._error
            documents = pa.record_batch([pa.array([f"text {row}"], pa.large_string())], ["text"])
            yield FileSlice(np.array([row]), documents, [], row + 1, [row])

    def writer(self, file: InputFile, columns: Columns, target: str) -> Any:
        raise self._error


def open_broken(folder: Path, form: Broken) -> FileCorpus:
    (folder / "a.csv").write_text("x")
    (folder / "b.jsonl").write_text('{"text": "behind"}\n')
    corpus = FileCorpus.open([str(folder)])
    corpus._formats[".csv"] = form
    return corpus


@pytest.mark.parametrize(
    "error",
    [
        RecursionError("too deep"),
        AttributeError("'NoneType' object has no attribute 'x'"),
        struct.error("unpack requires 4 bytes"),
        KeyError("text"),
        AssertionError(),
        pa.lib.ArrowMemoryError(f"malloc of size {MACHINE} failed"),
        _PanicError("called unwrap on None"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exception_of_a_reader_is_a_rejection(error: BaseException, tmp_path: Path) -> None:
    corpus = open_broken(tmp_path, Broken(error))
    corpus.check(Columns())
    (batch,) = corpus.batches(Columns())
    assert batch.documents["text"].to_pylist() == ["text 0", "behind"]
    (rejected,) = batch.rejected
    assert rejected.reason.startswith("the file cannot be read from row 1: ")
    assert (str(error) or type(error).__name__) in rejected.reason
    assert batch.rejected_rows == 1
    corpus.on_error = "fail"
    with pytest.raises(RunError, match="the file cannot be read from row 1"):
        list(corpus.batches(Columns()))


@pytest.mark.parametrize(
    "error",
    [
        RunError("the disk is full"),
        MemoryError(),
        RuntimeError("can't start new thread"),
        KeyboardInterrupt(),
        SystemExit(3),
    ],
)
def test_error_that_is_not_about_a_file_passes(error: BaseException, tmp_path: Path) -> None:
    corpus = open_broken(tmp_path, Broken(error))
    with pytest.raises(type(error)):
        list(corpus.batches(Columns()))


def test_memory_that_the_machine_has_is_not_taken_for_damage(tmp_path: Path) -> None:
    error = pa.lib.ArrowMemoryError("malloc of size 1024 failed")
    with pytest.raises(MemoryError):
        list(open_broken(tmp_path, Broken(error)).batches(Columns()))


def test_damage_that_only_copies_meet_names_the_documents(tmp_path: Path) -> None:
    corpus = open_broken(tmp_path, Broken(ValueError("an odd column"), breaks_copies=True))
    (batch,) = corpus.batches(Columns())
    assert len(batch.rows) == 3
    message = r"cannot copy rows 1 to 1 of .*a\.csv: a column .* is damaged .*an odd column"
    with pytest.raises(RunError, match=message):
        list(corpus.read_slices(0, Columns(), 0, whole=True))


def test_reading_continues_behind_a_damaged_file(tmp_path: Path) -> None:
    """A resumed run neither reads the damaged file again nor counts its damage twice."""
    (tmp_path / "a.arrow").write_bytes(b"ARROW1 no schema")
    (tmp_path / "b.jsonl").write_text('{"text": "behind"}\n')
    corpus = FileCorpus.open([str(tmp_path)])
    damaged = next(iter(corpus.read_slices(0, Columns())))
    assert damaged.next_row == END_OF_FILE
    (batch,) = FileCorpus(corpus.files[:1]).batches(Columns())
    assert batch.next == (1, 0)
    (rest,) = corpus.batches(Columns(), batch.next)
    assert (len(rest.rows), rest.rejected) == (1, ())


class _Refusing:
    """A writer that cannot encode a value."""

    def select(self, complete_rows: Any, keep: np.ndarray, added: Any) -> Any:
        return complete_rows

    def write(self, rows: Any) -> None:
        raise pa.ArrowNotImplementedError("no such type")

    def close(self) -> None:
        """Does nothing."""


def test_row_that_cannot_be_written_is_an_error_with_its_file(tmp_path: Path) -> None:
    corpus = open_broken(tmp_path, Broken(ValueError()))
    form = corpus._formats[".csv"]
    form.writer = lambda *_: _Refusing()  # type: ignore[method-assign,assignment]
    (tmp_path / "out").mkdir()
    with pytest.raises(RunError, match=r"cannot copy rows of .*a\.csv: no such type; write them"):
        write_kept(corpus, Columns(), np.ones(2, bool), tmp_path / "out")


def test_run_of_rows_is_one_rejection() -> None:
    rejected = Rejection(5, "they are null", "", rows=7)
    part = make_rejected_slice(rejected, 12, Columns())
    assert (len(part.rows), part.next_row, part.rejected[0].rows) == (0, 12, 7)
