"""Tests of both clients, against a real server and against prepared responses."""

import math
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import httpx2
import pytest

import nearkin as nk
from nearkin.index_types import ScopeSettings, ScopeStatus
from nearkin.service.client import call, requests
from tests.service.client.conftest import (
    CAT,
    DONE,
    SHORT_RETRIES,
    ClientMaker,
    ScriptedServer,
    problem,
    texts,
)
from tests.services import free_port


def test_a_part_that_is_not_valid_unicode_is_a_usage_error(client: Any, scope: str) -> None:
    with pytest.raises(nk.UsageError, match="valid Unicode"):
        client.add_part(scope, "x", "half a character \ud800")


def test_documents_are_stored_matched_explained_and_deleted(client: Any, scope: str) -> None:
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


def test_lists_of_documents_are_removed_in_several_requests(client: Any, scope: str) -> None:
    for id in ("one", "two", "three"):
        client.upsert(scope, f"{CAT} {id}", id)
    ids = [f"d{number}" for number in range(250)]
    lists = (["one", *ids, "three"], ["three", *ids, "one"])
    assert [client.remove_many(scope, names) for names in lists] == [2, 0]
    assert client.get(scope, "two") is not None
    assert client.get(scope, "three") is None
    assert client.remove_many(scope, []) == 0
    with pytest.raises(nk.UsageError, match="not a valid Unicode text"):
        client.remove_many(scope, ["a\ud800"])


def test_a_scope_is_removed_in_as_many_requests_as_it_takes(client: Any, scope: str) -> None:
    for id in ("one", "two", "three"):
        client.upsert(scope, f"{CAT} {id}", id)
    assert client.remove_scope(scope) == 3
    assert client.remove_scope(scope) == 0


def test_settings_of_a_scope_are_stored_and_read(client: Any, scope: str) -> None:
    client.upsert(scope, CAT, "one")
    status = client.configure_scope(scope, ScopeSettings(max_documents=1, max_bytes="1kB"))
    assert (status.settings.max_bytes, status.used_documents) == (1000, 1)
    assert client.scope_status(scope) == status
    began = time.monotonic()
    with pytest.raises(nk.ServiceError, match="1 are stored, and 1 more exceed it") as raised:
        client.upsert(scope, f"nothing like it {CAT[::-1]}", "two")
    assert (raised.value.code, raised.value.transient) == ("quota-exceeded", False)
    assert time.monotonic() - began < 5
    client.configure_scope(scope, ScopeSettings())
    assert client.scope_status(scope) == ScopeStatus()


def test_several_scopes_are_searched_together(client: Any, scope: str) -> None:
    scopes = [scope, f"{scope}-two"]
    for name in scopes:
        client.upsert(name, CAT, f"cat of {name}")
    assert [(match.scope, match.id) for match in client.query(scopes, CAT)] == [
        (name, f"cat of {name}") for name in scopes
    ]
    assert client.query(scope, CAT)[0].scope is None


def test_query_with_members_returns_similar_members(client: Any, scope: str) -> None:
    text = " ".join(f"{scope}{number}" for number in range(40))
    client.upsert(scope, text, id="one")
    assert client.upsert(scope, f"{text} more", id="two").representative == "one"
    assert [match.id for match in client.query(scope, f"{text} more")] == ["one"]
    matches = client.query(scope, f"{text} more", members=True)
    assert [(match.id, match.representative) for match in matches] == [
        ("two", "one"),
        ("one", "one"),
    ]


