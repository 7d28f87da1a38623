"""Many documents in one request: read as they come, answered as they are done, in bounded memory.

A client may send everything before it reads anything (most HTTP libraries do). Answers therefore go through a file that the
system deletes: what is not yet read waits there, not in memory, and reading never waits for writing.
"""

import asyncio
import io
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import orjson
import pyarrow as pa
from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from nearkin.errors import NearkinError
from nearkin.index.entry import Outcome
from nearkin.index.preparing import Document
from nearkin.server import models as m
from nearkin.server.access import Gate, named, source_of
from nearkin.server.guard import STREAMS, problem_of
from nearkin.server.parsing import parsed_json
from nearkin.server.problems import ProblemError
from nearkin.server.service import Service
from nearkin.server.tokens import Principal

IN_MEMORY = 1 << 20
"""Bytes of answers that wait in memory; more wait in a file."""
MOST_WAITING = 1 << 30
"""Bytes of answers that wait at most."""
READ = 1 << 16
PAUSE = 0.05
"""Seconds without a line after which those that came are worked on: who sends one waits for its answer, perhaps."""
BATCH_BYTES = 4 << 20
"""Bytes of documents that are worked on at once."""
MESSAGE_BYTES = 64 << 20
"""Bytes of an Arrow stream that may come before a batch of it is whole."""


class Item(NamedTuple):
    """A line of a request: a document, or what is wrong with it."""

    line: int
    id: str | None
    document: "Document | None"
    problem: ProblemError | None


class Answer(NamedTuple):
    """A line of an answer."""

    line: int
    outcome: Outcome | None
    problem: ProblemError | None


