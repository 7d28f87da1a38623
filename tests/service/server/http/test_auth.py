"""Tokens, scopes, rights and rates."""

import asyncio
import json
import threading
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nearkin.errors import KeyRequiredError, UsageError
from nearkin.runtime.files import PRIVATE_FILE, write_durably
from nearkin.service.server import resources as opening
from nearkin.service.server.app import create_app
from nearkin.service.server.http.auth import Authenticator
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.rates import RateLimiter
from nearkin.service.server.http.tokens import LOCAL_PRINCIPAL, Principal, TokenFile
from nearkin.service.server.resources import ServerResources
from nearkin.service.server.settings import ServerSettings
from nearkin.settings.keys import HashKey
from tests.service.server.conftest import Serve
from tests.services import redis_server, wait_until

CAT = "the cat sat on the mat"
NDJSON = {"content-type": "application/x-ndjson"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def client(serve: Serve, tokens: dict[str, str]) -> TestClient:
    client = serve()
    for scope, owner in (("mine", "mine"), ("theirs", "theirs")):
        for name in ("one", "two"):
            body = {"id": f"{owner}-{name}", "text": f"{CAT} {name}"}
            assert (
                client.post(
                    f"/v1/scopes/{scope}/documents", json=body, headers=bearer(tokens[owner])
                ).status_code
                == 200
            )
    return client


def test_valid_token_is_required(client: TestClient, tokens: dict[str, str]) -> None:
    name, secret = tokens["mine"].removeprefix("nk_").split("_", 1)
    for header in (
        None,
        "Bearer",
        "Bearer x",
        "Basic eDp5",
        f"Bearer nk_{name}_{'A' * 43}",
        f"Bearer nk_other_{secret}",
    ):
        answer = client.get("/v1/spec", headers={} if header is None else {"authorization": header})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert client.get("/v1/spec", headers=bearer(tokens["mine"])).status_code == 200
    assert client.get("/healthz").status_code == 200


def test_no_endpoint_shows_another_scope(client: TestClient, tokens: dict[str, str]) -> None:
    """Everything that names a scope, for one that has documents and one that has none: the answers
    are the same."""
    mine = bearer(tokens["mine"])

    def answers(scope: str) -> list[tuple[int, str]]:
        base = f"/v1/scopes/{scope}"
        responses = [
            client.post(f"{base}/documents", json={"id": "x", "text": CAT}, headers=mine),
            client.post(
                f"{base}/documents",
                content=b'{"text": "x"}\n',
                headers={**mine, "content-type": "application/x-ndjson"},
            ),
            client.get(f"{base}/documents/theirs-one", headers=mine),
            client.delete(f"{base}/documents/theirs-one", headers=mine),
            client.post(f"{base}/removals", json={"ids": ["theirs-one"]}, headers=mine),
            client.patch(f"{base}/documents/theirs-one", json={"text": CAT}, headers=mine),
            client.post(f"{base}/documents/theirs-one:close", headers=mine),
            client.post(f"{base}/query", json={"text": CAT}, headers=mine),
            client.post(f"{base}/near-misses", json={"text": CAT}, headers=mine),
            client.get(f"{base}/clusters", headers=mine),
            client.get(f"{base}/clusters/theirs-one", headers=mine),
            client.post(
                "/v1/explain",
                json={"scope": scope, "a": "theirs-one", "b": "theirs-two"},
                headers=mine,
            ),
        ]
        return [(one.status_code, one.json()["detail"]) for one in responses]

    refusals = answers("theirs")
    assert {status for status, _ in refusals} == {403}
    assert refusals == answers("nobodys")
    own = client.post("/v1/scopes/mine/query", json={"text": f"{CAT} one"}, headers=mine).json()[
        "matches"
    ]
    assert {match["id"] for match in own} <= {"mine-one", "mine-two"}
    crossing = client.post(
        "/v1/explain", json={"scope": "mine", "a": "mine-one", "b": "theirs-one"}, headers=mine
    )
    assert crossing.status_code == 422
    assert (
        client.get(
            "/v1/scopes/theirs/documents/theirs-one", headers=bearer(tokens["theirs"])
        ).status_code
        == 200
    )


@pytest.mark.parametrize(
    ("who", "method", "path", "body", "status"),
    [
        ("reader", "POST", "/v1/scopes/mine/documents", {"text": CAT}, 403),
        ("reader", "DELETE", "/v1/scopes/mine/documents/mine-one", None, 403),
        ("reader", "POST", "/v1/scopes/mine/removals", {"ids": ["mine-one"]}, 403),
        ("reader", "GET", "/v1/scopes/mine/documents/mine-one", None, 200),
        ("reader", "GET", "/v1/scopes/mine/documents/mine-one?include=signature", None, 403),
        ("writer", "GET", "/v1/scopes/mine/documents/mine-one", None, 403),
        ("writer", "POST", "/v1/scopes/mine/query", {"text": CAT}, 403),
        ("writer", "POST", "/v1/scopes/mine/near-misses", {"text": CAT}, 403),
        ("reader", "POST", "/v1/scopes/mine/near-misses", {"text": CAT}, 200),
        ("writer", "POST", "/v1/scopes/mine/documents", {"text": CAT}, 200),
        ("mine", "GET", "/metrics", None, 403),
        ("mine", "GET", "/v1/stats", None, 403),
        ("scraper", "GET", "/metrics", None, 200),
        ("scraper", "GET", "/v1/stats", None, 403),
        ("scraper", "GET", "/v1/scopes/mine/documents/mine-one", None, 403),
        ("mine", "GET", "/v1/shadow", None, 403),
        ("mine", "POST", "/v1/shadow", {"live": "shadow"}, 403),
        ("boss", "GET", "/metrics", None, 200),
        ("boss", "GET", "/v1/stats", None, 200),
        ("boss", "GET", "/v1/scopes/theirs/documents/theirs-one?include=signature", None, 200),
        ("boss", "GET", "/v1/shadow", None, 404),
    ],
)
def test_each_endpoint_needs_its_right(
    client: TestClient,
    tokens: dict[str, str],
    who: str,
    method: str,
    path: str,
    body: object,
    status: int,
) -> None:
    assert (
        client.request(method, path, json=body, headers=bearer(tokens[who])).status_code == status
    )


@pytest.mark.promise("A server that others can reach does not start without tokens.")
def test_remote_access_requires_tokens(tmp_path: Path) -> None:
    fields = {"store": "memory://", "tokens": tmp_path / "t.json", "host": "0.0.0.0"}
    with pytest.raises(UsageError, match="--allow-anonymous"):
        create_app(ServerSettings.read(**fields))
    create_app(ServerSettings.read(**fields, allow_anonymous=True))
    TokenFile(tmp_path / "t.json").create(Principal("one", ("*",), ("read",)))
    create_app(ServerSettings.read(**fields))


def test_first_token_ends_anonymous_access(serve: Serve, tmp_path: Path) -> None:
    client = serve()
    assert client.get("/v1/spec").status_code == 200
    TokenFile(tmp_path / "tokens.json").create(Principal("one", ("*",), ("read",)))
    client.app.state.authenticator.tokens.refresh()  # type: ignore[attr-defined]
    assert client.get("/v1/spec").status_code == 401
    TokenFile(tmp_path / "tokens.json").revoke("one")
    client.app.state.authenticator.tokens.refresh()  # type: ignore[attr-defined]
    assert client.get("/v1/spec").status_code == 401, "revoking the last token opens no door"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "127.0.0.1:8080"}, 200),
        ({"host": "[::1]:8080"}, 200),
        ({"host": "rebound.example"}, 403),
        ({"origin": "http://localhost"}, 200),
        ({"origin": "https://other.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_cross_origin_requests_without_tokens_are_rejected(
    serve: Serve, headers: dict[str, str], status: int
) -> None:
    client = serve()
    assert (
        client.post(
            "/v1/scopes/a/documents", content=b'{"text": "x y z"}', headers=headers
        ).status_code
        == status
    )


def test_token_and_address_have_rates(serve: Serve, tmp_path: Path) -> None:
    made = TokenFile(tmp_path / "tokens.json").create(
        Principal("slow", ("*",), ("read", "write"), rate="3/minute")
    )
    client = serve()
    responses = [
        client.post("/v1/scopes/a/query", json={"text": CAT}, headers=bearer(made))
        for _ in range(5)
    ]
    assert [answer.status_code for answer in responses] == [200, 200, 200, 429, 429]
    assert responses[-1].json()["code"] == "rate-limited"
    assert 1 <= int(responses[-1].headers["retry-after"]) <= 60


def test_rate_of_a_token_is_not_capped_by_the_rate_of_its_address(
    serve: Serve, tmp_path: Path
) -> None:
    made = TokenFile(tmp_path / "tokens.json").create(
        Principal("fast", ("*",), ("read", "write"), rate="5000/hour")
    )
    client = serve(source_rate="5/hour")
    assert {client.get("/v1/spec", headers=bearer(made)).status_code for _ in range(20)} == {200}
    lines = b"".join(b'{"text": "document %d of its own"}\n' % i for i in range(60))
    headers = {**bearer(made), "content-type": "application/x-ndjson"}
    answer = client.post("/v1/scopes/a/documents", content=lines, headers=headers)
    assert ["problem" in json.loads(line) for line in answer.text.splitlines()] == [False] * 60


def test_tokens_of_one_address_share_no_rate(serve: Serve, tmp_path: Path) -> None:
    """A client that exceeds its rate does not lock out others behind the same proxy."""
    token_file = TokenFile(tmp_path / "tokens.json")
    slow = token_file.create(Principal("slow", ("*",), ("read",), rate="2/hour"))
    first = token_file.create(Principal("first", ("*",), ("read",)))
    second = token_file.create(Principal("second", ("*",), ("read",)))
    client = serve(source_rate="4/hour")

    def statuses(token: str) -> list[int]:
        return [client.get("/v1/spec", headers=bearer(token)).status_code for _ in range(6)]

    assert statuses(slow) == [200] * 2 + [429] * 4
    # a token without a rate has source_rate for itself
    assert statuses(first) == [200] * 4 + [429] * 2
    assert statuses(second) == [200] * 4 + [429] * 2


def test_anonymous_requests_of_one_address_share_its_rate(serve: Serve) -> None:
    client = serve(source_rate="4/hour")
    statuses = [client.get("/v1/spec").status_code for _ in range(6)]
    assert statuses == [200] * 4 + [429] * 2


def test_stream_is_slowed_to_the_rate(serve: Serve, tmp_path: Path) -> None:
    """A batch beyond the rate of a minute waits, and is refused if it waits too long."""
    made = TokenFile(tmp_path / "tokens.json").create(
        Principal("slow", ("*",), ("read", "write"), rate="20/minute")
    )
    client = serve(idle_timeout=1.0, batch=5)
    lines = b"".join(b'{"text": "document %d of its own"}\n' % i for i in range(60))
    answer = client.post(
        "/v1/scopes/a/documents",
        content=lines,
        headers={**bearer(made), "content-type": "application/x-ndjson"},
    )
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert len(rows) == 21
    assert rows[-1]["problem"]["code"] == "rate-limited"


@pytest.mark.promise("Once a token was created, one is always needed.")
def test_missing_tokens_file_denies_access(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    made = TokenFile(path).create(Principal("one", ("*",), ("read",)))
    client = serve()
    authenticator = client.app.state.authenticator  # type: ignore[attr-defined]
    assert client.get("/v1/spec", headers=bearer(made)).status_code == 200
    path.unlink()
    authenticator.tokens.refresh()
    assert client.get("/v1/spec").status_code == 401
    assert client.get("/v1/spec", headers=bearer(made)).status_code == 401
    path.symlink_to(path)
    with pytest.raises(UsageError, match="cannot read"):
        authenticator.tokens.refresh()


@pytest.mark.promise("Pages of other sites are refused.")
def test_invalid_hosts_and_origins_are_rejected(serve: Serve) -> None:
    client = serve()
    for headers in ({"Host": "["}, {"Origin": "http://["}):
        assert client.get("/v1/spec", headers=headers).status_code == 403
        assert client.get("/console/", headers=headers).status_code == 403
        assert client.post("/console/login", headers=headers).status_code == 403


def test_source_rate_counts_requests_without_tokens(serve: Serve) -> None:
    client = serve(source_rate="2/minute")
    codes = [
        client.post("/v1/scopes/a/documents", json={"text": CAT}).status_code for _ in range(3)
    ]
    assert codes == [200, 200, 429]


@pytest.mark.promise("Wrong tokens are limited by address.")
def test_sign_in_attempts_are_limited(serve: Serve, tmp_path: Path) -> None:
    made = TokenFile(tmp_path / "tokens.json").create(Principal("one", ("*",), ("read",)))
    client = serve(failures="3/minute")
    codes = [
        client.get("/v1/spec", headers=bearer("nk_one_" + "A" * 43)).status_code for _ in range(5)
    ]
    assert codes == [401, 401, 401, 429, 429]
    assert client.get("/v1/spec", headers=bearer(made)).status_code == 200, (
        "nobody locks others of the same address out"
    )


def test_failed_authentications_count_per_ipv6_network(tmp_path: Path) -> None:
    """The owner of one address of a /64 network has all 2^64 addresses."""

    async def codes() -> list[str]:
        authenticator = Authenticator(
            TokenFile(tmp_path / "tokens.json"),
            RateLimiter("memory://"),
            "9/second",
            "3/hour",
            "9/second",
            allow_anonymous=False,
        )
        found = []
        for number in range(5):
            with pytest.raises(ProblemError) as refused:
                await authenticator.authenticate("Bearer wrong", f"2001:db8:1:2::{number}")
            found.append(refused.value.code)
        return found

    assert asyncio.run(codes()) == ["unauthenticated"] * 3 + ["rate-limited"] * 2


def test_documents_without_a_token_count_per_ipv6_network(tmp_path: Path) -> None:
    async def count_documents() -> list[bool]:
        authenticator = Authenticator(
            TokenFile(tmp_path / "tokens.json"),
            RateLimiter("memory://"),
            "2/hour",
            "9/second",
            "9/second",
            allow_anonymous=True,
        )
        addresses = [f"2001:db8:1:2::{number}" for number in range(3)]
        return [
            await authenticator.take_documents(LOCAL_PRINCIPAL, address, 1) == 0.0
            for address in addresses
        ]

    assert asyncio.run(count_documents()) == [True, True, False]


@pytest.mark.promise("A flood of one address does not slow others.")
def test_flood_of_one_address_does_not_slow_others(serve: Serve) -> None:
    """One address floods one bucket.

    Whoever meets it is compared with no more documents than the cap.
    """
    client = serve(
        keyed=False,
        index={
            "max_candidates": "20",
            "threshold": "0.8",
            "bucket_capacity": "30",
            "shingle": "words:1",
            "k": "64",
        },
    )
    base = " ".join(f"w{i}" for i in range(30))
    flood = "".join(
        json.dumps({"text": f"{base} " + " ".join(f"x{i}y{j}" for j in range(14))}) + "\n"
        for i in range(600)
    ).encode()
    client.post("/v1/scopes/a/documents", content=flood, headers=NDJSON)
    client.post("/v1/scopes/b/documents", content=flood, headers=NDJSON)
    stats = client.get("/v1/stats").json()
    assert stats["leaders"] > 500, "the flood's documents stand for themselves"
    assert stats["evicted"] > 0
    response = client.post(
        "/v1/scopes/a/documents", json={"text": f"{base} " + " ".join(f"own{j}" for j in range(12))}
    )
    assert 0 < response.json()["candidates"] <= 20
    other = client.post(
        "/v1/scopes/c/documents", json={"text": f"{base} and what somebody else wrote of it"}
    )
    assert other.json()["candidates"] == 0, "another scope does not see the flood"


@pytest.mark.promise("A keyed index is not served without its key.")
def test_keyed_index_requires_its_key(serve: Serve, tmp_path: Path) -> None:
    store, key = f"sqlite:///{tmp_path}/kin.db", tmp_path / "key"
    serve(store=store).post("/v1/scopes/a/documents", json={"text": CAT})
    kept = key.read_text()
    for other in (None, "00" * 16 + "\n"):
        key.unlink()
        if other is not None:
            write_durably(key, other.encode(), PRIVATE_FILE)
        with pytest.raises(KeyRequiredError, match="key"):
            ServerResources.open(ServerSettings.read(store=store, key_file=str(key)))
        assert key.exists() == (other is not None), (
            "no key is made for an index that has another one"
        )
        write_durably(key, kept.encode(), PRIVATE_FILE)
    ServerResources.open(ServerSettings.read(store=store, key_file=str(key))).close()


def test_servers_that_start_at_once_in_one_folder_create_one_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second server comes while the first one is about to write its key."""
    settings = [
        ServerSettings.read(store=f"sqlite:///{tmp_path}/{name}.db", key_file=str(tmp_path / "key"))
        for name in "ab"
    ]
    really, second = opening.write_durably, list[threading.Thread]()
    keys: dict[str, str | None] = {}

    def start(number: int) -> None:
        index = opening.open_index(settings[number])
        keys[settings[number].store] = index.spec.key_id
        index.close()

    def write(path: Path, data: bytes, mode: int) -> None:
        if not second:
            second.append(threading.Thread(target=start, args=(1,)))
            second[0].start()
            # it either makes a key of its own meanwhile, or waits
            second[0].join(1.0)
        really(path, data, mode)

    monkeypatch.setattr(opening, "write_durably", write)
    start(0)
    second[0].join()
    assert set(keys.values()) == {HashKey.read(str(tmp_path / "key")).id}
    assert len(keys) == 2


@pytest.mark.parametrize("name", ["a-file/key", "a-file/folder/key", "a-folder/" + "x" * 300])
def test_unwritable_key_file_is_reported_without_traceback(tmp_path: Path, name: str) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(
        UsageError,
        match=r"cannot use the key file .*: .*; fix the folder or name another file with "
        r"--key-file",
    ):
        opening.open_index(
            ServerSettings.read(store=f"sqlite:///{tmp_path}/kin.db", key_file=str(tmp_path / name))
        )


def test_key_is_read_from_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServerSettings.read(store="memory://", key_file="env:MY_KEY")
    with pytest.raises(UsageError, match="MY_KEY"):
        ServerResources.open(settings)
    monkeypatch.setenv("MY_KEY", "12" * 16)
    parts = ServerResources.open(settings)
    assert parts.index.spec.key_id is not None
    parts.close()


def test_unavailable_limits_store_rejects_requests(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    with redis_server(tmp_path / "redis") as port:
        client = serve(limits_store=f"redis://127.0.0.1:{port}", source_rate="2/minute")
        codes = [client.get("/v1/spec").status_code for _ in range(3)]
        assert codes == [200, 200, 429]
    assert client.get("/v1/spec").json()["code"] == "store-unavailable"
    wait_until(
        lambda: client.get("/readyz").json().get("code") == "store-unavailable",
        "the server says that it is not ready",
    )


@pytest.mark.promise("Only administrators see how nearly a search misses.")
def test_only_administrators_see_how_nearly_a_search_misses(
    client: TestClient, tokens: dict[str, str]
) -> None:
    """Whoever sees the number of shared bands finds in few searches which words to change."""
    shown: dict[str, set[bool]] = {}
    for document in ({"id": "x", "text": f"{CAT} x"}, {"id": "y", "text": f"{CAT} {CAT[:20]} y"}):
        client.post("/v1/scopes/mine/documents", json=document, headers=bearer(tokens["mine"]))
    for who in ("reader", "boss"):
        answers: list[dict[str, object]] = []
        for path, text in (("query", f"{CAT} one"), ("near-misses", f"{CAT} {CAT[:20]} xyz")):
            answer = client.post(
                f"/v1/scopes/mine/{path}", json={"text": text}, headers=bearer(tokens[who])
            ).json()
            answers += answer.get("matches", answer.get("near_misses"))
        explained = client.post(
            "/v1/explain", json={"scope": "mine", "a": "x", "b": "y"}, headers=bearer(tokens[who])
        ).json()
        # the slots that agree tell as much as the bands
        answers += [{"shared_bands": explained[name]} for name in ("agreeing", "estimate")]
        answers.append(explained)
        assert "slots agree" not in explained["why"]
        shown[who] = {answer["shared_bands"] is not None for answer in answers}
    assert shown == {"reader": {False}, "boss": {True}}
