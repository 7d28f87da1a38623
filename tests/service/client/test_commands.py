"""Tests of the commands that use a server in place of a store."""

import json
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from tests.service.client.conftest import CAT


def test_documents_are_searched_and_removed_over_a_server(
    address: str, scope: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"other {scope}"
    with nk.Client(address) as client:
        for name in (scope, other):
            client.upsert(name, CAT, "one")
            client.upsert(name, f"{CAT} again", "two")
    page = tmp_path / "page.txt"
    page.write_text(CAT)
    scopes = ("--scope", scope, "--scope", other)
    assert command(["index", "query", str(page), *scopes, "--server", address]) == 0
    assert f"scope {other}" in capsys.readouterr().out
    for line, removed in ((["two"], 1), (["--all"], 1), (["--all"], 0)):
        options = ["--scope", scope, "--server", address, "--json"]
        assert command(["index", "remove", *line, *options]) == 0
        assert json.loads(capsys.readouterr().out) == {"removed": removed, "not_there": 0}
    with nk.Client(address) as client:
        assert client.get(other, "two") is not None


def test_a_command_needs_a_store_or_a_server(
    capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert command(["index", "remove", "a"]) == 2
    assert "give the index: --store URL, or --server URL" in capsys.readouterr().err
    assert command(["index", "remove", "a", "--store", "memory://", "--server", address]) == 2
    assert "--store and --server exclude each other" in capsys.readouterr().err
