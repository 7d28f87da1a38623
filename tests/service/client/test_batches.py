"""Tests of upserts of many documents, in JSON lines and in the Arrow format."""

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.service.client import batches as client_batches
from nearkin.service.client.call import to_json_line
from tests.service.client.conftest import (
    DONE,
    SHORT_RETRIES,
    ClientMaker,
    ScriptedServer,
    lines_of,
    texts,
)

BUSY = {"code": "store-unavailable", "detail": "later", "status": 503}


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_outcomes_come_in_order_with_refused_lines_among_them(
    client: Any, scope: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_batches, "REQUEST_DOCUMENTS", at_once)
    documents = [
        nk.index_types.NewDocument(text, f"n{number}") for number, text in enumerate(texts(20, 2))
    ]
    documents[3] = nk.index_types.NewDocument("", "bad\x01id")
    documents[11] = nk.index_types.NewDocument("half a character \ud800", "n11")
    lines = list(client.upsert_many(scope, iter(documents)))
    refused = {
        number: line.line for number, line in enumerate(lines) if isinstance(line, nk.ServiceError)
    }
    assert refused == {3: 4, 11: 12}
    assert [line.id for number, line in enumerate(lines) if number not in refused] == [
        new.id for number, new in enumerate(documents) if number not in refused
    ]


def test_tables_and_readers_of_batches_are_upserted(client: Any, scope: str) -> None:
    table = pa.table(
        {
            "id": [f"n{number}" for number in range(40)],
            "text": [*texts(39, 3), None],
            "other": range(40),
        }
    )
    for given in (
        table,
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7)),
    ):
        lines = list(client.upsert_many(scope, given))
        assert [line.id for line in lines[:39]] == table["id"].to_pylist()[:39]
        assert (lines[39].line, lines[39].code) == (40, "invalid-request")


def test_a_table_larger_than_a_request_is_split(client: Any, scope: str) -> None:
    table = pa.table({"text": [text * 20 for text in texts(1500, 6)]})
    assert [type(line).__name__ for line in client.upsert_many(scope, table)] == ["Outcome"] * 1500


def test_an_id_column_of_another_type_is_refused(client: Any, scope: str) -> None:
    with pytest.raises(nk.ServiceError, match="column id has type int64; send string"):
        list(client.upsert_many(scope, pa.table({"id": [1], "text": ["a"]})))


def test_no_documents_give_no_outcomes(client: Any, scope: str) -> None:
    assert list(client.upsert_many(scope, [])) == []
    assert list(client.upsert_many(scope, pa.table({"text": pa.array([], pa.string())}))) == []


def test_documents_are_read_only_as_outcomes_are_taken(address: str, scope: str) -> None:
    read = 0

    def documents() -> Iterator[str]:
        nonlocal read
        for text in texts(3 * client_batches.REQUEST_DOCUMENTS, 4):
            read += 1
            yield text

    with nk.Client(address) as client:
        lines = client.upsert_many(scope, documents())
        next(lines)
        assert read == client_batches.REQUEST_DOCUMENTS


def test_documents_may_be_an_asynchronous_iterable(address: str, scope: str) -> None:
    async def main() -> list[str]:
        async def documents() -> Any:
            for text in texts(5, 5):
                await asyncio.sleep(0)
                yield text

        async with nk.AsyncClient(address) as client:
            return [line.kind async for line in client.upsert_many(scope, documents())]

    assert asyncio.run(main()) == ["new"] * 5


@pytest.mark.parametrize("document", [None, 3, {"text": "a"}, b"bytes"])
def test_a_document_of_another_type_is_a_usage_error(client: Any, document: Any) -> None:
    with pytest.raises(nk.UsageError, match=r"document=.* is of type \w+; give a text, a vector"):
        client.upsert("a", document)


def test_vectors_of_each_kind_are_sent_as_numbers() -> None:
    for vector in (
        [1.0, 2.0],
        (1.0, 2.0),
        np.array([1, 2], np.float32),
        np.arange(1.0, 5.0)[::1][:2],
    ):
        assert json.loads(to_json_line(nk.index_types.NewDocument(vector, "v"))) == {
            "vector": [1.0, 2.0],
            "id": "v",
        }


def test_a_batch_with_a_temporary_refusal_is_sent_again_as_a_whole(
    make_client: ClientMaker,
) -> None:
    first = lines_of({"line": 1, **DONE}, {"line": 2, "problem": BUSY})
    cut = lines_of({"line": 1, **DONE})
    stopped = lines_of({"line": 1, **DONE}, {"line": 0, "problem": BUSY})
    server = ScriptedServer(first, cut, stopped, lines_of({"line": 1, **DONE}, {"line": 2, **DONE}))
    lines = list(
        make_client(transport=server.transport, retries=SHORT_RETRIES).upsert_many("s", ["x", "y"])
    )
    assert [line.kind for line in lines] == ["new", "new"]
    assert {request.content for _, request in server.requests} == {b'{"text":"x"}\n{"text":"y"}'}


def test_a_line_that_is_refused_each_time_is_returned_as_its_error(
    make_client: ClientMaker,
) -> None:
    server = ScriptedServer(
        *[lines_of({"line": 1, **DONE}, {"line": 2, "problem": BUSY}) for _ in range(4)]
    )
    done, refused = make_client(transport=server.transport, retries=SHORT_RETRIES).upsert_many(
        "s", ["x", "y"]
    )
    assert (done.kind, refused.code, refused.line) == ("new", "store-unavailable", 2)


@pytest.mark.parametrize("documents", [pytest.param(200_000, marks=pytest.mark.full), 4_000])
@pytest.mark.parametrize("form", ["lines", "columns"])
def test_the_client_keeps_at_most_two_requests_of_documents_in_memory(
    address: str, scope: str, documents: int, form: str
) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, documents, 500):
            yield pa.RecordBatch.from_pydict({"text": texts(500, 10**6 + start)})

    lines = (text for batch in batches() for text in batch["text"].to_pylist())
    with nk.Client(address) as client:
        list(client.upsert_many(scope, ["warm"]))
        schema = pa.schema([("text", pa.string())])
        given = lines if form == "lines" else pa.RecordBatchReader.from_batches(schema, batches())
        tracemalloc.start()
        done = sum(1 for _ in client.upsert_many(scope, given))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert done == documents
    assert peak < 20_000_000
