"""Both clients, against a server of their own and against answers made up."""

import asyncio
import inspect
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.client import requests
from tests.services import nearkin_server

SOON = nk.Retries(attempts=4, first=0.001, longest=0.01)
CAT = "the cat sat on the mat and looked at the moon"
Maker = Callable[..., Any]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nearkin_server(
        tmp_path_factory.mktemp("served"), "--store", "memory://", "--batch", "16"
    ) as found:
        yield found


class Waited:
    """An AsyncClient whose every method is waited for, so that one test asks both."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.inner = nk.AsyncClient(*arguments, **fields)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def waited(*arguments: Any, **fields: Any) -> Any:
            found = getattr(self.inner, name)(*arguments, **fields)
            return self.loop.run_until_complete(
                found if inspect.isawaitable(found) else _all(found)
            )

        return waited


async def _all(values: Any) -> list[Any]:
    return [value async for value in values]


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    made: list[Any] = []

    def build(*arguments: Any, **fields: Any) -> Any:
        made.append((nk.Client if request.param == "sync" else Waited)(*arguments, **fields))
        return made[-1]

    yield build
    for client in made:
        client.close()
        if isinstance(client, Waited):
            client.loop.close()


@pytest.fixture
def client(make: Maker, address: str) -> Any:
    return make(address)


@pytest.fixture
def scope(request: pytest.FixtureRequest) -> str:
    # of a path's segment, so without a slash, which the server takes in ids alone
    return f"of {request.node.name}?".replace("/", " ")


def texts(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{number}" for number in rng.integers(0, 10**6, 12)) for _ in range(count)]


# -- every method


def test_a_piece_that_is_no_text(client: Any, scope: str) -> None:
    with pytest.raises(nk.UsageError, match="valid Unicode"):
        client.add_part(scope, "x", "half a character \ud800")


def test_documents(client: Any, scope: str) -> None:
    assert client.ready()
    first = client.upsert(scope, CAT, "one")
    assert (first.kind, first.representative, first.similarity) == ("new", "one", 1.0)
    second = client.upsert(scope, CAT + " again", "two")
    assert (second.kind, second.representative, second.duplicate) == ("match", "one", True)
    assert second.seconds
    stored = client.get(scope, "two")
    assert (stored.id, stored.representative, stored.text) == ("two", "one", CAT + " again")
    assert client.get(scope, "three") is None
    assert client.cluster(scope, "two").members == (("one", 1.0), ("two", second.similarity))
    assert client.cluster(scope, "three") is None
    assert [(match.id, match.shared > 0) for match in client.query(scope, CAT, top=1)] == [
        ("one", True)
    ]
    explained = client.explain(scope, "one", "two")
    assert (explained.verdict, explained.names, explained.similarity) == (
        "match",
        ("one", "two"),
        second.similarity,
    )
    assert explained.shingles.jaccard == pytest.approx(second.similarity)
    assert [client.remove(scope, "one"), client.remove(scope, "one")] == [True, False]


@pytest.mark.parametrize(
    "id", ["a/b", "https://kin.example/é?x=1#y", "100%25", "a b+c", ".", "..", "a/../b", "%2E"]
)
def test_ids_of_any_characters(client: Any, scope: str, id: str) -> None:
    client.upsert(scope, CAT, id)
    assert (
        client.get(scope, id).id,
        client.cluster(scope, id).representative,
        client.remove(scope, id),
    ) == (id, id, True)


def test_pieces(client: Any, scope: str) -> None:
    words = texts(1, 8)[0].split()
    assert client.add_part(scope, "whole", " ".join(words[:8])) == 6
    assert client.add_part(scope, "whole", words[6:]) == 10
    sealed = client.finish(scope, "whole")
    assert (sealed.kind, sealed.id) == ("new", "whole")
    assert client.finish(scope, "whole") is None


def test_facts(client: Any) -> None:
    facts = client.spec()
    assert (facts.threshold, facts.spec["measure"]) == (0.8, "jaccard")
    tuned = client.tune(0.7, 0.9, points=3, k=256)
    assert len(tuned.points) == 3
    assert (tuned.k, tuned.threshold) == (256, 0.7)
    assert all(
        point.recall >= 0.9 and not math.isnan(point.similarities[1]) for point in tuned.points
    )
    assert client.stats()["records"] >= 0


def test_pages_of_clusters(client: Any, scope: str) -> None:
    assert [line.kind for line in client.upsert_many(scope, texts(7, 1))] == ["new"] * 7
    pages = list(client.clusters(scope, "newest", limit=3))
    assert [len(page.clusters) for page in pages] == [3, 3, 1]
    assert pages[-1].next is None
    assert len({head.id for page in pages for head in page.clusters}) == 7


def test_a_cluster_larger_than_a_page(
    client: Any, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "CLUSTER_PART", 3)
    for number in range(8):
        client.upsert(scope, CAT, f"c{number}")
    found = client.cluster(scope, "c5")
    assert [name for name, _ in found.members] == [f"c{number}" for number in range(8)]


def test_what_a_server_refuses_is_an_error(client: Any, scope: str) -> None:
    with pytest.raises(
        nk.ServiceError, match=r"invalid-request \(422\): .*control characters"
    ) as refused:
        client.upsert(scope, CAT, "a\x00b")
    assert (refused.value.code, refused.value.status, refused.value.field) == (
        "invalid-request",
        422,
        "/id",
    )
    assert refused.value.request_id in str(refused.value)
    assert not refused.value.transient


# -- many documents


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_a_stream_in_order(
    client: Any, scope: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "REQUEST_DOCUMENTS", at_once)
    documents = [nk.NewDocument(text, f"n{number}") for number, text in enumerate(texts(20, 2))]
    documents[3] = nk.NewDocument("", "bad\x01id")
    documents[11] = nk.NewDocument("half a character \ud800", "n11")
    lines = list(client.upsert_many(scope, iter(documents)))
    refused = {
        number: line.line for number, line in enumerate(lines) if isinstance(line, nk.ServiceError)
    }
    assert refused == {3: 4, 11: 12}
    assert [line.id for number, line in enumerate(lines) if number not in refused] == [
        new.id for number, new in enumerate(documents) if number not in refused
    ]


def test_tables(client: Any, scope: str) -> None:
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


def test_tables_larger_than_a_chunk_of_a_request(client: Any, scope: str) -> None:
    table = pa.table({"text": [text * 20 for text in texts(1500, 6)]})
    assert [type(line).__name__ for line in client.upsert_many(scope, table)] == ["Outcome"] * 1500


def test_columns_that_are_none(client: Any, scope: str) -> None:
    with pytest.raises(nk.ServiceError, match="column id has type int64; send string"):
        list(client.upsert_many(scope, pa.table({"id": [1], "text": ["a"]})))


def test_an_empty_stream(client: Any, scope: str) -> None:
    assert list(client.upsert_many(scope, [])) == []
    assert list(client.upsert_many(scope, pa.table({"text": pa.array([], pa.string())}))) == []


def test_documents_are_read_as_answers_are_taken(address: str, scope: str) -> None:
    read = 0

    def documents() -> Iterator[str]:
        nonlocal read
        for text in texts(3 * requests.REQUEST_DOCUMENTS, 4):
            read += 1
            yield text

    with nk.Client(address) as client:
        lines = client.upsert_many(scope, documents())
        next(lines)
        assert read == requests.REQUEST_DOCUMENTS


def test_asynchronous_documents(address: str, scope: str) -> None:
    async def main() -> list[str]:
        async def documents() -> Any:
            for text in texts(5, 5):
                await asyncio.sleep(0)
                yield text

        async with nk.AsyncClient(address) as client:
            return [line.kind async for line in client.upsert_many(scope, documents())]

    assert asyncio.run(main()) == ["new"] * 5


@pytest.mark.parametrize("document", [None, 3, {"text": "a"}, b"bytes"])
def test_what_is_no_document(client: Any, document: Any) -> None:
    with pytest.raises(nk.UsageError, match="a document must be a text or a vector, not"):
        client.upsert("a", document)


def test_vectors_are_sent_as_numbers() -> None:
    for vector in (
        [1.0, 2.0],
        (1.0, 2.0),
        np.array([1, 2], np.float32),
        np.arange(1.0, 5.0)[::1][:2],
    ):
        assert json.loads(requests.upsert_request("a", vector, "v").body or b"") == {
            "vector": [1.0, 2.0],
            "id": "v",
        }


# -- what fails on the way


class Answers:
    """A transport that gives the answers it was made with, one after the other, and remembers what
    was asked."""

    def __init__(self, *answers: "httpx.Response | Exception") -> None:
        self.left, self.asked = list(answers), list[tuple[float, httpx.Request]]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((time.monotonic(), request))
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)


def problem(status: int, code: str, **headers: str) -> httpx.Response:
    return httpx.Response(
        status, json={"code": code, "detail": "why", "status": status}, headers=headers
    )


DONE = {
    "kind": "new",
    "layer": "search",
    "id": "a",
    "cluster": "a",
    "representative": "a",
    "similarity": 1.0,
    "later": 1,
}
BUSY = {"code": "store-unavailable", "detail": "later", "status": 503}


def lines_of(*rows: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, content=b"".join(json.dumps(row).encode() + b"\n" for row in rows))


@pytest.mark.parametrize(
    "failure",
    [
        lambda: problem(503, "busy"),
        lambda: problem(429, "rate-limited"),
        lambda: httpx.Response(502, text="<html>"),
        lambda: httpx.ConnectError("refused"),
        lambda: httpx.ReadTimeout("slow"),
        lambda: httpx.RemoteProtocolError("cut"),
    ],
    ids=["busy", "rate", "proxy", "unreachable", "slow", "cut"],
)
def test_what_passes_is_tried_again(make: Maker, failure: Callable[[], Any]) -> None:
    answers = Answers(failure(), failure(), httpx.Response(200, json=DONE))
    assert make(transport=answers.transport, retries=SOON).upsert("s", "text").id == "a"
    assert len({request.content for _, request in answers.asked}) == 1
    assert len(answers.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 409, 413, 422, 500])
def test_what_does_not_pass_is_not(make: Maker, status: int) -> None:
    answers = Answers(problem(status, "some-code"))
    with pytest.raises(nk.ServiceError, match=f"some-code \\({status}\\): why"):
        make(transport=answers.transport, retries=SOON).upsert("s", "text")


def test_it_gives_up(make: Maker) -> None:
    answers = Answers(*[problem(503, "busy") for _ in range(4)])
    with pytest.raises(nk.ServiceError, match="busy"):
        make(transport=answers.transport, retries=SOON).query("s", "text")
    assert len(answers.asked) == 4


@pytest.mark.parametrize(
    "after", ["1", formatdate(time.time() + 2, usegmt=True)], ids=["seconds", "date"]
)
def test_retry_after(make: Maker, after: str) -> None:
    answers = Answers(
        problem(429, "rate-limited", **{"Retry-After": after}), httpx.Response(200, json=DONE)
    )
    make(transport=answers.transport, retries=nk.Retries(first=0.001)).upsert("s", "text")
    assert requests._parse_retry_after(formatdate(time.time() - 9, usegmt=True)) == 0.0
    if after == "1":
        assert answers.asked[1][0] - answers.asked[0][0] >= 1.0


def test_a_server_that_asks_for_too_long_is_not_waited_for(make: Maker) -> None:
    answers = Answers(problem(429, "rate-limited", **{"Retry-After": "3600"}))
    with pytest.raises(nk.ServiceError) as refused:
        make(transport=answers.transport).upsert("s", "text")
    assert refused.value.retry_after == 3600


def test_lines_that_pass_are_sent_again_with_all_others(make: Maker) -> None:
    first = lines_of({"line": 1, **DONE}, {"line": 2, "problem": BUSY})
    cut = lines_of({"line": 1, **DONE})
    stopped = lines_of({"line": 1, **DONE}, {"line": 0, "problem": BUSY})
    answers = Answers(first, cut, stopped, lines_of({"line": 1, **DONE}, {"line": 2, **DONE}))
    lines = list(make(transport=answers.transport, retries=SOON).upsert_many("s", ["x", "y"]))
    assert [line.kind for line in lines] == ["new", "new"]
    assert {request.content for _, request in answers.asked} == {b'{"text":"x"}\n{"text":"y"}'}


def test_lines_that_never_pass_are_results(make: Maker) -> None:
    answers = Answers(
        *[lines_of({"line": 1, **DONE}, {"line": 2, "problem": BUSY}) for _ in range(4)]
    )
    done, refused = make(transport=answers.transport, retries=SOON).upsert_many("s", ["x", "y"])
    assert (done.kind, refused.code, refused.line) == ("new", "store-unavailable", 2)


def test_an_answer_of_something_else(make: Maker) -> None:
    for answer in (
        httpx.Response(200, text="hello"),
        httpx.Response(301, headers={"Location": "https://x/"}),
        problem(404, "no-such-path"),
    ):
        with pytest.raises(nk.ServiceError, match=r"unexpected-answer|no-such-path"):
            make(transport=Answers(answer).transport, retries=SOON).get("s", "a/b")


def test_not_ready_is_an_answer(make: Maker) -> None:
    assert make(transport=Answers(problem(503, "not-ready")).transport).ready() is False


def test_nothing_listens(make: Maker) -> None:
    with pytest.raises(
        nk.ServiceError, match=r"unreachable: http://127\.0\.0\.1:9 cannot be reached"
    ):
        make("http://127.0.0.1:9", retries=nk.Retries(attempts=1)).spec()


# -- tokens and addresses


def test_the_token_is_sent_and_not_shown(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARKIN_TOKEN", "nk_env_verysecret")
    for fields, token in (
        ({}, "nk_env_verysecret"),
        ({"token": "nk_arg_verysecret"}, "nk_arg_verysecret"),
    ):
        answers = Answers(problem(401, "unauthenticated"))
        client = make(transport=answers.transport, **fields)
        with pytest.raises(nk.ServiceError) as refused:
            client.spec()
        assert answers.asked[0][1].headers["authorization"] == f"Bearer {token}"
        error = refused.value
        shown = f"{error!r}{error}{getattr(client, 'inner', client)!r}{vars(error)}"
        assert "secret" not in shown


@pytest.mark.parametrize("token", ["with space ", "näh", "line\nbreak"])
def test_what_is_no_token(make: Maker, token: str) -> None:
    with pytest.raises(nk.UsageError, match="characters that are not allowed") as refused:
        make(token=token)
    assert token not in str(refused.value)


@pytest.mark.parametrize("url", ["ftp://host", "localhost:8080", "", "https://"])
def test_what_is_no_address(make: Maker, url: str) -> None:
    with pytest.raises(nk.UsageError, match="is not the address of a server"):
        make(url)


def test_a_password_in_the_address(make: Maker) -> None:
    with pytest.raises(nk.UsageError, match="contains a password") as refused:
        make("https://me:secret@kin.example")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("missing", "name"),
    [("httpx", "Client"), ("tenacity", "AsyncClient"), ("httpx", "NewDocument")],
)
def test_without_the_extra(missing: str, name: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import nearkin as nk; nk.{name}"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "MissingExtraError" in ended.stderr
    assert "pip install 'nearkin[client]'" in ended.stderr


def test_retries_that_make_no_sense() -> None:
    with pytest.raises(nk.UsageError, match="attempts must be at least 1"):
        nk.Retries(attempts=0)


@pytest.mark.parametrize("documents", [pytest.param(200_000, marks=pytest.mark.full), 4_000])
@pytest.mark.parametrize("form", ["lines", "columns"])
def test_memory_stays_bounded(address: str, scope: str, documents: int, form: str) -> None:
    """The client holds two requests of documents at most, however many there are."""
    import tracemalloc

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
