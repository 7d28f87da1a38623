"""Outcomes of events, which are published before the events are acknowledged."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
from confluent_kafka import Producer

import nearkin as nk
from nearkin.cli import app
from nearkin.errors import StoreError, UsageError
from nearkin.service.consumer.consumer import Consumer, ConsumerCounts
from nearkin.service.consumer.events import StreamEvent, StreamSettings
from nearkin.service.consumer.kafka_topic import KafkaTarget
from nearkin.service.consumer.outcomes import OutcomeEvent
from nearkin.service.consumer.redis_source import RedisTarget
from nearkin.service.consumer.sinks import IndexSink
from tests.index.conftest import NEAR, TEXT
from tests.service.consumer.listed_source import ListedSource, ListedTarget
from tests.service.consumer.test_histories import FAMILIES, KilledError, Killer, make_history
from tests.service.consumer.test_kafka_source import PATIENCE, read_topic
from tests.services import redis_server

NUMBERS = count()


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture
def index() -> Iterator[nk.Index]:
    with nk.Index.open("memory://", threshold=0.6) as opened:
        yield opened


def make_events(*fields: dict[str, str]) -> list[StreamEvent]:
    return [
        StreamEvent(str(number), {name: value.encode() for name, value in event.items()})
        for number, event in enumerate(fields)
    ]


def consume(
    index: nk.Index, events: list[StreamEvent], target: Any, **settings: Any
) -> ConsumerCounts:
    source = ListedSource(events)
    consumer = Consumer(source, IndexSink(index), StreamSettings(**settings), target=target)
    return consumer.run(until_empty=True)


def values_of(target: ListedTarget) -> list[dict[str, object]]:
    return [dict(outcome.values) for outcome in target.outcomes]


@pytest.mark.parametrize("batch", [1, 500])
def test_each_event_has_an_outcome_and_each_promotion_too(index: nk.Index, batch: int) -> None:
    target = ListedTarget()
    events = make_events(
        {"id": "one", "text": TEXT},
        {"id": "two", "text": NEAR},
        {"id": "three", "text": "another text that is like no other one of them"},
        {"id": "one", "op": "delete"},
        {"id": "none", "op": "delete"},
        {"id": "bad"},
    )
    assert consume(index, events, target, batch=batch).dead == 1
    similarity = target.outcomes[1].values["similarity"]
    assert isinstance(similarity, float)
    assert 0.6 < similarity < 1
    assert values_of(target) == [
        {
            "key": "listed/0",
            "kind": "new",
            "scope": "default",
            "id": "one",
            "cluster": "one",
            "representative": "one",
            "similarity": 1.0,
        },
        {
            "key": "listed/1",
            "kind": "match",
            "scope": "default",
            "id": "two",
            "cluster": "one",
            "representative": "one",
            "similarity": similarity,
        },
        {
            "key": "listed/2",
            "kind": "new",
            "scope": "default",
            "id": "three",
            "cluster": "three",
            "representative": "three",
            "similarity": 1.0,
        },
        {
            "key": "listed/3",
            "kind": "removed",
            "scope": "default",
            "id": "one",
            "cluster": "one",
            "representative": "one",
        },
        {
            "key": "listed/3/two",
            "kind": "promoted",
            "scope": "default",
            "id": "two",
            "cluster": "one",
            "representative": "two",
            "similarity": 1.0,
            "previous": "one",
        },
        {"key": "listed/4", "kind": "removed", "scope": "default", "id": "none"},
    ]


def test_update_of_a_representative_promotes_its_members(index: nk.Index) -> None:
    target = ListedTarget()
    events = make_events(
        {"id": "one", "text": TEXT},
        {"id": "two", "text": NEAR},
        {"id": "one", "text": "another text that is like no other one of them"},
    )
    consume(index, events, target)
    assert [(o.key, o.values["kind"], o.id) for o in target.outcomes[2:]] == [
        ("listed/2", "updated", "one"),
        ("listed/2/two", "promoted", "two"),
    ]


def test_member_without_content_that_is_promoted_has_an_outcome() -> None:
    target = ListedTarget()
    events = make_events(
        {"id": "one", "text": TEXT}, {"id": "two", "text": NEAR}, {"id": "one", "op": "delete"}
    )
    with nk.Index.open("memory://", threshold=0.6, store_text=False) as index:
        consume(index, events, target)
    assert [outcome.key for outcome in target.outcomes[3:]] == ["listed/2/two"]


def test_outcome_names_related_documents() -> None:
    target = ListedTarget()
    events = make_events({"id": "one", "text": TEXT}, {"id": "two", "text": NEAR})
    with nk.Index.open("memory://", threshold=0.95, related=0.5) as index:
        consume(index, events, target)
    assert target.outcomes[1].values["kind"] == "related"
    related = target.outcomes[1].values["related"]
    assert [document["id"] for document in related] == ["one"]  # type: ignore[attr-defined]


class Replica:
    """A search engine that follows outcomes: the representative of each document."""

    def __init__(self) -> None:
        self.leaders: dict[str, str] = {}

    def follow(self, outcomes: list[OutcomeEvent]) -> None:
        for outcome in outcomes:
            if outcome.values["kind"] == "removed":
                self.leaders.pop(outcome.id, None)
            else:
                self.leaders[outcome.id] = str(outcome.values["representative"])


@pytest.mark.parametrize("kills", [0, 6])
def test_no_event_is_without_an_outcome_wherever_consumers_are_killed(
    kills: int, full: bool
) -> None:
    for seed in range(300 if full else 30):
        random = Random(seed)
        events, left = make_history(random)
        source = ListedSource(events)
        target = ListedTarget()
        killer = Killer(random, kills)
        settings = StreamSettings(batch=random.randrange(1, 12))
        with nk.Index.open("memory://", threshold=0.5) as index:
            sink = IndexSink(index)
            killer.wrap(source, "acknowledge")
            killer.wrap(sink, "upsert", "remove")
            killer.wrap(target, "publish")
            while True:
                source.restart()
                try:
                    Consumer(source, sink, settings, target=target).run(until_empty=True)
                except KilledError:
                    # what is acknowledged has an outcome
                    keys = {outcome.key for outcome in target.outcomes}
                    assert {f"listed/{key}" for key in source.acknowledged} <= keys
                else:
                    break
            replica = Replica()
            replica.follow(target.outcomes)
            assert replica.leaders.keys() == left.keys()
            if not kills:
                entries = index._session.store.scan("default")
                assert {entry.id for entry in entries if entry.is_leader} <= {
                    id for id, leader in replica.leaders.items() if id == leader
                }


def test_outcomes_that_cannot_be_stored_keep_the_events(
    index: nk.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.service.consumer.consumer.LONGEST_WAIT", 0.01)

    class Failing(ListedTarget):
        failures = 3

        def publish(self, outcomes: Any) -> None:
            if self.failures:
                self.failures -= 1
                raise StoreError("no room")
            super().publish(outcomes)

    source = ListedSource(make_events({"id": "one", "text": FAMILIES[0][0]}))
    target = Failing()
    Consumer(source, IndexSink(index), StreamSettings(), target=target).run(until_empty=True)
    assert [outcome.values["kind"] for outcome in target.outcomes] == ["new"]
    assert source.acknowledged == ["0"]


def test_outcomes_are_written_to_a_stream_of_redis(index: nk.Index, redis_port: int) -> None:
    name = f"outcomes{next(NUMBERS)}"
    events = make_events({"id": "one", "text": TEXT}, {"id": "one", "op": "delete"})
    with RedisTarget(f"redis://127.0.0.1:{redis_port}/0?stream={name}") as target:
        consume(index, events, target)
    client: Any = redis.Redis(port=redis_port, protocol=2, decode_responses=True)
    assert [fields for _, fields in client.xrange(name)] == [
        {
            "key": "listed/0",
            "kind": "new",
            "scope": "default",
            "id": "one",
            "cluster": "one",
            "representative": "one",
            "similarity": "1.0",
        },
        {
            "key": "listed/1",
            "kind": "removed",
            "scope": "default",
            "id": "one",
            "cluster": "one",
            "representative": "one",
        },
    ]
    client.delete(name)
    client.set(name, "not a stream")
    with (
        RedisTarget(f"redis://127.0.0.1:{redis_port}/0?stream={name}") as target,
        pytest.raises(StoreError, match=r"the outcomes were not stored: .*WRONGTYPE"),
    ):
        target.publish([OutcomeEvent("a", "b", {"key": "a"})])


def test_outcomes_are_written_to_a_topic_of_kafka(index: nk.Index) -> None:
    broker = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    address = next(iter(broker.list_topics(timeout=PATIENCE).brokers.values()))
    host = f"{address.host}:{address.port}"
    events = make_events(
        *({"id": f"d{number}", "text": family[0]} for number, family in enumerate(FAMILIES)),
        {"id": "d0", "op": "delete"},
    )
    with KafkaTarget(f"kafka://{host}/outcomes") as target:
        consume(index, events, target)
    messages = read_topic(host, "outcomes", len(events))
    read = sorted(
        (
            dict(message.headers())["nearkin-key"].decode(),
            message.key(),
            json.loads(message.value()),
        )
        for message in messages
    )
    assert [(key, id, values["kind"]) for key, id, values in read] == [
        ("listed/0", b"d0", "new"),
        ("listed/1", b"d1", "new"),
        ("listed/2", b"d2", "new"),
        ("listed/3", b"d3", "new"),
        ("listed/4", b"d0", "removed"),
    ]
    assert [values["key"] for _, _, values in read] == [key for key, _, _ in read]


def test_topic_that_does_not_answer_keeps_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.service.consumer.kafka_topic.DELIVERY_SECONDS", 0.05)
    with (
        KafkaTarget("kafka://127.0.0.1:9/outcomes") as target,
        pytest.raises(StoreError, match="the outcomes were not stored"),
    ):
        target.publish([OutcomeEvent("a", "b", {"key": "a"})])


def test_command_publishes_outcomes(redis_port: int, tmp_path: Path) -> None:
    client: Any = redis.Redis(port=redis_port, protocol=2, decode_responses=True)
    name = f"documents{next(NUMBERS)}"
    client.xadd(name, {"id": "one", "text": TEXT})
    url = f"redis://127.0.0.1:{redis_port}/0?stream="
    store = f"sqlite:///{tmp_path}/kin.db"
    line = ["stream", f"{url}{name}", "--store", store, "--to", f"{url}{name}-out", "--until-empty"]
    assert app.run(line) == 0
    assert [fields["kind"] for _, fields in client.xrange(f"{name}-out")] == ["new"]


def test_targets_that_cannot_be_used_are_refused(
    redis_port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"redis://127.0.0.1:{redis_port}/0?stream=documents"
    store = tmp_path / "kin.db"
    for target, message in (
        (url, "is the stream that is read; name another one"),
        (f"redis://127.0.0.1:{redis_port}/0", "is not of the form redis://"),
        ("kafka://127.0.0.1", "is not of the form kafka://"),
        (f"{url}out&dead=x", "unknown option 'dead'"),
    ):
        line = ["stream", url, "--store", f"sqlite:///{store}", "--to", target]
        assert app.run(line) == app.USAGE
        assert message in capsys.readouterr().err
        assert not store.exists()
    line = ["stream", url, "--server", "http://127.0.0.1:9", "--to", f"{url}-out"]
    assert app.run(line) == app.USAGE
    assert "does not tell which documents were promoted" in capsys.readouterr().err
    with pytest.raises(UsageError):
        KafkaTarget("redis://127.0.0.1/0")
