"""Reading of as many bytes as a file claims, without memory for bytes that are not there."""

from typing import Any

BLOCK = 1 << 20
"""The number of bytes that are read at a time."""


def read_up_to(stream: Any, most: int) -> bytes:
    """Returns the content of a stream, or its first `most` bytes."""
    parts: list[bytes] = []
    size = 0
    while size < most and (part := bytes(stream.read(min(BLOCK, most - size)))):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


class SpanStream:
    """A stream of the bytes from one place of a file to another."""

    def __init__(self, stream: Any, start: int, end: int) -> None:
        self._stream = stream
        self._left = end - start
        stream.seek(start)

    def read(self, size: int) -> bytes:
        """Returns the next bytes."""
        content = bytes(self._stream.read(min(size, self._left)))
        self._left -= len(content)
        return content


class BoundedStream:
    """A stream for libraries that read as many bytes at a time as a file says.

    Args:
        stream: The stream of bytes.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Returns the next bytes, fewer than `size` at the end."""
        return read_up_to(self._stream, size)
