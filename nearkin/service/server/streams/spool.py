"""A buffer for answers that clients have not read yet.

It keeps a little in memory, and the rest in unnamed files.
"""

import asyncio
import os
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from typing import IO

from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import Reservation

MAX_IN_MEMORY = 1 << 18
"""Maximum number of bytes of a segment that are kept in memory. Larger segments are written to a
file."""
SEGMENT_BYTES = 8 << 20
"""Size of a segment, in bytes. Its file is deleted when all of it was read, so that disk is used
for unread answers only."""
CHUNK_BYTES = 1 << 16
"""Number of bytes that are written and read at once."""


class Segment:
    """A byte sequence that is written at its end and read from its start.

    The file is not buffered, so that `write` reports a full disk, and has then changed nothing.
    """

    def __init__(self) -> None:
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self.written = 0
        self.read_so_far = 0

    def write(self, data: bytes) -> None:
        """Adds bytes."""
        try:
            self._write(data)
        except OSError as error:
            raise ProblemError(
                "busy",
                "the server has no disk space for unread answers; read answers sooner",
                retry_after=1.0,
            ) from error
        self.written += len(data)

    def _write(self, data: bytes) -> None:
        if self._file is None and self.written + len(data) <= MAX_IN_MEMORY:
            self._memory += data
            return
        if self._file is None:
            file: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (`close` closes it)
            try:
                _write_all(file, bytes(self._memory), 0)
            except OSError:
                file.close()
                raise
            self._file = file
            self._memory.clear()
        _write_all(self._file, data, self.written)

    def read(self, max_bytes: int) -> bytes:
        """Returns the next bytes, at most `max_bytes`."""
        size = min(max_bytes, self.written - self.read_so_far)
        if self._file is None:
            chunk = bytes(self._memory[self.read_so_far : self.read_so_far + size])
        else:
            chunk = os.pread(self._file.fileno(), size, self.read_so_far)
        self.read_so_far += len(chunk)
        return chunk

    def close(self) -> None:
        """Deletes the file."""
        if self._file is not None:
            self._file.close()


def _write_all(file: IO[bytes], data: bytes, offset: int) -> None:
    """Writes all bytes at an offset of a file, in several calls if needed."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(file.fileno(), rest, offset)
        rest = rest[count:]
        offset += count


class Spool:
    """A queue of bytes between a writer and a slower reader.

    Args:
        reservation: Counts the unread bytes. A writer for which there is no room waits until the
            reader has read some.
    """

    def __init__(self, reservation: Reservation) -> None:
        self._reservation = reservation
        self._segments = deque[Segment]()
        self._unwritten = b""
        self._last = b""
        self._unread = 0
        self._ended = False
        self._changed = asyncio.Event()

    async def write(self, data: bytes) -> None:
        """Adds bytes, and waits until there is room for them."""
        for start in range(0, len(data), CHUNK_BYTES):
            try:
                await self._write_chunk(data[start : start + CHUNK_BYTES])
            except ProblemError:
                # the first chunks may end inside a line or a message, which has to be completed
                self._unwritten = data[start:]
                raise

    async def _write_chunk(self, data: bytes) -> None:
        try:
            await self._reservation.grow(self._unread + len(data))
        except ProblemError as problem:
            raise ProblemError(
                "too-large",
                (
                    f"{self._unread:,} bytes of answers are unread; read answers while you send "
                    f"documents"
                ),
            ) from problem
        if not self._segments or self._segments[-1].written >= SEGMENT_BYTES:
            self._segments.append(Segment())
        self._segments[-1].write(data)
        self._unread += len(data)
        self._changed.set()

    def write_last(self, data: bytes) -> None:
        """Adds a few bytes at the end without waiting for room.

        They follow what `write` found no room for, so that nothing is cut off before them.
        """
        self._last = self._unwritten + data
        self._changed.set()

    def end(self) -> None:
        """Marks the end of the data."""
        self._ended = True
        self._changed.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the written bytes until the end."""
        while True:
            while self._unread:
                yield self._next_chunk()
            if self._ended:
                break
            self._changed.clear()
            await self._changed.wait()
        if self._last:
            yield self._last

    def _next_chunk(self) -> bytes:
        segment = self._segments[0]
        chunk = segment.read(CHUNK_BYTES)
        self._unread -= len(chunk)
        self._reservation.shrink(self._unread)
        if segment.read_so_far == segment.written:
            self._segments.popleft().close()
        return chunk

    def close(self) -> None:
        """Deletes the files and releases the reservation."""
        while self._segments:
            self._segments.popleft().close()
        self._reservation.shrink()
