"""Request bodies that are compressed: they are decompressed part by part, or rejected."""

import asyncio
import zlib

from starlette.types import Message, Receive, Scope

from nearkin.service.server.http.problems import ProblemError

ENCODINGS = (b"gzip", b"x-gzip")
GZIP_FORMAT = 16 + zlib.MAX_WBITS
"""The window of a decoder that reads gzip and not zlib."""
MAX_PART = 1 << 16
"""Maximum number of decompressed bytes that are in memory at once."""


def decode_body(scope: Scope, receive: Receive, max_bytes: int) -> Receive:
    """Returns a receive function whose body is not compressed.

    The headers of a compressed body are deleted from the scope, because they do not describe what
    the application receives.
    """
    headers = scope["headers"]
    values = [value.strip().lower() for name, value in headers if name == b"content-encoding"]
    encoding = b",".join(value for value in values if value not in (b"", b"identity"))
    if not encoding:
        return receive
    if encoding not in ENCODINGS:
        raise ProblemError(
            "unsupported-media-type",
            "the Content-Encoding of the body is not supported; send it with Content-Encoding: "
            "gzip, or without an encoding",
        )
    described = (b"content-encoding", b"content-length")
    scope["headers"] = [header for header in headers if header[0] not in described]
    return _GzipBody(receive, max_bytes)


class _GzipBody:
    """An ASGI receive function that decompresses a body, in parts of a limited size.

    A few bytes can stand for gigabytes, so no more is decompressed than is asked for.
    """

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._decoder = zlib.decompressobj(GZIP_FORMAT)
        self._compressed = b""
        self._has_output = False
        self._is_received = False
        self._is_complete = False
        self._size = 0

    async def __call__(self) -> Message:
        if self._is_complete:
            return await self._receive()
        while True:
            part = self._decompress()
            if part:
                # Other requests have their turn between the parts of one compressed message.
                await asyncio.sleep(0)
                return {"type": "http.request", "body": part, "more_body": True}
            if self._is_received:
                if not self._decoder.eof:
                    raise ProblemError("invalid-request", "the gzip data of the body is incomplete")
                self._is_complete = True
                return {"type": "http.request", "body": b"", "more_body": False}
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            self._compressed += message.get("body", b"")
            self._is_received = not message.get("more_body", False)

    def _decompress(self) -> bytes:
        """Returns the next part, or nothing if more compressed bytes are needed."""
        part = b""
        while not part and (self._compressed or self._has_output):
            if self._decoder.eof:
                # A file of gzip may consist of several members.
                self._decoder = zlib.decompressobj(GZIP_FORMAT)
            try:
                part = self._decoder.decompress(self._compressed, MAX_PART)
            except zlib.error as error:
                raise ProblemError("invalid-request", "the body is not valid gzip") from error
            self._compressed = self._decoder.unused_data or self._decoder.unconsumed_tail
            # The decoder may hold output although it has read all of its input.
            self._has_output = len(part) == MAX_PART and not self._decoder.eof
        self._size += len(part)
        if self._size > self._max_bytes:
            raise ProblemError(
                "too-large", f"the decompressed body has more than {self._max_bytes:,} bytes"
            )
        return part
