"""Kafka topics: their addresses, and producers that wait until messages are stored."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import orjson

from nearkin.errors import MissingExtraError, StoreError, UsageError
from nearkin.index.stores.addresses import require_known_options
from nearkin.index.stores.urls import recorded_url
from nearkin.service.consumer.outcomes import OutcomeEvent

try:
    from confluent_kafka import KafkaException, Producer
except ImportError as error:
    raise MissingExtraError.for_extra("Kafka streams require confluent-kafka", "kafka") from error

KAFKA = "kafka"
"""The scheme of the URLs of Kafka topics."""
DELIVERY_SECONDS = 30.0
"""The maximum time until the brokers have stored a message, in seconds.

A message that takes longer is given up. Otherwise the brokers would store one for each attempt.
"""
REPORT_SECONDS = 30.0
"""The maximum time after which a message is reported as given up, in seconds."""
MESSAGE_BYTES = 1_000_000_000
"""The maximum size of messages, in bytes.

The default of librdkafka is less than what brokers accept from other producers, whose messages
could then not become dead letters.
"""


class KafkaAddress(NamedTuple):
    """The address of a topic.

    Attributes:
        shown_url: The URL without a password.
        topic: The name of the topic.
        options: The options of the URL.
        settings: Settings of librdkafka, the brokers included.
    """

    shown_url: str
    topic: str
    options: Mapping[str, list[str]]
    settings: Mapping[str, str]

    @classmethod
    def parse(cls, url: str, options: list[str], client: str | None = None) -> Self:
        """Returns the address in a URL of the form `kafka://host:9092/documents`.

        Args:
            options: Names of the options that the URL may have besides `config`.
            client: Name of the client; by default that of the machine.
        """
        shown_url = recorded_url(url)
        parts = urlsplit(url)
        given = parse_qs(parts.query)
        require_known_options(given, [*options, "config"], shown_url)
        topic = parts.path.strip("/")
        if parts.scheme != KAFKA or not parts.netloc or not topic or "/" in topic:
            raise UsageError(f"{shown_url!r} is not of the form kafka://host:9092/documents")
        settings = {
            **_read_config(given.get("config", [None])[0]),
            "bootstrap.servers": parts.netloc,
            "client.id": client or socket.gethostname(),
        }
        return cls(shown_url, topic, given, settings)

    def invalid_settings(self, error: Any) -> UsageError:
        """Returns the error about settings that librdkafka refuses."""
        return UsageError(
            f"{self.shown_url}: {error.args[0].str()}; correct the file of the option config"
        )


class KafkaMessage(NamedTuple):
    """A message that is written to a topic."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class TopicProducer:
    """A producer, which waits until the brokers have stored its messages.

    Args:
        topic: Topic that receives the messages.
        content: What the messages are, in the message of an error, for example `the dead letters`.
    """

    def __init__(self, address: KafkaAddress, topic: str, content: str) -> None:
        self._address = address
        self._topic = topic
        self._content = content
        try:
            self._producer: Any = Producer(
                {
                    "message.max.bytes": MESSAGE_BYTES,
                    **address.settings,
                    "acks": "all",
                    "enable.idempotence": True,
                    "message.timeout.ms": round(DELIVERY_SECONDS * 1000),
                }
            )
        except KafkaException as error:
            raise address.invalid_settings(error) from error

    def write(self, messages: Iterable[KafkaMessage]) -> None:
        """Writes messages, and returns when the brokers have stored them all.

        Raises:
            StoreError: If some of them were not stored.
        """
        faults: list[Any] = []
        written = 0
        try:
            for message in messages:
                self._produce(message, faults)
                written += 1
        except KafkaException as error:
            raise self._make_error(error.args[0].str()) from error
        self._producer.flush(DELIVERY_SECONDS + REPORT_SECONDS)
        # a KafkaError that is compared with None makes the next call fail
        problems = [fault.str() for fault in faults if fault is not None]
        if len(faults) < written:
            problems.append("the brokers do not respond")
        if problems:
            raise self._make_error(problems[0])

    def _produce(self, message: KafkaMessage, faults: list[Any]) -> None:
        """Queues a message, after waiting for room in the queue."""
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=message.value,
                    key=message.key,
                    headers=[*message.headers],
                    on_delivery=lambda fault, _: faults.append(fault),
                )
            except BufferError:
                self._producer.poll(REPORT_SECONDS)
            else:
                return

    def _make_error(self, problem: str) -> StoreError:
        return StoreError(
            f"{self._address.shown_url}: {self._content} were not stored: {problem}; events that "
            "were not acknowledged are delivered again"
        )

    def close(self) -> None:
        """Waits for messages that are being written."""
        self._producer.flush(DELIVERY_SECONDS)


class KafkaTarget:
    """A Kafka topic that receives the outcomes of events.

    The key of a message is the id of the document, so that the outcomes of a document keep their
    order. The header `nearkin-key` is the key of the outcome.
    """

    def __init__(self, url: str) -> None:
        address = KafkaAddress.parse(url, [])
        self._producer = TopicProducer(address, address.topic, "the outcomes")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def publish(self, outcomes: Sequence[OutcomeEvent]) -> None:
        """Writes outcomes, in order, and returns when they are stored."""
        self._producer.write(
            KafkaMessage(
                key=outcome.id.encode(),
                value=orjson.dumps(outcome.values),
                headers=[("nearkin-key", outcome.key.encode())],
            )
            for outcome in outcomes
        )


def _read_config(path: str | None) -> dict[str, str]:
    """Returns the settings of librdkafka in a file."""
    if path is None:
        return {}
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the settings of Kafka in {path!r}: {error}") from error
    settings = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            # The line may hold a password, so the message does not repeat it.
            raise UsageError(f"{path}, line {number} is not of the form name=value")
        settings[name.strip()] = value.strip()
    return settings
