"""Documents from an event stream into an index, or to a server: every event at least once, and none with a second effect.

An event is acknowledged after its document was written; a consumer that dies between leaves it to be delivered again, and the
same document under the same id (its own, or its content's) is no news to an index. What is no document goes to the dead
letters, so that it neither blocks the stream nor disappears.
"""

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, Self, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

import orjson

from nearkin.errors import (
    IncompatibleError,
    KeyRequiredError,
    MissingExtraError,
    NearkinError,
    ServiceError,
    StoreError,
    UsageError,
)
from nearkin.index.entry import Outcome, require_public_name
from nearkin.index.stores.eviction import require_no_eviction
from nearkin.index.stores.urls import recorded_url, scheme_of

try:
    import redis
    import tenacity
except ImportError as error:
    raise MissingExtraError(f"streams need redis-py and tenacity: pip install 'nearkin[stream]' ({error.name})") from error

if TYPE_CHECKING:
    from nearkin.client.clients import Client
    from nearkin.index.index import Index
    from nearkin.index.preparation import Document

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("nearkin.stream")

Row: TypeAlias = tuple[str, Mapping[str, bytes] | None]
"""The key of an event, and its fields; None where the stream has dropped it."""

ALONE = 2
"""Deliveries after which an event is worked on by itself: if it kills its consumer, no other event is blamed."""
LONGEST = 30.0
"""Seconds between two attempts while a store or a server does not answer."""
TIMEOUT = 30.0
ATTEMPTS = 3
"""The number of retries of an event that a server answers with an internal error, before it becomes a dead letter."""
FIRST_READ = 16
"""Events of the first read; later reads take as many as fit into READ_BYTES, by the largest event of the one before."""
READ_BYTES = 64 << 20
LETTER_PARTS = 3_000
"""Fields of one dead letter. Lua passes at most about 8,000 values to a command, and a field is two."""


class Event(NamedTuple):
    """Something that came."""

    key: str
    """In its source."""
    fields: Mapping[str, bytes] | None
    """None if the source has dropped it meanwhile."""
    deliveries: int = 1
    """How often it was delivered, this time included."""


class Source(Protocol):
    """Where events come from. Every method may raise StoreError, and may be called again then."""

    def read(self, most: int, seconds: float) -> list[Event]:
        """Events that no consumer had yet; none after a time without any."""

    def reclaim(self, most: int) -> list[Event]:
        """Events that a consumer took and did not acknowledge: a dead one, or this one before its restart. None at last."""

    def acknowledge(self, events: Sequence[Event]) -> None:
        """They are done."""

    def bury(self, event: Event, reason: str) -> None:
        """Puts an event to the dead letters, and acknowledges it, in one step."""


class Sink(Protocol):
    """Where documents go."""

    def upsert(self, scope: str, documents: "Sequence[Document]", ids: Sequence[str | None]) -> "list[Outcome | NearkinError]":
        """What became of each, or why it is no document.

        Raises:
            StoreError, ServiceError: Nothing can be said of the documents; if it is transient, they may be brought again.
        """


@dataclass(frozen=True)
class StreamSettings:
    """Settings of a consumer: how events are read, and which fields hold documents.

    Attributes:
        scope: Of documents whose events name none.
        text: Field of a text, UTF-8.
        vector: Field of a vector, a JSON array.
        id: Field of the document's id; its content's by default.
        scope_field: Field of its scope.
        batch: Events that are worked on at once.
        wait: Seconds that a read waits for events, and so the longest that a stop takes.
        idle: Seconds after which events that a consumer did not acknowledge are taken over.
        deliveries: How often an event is tried; one that killed its consumer each time goes to the dead letters.
        max_event: Maximum size of an event, names and values of all its fields together, in bytes. Larger ones go to the dead
            letters.
    """

    scope: str = "default"
    text: str = "text"
    vector: str = "vector"
    id: str = "id"
    scope_field: str = "scope"
    batch: int = 500
    wait: float = 1.0
    idle: float = 60.0
    deliveries: int = 10
    max_event: int = 16_000_000

    def __post_init__(self) -> None:
        require_public_name(self.scope, "scope")
        for name, low in {"batch": 1, "wait": 0.001, "idle": 0.001, "deliveries": ALONE + 1, "max_event": 1}.items():
            if getattr(self, name) < low:
                raise UsageError(f"{name}={getattr(self, name)} is less than {low}")


class NewEvent(NamedTuple):
    """A document of an event."""

    event: Event
    scope: str
    document: "Document"
    id: str | None


