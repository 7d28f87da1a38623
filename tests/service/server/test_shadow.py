"""Tests of the shadow index."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import nearkin.index.migration.cutover
import nearkin.service.server.shadow
from nearkin.errors import UsageError
from nearkin.index.decision_records import HEAD, decision_id, decisions_scope
from nearkin.index.index import Index
from nearkin.index.maintenance import check_index
from nearkin.index.migration.copy import Copier
from nearkin.index.parts import parts_scope
from nearkin.service.server.shadow import LiveSide, ShadowIndex
from nearkin.settings.decisions import Decision, Verdict
from tests.service.server.conftest import Serve
from tests.service.server.grouped_texts import text
from tests.services import wait_until

URL = "/v1/scopes/a/documents"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches wait for other processes to see them, and here there are none."""
    monkeypatch.setattr(nearkin.index.migration.cutover, "REFRESH_SECONDS", 0.1)


def facts(client: TestClient, documents: int = 0) -> dict[str, object]:
    """Waits until the shadow index has processed some documents."""
    found: dict[str, Any] = {}

    def has_caught_up() -> bool:
        found.update(client.get("/v1/shadow").json())
        return bool(
            found["filled"]
            and not found["behind"]
            and found["sides"]["shadow"]["documents"] >= documents
        )

    wait_until(has_caught_up, f"the shadow index has {documents} documents")
    return found


def both(tmp_path: Path, **more: object) -> dict[str, object]:
    shadow = {
        "shadow_store": f"sqlite:///{tmp_path}/shadow.db",
        "shadow_bands": 32,
        "shadow_rows": 4,
    }
    return {
        "store": f"sqlite:///{tmp_path}/live.db",
        "index": {"bands": "13", "rows": "7"},
        **shadow,
        **more,
    }


def test_shadow_index_is_filled_updated_and_compared(serve: Serve, tmp_path: Path) -> None:
    with Index.open(f"sqlite:///{tmp_path}/live.db", bands=13, rows=7) as before:
        before.upsert_many("a", [text(i) for i in range(40)], [str(i) for i in range(40)])
    client = serve(**both(tmp_path, keyed=False))
    facts(client)
    for i in range(40, 60):
        client.post(URL, json={"id": str(i), "text": text(i)})
    client.delete(f"{URL}/3")
    shadow_facts = facts(client, 20)
    assert shadow_facts["agreement"] == 1.0
    assert shadow_facts["banding"] == {
        "live": {"bands": 13, "rows": 7, "probes": 0},
        "shadow": {"bands": 32, "rows": 4, "probes": 0},
    }
    assert client.app.state.service.shadow.standby._session.store.counts()["records"] == 59  # type: ignore[attr-defined]


