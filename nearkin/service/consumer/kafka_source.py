"""A Kafka topic as a source of events."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from nearkin.errors import MissingExtraError, StoreError, UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.service.consumer.events import StreamEvent
from nearkin.service.consumer.kafka_topic import KafkaAddress, KafkaMessage, TopicProducer

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
except ImportError as error:
    raise MissingExtraError.for_extra("Kafka streams require confluent-kafka", "kafka") from error

log = logging.getLogger("nearkin.stream")

JOIN_SECONDS = 60.0
"""The maximum time until the group has given its partitions to this consumer, in seconds."""
READ_BYTES = 64 << 20
"""The maximum size of messages that are fetched ahead, in bytes."""
SHORTEST_SESSION = 6.0
"""The shortest session that brokers accept by default, in seconds."""
KEY_FIELD = "key"
"""The field that holds the key of a message, unless its value has a field of this name."""
REASSIGNED = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._ASSIGNMENT_LOST,
)
"""The errors of a commit after which another consumer receives the events again."""


@dataclass
class _Partition:
    """The events of a partition that were read, in order, and not all acknowledged."""

    waiting: dict[int, Any] = field(default_factory=dict)
    """The messages by offset, the oldest first."""
    done: set[int] = field(default_factory=set)
    """The offsets of those that are acknowledged, behind one that is not."""

    def finish(self, offset: int) -> int | None:
        """Marks an event as processed."""
        self.done.add(offset)
        position = None
        for oldest in list(self.waiting):
            if oldest not in self.done:
                break
            self.done.remove(oldest)
            del self.waiting[oldest]
            position = oldest + 1
        return position


class KafkaSource:
    """A Kafka topic that is read by a consumer group.

    The brokers divide the partitions of the topic among the consumers of a group. The offset of a
    partition is committed when all events before it have been acknowledged, so a consumer that dies
    leaves no event out. The value of a message is a JSON object of fields, and a message without a
    value deletes a document.

    Args:
        idle: The time after which the partitions of a dead consumer are given to others, in
            seconds.
    """

    def __init__(
        self, url: str, group: str = "nearkin", consumer: str | None = None, idle: float = 60.0
    ) -> None:
        address = KafkaAddress.parse(url, ["dead"], consumer)
        self._shown_url = address.shown_url
        self.topic = address.topic
        self.group = group
        if idle < SHORTEST_SESSION:
            raise UsageError(
                f"{name_setting('idle', f'{idle:g}s')} is shorter than {SHORTEST_SESSION:g}s, "
                "which brokers of Kafka refuse; give a longer time"
            )
        self.dead = address.options.get("dead", [f"{self.topic}.dead"])[0]
        self._partitions: dict[int, _Partition] = {}
        self._has_joined = False
        self._unread: set[int] = set()
        session = round(idle * 1000)
        self._letters = TopicProducer(address, self.dead, "dead letters")
        try:
            self._consumer = Consumer(
                {
                    **address.settings,
                    "group.id": group,
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "earliest",
                    "session.timeout.ms": session,
                    "max.poll.interval.ms": max(300_000, session),
                    "queued.max.messages.kbytes": READ_BYTES >> 10,
                }
            )
        except KafkaException as error:
            raise address.invalid_settings(error) from error
        self._consumer.subscribe(
            [self.topic], on_assign=self._join, on_revoke=self._forget, on_lost=self._forget
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._letters.close()

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self.topic

    def _join(self, consumer: Any, partitions: list[Any]) -> None:
        """Notes that the group has given partitions to this consumer."""
        self._has_joined = True
        self._unread = {partition.partition for partition in partitions}

    def _forget(self, consumer: Any, partitions: list[Any]) -> None:
        """Forgets the events of partitions that other consumers read from now on."""
        for partition in partitions:
            self._partitions.pop(partition.partition, None)
            self._unread.discard(partition.partition)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raises StoreError for an error of Kafka."""
        try:
            yield
        except KafkaException as error:
            raise self._make_error(error.args[0]) from error

    def _make_error(self, error: Any) -> StoreError:
        return StoreError(
            f"{self._shown_url}: {error.str()}; events that were not acknowledged are delivered "
            "again"
        )

    def read(self, most: int, seconds: float) -> list[StreamEvent]:
        """Returns events that no consumer of the group has received.

        It waits until the group has given partitions to this consumer, and each of them has
        delivered an event or its end. An empty list therefore means that no event is left.

        Args:
            seconds: Maximum time to wait for an event.
        """
        deadline = time.monotonic() + JOIN_SECONDS
        while True:
            with self._translate_errors():
                messages = self._consumer.consume(most, seconds)
            self._unread.difference_update(message.partition() for message in messages)
            events = [self._note_event(message) for message in messages if message.error() is None]
            faults = [message.error() for message in messages if message.error() is not None]
            faults = [fault for fault in faults if fault.code() != KafkaError._PARTITION_EOF]
            if events:
                return events
            if faults:
                raise self._make_error(faults[0])
            if self._has_joined and not self._unread:
                return []
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{self._shown_url}: no broker has answered for {JOIN_SECONDS:g} s; check the "
                    "address"
                )

    def _note_event(self, message: Any) -> StreamEvent:
        partition = self._partitions.setdefault(message.partition(), _Partition())
        partition.waiting[message.offset()] = message
        return StreamEvent(
            key=f"{message.partition()}:{message.offset()}",
            fields=_decode_fields(message.key(), message.value()),
            headers={name: value for name, value in message.headers() or () if value is not None},
            is_tombstone=message.value() is None,
            lane=str(message.partition()),
            position=message.offset(),
        )

    def reclaim(self, most: int) -> list[StreamEvent]:
        """Returns no events, because the brokers deliver those of a dead consumer again."""
        return []

    def acknowledge(self, events: Sequence[StreamEvent]) -> None:
        """Commits the offsets behind events, so that they are not delivered again."""
        positions: dict[int, int] = {}
        for event in events:
            number, offset = map(int, event.key.split(":"))
            partition = self._partitions.get(number)
            if partition is None:
                # Another consumer reads the partition now, and receives the event again.
                continue
            position = partition.finish(offset)
            if position is not None:
                positions[number] = position
        if not positions:
            return
        offsets = [
            TopicPartition(self.topic, number, position) for number, position in positions.items()
        ]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in REASSIGNED:
                raise self._make_error(error.args[0]) from error
            log.warning("%s: the partitions were given to another consumer", self._shown_url)

    def move_to_dead_letters(self, event: StreamEvent, reason: str) -> None:
        """Writes an event to the topic of dead letters, and then acknowledges it.

        The letter has the key, the value and the headers of the message, and the headers
        `nearkin-key` and `nearkin-reason`. A consumer that dies between both steps writes a second
        letter. So does one that does not learn that the brokers have stored the first.
        """
        number, offset = map(int, event.key.split(":"))
        partition = self._partitions.get(number)
        message = None if partition is None else partition.waiting.get(offset)
        if message is None:
            return
        headers = [
            *(message.headers() or []),
            ("nearkin-key", event.key.encode()),
            ("nearkin-reason", reason.encode()),
        ]
        self._letters.write([KafkaMessage(message.key(), message.value(), headers)])
        self.acknowledge([event])


def _decode_fields(key: bytes | None, value: bytes | None) -> Mapping[str, bytes]:
    """Returns the fields of a message: those of its JSON object, and its key.

    A value that is not a JSON object, or is nested very deeply, has no fields. A message
    without a value, which is a deletion, has its key alone.

    Examples:
        >>> _decode_fields(b"7", b'{"text": "the cat", "vector": [1, 2], "id": null}')
        {'key': b'7', 'text': b'the cat', 'vector': b'[1,2]'}
    """
    fields = {} if key is None else {KEY_FIELD: key}
    if value is None:
        return fields
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        return {}
    try:
        for name, content in parsed.items():
            if content is not None:
                is_text = isinstance(content, str)
                fields[name] = content.encode() if is_text else orjson.dumps(content)
    except orjson.JSONEncodeError:
        # orjson reads values that are nested more deeply than those that it writes.
        return {}
    return fields