def document_of(event: Event, settings: StreamSettings) -> NewEvent:
    """The document of an event.

    Examples:
        >>> document_of(Event("1-0", {"text": b"the cat", "id": b"cat"}), StreamSettings())[1:]
        ('default', 'the cat', 'cat')

    Raises:
        UsageError: It has none; the message never repeats what came.
    """
    fields = event.fields or {}
    if (size := size_of(fields)) > settings.max_event:
        raise UsageError(f"an event of {size:,} bytes is larger than max_event={settings.max_event:,}")
    if (settings.text in fields) == (settings.vector in fields):
        raise UsageError(f"an event has either {settings.text} or {settings.vector}")
    scope = require_public_name(_decoded(fields, settings.scope_field) or settings.scope, settings.scope_field)
    name = _decoded(fields, settings.id)
    if name is not None:
        require_public_name(name, settings.id)
    text = _decoded(fields, settings.text)
    return NewEvent(event, scope, _vector(fields, settings.vector) if text is None else text, name)


def size_of(fields: Mapping[str, bytes]) -> int:
    """Returns the bytes of an event's names and values."""
    return sum(len(name) + len(value) for name, value in fields.items())


def _decoded(fields: Mapping[str, bytes], name: str) -> str | None:
    try:
        return fields[name].decode("utf-8") if name in fields else None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8") from error


def _vector(fields: Mapping[str, bytes], name: str) -> list[float]:
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(fields[name])
        if isinstance(found, list) and all(type(value) in (int, float) for value in found):
            return found
    raise UsageError(f"{name} is no JSON array of numbers")


@dataclass
class Consumed:
    """What a consumer has done.

    Attributes:
        kinds: Documents by what became of them, as `Outcome.kind`.
        dead: Events that went to the dead letters.
        dropped: Events that their source dropped (a stream that is trimmed) before they were worked on.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    dead: int = 0
    dropped: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {"documents": self.kinds.total(), **self.kinds, "dead": self.dead, "dropped": self.dropped}


class Consumer:
    """Brings a source's events to a sink.

    Args:
        source: Of the events.
        sink: Of the documents.
        settings: How.
        stop: Ends it after what it is working on; a signal handler may set it.
    """

    def __init__(self, source: Source, sink: Sink, settings: StreamSettings, stop: Flag | None = None) -> None:
        self.source, self.sink, self.settings = source, sink, settings
        self.stop = stop or Flag()
        self.consumed = Consumed()

    def run(self, until_empty: bool = False) -> Consumed:
        """Until it is told to stop, or, if so wanted, until nothing is left.

        While a store or a server does not answer it waits and tries again; what is not acknowledged is delivered again.

        Raises:
            NearkinError: The sink refuses not a document but its consumer: another Spec, a wrong token.
        """
        due = time.monotonic()
        try:
            while not self.stop.is_set():
                if time.monotonic() >= due:
                    self._take_over()
                    due = time.monotonic() + self.settings.idle / 2
                events = self._again(self.source.read, self.settings.batch, self.settings.wait)
                self._work(events)
                if until_empty and not events:
                    break
        except (StoreError, ServiceError) as error:
            if not (self.stop.is_set() and _is_transient(error)):
                raise
            log.warning("stopped while it was waiting: %s", error)
        return self.consumed

    def _take_over(self) -> None:
        while not self.stop.is_set() and (events := self._again(self.source.reclaim, self.settings.batch)):
            self._work(events)

    def _work(self, events: list[Event]) -> None:
        if not any(event.deliveries > ALONE for event in events):
            if events:
                self._step(events)
            return
        first = events[0]
        if first.deliveries > self.settings.deliveries:
            # those behind it were delivered as often, because it was always this one that they did not get past
            self._bury([(first, f"it was delivered {first.deliveries - 1} times and never acknowledged")])
            events = events[1:]
        for event in events:
            self._step([event])

    def _step(self, events: list[Event]) -> None:
        """Writes, then acknowledges."""
        new, refused = self._sorted(events)
        for scope in dict.fromkeys(one.scope for one in new):
            some = [one for one in new if one.scope == scope]
            for one, result in zip(some, self._results(scope, some), strict=True):
                if isinstance(result, Outcome):
                    self.consumed.kinds[result.kind] += 1
                else:
                    refused[one.event.key] = str(result)
        self._bury([(event, refused[event.key]) for event in events if event.key in refused])
        self._again(self.source.acknowledge, [event for event in events if event.key not in refused])

    def _bury(self, reasons: list[tuple[Event, str]]) -> None:
        for event, reason in reasons:
            self._again(self.source.bury, event, reason)
            self.consumed.dead += 1

    def _sorted(self, events: list[Event]) -> tuple[list[NewEvent], dict[str, str]]:
        """Documents, and why other events are none."""
        new, refused = list[NewEvent](), dict[str, str]()
        for event in events:
            if event.fields is None:
                self.consumed.dropped += 1
                continue
            try:
                new.append(document_of(event, self.settings))
            except UsageError as error:
                refused[event.key] = str(error)
        return new, refused

    def _results(self, scope: str, some: list[NewEvent]) -> list[Outcome | NearkinError]:
        """Returns the result of each document; the refusal of some of them does not keep the others back.

        Raises:
            ServiceError: If the server refuses the consumer rather than events.
        """
        try:
            return self._again(self._upsert, scope, some)
        except ServiceError as error:
            refused = error
        if _is_transient(refused) or not self._is_about_events(refused, scope):
            raise refused
        if refused.status in (403, 404):
            return [refused] * len(some)
        if len(some) > 1:
            half = len(some) // 2
            return [*self._results(scope, some[:half]), *self._results(scope, some[half:])]
        if refused.code == "internal":
            return [self._last_attempts(scope, some, refused)]
        return [refused]

    def _is_about_events(self, error: ServiceError, scope: str) -> bool:
        """Returns whether a server refused the content of events. If not, it refused the consumer: token, address or scope."""
        if error.code in ("unauthenticated", "unexpected-answer") or error.status is None:
            return False
        if error.status in (403, 404):
            # where a token lacks a right, no scope is to blame
            return scope != self.settings.scope and (error.status == 404 or error.field == "/scope")
        return error.status < 500 or error.code == "internal"

    def _last_attempts(self, scope: str, some: list[NewEvent], refused: ServiceError) -> Outcome | NearkinError:
        """Tries one event again that a server answered with an internal error."""
        for attempt in range(ATTEMPTS):
            if self.stop.wait(min(LONGEST, 2.0**attempt)):
                raise refused
            try:
                return self._again(self._upsert, scope, some)[0]
            except ServiceError as error:
                if error.code != "internal":
                    raise
                refused = error
        return refused

    def _upsert(self, scope: str, some: list[NewEvent]) -> list[Outcome | NearkinError]:
        results = self.sink.upsert(scope, [one.document for one in some], [one.id for one in some])
        for result in results:
            if isinstance(result, NearkinError) and _is_transient(result):
                raise result
        return results

    def _again(self, work: Callable[P, R], *arguments: P.args, **fields: P.kwargs) -> R:
        """A call, repeated while what fails may pass."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_transient),
            wait=tenacity.wait_random_exponential(0.5, LONGEST),
            stop=tenacity.stop_when_event_set(self.stop),
            sleep=tenacity.sleep_using_event(self.stop),
            before_sleep=tenacity.before_sleep_log(log, logging.WARNING),
            reraise=True,
        )
        return retrying(work, *arguments, **fields)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, StoreError) or (isinstance(error, ServiceError) and error.transient)