def test_decisions_are_stored_followed_and_listed(client: Any, scope: str) -> None:
    client.upsert(scope, CAT, "one")
    assert client.upsert(scope, CAT + " again", "two").representative == "one"
    decision = nk.index_types.Decision("two", "one", nk.index_types.Verdict.DIFFERENT, "ada")
    assert client.decide(scope, [decision]) == 1
    assert client.get(scope, "two").representative == "two"
    (stored,) = client.decisions(scope)
    assert (stored.pair, stored.verdict) == (("one", "two"), nk.index_types.Verdict.DIFFERENT)
    assert stored.by.startswith("ada via ")
    many = [
        nk.index_types.Decision(f"n{number}", "m", nk.index_types.Verdict.SAME)
        for number in range(201)
    ]
    with pytest.raises(nk.UsageError, match="correct one of these decisions"):
        client.decide(
            scope, [*many, nk.index_types.Decision("n0", "n1", nk.index_types.Verdict.DIFFERENT)]
        )
    assert len(client.decisions(scope)) == 1
    assert client.decide(scope, many) == 201
    assert client.decide(scope, [*client.decisions(scope)]) == 0
    assert len(client.decisions(scope)) == 202
    with pytest.raises(nk.ServiceError) as raised:
        client.decide(
            scope, [nk.index_types.Decision("n0", "n1", nk.index_types.Verdict.DIFFERENT)]
        )
    assert (raised.value.status, "correct one" in str(raised.value)) == (422, True)
    for bad in ("x", nk.index_types.Decision("half \ud800", "b", nk.index_types.Verdict.SAME)):
        with pytest.raises(nk.UsageError, match="decision"):
            client.decide(scope, [bad])


def test_near_misses_are_below_the_threshold(client: Any, scope: str) -> None:
    words = [f"word{number}" for number in range(40)]
    client.upsert(scope, " ".join(words), id="one")
    threshold = client.spec().threshold
    misses = []
    for first in range(12):
        # several words are others, so that some texts are below the threshold
        changed = [f"other{n}" if n in (first, first + 20) else words[n] for n in range(40)]
        near_misses = client.near_misses(scope, " ".join(changed))
        assert not near_misses or client.query(scope, " ".join(changed)) == []
        misses += near_misses
    # most of them share a bucket with the stored text
    assert {(miss.id, miss.representative) for miss in misses} == {("one", "one")}
    assert all(miss.shared > 0 and 0 < miss.similarity < threshold for miss in misses)
    assert client.near_misses(scope, " ".join(words)) == []
    with pytest.raises(nk.ServiceError) as raised:
        client.near_misses(scope, "a text of many words", top=0)
    assert (raised.value.status, raised.value.field) == (422, "/top")


@pytest.mark.parametrize(
    "id", ["a/b", "https://kin.example/é?x=1#y", "100%25", "a b+c", ".", "..", "a/../b", "%2E"]
)
def test_ids_may_contain_any_characters_of_a_url(client: Any, scope: str, id: str) -> None:
    client.upsert(scope, CAT, id)
    assert (
        client.get(scope, id).id,
        client.cluster(scope, id).representative,
        client.remove(scope, id),
    ) == (id, id, True)


def test_a_document_in_parts_is_finished_once(client: Any, scope: str) -> None:
    words = texts(1, 8)[0].split()
    assert client.add_part(scope, "whole", " ".join(words[:8])) == 6
    assert client.add_part(scope, "whole", words[6:]) == 10
    sealed = client.finish(scope, "whole")
    assert (sealed.kind, sealed.id) == ("new", "whole")
    assert client.finish(scope, "whole") is None


def test_facts_and_operating_points_are_read(client: Any) -> None:
    facts = client.spec()
    assert (facts.threshold, facts.spec["measure"]) == (0.8, "jaccard")
    tuned = client.tune(0.7, 0.9, points=3, k=256)
    assert len(tuned.points) == 3
    assert (tuned.k, tuned.threshold) == (256, 0.7)
    assert all(
        point.recall >= 0.9 and not math.isnan(point.similarities[1]) for point in tuned.points
    )
    assert client.stats()["records"] >= 0


def test_clusters_are_listed_in_pages_without_repetition(client: Any, scope: str) -> None:
    assert [line.kind for line in client.upsert_many(scope, texts(7, 1))] == ["new"] * 7
    pages = list(client.clusters(scope, "newest", limit=3))
    assert [len(page.clusters) for page in pages] == [3, 3, 1]
    assert pages[-1].next is None
    assert len({head.id for page in pages for head in page.clusters}) == 7


def test_a_cluster_larger_than_a_part_is_read_completely(
    client: Any, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "CLUSTER_PART", 3)
    for number in range(8):
        client.upsert(scope, CAT, f"c{number}")
    cluster = client.cluster(scope, "c5")
    assert [name for name, _ in cluster.members] == [f"c{number}" for number in range(8)]


