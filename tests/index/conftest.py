"""Stores of each kind, texts, and what tests observe of an index."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aerospike
import numpy as np
import pytest

import nearkin as nk
from nearkin.index.changes import Changes
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index
from nearkin.index.preparation import Preparer
from nearkin.index.stores import memory, redis, sql
from nearkin.index.stores.base import Store
from tests.index.fake_aerospike import Cluster
from tests.index.store_kinds import AEROSPIKE, SIMULATED, STORES, left_out
from tests.services import postgres_server, redis_server

REDIS_DATABASES = 4096
Opener = Callable[..., nk.Index]
TEXT = "the quick brown fox jumps over the lazy dog and then it runs away from it all the way home"
NEAR = "the quick brown fox jumps over the lazy dog and then it runs away from it all the way back"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves kinds of stores out in the quick form, see README.md."""
    if config.getoption("--full"):
        return
    folder = Path(__file__).parent
    out = left_out([item for item in items if item.path.is_relative_to(folder)])
    config.hook.pytest_deselected(items=list(out))
    items[:] = [item for item in items if item not in out]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    options = ("--appendonly", "no", "--databases", str(REDIS_DATABASES))
    with redis_server(tmp_path_factory.mktemp("redis"), *options) as port:
        yield port


@pytest.fixture(scope="session")
def postgres_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as port:
        yield port


