"""Files of lines to which one line at a time is appended, and synced before the next one."""

import csv
import errno
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from nearkin.errors import UsageError
from nearkin.runtime.files import sync_folder


def append_line(path: Path, line: bytes, header: bytes = b"") -> int:
    """Appends a line to a file, and waits until it is on the disk.

    A last line without its end is completed first, so that lines never run into each other.
    """
    with path.open("ab", buffering=0) as file:
        previous_length = file.tell()
        separator = header
        if previous_length:
            separator = b"" if _ends_with_line(path) else b"\n"
        try:
            _write_all(file, separator + line)
            os.fsync(file.fileno())
        except OSError:
            # A part of a line would make the file unreadable.
            file.truncate(previous_length)
            raise
    if not previous_length:
        sync_folder(path.parent)
    return previous_length + len(separator)


def require_header(path: Path, columns: Sequence[str], lines: str) -> None:
    """Requires that a CSV file begins with the columns of the lines that are appended to it."""
    with path.open("rb") as file:
        header = file.readline().decode("utf-8", "replace")
    if next(csv.reader([header]), []) != list(columns):
        raise UsageError(
            f"{path} does not begin with {','.join(columns)}, so that no {lines} can be appended "
            "to it; name another file"
        )


def _ends_with_line(path: Path) -> bool:
    """Returns whether the last line of a file is complete."""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _write_all(file: io.FileIO, content: bytes) -> None:
    """Writes to a file without a buffer."""
    if file.write(content) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def format_row(values: Sequence[str]) -> bytes:
    """Returns a row of CSV.

    Examples:
        >>> format_row(["a", "b,c", "1"]).strip()
        b'a,"b,c",1'
    """
    buffer = io.StringIO()
    # The writer quotes line feeds, but not all of its versions quote carriage returns.
    has_return = any("\r" in value for value in values)
    quoting: Literal[0, 1] = csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL
    csv.writer(buffer, lineterminator="\n", quoting=quoting).writerow(values)
    return buffer.getvalue().encode()
