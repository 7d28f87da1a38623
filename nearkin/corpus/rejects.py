"""The quarantine `rejected.jsonl`, which holds the rejected rows and their reasons."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import orjson

from nearkin.corpus.batches import WHOLE_FILE, Rejection


class QuarantineWriter:
    """Appends rejections to an open file, one JSON object a line.

    A run of rows that is rejected as a whole is one object.

    Args:
        file: A file that is open for writing, positioned at its end.
        names: The names of the files of the corpus.
    """

    def __init__(self, file: BinaryIO, names: Sequence[str]) -> None:
        self._file = file
        self._names = names

    def add(self, rejected: Iterable[Rejection]) -> None:
        """Writes rejections."""
        for entry in rejected:
            facts = {**describe_place(entry, self._names), "reason": entry.reason, "raw": entry.raw}
            self._file.write(orjson.dumps(facts) + b"\n")

    def flush(self) -> int:
        """Flushes the buffer and returns the size of the file in bytes."""
        self._file.flush()
        return self._file.tell()


def describe_place(entry: Rejection, names: Sequence[str]) -> dict[str, str | int]:
    """Returns the file of a rejection, and the rows and the line if they are known.

    Args:
        entry: The rejection.
        names: The names of the files of the corpus.

    Examples:
        >>> describe_place(Rejection(0, 30, "the record batch is damaged", rows=10), ["a.arrow"])
        {'file': 'a.arrow', 'row': 30, 'rows': 10}
    """
    place: dict[str, str | int] = {"file": names[entry.file]}
    if entry.row != WHOLE_FILE:
        place["row"] = entry.row
    if entry.rows != 1:
        place["rows"] = entry.rows
    if entry.line is not None:
        place["line"] = entry.line
    return place


def count_reasons(path: Path) -> Counter[str]:
    """Returns the number of rejected rows for each reason.

    Details that differ from row to row, which follow a colon, are left out of the reason.

    Args:
        path: The path of the quarantine.
    """
    counts: Counter[str] = Counter()
    with path.open("rb") as file:
        for line in file:
            entry = orjson.loads(line)
            counts[entry["reason"].partition(":")[0]] += entry.get("rows", 1)
    return counts
