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


def test_settings_of_a_scope_are_set_and_shown(
    address: str, scope: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    nk.Index.open(url).close()
    for where in (("--store", url), ("--server", address)):

        def result_of(*line: str, where: tuple[str, str] = where) -> dict[str, object]:
            assert command(["index", "scope", scope, *line, *where, "--json"]) == 0
            facts = json.loads(capsys.readouterr().out)
            return {name: value for name, value in facts.items() if value is not None}

        ttl = result_of("--record-ttl", "90d", "--threshold", "0.9")
        assert ttl == {"threshold": 0.9, "record_ttl": 90 * 86400}
        quota = {"max_bytes": 5_000_000_000, "used_documents": 0, "used_bytes": 0}
        assert result_of("--max-bytes", "5GB") == {**ttl, **quota}
        assert result_of() == {**ttl, **quota}
        assert result_of("--reset", "--max-documents", "3")["max_documents"] == 3
        assert result_of("--reset") == {}
        assert command(["index", "scope", scope, "--threshold", "0.2", *where]) > 0
        assert "threshold" in capsys.readouterr().err


def test_a_command_needs_a_store_or_a_server(
    capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert command(["index", "remove", "a"]) == 2
    assert "give the index: --store URL, or --server URL" in capsys.readouterr().err
    assert command(["index", "remove", "a", "--store", "memory://", "--server", address]) == 2
    assert "--store and --server exclude each other" in capsys.readouterr().err
