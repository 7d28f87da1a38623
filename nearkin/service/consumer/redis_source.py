"""A Redis stream as a source of events, or as the target of their outcomes."""

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Self, TypeAlias
from urllib.parse import parse_qs, urlsplit, urlunsplit

import orjson

from nearkin.errors import MissingExtraError, StoreError, UsageError
from nearkin.index.stores.addresses import require_known_options
from nearkin.index.stores.eviction import require_no_eviction
from nearkin.index.stores.urls import recorded_url, scheme_of
from nearkin.runtime.suggestions import did_you_mean
from nearkin.service.consumer.events import StreamEvent, event_size
from nearkin.service.consumer.outcomes import OutcomeEvent

try:
    import redis
except ImportError as error:
    raise MissingExtraError.for_extra(f"streams require {error.name}", "stream") from error

Row: TypeAlias = tuple[str, Mapping[str, bytes] | None]
"""The key of an event and its fields, or None if the stream has deleted it."""

TIMEOUT = 30.0
"""The maximum time of a command, in seconds."""
FIRST_READ = 16
"""The number of events of the first read.

Later reads take as many events as fit into READ_BYTES, by the largest event of the previous read.
"""
READ_BYTES = 64 << 20
LETTER_FIELDS = 3_000
"""The maximum number of fields of an entry of the dead-letter stream.

Lua passes at most about 8,000 values to a command, and a field is two values.
"""

DEAD_LETTER_SCRIPT = """
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1) == 0 then return 0 end
local at = 3
while at <= #ARGV do
  local size = tonumber(ARGV[at])
  redis.call('XADD', KEYS[2], '*', unpack(ARGV, at + 1, at + size))
  at = at + 1 + size
end
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
"""
"""A script that writes the dead letter of an event, and then acknowledges the event.

Its arguments are the group and the key; then, for each entry of the dead-letter stream, the number
of its values and the values. The event is acknowledged last, because Redis does not undo what a
script did before it failed.
"""

REDIS = ("redis", "rediss")
"""The schemes of the URLs of event streams."""


class RedisAddress(NamedTuple):
    """The address of a stream.

    Attributes:
        url: The URL of the server, with its password.
        shown_url: The whole URL without a password.
        stream: The name of the stream.
        options: The options of the URL.
    """

    url: str
    shown_url: str
    stream: str
    options: Mapping[str, list[str]]

    @classmethod
    def parse(cls, url: str, known_options: list[str]) -> Self:
        """Returns the address in a URL of the form `redis://host:6379/0?stream=documents`."""
        scheme = scheme_of(url)
        parts = urlsplit(url)
        options = parse_qs(parts.query)
        if scheme in REDIS:
            require_known_options(options, known_options, recorded_url(url))
        if scheme not in REDIS or "stream" not in options:
            raise UsageError(
                f"{recorded_url(url)!r} is not of the form redis://host:6379/0?stream=documents"
                f"{did_you_mean(scheme, REDIS) if scheme not in REDIS else ''}"
            )
        server = urlunsplit(parts._replace(query=""))
        return cls(server, recorded_url(url), options["stream"][0], options)

    def connect(self) -> Any:
        """Returns a client of the server."""
        return redis.Redis.from_url(
            self.url, protocol=2, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT
        )


