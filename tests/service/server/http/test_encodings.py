"""Compressed request bodies: single requests, streams, bombs and what is not gzip."""

import asyncio
import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearkin.service.server.http.encodings import MAX_PART, decode_body
from nearkin.service.server.http.problems import ProblemError
from tests.service.server.api_operations import JSON, TEXT, example_request, operations
from tests.service.server.conftest import Serve
from tests.service.server.console.pages import SAME_ORIGIN
from tests.service.server.exchange import ARROW, NDJSON, run, running
from tests.services import wait_until

DOCUMENT = {"id": "one", "text": "a text of some words that another one may resemble"}
PATH = "/v1/scopes/ann/documents"


def line(number: int) -> bytes:
    return json.dumps({**DOCUMENT, "id": str(number)}).encode() + b"\n"


async def decode(
    parts: list[bytes], encoding: bytes = b"gzip", limit: int = 1 << 20
) -> list[bytes]:
    """Returns the parts of a decompressed body."""
    messages = [
        {"type": "http.request", "body": part, "more_body": number < len(parts)}
        for number, part in enumerate(parts, start=1)
    ]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    headers = [(b"content-encoding", encoding), (b"content-length", b"9"), (b"x-other", b"1")]
    scope: dict[str, Any] = {"headers": headers}
    decoded = decode_body(scope, receive, limit)
    if decoded is not receive:
        assert scope["headers"] == [(b"x-other", b"1")]
    received = []
    while True:
        message = await decoded()
        received.append(message["body"])
        if not message["more_body"]:
            return received


@pytest.mark.parametrize("size", [0, 1, MAX_PART - 1, MAX_PART, MAX_PART + 1, 5 * MAX_PART])
@pytest.mark.parametrize("step", [1 << 20, 7])
def test_bodies_are_decompressed_in_parts(size: int, step: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    packed = gzip.compress(content)
    parts = [packed[start : start + step] for start in range(0, len(packed), step)]
    received = asyncio.run(decode(parts))
    assert b"".join(received) == content
    assert max(map(len, received)) <= MAX_PART


def test_several_members_of_gzip_are_one_body() -> None:
    packed = b"".join(map(gzip.compress, (b"one ", b"", b"two")))
    for parts in ([packed], [packed[:30], packed[30:]], [bytes([byte]) for byte in packed]):
        assert b"".join(asyncio.run(decode(parts))) == b"one two"


@pytest.mark.parametrize("encoding", [b"identity", b"", b"GZIP", b" x-gzip "])
def test_encodings_have_several_names(encoding: bytes) -> None:
    is_packed = b"gzip" in encoding.lower()
    body = gzip.compress(b"text") if is_packed else b"text"
    assert b"".join(asyncio.run(decode([body], encoding))) == b"text"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"plain text",
        zlib.compress(b"zlib and not gzip"),
        gzip.compress(b"whole")[:-1],
        gzip.compress(b"whole") + b"garbage",
        gzip.compress(b"damaged")[:-6] + b"xxxxxx",
    ],
    ids=["empty", "plain", "zlib", "cut", "followed", "damaged"],
)
def test_what_is_not_gzip_is_rejected(body: bytes) -> None:
    with pytest.raises(ProblemError, match="gzip") as caught:
        asyncio.run(decode([body]))
    assert caught.value.status == 422


def test_a_bomb_is_decompressed_up_to_the_limit() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    assert len(bomb) < MAX_PART * 2
    with pytest.raises(ProblemError, match=r"the decompressed body has more than 1,000,000 bytes"):
        asyncio.run(decode([bomb], limit=1_000_000))


def test_other_encodings_are_answered_with_what_is_accepted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "ann") as app:
            for encoding in ("br", "zstd", "deflate", "gzip, gzip", "nonsense"):
                for kind in ("application/json", NDJSON, ARROW):
                    answer = await app.post("ann", PATH, line(1), kind=kind, encoding=encoding)
                    assert await answer.status() == 415
                    problem = json.loads(answer.body)
                    assert problem["code"] == "unsupported-media-type"
                    assert "Content-Encoding: gzip" in problem["detail"]
                    assert answer.headers["accept-encoding"] == "gzip"

    run(test())


def test_single_documents_and_streams_may_be_compressed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "ann") as app:
            packed = gzip.compress(json.dumps(DOCUMENT).encode())
            answer = await app.post("ann", PATH, packed, encoding="gzip")
            assert (await answer.status(), json.loads(answer.body)["kind"]) == (200, "new")
            lines = gzip.compress(b"".join(map(line, range(300))))
            answer = await app.post("ann", PATH, lines, kind=NDJSON, encoding="gzip")
            assert await answer.status() == 200
            outcomes = [json.loads(text) for text in answer.body.splitlines()]
            assert [outcome["kind"] for outcome in outcomes] == ["match"] * 300
            out = io.BytesIO()
            with pa.ipc.new_stream(out, pa.schema([("text", pa.string())])) as writer:
                writer.write_batch(pa.record_batch({"text": [DOCUMENT["text"]] * 5}))
            arrow = gzip.compress(out.getvalue())
            answer = await app.post("ann", PATH, arrow, kind=ARROW, encoding="gzip")
            table = pa.ipc.open_stream(bytes(answer.body)).read_all()
            assert table["kind"].to_pylist()[0] == "match"
            assert len(table) == 5
            plain = await app.post("ann", PATH, json.dumps(DOCUMENT).encode(), encoding="identity")
            assert await plain.status() == 200

    run(test())


