"""Many documents in one request: read as they come, answered as they are done, in bounded memory.

A client may send everything before it reads anything (most HTTP libraries do). Answers therefore go through files that the
system deletes: what is not yet read waits there, not in memory. When too much waits there, nothing more is read from the client
until it has read some.
"""

import asyncio
import io
import os
import tempfile
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, aclosing, suppress
from functools import partial
from itertools import pairwise
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from nearkin.errors import NearkinError
from nearkin.index.entry import Outcome
from nearkin.index.preparation import Document
from nearkin.server.http.auth import Authenticator, named, source_address
from nearkin.server.http.middleware import STREAMS, problem_from_error
from nearkin.server.http.parsing import parse_json
from nearkin.server.http.problems import ProblemError
from nearkin.server.http.shares import CURRENT_CALLER, Caller, Reservation
from nearkin.server.http.tokens import LOCAL_PRINCIPAL, Principal
from nearkin.server.micro_batcher import BATCH_BYTES
from nearkin.server.routes import models as m
from nearkin.server.service import Service
from nearkin.server.streams.arrow import ArrowMessageReader, Deadline, Message, read_batch, read_schema

IN_MEMORY = 1 << 18
"""Bytes of answers that wait in memory; more wait in a file."""
SEGMENT = 8 << 20
"""Bytes of answers of one file. A file is deleted when all of it was read, so that disk is used for what waits alone."""
READ = 1 << 16
NAMES_SHOWN = 200
"""Characters of the names of columns that an error repeats; a schema may have a megabyte of them."""
PAUSE = 0.05
"""Seconds without a line after which those that came are worked on: who sends one waits for its answer, perhaps."""


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


class Part(NamedTuple):
    """A part of a stream that is worked on at once.

    Attributes:
        rows: Documents, for the rate; empty lines are counted too.
        size: Bytes, for the rate.
        items: Parses the documents. Called in a thread.
    """

    rows: int
    size: int
    items: Callable[[], list[Item]]


