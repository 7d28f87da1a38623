"""Responses to streams of documents."""

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from starlette.requests import ClientDisconnect

from nearkin.server.streams.ndjson import NdjsonFormat
from nearkin.server.streams.spool import Spool
from tests.server.conftest import Serve


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
