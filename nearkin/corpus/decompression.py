"""Compressed files as streams of which everything before a damage can be read."""

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa

BLOCK = 1 << 20
NEAR = 1 << 18
"""Compressed bytes before the place of an error that are decompressed in small steps."""
COARSE = 1 << 12


class DecompressedStream(io.RawIOBase):
    """The content of a compressed file.

    A codec that finds a damage loses what it had decompressed in the same call, up to a megabyte. Therefore the part around an
    error is decompressed again in small steps: first all bytes before the damage are read, then the error is raised.
    A codec that works by blocks loses the damaged block: up to 900 kB of bz2, 4 MB of lz4, 128 kB of zstd.

    Args:
        open_file: Opens the compressed file.
        compression: Its codec, as Arrow names it.
    """

    def __init__(self, open_file: Callable[[], Any], compression: str) -> None:
        super().__init__()
        self._open_file = open_file
        self._compression = compression
        self._file = open_file()
        self._stream = pa.CompressedInputStream(self._file, compression)
        self._position = 0
        self._failure: Exception | None = None
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Returns the next bytes, fewer than `size` at the end and before a damage.

        Raises:
            OSError: If the file is damaged here.
        """
        if size is None or size < 0:
            return self.readall()
        if self._failure is None:
            try:
                data: bytes = self._stream.read(size)
            except (OSError, pa.ArrowException) as error:
                self._failure = error
                self._rest = memoryview(self._in_front_of_damage(self._file.tell() - NEAR))
            else:
                self._position += len(data)
                return data
        if not self._rest:
            raise self._failure
        data, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _in_front_of_damage(self, careful_from: int) -> bytes:
        """Returns what can be read behind the position, whose next reading failed."""
        coarse = self._read_until_failure(careful_from, self._position, COARSE)
        fine = self._read_until_failure(careful_from, self._position + len(coarse), 1)
        return coarse + fine

    def _read_until_failure(self, careful_from: int, start: int, step: int) -> bytes:
        """Returns the bytes from `start` on, read `step` at a time, of which the last reading fails."""
        with self._open_file() as file:
            stream = pa.CompressedInputStream(pa.PythonFile(_ByteByByteFile(file, careful_from), "r"), self._compression)
            parts: list[bytes] = []
            try:
                while start > 0:
                    start -= len(stream.read(min(start, BLOCK)))
                while data := stream.read(step):
                    parts.append(data)
            except (OSError, pa.ArrowException):
                pass
            return b"".join(parts)


class _ByteByByteFile:
    """A file of which, from some place on, one byte is read at a time."""

    def __init__(self, file: Any, careful_from: int) -> None:
        self._file = file
        self._careful_from = careful_from

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def read(self, size: int) -> bytes:
        return bytes(self._file.read(1 if self._file.tell() >= self._careful_from else size))

    def close(self) -> None:
        """The file is closed by its owner."""
