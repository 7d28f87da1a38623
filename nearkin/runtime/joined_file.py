"""Files that are joined from parts of other files."""

from concurrent.futures import Executor, Future
from pathlib import Path

from nearkin.runtime.files import copy_bytes


class JoinedFile:
    """A file that begins as a part, and to whose end threads copy further parts.

    Attributes:
        end: The number of bytes with those that are being copied.
    """

    def __init__(self, path: Path, pool: Executor) -> None:
        self._path = path
        self._pool = pool
        self._copies: list[Future[None]] = []
        self.end = 0

    def begin(self, part: Path, end: int) -> None:
        """Makes a part the file, of which the first bytes up to an end stay."""
        part.replace(self._path)
        self.end = end

    def append(self, part: Path, first: int, end: int) -> None:
        """Moves the bytes of a part between two positions to the end of the file."""
        copy = self._pool.submit(_copy, part, first, end - first, self._path, self.end)
        self._copies.append(copy)
        self.end += end - first

    def finish(self, tail: bytes) -> None:
        """Waits for all copies, and ends the file with some bytes."""
        for copy in self._copies:
            copy.result()
        with self._path.open("r+b") as file:
            file.seek(self.end)
            file.write(tail)
            file.truncate()


def _copy(part: Path, first: int, count: int, path: Path, position: int) -> None:
    with part.open("rb") as source, path.open("r+b") as target:
        source.seek(first)
        target.seek(position)
        copy_bytes(source, target, count)
    part.unlink()