def test_a_cluster_that_changes_while_it_is_read_is_read_again() -> None:
    def part(representative: str, next: str | None, *members: str) -> requests.ReceivedPart:
        return requests.ReceivedPart("one", representative, [(id, 1.0) for id in members], next)

    reading = requests.read_cluster("a", "two")
    next(reading)
    assert reading.send(part("one", "after-two", "one", "two")).params["cursor"] == "after-two"
    assert "cursor" not in reading.send(part("two", None, "three")).params
    with pytest.raises(StopIteration) as end:
        reading.send(part("two", None, "two", "three"))
    assert end.value.value == nk.index_types.Cluster("one", "two", (("two", 1.0), ("three", 1.0)))


def test_a_cluster_that_is_deleted_while_it_is_read_is_none() -> None:
    reading = requests.read_cluster("a", "two")
    next(reading)
    reading.send(requests.ReceivedPart("one", "one", [("one", 1.0)], "more"))
    with pytest.raises(StopIteration) as end:
        reading.send(None)
    assert end.value.value is None


def test_a_refused_request_raises_the_problem_with_its_field(client: Any, scope: str) -> None:
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


@pytest.mark.parametrize(
    "failure",
    [
        lambda: problem(503, "busy"),
        lambda: problem(429, "rate-limited"),
        lambda: httpx2.Response(502, text="<html>"),
        lambda: httpx2.ReadTimeout("slow"),
        lambda: httpx2.RemoteProtocolError("cut"),
    ],
    ids=["busy", "rate", "proxy", "slow", "cut"],
)
def test_a_temporary_failure_is_retried_with_the_same_body(
    make_client: ClientMaker, failure: Callable[[], Any]
) -> None:
    server = ScriptedServer(failure(), failure(), httpx2.Response(200, json=DONE))
    assert (
        make_client(transport=server.transport, retries=SHORT_RETRIES).upsert("s", "text").id == "a"
    )
    assert len({request.content for _, request in server.requests}) == 1
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "failure", [httpx2.ConnectError("refused"), httpx2.ConnectTimeout("silent")]
)
def test_a_client_fails_at_once_if_nothing_listens(
    make_client: ClientMaker, failure: Exception
) -> None:
    server = ScriptedServer(failure)
    client = make_client(transport=server.transport)
    with pytest.raises(nk.ServiceError, match=r"unreachable: .*start a server"):
        client.upsert("s", "text")
    assert len(server.requests) == 1


def test_a_connected_client_retries_while_its_server_restarts(make_client: ClientMaker) -> None:
    gone = httpx2.ConnectError("refused")
    done = httpx2.Response(200, json=DONE)
    server = ScriptedServer(done, gone, gone, httpx2.Response(200, json=DONE))
    client = make_client(transport=server.transport, retries=SHORT_RETRIES)
    assert [client.upsert("s", "text").id for _ in range(2)] == ["a", "a"]
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "failure",
    [httpx2.ConnectError("refused"), httpx2.ConnectTimeout("silent"), httpx2.ReadTimeout("slow")],
)
def test_ready_returns_false_if_nothing_answers(
    make_client: ClientMaker, failure: Exception
) -> None:
    assert make_client(transport=ScriptedServer(failure).transport).ready() is False


def test_ready_returns_false_if_nothing_listens_on_the_port(make_client: ClientMaker) -> None:
    assert make_client(f"http://127.0.0.1:{free_port()}").ready() is False


@pytest.mark.parametrize("status", [400, 401, 403, 409, 413, 422, 500])
def test_a_permanent_refusal_is_not_retried(make_client: ClientMaker, status: int) -> None:
    server = ScriptedServer(problem(status, "some-code"))
    with pytest.raises(nk.ServiceError, match=f"some-code \\({status}\\): why"):
        make_client(transport=server.transport, retries=SHORT_RETRIES).upsert("s", "text")


def test_the_last_error_is_raised_after_the_maximum_number_of_attempts(
    make_client: ClientMaker,
) -> None:
    server = ScriptedServer(*[problem(503, "busy") for _ in range(4)])
    with pytest.raises(nk.ServiceError, match="busy"):
        make_client(transport=server.transport, retries=SHORT_RETRIES).query("s", "text")
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "after", ["1", formatdate(time.time() + 2, usegmt=True)], ids=["seconds", "date"]
)
def test_a_retry_waits_for_retry_after(make_client: ClientMaker, after: str) -> None:
    server = ScriptedServer(
        problem(429, "rate-limited", **{"Retry-After": after}), httpx2.Response(200, json=DONE)
    )
    make_client(transport=server.transport, retries=nk.index_types.Retries(first=0.001)).upsert(
        "s", "text"
    )
    assert call._parse_retry_after(formatdate(time.time() - 9, usegmt=True)) == 0.0
    if after == "1":
        assert server.requests[1][0] - server.requests[0][0] >= 1.0


