"""Streams of compressed files that yield all content before damage."""

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa

BLOCK = 1 << 20
"""The number of bytes that are decompressed at a time."""
NEAR = 1 << 18
"""The number of compressed bytes before an error that are decompressed in small steps."""
COARSE = 1 << 12
"""The size of the small steps, in decompressed bytes."""


class DecompressedStream(io.RawIOBase):
    """The content of a compressed file.

    A codec that detects damage loses what it decompressed in the same call, up to a megabyte. The
    part around an error is therefore decompressed again in small steps. The stream first yields all
    bytes before the damage, then raises the error. A codec that works in blocks loses the damaged
    block: up to 900 kB of bz2, 4 MB of lz4, 128 kB of zstd.

    Args:
        open_file: A function that opens the compressed file.
        compression: The name of the codec in Arrow.
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
        """Returns True."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Returns the next bytes. There are fewer than `size` at the end and before damage.

        Raises:
            OSError: If the file is damaged at this position.
        """
        if size is None or size < 0:
            return self.readall()
        if self._failure is None:
            try:
                data: bytes = self._stream.read(size)
            except (OSError, pa.ArrowException) as error:
                self._failure = error
                self._rest = memoryview(self._read_before_damage(self._file.tell() - NEAR))
            else:
                self._position += len(data)
                return data
        if not self._rest:
            raise self._failure
        data, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return data

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer and returns the number of bytes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes the file."""
        if not self.closed:
            self._file.close()
        super().close()

    def _read_before_damage(self, careful_from: int) -> bytes:
        """Returns the readable bytes between the position and the damage."""
        coarse = self._read_until_failure(careful_from, self._position, COARSE)
        fine = self._read_until_failure(careful_from, self._position + len(coarse), 1)
        return coarse + fine

    def _read_until_failure(self, careful_from: int, start: int, step: int) -> bytes:
        """Returns the bytes from `start` on, read `step` bytes at a time until a read fails."""
        with self._open_file() as file:
            stream = pa.CompressedInputStream(
                pa.PythonFile(_ByteByByteFile(file, careful_from), "r"), self._compression
            )
            parts: list[bytes] = []
            try:
                while start > 0 and (skipped := stream.read(min(start, BLOCK))):
                    start -= len(skipped)
                while data := stream.read(step):
                    parts.append(data)
            except (OSError, pa.ArrowException):
                pass
            return b"".join(parts)


class _ByteByByteFile:
    """A file that returns one byte per call from a given position on."""

    def __init__(self, file: Any, careful_from: int) -> None:
        self._file = file
        self._careful_from = careful_from

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def read(self, size: int) -> bytes:
        return bytes(self._file.read(1 if self._file.tell() >= self._careful_from else size))

    def close(self) -> None:
        """Does nothing, because the owner closes the file."""
