"""Streams of documents as Arrow IPC, with a column of texts, of vectors, or both."""

import io
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.index.documents import Document, TextAndVector
from nearkin.index.entry import Outcome
from nearkin.service.server.http.middleware import ARROW_STREAM
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import Reservation
from nearkin.service.server.micro_batcher import BATCH_BYTES
from nearkin.service.server.service import Service
from nearkin.service.server.streams.arrow_messages import (
    ArrowMessage,
    ArrowMessageReader,
    read_batch,
    read_schema,
)
from nearkin.service.server.streams.format import (
    ProgressDeadline,
    StreamAnswer,
    StreamItem,
    StreamPart,
)

MAX_QUOTED_NAMES = 200
"""Maximum number of characters of column names that an error repeats. A schema may have a megabyte
of names."""
CONTENT_COLUMNS = ("text", "vector")
OUTCOME_COLUMNS = ("kind", "layer", "id", "cluster", "representative", "similarity", "exact")
SCHEMA = pa.schema(
    [
        ("line", pa.int64()),
        ("kind", pa.string()),
        ("layer", pa.string()),
        ("id", pa.string()),
        ("cluster", pa.string()),
        ("representative", pa.string()),
        ("similarity", pa.float64()),
        ("exact", pa.bool_()),
        ("problem", pa.string()),
    ]
)
"""The columns of the answers."""
EVIDENCE_SCHEMA = pa.schema(
    [
        *SCHEMA,
        ("evidence_text", pa.float64()),
        ("evidence_vector", pa.float64()),
        ("evidence_text_reached", pa.bool_()),
        ("evidence_vector_reached", pa.bool_()),
    ]
)
"""The columns of the answers of an index of texts and vectors."""


RELATED_FIELD = pa.field("related", pa.string())
"""The column of related documents, as JSON, of an index with the setting `related`."""
BLOCKED_FIELD = pa.field("blocked_by", pa.string())
"""The column of entries of the blocklist, of a server with the setting `blocklist`."""


