"""The progress of consumers, which is stored in the transactions that process events."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
from confluent_kafka import Producer

import nearkin as nk
from nearkin.errors import IncompatibleError
from nearkin.index.entry import PROGRESS_PREFIX, RESERVED
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.index.migration.cutover import fill_copy
from nearkin.service.consumer.consumer import Consumer, ConsumerCounts
from nearkin.service.consumer.events import StreamEvent, StreamSettings
from nearkin.service.consumer.kafka_source import KafkaSource
from nearkin.service.consumer.redis_source import RedisSource
from nearkin.service.consumer.sinks import IndexSink
from tests.index.conftest import NEAR, TEXT, corpus, empty_store, postgres_port
from tests.service.consumer.listed_source import ListedSource, ListedTarget
from tests.service.consumer.test_histories import KilledError, Killer, make_history, texts_of
from tests.service.consumer.test_kafka_source import PATIENCE
from tests.services import redis_server

__all__ = ["postgres_port"]

HISTORIES = {"sqlite": 30, "postgres": 15}
"""The numbers of histories in the quick form. The full form has 300 of each store."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[nk.Index]:
    with nk.Index.open(f"sqlite:///{tmp_path}/kin.db", threshold=0.6) as opened:
        yield opened


def consume(index: nk.Index, source: ListedSource, target: Any = None) -> ConsumerCounts:
    source.restart()
    consumer = Consumer(source, IndexSink(index), StreamSettings(batch=4), target=target)
    return consumer.run(until_empty=True)


def list_events(*texts: str) -> list[StreamEvent]:
    return [
        StreamEvent(str(number), {"id": f"d{number}".encode(), "text": text.encode()})
        for number, text in enumerate(texts)
    ]


def outcomes_by_key(target: ListedTarget) -> dict[str, Any]:
    """Returns the outcomes by key. Those that were published again must be equal."""
    found: dict[str, Any] = {}
    for outcome in target.outcomes:
        assert found.setdefault(outcome.key, outcome.values) == outcome.values
    return found


