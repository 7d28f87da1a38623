"""A server reads its blocklist again when the file changes."""

import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import nearkin as nk
from nearkin.service.server import service
from nearkin.service.server.watched_blocklist import WatchedBlocklist
from tests.service.server.conftest import Serve
from tests.services import wait_until

FIRST = "the minutes of the meeting that was never held in the house at the lake in may"
SECOND = "a timetable of the boats on the lake which stop at the house in summer months only"


def save(path: Path, *texts: str, spec: nk.Spec | None = None) -> None:
    blocklist = nk.Blocklist(spec)
    blocklist.add(texts)
    blocklist.save(path)


def kind_of(client: TestClient, text: str) -> str:
    return str(client.post("/v1/scopes/a/documents", json={"text": text}).json()["kind"])


def metric(client: TestClient, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    (line,) = [line for line in lines if line.startswith(name)]
    return float(line.split()[-1])


def test_a_server_uses_a_changed_list_and_keeps_the_previous_one_if_it_is_broken(
    serve: Serve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(service, "BLOCKLIST_REFRESH_SECONDS", 0.01)
    path = tmp_path / "blocked.list"
    save(path, FIRST)
    client = serve(keyed=False, blocklist=path)
    assert kind_of(client, FIRST) == "blocked"
    assert metric(client, "nearkin_blocklist_entries") == 1
    save(path, FIRST, SECOND)
    wait_until(lambda: metric(client, "nearkin_blocklist_entries") == 2, "the list is read", 30)
    assert kind_of(client, SECOND) == "blocked"
    # at once, as `save` does: the server would also count a file that is still empty
    broken = tmp_path / "broken.list"
    broken.write_bytes(b"broken")
    broken.replace(path)
    failures = "nearkin_blocklist_failures_total"
    wait_until(lambda: metric(client, failures) == 1, "the broken list is refused", 30)
    assert "cannot reload the blocklist" in caplog.text
    assert kind_of(client, SECOND) == "blocked"
    save(path, SECOND)
    wait_until(lambda: metric(client, "nearkin_blocklist_entries") == 1, "the list is read", 30)
    assert kind_of(client, FIRST) == "new"
    assert metric(client, failures) == 1


def test_each_unusable_file_is_tried_once_and_leaves_the_list_in_force(tmp_path: Path) -> None:
    path = tmp_path / "blocked.list"
    save(path, FIRST)
    with nk.Index.open("memory://") as index:
        watched = WatchedBlocklist(path)
        index.use_blocklist(watched.blocklist)
        truncated = path.read_bytes()[:-1]
        path.write_bytes(truncated)
        watched.refresh(index)
        watched.refresh(index)
        assert watched.failures == 1
        path.unlink()
        watched.refresh(index)
        save(path, SECOND, spec=nk.Spec(n=5))
        watched.refresh(index)
        path.unlink()
        path.mkdir()
        watched.refresh(index)
        assert watched.failures == 4
        assert index.blocklist is watched.blocklist
        assert index.upsert("a", FIRST).kind == "blocked"
        path.rmdir()
        save(tmp_path / "other.list", SECOND)
        shutil.move(tmp_path / "other.list", path)
        watched.refresh(index)
        assert (watched.failures, index.upsert("a", SECOND).kind) == (4, "blocked")
