"""The quarantine `rejected.jsonl`, which holds the rejected rows and their reasons."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import orjson

from nearkin.corpus.batches import WHOLE_FILE, Rejection


class QuarantineWriter:
    """Appends rejections to an open file, one JSON object a line.

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
            place: dict[str, str | int] = {"file": self._names[entry.file]}
            if entry.row != WHOLE_FILE:
                place["row"] = entry.row
            if entry.line is not None:
                place["line"] = entry.line
            self._file.write(
                orjson.dumps({**place, "reason": entry.reason, "raw": entry.raw}) + b"\n"
            )

    def flush(self) -> int:
        """Flushes the buffer and returns the size of the file in bytes."""
        self._file.flush()
        return self._file.tell()


def count_reasons(path: Path) -> Counter[str]:
    """Returns the number of rejections for each reason.

    Details that differ from row to row, which follow a colon, are left out of the reason.

    Args:
        path: The path of the quarantine.
    """
    with path.open("rb") as file:
        return Counter(orjson.loads(line)["reason"].partition(":")[0] for line in file)