@pytest.fixture
def aerospike_cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Creates an Aerospike cluster in this process."""
    cluster = Cluster()
    monkeypatch.setattr("aerospike.client", cluster.client)
    return cluster


NUMBERS = itertools.count()


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> "str | list[str]":
    """Returns the URL of an empty store of each kind, or the URLs of shards."""
    return empty_store(request.param, request, tmp_path)


def empty_store(kind: str, request: pytest.FixtureRequest, folder: Path) -> "str | list[str]":
    """Returns the URL of an empty store of a kind, or the URLs of shards."""
    number = next(NUMBERS)
    if kind == "sharded":
        kinds = ("sqlite", "redis", "postgres")
        return [str(empty_store(one, request, folder)) for one in kinds]
    if kind in SIMULATED:
        cluster: Cluster = request.getfixturevalue("aerospike_cluster")
        cluster.persistent = kind != "aerospike"
        cluster.restarts = kind == "aerospike-file"
        if kind == "aerospike-strong":
            cluster.edition, cluster.strong = "Enterprise", True
        return f"aerospike://127.0.0.1:3000/test?set=test{number}"
    if kind == "aerospike-server":
        if AEROSPIKE not in os.environ:
            pytest.skip(f"{AEROSPIKE} does not name a server (host:port, with a namespace `test`)")
        address, name = os.environ[AEROSPIKE], f"run{os.getpid()}_{number}"
        request.addfinalizer(lambda: delete_from_aerospike(address, f"{name}_"))
        return f"aerospike://{address}/test?set={name}"
    if kind == "redis":
        # in a database of its own, because a sweep looks at the keys of all stores of a database
        database = number % REDIS_DATABASES
        port = request.getfixturevalue("redis_port")
        return f"redis://127.0.0.1:{port}/{database}?prefix=test{number}"
    if kind == "postgres":
        return f"postgresql://nearkin@127.0.0.1:{request.getfixturevalue('postgres_port')}/postgres?schema=test{number}&connect_timeout=300"
    return {"memory": "memory://", "sqlite": f"sqlite:///{folder}/index{number}.db"}[kind]


def delete_from_aerospike(address: str, prefix: str) -> None:
    """Deletes the records and secondary indexes of all sets with a prefix from a real server.

    A namespace has at most 256 secondary indexes, and each store needs three.
    """
    host, _, port = address.rpartition(":")
    client = aerospike.client({"hosts": [(host, int(port))]})
    try:
        for name in listed_names(client, "sindex-list:namespace=test", "indexname"):
            if name.startswith(prefix):
                client.index_remove("test", name, {"timeout": 300_000})
        for name in listed_names(client, "sets/test", "set"):
            if name.startswith(prefix):
                client.truncate("test", name, 0, {"timeout": 300_000})
    finally:
        client.close()


def listed_names(client: aerospike.Client, command: str, field: str) -> set[str]:
    """Returns the values of a field in what the nodes of a server list."""
    answers = client.info_all(command).values()
    return {
        value
        for _, text in answers
        for item in text.strip().split(";")
        for key, _, value in [pair.partition("=") for pair in item.split(":")]
        if key == field
    }


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(url: "str | list[str]", clock: Clock) -> Iterator[Opener]:
    """Returns a function that opens indexes over the store; all are closed at the end."""
    indexes: list[nk.Index] = []

    def open_index(**fields: Any) -> nk.Index:
        indexes.append(nk.Index.open(url, **{"threshold": 0.7, "clock": clock, **fields}))
        return indexes[-1]

    yield open_index
    for index in indexes:
        index.close()


def words(rng: np.random.Generator, count: int = 40) -> list[str]:
    """Returns random words."""
    return [f"w{number}" for number in rng.integers(0, 10**7, count)]


def near(text: list[str], rng: np.random.Generator, changes: int = 1) -> list[str]:
    """Returns a copy of a text with some words changed."""
    out = list(text)
    for at in rng.choice(len(out), changes, replace=False):
        out[at] = f"c{rng.integers(0, 10**7)}"
    return out


def corpus(documents: int, seed: int = 1, share: float = 0.4) -> list[str]:
    """Returns texts, a share of which are near copies of earlier ones."""
    rng = np.random.Generator(np.random.PCG64(seed))
    made: list[list[str]] = []
    for _ in range(documents):
        if made and rng.random() < share:
            made.append(near(made[rng.integers(0, len(made))], rng, int(rng.integers(0, 4))))
        else:
            made.append(words(rng))
    return [" ".join(text) for text in made]


def jaccard(a: str, b: str) -> float:
    """Returns the Jaccard similarity of the sets of three successive words of two texts."""
    first, second = (
        {tuple(t.split()[i : i + 3]) for i in range(len(t.split()) - 2)} for t in (a, b)
    )
    return len(first & second) / len(first | second)


def family(members: int, seed: int = 5) -> dict[str, str]:
    """Returns a text `base`, and texts that are similar to it and to each other, by their ids."""
    rng = np.random.Generator(np.random.PCG64(seed))
    base = words(rng, 60)
    texts = {"base": " ".join(base)}
    return texts | {
        f"m{number:04d}": " ".join(near(base, rng, 1 + number % 3)) for number in range(members)
    }


def fill(index: nk.Index, texts: dict[str, str], scope: str = "a") -> None:
    """Upserts texts by their ids: the first one alone, which becomes a representative."""
    for name in list(texts)[:1]:
        index.upsert(scope, texts[name], name)
    rest = list(texts)[1:]
    for start in range(0, len(rest), 50):
        names = rest[start : start + 50]
        index.upsert_many(scope, [texts[name] for name in names], names)


def filled_index(opened: Opener, documents: int = 120, **fields: object) -> nk.Index:
    """Returns an index with documents d0, d1, ... in the scope a."""
    index = opened(**fields)
    index.upsert_many("a", corpus(documents), [f"d{i}" for i in range(documents)])
    return index


# -- The insides of an index


def store_of(index: nk.Index) -> Store:
    """Returns the store of an index, for tests that look at it or change it behind its back."""
    return index._session.store


@contextmanager
def postgres_transaction(store: Any) -> Iterator[Any]:
    """Yields a cursor of a transaction of a store in PostgreSQL."""
    with (
        store._pool.connection() as connection,
        connection.transaction(),
        connection.cursor(binary=True) as cursor,
    ):
        yield cursor


def replace_store(index: nk.Index, store: Any) -> None:
    """Puts a store that fails or delays in the place of an index's own, or puts that one back."""
    index._session.store = store


def preparer_of(index: nk.Index) -> Preparer:
    """Returns the preparer of an index, for tests that compute band keys."""
    return index._session.preparer


