"""Tests of stores that fail.

A failed upsert is reported, leaves nothing half-written, and succeeds when it is repeated.

The suite covers the index as a whole, over its stores, and not one module.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import IncompatibleError, MissingExtraError, StoreError, UsageError
from nearkin.index.maintenance import check_index
from nearkin.index.stores.packing import pack_entry, unpack_entry
from tests.index.conftest import Opener, corpus, replace_store, store_of
from tests.index.failing import Failing
from tests.services import free_port, redis_server

TEXT = "one two three four five six seven eight nine ten"


def test_a_failed_step_writes_nothing_and_succeeds_when_repeated(
    opened: Opener,
) -> None:
    index, texts = opened(), corpus(60)
    index.upsert_many("a", texts[:20])
    before = index.counts()["records"]
    store = store_of(index)
    replace_store(index, Failing(store, 1))
    with pytest.raises(StoreError, match="connection lost"):
        index.upsert_many("a", texts[20:])
    replace_store(index, store)
    assert store.counts()["records"] == before
    assert check_index(index).sound
    first = [o.kind for o in index.upsert_many("a", texts[20:])]
    assert "new" in first
    assert {o.kind for o in index.upsert_many("a", texts[20:])} <= {"exact", "resolved"}
    assert check_index(index).sound


def test_an_index_works_again_after_a_restart_of_redis(tmp_path: Path) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with redis_server(tmp_path, *options) as port:
        index = nk.Index.open(f"redis://127.0.0.1:{port}/0", threshold=0.7)
        index.upsert("a", TEXT, "x")
    with pytest.raises(StoreError, match="may be repeated"):
        index.upsert("a", TEXT + " eleven", "y")
    with redis_server(tmp_path, *options) as port:
        again = nk.Index.open(f"redis://127.0.0.1:{port}/0")
        assert again.upsert("a", TEXT + " eleven", "y").representative == "x"
        assert check_index(again).sound
        again.close()
    index.close()


def test_an_unreachable_shard_is_an_error_and_not_a_miss(tmp_path: Path) -> None:
    texts = corpus(40)
    with redis_server(tmp_path, "--appendonly", "yes") as port:
        shards = [
            f"sqlite:///{tmp_path}/one.db",
            f"redis://127.0.0.1:{port}/0",
            f"sqlite:///{tmp_path}/three.db",
        ]
        index = nk.Index.open(shards, threshold=0.7)
        index.upsert_many("a", texts)
        assert len(index.query("a", texts[0])) == 1
    for text in texts[:3]:
        with pytest.raises(StoreError):
            index.query("a", text)
        with pytest.raises(StoreError):
            index.upsert("a", text + " more")
    with redis_server(tmp_path, "--appendonly", "yes") as port:
        shards[1] = f"redis://127.0.0.1:{port}/0"
        with nk.Index.open(shards) as again:
            assert again.upsert("a", texts[0] + " more").kind in ("match", "exact", "resolved")
            assert not check_index(again).found
        with pytest.raises(IncompatibleError, match="is shard"):
            nk.Index.open([shards[2], shards[1], shards[0]])
        with pytest.raises(IncompatibleError):
            nk.Index.open(shards[:2])


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:{port}/0", "postgresql://u:secret@127.0.0.1:{port}/db"]
)
def test_an_unreachable_server_is_a_store_error(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nearkin.index.stores.postgres.TIMEOUT", 0.3)
    where = url.format(port=free_port())
    with pytest.raises(StoreError):
        nk.Index.open(where)
    assert command(["index", "info", "--store", where]) == 1
    shown = capsys.readouterr().err
    assert "127.0.0.1" in shown
    assert "secret" not in shown


@pytest.mark.skipif(os.getuid() == 0, reason="root may write what is read-only")
def test_a_read_only_file_is_a_store_error(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert("a", TEXT, "x")
    (tmp_path / "kin.db").chmod(0o444)
    with pytest.raises(StoreError, match="readonly"):
        nk.Index.open(url).upsert("a", TEXT + " eleven", "y")


FULL = """
import resource, sys
import nearkin as nk
from nearkin.errors import StoreError
from tests.index.conftest import corpus
with nk.Index.open(sys.argv[1], threshold=0.7) as index:
    index.upsert_many("a", corpus(50))
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    try:
        for seed in range(2, 200):
            index.upsert_many("a", corpus(50, seed=seed))
    except StoreError as error:
        print("failed", seed)
"""


def test_a_full_disk_is_a_store_error_and_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files replaces the full disk: a write fails within a step."""
    assert resource.RLIMIT_FSIZE is not None
    url = f"sqlite:///{tmp_path}/kin.db"
    line = [
        sys.executable,
        "-c",
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + FULL,
        url,
    ]
    ended = subprocess.run(
        line, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True
    )
    assert ended.stdout.startswith("failed"), ended.stderr
    seed = int(ended.stdout.split()[1])
    with nk.Index.open(url) as index:
        assert check_index(index).sound
        index.upsert_many("a", corpus(50, seed=seed))
        assert check_index(index).sound
        assert {o.kind for o in index.upsert_many("a", corpus(50, seed=seed))} <= {
            "exact",
            "resolved",
        }


def test_a_damaged_entry_is_a_store_error() -> None:
    entry = nk.Index.open("memory://")
    entry.upsert("a", TEXT, "x")
    stored = entry.get("a", "x")
    assert stored is not None
    packed = pack_entry(stored)
    assert unpack_entry(stored.ref, packed) == stored
    for bad in (b"", packed[:-1], packed[:30], b"\x09" + packed[1:]):
        with pytest.raises(StoreError, match="is damaged"):
            unpack_entry(1, bad)


def test_urls_of_unknown_stores_are_refused(tmp_path: Path) -> None:
    for url in (
        "ftp://x",
        "sqlite://host/x.db",
        "sqlite:///",
        f"sqlite:///{tmp_path}/x.db?mode=x",
        "redis://h/0?x=1",
        [],
    ):
        with pytest.raises(UsageError):
            nk.Index.open(url)


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, url in (("redis", "redis://127.0.0.1/0"), ("psycopg", "postgresql://127.0.0.1/x")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtraError, match="pip install"):
            nk.Index.open(url)


def test_explain_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert("default", TEXT, "x")
        index.upsert("default", TEXT + " eleven", "y")
    assert command(["explain", "x", "y", "--index", url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "match"
    assert command(["explain", "x", "z", "--index", url]) == 2
    assert command(["explain", "x", "y", "--index", url, "--scope", "other"]) == 2
    assert command(["explain", "x", "y", "--index", url, "--run", str(tmp_path)]) == 2
