"""Tests of the opening of an index: the settings of the request and those of the index."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import redis

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import IncompatibleError, MissingIndexError, StoreError
from nearkin.index.migration.key_rotation import rotate_key
from nearkin.index.migration.state import MOVED, MigrationState
from nearkin.index.stores.sqlite import SqliteStore
from nearkin.runs.loading import migrate
from nearkin.settings.keys import HashKey
from tests.index.conftest import Opener, empty_store, postgres_transaction, store_of
from tests.index.fake_aerospike import Cluster


def stored_content(urls: str | list[str], cluster: Cluster | None) -> list[object]:
    """Returns all that stores hold for the URLs, as other programs see it."""
    found: list[object] = []
    for url in [urls] if isinstance(urls, str) else urls:
        parts = urlsplit(url)
        options = parse_qs(parts.query)
        if parts.scheme == "sqlite":
            folder = Path(parts.path.removeprefix("/")).parent
            found.append({path.name: path.read_bytes() for path in folder.glob("*.db*")})
        elif parts.scheme == "redis":
            with contextlib.closing(redis.Redis.from_url(url.partition("?")[0])) as client:
                keys = sorted(client.scan_iter(f"{options['prefix'][0]}:*"))
                found.append([(key, client.dump(key)) for key in keys])
        elif parts.scheme == "postgresql":
            with psycopg.connect(url.replace(f"schema={options['schema'][0]}&", "")) as connection:
                query = "SELECT nspname FROM pg_namespace WHERE nspname = %s"
                found.append(connection.execute(query, options["schema"]).fetchall())
        elif cluster is not None:
            found += [sorted(map(str, cluster.records)), sorted(cluster.indexes)]
    return found


def cluster_of(url: str | list[str], request: pytest.FixtureRequest) -> Cluster | None:
    """Returns the simulated cluster of a URL, or None if it is of another store."""
    if not str(url).startswith("aerospike://127.0.0.1:3000"):
        return None
    cluster: Cluster = request.getfixturevalue("aerospike_cluster")
    return cluster


def test_an_absent_index_that_must_exist_is_refused_and_its_store_is_unchanged(
    url: str | list[str], request: pytest.FixtureRequest
) -> None:
    cluster = cluster_of(url, request)
    before = stored_content(url, cluster)
    readers: list[Callable[[], Any]] = [
        lambda: nk.Index.open(url, must_exist=True),
        lambda: nk.Index.open(url, threshold=0.5, must_exist=True, follow=False),
    ]
    if isinstance(url, str):
        readers.append(lambda: migrate(url, "memory://", None))
        readers.append(lambda: rotate_key(url, "memory://", HashKey(bytes(16))))
    for read in readers:
        with pytest.raises(MissingIndexError, match="there is no index at"):
            read()
        assert stored_content(url, cluster) == before
    if url != "memory://":
        nk.Index.open(url).close()
        assert stored_content(url, cluster) != before
        with nk.Index.open(url, must_exist=True) as index:
            assert index.header()["threshold"] == 0.8


READING = [
    ["index", "match", "DOCS", "--store", "URL", "--out", "OUT"],
    ["index", "query", "DOCS", "--store", "URL"],
    ["index", "info", "--store", "URL"],
    ["index", "check", "--store", "URL"],
    ["index", "export", "--store", "URL", "--out", "OUT.parquet"],
    ["index", "remove", "x", "--store", "URL"],
    ["index", "compact", "--store", "URL"],
    ["index", "expire", "--store", "URL", "--record-ttl", "1d"],
    ["index", "migrate", "--store", "URL", "--to", "memory://"],
    ["index", "rebuild", "--store", "URL", "--to", "memory://"],
    ["index", "rebuild", "--store", "URL", "--cut-back"],
    ["index", "rotate-key", "--store", "URL", "--to", "memory://", "--new-key-file", "env:NEW"],
    ["explain", "a", "b", "--index", "URL"],
    ["purge", "URL", "--like", "DOCS", "--scope", "s", "--yes"],
    ["mcp", "--store", "URL"],
]


@pytest.mark.parametrize("url", ["sqlite", "redis", "postgres", "aerospike"], indirect=True)
def test_commands_on_an_absent_index_say_so_and_write_nothing(
    url: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NEW", "ab" * 16)
    cluster = cluster_of(url, request)
    docs = tmp_path / "docs.jsonl"
    docs.write_text('{"text": "one two three four"}\n')
    names = {"URL": url, "DOCS": str(docs), "OUT": str(tmp_path / "out")}
    names["OUT.parquet"] = str(tmp_path / "out.parquet")
    before = stored_content(url, cluster)
    for line in READING:
        assert command([names.get(word, word) for word in line]) == 2, line
        assert "there is no index at" in capsys.readouterr().err, line
        assert stored_content(url, cluster) == before, line
    assert list(tmp_path.iterdir()) == [docs]


def test_a_file_of_another_program_is_not_an_index(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE meta (name TEXT, value TEXT)")
        other.commit()
    before = path.read_bytes()
    with pytest.raises(MissingIndexError, match="the file has no header of one"):
        nk.Index.open(f"sqlite:///{path}", must_exist=True)
    (tmp_path / "no.db").write_bytes(b"no database, but more than sixteen bytes of text" * 20)
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(MissingIndexError, match="it is a folder"):
        nk.Index.open(f"sqlite:///{tmp_path / 'folder.db'}", must_exist=True)
    (tmp_path / "folder.db").rmdir()
    with pytest.raises(StoreError, match="not an SQLite file"):
        nk.Index.open(f"sqlite:///{tmp_path / 'no.db'}", must_exist=True)
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"other.db", "no.db"}


def test_an_index_whose_shard_is_absent_is_refused(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second")]
    nk.Index.open(urls).close()
    (tmp_path / "second.db").unlink()
    with pytest.raises(MissingIndexError, match=r"second\.db: no such file"):
        nk.Index.open(urls, must_exist=True)
    assert not (tmp_path / "second.db").exists()


def test_an_index_that_moved_to_an_absent_store_is_not_created_there(tmp_path: Path) -> None:
    first, second = (f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second"))
    with nk.Index.open(first) as index, nk.Index.open(first) as other:
        store_of(index).redirect(MigrationState(1, MOVED, (second,)))
        for read in (lambda: nk.Index.open(first), other.refresh):
            with pytest.raises(StoreError, match=r"has moved from .*first\.db.* there is no index"):
                read()
    assert not (tmp_path / "second.db").exists()


def test_other_settings_than_those_of_the_index_are_refused(opened: Opener, url: str) -> None:
    if url == "memory://":
        pytest.skip("memory ends with its index")
    opened()
    for fields, named in (
        ({"threshold": 0.8}, "threshold=0.7"),
        ({"spec": nk.Spec(n=4)}, "n=3"),
        ({"postings": "all"}, "postings='leaders'"),
        ({"bands": 4, "rows": 4}, "no `bands`"),
    ):
        with pytest.raises(IncompatibleError, match=named):
            opened(**fields)


def test_one_shard_of_an_index_is_refused(tmp_path: Path) -> None:
    """A document that is written to it alone would have no postings on the other shards."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second")]
    with nk.Index.open(urls, threshold=0.7) as index:
        index.upsert_many("a", ["one two three four", "five six seven eight"])
    for number, url in enumerate(urls, 1):
        with pytest.raises(IncompatibleError, match=f"is shard {number} of the 2 shards"):
            nk.Index.open(url)
        with pytest.raises(IncompatibleError, match=f"is shard {number} of the 2 shards"):
            migrate(url, "memory://", None)
    with nk.Index.open(urls) as index:
        assert index.stats()["records"] == 2