class RedisTarget:
    """A Redis stream that receives the outcomes of events.

    The fields of an entry are those of the outcome. Numbers and lists are JSON.
    """

    def __init__(self, url: str) -> None:
        self._address = RedisAddress.parse(url, ["stream"])
        self._redis = self._address.connect()
        with self._translate_errors():
            require_no_eviction(self._redis, self._address.shown_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._redis.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except redis.exceptions.RedisError as error:
            raise StoreError(
                f"{self._address.shown_url}: the outcomes were not stored: {error}; events that "
                "were not acknowledged are delivered again"
            ) from error

    def publish(self, outcomes: Sequence[OutcomeEvent]) -> None:
        """Writes outcomes, in order, and returns when they are stored."""
        with self._translate_errors():
            pipe = self._redis.pipeline(transaction=False)
            for outcome in outcomes:
                fields = {
                    name: value if isinstance(value, str) else orjson.dumps(value)
                    for name, value in outcome.values.items()
                }
                pipe.xadd(self._address.stream, fields)
            pipe.execute()


class RedisSource:
    """A Redis stream that is read by a consumer group.

    The consumers of a group share its events. A consumer that is restarted with its name first
    receives the events that it did not acknowledge. Those of another consumer are taken over after
    `idle` seconds (XAUTOCLAIM).

    Args:
        idle: The time after which events of other consumers are taken over, in seconds.
    """

    def __init__(
        self, url: str, group: str = "nearkin", consumer: str | None = None, idle: float = 60.0
    ) -> None:
        address = RedisAddress.parse(url, ["stream", "dead"])
        self._shown_url = address.shown_url
        self._idle = idle
        self.stream = address.stream
        self.dead = address.options.get("dead", [f"{self.stream}:dead"])[0]
        self.group = group
        self.consumer = consumer or socket.gethostname()
        self._redis = address.connect()
        self._own_position: str | None = "0"
        self._claim_cursor = "0-0"
        self._read_size = FIRST_READ
        with self._translate_errors():
            require_no_eviction(self._redis, self._shown_url)
            self._write_dead_letter = self._redis.register_script(DEAD_LETTER_SCRIPT)
            self._create_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._redis.close()

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self.stream

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raises StoreError for an error of Redis, and creates a lost group again.

        Events of a lost answer were delivered to this consumer, so its events are read again.
        """
        try:
            yield
        except redis.exceptions.RedisError as error:
            self._own_position = "0"
            if str(error).startswith("NOGROUP"):
                # Redis has lost its data, so the stream starts again.
                with suppress(redis.exceptions.RedisError):
                    self._create_group()
            raise StoreError(
                f"{self._shown_url}: {error}; events that were not acknowledged are delivered again"
            ) from error

    def _create_group(self) -> None:
        try:
            self._redis.xgroup_create(self.stream, self.group, id="0", mkstream=True)
        except redis.exceptions.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    def read(self, most: int, seconds: float) -> list[StreamEvent]:
        """Returns events that no consumer of the group has received.

        Args:
            seconds: Maximum time to wait for an event.
        """
        milliseconds = max(1, round(seconds * 1000))
        rows = self._read(">", min(most, self._read_size), milliseconds)
        return [StreamEvent(key, fields, lane=self.consumer) for key, fields in rows]

    def reclaim(self, most: int) -> list[StreamEvent]:
        """Returns unacknowledged events of this consumer, then those of other consumers."""
        most = min(most, self._read_size)
        if self._own_position is not None:
            own_rows = self._read(self._own_position, most, None)
            if own_rows:
                self._own_position = own_rows[-1][0]
                return self._with_deliveries(own_rows)
            self._own_position = None
        while True:
            with self._translate_errors():
                cursor, claimed, *deleted_keys = self._redis.xautoclaim(
                    self.stream,
                    self.group,
                    self.consumer,
                    round(self._idle * 1000),
                    self._claim_cursor,
                    most,
                )
            self._claim_cursor = cursor.decode()
            rows = self._adapt_read_size(map(_decode_event, claimed))
            for keys in deleted_keys:  # Redis before version 7 does not send this list.
                rows.extend((key.decode(), None) for key in keys)
            if rows or self._claim_cursor == "0-0":
                return self._with_deliveries(rows)

    def _read(self, after: str, most: int, block: int | None) -> list[Row]:
        with self._translate_errors():
            streams = self._redis.xreadgroup(
                self.group, self.consumer, {self.stream: after}, count=most, block=block
            )
        rows = [row for _, stream_rows in streams or () for row in stream_rows]
        return self._adapt_read_size(map(_decode_event, rows))

    def _adapt_read_size(self, decoded_rows: Iterable[Row]) -> list[Row]:
        """Sets the number of events of the next read by the largest of these events."""
        rows = list(decoded_rows)
        if rows:
            largest = max(event_size(fields or {}) for _, fields in rows)
            self._read_size = max(1, min(2 * self._read_size, READ_BYTES // max(1, largest)))
        return rows

    def _with_deliveries(self, rows: list[Row]) -> list[StreamEvent]:
        """Returns events with the number of their deliveries."""
        if not rows:
            return []
        with self._translate_errors():
            pipe = self._redis.pipeline(transaction=False)
            for key, _ in rows:
                pipe.xpending_range(self.stream, self.group, key, key, 1)
            counts = [pending[0]["times_delivered"] if pending else 1 for pending in pipe.execute()]
        return [
            StreamEvent(key, fields, count, lane=self.consumer)
            for (key, fields), count in zip(rows, counts, strict=True)
        ]

    def acknowledge(self, events: Sequence[StreamEvent]) -> None:
        """Acknowledges events, so that they are not delivered again."""
        if events:
            with self._translate_errors():
                self._redis.xack(self.stream, self.group, *(event.key for event in events))

    def move_to_dead_letters(self, event: StreamEvent, reason: str) -> None:
        """Moves an event to the dead-letter stream and acknowledges it atomically.

        An event with very many fields becomes several entries, each with the key, the reason and
        the field `nearkin:part`.
        """
        fields = list((event.fields or {}).items())
        explanation: dict[str, bytes | str] = {"nearkin:key": event.key, "nearkin:reason": reason}
        starts = range(0, max(1, len(fields)), LETTER_FIELDS)
        script_arguments: list[bytes | str | int] = []
        for number, start in enumerate(starts, 1):
            entry = [*fields[start : start + LETTER_FIELDS], *explanation.items()]
            if len(starts) > 1:
                entry.append(("nearkin:part", f"{number} of {len(starts)}"))
            script_arguments.append(2 * len(entry))
            for name, value in entry:
                script_arguments += [name.encode("utf-8", "surrogateescape"), value]
        with self._translate_errors():
            self._write_dead_letter(
                keys=[self.stream, self.dead], args=[self.group, event.key, *script_arguments]
            )


def _decode_event(row: Any) -> Row:
    key, fields = row
    if not fields:
        return key.decode(), None
    return key.decode(), {
        name.decode("utf-8", "surrogateescape"): value for name, value in fields.items()
    }
