"""Tokens of different rights, for the tests of access."""

from pathlib import Path

import pytest

from nearkin.service.server.http.tokens import Principal, TokenFile


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    token_file = TokenFile(tmp_path / "tokens.json")
    every = {
        "mine": Principal("mine", ("mine",), ("read", "write")),
        "theirs": Principal("theirs", ("theirs",), ("read", "write")),
        "reader": Principal("reader", ("mine",), ("read",)),
        "writer": Principal("writer", ("mine",), ("write",)),
        "scraper": Principal("scraper", ("*",), ("metrics",)),
        "boss": Principal("boss", ("*",), ("admin",)),
    }
    return {name: token_file.create(principal) for name, principal in every.items()}