class ArrowFormat:
    """The Arrow IPC format of requests and answers.

    Args:
        max_document: Maximum size of a document, in bytes.
        max_message: Maximum size of a record batch, in bytes.
        memory: Counts the bytes that are kept.
    """

    media_type = ARROW_STREAM
    schema = SCHEMA

    def __init__(
        self,
        service: Service,
        max_rows: int,
        max_document: int,
        max_message: int,
        memory: Reservation,
        deadline: ProgressDeadline,
    ) -> None:
        self._service = service
        self._max_rows = max_rows
        self._max_document = max_document
        self._max_message = max_message
        self._memory = memory
        self._deadline = deadline
        self._buffer = io.BytesIO()
        self._has_evidence = service.index.holds_both
        if self._has_evidence:
            self.schema = EVIDENCE_SCHEMA
        self._has_related = service.index.settings.related is not None
        if self._has_related:
            self.schema = self.schema.append(RELATED_FIELD)
        self._has_blocklist = service.index.blocklist is not None
        if self._has_blocklist:
            self.schema = self.schema.append(BLOCKED_FIELD)
        self._writer = pa.ipc.new_stream(self._buffer, self.schema)

    async def parts(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[StreamPart]:
        """Yields parts of the record batches. No thread is used while bytes arrive."""
        messages = ArrowMessageReader(chunks, self._max_message, self._memory, self._deadline)
        first_message = await messages.next()
        schema = await self._service.run_stream_work(partial(_read_checked_schema, first_message))
        line = 1
        while (message := await messages.next()) is not None:
            batch, starts = await self._service.run_stream_work(
                partial(self._split_batch, message, schema)
            )
            if not len(batch):
                # counted as a document, because a stream may have any number of batches without
                # rows
                yield StreamPart(1, len(message.data), list)
            for start, end in pairwise(starts):
                rows = batch.slice(start, end - start)
                size = len(message.data) * (end - start) // len(batch)
                yield StreamPart(end - start, size, partial(self._parse, rows, line))
                line += end - start

    def _split_batch(
        self, message: ArrowMessage, schema: pa.Schema
    ) -> tuple[pa.RecordBatch, list[int]]:
        """Reads a batch, and returns it with the rows at which its parts begin and end."""
        batch = read_batch(message, schema)
        ends = np.cumsum(_document_sizes(batch))
        starts = [0]
        while starts[-1] < len(batch):
            before = ends[starts[-1] - 1] if starts[-1] else 0
            fits = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
            starts.append(max(starts[-1] + 1, min(starts[-1] + self._max_rows, fits)))
        return batch, starts

    def _parse(self, batch: pa.RecordBatch, first_line: int) -> list[StreamItem]:
        ids = batch["id"].to_pylist() if "id" in batch.schema.names else [None] * len(batch)
        columns = {name: batch[name] for name in CONTENT_COLUMNS if name in batch.schema.names}
        sizes = _document_sizes(batch)
        documents = []
        for row, id in enumerate(ids):
            document: Document | None = None
            problem: ProblemError | None = None
            if not any(column[row].is_valid for column in columns.values()):
                problem = ProblemError("invalid-request", "the document is null")
            elif sizes[row] > self._max_document:
                problem = ProblemError(
                    "too-large", f"the document has more than {self._max_document:,} bytes"
                )
            else:
                members = {name: column[row].as_py() for name, column in columns.items()}
                document = _document_of(members.get("text"), members.get("vector"))
            documents.append(StreamItem(first_line + row, id, document, problem))
        return documents

    def prologue(self) -> bytes:
        """Returns the schema of the answers."""
        return self._take_buffer()

    def encode(self, answers: list[StreamAnswer]) -> bytes:
        """Returns a record batch with a row for each answer."""
        outcomes = [answer.outcome for answer in answers]
        columns: dict[str, list[Any]] = {"line": [answer.line for answer in answers]}
        for name in OUTCOME_COLUMNS:
            columns[name] = [
                None if outcome is None else getattr(outcome, name) for outcome in outcomes
            ]
        columns["problem"] = [
            None if answer.problem is None else orjson.dumps(answer.problem.to_dict()).decode()
            for answer in answers
        ]
        if self._has_evidence:
            evidence = [None if outcome is None else outcome.evidence for outcome in outcomes]
            for name in EVIDENCE_SCHEMA.names[len(SCHEMA) :]:
                columns[name] = [
                    None if known is None else getattr(known, name.removeprefix("evidence_"))
                    for known in evidence
                ]
        if self._has_related:
            columns[RELATED_FIELD.name] = [_encode_related(outcome) for outcome in outcomes]
        if self._has_blocklist:
            columns[BLOCKED_FIELD.name] = [
                None if outcome is None else outcome.blocked_by for outcome in outcomes
            ]
        self._writer.write_batch(pa.RecordBatch.from_pydict(columns, self.schema))
        return self._take_buffer()

    def epilogue(self) -> bytes:
        """Returns the end-of-stream marker."""
        self._writer.close()
        return self._take_buffer()

    def _take_buffer(self) -> bytes:
        encoded = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return encoded


def _encode_related(outcome: Outcome | None) -> str | None:
    """Returns the related documents of an outcome as JSON, or None without an outcome."""
    if outcome is None or outcome.related is None:
        return None
    return orjson.dumps(outcome.related).decode()


def _read_checked_schema(message: ArrowMessage | None) -> pa.Schema:
    """Reads the schema of a stream, and checks that its columns are documents."""
    schema = read_schema(message)
    try:
        _check_columns(schema)
    except UnicodeDecodeError as error:
        # pyarrow decodes names only when they are accessed
        raise ProblemError("invalid-request", "the name of a column is not valid UTF-8") from error
    return schema


def _check_columns(schema: pa.Schema) -> None:
    types = {field.name: field.type for field in schema}
    if len(types) < len(schema):
        names = ", ".join(schema.names)[:MAX_QUOTED_NAMES]
        raise ProblemError(
            "invalid-request", f"column names must be unique; the columns are {names}"
        )
    if encoded := [field.name for field in schema if pa.types.is_dictionary(field.type)]:
        raise ProblemError(
            "invalid-request",
            (
                f"column {encoded[0]} is dictionary-encoded; send plain values, or leave the "
                f"column "
                f"out"
            ),
        )
    if not any(name in types for name in CONTENT_COLUMNS):
        names = ", ".join(types)[:MAX_QUOTED_NAMES]
        raise ProblemError(
            "invalid-request",
            f"the stream needs a column text or a column vector; its columns are {names}",
            field="/text",
        )
    for name in ("id", "text"):
        column_type = types.get(name, pa.string())
        if not (pa.types.is_string(column_type) or pa.types.is_large_string(column_type)):
            raise ProblemError(
                "invalid-request",
                f"column {name} has type {column_type}; send string",
                field=f"/{name}",
            )
    if "vector" in types:
        _check_vector_type(types["vector"])


def _check_vector_type(vector: pa.DataType) -> None:
    if pa.types.is_fixed_size_list(vector) and vector.list_size < 1:
        raise ProblemError(
            "invalid-request", "column vector has vectors without numbers", field="/vector"
        )
    is_list = (
        pa.types.is_fixed_size_list(vector)
        or pa.types.is_list(vector)
        or pa.types.is_large_list(vector)
    )
    if not is_list or not (
        pa.types.is_floating(vector.value_type) or pa.types.is_integer(vector.value_type)
    ):
        raise ProblemError(
            "invalid-request",
            f"column vector has type {vector}; send a list of numbers",
            field="/vector",
        )


def _document_of(text: str | None, vector: Sequence[float] | None) -> Document:
    """Returns the document of a row, which has at least one of the two."""
    if vector is None:
        return text or ""
    numbers = np.asarray(vector, np.float32)
    return numbers if text is None else TextAndVector(text, numbers)


def _document_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """Returns the size of each document in bytes (int64, shape (rows,))."""
    sizes = np.zeros(len(batch), np.int64)
    for name in CONTENT_COLUMNS:
        if name in batch.schema.names:
            sizes += _column_sizes(batch[name])
    return sizes


def _column_sizes(documents: pa.Array) -> np.ndarray:
    """Returns the size of each text or vector in bytes (int64, shape (rows,))."""
    if pa.types.is_string(documents.type) or pa.types.is_large_string(documents.type):
        lengths = pc.binary_length(documents)
        width = 1
    else:
        lengths = pc.list_value_length(documents)
        width = documents.type.value_type.bit_width // 8
    sizes: np.ndarray = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) * width
    return sizes
