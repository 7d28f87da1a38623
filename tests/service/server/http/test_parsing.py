"""Tests of the parsing of request bodies."""

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fastapi import Request
from pydantic import Field

from nearkin.service.server.http.callers import Caller
from nearkin.service.server.http.parsing import (
    JSON,
    MAX_JSON_DEPTH,
    body_schema,
    check_json_shape,
    parse_json,
    read_body,
    request_media_type,
)
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import ResourcePool
from nearkin.service.server.routes import models
from nearkin.service.server.routes.models import (
    MAX_JSON_MEMBERS,
    DecisionsRequest,
    DocumentPart,
    Model,
    QueryRequest,
    UpsertRequest,
)
from tests.service.server.exchange import run, running
from tests.service.server.hostile_json import HOSTILE


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


class Name(Model):
    """A body with a short list and a number."""

    max_json_values: ClassVar[int] = 5
    names: list[str] = Field(max_length=3)
    size: int = Field(default=1, ge=1)


def test_body_is_validated_as_its_model() -> None:
    assert parse_json(b'{"names": ["a", "b"]}', Name).names == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "code", "field", "message"),
    [
        (b"", "not-json", None, "EOF"),
        (b"{", "not-json", None, "EOF"),
        (b"\xff", "not-json", None, "not-json: "),
        (b'{"names": ["\\ud800"]}', "not-json", None, "not-json: "),
        (b"[]", "invalid-request", None, "the body: "),
        (b"{}", "invalid-request", "/names", "/names: "),
        (b'{"names": ["a"], "size": 0}', "invalid-request", "/size", "greater than or equal to 1"),
        (b'{"names": ["a", 7]}', "invalid-request", "/names/1", "valid string"),
        (b'{"names": [], "more": 1, "size": 0}', "invalid-request", "/size", r"\(and 1 more\)"),
    ],
)
def test_invalid_body_is_a_problem_that_names_its_first_field(
    body: bytes, code: str, field: str | None, message: str
) -> None:
    with pytest.raises(ProblemError, match=message) as invalid:
        parse_json(body, Name)
    assert (invalid.value.code, invalid.value.field) == (code, field)


@pytest.mark.promise("Problems do not repeat texts.")
def test_problem_does_not_repeat_what_was_sent() -> None:
    for body in (b'{"names": "secret"}', b'{"names": [], "size": "secret"}', b'{"names": secret}'):
        with pytest.raises(ProblemError) as invalid:
            parse_json(body, Name)
        assert "secret" not in str(invalid.value)


@pytest.mark.parametrize(
    ("body", "unit"),
    [
        (b"[1,2,3,4,5,6]", "values"),
        (b"[" * 9 + b"]" * 9, "values"),
        (b"[" * 5 + b'"' + b":," * 100, None),
        (b'{"a":' * 5 + b"1" + b"}" * 5, None),
    ],
)
def test_json_with_too_many_values_is_rejected_with_the_limit(
    body: bytes, unit: str | None
) -> None:
    if unit is None:
        check_json_shape(body, 5)
        return
    with pytest.raises(ProblemError, match=f"{unit}; the limit is 5"):
        check_json_shape(body, 5)


def test_members_and_nested_brackets_are_limited_however_many_values_are_allowed() -> None:
    check_json_shape(b"[" * MAX_JSON_DEPTH, 100)
    with pytest.raises(ProblemError, match=r"9 nested brackets; the limit is 8"):
        check_json_shape(b"[" * (MAX_JSON_DEPTH + 1), 100)
    check_json_shape(b":" * MAX_JSON_MEMBERS, 100)
    with pytest.raises(ProblemError, match=r"65 members; the limit is 64"):
        check_json_shape(b":" * (MAX_JSON_MEMBERS + 1), 100)


def test_members_of_one_object_are_limited_however_many_a_body_may_have() -> None:
    objects = b'[{"a":0},{"a":0,"b":{"c":{}}}]'
    check_json_shape(b"[" + b",".join([objects] * 50) + b"]", 1000, 1000)
    members = b",".join([b'"a":{"b":0}'] * (MAX_JSON_MEMBERS + 1))
    with pytest.raises(ProblemError, match=r"65 members in one object; the limit is 64"):
        check_json_shape(b"{" + members + b"}", 1000, 1000)


@pytest.mark.promise("JSON of every size is bounded before it is parsed.")
@pytest.mark.parametrize("model", [UpsertRequest, QueryRequest, DecisionsRequest, DocumentPart])
@pytest.mark.parametrize("members", [MAX_JSON_MEMBERS + 1, 2000])
def test_bodies_of_any_size_are_counted_before_they_are_parsed(
    model: type[Model], members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "model_validate_json", None)
    body = b"{" + b",".join(b'"%x":0' % at for at in range(members)) + b"}"
    with pytest.raises(ProblemError, match="members"):
        parse_json(body, model)
    with pytest.raises(ProblemError, match="nested brackets"):
        parse_json(b"[" * (MAX_JSON_DEPTH + 1), model)


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        (None, JSON),
        ("application/json", JSON),
        ("Application/JSON; charset=utf-8", JSON),
        (" text/plain ;q=1", "text/plain"),
        ("", ""),
    ],
)
def test_media_type_has_no_parameters(header: str | None, media_type: str) -> None:
    headers = {} if header is None else {"content-type": header}
    assert request_media_type(request_of(headers)) == media_type


def request_of(headers: dict[str, str], *chunks: bytes) -> Request:
    """Returns a request whose body arrives in chunks."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})
    arriving = iter(messages)

    async def receive() -> Any:
        return next(arriving)

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": raw, "state": {}}
    return Request(scope, receive)


class ByteCounts:
    """The part of a service that counts bytes."""

    def __init__(self, total: int) -> None:
        self.memory = ResourcePool("bytes", total, 1.0)
        self.admitted: list[int] = []

    def admit_bytes(self, caller: Caller, size: int) -> None:
        self.admitted.append(size)


@pytest.mark.parametrize(
    "headers",
    [{}, {"content-length": "6"}, {"content-length": "six"}, {"content-length": "\u00b2"}],
    ids=["chunked", "announced", "not a number", "a digit that is not decimal"],
)
def test_bytes_of_a_body_are_counted_until_the_request_ends(headers: dict[str, str]) -> None:
    counts: Any = ByteCounts(100)
    request = request_of(headers, b"abc", b"def")
    with ExitStack() as reservations:
        request.state.reservations = reservations
        assert asyncio.run(read_body(request, counts)) == b"abcdef"
        assert counts.memory.used == 6
    assert counts.memory.used == 0
    assert counts.admitted == [6]


@pytest.mark.parametrize("headers", [{}, {"content-length": "60"}], ids=["chunked", "announced"])
def test_body_without_room_in_memory_is_rejected_and_counts_no_more(
    headers: dict[str, str],
) -> None:
    counts: Any = ByteCounts(50)
    request = request_of(headers, b"x" * 30, b"x" * 30)
    with ExitStack() as reservations:
        request.state.reservations = reservations
        with pytest.raises(ProblemError, match="50 bytes are in use"):
            asyncio.run(read_body(request, counts))
    assert counts.memory.used == 0
    assert counts.admitted == []


def test_schema_of_a_body_refers_to_its_model() -> None:
    content = body_schema(Name)["requestBody"]["content"]  # type: ignore[index]
    assert content == {JSON: {"schema": {"$ref": "#/components/schemas/Name"}}}
