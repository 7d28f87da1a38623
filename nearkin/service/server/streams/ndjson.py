"""Streams of documents as NDJSON: one JSON object per line."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import orjson

from nearkin.service.server.http.middleware import NDJSON, problem_from_error
from nearkin.service.server.http.parsing import parse_json
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import Reservation
from nearkin.service.server.micro_batcher import BATCH_BYTES
from nearkin.service.server.routes import models as m
from nearkin.service.server.streams.format import (
    ProgressDeadline,
    StreamAnswer,
    StreamItem,
    StreamPart,
)

PAUSE_SECONDS = 0.05
"""Seconds without a line after which the received lines are processed. A client may wait for the
answer to a single line."""


class NdjsonFormat:
    """The NDJSON format of requests and answers.

    Args:
        max_line: Maximum size of a line, in bytes.
        memory: Counts the bytes that are kept.
    """

    media_type = NDJSON

    def __init__(
        self, max_rows: int, max_line: int, memory: Reservation, deadline: ProgressDeadline
    ) -> None:
        self._max_rows = max_rows
        self._max_line = max_line
        self._memory = memory
        self._deadline = deadline

    async def parts(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[StreamPart]:
        """Yields a part when enough lines have arrived, or when none has arrived for a while."""
        splitter = LineSplitter(self._max_line)
        lines = list[bytes | None]()
        size = 0
        number = 1
        async for chunk in with_pauses(chunks, PAUSE_SECONDS):
            has_room = self._memory.has_room(size + splitter.size + len(chunk))
            if not splitter.is_inside_line:
                self._deadline.restart()
            if has_room:
                await self._memory.grow(size + splitter.size + len(chunk))
                lines += splitter.add(chunk)
                size = _lines_size(lines)
            start = 0
            while self._is_due(len(lines) - start, size, pausing=not chunk or not has_room):
                part = lines[start : start + self._max_rows]
                yield StreamPart(
                    len(part),
                    _lines_size(part) + splitter.take_skipped(),
                    partial(self._parse, number, part),
                )
                start += len(part)
                number += len(part)
                size -= _lines_size(part)
                self._deadline.restart()
            lines = lines[start:]
            if not has_room:
                await self._memory.grow(size + splitter.size + len(chunk))
                lines += splitter.add(chunk)
                size = _lines_size(lines)
            self._memory.shrink(size + splitter.size)
            self._deadline.check(splitter.received)
        lines += splitter.finish()
        for start in range(0, len(lines), self._max_rows):
            part = lines[start : start + self._max_rows]
            yield StreamPart(
                len(part), _lines_size(part), partial(self._parse, number + start, part)
            )

    def _is_due(self, count: int, size: int, *, pausing: bool) -> bool:
        return count >= self._max_rows or (count > 0 and (pausing or size >= BATCH_BYTES))

    def _parse(self, first_number: int, lines: list[bytes | None]) -> list[StreamItem]:
        """Parses lines, and skips empty ones. None stands for a line that is too long."""
        return [
            self._parse_line(number, line)
            for number, line in enumerate(lines, first_number)
            if line is None or line.strip()
        ]

    def _parse_line(self, number: int, line: bytes | None) -> StreamItem:
        if line is None:
            problem = ProblemError("too-large", f"the line has more than {self._max_line:,} bytes")
            return StreamItem(number, None, None, problem)
        try:
            new = parse_json(line, m.UpsertRequest)
        except ProblemError as problem:
            return StreamItem(number, None, None, problem_from_error(problem))
        return StreamItem(number, new.id, new.document, None)

    def prologue(self) -> bytes:
        """Returns no bytes: a response begins with its first answer."""
        return b""

    def encode(self, answers: list[StreamAnswer]) -> bytes:
        """Returns a line for each answer."""
        return b"".join(orjson.dumps(_answer_members(answer)) + b"\n" for answer in answers)

    def epilogue(self) -> bytes:
        """Returns no bytes: a response ends with its last answer."""
        return b""


def _answer_members(answer: StreamAnswer) -> dict[str, object]:
    members: dict[str, object] = {"line": answer.line}
    if answer.outcome is not None:
        members |= answer.outcome.to_dict()
    if answer.problem is not None:
        members["problem"] = answer.problem.to_dict()
    return members


async def with_pauses(chunks: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Yields chunks, and an empty one whenever nothing has arrived for some seconds."""
    pending: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            pending = asyncio.create_task(_next_chunk(chunks))
            completed, _ = await asyncio.wait({pending}, timeout=seconds)
            if not completed:
                yield b""
            chunk = await pending
            if chunk is None:
                return
            if chunk:
                yield chunk
    finally:
        if pending is not None:
            pending.cancel()


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


def _lines_size(lines: list[bytes | None]) -> int:
    """Returns the number of bytes of lines, including their newlines."""
    return len(lines) + sum(len(line) for line in lines if line)


class LineSplitter:
    """Splits a stream into lines.

    Bytes that arrive one at a time are not copied again with each byte.

    Args:
        max_line: Maximum size of a line, in bytes. A longer line is skipped without being kept.

    Attributes:
        received: Number of bytes of the unfinished line that have arrived.
    """

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._kept = bytearray()
        self._skipping = False
        self._skipped = 0
        self.received = 0

    @property
    def size(self) -> int:
        """The number of bytes that are kept of the unfinished line."""
        return len(self._kept)

    @property
    def is_inside_line(self) -> bool:
        """True if a line is unfinished."""
        return self.received > 0

    def take_skipped(self) -> int:
        """Returns the number of bytes that were skipped since the last call."""
        count = self._skipped
        self._skipped = 0
        return count

    def add(self, chunk: bytes) -> list[bytes | None]:
        """Returns the lines that end in a chunk, with None for each line that is too long."""
        first, newline, rest = chunk.partition(b"\n")
        self._keep(first)
        if not newline:
            return []
        *complete, last = rest.split(b"\n")
        lines = self.finish() or [b""]
        lines += [None if len(line) > self._max_line else line for line in complete]
        self._keep(last)
        return lines

    def finish(self) -> list[bytes | None]:
        """Ends the unfinished line, and returns it if any byte of it has arrived."""
        lines: list[bytes | None] = []
        if self.is_inside_line:
            lines.append(None if self._skipping else bytes(self._kept))
        self._kept.clear()
        self._skipping = False
        self.received = 0
        return lines

    def _keep(self, data: bytes) -> None:
        self.received += len(data)
        if self.received > self._max_line:
            self._skipped += len(self._kept) + len(data)
            self._kept.clear()
            self._skipping = True
        else:
            self._kept += data
