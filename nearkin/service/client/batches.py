"""The requests that upsert many documents, as JSON lines or in the Arrow format."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import orjson

from nearkin.errors import ServiceError
from nearkin.index.entry import Outcome
from nearkin.runtime.arrow_metadata import RECORD_BATCH, read_facts
from nearkin.service.client.call import (
    Call,
    build_outcome,
    path_in_scope,
    require_success,
    to_json_line,
    to_service_error,
)
from nearkin.service.client.models import NewDocument

if TYPE_CHECKING:
    import pyarrow as pa

    from nearkin.index.documents import Document

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
REQUEST_DOCUMENTS = 1000
"""The maximum number of documents in a request. They stay in memory until it has succeeded."""
REQUEST_BYTES = 4 << 20
"""The size in bytes from which a request takes no further documents."""
COLUMNS = ("id", "text", "vector")
"""The columns of a table that are sent."""

Line = Outcome | ServiceError
"""The outcome of a document of a batch, or the error that refused it."""


class BatchBuilder:
    """A builder of requests with many documents. It holds the documents of one request."""

    def __init__(self, scope: str) -> None:
        self._path = path_in_scope(scope, "documents")
        self._lines: list[bytes] = []
        self._size = 0
        self._sent = 0

    def add(self, new: "NewDocument | Document") -> Call[list[Line]] | None:
        """Adds a document. Returns a request if there are enough documents for one."""
        line = to_json_line(new)
        self._lines.append(line)
        self._size += len(line)
        if len(self._lines) >= REQUEST_DOCUMENTS or self._size >= REQUEST_BYTES:
            return self.take_rest()
        return None

    def take_rest(self) -> Call[list[Line]] | None:
        """Returns a request with the remaining documents, or None if there are none."""
        if not self._lines:
            return None
        call = _batch_call(
            self._path, b"\n".join(self._lines), NDJSON, _decode_lines, self._sent, len(self._lines)
        )
        self._sent += len(self._lines)
        self._lines = []
        self._size = 0
        return call


def upsert_requests(
    scope: str, documents: "Iterable[NewDocument | Document] | Any"
) -> Iterator[Call[list[Line]]]:
    """Returns the requests that upsert documents in batches.

    Documents are read as they are taken.
    """
    from nearkin.index.documents import require_several

    if is_table(documents):
        yield from table_requests(scope, documents)
        return
    require_several(documents)
    batches = BatchBuilder(scope)
    for document in documents:
        if (full := batches.add(document)) is not None:
            yield full
    if (rest := batches.take_rest()) is not None:
        yield rest


async def async_upsert_requests(
    scope: str,
    documents: "AsyncIterable[NewDocument | Document] | Iterable[NewDocument | Document] | Any",
) -> AsyncIterator[Call[list[Line]]]:
    """Does the same as `upsert_requests`. Documents may be an asynchronous iterable.

    Tables are read in a thread.
    """
    if is_table(documents):
        calls = table_requests(scope, documents)
        while (call := await asyncio.to_thread(next, calls, None)) is not None:
            yield call
    elif isinstance(documents, AsyncIterable):
        batches = BatchBuilder(scope)
        async for document in documents:
            if (full := batches.add(document)) is not None:
                yield full
        if (rest := batches.take_rest()) is not None:
            yield rest
    else:
        for call in upsert_requests(scope, documents):
            yield call


def table_requests(scope: str, table: Any) -> Iterator[Call[list[Line]]]:
    """Returns requests in the Arrow format."""
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(table)
    sent = 0
    names = [name for name in COLUMNS if name in reader.schema.names]
    for batch in reader:
        columns = batch.select(names)
        step = max(
            1, min(REQUEST_DOCUMENTS, len(columns) * REQUEST_BYTES // max(columns.nbytes, 1))
        )
        for start in range(0, len(columns), step):
            rows = columns.slice(start, step)
            yield _batch_call(
                path_in_scope(scope, "documents"),
                _to_arrow_stream(rows),
                ARROW,
                _decode_columns,
                sent,
                len(rows),
            )
            sent += len(rows)


def _to_arrow_stream(rows: "pa.RecordBatch") -> bytes:
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_batch(rows)
    return out.getvalue().to_pybytes()


def is_table(documents: object) -> bool:
    """Returns True if documents are a stream of Arrow batches."""
    return hasattr(documents, "__arrow_c_stream__")


ResponseRow = dict[str, Any]
"""The members of a line of a response. A server of another version may send others."""
Decode = Callable[[bytes, int], list[ResponseRow]]


def _batch_call(
    path: str, body: bytes, media_type: str, decode: Decode, before: int, count: int
) -> Call[list[Line]]:
    """Returns a request with documents."""

    def read(answer: httpx2.Response) -> list[Line]:
        require_success(answer)
        rows = decode(answer.content, count)
        request_id = answer.headers.get("x-request-id")
        if rows and rows[-1]["line"] == 0:
            raise to_service_error(rows[-1]["problem"], None, request_id)
        if len(rows) != count:
            raise ServiceError(
                "no-answer",
                f"the response ended after {len(rows)} of {count} lines",
                request_id=request_id,
            )
        outcomes: list[Line] = []
        for row in rows:
            if row.get("problem"):
                outcomes.append(to_service_error(row["problem"], before + row["line"], request_id))
            else:
                outcomes.append(build_outcome(row))
        return outcomes

    return Call("POST", path, read, body, media_type)


def _decode_lines(content: bytes, count: int) -> list[ResponseRow]:
    """Returns the rows of a response in JSON lines to a number of documents."""
    lines = content.splitlines()
    _require_rows(len(lines), count)
    try:
        return [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError as error:
        raise ServiceError(
            "no-answer", f"a line of the response is not valid JSON: {error}"
        ) from error


def _decode_columns(content: bytes, count: int) -> list[ResponseRow]:
    """Returns the rows of a response in the Arrow format to a number of documents.

    The response is not trusted: its types, sizes and values are checked before they are used.
    """
    import pyarrow as pa

    try:
        messages = pa.ipc.MessageReader.open_stream(content)
        schema = pa.ipc.read_schema(messages.read_next_message())
        if any(
            pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type) for field in schema
        ):
            raise ServiceError("unexpected-answer", "the response has nested or encoded columns")
        rows: list[ResponseRow] = []
        for message in messages:
            facts = read_facts(message.metadata.to_pybytes())
            if facts.kind != RECORD_BATCH or facts.compressed:
                raise ServiceError(
                    "unexpected-answer",
                    "the response has messages that are not plain record batches",
                )
            _require_rows(len(rows) + facts.rows, count)
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            rows += batch.to_pylist()
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ServiceError(
            "no-answer", f"the response is not a complete Arrow stream: {error}"
        ) from error
    return [
        {
            **row,
            "problem": row["problem"] and orjson.loads(row["problem"]),
            "evidence": _evidence_of_row(row),
            "related": row.get("related") and orjson.loads(row["related"]),
        }
        for row in rows
    ]


def _evidence_of_row(row: ResponseRow) -> dict[str, object] | None:
    """Returns the evidence of a row of a response in the Arrow format, or None without any."""
    if row.get("evidence_text_reached") is None:
        return None
    names = ("text", "vector", "text_reached", "vector_reached")
    return {name: row.get(f"evidence_{name}") for name in names}


def _require_rows(given: int, count: int) -> None:
    """Requires that a response has at most one line for each document, and one for its end."""
    if given > count + 1:
        raise ServiceError(
            "unexpected-answer", f"the response has {given:,} lines for {count:,} documents"
        )