@pytest.mark.parametrize("has_positions", [True, False])
@pytest.mark.parametrize("kind", HISTORIES)
def test_killed_consumers_have_the_outcomes_of_one_that_was_not_killed(
    kind: str,
    has_positions: bool,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    full: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are killed before and after each step, publication and acknowledgement."""
    repeated = 0
    for seed in range(300 if full else HISTORIES[kind]):
        random = Random(seed)
        events, left = make_history(random)
        settings = StreamSettings(batch=random.randrange(1, 12))
        expected = ListedTarget()
        with nk.Index.open("memory://", threshold=0.5) as index:
            source = ListedSource(events)
            consumer = Consumer(source, IndexSink(index), settings, target=expected)
            consumer.run(until_empty=True)
        with nk.Index.open(empty_store(kind, request, tmp_path), threshold=0.5) as index:
            source = ListedSource(events, has_positions=has_positions)
            target = ListedTarget()
            killer = Killer(random, kills=8)
            killer.wrap(source, "acknowledge")
            killer.wrap(target, "publish")
            killer.wrap(index._session.store, "apply")
            while True:
                source.restart()
                consumer = Consumer(source, IndexSink(index), settings, target=target)
                try:
                    consumer.run(until_empty=True)
                except KilledError:
                    continue
                finally:
                    repeated += consumer.counts.repeated
                break
            assert outcomes_by_key(target) == outcomes_by_key(expected)
            assert texts_of(index) == left
            assert check_index(index).sound
    assert repeated > 0


def test_event_that_was_processed_is_not_processed_again(index: nk.Index) -> None:
    """Another process has changed the document since, which a second time would undo."""
    source = ListedSource(list_events(TEXT, NEAR))
    target = ListedTarget()
    acknowledge = source.acknowledge
    source.acknowledge = lambda events: None  # type: ignore[method-assign]
    assert consume(index, source, target).kinds.total() == 2
    index.upsert("default", "a correction that was made by hand in the meantime", "d0")
    source.acknowledge = acknowledge  # type: ignore[method-assign]
    counts = consume(index, source, target)
    assert (counts.repeated, counts.kinds.total()) == (2, 0)
    assert texts_of(index)["d0"] == "a correction that was made by hand in the meantime"
    assert [outcome.values["kind"] for outcome in target.outcomes] == ["new", "match"] * 2


def test_event_that_changed_nothing_is_not_processed_again(index: nk.Index) -> None:
    index.upsert("default", TEXT, "d0")
    source = ListedSource(list_events(TEXT))
    source.acknowledge = lambda events: None  # type: ignore[method-assign]
    target = ListedTarget()
    assert consume(index, source, target).kinds == {"exact": 1}
    index.upsert("default", NEAR, "d0")
    assert consume(index, source, target).repeated == 1
    assert texts_of(index) == {"d0": NEAR}
    assert [outcome.values["kind"] for outcome in target.outcomes] == ["exact", "exact"]


def test_stream_that_goes_back_is_refused(index: nk.Index) -> None:
    texts = corpus(8)
    consume(index, ListedSource(list_events(*texts)))
    with pytest.raises(
        IncompatibleError, match=r"listed goes back to its event 0: .* another group"
    ):
        consume(index, ListedSource(list_events(*texts[:2])))
    # the last batch had the events from 4 on
    again = ListedSource(list_events(*texts[:6], "another text", texts[7]))
    again.acknowledged = [str(number) for number in range(6)]
    with pytest.raises(IncompatibleError, match="goes back to its event 6"):
        consume(index, again)
    other = ListedSource(list_events(*texts[:2]))
    other.group = "other"
    assert consume(index, other).kinds.total() == 2


def test_consumer_whose_events_another_one_has_processed_is_ended(index: nk.Index) -> None:
    paused = ListedSource(list_events(TEXT, NEAR, *corpus(4)))
    sink = IndexSink(index)
    consumer = Consumer(paused, sink, StreamSettings(batch=2))
    upsert = sink.upsert

    def pause(*arguments: Any) -> Any:
        # the other consumer, of another thread, receives the same events, and more
        sink.upsert = upsert  # type: ignore[method-assign]
        correction = "a correction that was made by hand in the meantime"
        with ThreadPoolExecutor() as pool:
            counts = pool.submit(consume, index, ListedSource(paused.events)).result()
            assert counts.kinds.total() == 6
            pool.submit(index.upsert, "default", correction, "d0").result()
        return upsert(*arguments)

    sink.upsert = pause  # type: ignore[method-assign]
    with pytest.raises(IncompatibleError, match="another consumer of the group nearkin has"):
        consumer.run(until_empty=True)
    assert texts_of(index)["d0"] == "a correction that was made by hand in the meantime"
    assert paused.acknowledged == []


def test_deletion_of_no_document_is_not_repeated_behind_an_insertion(index: nk.Index) -> None:
    """The deletion needs no step, and is stored with the insertion that follows it."""
    events = [
        StreamEvent("0", {"id": b"one", "op": b"delete"}),
        StreamEvent("1", {"id": b"one", "text": TEXT.encode()}),
    ]
    source = ListedSource(events)
    acknowledge = source.acknowledge
    source.acknowledge = lambda events: None  # type: ignore[method-assign]
    consume(index, source)
    source.acknowledge = acknowledge  # type: ignore[method-assign]
    assert consume(index, source).repeated == 2
    assert [*texts_of(index)] == ["one"]


def test_documents_without_ids_are_recorded_by_their_content(index: nk.Index) -> None:
    events = [
        StreamEvent(str(number), {"text": text.encode()})
        for number, text in enumerate((TEXT, TEXT, NEAR, ""))
    ]
    source = ListedSource(events)
    acknowledge = source.acknowledge
    source.acknowledge = lambda events: None  # type: ignore[method-assign]
    target = ListedTarget()
    consume(index, source, target)
    source.acknowledge = acknowledge  # type: ignore[method-assign]
    consume(index, source, target)
    kinds = {key: values["kind"] for key, values in outcomes_by_key(target).items()}
    assert kinds == {"listed/0": "new", "listed/1": "exact", "listed/2": "match", "listed/3": "new"}


def test_record_of_a_lane_is_bounded(index: nk.Index) -> None:
    source = ListedSource(list_events(*corpus(60)))
    consume(index, source)
    records = [
        entry for entry in index._session.store.scan() if entry.scope.startswith(PROGRESS_PREFIX)
    ]
    assert len(records) == 1
    assert len(records[0].text or "") < 400


def test_copy_of_an_index_has_its_progress(index: nk.Index, tmp_path: Path) -> None:
    source = ListedSource(list_events(TEXT, NEAR))
    source.acknowledge = lambda events: None  # type: ignore[method-assign]
    consume(index, source)
    url = f"sqlite:///{tmp_path}/copy.db"
    with nk.Index.open(url, threshold=0.6, follow=False) as copy:
        fill_copy(index, copy)
    with nk.Index.open(url) as copy:
        assert consume(copy, source).repeated == 2


def test_store_without_transactions_keeps_no_progress() -> None:
    with nk.Index.open("memory://") as index:
        source = ListedSource(list_events(TEXT, NEAR))
        consume(index, source)
        assert not any(entry.scope.startswith(RESERVED) for entry in index._session.store.scan())


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        client: Any = redis.Redis(port=port, protocol=2)
        for number, text in enumerate(corpus(6)):
            client.xadd("documents", {"id": f"d{number}", "text": text})
        yield f"redis://127.0.0.1:{port}/0?stream=documents"


def test_events_of_a_dead_consumer_of_redis_are_not_processed_again(
    index: nk.Index, redis_url: str
) -> None:
    settings = StreamSettings(batch=4, wait=0.05, idle=0.01)
    with RedisSource(redis_url, consumer="dead", idle=0.01) as source:
        source.acknowledge = Killed()  # type: ignore[method-assign]
        with pytest.raises(KilledError):
            Consumer(source, IndexSink(index), settings).run(until_empty=True)
    index.upsert("default", "a correction that was made by hand in the meantime", "d0")
    with RedisSource(redis_url, consumer="one", idle=0.01) as source:
        counts = Consumer(source, IndexSink(index), settings).run(until_empty=True)
    assert (counts.repeated, counts.kinds.total()) == (4, 2)
    assert texts_of(index)["d0"] == "a correction that was made by hand in the meantime"


class Killed:
    """A method that ends the consumer."""

    def __call__(self, *_: Any) -> None:
        raise KilledError


def test_partitions_of_kafka_have_records_of_their_own(index: nk.Index) -> None:
    broker = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    address = next(iter(broker.list_topics(timeout=PATIENCE).brokers.values()))
    for number, text in enumerate(corpus(6)):
        value = json.dumps({"text": text}).encode()
        broker.produce("documents", value, key=f"d{number}", partition=number % 2)
    assert broker.flush(PATIENCE) == 0
    url = f"kafka://{address.host}:{address.port}/documents"
    settings = StreamSettings(id="key", wait=0.3)
    with KafkaSource(url, idle=6) as source:
        source.acknowledge = lambda events: None  # type: ignore[method-assign]
        counts = Consumer(source, IndexSink(index), settings).run(until_empty=True)
    assert (counts.repeated, counts.kinds.total()) == (0, 6)
    merge_clusters(index)
    assert check_index(index).sound
    with KafkaSource(url, idle=6) as source:
        counts = Consumer(source, IndexSink(index), settings).run(until_empty=True)
    assert (counts.repeated, counts.kinds.total(), counts.kinds["new"]) == (6, 0, 0)
