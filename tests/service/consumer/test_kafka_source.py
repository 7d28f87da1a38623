"""Kafka topics, over the mock cluster of librdkafka, which speaks the protocol of brokers."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition
from confluent_kafka import Consumer as KafkaConsumer

from nearkin import Index
from nearkin.errors import StoreError, UsageError
from nearkin.service.consumer.consumer import Consumer
from nearkin.service.consumer.events import StreamEvent, StreamSettings
from nearkin.service.consumer.kafka_source import KafkaSource, _Partition
from nearkin.service.consumer.sinks import IndexSink

SETTINGS = StreamSettings(id="key", wait=0.3)
NUMBERS = count()
"""The numbers of the topics."""
PATIENCE = 300.0
"""Seconds after which a test stops waiting for the broker. It does not decide a result."""


@pytest.fixture(scope="module")
def producer() -> Any:
    """A client that runs a broker of its own."""
    return Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})


@pytest.fixture
def topic(producer: Any) -> str:
    """The name of a topic with three documents, two messages that hold none, and a deletion."""
    name = f"documents-{next(NUMBERS)}"
    values = [json.dumps({"text": f"the text of document {i}"}).encode() for i in range(3)]
    for number, value in enumerate([*values, b"no json", b'{"title": "no text"}', None]):
        producer.produce(name, value, key=f"d{number}", partition=0)
    assert producer.flush(PATIENCE) == 0
    return name


@pytest.fixture
def address(producer: Any) -> str:
    broker = next(iter(producer.list_topics(timeout=PATIENCE).brokers.values()))
    return f"{broker.host}:{broker.port}"


def ids_of(index: Index) -> list[str]:
    return [f"d{i}" for i in range(6) if index.get("default", f"d{i}") is not None]


def read_topic(address: str, topic: str, most: int) -> list[Any]:
    """Returns the messages of all partitions of a topic, without joining a group."""
    reader = KafkaConsumer({"bootstrap.servers": address, "group.id": "reader"})
    partitions = reader.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
    reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    messages = reader.consume(most, PATIENCE)
    reader.close()
    return list(messages)


def read_events(source: KafkaSource, count: int) -> list[StreamEvent]:
    """Returns some events of a source, which may deliver them in several parts."""
    events: list[StreamEvent] = []
    while len(events) < count:
        part = source.read(6, 5.0)
        assert part, f"the topic ended after {len(events)} events"
        events += part
    return events


def test_documents_are_stored_and_poison_messages_become_dead_letters(
    address: str, topic: str
) -> None:
    with Index.open("memory://") as index:
        with KafkaSource(f"kafka://{address}/{topic}") as source:
            counts = Consumer(source, IndexSink(index), SETTINGS).run(until_empty=True)
        assert ids_of(index) == ["d0", "d1", "d2"]
        assert (counts.dead, counts.removed, counts.dropped) == (2, 1, 0)
        letters = read_topic(address, f"{topic}.dead", 2)
        letters.sort(key=lambda letter: letter.key())
        assert [letter.value() for letter in letters] == [b"no json", b'{"title": "no text"}']
        assert dict(letters[0].headers())["nearkin-key"] == b"0:3"
        assert b"must have one of the fields" in dict(letters[0].headers())["nearkin-reason"]


def test_tombstones_and_headers_delete_documents(address: str, producer: Any) -> None:
    topic = f"documents-{next(NUMBERS)}"
    for number in range(4):
        value = json.dumps({"text": f"the text of document {number}", "scope": "news"}).encode()
        producer.produce(topic, value, key=f"d{number}", partition=0)
    headers = {"op": "delete", "scope": "news", "traced": None}
    producer.produce(topic, None, key="d0", headers={"scope": "news"}, partition=0)
    producer.produce(topic, b"{}", key="d1", headers=headers, partition=0)
    producer.produce(topic, b'{"op": "d", "scope": "news"}', key="d2", partition=0)
    producer.produce(topic, None, key="d3", partition=0)
    producer.produce(topic, None, partition=0)
    producer.produce(topic, b"{}", key="d3", headers={"op": "archive"}, partition=0)
    assert producer.flush(PATIENCE) == 0
    with Index.open("memory://") as index:
        with KafkaSource(f"kafka://{address}/{topic}", "deleting") as source:
            counts = Consumer(source, IndexSink(index), SETTINGS).run(until_empty=True)
        # the last tombstone with a key names no scope, so that it is about another document
        assert [index.get("news", f"d{i}") is None for i in range(4)] == [True, True, True, False]
    assert (counts.removed, counts.dead) == (4, 2)
    letters = [dict(letter.headers()) for letter in read_topic(address, f"{topic}.dead", 2)]
    reasons = {letter["nearkin-key"]: letter["nearkin-reason"].decode() for letter in letters}
    assert "a deletion must have the field key" in reasons[b"0:8"]
    assert "op is 'archive'" in reasons[b"0:9"]


def test_messages_that_are_nested_deeply_or_large_become_dead_letters(
    address: str, producer: Any
) -> None:
    topic = f"documents-{next(NUMBERS)}"
    large = Producer({"bootstrap.servers": address, "message.max.bytes": 2_000_000})
    nested = b'{"text": "a b c", "other": ' + b"[" * 500 + b"]" * 500 + b"}"
    for value in (nested, bytes(1_040_000), b'{"text": "the last text"}'):
        large.produce(topic, value, key="d0", partition=0)
    assert large.flush(PATIENCE) == 0
    with Index.open("memory://") as index:
        # the mock cluster keeps the member that left a group until its session of 60 s has ended
        with KafkaSource(f"kafka://{address}/{topic}", "another group") as source:
            counts = Consumer(source, IndexSink(index), SETTINGS).run(until_empty=True)
        assert ids_of(index) == ["d0"]
    assert counts.dead == 2
    assert sorted(len(letter.value()) for letter in read_topic(address, f"{topic}.dead", 2)) == [
        len(nested),
        1_040_000,
    ]


def test_events_that_were_not_acknowledged_are_delivered_again(address: str, topic: str) -> None:
    url = f"kafka://{address}/{topic}"
    with KafkaSource(url, "crashing", idle=6) as source:
        first = read_events(source, 3)
        source.acknowledge([first[0], first[2]])
    with KafkaSource(url, "crashing", idle=6) as source:
        again = read_events(source, 5)
    # Event 1 was not acknowledged, so the events from it on are not committed.
    assert [event.key for event in again] == ["0:1", "0:2", "0:3", "0:4", "0:5"]
    assert again[0].fields == {"key": b"d1", "text": b"the text of document 1"}


def test_offset_is_committed_only_behind_acknowledged_events() -> None:
    partition = _Partition({5: "a", 6: "b", 8: "c"})
    assert partition.finish(6) is None
    assert partition.finish(5) == 7
    assert partition.finish(8) == 9
    assert (partition.waiting, partition.done) == ({}, set())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("kafka://localhost:9092", "is not of the form kafka://host:9092/documents"),
        ("kafka://localhost:9092/a/b", "is not of the form"),
        ("kafka://localhost:9092/a?ded=b", "dead"),
        ("kafka://localhost:9092/a?config=/no/such/file", "cannot read the settings of Kafka"),
    ],
)
def test_url_that_is_not_valid_is_refused(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        KafkaSource(url)


def test_settings_come_from_a_file_that_messages_do_not_quote(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("# comment\nsasl.password secret\n")
    with pytest.raises(UsageError, match=r"line 2 is not of the form name=value") as caught:
        KafkaSource(f"kafka://localhost:9092/a?config={config}")
    assert "secret" not in str(caught.value)
    config.write_text("no.such.setting=1\n")
    with pytest.raises(UsageError, match=r"no\.such\.setting"):
        KafkaSource(f"kafka://localhost:9092/a?config={config}")
    with pytest.raises(UsageError, match="brokers of Kafka refuse"):
        KafkaSource("kafka://localhost:9092/a", idle=1)


def test_brokers_that_do_not_answer_are_a_transient_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.service.consumer.kafka_source.JOIN_SECONDS", 0.1)
    with KafkaSource("kafka://127.0.0.1:9/a") as source, pytest.raises(StoreError):
        source.read(1, 0.2)


class Message:
    """A message that a source has read."""

    def headers(self) -> None:
        """Returns no headers."""

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"no json"


def test_a_dead_letter_that_was_not_stored_in_time_is_not_stored_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.service.consumer.kafka_topic.DELIVERY_SECONDS", 0.05)
    with KafkaSource("kafka://127.0.0.1:9/a") as source:
        source._partitions[0] = _Partition({5: Message()})
        with pytest.raises(StoreError, match="dead letters were not stored"):
            source.move_to_dead_letters(StreamEvent("0:5", {}), "not JSON")
        # no message waits to be sent; events of the producer are handled meanwhile
        assert source._letters._producer.flush(PATIENCE) == 0
