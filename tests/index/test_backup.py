"""Tests of backups of an index that another process writes to, and of their restoration."""

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.index.backup import backup, restore
from nearkin.index.maintenance import check_index
from nearkin.index.migration.state import MOVED, MigrationState
from nearkin.runtime.outputs import Claim, claimed
from tests.index.conftest import corpus, store_of
from tests.index.processes import Worker, start_process, upsert_numbers


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/live.db"


@pytest.fixture
def writer(url: str) -> Iterator[Worker]:
    """A process that upserts documents without an end."""
    worker = start_process(upsert_numbers, url)
    for _ in range(100):
        worker.pipe.recv()
    yield worker
    worker.kill()


def fill(url: str, documents: int = 300, seed: int = 1) -> None:
    with nk.Index.open(url) as index:
        index.upsert_many(
            "s", corpus(documents, seed), [f"{number:06d}" for number in range(documents)]
        )


def ids(url: str) -> list[str]:
    with nk.Index.open(url) as index:
        assert check_index(index).sound
        return sorted(entry.id for entry in index.scan())


def test_a_backup_is_a_snapshot_while_a_process_writes(
    writer: Worker, url: str, tmp_path: Path
) -> None:
    kept = []
    for number in range(3):
        acknowledged = writer.pipe.recv()
        copied = backup(url, tmp_path / f"copy{number}.db")
        kept.append(ids(f"sqlite:///{copied.path}"))
        assert len(kept[-1]) == copied.documents > acknowledged
        assert kept[-1] == [f"{at:06d}" for at in range(copied.documents)]
        # the writer waits while nobody reads its acknowledgements
        while writer.pipe.recv() < copied.documents:
            pass
    assert writer.process.is_alive()
    assert len(kept[0]) < len(kept[1]) < len(kept[2])
    assert not list(tmp_path.glob(".*"))


def test_an_index_in_use_is_not_restored(writer: Worker, url: str, tmp_path: Path) -> None:
    backup(url, tmp_path / "copy.db")
    with pytest.raises(
        nk.UsageError, match=r"live\.db is open in another process; stop that process"
    ):
        restore(tmp_path / "copy.db", url, overwrite=True)
    assert writer.process.is_alive()
    assert writer.pipe.recv()


def test_a_restoration_replaces_the_files_of_a_killed_writer(
    writer: Worker, url: str, tmp_path: Path
) -> None:
    """A restoration removes later writes and the write-ahead log of the killed process."""
    before = backup(url, tmp_path / "copy.db").documents
    while writer.pipe.recv() < before + 20:
        pass
    writer.kill()
    assert (tmp_path / "live.db-wal").exists()
    assert restore(tmp_path / "copy.db", url, overwrite=True).documents == before
    assert len(ids(url)) == before


def test_a_backup_replaces_the_log_that_a_killed_process_left_of_the_old_copy(
    url: str, tmp_path: Path
) -> None:
    """SQLite would apply that log to the new copy, which would then be the old one."""
    out = tmp_path / "copy.db"
    fill(url, 20)
    backup(url, out)
    trial = start_process(upsert_numbers, f"sqlite:///{out}")
    for _ in range(30):
        trial.pipe.recv()
    trial.kill()
    assert (tmp_path / "copy.db-wal").stat().st_size
    fill(url, 60)
    assert backup(url, out).documents == 60
    assert ids(f"sqlite:///{out}") == ids(url)


def test_a_log_without_its_file_is_not_applied_to_a_backup(
    writer: Worker, url: str, tmp_path: Path
) -> None:
    writer.kill()
    log = tmp_path / "copy.db-wal"
    shutil.copy(tmp_path / "live.db-wal", log)
    fill(url, 20)
    copied = backup(url, tmp_path / "copy.db")
    assert not log.exists()
    assert len(ids(f"sqlite:///{tmp_path}/copy.db")) == copied.documents


def test_a_copy_that_a_process_has_open_is_not_replaced(url: str, tmp_path: Path) -> None:
    out = tmp_path / "copy.db"
    fill(url, 20)
    backup(url, out)
    with nk.Index.open(f"sqlite:///{out}") as replica:
        replica.upsert("s", "a document of the replica", "own")
        with pytest.raises(nk.UsageError, match=r"copy\.db is open in another process"):
            backup(url, out)
        assert len(list(replica.scan())) == 21
    backup(url, out)
    assert len(ids(f"sqlite:///{out}")) == 20


def test_the_next_backup_deletes_what_a_killed_one_left(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url, 20)
    out = tmp_path / "copies" / "copy.db"
    with claimed(out, "nearkin index backup", replaces=True) as claim:
        with pytest.raises(nk.UsageError, match=r"copy\.db is being written by nearkin index"):
            backup(url, out)
        # the process ends here: the system unlocks the folder, and nothing is deleted
        (claim.path / "result").write_text("every text of an earlier copy")
        claim.release()
        monkeypatch.setattr(Claim, "remove", lambda self: None)
    monkeypatch.undo()
    assert list(out.parent.iterdir()) == [claim.path]
    backup(url, out)
    assert list(out.parent.iterdir()) == [out]


def test_a_backup_is_restored_to_another_file(url: str, tmp_path: Path) -> None:
    fill(url)
    copied = backup(url, tmp_path / "backups/copy.db")
    (tmp_path / "backups/copy.db").chmod(0o400)
    restored = restore(tmp_path / "backups/copy.db", f"sqlite:///{tmp_path}/new/index.db")
    assert (
        (restored.documents, restored.clusters)
        == (copied.documents, copied.clusters)
        == (300, copied.clusters)
    )
    assert ids(f"sqlite:///{tmp_path}/new/index.db") == ids(url)
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["copy.db"]