def test_lines_of_a_compressed_stream_are_answered_as_they_come(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "ann") as app:
            stream = app.stream("ann", encoding="gzip")
            packer = zlib.compressobj(wbits=31)
            stream.send(packer.compress(line(1)) + packer.flush(zlib.Z_SYNC_FLUSH))
            assert await stream.status() == 200
            while not stream.body:
                await asyncio.sleep(0.005)
            assert json.loads(stream.body)["kind"] == "new"
            stream.send(packer.compress(line(2)) + packer.flush(), more=False)
            answers = (await stream.finish()).splitlines()
            assert [json.loads(answer)["line"] for answer in answers] == [1, 2]

    run(test())


def test_decompressed_bodies_have_the_limits_of_others(tmp_path: Path) -> None:
    async def test() -> None:
        settings: dict[str, Any] = {"max_body": 2_000_000, "max_stream": 1_000_000}
        async with running(tmp_path, "ann", **settings) as app:
            bomb = gzip.compress(b'{"text": "' + b"a " * 5_000_000 + b'"}')
            answer = await app.post("ann", PATH, bomb, encoding="gzip")
            assert await answer.status() == 413
            assert "the decompressed body has more than" in json.loads(answer.body)["detail"]
            lines = gzip.compress(line(1) * 20_000)
            answer = await app.post("ann", PATH, lines, kind=NDJSON, encoding="gzip")
            last = json.loads(answer.body.splitlines()[-1])
            assert (last["line"], last["problem"]["code"]) == (0, "too-large")
            cut = gzip.compress(line(1) * 3)[:-9]
            answer = await app.post("ann", PATH, cut, kind=NDJSON, encoding="gzip")
            last = json.loads(answer.body.splitlines()[-1])
            assert (last["line"], last["problem"]["code"]) == (0, "invalid-request")

    run(test())


BOMB = gzip.compress(bytes(50_000_000))
"""A body of 50 kB that becomes 50 MB."""


def test_every_route_that_takes_a_body_reads_gzip_within_its_limits(
    serve: Serve, tmp_path: Path
) -> None:
    shadow = {"shadow_store": f"sqlite:///{tmp_path}/b.db", "shadow_bands": 32, "shadow_rows": 4}
    client = serve(store=f"sqlite:///{tmp_path}/a.db", index={"passages": "4"}, **shadow)
    for id, word in (("one", "woods"), ("two", "valley")):
        body = {"id": id, "text": TEXT.format(word)}
        client.post("/v1/scopes/shop/documents", json=body).raise_for_status()
    wait_until(lambda: client.get("/v1/shadow").json()["filled"], "the shadow index is filled")
    bodies = 0
    for method, path, operation in operations(client):
        request = example_request(path, operation)
        content = json.dumps(request.pop("json")).encode()
        for kind in operation.get("requestBody", {}).get("content", ()):
            bodies += 1
            answers = [
                client.request(
                    method,
                    **request,
                    content=sent,
                    headers={"content-type": kind, "content-encoding": encoding},
                )
                for sent, encoding in (
                    (gzip.compress(content), "gzip"),
                    (BOMB, "gzip"),
                    (b"x", "br"),
                )
            ]
            assert answers[0].is_success or kind == ARROW, (path, kind)
            if kind == JSON:
                assert answers[1].json()["code"] == "too-large", path
            assert "problem" in answers[1].text or not answers[1].is_success, (path, kind)
            assert answers[2].json()["code"] == "unsupported-media-type", (path, kind)
    assert bodies == 14


@pytest.mark.parametrize(
    ("path", "kind", "content", "status"),
    [
        ("login", "application/x-www-form-urlencoded", b"token=x", 303),
        ("try", JSON, b'{"text": "some words", "scope": "a"}', 200),
    ],
)
def test_the_console_reads_gzip_within_its_limits(
    serve: Serve, path: str, kind: str, content: bytes, status: int
) -> None:
    client = serve()
    for sent, encoding, expected in (
        (gzip.compress(content), "gzip", status),
        (BOMB, "gzip", 413),
        (b"x", "gzip", 422),
        (b"x", "br", 415),
    ):
        headers = {**SAME_ORIGIN, "content-type": kind, "content-encoding": encoding}
        answer = client.post(
            f"/console/{path}", content=sent, headers=headers, follow_redirects=False
        )
        assert answer.status_code == expected, (sent[:10], answer.text)
