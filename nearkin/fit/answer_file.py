"""A CSV file of labelled pairs to which each answer is appended when it is given."""

import csv
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nearkin.errors import UsageError
from nearkin.evaluate.golden import read_golden_set
from nearkin.runtime.appended_lines import append_line, format_row
from nearkin.runtime.files import require_file_path

COLUMNS = ("id_a", "id_b", "label")
HEADER = (",".join(COLUMNS) + "\n").encode()


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
    _row_starts: list[int] = field(default_factory=list)
    """The positions in the file of the rows that were appended since it was opened."""

    @classmethod
    def open(cls, path: Path) -> "AnswerFile":
        """Opens a file of labelled pairs, or names one that the first answer creates.

        Args:
            path: CSV file with the columns `id_a`, `id_b` and `label`, or a free path.

        Raises:
            UsageError: If the file exists and is something else, or its folder does not exist.
        """
        require_file_path(path)
        if not path.exists() or path.stat().st_size == 0:
            return cls(path, [])
        with path.open("rb") as file:
            header = file.readline()
        names = next(csv.reader([header.decode("utf-8", "replace")]), [])
        if tuple(names) != COLUMNS:
            raise UsageError(
                f"{path} does not begin with {','.join(COLUMNS)}, so that no answers can be "
                "appended to it; name another file"
            )
        if path.stat().st_size == len(header):
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
        """Appends an answer, and waits until it is on the disk.

        Args:
            answer: Answer about a pair.

        Raises:
            OSError: If the file cannot be written.
        """
        line = format_row([answer.id_a, answer.id_b, str(int(answer.is_duplicate))])
        self._row_starts.append(append_line(self.path, line, HEADER))

    def remove_last(self) -> None:
        """Removes the last answer that was appended since the file was opened.

        Raises:
            OSError: If the file cannot be written.
        """
        row_start = self._row_starts.pop()
        with self.path.open("r+b") as file:
            file.truncate(row_start)
            file.flush()
            os.fsync(file.fileno())