def test_shadow_index_follows_decisions(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "decisions.csv"
    file.write_text("id_a,id_b,decision\na,d,different\n")
    client = serve(**both(tmp_path, keyed=False, decisions={"a": file}))
    facts(client)
    for id in "abcd":
        client.post(URL, json={"id": id, "text": text(0)})
    facts(client, 4)
    service = client.app.state.service  # type: ignore[attr-defined]
    service.index.decide("a", [Decision("a", "b", Verdict.DIFFERENT)])
    service.shadow.mark_changed(decisions_scope("a"), decision_id(("a", "b")), HEAD)
    facts(client)
    for index in (service.index, service.shadow.standby):
        leaders = {entry.id: entry.leader for entry in index.scan("a")}
        # b has the content of d, from which it is not decided to be different
        assert leaders == {"a": "a", "b": "d", "c": "a", "d": "d"}
        assert index.decisions("a").different == [("a", "b")]
    assert client.post("/v1/shadow", json={"live": "shadow"}).json()["live"] == "shadow"
    client.delete(f"{URL}/b")
    assert client.post(URL, json={"id": "b", "text": text(0)}).json()["representative"] != "a"


def test_switch_survives_restart(serve: Serve, tmp_path: Path) -> None:
    client = serve(**both(tmp_path))
    facts(client)
    client.post(URL, json={"id": "one", "text": text(0)})
    facts(client, 1)
    assert client.post("/v1/shadow", json={"live": "shadow"}).json()["live"] == "shadow"
    assert (client.get("/v1/spec").json()["bands"], client.get("/v1/spec").json()["rows"]) == (
        32,
        4,
    )
    assert client.post(URL, json={"id": "two", "text": text(1)}).json()["representative"] == "one"
    again = serve(**both(tmp_path))
    assert again.get("/v1/spec").json()["bands"] == 32
    facts(client, 1)
    assert client.post("/v1/shadow", json={"live": "primary"}).json()["live"] == "primary"
    assert client.get("/v1/spec").json()["bands"] == 13
    assert client.get(f"{URL}/two").status_code == 200, "the other one was fed meanwhile"


def test_incomplete_shadow_index_cannot_become_live(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nearkin.errors import StoreError

    client = serve(**both(tmp_path))
    facts(client)
    shadow: ShadowIndex = client.app.state.service.shadow  # type: ignore[attr-defined]

    def failing(*_: object) -> None:
        raise StoreError("gone")

    monkeypatch.setattr(shadow.standby._session.store, "apply", failing)
    assert client.post(URL, json={"id": "one", "text": text(0)}).status_code == 200
    wait_until(lambda: client.get("/v1/shadow").json()["failed"], "the shadow index has failed")
    refusal = client.post("/v1/shadow", json={"live": "shadow"})
    assert (refusal.status_code, refusal.json()["code"]) == (409, "conflict")


def test_shadow_index_must_differ_only_in_banding(tmp_path: Path) -> None:
    with Index.open(f"sqlite:///{tmp_path}/a.db", threshold=0.8, bands=13, rows=7) as live:
        live.upsert("a", text(0), "one")
        for fields, message in (
            ({"threshold": 0.8, "bands": 13, "rows": 7}, "13 x 7"),
            ({"threshold": 0.7, "bands": 13, "rows": 7}, "threshold"),
        ):
            url = f"sqlite:///{tmp_path}/{message}.db"
            with pytest.raises(UsageError, match=message):
                ShadowIndex(
                    live,
                    ("other",),
                    lambda _, url=url, fields=fields: Index.open(url, follow=False, **fields),
                )  # type: ignore[misc]


def test_shadow_store_with_another_index_is_rejected(serve: Serve, tmp_path: Path) -> None:
    settings = both(tmp_path, keyed=False)
    with Index.open(str(settings["shadow_store"]), bands=32, rows=4) as theirs:
        theirs.upsert("a", text(0), "theirs")
    with pytest.raises(UsageError, match="already has documents"):
        serve(**settings)
    with Index.open(str(settings["shadow_store"])) as theirs:
        assert theirs.get("a", "theirs") is not None


def opener(tmp_path: Path) -> Any:
    def opened(side: LiveSide) -> Index:
        banding = {"bands": 32, "rows": 4} if side == LiveSide.SHADOW else {"bands": 13, "rows": 7}
        return Index.open(f"sqlite:///{tmp_path}/{side}.db", follow=False, **banding)  # type: ignore[arg-type]

    return opened


def first(tmp_path: Path) -> Index:
    return Index.open(f"sqlite:///{tmp_path}/primary.db", bands=13, rows=7)


def beside(index: Index, tmp_path: Path) -> ShadowIndex:
    return ShadowIndex(index, (f"sqlite:///{tmp_path}/shadow.db",), opener(tmp_path))


def settled(*shadows: ShadowIndex) -> None:
    def is_settled() -> bool:
        return all(
            shadow.status()["filled"] and not shadow.status()["behind"] for shadow in shadows
        )

    wait_until(is_settled, "the shadows are filled")


def upsert(shadow: ShadowIndex, i: int, id: str) -> None:
    shadow.record_upserts("a", [shadow.index.upsert("a", text(i), id)], 0.0)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a switch not wait for readers, because no other process has the index open."""
    monkeypatch.setattr(nearkin.index.migration.cutover, "REFRESH_SECONDS", 0.0)


@contextmanager
def switched(tmp_path: Path) -> Iterator[Index]:
    """The second one answers, and has the document `one`; what ran beside it has ended."""
    with first(tmp_path) as index:
        shadow = beside(index, tmp_path)
        upsert(shadow, 0, "one")
        settled(shadow)
        shadow.switch(LiveSide.SHADOW)
        shadow.close()
        yield index


def test_last_documents_survive_a_kill_during_switch(tmp_path: Path, at_once: None) -> None:
    """The other one answers, and has a document that did not reach the first before the server
    ended."""
    with switched(tmp_path) as index:
        index.upsert("a", text(8), "two")
    with first(tmp_path) as index:
        assert index.banding.bands == 32, "it is where it moved to"
        shadow = beside(index, tmp_path)
        settled(shadow)
        assert shadow.live_side == LiveSide.SHADOW
        assert shadow.standby.banding.bands == 13
        assert shadow.standby._session.store.entries("a", ["one", "two"]).count(None) == 0
        shadow.close()


def test_wrong_shadow_store_does_not_lose_documents(tmp_path: Path, at_once: None) -> None:
    """The shadow index is live, and the server is started with another shadow store by mistake."""
    with switched(tmp_path):
        pass
    with first(tmp_path) as index:
        third = f"sqlite:///{tmp_path}/third.db"
        other = ShadowIndex(
            index, (third,), lambda _: Index.open(third, bands=20, rows=5, follow=False)
        )
        settled(other)
        other.close()
        assert index.get("a", "one") is not None
    with Index.open(f"sqlite:///{tmp_path}/primary.db", follow=False) as left:
        assert left.get("a", "one") is not None


def test_changes_during_fill_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with first(tmp_path) as index:
        index.upsert_many("a", [text(8 * i) for i in range(20)], [str(i) for i in range(20)])
        begun, go_on = threading.Event(), threading.Event()
        filling = Copier.copy_missing

        def slow(*arguments: Any) -> Any:
            done = filling(*arguments)
            begun.set()
            go_on.wait(60)
            return done

        monkeypatch.setattr(Copier, "copy_missing", slow)
        shadow = beside(index, tmp_path)
        begun.wait(60)
        upsert(shadow, 400, "late")
        index.remove("a", "3")
        shadow.mark_changed("a", "3")
        go_on.set()
        settled(shadow)
        assert shadow.standby.get("a", "late") is not None
        assert shadow.standby.get("a", "3") is None
        shadow.close()


def test_late_copies_use_the_current_document(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late copy has the current state of a document that another worker changed or deleted."""
    with first(tmp_path) as mine, first(tmp_path) as other:
        workers = [beside(index, tmp_path) for index in (mine, other)]
        settled(*workers)
        released = threading.Event()
        really = workers[0]._copy_changes

        def late(scope: str, names: list[str]) -> None:
            released.wait(60)
            really(scope, names)

        monkeypatch.setattr(workers[0], "_copy_changes", late)
        upsert(workers[0], 0, "erased")
        upsert(workers[0], 80, "changed")
        other.remove("a", "erased")
        workers[1].mark_changed("a", "erased")
        upsert(workers[1], 160, "changed")
        settled(workers[1])
        released.set()
        settled(*workers)
        for worker in workers:
            assert worker.standby.get("a", "erased") is None
            entry = worker.standby.get("a", "changed")
            assert entry is not None
            assert entry.text == text(160)
        # one of them switches, the other follows; nobody writes to the first any more, and pieces
        # come along
        mine.add_part("a", "open", text(240))
        workers[0].mark_changed(parts_scope("a"), "open")
        settled(*workers)
        workers[0].switch(LiveSide.SHADOW)
        workers[1].refresh()
        upsert(workers[1], 320, "there")
        settled(*workers)
        for worker in workers:
            assert worker.live_side == LiveSide.SHADOW
            assert worker.standby.get("a", "there") is not None
            assert check_index(worker.index).sound
        sealed = other.finish("a", "open")
        assert sealed is not None
        assert sealed.kind == "new"
        for worker in workers:
            worker.close()


def test_hits_extend_time_to_live_in_both_indexes(tmp_path: Path, at_once: None) -> None:
    """A document that is upserted again lives longer in the standby index, too.

    And which one answers does not depend on time.
    """
    now = [0.0]
    with Index.open(
        f"sqlite:///{tmp_path}/primary.db", bands=13, rows=7, record_ttl=100.0, clock=lambda: now[0]
    ) as index:

        def opened(side: LiveSide) -> Index:
            url = f"sqlite:///{tmp_path}/{side}.db"
            banding = (
                {"bands": 32, "rows": 4} if side == LiveSide.SHADOW else {"bands": 13, "rows": 7}
            )
            return Index.open(url, follow=False, record_ttl=100.0, clock=lambda: now[0], **banding)  # type: ignore[arg-type]

        shadow = ShadowIndex(index, (f"sqlite:///{tmp_path}/shadow.db",), opened)
        upsert(shadow, 0, "again")
        upsert(shadow, 80, "once")
        settled(shadow)
        shadow.switch(LiveSide.SHADOW)
        settled(shadow)
        now[0] = 60.0
        upsert(shadow, 0, "again")
        settled(shadow)
        now[0] = 120.0
        assert index.expire()["records"] == shadow.expire()["records"] == 1
        assert shadow.live_side == LiveSide.SHADOW
        for one in (index, shadow.standby):
            assert [one.get("a", name) is not None for name in ("again", "once")] == [True, False]
        shadow.close()
