"""A server with decisions follows them at upserts, in their scope."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

import nearkin as nk
from nearkin.cli.app import run as run_command
from nearkin.service.server.settings import ServerSettings
from tests.service.server.conftest import Serve

TEXT = "the river rose two metres overnight and flooded the old mill near the bridge"


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    """A file of decisions."""
    path = tmp_path / "decisions.csv"
    path.write_text("id_a,id_b,decision\na,b,different\nx,a,same\n")
    return path


def upsert(client: TestClient, scope: str, id: str, text: str) -> str:
    answer = client.post(f"/v1/scopes/{scope}/documents", json={"id": id, "text": text})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["representative"])


def test_upserts_follow_the_decisions_of_their_scope(serve: Serve, decisions: Path) -> None:
    client = serve(keyed=False, decisions={"s": decisions})
    assert upsert(client, "s", "a", TEXT) == "a"
    assert upsert(client, "s", "b", TEXT) == "b"
    assert upsert(client, "s", "x", "of its own") == "a"
    assert upsert(client, "other", "a", TEXT) == "a"
    assert upsert(client, "other", "b", TEXT) == "a"


def test_contradictory_decisions_stop_the_start(serve: Serve, decisions: Path) -> None:
    decisions.write_text("id_a,id_b,decision\na,b,same\nb,a,different\n")
    with pytest.raises(nk.UsageError, match="neither is later"):
        serve(keyed=False, decisions={"s": decisions})


def test_decisions_are_set_by_a_variable_and_passed_to_other_processes(
    decisions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARKIN_DECISIONS", f"s={decisions},t=other.csv")
    settings = ServerSettings.read()
    assert settings.decisions == {"s": decisions, "t": Path("other.csv")}
    monkeypatch.setenv("NEARKIN_DECISIONS", settings.as_environment()["NEARKIN_DECISIONS"])
    assert ServerSettings.read().decisions == settings.decisions


def test_decisions_without_a_scope_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["serve", "--decisions", "decisions.csv"]) == 2
    assert "not of the form SCOPE=FILE" in " ".join(capsys.readouterr().err.split())


def test_two_files_of_decisions_of_one_scope_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    repeated = ["--decisions", "web=a.csv", "--decisions", "web=b.csv"]
    assert run_command(["serve", *repeated]) == 2
    assert "--decisions: web is named twice (a.csv and b.csv)" in capsys.readouterr().err