class IndexSink:
    """An index in this process."""

    def __init__(self, index: "Index") -> None:
        self.index = index

    def upsert(self, scope: str, documents: "Sequence[Document]", ids: Sequence[str | None]) -> "list[Outcome | NearkinError]":
        """At once, and one by one where one of them is no document."""
        try:
            return [*self.index.upsert_many(scope, documents, ids)]
        except (IncompatibleError, KeyRequiredError):
            raise
        except UsageError as error:
            if len(documents) == 1:
                return [error]
            return [self.upsert(scope, [one], [name])[0] for one, name in zip(documents, ids, strict=True)]


class ServerSink:
    """A server, through its client."""

    def __init__(self, client: "Client") -> None:
        self.client = client

    def upsert(self, scope: str, documents: "Sequence[Document]", ids: Sequence[str | None]) -> "list[Outcome | NearkinError]":
        """As one stream."""
        from nearkin.client.requests import NewDocument

        return [*self.client.upsert_many(scope, map(NewDocument, documents, ids))]


BURY = """
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1) == 0 then return 0 end
local at = 3
while at <= #ARGV do
  local size = tonumber(ARGV[at])
  redis.call('XADD', KEYS[2], '*', unpack(ARGV, at + 1, at + size))
  at = at + 1 + size
end
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
"""
"""Writes the dead letter of an event, in as many entries as are needed (the number of an entry's values, then the values), and
acknowledges the event last: Redis does not take back what a script did before it failed."""