def test_a_longer_retry_after_than_allowed_is_not_waited_for(make_client: ClientMaker) -> None:
    server = ScriptedServer(problem(429, "rate-limited", **{"Retry-After": "3600"}))
    with pytest.raises(nk.ServiceError) as refused:
        make_client(transport=server.transport).upsert("s", "text")
    assert refused.value.retry_after == 3600


def test_a_response_of_another_program_is_a_service_error(make_client: ClientMaker) -> None:
    for answer in (
        httpx2.Response(200, text="hello"),
        httpx2.Response(301, headers={"Location": "https://x/"}),
        problem(404, "no-such-path"),
    ):
        with pytest.raises(nk.ServiceError, match=r"unexpected-answer|no-such-path"):
            make_client(transport=ScriptedServer(answer).transport, retries=SHORT_RETRIES).get(
                "s", "a/b"
            )


def test_ready_returns_false_while_the_server_starts(make_client: ClientMaker) -> None:
    assert (
        make_client(transport=ScriptedServer(problem(503, "not-ready")).transport).ready() is False
    )


def test_an_unreachable_server_is_named(make_client: ClientMaker) -> None:
    with pytest.raises(
        nk.ServiceError, match=r"unreachable: http://127\.0\.0\.1:9 cannot be reached"
    ):
        make_client("http://127.0.0.1:9", retries=nk.index_types.Retries(attempts=1)).spec()


def test_the_token_is_sent_and_appears_in_no_error_or_repr(
    make_client: ClientMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARKIN_TOKEN", "nk_env_verysecret")
    for fields, token in (
        ({}, "nk_env_verysecret"),
        ({"token": "nk_arg_verysecret"}, "nk_arg_verysecret"),
    ):
        server = ScriptedServer(problem(401, "unauthenticated"))
        client = make_client(transport=server.transport, **fields)
        with pytest.raises(nk.ServiceError) as refused:
            client.spec()
        assert server.requests[0][1].headers["authorization"] == f"Bearer {token}"
        error = refused.value
        shown = f"{error!r}{error}{getattr(client, 'inner', client)!r}{vars(error)}"
        assert "secret" not in shown


@pytest.mark.parametrize("token", ["with space ", "näh", "line\nbreak"])
def test_a_token_with_other_characters_is_refused_and_not_repeated(
    make_client: ClientMaker, token: str
) -> None:
    with pytest.raises(nk.UsageError, match="characters that are not allowed") as refused:
        make_client(token=token)
    assert token not in str(refused.value)


@pytest.mark.parametrize("url", ["ftp://host", "localhost:8080", "", "https://"])
def test_an_address_that_is_not_http_is_refused(make_client: ClientMaker, url: str) -> None:
    with pytest.raises(nk.UsageError, match="is not the address of a server"):
        make_client(url)


def test_an_address_with_a_password_is_refused_and_not_repeated(make_client: ClientMaker) -> None:
    with pytest.raises(nk.UsageError, match="contains a password") as refused:
        make_client("https://me:secret@kin.example")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("missing", "name"),
    [("httpx2", "Client"), ("tenacity", "AsyncClient"), ("httpx2", "index_types.NewDocument")],
)
def test_a_missing_extra_names_the_install_command(missing: str, name: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import nearkin as nk; nk.{name}"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "MissingExtraError" in ended.stderr
    assert 'pip install ".[client]"' in ended.stderr


def test_retries_need_at_least_one_attempt() -> None:
    with pytest.raises(nk.UsageError, match="attempts must be at least 1"):
        nk.index_types.Retries(attempts=0)


@pytest.mark.parametrize("kind", [nk.Client, nk.AsyncClient])
def test_pickled_client_is_refused(kind: Any) -> None:
    client = kind("http://127.0.0.1:9")
    with pytest.raises(nk.UsageError, match="it holds connections; create a client in each"):
        pickle.dumps(client)
