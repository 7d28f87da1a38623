"""Events, the documents that they contain, and the interfaces of sources and sinks."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson

from nearkin.errors import NearkinError, UsageError
from nearkin.index.documents import TextAndVector
from nearkin.index.entry import Outcome, require_public_name
from nearkin.runtime.number_range import NumberRange
from nearkin.runtime.setting_names import name_setting

if TYPE_CHECKING:
    from nearkin.index.document_versions import Version
    from nearkin.index.documents import Document
    from nearkin.service.consumer.outcomes import OutcomeEvent

SEPARATE_DELIVERIES = 2
"""The number of deliveries after which an event is processed separately.

If it kills its consumer, no other event is blamed.
"""
UPSERTS = frozenset(
    ("upsert", "insert", "i", "create", "c", "update", "u", "modify", "replace", "read", "r")
) | {"false"}
"""The operations of events whose documents are upserted, as feeds of changes write them.

The field `__deleted` of Debezium has the values `true` and `false`.
"""
DELETIONS = frozenset(("delete", "d", "remove", "true"))
"""The operations of events whose documents are deleted."""


class StreamEvent(NamedTuple):
    """An event of a stream.

    Attributes:
        key: The key of the event in its source.
        fields: The fields of the event, or None if the source has deleted it.
        deliveries: The number of its deliveries, including this one.
        headers: The headers of the event. The operation and the scope may be among them.
        is_tombstone: True if the event is a deletion because it has a key and no value.
        lane: The part of the stream that one consumer reads at a time: a partition, or the name of
            the consumer if consumers share a stream.
        position: The position of the event in its lane, or None if lanes have no order.
    """

    key: str
    fields: Mapping[str, bytes] | None
    deliveries: int = 1
    headers: Mapping[str, bytes] = MappingProxyType({})
    is_tombstone: bool = False
    lane: str = ""
    position: int | None = None


class EventSource(Protocol):
    """A source of events. A method that raises StoreError can be called again."""

    @property
    def name(self) -> str:
        """The name of the stream or topic, by which outcomes refer to its events."""

    @property
    def group(self) -> str:
        """The name of the group whose consumers share the events."""

    def read(self, most: int, seconds: float) -> list[StreamEvent]:
        """Returns events that no consumer has received.

        Args:
            most: Maximum number of events.
            seconds: Maximum time to wait for an event.

        Returns:
            The events, oldest first. The list is empty if none arrived in time.

        Raises:
            StoreError: If the stream cannot be read.
        """

    def reclaim(self, most: int) -> list[StreamEvent]:
        """Returns events that a consumer received and did not acknowledge.

        The consumer is dead, or is this one before its restart. The list is empty at the end.
        """

    def acknowledge(self, events: Sequence[StreamEvent]) -> None:
        """Acknowledges events, so that they are not delivered again."""

    def move_to_dead_letters(self, event: StreamEvent, reason: str) -> None:
        """Moves an event to the dead-letter stream and acknowledges it atomically.

        Args:
            event: The event.
            reason: The reason why it could not be processed.

        Raises:
            StoreError: If the stream cannot be written.
        """


class DocumentSink(Protocol):
    """A destination of documents."""

    def upsert(
        self, scope: str, documents: "Sequence[Document]", ids: Sequence[str | None]
    ) -> "list[Outcome | NearkinError]":
        """Upserts documents in as few calls of the index or of the server as possible."""

    def remove(self, scope: str, ids: Sequence[str]) -> None:
        """Deletes documents. Those that do not exist are passed over."""


class OutcomeTarget(Protocol):
    """A stream that receives the outcomes of events."""

    def publish(self, outcomes: "Sequence[OutcomeEvent]") -> None:
        """Writes outcomes, in order, and returns when they are stored.

        Raises:
            StoreError: If some were not stored. All of them may be published again.
        """


@dataclass(frozen=True)
class StreamSettings:
    """Settings of a consumer: how events are read, and which fields contain documents.

    Attributes:
        scope: Scope of documents whose events do not name one.
        text: Field that holds the text, UTF-8.
        vector: Field that holds the vector, a JSON array.
        id: Field that holds the id. Without it the id is made from the content.
        scope_field: Field or header that holds the scope.
        op: Field or header that holds the operation, for example `upsert` or `delete`. Without it
            an event is an upsert.
        version: Field or header that holds the version of the document, or None if documents have
            no versions.
        batch: Maximum number of events in a batch.
        wait: Maximum time that a read waits for events, in seconds. A stop takes as long.
        idle: Time after which events that a consumer did not acknowledge are taken over, in
            seconds.
        deliveries: Maximum number of deliveries of an event. An event that killed its consumer
            each time becomes a dead letter.
        max_event: Maximum size of an event in bytes: the names and values of all its fields.
            Larger events become dead letters.
    """

    scope: str = "default"
    text: str = "text"
    vector: str = "vector"
    id: str = "id"
    scope_field: str = "scope"
    op: str = "op"
    version: str | None = None
    batch: int = 500
    wait: float = 1.0
    idle: float = 60.0
    deliveries: int = 10
    max_event: int = 16_000_000

    def __post_init__(self) -> None:
        require_public_name(self.scope, "scope")
        minimums = {
            "batch": 1,
            "wait": 0.001,
            "idle": 0.001,
            "deliveries": SEPARATE_DELIVERIES + 1,
            "max_event": 1,
        }
        for name, minimum in minimums.items():
            NumberRange(minimum).require(name, getattr(self, name))


class EventDocument(NamedTuple):
    """A document, with the event that contains or deletes it.

    Attributes:
        event: The event.
        scope: The scope of the document.
        document: The text, the vector, or both. None for a deletion.
        id: The id, or None for an id that is made from the content. A deletion has an id.
        version: The version of the document, or None if it has none.
    """

    event: StreamEvent
    scope: str
    document: "Document | None"
    id: str | None
    version: "Version | None" = None

    @property
    def is_deletion(self) -> bool:
        """True if the event deletes the document."""
        return self.document is None


def parse_event(event: StreamEvent, settings: StreamSettings) -> EventDocument:
    """Returns the document that an event contains or deletes.

    Examples:
        >>> event = StreamEvent("1-0", {"text": b"the cat", "id": b"cat"})
        >>> parse_event(event, StreamSettings())[1:]
        ('default', 'the cat', 'cat', None)
        >>> event = StreamEvent("2-0", {"op": b"delete", "id": b"cat"})
        >>> parse_event(event, StreamSettings())[1:]
        ('default', None, 'cat', None)
    """
    fields = event.fields or {}
    size = event_size(fields) + event_size(event.headers)
    if size > settings.max_event:
        raise UsageError(
            f"an event of {size:,} bytes is larger than "
            f"{name_setting('max_event', settings.max_event)}"
        )
    is_deletion = _is_deletion(event, settings)
    if not is_deletion and settings.text not in fields and settings.vector not in fields:
        raise UsageError(
            f"an event must have one of the fields {settings.text} and {settings.vector}"
        )
    scope = require_public_name(
        _decode_fact(event, settings.scope_field) or settings.scope, settings.scope_field
    )
    id = _decode(fields, settings.id)
    if id is not None:
        require_public_name(id, settings.id)
    if not is_deletion:
        document = _parse_document(fields, settings)
        return EventDocument(event, scope, document, id, _parse_version(event, settings))
    if id is None:
        raise UsageError(
            f"a deletion must have the field {settings.id}, which holds the id of the document; "
            "if it is the key of the message, read ids from the field key"
        )
    return EventDocument(event, scope, None, id, _parse_version(event, settings))


def _is_deletion(event: StreamEvent, settings: StreamSettings) -> bool:
    """Returns whether an event deletes its document."""
    op = _decode_fact(event, settings.op)
    if op is None:
        return event.is_tombstone
    if op.lower() in DELETIONS:
        return True
    if op.lower() not in UPSERTS:
        raise UsageError(
            f"{settings.op} is {op[:60]!r}, which is not a known operation; write upsert or delete"
        )
    return event.is_tombstone


def _parse_version(event: StreamEvent, settings: StreamSettings) -> "Version | None":
    """Returns the version of the document of an event. A tombstone may have none."""
    if settings.version is None:
        return None
    # most streams have no versions
    from nearkin.index.document_versions import parse_version

    text = _decode_fact(event, settings.version)
    if text is not None:
        return parse_version(text, settings.version)
    if event.is_tombstone:
        return None
    raise UsageError(f"an event must have the field {settings.version}, which holds the version")


def _parse_document(fields: Mapping[str, bytes], settings: StreamSettings) -> "Document":
    """Returns the document of an event, which has a field of texts, of vectors, or both."""
    text = _decode(fields, settings.text)
    if text is None:
        return _parse_vector(fields, settings.vector)
    if settings.vector not in fields:
        return text
    return TextAndVector(text, _parse_vector(fields, settings.vector))


def event_size(fields: Mapping[str, bytes]) -> int:
    """Returns the size of the names and the values of an event in bytes."""
    return sum(len(name) + len(value) for name, value in fields.items())


def _decode_fact(event: StreamEvent, name: str) -> str | None:
    """Returns a field that says what to do with a document, or the header of this name."""
    value = _decode(event.fields or {}, name)
    return _decode(event.headers, name) if value is None else value


def _decode(fields: Mapping[str, bytes], name: str) -> str | None:
    try:
        if name not in fields:
            return None
        return fields[name].decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8") from error


def _parse_vector(fields: Mapping[str, bytes], name: str) -> list[float]:
    with suppress(orjson.JSONDecodeError):
        vector = orjson.loads(fields[name])
        if isinstance(vector, list) and all(type(value) in (int, float) for value in vector):
            return vector
    raise UsageError(f"{name} is not a JSON array of numbers")