def test_a_store_is_closed_if_the_index_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kin.db"
    store = SqliteStore(path, 100)

    def fail() -> float:
        raise StoreError("there is no clock")

    with pytest.raises(StoreError, match="no clock"):
        nk.Index.open(store=store, clock=fail)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        store._db.execute("SELECT 1")


def write_schema(store: Any, url: str, number: int) -> None:
    """Changes the number of the schema, or of the layout, of an open store."""
    options = parse_qs(urlsplit(url).query)
    if url.startswith("sqlite"):
        store._db.execute(f"PRAGMA user_version = {number}")
    elif url.startswith("redis"):
        store._client.set(f"{options['prefix'][0]}:layout", number)
    else:
        with postgres_transaction(store) as run:
            run.execute(f"UPDATE {store._s}.meta SET value = '{number}' WHERE name = 'schema'")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(1, "with the version of nearkin that made it, and build it again"), (99, "upgrade nearkin")],
)
@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_a_store_of_another_schema_is_refused_and_the_error_says_what_to_do(
    kind: str, number: int, remedy: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = str(empty_store(kind, request, tmp_path))
    with nk.Index.open(url) as index:
        write_schema(store_of(index), url, number)
    before = stored_content(url, None)
    with pytest.raises(IncompatibleError, match=f" {number}, and .*{remedy}"):
        nk.Index.open(url)
    assert stored_content(url, None) == before


def test_an_index_of_the_first_layout_of_redis_is_refused_and_unchanged(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = str(empty_store("redis", request, tmp_path))
    with contextlib.closing(redis.Redis.from_url(url.partition("?")[0])) as client:
        client.set(f"{parse_qs(urlsplit(url).query)['prefix'][0]}:header", "{}")
    before = stored_content(url, None)
    with pytest.raises(IncompatibleError, match="layout 1"):
        nk.Index.open(url)
    assert stored_content(url, None) == before


def test_a_file_that_cannot_be_opened_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kin.db"
    SqliteStore(path, 100).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def note(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", note)
    with pytest.raises(IncompatibleError, match="schema 99"):
        SqliteStore(path, 100)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_a_pool_of_connections_is_closed_if_the_store_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Pool:
        name = "pool"
        closed = False

        def __init__(self, *_arguments: Any, **_options: Any) -> None:
            pools.append(self)

        def open(self, **_options: Any) -> None:
            """Opens nothing."""

        def connection(self, *_arguments: Any, **_options: Any) -> Any:
            raise psycopg.OperationalError("permission denied for schema")

        def close(self) -> None:
            self.closed = True

    pools: list[Pool] = []
    monkeypatch.setattr("psycopg_pool.ConnectionPool", Pool)
    with pytest.raises(StoreError, match="permission denied"):
        nk.Index.open("postgresql://127.0.0.1:9/kin")
    assert [pool.closed for pool in pools] == [True]


def test_an_index_of_version_1_keeps_it_and_is_rebuilt_with_version_2(tmp_path: Path) -> None:
    url, new_url = f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"
    with nk.Index.open(url, spec=nk.Spec(k=64, version=1)) as index:
        index.upsert("s", "one two three four", id="a")
        assert index.upsert("s", "!!!", id="b").kind == index.upsert("s", "!!!", id="c").kind
    with nk.Index.open(url, spec=nk.Spec(k=64)) as index:
        assert index.spec.version == 1
        assert index.upsert("s", "One, two, three four", id="d").kind == "match"
    assert (
        command(["index", "rebuild", "--store", url, "--to", new_url, "--spec-version", "2"]) == 0
    )
    with nk.Index.open(new_url) as index:
        assert index.spec.version == 2
        assert index.upsert("s", "!!!", id="e").kind == "match"
        assert index.upsert("s", "one two three four", id="a").kind == "exact"


@pytest.mark.promise("An index is not opened with another key.")
def test_an_index_is_not_opened_with_another_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    right, _ = HashKey.generate()
    wrong, text = HashKey.generate()
    (tmp_path / "wrong.key").write_text(text)
    (tmp_path / "wrong.key").chmod(0o600)
    spec = nk.Spec(base_hash="siphash", hash_seed=0, key_id=right.id)
    with pytest.raises(nk.errors.KeyRequiredError, match=wrong.id):
        nk.Index.open(url, spec, resources=nk.SpecResources(wrong))
    assert not (tmp_path / "kin.db").exists()
    with nk.Index.open(url, spec, resources=nk.SpecResources(right)) as index:
        index.upsert("a", "the cat sat on the mat", "x")
    with pytest.raises(nk.errors.KeyRequiredError, match=wrong.id):
        nk.Index.open(url, resources=nk.SpecResources(wrong))
    with nk.Index.open(url) as index:
        assert index.counts()["records"] == 1
    for name in ("check", "info", "compact"):
        key = ["--key-file", str(tmp_path / "wrong.key")]
        assert command(["index", name, "--store", url, *key]) == 2
        assert wrong.id in capsys.readouterr().err
