"""Random histories of inserts, updates and deletions, whose consumers are killed at any step."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import nearkin as nk
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.service.consumer.consumer import Consumer
from nearkin.service.consumer.events import StreamEvent, StreamSettings
from nearkin.service.consumer.sinks import IndexSink
from tests.index.conftest import empty_store, postgres_port, redis_port
from tests.service.consumer.listed_source import ListedSource

__all__ = ["postgres_port", "redis_port"]

HISTORIES = {"memory": 40, "sqlite": 20, "redis": 10, "postgres": 10}
"""The numbers of histories in the quick form. The full form has 300 of each store."""
IDS = [f"d{number}" for number in range(8)]
FAMILIES = [
    [f"{' '.join(f'word{family}x{i}' for i in range(40))} ending{copy}" for copy in range(3)]
    for family in range(4)
]
"""Texts of which those of one family are near-duplicates, and those of two families are not."""


class KilledError(BaseException):
    """The end of a consumer, which nothing catches."""


class Killer:
    """Ends the consumer at some of its steps, before or after them."""

    def __init__(self, random: Random, kills: int) -> None:
        self._random = random
        self._kills = kills

    def step(self) -> None:
        """Ends the consumer by chance, a bounded number of times."""
        if self._kills and self._random.random() < 0.15:
            self._kills -= 1
            raise KilledError

    def wrap(self, inner: Any, *names: str) -> None:
        """Lets methods of an object end the consumer before and after their work."""
        for name in names:
            setattr(inner, name, self._killing(getattr(inner, name)))

    def _killing(self, method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            self.step()
            result = method(*arguments)
            self.step()
            return result

        return call


def make_history(random: Random) -> tuple[list[StreamEvent], dict[str, str]]:
    """Returns events, and the texts by id that are left at their end."""
    events: list[StreamEvent] = []
    left: dict[str, str] = {}
    for number in range(random.randrange(1, 40)):
        id = random.choice(IDS)
        fields = {"id": id}
        if random.random() < 0.35:
            fields["op"] = "delete"
            left.pop(id, None)
        else:
            fields["text"] = left[id] = random.choice(random.choice(FAMILIES))
        content = {name: value.encode() for name, value in fields.items()}
        events.append(StreamEvent(str(number), content))
    return events, left


def clusters_of(index: nk.Index, ids: Iterable[str]) -> set[frozenset[str]]:
    """Returns the ids of the documents of each cluster."""
    clusters = [index.cluster("default", id) for id in ids]
    return {frozenset(id for id, _ in cluster.members) for cluster in clusters if cluster}


def texts_of(index: nk.Index) -> dict[str, str | None]:
    return {entry.id: entry.text for entry in index._session.store.scan("default")}


def open_indexes(
    kind: str, request: pytest.FixtureRequest, folder: Path, *, full: bool
) -> Iterator[tuple[Random, nk.Index]]:
    """Yields random numbers and an empty index for each history."""
    for seed in range(300 if full else HISTORIES[kind]):
        with nk.Index.open(empty_store(kind, request, folder), threshold=0.5) as index:
            yield Random(seed), index


def consume_to_the_end(source: ListedSource, sink: Any, random: Random) -> int:
    """Consumes a source with consumers that are killed, and returns how many were."""
    killer = Killer(random, kills=4)
    killer.wrap(source, "acknowledge")
    killer.wrap(sink, "upsert", "remove")
    settings = StreamSettings(batch=random.randrange(1, 12))
    kills = 0
    while True:
        source.restart()
        try:
            Consumer(source, sink, settings).run(until_empty=True)
        except KilledError:
            kills += 1
        else:
            return kills


@pytest.mark.parametrize("kind", HISTORIES)
def test_index_equals_one_of_the_final_documents(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, full: bool
) -> None:
    kills = 0
    for random, index in open_indexes(kind, request, tmp_path, full=full):
        events, left = make_history(random)
        source = ListedSource(events)
        kills += consume_to_the_end(source, IndexSink(index), random)
        assert texts_of(index) == left
        assert check_index(index).sound
        # an update may leave two similar representatives, which maintenance merges
        merge_clusters(index)
        with nk.Index.open("memory://", threshold=0.5) as fresh:
            fresh.upsert_many("default", [*left.values()], [*left])
            assert clusters_of(index, left) == clusters_of(fresh, left)
    assert kills > 0


def make_versions(random: Random) -> tuple[list[StreamEvent], dict[str, str]]:
    """Returns events whose versions are not in order, and the texts of the newest ones by id."""
    events: list[StreamEvent] = []
    newest: dict[str, tuple[int, str | None]] = {}
    versions = random.sample(range(1000), random.randrange(1, 40))
    for number, version in enumerate(versions):
        id = random.choice(IDS[:4])
        text = None if random.random() < 0.3 else random.choice(random.choice(FAMILIES))
        newest[id] = max(newest.get(id, (-1, None)), (version, text))
        fields = {"id": id.encode(), "v": str(version).encode()}
        fields |= {"op": b"delete"} if text is None else {"text": text.encode()}
        events.append(StreamEvent(str(number), fields))
    return events, {id: text for id, (_, text) in newest.items() if text is not None}


@pytest.mark.parametrize("kind", HISTORIES)
def test_newest_versions_are_left_whatever_their_order(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, full: bool
) -> None:
    """Two consumers share the events, and either is killed at any step."""
    for random, index in open_indexes(kind, request, tmp_path, full=full):
        events, left = make_versions(random)
        cut = random.randrange(len(events) + 1)
        sources = [ListedSource(events[:cut], "0"), ListedSource(events[cut:], "1")]
        sink = IndexSink(index)
        killer = Killer(random, kills=4)
        killer.wrap(sink, "upsert", "remove")
        for source in sources:
            killer.wrap(source, "acknowledge")
        settings = StreamSettings(batch=random.randrange(1, 6), version="v")
        consumers = [Consumer(source, sink, settings) for source in sources]
        while any(len(source.acknowledged) < len(source.events) for source in sources):
            turn = random.randrange(2)
            try:
                # one batch at a time, so that the consumers alternate
                consumers[turn]._process(sources[turn].read(settings.batch, 0))
            except KilledError:
                sources[turn].restart()
        assert texts_of(index) == left
        assert check_index(index).sound
