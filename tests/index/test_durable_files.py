"""Tests that files of an index survive a power cut.

Each file is synced before it is renamed, and its folder is synced afterwards.

The suite covers the index as a whole, over its stores, and not one module.
"""

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nearkin as nk
from nearkin.index.backup import backup, restore
from nearkin.runtime import outputs
from nearkin.runtime.files import PRIVATE_FILE, replacing_durably, staging_name, write_durably
from nearkin.service.server.resources import open_index
from nearkin.service.server.settings import ServerSettings
from tests.index.conftest import corpus

Write = Callable[[Path], Path]


def make_index(folder: Path) -> str:
    url = f"sqlite:///{folder}/kin.db"
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert_many("a", corpus(10))
    return url


def exported(folder: Path) -> Path:
    with nk.Index.open(make_index(folder)) as index:
        index.export(folder / "out.parquet")
    return folder / "out.parquet"


def backed_up(folder: Path) -> Path:
    backup(make_index(folder), folder / "copy.db")
    return folder / "copy.db"


def restored(folder: Path) -> Path:
    backup(make_index(folder), folder / "copy.db")
    restore(folder / "copy.db", f"sqlite:///{folder}/again.db")
    return folder / "again.db"


def key(folder: Path) -> Path:
    write_durably(folder / "some.key", b"secret", PRIVATE_FILE)
    return folder / "some.key"


@pytest.mark.parametrize("write", [exported, backed_up, restored, key])
def test_files_of_an_index_survive_a_power_cut(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data is synced, then the file is renamed, then the folder is synced."""
    done: list[tuple[str, object]] = []
    sync, rename = os.fsync, os.replace

    def fsync(handle: int) -> None:
        done.append(("sync", os.fstat(handle).st_ino))
        sync(handle)

    def replace(source: "str | Path", target: "str | Path") -> None:
        done.append(("name", Path(target).name))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    path = write(tmp_path)
    named = done.index(("name", path.name))
    assert ("sync", path.stat().st_ino) in done[:named]
    assert ("sync", tmp_path.stat().st_ino) in done[named:]


def test_files_with_texts_are_private(tmp_path: Path) -> None:
    assert exported(tmp_path).stat().st_mode & 0o777 == PRIVATE_FILE


def test_a_file_that_stands_where_a_copy_is_made_is_not_followed(tmp_path: Path) -> None:
    url = make_index(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("somebody's file")
    for name in ("out.parquet", "copy.db"):
        for suffix in (".tmp", ""):
            (tmp_path / f"{staging_name(Path(name))}{suffix}").symlink_to(victim)
    with nk.Index.open(url) as index:
        index.export(tmp_path / "out.parquet")
    backup(url, tmp_path / "copy.db")
    assert victim.read_text() == "somebody's file"


def test_the_name_of_a_new_sqlite_file_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("nearkin.index.stores.sqlite.sync_folder", synced.append)
    make_index(tmp_path)
    assert synced == [tmp_path]
    make_index(tmp_path)
    assert synced == [tmp_path]


def test_the_key_of_a_server_is_synced_before_its_index_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that survives a power cut without its key can never be opened again."""
    order: list[str] = []
    sync = os.fsync

    def fsync(handle: int) -> None:
        name = Path(f"/proc/self/fd/{handle}").readlink().name
        order.append(
            "key" if "nearkin.key" in name else "folder" if name == tmp_path.name else name
        )
        sync(handle)

    connect = sqlite3.connect

    def opening(*given: Any, **named: Any) -> sqlite3.Connection:
        order.append("index")
        return connect(*given, **named)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(sqlite3, "connect", opening)
    store, secret = f"sqlite:///{tmp_path}/kin.db", str(tmp_path / "nearkin.key")
    open_index(ServerSettings.read(store=store, key_file=secret)).close()
    assert order[:3] == ["key", "folder", "index"]


def test_threads_that_write_one_file_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with replacing_durably(path) as file:
        file.write(b"first")
        other = threading.Thread(target=write_durably, args=(path, b"second"))
        other.start()
        other.join()
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_containers_that_share_a_folder_do_not_share_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their threads have equal numbers. Each file is known as that of its target."""
    monkeypatch.setattr("nearkin.runtime.files.get_native_id", lambda: 7)
    names: set[str] = set()
    for node in ("one", "two"):
        monkeypatch.setattr(os, "uname", lambda node=node: SimpleNamespace(nodename=node))
        names.add(f"{staging_name(tmp_path / 'out.db')}.tmp")
    assert len(names) == 2
    assert {outputs._written_for(name) for name in names} == {"out.db"}
