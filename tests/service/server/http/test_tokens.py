"""Tests of the tokens file."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from nearkin.errors import UsageError
from nearkin.service.server.http.tokens import Principal, TokenFile


@pytest.mark.promise("Tokens are stored as hashes, in a file that others cannot read.")
def test_tokens_are_kept_hashed_and_private(tmp_path: Path, tokens: dict[str, str]) -> None:
    path = tmp_path / "tokens.json"
    assert path.stat().st_mode & 0o777 == 0o600
    kept = path.read_text()
    assert not any(token.split("_", 2)[2] in kept for token in tokens.values())
    assert len(json.loads(kept)["tokens"]) == len(tokens)


def test_tokens_file_and_lock_are_not_written_through_links(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "t.json.lock").symlink_to(precious)
    with pytest.raises(UsageError, match="cannot write"):
        TokenFile(tmp_path / "t.json").create(Principal("one", ("*",), ("read",)))
    (tmp_path / "t.json.lock").unlink()
    TokenFile(tmp_path / "t.json").create(Principal("one", ("*",), ("read",)))
    (tmp_path / "u.json").symlink_to(precious)
    with pytest.raises(UsageError):
        TokenFile(tmp_path / "u.json")
    assert precious.read_text() == "kept"
    assert (tmp_path / "t.json.lock").stat().st_mode & 0o777 == 0o600


def test_revoked_and_expired_tokens_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    token_file = TokenFile(tmp_path / "t.json")
    made = token_file.create(Principal("one", ("*",), ("read",)))
    old = token_file.create(Principal("old", ("*",), ("read",), expires=now + 600))
    assert token_file.find(old) is not None
    clock = SimpleNamespace(time=lambda: now + 600)
    monkeypatch.setattr("nearkin.service.server.http.tokens.time", clock)
    other = TokenFile(tmp_path / "t.json")
    assert other.find(made) is not None
    assert other.find(old) is None
    assert token_file.revoke("one")
    other.refresh()
    assert other.find(made) is None


def test_a_token_that_never_existed_is_not_revoked(tmp_path: Path) -> None:
    """A file without tokens would end the anonymous access to a server."""
    token_file = TokenFile(tmp_path / "t.json")
    assert not token_file.revoke("one")
    assert not token_file.is_protected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "principal",
    [
        Principal("Big", ("*",), ("read",)),
        Principal("x", (), ("read",)),
        Principal("x", ("*",), ("fly",)),
        Principal("x", ("*",), ()),
        Principal("x", ("*",), ("read",), rate="fast"),
        Principal("x", ("*",), ("read",), rate="0/second"),
        Principal("x", ("*",), ("read",), rate="5/second;1/minute"),
        Principal("x", ("te*m",), ("read",)),
        Principal("x", ("*",), ("read",), expires=1.0),
        Principal("x", ("*",), ("read",), expires=float("nan")),
        Principal("x", ("*",), ("read",), expires=float("inf")),
    ],
)
def test_malformed_principal_is_rejected(tmp_path: Path, principal: Principal) -> None:
    with pytest.raises(UsageError):
        TokenFile(tmp_path / "t.json").create(principal)


def test_damaged_tokens_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{")
    with pytest.raises(UsageError, match="nearkin server token create"):
        TokenFile(tmp_path / "t.json")


@pytest.mark.parametrize("scope", ["\x1fparts", "a\nb", "x" * 2_000, "team\x00*"])
def test_token_cannot_have_reserved_scopes(tmp_path: Path, scope: str) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    with pytest.raises(UsageError, match="control characters"):
        tokens.create(Principal("one", (scope,), ("read",)))
    assert tokens.principals() == []