class Form(Protocol):
    """How lines come and go."""

    media_type: str

    def parts(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[Part]:
        """Yields the parts of a request."""

    def opening(self) -> bytes:
        """What an answer begins with."""

    def encoded(self, answers: list[Answer]) -> bytes:
        """Lines of an answer."""

    def closing(self) -> bytes:
        """What it ends with."""


async def answer_stream(request: Request, service: Service, scope: str, who: Principal, kind: str) -> Response:
    """Works through a stream; a line that cannot be worked on is answered as such, and the next one goes on.

    Raises:
        ProblemError: If there are too many streams, of this caller or in all.
    """
    settings, caller = service.settings, CURRENT_CALLER.get()
    reservations: ExitStack = request.state.reservations
    service.open_streams.take(caller, 1)
    reservations.callback(service.open_streams.release, caller, 1)
    memory = Reservation(service.memory, caller, settings.idle_timeout)
    reservations.callback(memory.shrink)
    deadline = Deadline(settings.idle_timeout)
    form: Form
    if kind == STREAMS[0]:
        form = Lines(settings.batch, settings.max_line, memory, deadline)
    else:
        form = Columns(service, settings.batch, settings.max_line, settings.max_message, memory, deadline)
    waiting = Reservation(service.spill, caller, settings.idle_timeout)
    reservations.callback(waiting.shrink)
    spool = Spool(waiting)
    pace = Pace(request.app.state.authenticator, service, who, caller, source_address(request))

    async def work() -> None:
        try:
            await spool.write(form.opening())
            async for part in form.parts(request.stream()):
                await pace.admit(part)
                pace.require_token(scope)
                await spool.write(await service.run_stream_work(partial(_answered, service, scope, form, part)))
            await spool.write(form.closing())
        except (ProblemError, NearkinError, TimeoutError) as error:
            # the status has been sent: the last line says why there are no more
            spool.write_last(form.encoded([Answer(0, None, problem_from_error(error))]) + form.closing())
        finally:
            spool.end()

    async def read() -> AsyncGenerator[bytes, None]:
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


class Pace:
    """Slows a stream down to the rates of its token and its address.

    Args:
        authenticator: Counts documents.
        service: Counts bytes.
        who: The token.
        caller: Whom the bytes are counted for.
        source: The address.
    """

    def __init__(self, authenticator: Authenticator, service: Service, who: Principal, caller: Caller, source: str) -> None:
        self._authenticator, self._service = authenticator, service
        self._who, self._caller, self._source = who, caller, source
        self._mark = "" if who is LOCAL_PRINCIPAL else authenticator.tokens.mark(who.name)

    def require_token(self, scope: str) -> None:
        """Checks that the token of the stream is still valid and may still write to the scope.

        Raises:
            ProblemError: If it was revoked, has ended, or lost the right or the scope.
        """
        if self._who is LOCAL_PRINCIPAL:
            valid = self._authenticator.is_open
        else:
            found = self._authenticator.tokens.find_by_mark(self._who.name, self._mark)
            valid = found is not None and found.has_right("write") and found.can_access(scope)
        if not valid:
            raise ProblemError("unauthenticated", "the token of the stream is not valid any more")

    async def admit(self, part: Part) -> None:
        """Waits until the rates have room for a part of the stream.

        Raises:
            ProblemError: `rate-limited` if there was no room for longer than the idle time-out.
        """
        await self._wait_for(lambda: self._take_bytes(part.size))
        step = self._authenticator.admission_step(self._who)
        for start in range(0, part.rows, step):
            count = min(step, part.rows - start)
            await self._wait_for(partial(self._authenticator.reserve_documents, self._who, self._source, count))

    async def _take_bytes(self, size: int) -> float:
        return self._service.byte_rates.take(self._caller, size)

    async def _wait_for(self, take: Callable[[], Awaitable[float]]) -> None:
        """Calls a function until it returns 0, and waits the seconds that it returns otherwise."""
        until = time.monotonic() + self._service.settings.idle_timeout
        while wait := await take():
            if time.monotonic() > until:
                raise ProblemError("rate-limited", "no room for more documents within the rate", retry_after=wait)
            await asyncio.sleep(min(wait, 1.0))


class Streamed(Response):
    """Sends what a generator yields, and leaves what arrives to it.

    Starlette's own streaming answer listens for a disconnect meanwhile, and so would swallow the body that is still to come.
    """

    def __init__(self, content: AsyncGenerator[bytes, None], media_type: str) -> None:
        super().__init__(None, media_type=media_type)
        del self.headers["content-length"]
        self._content = content

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        # closed at once if the client goes: what works for it must not go on until the garbage collector comes by
        async with aclosing(self._content) as content:
            async for chunk in content:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _answered(service: Service, scope: str, form: Form, part: Part) -> bytes:
    """Parses, upserts and encodes a part of a stream; called in a thread."""
    items = part.items()
    return form.encoded(_upserted(service, scope, items)) if items else b""


def _upserted(service: Service, scope: str, batch: list[Item]) -> list[Answer]:
    """Upserts the documents of a batch; returns an answer for each line, in order."""
    out: dict[int, Answer] = {}
    good: list[Item] = []
    for item in batch:
        problem = item.problem or _problem_with(service, item)
        if problem is None:
            good.append(item)
        else:
            service.instruments.record_problem(problem.code)
            out[item.line] = Answer(item.line, None, problem)
    if good:
        try:
            outcomes = service.upsert_batch(scope, [item.document or "" for item in good], [item.id for item in good])
        except NearkinError as error:
            problem = problem_from_error(error)
            service.instruments.record_store_error("stream")
            out |= {item.line: Answer(item.line, None, problem) for item in good}
        else:
            out |= {item.line: Answer(item.line, done, None) for item, done in zip(good, outcomes, strict=True)}
    return [out[item.line] for item in batch]


def _problem_with(service: Service, item: Item) -> ProblemError | None:
    try:
        if item.id is not None:
            named(item.id, "id")
        if item.document is not None:
            service.index.check_document(item.document)
    except (ProblemError, NearkinError) as error:
        return problem_from_error(error)
    return None


class Lines:
    """NDJSON.

    Args:
        most: Maximum number of lines of a part.
        longest: Maximum bytes of a line.
        memory: Counts the bytes that are kept.
        deadline: The time that a line may take.
    """

    media_type = STREAMS[0]

    def __init__(self, most: int, longest: int, memory: Reservation, deadline: Deadline) -> None:
        self._most, self._longest = most, longest
        self._memory, self._deadline = memory, deadline

    async def parts(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[Part]:
        """Yields a part when enough lines have come, or none came for a while."""
        splitter = LineSplitter(self._longest)
        lines = list[bytes | None]()
        size, number = 0, 1
        async for chunk in with_pauses(chunks, PAUSE):
            room = self._memory.has_room(size + splitter.size + len(chunk))
            if not splitter.inside:
                self._deadline.restart()
            if room:
                await self._memory.grow(size + splitter.size + len(chunk))
                lines += splitter.add(chunk)
                size = _size_of(lines)
            start = 0
            while self._is_due(len(lines) - start, size, pausing=not chunk or not room):
                some = lines[start : start + self._most]
                yield Part(len(some), _size_of(some) + splitter.skipped(), partial(self._items, number, some))
                start += len(some)
                number += len(some)
                size -= _size_of(some)
                self._deadline.restart()
            lines = lines[start:]
            if not room:
                await self._memory.grow(size + splitter.size + len(chunk))
                lines += splitter.add(chunk)
                size = _size_of(lines)
            self._memory.shrink(size + splitter.size)
            self._deadline.check(splitter.came)
        lines += splitter.rest()
        for start in range(0, len(lines), self._most):
            some = lines[start : start + self._most]
            yield Part(len(some), _size_of(some), partial(self._items, number + start, some))

    def _is_due(self, count: int, size: int, *, pausing: bool) -> bool:
        return count >= self._most or (count > 0 and (pausing or size >= BATCH_BYTES))

    def _items(self, number: int, lines: list[bytes | None]) -> list[Item]:
        """Parses lines, the first of which has a number; empty ones are left out."""
        return [self._item(at, line) for at, line in enumerate(lines, number) if line is None or line.strip()]

    def _item(self, number: int, line: bytes | None) -> Item:
        if line is None:
            return Item(number, None, None, ProblemError("too-large", f"the line has more than {self._longest:,} bytes"))
        try:
            new = parse_json(line, m.NewDocument)
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


def _size_of(lines: list[bytes | None]) -> int:
    """Returns the bytes of some lines, and of the ends of them."""
    return len(lines) + sum(len(line) for line in lines if line)


class LineSplitter:
    """Lines of a stream as they come. What comes byte by byte is kept once, not copied with every byte.

    Args:
        longest: Maximum bytes of a line. A longer one is passed over without being kept.

    Attributes:
        came: Bytes of the unfinished line that have come.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._held = bytearray()
        self._skipping = False
        self._skipped = 0
        self.came = 0

    @property
    def size(self) -> int:
        """The bytes that are kept of the unfinished line."""
        return len(self._held)

    @property
    def inside(self) -> bool:
        """Whether a line is unfinished."""
        return self.came > 0

    def skipped(self) -> int:
        """Returns how many bytes were passed over since the last call."""
        count, self._skipped = self._skipped, 0
        return count

    def add(self, chunk: bytes) -> list[bytes | None]:
        """Returns the lines that end in a chunk; None for one that is too long."""
        first, newline, rest = chunk.partition(b"\n")
        self._keep(first)
        if not newline:
            return []
        *whole, last = rest.split(b"\n")
        lines = self.rest() or [b""]
        lines += [None if len(line) > self._longest else line for line in whole]
        self._keep(last)
        return lines

    def rest(self) -> list[bytes | None]:
        """Returns the line that has no end, if anything of it has come."""
        found: list[bytes | None] = []
        if self.inside:
            found.append(None if self._skipping else bytes(self._held))
        self._held.clear()
        self._skipping = False
        self.came = 0
        return found

    def _keep(self, part: bytes) -> None:
        self.came += len(part)
        if self.came > self._longest:
            self._skipped += len(self._held) + len(part)
            self._held.clear()
            self._skipping = True
        else:
            self._held += part


class Columns:
    """Arrow IPC.

    Args:
        service: Lends threads in which batches are read.
        most: Maximum number of documents of a part.
        longest: Maximum bytes of a document.
        largest: Maximum bytes of a record batch.
        memory: Counts the bytes that are kept.
        deadline: The time that a record batch may take.
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

    def __init__(
        self, service: Service, most: int, longest: int, largest: int, memory: Reservation, deadline: Deadline
    ) -> None:
        self._service = service
        self._most, self._longest, self._largest = most, longest, largest
        self._memory, self._deadline = memory, deadline
        self._out = io.BytesIO()
        self._writer = pa.ipc.new_stream(self._out, self.schema)

    async def parts(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[Part]:
        """Yields parts of the record batches. No thread is used while bytes come."""
        messages = ArrowMessageReader(chunks, self._largest, self._memory, self._deadline)
        first = await messages.next()
        schema = await self._service.run_stream_work(partial(_opened, first))
        line = 1
        while (message := await messages.next()) is not None:
            batch, starts = await self._service.run_stream_work(partial(self._cut, message, schema))
            if not len(batch):
                # counted as a document, for there may be no end of batches without rows
                yield Part(1, len(message.data), list)
            for start, end in pairwise(starts):
                some = batch.slice(start, end - start)
                size = len(message.data) * (end - start) // len(batch)
                yield Part(end - start, size, partial(self._items, some, line))
                line += end - start

    def _cut(self, message: Message, schema: pa.Schema) -> tuple[pa.RecordBatch, list[int]]:
        """Reads a batch; returns it and the rows at which its parts begin and end."""
        batch = read_batch(message, schema)
        ends = np.cumsum(_sizes_of(_documents_of(batch)))
        starts = [0]
        while starts[-1] < len(batch):
            before = ends[starts[-1] - 1] if starts[-1] else 0
            fits = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
            starts.append(max(starts[-1] + 1, min(starts[-1] + self._most, fits)))
        return batch, starts

    def _items(self, batch: pa.RecordBatch, first: int) -> list[Item]:
        names = batch["id"].to_pylist() if "id" in batch.schema.names else [None] * len(batch)
        column = _documents_of(batch)
        sizes = _sizes_of(column)
        items = []
        for at, name in enumerate(names):
            if not column[at].is_valid:
                problem = ProblemError("invalid-request", "the document is null")
                items.append(Item(first + at, name, None, problem))
            elif sizes[at] > self._longest:
                problem = ProblemError("too-large", f"the document has more than {self._longest:,} bytes")
                items.append(Item(first + at, name, None, problem))
            else:
                value = column[at].as_py()
                document = value if isinstance(value, str) else np.asarray(value, np.float32)
                items.append(Item(first + at, name, document, None))
        return items

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
        raise ProblemError("invalid-request", f"two columns of {', '.join(schema.names)[:NAMES_SHOWN]} have the same name")
    if encoded := [field.name for field in schema if pa.types.is_dictionary(field.type)]:
        raise ProblemError("invalid-request", f"column {encoded[0]} is encoded by a dictionary; send it plain, or not at all")
    given = [name for name in ("text", "vector") if name in kinds]
    if len(given) != 1:
        names = ", ".join(kinds)[:NAMES_SHOWN]
        raise ProblemError("invalid-request", f"columns {names} have not one of text and vector", field="/text")
    named_ = {"id": kinds.get("id", pa.string()), "text": kinds.get("text", pa.string())}
    for name, kind in named_.items():
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise ProblemError("invalid-request", f"column {name} is {kind}, not string", field=f"/{name}")
    vector = kinds.get("vector")
    if vector is not None and pa.types.is_fixed_size_list(vector) and vector.list_size < 1:
        raise ProblemError("invalid-request", "column vector has vectors of no numbers", field="/vector")
    if vector is not None and not (
        (pa.types.is_fixed_size_list(vector) or pa.types.is_list(vector) or pa.types.is_large_list(vector))
        and (pa.types.is_floating(vector.value_type) or pa.types.is_integer(vector.value_type))
    ):
        raise ProblemError("invalid-request", f"column vector is {vector}, not a list of numbers", field="/vector")


def _opened(message: Message | None) -> pa.Schema:
    """Reads the schema of a stream, and checks that its columns are documents."""
    schema = read_schema(message)
    try:
        _check_columns(schema)
    except UnicodeDecodeError as error:
        # pyarrow decodes names when they are looked at
        raise ProblemError("invalid-request", "the name of a column is not valid UTF-8") from error
    return schema


def _documents_of(batch: pa.RecordBatch) -> pa.Array:
    """Returns the column that has the documents."""
    return batch["text" if "text" in batch.schema.names else "vector"]


def _sizes_of(documents: pa.Array) -> np.ndarray:
    """Returns the bytes of each document (int64), without unfolding one."""
    if pa.types.is_string(documents.type) or pa.types.is_large_string(documents.type):
        lengths, width = pc.binary_length(documents), 1
    else:
        lengths, width = pc.list_value_length(documents), documents.type.value_type.bit_width // 8
    found: np.ndarray = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) * width
    return found


async def _chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


class Segment:
    """Answers that are written to the end and read from the beginning: in memory while they are few, else in one file.

    The file has no buffer, so that a disk that is full is noticed by `write`, which then has changed nothing.
    """

    def __init__(self) -> None:
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self.written = 0
        self.read_so_far = 0

    def write(self, data: bytes) -> None:
        """Adds bytes.

        Raises:
            ProblemError: If the disk is full, or fails. What was added before can still be read.
        """
        try:
            self._write(data)
        except OSError as error:
            raise ProblemError("busy", "the server has no room for answers that are not read", retry_after=1.0) from error
        self.written += len(data)

    def _write(self, data: bytes) -> None:
        if self._file is None and self.written + len(data) <= IN_MEMORY:
            self._memory += data
            return
        if self._file is None:
            file: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed by close)
            try:
                _write_at(file, bytes(self._memory), 0)
            except OSError:
                file.close()
                raise
            self._file = file
            self._memory.clear()
        _write_at(self._file, data, self.written)

    def read(self, most: int) -> bytes:
        """Returns the next bytes."""
        size = min(most, self.written - self.read_so_far)
        if self._file is None:
            found = bytes(self._memory[self.read_so_far : self.read_so_far + size])
        else:
            found = os.pread(self._file.fileno(), size, self.read_so_far)
        self.read_so_far += len(found)
        return found

    def close(self) -> None:
        """Deletes the file."""
        if self._file is not None:
            self._file.close()


def _write_at(file: IO[bytes], data: bytes, place: int) -> None:
    """Writes all of some bytes at a place of a file, also if the system takes them in parts."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(file.fileno(), rest, place)
        rest = rest[count:]
        place += count


class Spool:
    """Bytes that one side writes and the other reads later, in memory while they are few, else in files without names.

    Args:
        holding: Counts the bytes that wait. A writer for which there is no room waits until the reader has read some.
    """

    def __init__(self, holding: Reservation) -> None:
        self._holding = holding
        self._segments = deque[Segment]()
        self._last = b""
        self._waiting = 0
        self._ended = False
        self._more = asyncio.Event()

    async def write(self, data: bytes) -> None:
        """Adds bytes; waits until there is room for them.

        Raises:
            ProblemError: If the reader did not read enough in time, or the disk is full.
        """
        for start in range(0, len(data), READ):
            await self._write(data[start : start + READ])

    async def _write(self, data: bytes) -> None:
        try:
            await self._holding.grow(self._waiting + len(data))
        except ProblemError as problem:
            raise ProblemError(
                "too-large", f"{self._waiting:,} bytes of answers are not read; read them meanwhile"
            ) from problem
        if not self._segments or self._segments[-1].written >= SEGMENT:
            self._segments.append(Segment())
        self._segments[-1].write(data)
        self._waiting += len(data)
        self._more.set()

    def write_last(self, data: bytes) -> None:
        """Adds bytes that are few and must not wait, at the end."""
        self._last = data
        self._more.set()

    def end(self) -> None:
        """Says that there will be no more."""
        self._ended = True
        self._more.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields what was written, as it comes, to its end."""
        while True:
            while self._waiting:
                yield self._next()
            if self._ended:
                break
            self._more.clear()
            await self._more.wait()
        if self._last:
            yield self._last

    def _next(self) -> bytes:
        segment = self._segments[0]
        found = segment.read(READ)
        self._waiting -= len(found)
        self._holding.shrink(self._waiting)
        if segment.read_so_far == segment.written:
            self._segments.popleft().close()
        return found

    def close(self) -> None:
        """Deletes the files."""
        while self._segments:
            self._segments.popleft().close()
        self._holding.shrink()