class Form(Protocol):
    """How lines come and go."""

    media_type: str

    def items(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[list[Item]]:
        """Batches of a request's lines."""

    def opening(self) -> bytes:
        """What an answer begins with."""

    def encoded(self, answers: list[Answer]) -> bytes:
        """Lines of an answer."""

    def closing(self) -> bytes:
        """What it ends with."""


async def answer_stream(request: Request, service: Service, scope: str, who: Principal, kind: str) -> Response:
    """Works through a stream; a line that cannot be worked on is answered as such, and the next one goes on."""
    most, size = service.settings.batch, service.settings.max_line
    form: Form = Lines(most, size) if kind == STREAMS[0] else Columns(most, size)
    spool = Spool()
    gate: Gate = request.app.state.gate

    async def admitted(count: int) -> None:
        part, until = gate.part(who), time.monotonic() + service.settings.idle_timeout
        while count > 0:
            wait = await gate.room(who, source_of(request), min(part, count))
            if not wait:
                count, until = count - part, time.monotonic() + service.settings.idle_timeout
            elif time.monotonic() > until:
                raise ProblemError("rate-limited", "no room for more documents within the rate", retry_after=wait)
            else:
                await asyncio.sleep(min(wait, 1.0))

    async def work() -> None:
        try:
            await spool.write(form.opening())
            async for batch in form.items(request.stream()):
                if spool.waiting > MOST_WAITING:
                    raise ProblemError("too-large", f"more than {MOST_WAITING:,} bytes of answers are not read")
                await admitted(len(batch))
                await spool.write(form.encoded(await answers(service, scope, batch)))
            await spool.write(form.closing())
        except (ProblemError, NearkinError, TimeoutError) as error:
            # the status has been sent: the last line says why there are no more
            await spool.write(form.encoded([Answer(0, None, problem_of(error))]) + form.closing())
        finally:
            await spool.end()

    async def read() -> AsyncIterator[bytes]:
        task = asyncio.create_task(work())
        try:
            async for chunk in spool.chunks():
                yield chunk
            await task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            spool.close()

    return Streamed(read(), form.media_type)


class Streamed(Response):
    """Sends what a generator yields, and leaves what arrives to it.

    Starlette's own streaming answer listens for a disconnect meanwhile, and so would swallow the body that is still to come.
    """

    def __init__(self, content: AsyncIterator[bytes], media_type: str) -> None:
        super().__init__(None, media_type=media_type)
        del self.headers["content-length"]
        self._content = content

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for chunk in self._content:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def answers(service: Service, scope: str, batch: list[Item]) -> list[Answer]:
    """What became of each line of a batch, in order."""
    out: dict[int, Answer] = {}
    good: list[Item] = []
    for item in batch:
        problem = item.problem or _problem_with(service, item)
        if problem is None:
            good.append(item)
        else:
            service.instruments.refused(problem.code)
            out[item.line] = Answer(item.line, None, problem)
    if good:
        try:
            outcomes = await service.upsert_batch(scope, [item.document or "" for item in good], [item.id for item in good])
        except NearkinError as error:
            problem = problem_of(error)
            service.instruments.store_failed("stream")
            out |= {item.line: Answer(item.line, None, problem) for item in good}
        else:
            out |= {item.line: Answer(item.line, done, None) for item, done in zip(good, outcomes, strict=True)}
    return [out[item.line] for item in batch]


def _problem_with(service: Service, item: Item) -> ProblemError | None:
    try:
        if item.id is not None:
            named(item.id, "id")
        if item.document is not None:
            service.index.preparer.check(item.document)
    except (ProblemError, NearkinError) as error:
        return problem_of(error)
    return None


class Lines:
    """NDJSON.

    Args:
        most: Documents of a batch.
        longest: Bytes of a line.
    """

    media_type = STREAMS[0]

    def __init__(self, most: int, longest: int) -> None:
        self._most, self._longest = most, longest

    async def items(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[list[Item]]:
        number, batch, size = 0, list[Item](), 0
        async for some in lines(with_pauses(chunks, PAUSE), self._longest):
            for line in some:
                number += 1
                if line is not None and not line.strip():
                    continue
                batch.append(self._item(number, line))
                size += len(line or b"")
                if len(batch) >= self._most or size >= BATCH_BYTES:
                    yield batch
                    batch, size = [], 0
            if batch and not some:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _item(self, number: int, line: bytes | None) -> Item:
        if line is None:
            return Item(number, None, None, ProblemError("too-large", f"the line has more than {self._longest:,} bytes"))
        try:
            new = parsed_json(line, m.NewDocument)
        except ProblemError as problem:
            return Item(number, None, None, problem)
        return Item(number, new.id, new.document, None)

    def opening(self) -> bytes:
        return b""

    def encoded(self, answers: list[Answer]) -> bytes:
        return b"".join(orjson.dumps(_as_line(answer)) + b"\n" for answer in answers)

    def closing(self) -> bytes:
        return b""


def _as_line(answer: Answer) -> dict[str, Any]:
    told = {} if answer.outcome is None else answer.outcome.to_dict()
    return {"line": answer.line, **told, **({} if answer.problem is None else {"problem": answer.problem.to_dict()})}


async def with_pauses(chunks: AsyncIterator[bytes], after: float) -> AsyncIterator[bytes]:
    """The same chunks, and an empty one each time that nothing came for so many seconds."""
    coming: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            coming = asyncio.create_task(_chunk(chunks))
            if not (await asyncio.wait({coming}, timeout=after))[0]:
                yield b""
            chunk = await coming
            if chunk is None:
                return
            if chunk:
                yield chunk
    finally:
        if coming is not None:
            coming.cancel()


async def lines(chunks: AsyncIterator[bytes], longest: int) -> AsyncIterator[list[bytes | None]]:
    """Lines of a stream as they come; None for one that is too long, which is passed over without being kept.

    An empty chunk, which is a pause, gives an empty list.
    """
    held, skipping = b"", False
    async for chunk in chunks:
        *whole, rest = (held + chunk).split(b"\n")
        some: list[bytes | None] = []
        for line in whole:
            some.append(None if skipping or len(line) > longest else line)
            skipping = False
        held = rest
        if len(held) > longest:
            held, skipping = b"", True
        if some or not chunk:
            yield some
    if held or skipping:
        yield [None if skipping else held]


class Columns:
    """Arrow IPC.

    Args:
        most: Documents of a batch.
        longest: Bytes of a document.
    """

    media_type = STREAMS[1]
    schema = pa.schema(
        [
            ("line", pa.int64()),
            ("kind", pa.string()),
            ("layer", pa.string()),
            ("id", pa.string()),
            ("cluster", pa.string()),
            ("representative", pa.string()),
            ("similarity", pa.float64()),
            ("problem", pa.string()),
        ]
    )

    def __init__(self, most: int, longest: int) -> None:
        self._most, self._longest = most, longest
        self._out = io.BytesIO()
        self._writer = pa.ipc.new_stream(self._out, self.schema)

    async def items(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[list[Item]]:
        blocking, line = _BlockingBody(chunks, asyncio.get_running_loop()), 0
        # buffered, because Arrow takes a short read for the stream's end
        body = io.BufferedReader(blocking, READ)
        try:
            batches = Batches(body)
            _check_columns(await asyncio.to_thread(batches.open))
            while (batch := await asyncio.to_thread(batches.next)) is not None:
                blocking.came = 0
                step = max(1, min(self._most, len(batch) * BATCH_BYTES // max(batch.nbytes, 1)))
                for start in range(0, len(batch), step):
                    some = batch.slice(start, step)
                    yield list(self._of(some, line))
                    line += len(some)
        except (pa.ArrowException, OSError) as error:
            raise ProblemError("invalid-request", f"the stream is no Arrow IPC stream: {str(error)[:200]}") from error

    def _of(self, batch: pa.RecordBatch, before: int) -> Iterator[Item]:
        names = batch["id"].to_pylist() if "id" in batch.schema.names else [None] * len(batch)
        column = batch["text" if "text" in batch.schema.names else "vector"]
        for at, (name, value) in enumerate(zip(names, column, strict=True), before + 1):
            document = value.as_py()
            if document is None:
                yield Item(at, name, None, ProblemError("invalid-request", "the document is null"))
            elif isinstance(document, str) and len(document) > self._longest:
                yield Item(at, name, None, ProblemError("too-large", f"the text has more than {self._longest:,} characters"))
            else:
                yield Item(at, name, document if isinstance(document, str) else np.asarray(document, np.float32), None)

    def opening(self) -> bytes:
        return self._taken()

    def encoded(self, answers: list[Answer]) -> bytes:
        done = [answer.outcome for answer in answers]
        facts: dict[str, list[Any]] = {"line": [answer.line for answer in answers]}
        for name in ("kind", "layer", "id", "cluster", "representative", "similarity"):
            facts[name] = [None if one is None else getattr(one, name) for one in done]
        facts["problem"] = [None if one.problem is None else orjson.dumps(one.problem.to_dict()).decode() for one in answers]
        self._writer.write_batch(pa.RecordBatch.from_pydict(facts, self.schema))
        return self._taken()

    def closing(self) -> bytes:
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        found = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return found


def _check_columns(schema: pa.Schema) -> None:
    kinds = {field.name: field.type for field in schema}
    if len(kinds) < len(schema):
        raise ProblemError("invalid-request", f"two columns of {', '.join(schema.names)} have the same name")
    if encoded := [field.name for field in schema if pa.types.is_dictionary(field.type)]:
        raise ProblemError("invalid-request", f"column {encoded[0]} is encoded by a dictionary; send it plain, or not at all")
    given = [name for name in ("text", "vector") if name in kinds]
    if len(given) != 1:
        raise ProblemError("invalid-request", f"columns {', '.join(kinds)} have not one of text and vector", field="/text")
    named_ = {"id": kinds.get("id", pa.string()), "text": kinds.get("text", pa.string())}
    for name, kind in named_.items():
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise ProblemError("invalid-request", f"column {name} is {kind}, not string", field=f"/{name}")
    vector = kinds.get("vector")
    if vector is not None and not (
        (pa.types.is_fixed_size_list(vector) or pa.types.is_list(vector) or pa.types.is_large_list(vector))
        and (pa.types.is_floating(vector.value_type) or pa.types.is_integer(vector.value_type))
    ):
        raise ProblemError("invalid-request", f"column vector is {vector}, not a list of numbers", field="/vector")


class Batches:
    """Record batches of an Arrow IPC stream from outside, in bounded memory: compressed ones are refused before they unfold.

    Args:
        body: The stream.
    """

    def __init__(self, body: Any) -> None:
        self._body = body
        self._schema: pa.Schema | None = None

    def open(self) -> pa.Schema:
        """Reads as far as the schema; returns it."""
        self._messages = pa.ipc.MessageReader.open_stream(self._body)
        try:
            self._schema = pa.ipc.read_schema(self._messages.read_next_message())
        except StopIteration as error:
            raise pa.ArrowInvalid("it ends before its schema") from error
        return self._schema

    def next(self) -> pa.RecordBatch | None:
        """The next batch, looked at whole: a stream from outside may lie about its offsets.

        Raises:
            ProblemError: It is compressed, or something else than a batch.
        """
        try:
            message = self._messages.read_next_message()
        except StopIteration:
            return None
        if message.type != "record batch":
            raise ProblemError("invalid-request", f"the stream has a {message.type} where a record batch should be")
        if is_compressed(message.metadata.to_pybytes()):
            raise ProblemError("invalid-request", "the stream is compressed, or damaged; send Arrow IPC uncompressed")
        batch = pa.ipc.read_record_batch(message, self._schema)
        batch.validate(full=True)
        return batch


HEADER, COMPRESSION = 2, 3
"""Fields of Arrow's Message and RecordBatch (Message.fbs)."""


def is_compressed(metadata: bytes) -> bool:
    """Whether the buffers of a record batch are; what Arrow's metadata says, a FlatBuffer, of which pyarrow does not tell.

    Examples:
        >>> batch, found = pa.record_batch({"text": ["some"]}), []
        >>> for how in (None, "zstd"):
        ...     out = io.BytesIO()
        ...     with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(compression=how)) as writer:
        ...         writer.write_batch(batch)
        ...     messages = pa.ipc.MessageReader.open_stream(out.getvalue())
        ...     _, message = messages.read_next_message(), messages.read_next_message()
        ...     found.append(is_compressed(message.metadata.to_pybytes()))
        >>> found
        [False, True]
    """
    try:
        header = _field(metadata, struct.unpack_from("<I", metadata)[0], HEADER)
        return (
            header is None or _field(metadata, header + struct.unpack_from("<I", metadata, header)[0], COMPRESSION) is not None
        )
    except struct.error:
        return True


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Where a field of a FlatBuffer's table is; None if it has its default."""
    entries = table - struct.unpack_from("<i", buffer, table)[0]
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", buffer, entries)[0]:
        return None
    offset = struct.unpack_from("<H", buffer, entries + at)[0]
    return table + offset if offset else None


class _BlockingBody(io.RawIOBase):
    """A request's body for a library that reads blocking, in a thread."""

    def __init__(self, chunks: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._chunks, self._loop = aiter(chunks), loop
        self._held = b""
        self.came = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            chunk = asyncio.run_coroutine_threadsafe(_chunk(self._chunks), self._loop).result()
            if chunk is None:
                return 0
            self._held, self.came = chunk, self.came + len(chunk)
            if self.came > MESSAGE_BYTES:
                raise OSError(f"a batch has more than {MESSAGE_BYTES:,} bytes; send smaller ones")
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count


async def _chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


class Spool:
    """Bytes that one side writes and the other reads later, in memory while they are few, else in a nameless file."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (closed by close)
        self._written = self._read = 0
        self._ended = False
        self._more = asyncio.Condition()

    @property
    def waiting(self) -> int:
        """Bytes that are not read yet."""
        return self._written - self._read

    async def write(self, data: bytes) -> None:
        """Adds bytes."""
        if not data:
            return
        self._file.seek(self._written)
        self._file.write(data)
        async with self._more:
            self._written += len(data)
            self._more.notify_all()

    async def end(self) -> None:
        """There will be no more."""
        async with self._more:
            self._ended = True
            self._more.notify_all()

    async def chunks(self) -> AsyncIterator[bytes]:
        """What was written, as it comes, to its end."""
        while True:
            async with self._more:
                await self._more.wait_for(lambda: self._ended or self._read < self._written)
                if self._read == self._written:
                    return
            count = min(READ, self._written - self._read)
            self._file.seek(self._read)
            found = self._file.read(count)
            self._read += count
            if self._read == self._written:
                self._rewind()
            yield found

    def _rewind(self) -> None:
        """Everything was read: the file begins anew, so that it holds only what waits."""
        self._file.seek(0)
        self._file.truncate()
        self._read = self._written = 0

    def close(self) -> None:
        """Gives the file back."""
        self._file.close()
