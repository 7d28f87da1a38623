"""Zstandard frames whose windows are larger than Arrow decompresses (`zstd --long=28` and more)."""

from typing import Any

from nearkin.errors import MissingExtraError

FRAME_MAGIC = 0xFD2FB528
SKIPPABLE_MAGIC = 0x184D2A50
"""The first number of a skippable frame, whose last four bits are free."""
HEADER_BYTES = 64
"""The number of bytes at the beginning of a file that are searched for the first frame."""
ARROW_WINDOW = 1 << 27
"""The largest window that Arrow decompresses, in bytes."""
LARGEST_WINDOW = 1 << 31
"""The largest window of the format on 64-bit systems, in bytes."""
CHUNK = 1 << 10
"""The number of compressed bytes that are decompressed at a time, which expand to 33 MB at most."""
WINDOW_SHARE = 0.6
"""The part of the memory bound of a run that a window may take."""


def parse_window(header: bytes) -> int:
    """Returns the window of the first frame of a zstd file, in bytes, or 0 if it is not known.

    RFC 8878, section 3.1.1.1: a descriptor says which of the fields window, dictionary and content
    size follow. A frame of a single segment has no window, and needs its content size.

    Examples:
        >>> parse_window(bytes.fromhex("28b52ffd 00 a8"))
        2147483648
    """
    at = 0
    while (magic := int.from_bytes(header[at : at + 4], "little")) & ~0xF == SKIPPABLE_MAGIC:
        at += 8 + int.from_bytes(header[at + 4 : at + 8], "little")
    if magic != FRAME_MAGIC or len(header) < at + 6:
        return 0
    descriptor = header[at + 4]
    at += 5
    if not descriptor & 0x20:
        exponent, mantissa = divmod(header[at], 8)
        return (1 << (10 + exponent)) * (8 + mantissa) // 8
    at += (0, 1, 2, 4)[descriptor & 3]
    size_bytes = (1, 2, 4, 8)[descriptor >> 6]
    size = int.from_bytes(header[at : at + size_bytes], "little")
    return size + 256 if size_bytes == 2 else size


class LongWindowStream:
    """The content of a zstd file whose first frame has a window of more than 128 MiB.

    Args:
        window: The largest window of a frame, in bytes.
    """

    def __init__(self, file: Any, window: int) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise MissingExtraError.for_extra(
                "zstd files with windows of more than 128 MiB (zstd --long) require zstandard",
                "zstd",
            ) from error
        self._error = zstandard.ZstdError
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=window)
        self._file = file
        self._frame: Any = None
        self._input = b""
        self._output = bytearray()

    def read(self, size: int) -> bytes:
        """Returns the next bytes. There are fewer than `size` at the end.

        Args:
            size: The number of bytes.
        """
        while len(self._output) < size and self._decompress_chunk():
            pass
        data = bytes(self._output[:size])
        del self._output[:size]
        return data

    def _decompress_chunk(self) -> bool:
        """Decompresses the next compressed bytes. Returns False at the end of the file."""
        chunk = self._input or bytes(self._file.read(CHUNK))
        self._input = b""
        if not chunk:
            if self._frame is not None:
                raise OSError("Truncated compressed stream")
            return False
        if self._frame is None:
            self._frame = self._decompressor.decompressobj()
        try:
            self._output += self._frame.decompress(chunk)
        except self._error as error:
            raise OSError(f"ZSTD decompress failed: {error}") from error
        if self._frame.eof:
            self._input = self._frame.unused_data
            self._frame = None
        return True
