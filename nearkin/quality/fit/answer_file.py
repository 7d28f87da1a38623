"""A CSV file of labelled pairs to which each answer is appended when it is given."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from nearkin.errors import UsageError
from nearkin.quality.evaluate.golden import read_golden_set
from nearkin.runtime.appended_lines import append_line, format_row, require_header
from nearkin.runtime.file_locks import lock_exclusively
from nearkin.runtime.files import require_file_path

COLUMNS = ("id_a", "id_b", "label")
HEADER = (",".join(COLUMNS) + "\n").encode()


class _Row(NamedTuple):
    """A row that was appended."""

    start: int
    """The position of the row in the file."""
    content: bytes


class Answer(NamedTuple):
    """An answer about a pair of documents."""

    id_a: str
    id_b: str
    is_duplicate: bool


@dataclass
class AnswerFile:
    """A file of answers. `nearkin fit --labels` and `nearkin eval --golden` read it.

    Attributes:
        path: The file.
        earlier: Answers that the file had when it was opened.
    """

    path: Path
    earlier: list[Answer]
    _rows: list[_Row] = field(default_factory=list)
    """The rows that were appended since the file was opened."""

    @classmethod
    def open(cls, path: Path) -> "AnswerFile":
        """Opens a file of labelled pairs, or names one that the first answer creates."""
        require_file_path(path)
        if not path.exists() or path.stat().st_size == 0:
            return cls(path, [])
        require_header(path, COLUMNS, "answers")
        _, _, answers = path.read_bytes().partition(b"\n")
        if not answers.strip():
            return cls(path, [])
        golden = read_golden_set(path)
        earlier = [
            Answer(golden.ids[a], golden.ids[b], is_duplicate)
            for pairs, is_duplicate in ((golden.duplicates, True), (golden.distinct, False))
            if pairs is not None
            for a, b in pairs.tolist()
        ]
        return cls(path, earlier)

    def append(self, answer: Answer) -> None:
        """Appends an answer, and waits until it is on the disk."""
        line = format_row([answer.id_a, answer.id_b, str(int(answer.is_duplicate))])
        with self.path.open("ab") as lock:
            # closing it releases the lock
            lock_exclusively(lock.fileno())
            self._rows.append(_Row(append_line(self.path, line, HEADER), line))

    def remove_last(self) -> None:
        """Removes the last answer that was appended since the file was opened."""
        row = self._rows[-1]
        with self.path.open("r+b") as file:
            lock_exclusively(file.fileno())
            self._require_at_end(row, file)
            file.truncate(row.start)
            file.flush()
            os.fsync(file.fileno())
        self._rows.pop()

    def _require_at_end(self, row: _Row, file: IO[bytes]) -> None:
        """Requires that a row is the last one of the file, so that nothing else is cut off."""
        file.seek(row.start)
        if file.read() != row.content:
            raise UsageError(
                f"another process has changed {self.path}, so the last answer cannot be removed; "
                "correct it in the file"
            )
