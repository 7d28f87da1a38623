"""Stores to run the contract over, each new and empty."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearkin as nk
from tests.index.fake_aerospike import Cluster
from tests.services import postgres_server, redis_server

STORES = [
    "memory",
    "sqlite",
    "redis",
    "postgres",
    "sharded",
    "aerospike",
    "aerospike-file",
    "aerospike-strong",
    "aerospike-server",
]
"""Of Aerospike: the Community Edition with data in memory, the same with data in a file and a cold
start before each opening, the Enterprise Edition with a strongly consistent namespace, all three in
this process; and a real server."""
AEROSPIKE = "NEARKIN_AEROSPIKE"
Opener = Callable[..., nk.Index]


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis"), "--appendonly", "no") as port:
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
    """Returns the URLs of an empty store of each kind."""
    return empty_store(request.param, request, tmp_path)


def empty_store(kind: str, request: pytest.FixtureRequest, folder: Path) -> "str | list[str]":
    """The URL of a store that nothing was put into."""
    number = next(NUMBERS)
    if kind == "sharded":
        kinds = ("sqlite", "redis", "postgres")
        return [str(empty_store(one, request, folder)) for one in kinds]
    if kind in ("aerospike", "aerospike-file", "aerospike-strong"):
        cluster: Cluster = request.getfixturevalue("aerospike_cluster")
        cluster.persistent = kind != "aerospike"
        cluster.restarts = kind == "aerospike-file"
        if kind == "aerospike-strong":
            cluster.edition, cluster.strong = "Enterprise", True
        return f"aerospike://127.0.0.1:3000/test?set=test{number}"
    if kind == "aerospike-server":
        if AEROSPIKE not in os.environ:
            pytest.skip(f"{AEROSPIKE} names no server (host:port, with a namespace `test`)")
        return f"aerospike://{os.environ[AEROSPIKE]}/test?set=run{os.getpid()}_{number}"
    if kind == "redis":
        return f"redis://127.0.0.1:{request.getfixturevalue('redis_port')}/0?prefix=test{number}"
    if kind == "postgres":
        return f"postgresql://nearkin@127.0.0.1:{request.getfixturevalue('postgres_port')}/postgres?schema=test{number}&connect_timeout=300"
    return {"memory": "memory://", "sqlite": f"sqlite:///{folder}/index{number}.db"}[kind]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(url: "str | list[str]", clock: Clock) -> Iterator[Opener]:
    """Opens indexes over the store, and closes them."""
    held: list[nk.Index] = []

    def open_index(**fields: Any) -> nk.Index:
        held.append(nk.Index.open(url, **{"threshold": 0.7, "clock": clock, **fields}))
        return held[-1]

    yield open_index
    for index in held:
        index.close()


def words(rng: np.random.Generator, count: int = 40) -> list[str]:
    return [f"w{number}" for number in rng.integers(0, 10**7, count)]


def near(text: list[str], rng: np.random.Generator, changes: int = 1) -> list[str]:
    """A copy with some words changed."""
    out = list(text)
    for at in rng.choice(len(out), changes, replace=False):
        out[at] = f"c{rng.integers(0, 10**7)}"
    return out


def corpus(documents: int, seed: int = 1, share: float = 0.4) -> list[str]:
    """Texts, a share of them near copies of earlier ones."""
    rng = np.random.Generator(np.random.PCG64(seed))
    made: list[list[str]] = []
    for _ in range(documents):
        if made and rng.random() < share:
            made.append(near(made[rng.integers(0, len(made))], rng, int(rng.integers(0, 4))))
        else:
            made.append(words(rng))
    return [" ".join(text) for text in made]
