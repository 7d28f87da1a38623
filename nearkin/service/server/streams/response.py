"""Streams of documents, which are answered while they arrive, in bounded memory.

Clients may send everything before they read anything; most HTTP libraries do. Unread answers
therefore wait in unnamed files, not in memory. When too many answers wait, the server reads nothing
more from the client until the client has read some.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing, suppress
from functools import partial

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nearkin.errors import NearkinError, QuotaError, StoreError
from nearkin.index.documents import Document
from nearkin.service.server.http.auth import source_address, validate_name
from nearkin.service.server.http.callers import CURRENT_CALLER
from nearkin.service.server.http.middleware import NDJSON, problem_from_error
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import Reservation
from nearkin.service.server.http.tokens import Principal
from nearkin.service.server.service import Service
from nearkin.service.server.streams.arrow import ArrowFormat
from nearkin.service.server.streams.format import (
    ProgressDeadline,
    StreamAnswer,
    StreamFormat,
    StreamItem,
    StreamPart,
)
from nearkin.service.server.streams.ndjson import NdjsonFormat
from nearkin.service.server.streams.pacing import StreamPacer
from nearkin.service.server.streams.spool import Spool


async def answer_stream(
    request: Request, service: Service, scope: str, principal: Principal, media_type: str
) -> Response:
    """Returns a response that upserts the documents of a stream.

    A document that fails does not stop the stream.
    """
    settings = service.settings
    caller = CURRENT_CALLER.get()
    reservations: ExitStack = request.state.reservations
    service.open_streams.take(caller, 1)
    reservations.callback(service.open_streams.release, caller, 1)
    memory = Reservation(service.memory, caller, settings.idle_timeout)
    reservations.callback(memory.shrink)
    deadline = ProgressDeadline(settings.idle_timeout)
    stream_format: StreamFormat
    if media_type == NDJSON:
        stream_format = NdjsonFormat(settings.batch, settings.max_line, memory, deadline)
    else:
        stream_format = ArrowFormat(
            service, settings.batch, settings.max_line, settings.max_message, memory, deadline
        )
    unread = Reservation(service.spill, caller, settings.idle_timeout)
    reservations.callback(unread.shrink)
    spool = Spool(unread)
    pacer = StreamPacer(
        request.app.state.authenticator, service, principal, caller, source_address(request)
    )

    is_ended = False

    async def process_request() -> None:
        try:
            await spool.write(stream_format.prologue())
            async for part in stream_format.parts(request.stream()):
                await pacer.admit(part)
                pacer.require_token(scope)
                process = partial(_process_part, service, scope, stream_format, part)
                await spool.write(await service.run_stream_work(process))
            await spool.write(stream_format.epilogue())
        except (ProblemError, NearkinError, TimeoutError) as error:
            write_problem(problem_from_error(error))
        except asyncio.CancelledError:
            if not is_ended:
                raise
            write_problem(
                ProblemError(
                    "busy",
                    "the server stops; send the documents without an answer again",
                    retry_after=1.0,
                )
            )
        finally:
            spool.end()

    def write_problem(problem: ProblemError) -> None:
        # the status was sent already; the last line says why the stream ends early
        last = StreamAnswer(0, None, problem)
        spool.write_last(stream_format.encode([last]) + stream_format.epilogue())

    async def response_chunks() -> AsyncGenerator[bytes, None]:
        task = asyncio.create_task(process_request())

        def end_stream() -> None:
            nonlocal is_ended
            is_ended = True
            task.cancel()

        call_at_shutdown = getattr(request.state, "call_at_shutdown", None)
        if call_at_shutdown is not None:
            call_at_shutdown(end_stream)
        try:
            async for chunk in spool.chunks():
                yield chunk
            await task
        finally:
            task.cancel()
            try:
                with suppress(asyncio.CancelledError):
                    await task
            finally:
                # a client that disconnects while it sends ends the task with an error
                spool.close()

    return StreamResponse(response_chunks(), stream_format.media_type)


class StreamResponse(Response):
    """A response that sends what a generator yields, and leaves the request body to the generator.

    Starlette's StreamingResponse listens for a disconnect meanwhile, and would consume the rest of
    the body.
    """

    def __init__(self, content: AsyncGenerator[bytes, None], media_type: str) -> None:
        super().__init__(None, media_type=media_type)
        del self.headers["content-length"]
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        # closes the generator as soon as the client disconnects, not when the garbage collector
        # runs
        async with aclosing(self._content) as content:
            async for chunk in content:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _process_part(
    service: Service, scope: str, stream_format: StreamFormat, part: StreamPart
) -> bytes:
    """Parses a part, upserts its documents, and returns the encoded answers.

    It is called in a thread.
    """
    items = part.parse()
    if not items:
        return b""
    return stream_format.encode(_upsert_items(service, scope, items))


def _upsert_items(service: Service, scope: str, items: list[StreamItem]) -> list[StreamAnswer]:
    """Upserts documents, and returns an answer for each item, in order."""
    answers: dict[int, StreamAnswer] = {}
    valid: list[StreamItem] = []
    for item in items:
        problem = item.problem or _find_problem(service, item)
        if problem is None:
            valid.append(item)
        else:
            service.instruments.record_problem(problem.code)
            answers[item.line] = StreamAnswer(item.line, None, problem)
    if valid:
        try:
            outcomes = service.upsert_batch(
                scope, [_document_of(item) for item in valid], [item.id for item in valid]
            )
        except NearkinError as error:
            if isinstance(error, QuotaError) and len(items) > 1:
                # some of them may fit
                return [
                    answer for item in items for answer in _upsert_items(service, scope, [item])
                ]
            problem = problem_from_error(error)
            if isinstance(error, StoreError):
                service.instruments.record_store_error("stream")
            for item in valid:
                service.instruments.record_problem(problem.code)
                answers[item.line] = StreamAnswer(item.line, None, problem)
        else:
            for item, outcome in zip(valid, outcomes, strict=True):
                answers[item.line] = StreamAnswer(item.line, outcome, None)
    return [answers[item.line] for item in items]


def _document_of(item: StreamItem) -> Document:
    """Returns the document of an item without a problem."""
    assert item.document is not None
    return item.document


def _find_problem(service: Service, item: StreamItem) -> ProblemError | None:
    """Returns the problem with the id or the document of an item, or None if both are valid."""
    try:
        if item.id is not None:
            validate_name(item.id, "id")
        if item.document is not None:
            service.index.check_document(item.document)
    except (ProblemError, NearkinError) as error:
        return problem_from_error(error)
    return None
