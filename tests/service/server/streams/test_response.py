"""Responses to streams of documents."""

import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from nearkin.service.server.streams.ndjson import NdjsonFormat
from nearkin.service.server.streams.spool import Spool
from tests.service.server.conftest import Serve
from tests.service.server.exchange import ARROW, NDJSON, Exchange, run, running, until


def test_unread_answers_are_deleted_when_the_client_disconnects(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Spool] = []

    async def disconnect(_: NdjsonFormat, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if not chunk:
                raise ClientDisconnect
            yield chunk

    monkeypatch.setattr(NdjsonFormat, "parts", disconnect)
    monkeypatch.setattr(Spool, "close", lambda spool: closed.append(spool))
    with suppress(ClientDisconnect):
        serve().post(
            "/v1/scopes/a/documents", content=b"", headers={"content-type": "application/x-ndjson"}
        )
    assert len(closed) == 1


@pytest.mark.parametrize("kind", [NDJSON, ARROW])
@pytest.mark.parametrize("sent", [b"", b'{"id": "a", "text": "one two three"}\n{"id'])
def test_stream_ends_with_a_problem_when_the_server_stops(
    tmp_path: Path, kind: str, sent: bytes
) -> None:
    async def test() -> None:
        async with running(tmp_path, "sender") as app:
            callbacks = list[Callable[[], None]]()

            async def stopping_app(scope: Scope, receive: Receive, send: Send) -> None:
                scope["state"] = {"call_at_shutdown": callbacks.append}
                await app.app(scope, receive, send)

            path = "/v1/scopes/sender/documents"
            stream = Exchange(stopping_app, path, app.tokens["sender"], kind=kind)
            stream.send(sent if kind == NDJSON else sent and arrow_schema())
            await until(lambda: callbacks and stream.is_waiting)
            callbacks[0]()
            answer = await stream.finish()
            if kind == ARROW:
                row = pa.ipc.open_stream(answer).read_all().to_pylist()[-1]
                row["problem"] = json.loads(row["problem"])
            else:
                row = json.loads(answer.splitlines()[-1])
            assert row["line"] == 0
            assert row["problem"]["code"] == "busy"

    run(test())


def arrow_schema() -> bytes:
    """Returns the beginning of a stream of texts."""
    out = io.BytesIO()
    pa.ipc.new_stream(out, pa.schema([("text", pa.string())]))
    return out.getvalue()
