"""The banner of a server: addresses, store, and who may enter."""

from pathlib import Path

import pytest

from nearkin.service.server.banner import describe_server, format_banner
from nearkin.service.server.http.tokens import Principal, TokenFile
from nearkin.service.server.settings import ServerSettings


def banner(tmp_path: Path, *, is_open: bool, **settings: object) -> str:
    read = ServerSettings.read(tokens=tmp_path / "tokens.json", **settings)
    tokens = TokenFile(read.tokens)
    facts = describe_server(read, 8080, tokens, is_open=is_open, has_console=True)
    return format_banner(facts)


def test_banner_names_addresses_store_and_access(tmp_path: Path) -> None:
    text = banner(tmp_path, is_open=True, store="redis://me:password@kin.example:6379/0")
    assert "http://127.0.0.1:8080/console/" in text
    assert "http://127.0.0.1:8080/docs" in text
    assert "everybody on this machine" in text
    assert "password" not in text
    assert "redis://" in text


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"host": "::1"}, "http://[::1]:8080"),
        ({}, "retention documents are kept until somebody deletes them"),
        ({"index": {"record_ttl": "7776000"}}, "retention documents are deleted 90 days after"),
        ({"store": "memory://"}, "documents are lost when the server stops"),
        ({"host": "0.0.0.0", "allow_anonymous": True}, "everybody who reaches the address"),
    ],
)
def test_banner_says_what_a_setting_means(
    tmp_path: Path, settings: dict[str, object], part: str
) -> None:
    assert part in banner(tmp_path, is_open=True, **settings)


def test_banner_names_the_tokens_file_of_a_protected_server(tmp_path: Path) -> None:
    TokenFile(tmp_path / "tokens.json").create(Principal("one", ("*",), ("admin",)))
    text = banner(tmp_path, is_open=False)
    assert f"holders of one of 1 tokens in {tmp_path / 'tokens.json'}" in text
