"""Rows that are no documents, written down: rejected.jsonl."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from nearkin.corpus.batches import WHOLE_FILE, Rejection


class QuarantineWriter:
    """Appends rejections to an open file, one JSON object a line.

    Args:
        file: Open for writing, at its end.
        names: Of the corpus's files.
    """

    def __init__(self, file: BinaryIO, names: Sequence[str]) -> None:
        self._file = file
        self._names = names

    def add(self, rejected: Iterable[Rejection]) -> None:
        """Writes some."""
        for entry in rejected:
            place: dict[str, Any] = {"file": self._names[entry.file]}
            if entry.row != WHOLE_FILE:
                place["row"] = entry.row
            self._file.write(orjson.dumps({**place, "reason": entry.reason, "raw": entry.raw}) + b"\n")

    def flush(self) -> int:
        """Writes out what is buffered; returns the bytes so far."""
        self._file.flush()
        return self._file.tell()


def count_reasons(path: Path) -> Counter[str]:
    """Rejections by reason, what differs from row to row (a colon and the rest) left out."""
    with path.open("rb") as file:
        return Counter(orjson.loads(line)["reason"].partition(":")[0] for line in file)
