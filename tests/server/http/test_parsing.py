"""Tests of the parsing of request bodies."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearkin.server.routes import models
from tests.server.exchange import run, running
from tests.server.hostile_json import HOSTILE


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_is_rejected_before_parsing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser, during which no other thread runs, is given a bounded number of values whatever
    the body is."""
    parsed = list[int]()
    really = models.UpsertRequest.model_validate_json

    def counts(body: bytes) -> Any:
        parsed.append(body.count(b",") + body.count(b"["))
        return really(body)

    monkeypatch.setattr(models.UpsertRequest, "model_validate_json", counts)

    async def test() -> None:
        async with running(tmp_path, "hostile", max_line=16_000_000) as app:
            answer = await app.post("hostile", "/v1/scopes/hostile/documents", HOSTILE[name])
            assert await answer.status() in (400, 422)
            stream = app.stream("hostile")
            stream.send(HOSTILE[name], more=False)
            row = json.loads(await stream.finish())
            assert row["problem"]["code"] in ("invalid-request", "not-json")
            assert all(count <= models.UpsertRequest.max_json_values for count in parsed)

    run(test())
