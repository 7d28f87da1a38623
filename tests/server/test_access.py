"""Who may do what: tokens, scopes, rights, rates."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nearkin.errors import UsageError
from nearkin.server.app import create_app
from nearkin.server.settings import ServerSettings
from nearkin.server.tokens import Principal, Tokens
from tests.server.conftest import Serve

CAT = "the cat sat on the mat"
NDJSON = {"content-type": "application/x-ndjson"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    held = Tokens(tmp_path / "tokens.json")
    every = {
        "mine": Principal("mine", ("mine",), ("read", "write")),
        "theirs": Principal("theirs", ("theirs",), ("read", "write")),
        "reader": Principal("reader", ("mine",), ("read",)),
        "writer": Principal("writer", ("mine",), ("write",)),
        "boss": Principal("boss", ("*",), ("admin",)),
    }
    return {name: held.create(principal) for name, principal in every.items()}


@pytest.fixture
def client(serve: Serve, tokens: dict[str, str]) -> TestClient:
    client = serve()
    for scope, owner in (("mine", "mine"), ("theirs", "theirs")):
        for name in ("one", "two"):
            body = {"id": f"{owner}-{name}", "text": f"{CAT} {name}"}
            assert client.post(f"/v1/scopes/{scope}/documents", json=body, headers=bearer(tokens[owner])).status_code == 200
    return client


def test_a_token_is_needed_and_must_be_right(client: TestClient, tokens: dict[str, str]) -> None:
    name, secret = tokens["mine"].removeprefix("nk_").split("_", 1)
    for header in (None, "Bearer", "Bearer x", "Basic eDp5", f"Bearer nk_{name}_{'A' * 43}", f"Bearer nk_other_{secret}"):
        answer = client.get("/v1/spec", headers={} if header is None else {"authorization": header})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert client.get("/v1/spec", headers=bearer(tokens["mine"])).status_code == 200
    assert client.get("/healthz").status_code == 200


def test_another_scope_is_invisible_through_every_endpoint(client: TestClient, tokens: dict[str, str]) -> None:
    """Everything that names a scope, for one that has documents and one that has none: the answers are the same."""
    mine = bearer(tokens["mine"])

    def answers(scope: str) -> list[tuple[int, str]]:
        base = f"/v1/scopes/{scope}"
        asked = [
            client.post(f"{base}/documents", json={"id": "x", "text": CAT}, headers=mine),
            client.post(
                f"{base}/documents", content=b'{"text": "x"}\n', headers={**mine, "content-type": "application/x-ndjson"}
            ),
            client.get(f"{base}/documents/theirs-one", headers=mine),
            client.delete(f"{base}/documents/theirs-one", headers=mine),
            client.patch(f"{base}/documents/theirs-one", json={"text": CAT}, headers=mine),
            client.post(f"{base}/documents/theirs-one:close", headers=mine),
            client.post(f"{base}/query", json={"text": CAT}, headers=mine),
            client.get(f"{base}/clusters", headers=mine),
            client.get(f"{base}/clusters/theirs-one", headers=mine),
            client.post("/v1/explain", json={"scope": scope, "a": "theirs-one", "b": "theirs-two"}, headers=mine),
        ]
        return [(one.status_code, one.json()["detail"]) for one in asked]

    told = answers("theirs")
    assert {status for status, _ in told} == {403}
    assert told == answers("nobodys")
    own = client.post("/v1/scopes/mine/query", json={"text": f"{CAT} one"}, headers=mine).json()["matches"]
    assert {match["id"] for match in own} <= {"mine-one", "mine-two"}
    crossing = client.post("/v1/explain", json={"scope": "mine", "a": "mine-one", "b": "theirs-one"}, headers=mine)
    assert crossing.status_code == 422
    assert client.get("/v1/scopes/theirs/documents/theirs-one", headers=bearer(tokens["theirs"])).status_code == 200


@pytest.mark.parametrize(
    ("who", "method", "path", "body", "status"),
    [
        ("reader", "POST", "/v1/scopes/mine/documents", {"text": CAT}, 403),
        ("reader", "DELETE", "/v1/scopes/mine/documents/mine-one", None, 403),
        ("reader", "GET", "/v1/scopes/mine/documents/mine-one", None, 200),
        ("reader", "GET", "/v1/scopes/mine/documents/mine-one?include=signature", None, 403),
        ("writer", "GET", "/v1/scopes/mine/documents/mine-one", None, 403),
        ("writer", "POST", "/v1/scopes/mine/query", {"text": CAT}, 403),
        ("writer", "POST", "/v1/scopes/mine/documents", {"text": CAT}, 200),
        ("mine", "GET", "/metrics", None, 403),
        ("mine", "GET", "/v1/stats", None, 403),
        ("mine", "GET", "/v1/shadow", None, 403),
        ("mine", "POST", "/v1/shadow", {"live": "shadow"}, 403),
        ("boss", "GET", "/metrics", None, 200),
        ("boss", "GET", "/v1/stats", None, 200),
        ("boss", "GET", "/v1/scopes/theirs/documents/theirs-one?include=signature", None, 200),
        ("boss", "GET", "/v1/shadow", None, 404),
    ],
)
def test_rights(
    client: TestClient, tokens: dict[str, str], who: str, method: str, path: str, body: object, status: int
) -> None:
    assert client.request(method, path, json=body, headers=bearer(tokens[who])).status_code == status


def test_tokens_are_kept_hashed_and_private(tmp_path: Path, tokens: dict[str, str]) -> None:
    path = tmp_path / "tokens.json"
    assert path.stat().st_mode & 0o777 == 0o600
    kept = path.read_text()
    assert not any(token.split("_", 2)[2] in kept for token in tokens.values())
    assert len(json.loads(kept)["tokens"]) == len(tokens)


def test_a_revoked_or_old_token_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Tokens(tmp_path / "t.json")
    made = held.create(Principal("one", ("*",), ("read",)))
    old = held.create(Principal("old", ("*",), ("read",), expires=1.0))
    other = Tokens(tmp_path / "t.json")
    assert other.find(made) is not None
    assert other.find(old) is None
    assert held.revoke("one")
    other.refresh()
    assert other.find(made) is None


@pytest.mark.parametrize(
    "principal",
    [
        Principal("Big", ("*",), ("read",)),
        Principal("x", (), ("read",)),
        Principal("x", ("*",), ("fly",)),
        Principal("x", ("*",), ()),
        Principal("x", ("*",), ("read",), rate="fast"),
    ],
)
def test_malformed_tokens_are_refused(tmp_path: Path, principal: Principal) -> None:
    with pytest.raises(UsageError):
        Tokens(tmp_path / "t.json").create(principal)


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{")
    with pytest.raises(UsageError, match="nearkin token create"):
        Tokens(tmp_path / "t.json")


def test_beyond_this_machine_only_with_tokens(tmp_path: Path) -> None:
    fields = {"store": "memory://", "tokens": tmp_path / "t.json", "host": "0.0.0.0"}
    with pytest.raises(UsageError, match="--allow-anonymous"):
        create_app(ServerSettings.read(**fields))
    create_app(ServerSettings.read(**fields, allow_anonymous=True))
    Tokens(tmp_path / "t.json").create(Principal("one", ("*",), ("read",)))
    create_app(ServerSettings.read(**fields))


def test_a_token_added_later_ends_the_open_door(serve: Serve, tmp_path: Path) -> None:
    client = serve()
    assert client.get("/v1/spec").status_code == 200
    Tokens(tmp_path / "tokens.json").create(Principal("one", ("*",), ("read",)))
    client.app.state.gate.tokens.refresh()  # type: ignore[attr-defined]
    assert client.get("/v1/spec").status_code == 401


def test_rates_of_a_token_and_of_a_source(serve: Serve, tmp_path: Path) -> None:
    made = Tokens(tmp_path / "tokens.json").create(Principal("slow", ("*",), ("read", "write"), rate="3/minute"))
    client = serve()
    told = [client.post("/v1/scopes/a/query", json={"text": CAT}, headers=bearer(made)) for _ in range(5)]
    assert [answer.status_code for answer in told] == [200, 200, 200, 429, 429]
    assert told[-1].json()["code"] == "rate-limited"
    assert 1 <= int(told[-1].headers["retry-after"]) <= 60


def test_the_source_rate_counts_without_tokens(serve: Serve) -> None:
    client = serve(source_rate="2/minute")
    told = [client.post("/v1/scopes/a/documents", json={"text": CAT}).status_code for _ in range(3)]
    assert told == [200, 200, 429]


def test_guessing_is_slowed_down(serve: Serve, tmp_path: Path) -> None:
    made = Tokens(tmp_path / "tokens.json").create(Principal("one", ("*",), ("read",)))
    client = serve(failures="3/minute")
    told = [client.get("/v1/spec", headers=bearer("nk_one_" + "A" * 43)).status_code for _ in range(5)]
    assert told == [401, 401, 401, 429, 429]
    assert client.get("/v1/spec", headers=bearer(made)).status_code == 429, "from there, for a while"


def test_one_source_cannot_make_others_slow(serve: Serve) -> None:
    """Somebody floods one bucket; whoever meets it is compared with no more documents than the cap."""
    client = serve(index={"max_candidates": "20", "threshold": "0.8", "max_bucket": "30", "shingle": "words:1", "k": "64"})
    base = " ".join(f"w{i}" for i in range(30))
    flood = "".join(
        json.dumps({"text": f"{base} " + " ".join(f"x{i}y{j}" for j in range(14))}) + "\n" for i in range(600)
    ).encode()
    client.post("/v1/scopes/a/documents", content=flood, headers=NDJSON)
    client.post("/v1/scopes/b/documents", content=flood, headers=NDJSON)
    stats = client.get("/v1/stats").json()
    assert stats["leaders"] > 500, "the flood's documents stand for themselves"
    assert stats["evicted"] > 0
    told = client.post(
        "/v1/scopes/a/documents", json={"text": f"{base} and what somebody else wrote of it in his own words here"}
    )
    assert 0 < told.json()["candidates"] <= 20
    other = client.post("/v1/scopes/c/documents", json={"text": f"{base} and what somebody else wrote of it"})
    assert other.json()["candidates"] == 0, "another scope does not see the flood"
