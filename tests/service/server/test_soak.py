"""Mixed requests while the server and its Redis are killed. Acknowledged documents remain."""

import asyncio
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.maintenance import check_index
from tests.services import free_port, start_redis, start_serving

SCOPE = "soak"
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
AT_ONCE = 32
PAUSE = 0.05
ONCE = nk.index_types.Retries(attempts=1)


def text_of(number: int) -> str:
    """Returns a text. Three consecutive numbers have similar texts."""
    rng = np.random.default_rng(number // 3)
    words = [f"w{word}" for word in rng.integers(0, 10**7, 40)]
    words[: number % 3] = [f"c{number}"] * (number % 3)
    return " ".join(words)


class Fleet:
    """A Redis server and a nearkin server over it, whose ports do not change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.redis_port = free_port()
        self.port = free_port()
        self.url, self.address = (
            f"redis://127.0.0.1:{self.redis_port}/0",
            f"http://127.0.0.1:{self.port}",
        )
        self.redis = self._start_redis()
        self.server = self._start_server()

    def _start_redis(self) -> "subprocess.Popen[bytes]":
        return start_redis(self.folder, self.redis_port, *DURABLE)

    def _start_server(self) -> "subprocess.Popen[bytes]":
        quiet = ("--source-rate", "1000000/second", "--log-level", "error")
        return start_serving(self.folder, self.port, "--store", self.url, *quiet)

    def kill_server(self) -> None:
        """Kills the server and starts it again."""
        kill(self.server)
        self.server = self._start_server()

    def kill_redis(self) -> None:
        """Kills Redis and starts it again. The server keeps running."""
        kill(self.redis)
        self.redis = self._start_redis()

    def end(self) -> None:
        """Kills both."""
        for process in (self.server, self.redis):
            kill(process)


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


class Soak:
    """A sequence of requests, and the documents that must exist.

    Args:
        client: That tries once, so that every failure is seen.
        requests: How many must succeed.
    """

    def __init__(self, client: nk.AsyncClient, requests: int) -> None:
        self.client, self.requests = client, requests
        self.done, self.last = 0, 0
        self.kept: dict[str, int] = {}
        self.erased: set[str] = set()
        self.missing: list[str] = []
        self.failures: Counter[tuple[str, int | None]] = Counter()
        self.rng = np.random.default_rng(1)
        kinds = [
            (self.upsert, 0.55),
            (self.query, 0.15),
            (self.get, 0.15),
            (self.remove, 0.05),
            (self.cluster, 0.05),
        ]
        self.kinds = [*kinds, (self.upsert_many, 0.05)]

    async def run(self, events: list[Callable[[], None]]) -> None:
        """Sends all requests, with the events at equal distances between them."""
        working = [asyncio.create_task(self._work()) for _ in range(AT_ONCE)]
        for at, event in enumerate(events, 1):
            while self.done < self.requests * at // (len(events) + 1):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(event)
        await asyncio.gather(*working)

    async def _work(self) -> None:
        methods, shares = zip(*self.kinds, strict=True)
        while self.done < self.requests:
            try:
                await methods[self.rng.choice(len(methods), p=shares)]()
                self.done += 1
            except nk.ServiceError as error:
                self.failures[error.code, error.status] += 1
                await asyncio.sleep(PAUSE)

    def _new(self) -> int:
        self.last += 1
        return self.last

    def _known(self) -> str | None:
        """Returns the id of an existing document."""
        names = list(self.kept) if len(self.kept) < 1000 else None
        if names is None:
            at = f"d{self.rng.integers(1, self.last + 1)}"
            return at if at in self.kept else None
        return names[self.rng.integers(len(names))] if names else None

    async def upsert(self) -> None:
        number = self._new()
        await self.client.upsert(SCOPE, text_of(number), f"d{number}")
        self.kept[f"d{number}"] = number

    async def upsert_many(self) -> None:
        numbers = [self._new() for _ in range(10)]
        at = iter(numbers)
        async for line in self.client.upsert_many(
            SCOPE, [nk.index_types.NewDocument(text_of(n), f"d{n}") for n in numbers]
        ):
            number = next(at)
            if isinstance(line, nk.ServiceError):
                self.failures[line.code, line.status] += 1
            else:
                self.kept[f"d{number}"] = number

    async def query(self) -> None:
        await self.client.query(SCOPE, text_of(int(self.rng.integers(self.last + 1))))

    async def get(self) -> None:
        if (name := self._known()) is None:
            return
        found = await self.client.get(SCOPE, name)
        if found is None and name in self.kept:
            self.missing.append(name)

    async def remove(self) -> None:
        if (name := self._known()) is None:
            return
        # whatever becomes of the request: from here on it need not be there
        del self.kept[name]
        await self.client.remove(SCOPE, name)
        self.erased.add(name)

    async def cluster(self) -> None:
        if (name := self._known()) is not None:
            await self.client.cluster(SCOPE, name)


@pytest.mark.parametrize(
    ("requests", "kills"), [pytest.param(200_000, 2, marks=pytest.mark.full), (300, 1)]
)
def test_acknowledged_documents_survive_kills(tmp_path: Path, requests: int, kills: int) -> None:
    """Both are killed that many times, by turns."""
    fleet = Fleet(tmp_path)
    try:
        soak = asyncio.run(soaked(fleet, requests, kills))
        secret = nk.HashKey.read(str(tmp_path / "nearkin.key"))
        with nk.Index.open(fleet.url, resources=nk.SpecResources(secret)) as index:
            there = {entry.id: entry.text for entry in index._session.store.scan(SCOPE)}
            assert check_index(index).sound
    finally:
        fleet.end()
    assert soak.missing == []
    assert {
        name: number for name, number in soak.kept.items() if there.get(name) != text_of(number)
    } == {}
    assert soak.erased.isdisjoint(there)
    assert len(soak.kept) > requests // 3
    # no answer while there was no server; not ready, or no store, while there was no Redis
    assert {status for _, status in soak.failures} <= {None, 503}, soak.failures
    assert soak.failures, "nothing was felt of the kills"


async def soaked(fleet: Fleet, requests: int, kills: int) -> Soak:
    async with nk.AsyncClient(fleet.address, retries=ONCE) as client:
        soak = Soak(client, requests)
        await soak.run([fleet.kill_server, fleet.kill_redis] * kills)
    return soak
