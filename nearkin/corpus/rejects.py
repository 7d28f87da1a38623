"""The quarantine `rejected.jsonl`, which holds the rejected rows and their reasons."""

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import orjson

from nearkin.corpus.batches import WHOLE_FILE, Rejection

TOP_REASONS = 3
"""The number of reasons that a summary names."""
MAY_BE_CHANGED = "may be changed"
"""The part of a reason about rows that are not rejected. A summary names such reasons first."""
UNREADABLE_FILE = "the file cannot be read"
"""The beginning of a reason that may stand for many rows. A summary names it before others."""


class QuarantineWriter:
    """Appends rejections to an open file, one JSON object a line.

    A run of rows that is rejected as a whole is one object.
    """

    def __init__(self, file: BinaryIO, names: Sequence[str]) -> None:
        self._file = file
        self._names = names

    def add(self, rejected: Iterable[Rejection]) -> None:
        """Writes rejections."""
        for entry in rejected:
            facts = {**describe_place(entry, self._names), "reason": entry.reason, "raw": entry.raw}
            self._file.write(orjson.dumps(facts) + b"\n")

    def copy(self, written: BinaryIO) -> None:
        """Appends what another writer has written to a file."""
        shutil.copyfileobj(written, self._file)

    def flush(self) -> int:
        """Flushes the buffer and returns the size of the file in bytes."""
        self._file.flush()
        return self._file.tell()


def count_rejections(rejected: Iterable[Rejection]) -> Counter[str]:
    """Returns the number of rejected rows for each reason, without details behind a colon."""
    counts: Counter[str] = Counter()
    for entry in rejected:
        counts[entry.reason.partition(":")[0]] += entry.rows
    return counts


def list_top_reasons(reasons: Mapping[str, int]) -> dict[str, int]:
    """Returns the most frequent reasons, at most TOP_REASONS, with their numbers of rows.

    Reasons about rows that may be changed precede the others, and so do files that cannot be read,
    wholly or from some row on: how many rows are lost with them is not known.

    Examples:
        >>> list_top_reasons({"a": 1, "b": 3, "c": 1, "d": 2})
        {'b': 3, 'd': 2, 'a': 1}
        >>> list(list_top_reasons({"text is null": 9, "the file cannot be read from row 7": 1}))
        ['the file cannot be read from row 7', 'text is null']
    """

    def place(reason: str) -> tuple[bool, bool, int, str]:
        is_unreadable = reason.startswith(UNREADABLE_FILE)
        return MAY_BE_CHANGED not in reason, not is_unreadable, -reasons[reason], reason

    return {reason: reasons[reason] for reason in sorted(reasons, key=place)[:TOP_REASONS]}


def describe_rejections(rejected: int, reasons: Mapping[str, int]) -> str:
    """Returns how many rows were rejected, and the most frequent reasons with their numbers.

    Examples:
        >>> describe_rejections(27, {"text is null": 2, "the row is not valid UTF-8": 25})
        '27 rows were rejected: the row is not valid UTF-8 (25), text is null (2)'
        >>> describe_rejections(9, {"a": 4, "b": 2, "c": 2})
        '9 rows were rejected: a (4), b (2), c (2), other reasons (1)'
    """
    top = list_top_reasons(reasons)
    others = rejected - sum(top.values())
    parts = [f"{reason} ({count:,})" for reason, count in top.items()]
    if others:
        parts.append(f"other reasons ({others:,})")
    verb = "row was" if rejected == 1 else "rows were"
    return f"{rejected:,} {verb} rejected: {', '.join(parts)}"


def describe_place(entry: Rejection, names: Sequence[str]) -> dict[str, str | int]:
    """Returns the file of a rejection, and the rows and the line if they are known.

    Examples:
        >>> describe_place(Rejection(30, "the record batch is damaged", rows=10), ["a.arrow"])
        {'file': 'a.arrow', 'row': 30, 'rows': 10}
    """
    place: dict[str, str | int] = {"file": names[entry.file]}
    if entry.row != WHOLE_FILE:
        place["row"] = entry.row
    if entry.rows != 1:
        place["rows"] = entry.rows
    if entry.line is not None:
        place["line"] = entry.line
    if entry.changed_rows:
        place["changed_rows"] = entry.changed_rows
    return place


def count_reasons(path: Path) -> Counter[str]:
    """Returns the number of rejected rows for each reason.

    Details that differ from row to row, which follow a colon, are left out of the reason.
    """
    counts: Counter[str] = Counter()
    with path.open("rb") as file:
        for line in file:
            entry = orjson.loads(line)
            counts[entry["reason"].partition(":")[0]] += entry.get("rows", 1)
    return counts
