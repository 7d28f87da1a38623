"""Streams of compressed files that yield all content before damage."""

import io
import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa

from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.corpus.long_windows import (
    ARROW_WINDOW,
    HEADER_BYTES,
    LARGEST_WINDOW,
    LongWindowStream,
    parse_window,
)

ZSTD = "zstd"
"""The codec whose files may have windows that Arrow does not decompress."""
LARGER_WINDOW = "Frame requires too much memory"
"""The beginning of the error of zstd for a window that is larger than the limit."""
BLOCK = 1 << 20
"""The number of bytes that are decompressed at a time."""
AHEAD = 4
"""The maximum number of blocks that a thread decompresses ahead."""
AHEAD_FROM = 1 << 24
"""The number of bytes of content after which a thread decompresses what follows."""
NEAR = 1 << 18
"""The number of compressed bytes before an error that are decompressed in small steps."""
VERIFIED_BYTES = 1 << 23
"""The maximum size of a content that is verified before its first row is read, in bytes."""
CHANGE = re.compile(
    "data check|length check|hecksum|inflate failed: invalid|invalid bz2 data"
    "|orruption detected|buffer is too small|decompressionFailed"
)
"""A part of the errors of codecs for content that was changed. Rows before may be changed, too.
Other errors are about what follows the content, or its missing end."""
COARSE = 1 << 12
"""The size of the small steps, in decompressed bytes."""
COARSE_INPUT = 1 << 10
"""The size of the small steps, in compressed bytes."""


