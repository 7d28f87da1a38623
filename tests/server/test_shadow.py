"""Another banding beside the live one, and the prober."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import nearkin.server.shadow
from nearkin.errors import UsageError
from nearkin.index.index import Index
from nearkin.server.prober import probe, read_pairs
from nearkin.server.shadow import MARK, SCOPE, Shadow
from tests.server.conftest import Serve

URL = "/v1/scopes/a/documents"


def text(i: int) -> str:
    return " ".join(f"w{(i // 4) * 1000 + j}" for j in range(60 + i % 4))


def facts(client: TestClient, documents: int = 0) -> dict[str, object]:
    """Once the shadow has seen so many."""
    until = time.monotonic() + 60
    while True:
        found: dict[str, object] = client.get("/v1/shadow").json()
        if found["filled"] and not found["behind"] and found["sides"]["shadow"]["documents"] >= documents:  # type: ignore[index]
            return found
        assert time.monotonic() < until, found
        time.sleep(0.02)


def both(tmp_path: Path, **more: object) -> dict[str, object]:
    shadow = {"shadow_store": f"sqlite:///{tmp_path}/shadow.db", "shadow_bands": 32, "shadow_rows": 4}
    return {"store": f"sqlite:///{tmp_path}/live.db", "index": {"bands": "13", "rows": "7"}, **shadow, **more}


def test_a_shadow_is_filled_fed_and_compared(serve: Serve, tmp_path: Path) -> None:
    with Index.open(f"sqlite:///{tmp_path}/live.db", bands=13, rows=7) as before:
        before.upsert_many("a", [text(i) for i in range(40)], [str(i) for i in range(40)])
    client = serve(**both(tmp_path, keyed=False))
    facts(client)
    for i in range(40, 60):
        client.post(URL, json={"id": str(i), "text": text(i)})
    client.delete(f"{URL}/3")
    found = facts(client, 20)
    assert found["agreement"] == 1.0
    assert found["banding"] == {"live": {"bands": 13, "rows": 7, "probes": 0}, "shadow": {"bands": 32, "rows": 4, "probes": 0}}
    assert client.app.state.service.shadow.other.store.counts()["records"] == 59  # type: ignore[attr-defined]


def test_over_and_back_and_over_a_restart(serve: Serve, tmp_path: Path) -> None:
    client = serve(**both(tmp_path))
    facts(client)
    client.post(URL, json={"id": "one", "text": text(0)})
    facts(client, 1)
    assert client.post("/v1/shadow", json={"live": "shadow"}).json()["live"] == "shadow"
    assert (client.get("/v1/spec").json()["bands"], client.get("/v1/spec").json()["rows"]) == (32, 4)
    assert client.post(URL, json={"id": "two", "text": text(1)}).json()["representative"] == "one"
    again = serve(**both(tmp_path))
    assert again.get("/v1/spec").json()["bands"] == 32
    facts(client, 1)
    assert client.post("/v1/shadow", json={"live": "primary"}).json()["live"] == "primary"
    assert client.get("/v1/spec").json()["bands"] == 13
    assert client.get(f"{URL}/two").status_code == 200, "the other one was fed meanwhile"


def test_a_shadow_that_missed_something_does_not_answer(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nearkin.errors import StoreError

    client = serve(**both(tmp_path))
    facts(client)
    shadow: Shadow = client.app.state.service.shadow  # type: ignore[attr-defined]

    def failing(*_: object) -> None:
        raise StoreError("gone")

    monkeypatch.setattr(shadow.other.store, "apply", failing)
    assert client.post(URL, json={"id": "one", "text": text(0)}).status_code == 200
    until = time.monotonic() + 60
    while not client.get("/v1/shadow").json()["failed"]:
        assert time.monotonic() < until
        time.sleep(0.02)
    told = client.post("/v1/shadow", json={"live": "shadow"})
    assert (told.status_code, told.json()["code"]) == (409, "conflict")


def test_a_shadow_differs_in_its_banding_alone(tmp_path: Path) -> None:
    with Index.open("memory://", threshold=0.8, bands=13, rows=7) as live:
        with Index.open("memory://", threshold=0.8, bands=13, rows=7) as same, pytest.raises(UsageError, match="13 x 7"):
            Shadow(live, same)
        with Index.open("memory://", threshold=0.7, bands=13, rows=7) as other, pytest.raises(UsageError, match="threshold"):
            Shadow(live, other)


def test_golden_pairs_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"a": text(0), "b": text(1)},
        {"a": text(2), "b": text(3), "similar": True},
        {"a": text(4), "b": text(40)},
        {"a": text(8), "b": text(9), "similar": False},
        {"a": text(12), "b": text(44), "similar": False},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Index.open("memory://") as index:
        for _ in range(2):
            found = probe(index, read_pairs(path))
            assert (found.similar, found.found, found.distinct, found.mistaken) == (3, 2, 2, 1)
        assert found.recall == pytest.approx(2 / 3)


@pytest.mark.parametrize("content", ["", "{", '{"a": "x"}', '{"a": 1, "b": 2}'])
def test_golden_pairs_that_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "p.jsonl").write_text(content)
    with pytest.raises(UsageError, match=r"p\.jsonl"):
        read_pairs(tmp_path / "p.jsonl")


def test_what_the_one_that_answers_took_last_survives_a_kill() -> None:
    """The other one answers, and has a document that did not reach the first before the server ended."""
    with Index.open("memory://", bands=13, rows=7) as primary:
        other = Index.open("memory://", bands=32, rows=4)
        for index in (primary, other):
            index.upsert("a", text(0), "one")
        other.upsert("a", text(8), "two")
        for index in (other, primary):
            index.upsert(SCOPE, MARK, MARK)
        shadow = Shadow(primary, other)
        until = time.monotonic() + 60
        while not shadow.facts()["filled"]:
            assert time.monotonic() < until
        assert shadow.live is other
        assert [index.get("a", "two") is not None for index in (primary, other)] == [True, True]
        assert primary.get(SCOPE, MARK) is not None, "the mark is the first one's own"
        shadow.close()


def test_what_comes_while_it_is_filled_is_brought_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with Index.open("memory://", bands=13, rows=7) as primary:
        other = Index.open("memory://", bands=32, rows=4)
        primary.upsert_many("a", [text(8 * i) for i in range(20)], [str(i) for i in range(20)])
        begun, go_on = threading.Event(), threading.Event()
        filling = nearkin.server.shadow.fill

        def slow(*arguments: Any) -> Any:
            done = filling(*arguments)
            begun.set()
            go_on.wait(60)
            return done

        monkeypatch.setattr(nearkin.server.shadow, "fill", slow)
        shadow = Shadow(primary, other)
        begun.wait(60)
        outcome = primary.upsert("a", text(400), "late")
        shadow.fed(primary, "a", [text(400)], [outcome], 0.0)
        primary.remove("a", "3")
        shadow.removed(primary, "a", "3")
        assert shadow.facts()["behind"] == 0, "nothing waits in the queue meanwhile"
        go_on.set()
        while not shadow.facts()["filled"]:
            time.sleep(0.01)
        assert other.get("a", "late") is not None
        assert other.get("a", "3") is None
        shadow.close()