class RedisSource:
    """A Redis stream, read by a consumer group.

    Consumers of one group share its events. One that is restarted under its name goes on with what it left at once; what one of
    another name left is taken over after `idle` seconds (XAUTOCLAIM).

    Args:
        url: `redis://host:port/db?stream=name`; with `&dead=name` for the dead letters' stream, `name:dead` by default.
        group: Of consumers; made where there is none, from the first event of the stream on.
        consumer: Name of this one in the group; the machine's by default.
        idle: Seconds.
    """

    def __init__(self, url: str, group: str = "nearkin", consumer: str | None = None, idle: float = 60.0) -> None:
        scheme = scheme_of(url)
        parts = urlsplit(url)
        options = parse_qs(parts.query)
        if scheme not in ("redis", "rediss") or "stream" not in options:
            raise UsageError(f"{recorded_url(url)!r} is not of the form redis://host:6379/0?stream=documents")
        if unknown := sorted(set(options) - {"stream", "dead"}):
            raise UsageError(f"{recorded_url(url)!r} has the unknown option {unknown[0]!r}; there are stream and dead")
        self._shown, self._idle = recorded_url(url), idle
        self.stream = options["stream"][0]
        self.dead = options.get("dead", [f"{self.stream}:dead"])[0]
        self.group, self.consumer = group, consumer or socket.gethostname()
        self._redis: Any = redis.Redis.from_url(
            urlunsplit(parts._replace(query="")), protocol=2, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT
        )
        self._own: str | None = "0"
        self._claimed = "0-0"
        self._fits = FIRST_READ
        with self._failing():
            require_no_eviction(self._redis, self._shown)
            self._bury = self._redis.register_script(BURY)
            self._make_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._redis.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except redis.exceptions.RedisError as error:
            if str(error).startswith("NOGROUP"):
                # a Redis that lost its data; the stream begins anew
                with suppress(redis.exceptions.RedisError):
                    self._make_group()
            raise StoreError(f"{self._shown}: {error}; events that were not acknowledged are delivered again") from error

    def _make_group(self) -> None:
        try:
            self._redis.xgroup_create(self.stream, self.group, id="0", mkstream=True)
        except redis.exceptions.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    def read(self, most: int, seconds: float) -> list[Event]:
        """Events that no consumer of the group had yet."""
        some = min(most, self._fits)
        return [Event(key, fields) for key, fields in self._read(">", some, max(1, round(seconds * 1000)))]

    def reclaim(self, most: int) -> list[Event]:
        """What this consumer left when it was last ended, then what others did."""
        most = min(most, self._fits)
        if self._own is not None:
            found = self._read(self._own, most, None)
            self._own = found[-1][0] if found else None
            if found:
                return self._counted(found)
        while True:
            with self._failing():
                cursor, claimed, *gone = self._redis.xautoclaim(
                    self.stream, self.group, self.consumer, round(self._idle * 1000), self._claimed, most
                )
            self._claimed = cursor.decode()
            found = [*self._measured(map(_event, claimed)), *((key.decode(), None) for key in (gone[0] if gone else ()))]
            if found or self._claimed == "0-0":
                return self._counted(found)

    def _read(self, after: str, most: int, block: int | None) -> list[Row]:
        with self._failing():
            found = self._redis.xreadgroup(self.group, self.consumer, {self.stream: after}, count=most, block=block)
        return self._measured(_event(row) for _, rows in found or () for row in rows)

    def _measured(self, found: Iterable[Row]) -> list[Row]:
        """Decides how many events the next read takes, by the largest of these."""
        rows = list(found)
        if rows:
            largest = max(size_of(fields or {}) for _, fields in rows)
            self._fits = max(1, min(2 * self._fits, READ_BYTES // max(1, largest)))
        return rows

    def _counted(self, found: list[Row]) -> list[Event]:
        """With how often each was delivered."""
        if not found:
            return []
        with self._failing():
            pipe = self._redis.pipeline(transaction=False)
            for key, _ in found:
                pipe.xpending_range(self.stream, self.group, key, key, 1)
            times = [rows[0]["times_delivered"] if rows else 1 for rows in pipe.execute()]
        return [Event(key, fields, count) for (key, fields), count in zip(found, times, strict=True)]

    def acknowledge(self, events: Sequence[Event]) -> None:
        """They are no longer pending."""
        if events:
            with self._failing():
                self._redis.xack(self.stream, self.group, *(event.key for event in events))

    def bury(self, event: Event, reason: str) -> None:
        """Moves an event to the dead-letter stream and acknowledges it, atomically and once.

        An event of very many fields becomes several letters, each with the key, the reason and `nearkin:part`.
        """
        fields = list((event.fields or {}).items())
        about: dict[str, bytes | str] = {"nearkin:key": event.key, "nearkin:reason": reason}
        starts = range(0, max(1, len(fields)), LETTER_PARTS)
        flat: list[bytes | str | int] = []
        for number, start in enumerate(starts, 1):
            part = {} if len(starts) == 1 else {"nearkin:part": f"{number} of {len(starts)}"}
            letter = [*fields[start : start + LETTER_PARTS], *about.items(), *part.items()]
            flat.append(2 * len(letter))
            for name, value in letter:
                flat += [_encoded(name), value]
        with self._failing():
            self._bury(keys=[self.stream, self.dead], args=[self.group, event.key, *flat])


def _event(row: Any) -> Row:
    key, fields = row
    if not fields:
        return key.decode(), None
    return key.decode(), {name.decode("utf-8", "surrogateescape"): value for name, value in fields.items()}


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