class DecompressedStream(io.RawIOBase):
    """The content of a compressed file.

    After `AHEAD_FROM` bytes, a thread decompresses the blocks that follow while these are parsed.

    A codec that detects damage loses what it decompressed in the same call, up to a megabyte. The
    part around an error is therefore decompressed again in small steps. The stream first yields all
    bytes before the damage, then raises the error. A codec that works in blocks loses the damaged
    block: up to 900 kB of bz2, 4 MB of lz4, 128 kB of zstd.
    """

    def __init__(self, open_file: Callable[[], Any], compression: str) -> None:
        super().__init__()
        self._open_file = open_file
        self._compression = compression
        self._file = open_file()
        self._window = read_window(self._file) if compression == ZSTD else 0
        self._stream = self._open_stream(self._file)
        self._ahead: _BlocksAhead | None = None
        self._position = 0
        self._failure: Exception | None = None
        self._rest = memoryview(b"")

    def _open_stream(self, file: Any) -> Any:
        """Returns the content of a compressed file, up to an error."""
        if self._window > ARROW_WINDOW:
            return LongWindowStream(file, self._window)
        return pa.CompressedInputStream(file, self._compression)

    def readable(self) -> bool:
        """Returns True."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Returns the next bytes. There are fewer than `size` at the end and before damage."""
        if size is None or size < 0:
            return self.readall()
        if self._failure is None:
            try:
                data = self._read(size)
            except (OSError, pa.ArrowException) as error:
                self._failure = error
                if LARGER_WINDOW in str(error):
                    self._failure = OSError(
                        "a frame has a larger window than the first one; compress the file again "
                        "with zstd --long=27"
                    )
                self._rest = memoryview(self._read_before_damage(self._file.tell() - NEAR))
            else:
                self._position += len(data)
                return data
        if not self._rest:
            raise self._failure
        data, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return data

    def _read(self, size: int) -> bytes:
        if self._ahead is None and self._position >= AHEAD_FROM:
            self._ahead = _BlocksAhead(self._stream)
        source = self._stream if self._ahead is None else self._ahead
        data: bytes = source.read(size)
        return data

    def read_roughly(self, step: int) -> Iterator[bytes]:
        """Yields the content up to an error, without up to `step` bytes before it."""
        with suppress(OSError, pa.ArrowException):
            while part := self._stream.read(step):
                yield part

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer and returns the number of bytes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes the file."""
        if not self.closed:
            if self._ahead is not None:
                self._ahead.close()
            self._file.close()
        super().close()

    def _read_before_damage(self, careful_from: int) -> bytes:
        coarse, end = self._read_until_failure(careful_from, COARSE_INPUT, self._position, COARSE)
        # what was decompressed of all steps but the last one is complete
        careful_from = max(careful_from, end - COARSE_INPUT)
        fine, _ = self._read_until_failure(careful_from, 1, self._position + len(coarse), 1)
        return coarse + fine

    def _read_until_failure(
        self, careful_from: int, input_step: int, start: int, step: int
    ) -> tuple[bytes, int]:
        """Returns the bytes from `start` on, and the place in the file where a read fails.

        Args:
            careful_from: The place in the file from which on it is read in steps.
            input_step: The size of these steps, in compressed bytes.
            start: The number of decompressed bytes that are left out.
            step: The number of bytes that are decompressed at a time.
        """
        with self._open_file() as file:
            careful = _SmallStepsFile(file, careful_from, input_step)
            stream = self._open_stream(pa.PythonFile(careful, "r"))
            parts: list[bytes] = []
            try:
                while start > 0 and (skipped := stream.read(min(start, BLOCK))):
                    start -= len(skipped)
                while data := stream.read(step):
                    parts.append(data)
            except (OSError, pa.ArrowException):
                pass
            return b"".join(parts), file.tell()


def decompress_beginning(beginning: bytes, compression: str, most: int) -> bytes:
    """Returns the content of the first bytes of a compressed file, without its last few kilobytes.

    Args:
        most: The number of bytes of content from which on no more is decompressed.
    """
    parts: list[bytes] = []
    size = 0
    with DecompressedStream(lambda: pa.BufferReader(beginning), compression) as stream:
        # the beginning ends in the middle of a compressed block
        for part in stream.read_roughly(COARSE):
            parts.append(part)
            size += len(part)
            if size >= most:
                break
    return b"".join(parts)


def is_change(damage: DamageError) -> bool:
    """Returns whether damage of a compressed file means that content before it may be changed."""
    return CHANGE.search(str(damage)) is not None


def find_change(stream: Any) -> DamageError | None:
    """Returns the error that the content of a compressed file was changed, or None."""
    left = VERIFIED_BYTES
    try:
        with decoding():
            while left > 0 and (part := stream.read(BLOCK)):
                left -= len(part)
    except DamageError as error:
        return error if is_change(error) else None
    return None


def read_window(file: Any) -> int:
    """Returns the window of the first frame of a zstd file, in bytes, or 0 if it is not known."""
    window = parse_window(bytes(file.read(HEADER_BYTES)))
    file.seek(0)
    return min(window, LARGEST_WINDOW)


class _BlocksAhead:
    """The rest of a stream, of which a thread reads blocks before they are needed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._is_ended = False
        self._rest = memoryview(b"")
        self._pool = ThreadPoolExecutor(1, "nearkin-decompress")
        self._blocks = deque(self._pool.submit(self._read_block) for _ in range(AHEAD))

    def _read_block(self) -> bytes:
        """Returns the next block, and nothing after an error, so that the file stays there."""
        if self._is_ended:
            return b""
        self._is_ended = True
        block: bytes = self._stream.read(BLOCK)
        self._is_ended = not block
        return block

    def read(self, size: int) -> bytes:
        """Returns the next bytes, fewer than `size` at the end, or raises the stream's error."""
        parts: list[memoryview] = []
        while size and (self._rest or self._take_block()):
            parts.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def _take_block(self) -> bool:
        """Waits for the next block, and returns whether there is one."""
        self._rest = memoryview(self._blocks.popleft().result())
        self._blocks.append(self._pool.submit(self._read_block))
        return bool(self._rest)

    def close(self) -> None:
        """Ends the thread, which no longer uses the stream."""
        self._pool.shutdown(cancel_futures=True)


class _SmallStepsFile:
    """A file that returns few bytes per call from a given position on."""

    def __init__(self, file: Any, careful_from: int, step: int) -> None:
        self._file = file
        self._careful_from = careful_from
        self._step = step

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def read(self, size: int) -> bytes:
        before = self._careful_from - self._file.tell()
        return bytes(self._file.read(min(size, before if before > 0 else self._step)))

    def close(self) -> None:
        """Does nothing, because the owner closes the file."""