def assert_integrity(index: nk.Index) -> None:
    """Asserts that resolutions and buckets are right, independently of `check_index`.

    Every document is resolved to an existing representative of its cluster. Buckets hold exactly
    the postings of posted documents.
    """
    entries = list(index.scan())
    stored = {(entry.scope, entry.id): entry for entry in entries}
    expected: set[tuple[int, int]] = set()
    for entry in entries:
        leader = stored[entry.scope, entry.leader]
        assert leader.is_leader
        assert entry.cluster == leader.cluster
        if entry.posted:
            keys_of_entry = index._session.documents.keys_of(entry.scope, [entry])[0]
            expected |= {(int(key), entry.ref) for key in keys_of_entry}
    keys = np.array(sorted({key for key, _ in expected}), np.uint64)
    postings = store_of(index).postings(keys)
    listed = {
        (int(key), int(word) >> 24)
        for i, key in enumerate(keys)
        for word in postings.words[postings.offsets[i] : postings.offsets[i + 1]]
    }
    assert listed == expected
    assert index.stats()["postings"] == len(expected)


def has_indexes(url: "str | list[str]") -> bool:
    """Returns False for Aerospike, which scans its records for listings."""
    return not str(url).startswith("aerospike")


def count_shards(url: "str | list[str]") -> int:
    """Returns the number of stores that an index is spread over."""
    return 1 if isinstance(url, str) else len(url)


class ReadMeter:
    """Counts the entries that stores read, and the bytes of their content."""

    def __init__(self) -> None:
        self.entries = 0
        self.content = 0

    def count(self, entry: Entry) -> Entry:
        """Counts an entry, and returns it."""
        self.entries += 1
        self.content += len(entry.signature) + len(entry.text or "") + len(entry.payload)
        return entry

    def reset(self) -> None:
        """Begins again at zero."""
        self.entries = 0
        self.content = 0


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> ReadMeter:
    """Returns a meter of all entries that stores other than Aerospike read."""
    reads = ReadMeter()

    def count_results(module: Any, name: str) -> None:
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *values: reads.count(original(*values)))

    for module, names in (
        (sql, ["entry_of_row"]),
        (memory, ["unpack_entry", "unpack_head"]),
        (redis, ["unpack_entry", "unpack_head"]),
    ):
        for name in names:
            count_results(module, name)
    return reads


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> int:
    """Sets portions of seven entries, so that a hundred documents are many portions."""
    for module in (sql, memory, redis):
        monkeypatch.setattr(module, "PORTION", 7)
    return 7


@pytest.fixture
def small_removals(monkeypatch: pytest.MonkeyPatch) -> int:
    """Sets portions of eight members for removals."""
    monkeypatch.setattr("nearkin.index.removal.MAX_REASSIGNED", 8)
    return 8


class KilledError(BaseException):
    """Stands for the end of the process."""


class StepRecorder:
    """Records the size of every step of an index, and verifies the index after each.

    Args:
        index: The index.
        die_after: Number of steps after which the process ends, or None.
    """

    def __init__(self, index: nk.Index, die_after: int | None = None) -> None:
        self.index = index
        self.sizes: list[int] = []
        self.checks = True
        self._die_after = die_after
        self._apply = store_of(index).apply

    def __enter__(self) -> "StepRecorder":
        store_of(self.index).apply = self.step  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        store_of(self.index).apply = self._apply  # type: ignore[method-assign]

    def step(self, changes: Changes) -> list[int]:
        """Applies a step, unless the process ends before it."""
        if self._die_after is not None and len(self.sizes) == self._die_after:
            raise KilledError
        numbers = self._apply(changes)
        self.sizes.append(sum(1 for _ in changes.present))
        assert not self.checks or check_index(self.index).sound
        return numbers


def cluster_ids(index: nk.Index, scope: str = "a") -> list[str]:
    """Returns the cluster ids of the representatives of a scope, sorted."""
    return sorted(entry.cluster for entry in index.scan(scope, content=False) if entry.is_leader)
