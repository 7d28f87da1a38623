"""An index that was served with tokens is not served without them if their file is missing."""

from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import StoreError, UsageError
from nearkin.service.server.app import create_app
from nearkin.service.server.http.tokens import Principal, TokenFile
from nearkin.service.server.resources import open_index
from nearkin.service.server.settings import ServerSettings
from tests.service.server.conftest import Serve
from tests.service.server.serving import server

READER = Principal("one", ("*",), ("read",))


def test_server_refuses_to_start_if_tokens_file_is_lost(serve: Serve, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/kin.db"
    TokenFile(tmp_path / "tokens.json").create(READER)
    assert serve(store=store, keyed=False).get("/v1/spec").status_code == 401
    (tmp_path / "tokens.json").unlink()
    with pytest.raises(
        UsageError,
        match=r"served with tokens before.*tokens\.json does not exist.*--allow-anonymous",
    ):
        serve(store=store, keyed=False)
    assert (
        serve(store=store, keyed=False, allow_anonymous=True).get("/v1/spec").status_code == 200
    ), "if told so"
    TokenFile(tmp_path / "tokens.json").create(READER)
    assert serve(store=store, keyed=False).get("/v1/spec").status_code == 401


@pytest.mark.usefixtures("restored_process")
def test_server_in_another_folder_requires_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The default path of the tokens is relative: a server started elsewhere over the same store
    finds none."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    monkeypatch.chdir(home)
    assert run(["server", "token", "create", "one"]) == 0
    store = ("--store", f"sqlite:///{tmp_path}/kin.db", "--no-keyed")
    with server(home, *store):
        pass
    monkeypatch.chdir(elsewhere)
    assert run(["serve", *store]) == 2
    written = capfd.readouterr().err
    assert f"{elsewhere}/nearkin-tokens.json does not exist" in written
    assert "all rights" not in written, "a server that does not start gives nobody rights"


def test_first_token_marks_the_index_as_protected(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.service.server.app.TOKEN_REFRESH_SECONDS", 0.01)
    client = serve(store=f"sqlite:///{tmp_path}/kin.db", keyed=False)
    store = client.app.state.service.index._session.store  # type: ignore[attr-defined]
    assert not store.is_protected()
    TokenFile(tmp_path / "tokens.json").create(READER)
    while not store.is_protected():
        client.get("/healthz")


def test_log_names_the_tokens_file_and_warns_without_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ServerSettings.read(store="memory://", tokens=Path("tokens.json"))
    with caplog.at_level("INFO", "nearkin.server"):
        create_app(settings)
        TokenFile(tmp_path / "tokens.json").create(READER)
        create_app(settings)
    first, second = (record for record in caplog.records if hasattr(record, "tokens"))
    assert (first.levelname, first.file, first.tokens) == ("WARNING", f"{tmp_path}/tokens.json", 0)  # type: ignore[attr-defined]
    assert (second.levelname, second.file, second.tokens) == ("INFO", f"{tmp_path}/tokens.json", 1)  # type: ignore[attr-defined]


def key_settings(tmp_path: Path, store: str) -> ServerSettings:
    """Settings of a server whose key does not exist yet."""
    return ServerSettings.read(
        store=store, key_file=str(tmp_path / "new.key"), tokens=tmp_path / "tokens.json"
    )


def test_memory_store_needs_no_key_file_and_gives_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_index(key_settings(tmp_path, "memory://")) as index:
        assert index.spec.key_id is not None
    assert caplog.records == []
    assert list(tmp_path.iterdir()) == []


def test_no_key_is_announced_for_an_index_without_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    nk.Index.open(url).close()
    with open_index(key_settings(tmp_path, url)) as index:
        assert index.spec.key_id is None
    assert not any("secret key" in record.getMessage() for record in caplog.records)
    assert not (tmp_path / "new.key").exists()


def test_a_key_is_announced_if_it_stays_after_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index may have been created with it."""

    def fail(*_: object, **__: object) -> None:
        raise StoreError("the answer of the store was lost")

    monkeypatch.setattr(nk.Index, "open", fail)
    with pytest.raises(StoreError):
        open_index(key_settings(tmp_path, f"sqlite:///{tmp_path}/kin.db"))
    assert (tmp_path / "new.key").exists()
    assert "secret key created" in caplog.records[0].getMessage()


def test_created_key_is_logged_with_its_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_index(key_settings(tmp_path, f"sqlite:///{tmp_path}/kin.db")) as index:
        (record,) = caplog.records
        assert "secret key created" in record.getMessage()
        assert vars(record)["key_id"] == index.spec.key_id
        assert "key" not in vars(record)