def test_a_backup_is_restored_to_the_target_of_a_symbolic_link(url: str, tmp_path: Path) -> None:
    fill(url, 20)
    backup(url, tmp_path / "copy.db")
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "disk" / "index.db")
    for overwrite in (False, True):
        restore(tmp_path / "copy.db", f"sqlite:///{link}", overwrite=overwrite)
        assert link.is_symlink()
    assert ids(f"sqlite:///{tmp_path}/disk/index.db") == ids(url)


def test_a_file_that_is_not_an_index_is_not_replaced(url: str, tmp_path: Path) -> None:
    fill(url)
    backup(url, tmp_path / "copy.db")
    with pytest.raises(nk.UsageError, match=r"live\.db exists; replace it with overwrite=True"):
        restore(tmp_path / "copy.db", url)
    (tmp_path / "live.db").write_bytes(b"what a failing disk left" * 1000)
    (tmp_path / "live.db-wal").write_bytes(b"and of its log")
    restore(tmp_path / "copy.db", url, overwrite=True)
    assert len(ids(url)) == 300


@pytest.mark.parametrize(
    "kind", ["text", "another database", "truncated", "flipped", "an unsound index"]
)
def test_a_file_that_is_not_a_backup_is_refused(kind: str, url: str, tmp_path: Path) -> None:
    fill(url, 600)
    copy = backup(url, tmp_path / "copy.db").path
    if kind == "text":
        copy.write_text("a letter" * 1000)
    elif kind == "another database":
        copy.unlink()
        with sqlite3.connect(copy) as db:
            db.execute("CREATE TABLE t (a)")
    elif kind == "truncated":
        copy.write_bytes(copy.read_bytes()[: copy.stat().st_size // 2])
    elif kind == "flipped":
        with copy.open("r+b") as out:
            for page in range(4096, copy.stat().st_size, 4096):
                out.seek(page)
                out.write(b"\xff" * 100)
    else:
        with sqlite3.connect(copy) as db:
            db.execute("UPDATE entries SET leader = 'nobody', cluster = 'x' WHERE ref = 5")
    with pytest.raises(nk.NearkinError, match=r"copy\.db"):
        restore(copy, url, overwrite=True)
    assert not list(tmp_path.glob(".*"))
    assert len(ids(url)) == 600


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://:secret@host/0", "append-only file"),
        ("postgresql://me:secret@db/kin", "pg_dump"),
        ("memory://", "ends with its process"),
        ("sqlite:///a.db,sqlite:///b.db", "not of one moment"),
        ("mysql://host/x", "is not a kind of store"),
        ("sqlite:///nowhere.db", "no such file: nowhere.db"),
        ("sqlite://host/x.db", "invalid store URL"),
    ],
)
def test_other_stores_are_refused_with_the_tool_to_use(
    url: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(nk.UsageError, match=message) as refused:
        backup(url, tmp_path / "copy.db")
    assert "secret" not in str(refused.value)
    assert not (tmp_path / "copy.db").exists()


def test_an_index_that_has_moved_is_not_backed_up(url: str, tmp_path: Path) -> None:
    fill(url)
    with nk.Index.open(url) as index:
        store_of(index).redirect(MigrationState(1, MOVED, ("redis://elsewhere/0",)))
    with pytest.raises(nk.UsageError, match="has moved to redis://elsewhere/0"):
        backup(url, tmp_path / "copy.db")


def test_a_missing_folder_is_reported(url: str) -> None:
    fill(url)
    with pytest.raises(nk.RunError, match="cannot write in /proc"):
        backup(url, Path("/proc/copy.db"))


def test_backup_and_restore_from_the_command_line(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(url)
    out = str(tmp_path / "copy.db")
    assert app.run(["index", "backup", "--store", url, "--out", out, "--json"]) == 0
    assert re.search(r'"documents": 300', capsys.readouterr().out)
    assert app.run(["index", "backup", "--store", url, "--out", out]) == app.USAGE
    assert app.run(["index", "backup", "--store", url, "--out", out, "--overwrite"]) == 0
    assert app.run(["index", "restore", out, "--store", url]) == app.USAGE
    assert "--overwrite" in capsys.readouterr().err
    assert app.run(["index", "restore", out, "--store", url, "--overwrite"]) == 0
    assert "documents: 300" in capsys.readouterr().out
    assert (
        app.run(["index", "restore", str(tmp_path / "nowhere"), "--store", url, "--overwrite"])
        == app.USAGE
    )


def test_a_backup_of_a_keyed_index_names_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, _ = nk.HashKey.generate()
    spec = nk.Spec(base_hash="siphash", hash_seed=0, key_id=secret.id)
    with nk.Index.open(
        f"sqlite:///{tmp_path}/keyed.db", spec, resources=nk.SpecResources(secret)
    ) as index:
        index.upsert("s", "the cat sat on the mat")
    assert (
        app.run(
            [
                "index",
                "backup",
                "--store",
                f"sqlite:///{tmp_path}/keyed.db",
                "--out",
                str(tmp_path / "copy.db"),
            ]
        )
        == 0
    )
    assert f"with the key {secret.id}" in capsys.readouterr().err
