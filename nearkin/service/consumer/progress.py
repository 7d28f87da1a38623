"""The progress of consumers, which the steps that process events store with the documents.

A lane is a part of a stream that one consumer reads at a time: a partition of a topic, or the
events of one consumer of a Redis stream. Its record is an entry of a reserved scope. Each step
replaces the record in the same transaction, so an event that is delivered again after a kill is
known to be processed, and its outcomes are those of the first time.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from nearkin.errors import IncompatibleError, UsageError
from nearkin.index.changes import ERASED, Changes, KeyedEntry, StepEffects, observe_steps
from nearkin.index.documents import Document, default_ids
from nearkin.index.entry import PROGRESS_PREFIX, Entry, internal_entry, reserved_scope
from nearkin.index.session import Session
from nearkin.service.consumer.events import EventDocument, StreamEvent
from nearkin.service.consumer.outcomes import Answer, Handled, OutcomeEvent, list_outcomes


@dataclass(frozen=True)
class ProcessedEvent:
    """An event that was processed.

    Attributes:
        digest: Digest of its content, in hexadecimal digits.
        position: Its position in its lane, or None if lanes have no order.
        outcomes: The values of its outcomes, if they are published.
    """

    digest: str
    position: int | None
    outcomes: Sequence[Mapping[str, object]]

    @cached_property
    def text(self) -> str:
        """The event as JSON, which is written once although many steps store it."""
        return json.dumps([self.digest, self.position, self.outcomes])

    def list_outcomes(self) -> list[OutcomeEvent]:
        """Returns its outcomes."""
        return [
            OutcomeEvent(str(values["key"]), str(values["id"]), values) for values in self.outcomes
        ]


class LaneRecord(NamedTuple):
    """The record of a lane.

    Attributes:
        number: The number of its entry, or 0 if it is not stored.
        first: First position of the last batch. All events before it were acknowledged.
        events: The processed events that may be delivered again, by key.
    """

    number: int
    first: int | None
    events: Mapping[str, ProcessedEvent]

    @classmethod
    def of(cls, entry: Entry) -> "LaneRecord":
        """Returns the record that an entry stores."""
        first, events = json.loads(entry.text or "")
        processed = {
            key: ProcessedEvent(digest=digest, position=position, outcomes=outcomes)
            for key, (digest, position, outcomes) in events.items()
        }
        return cls(entry.ref, first, processed)

    def stored_as(self, place: str, lane: str, owner: str, now: float) -> Entry:
        """Returns the entry that stores the record.

        Args:
            owner: Name of the process, which becomes the cluster of the entry.
        """
        events = (f"{json.dumps(key)}:{event.text}" for key, event in self.events.items())
        text = f"[{json.dumps(self.first)},{{{','.join(events)}}}]"
        digest = hashlib.sha256(text.encode()).digest()[:16]
        return internal_entry(place, lane, digest, now, text)._replace(cluster=owner)


@dataclass
class _Lane:
    """A lane of the current batch."""

    number: int
    """The number of the entry of its record when the batch began, or 0 without a record."""
    first: int | None
    events: dict[str, ProcessedEvent] = field(default_factory=dict)
    """The processed events, by key."""
    is_saved: bool = True


class StreamProgress:
    """The progress of a consumer in an index whose store has transactions.

    Args:
        session: Session of the index.
        stream: Name of the stream.
        group: Name of the group of consumers.
        keeps_outcomes: Whether records hold the outcomes of events.
    """

    def __init__(self, session: Session, stream: str, group: str, *, keeps_outcomes: bool) -> None:
        self._session = session
        self._stream = stream
        self._group = group
        self._keeps_outcomes = keeps_outcomes
        self._owner = uuid.uuid4().hex
        self._place = reserved_scope(PROGRESS_PREFIX, json.dumps([stream, group]))
        self._lanes: dict[str, _Lane] = {}
        self._staged: dict[str, dict[str, ProcessedEvent]] = {}
        """The events that the current step processes, by lane and key."""

    def name_documents(self, documents: Sequence[EventDocument]) -> list[EventDocument]:
        """Returns documents with the ids that follow from their contents, where they have none."""
        return [
            document._replace(id=self._content_id(document.document), version=None)
            if document.id is None and document.document is not None
            else document
            for document in documents
        ]

    def _content_id(self, document: Document) -> str | None:
        """Returns the id that follows from a content, or None if the index refuses it."""
        preparer = self._session.documents
        try:
            return default_ids(preparer.digests(preparer.check_all([document])))[0]
        except UsageError:
            return None

    def begin(self, documents: Sequence[EventDocument]) -> dict[str, list[OutcomeEvent]]:
        """Begins a batch.

        Returns:
            The outcomes of the events that were processed before, by key.

        Raises:
            IncompatibleError: If the stream goes back behind events that were acknowledged, or has
                other events than before.
        """
        events = [document.event for document in documents]
        is_repeated = any(event.deliveries > 1 for event in events)
        records = self._read_records({event.lane for event in events}, all_lanes=is_repeated)
        self._lanes = {}
        for event in events:
            if event.lane not in self._lanes:
                self._lanes[event.lane] = self._begin_lane(event.lane, events, records, is_repeated)
        processed: dict[str, list[OutcomeEvent]] = {}
        for event in events:
            known = [record.events.get(event.key) for record in records.values()]
            first = next((one for one in known if one is not None), None)
            if first is not None:
                if first.digest != _digest(event):
                    raise self._goes_back(event)
                self._lanes[event.lane].events[event.key] = first
                processed[event.key] = first.list_outcomes()
        return processed

    def _read_records(self, lanes: Iterable[str], *, all_lanes: bool) -> dict[str, LaneRecord]:
        """Returns the records of lanes. Those of dead consumers may be among them."""
        store = self._session.store
        entries: Iterable[Entry | None] = (
            store.scan(self._place) if all_lanes else store.entries(self._place, sorted(lanes))
        )
        return {entry.id: LaneRecord.of(entry) for entry in entries if entry is not None}

    def _begin_lane(
        self,
        name: str,
        events: Sequence[StreamEvent],
        records: Mapping[str, LaneRecord],
        is_repeated: bool,  # noqa: FBT001
    ) -> _Lane:
        """Returns a lane of a batch, with the processed events that may be delivered again."""
        own = [event for event in events if event.lane == name]
        first = min((event.position for event in own if event.position is not None), default=None)
        if name not in records:
            return _Lane(0, first)
        record = records[name]
        if first is None:
            return _Lane(record.number, first, dict(record.events) if is_repeated else {})
        if record.first is not None and first < record.first:
            raise self._goes_back(next(event for event in own if event.position == first))
        waiting = {
            key: event
            for key, event in record.events.items()
            if event.position is not None and event.position >= first
        }
        return _Lane(record.number, first, waiting)

    def _goes_back(self, event: StreamEvent) -> IncompatibleError:
        return IncompatibleError(
            f"{self._stream} goes back to its event {event.key}: the index has later events, or "
            f"another one of this key, of the group {self._group}; the stream was created again, "
            "or its offsets were reset; read it from the beginning with another group, or "
            "continue behind the last event"
        )

    @contextmanager
    def recording(self, documents: Sequence[EventDocument]) -> Iterator[None]:
        """Lets the steps of this thread within the context store the progress.

        Args:
            documents: Upserts or deletions of one scope, with an id of its own each.
        """
        by_id = {document.id: document for document in documents}

        def stage(changes: Changes) -> None:
            self._stage(changes, by_id)

        with observe_steps(stage, self._confirm):
            yield

    def _stage(self, changes: Changes, by_id: Mapping[str | None, EventDocument]) -> None:
        """Adds the records of the lanes to a step, with the events that the step processes."""
        answers: dict[str | None, Answer] = {outcome.id: outcome for outcome in changes.outcomes}
        answers |= {event.id: Handled.REMOVED for event in changes.events if event.kind == ERASED}
        documents = [document for id, document in by_id.items() if id in answers]
        effects = StepEffects()
        effects.add(changes)
        outcomes = list_outcomes(
            self._stream, documents, [answers[document.id] for document in documents], effects
        )
        self._staged = {name: {} for name, lane in self._lanes.items() if not lane.is_saved}
        for document in documents:
            event = document.event
            if event.key not in self._lanes[event.lane].events:
                processed = self._processed(event, outcomes[event.key])
                self._staged.setdefault(event.lane, {})[event.key] = processed
        names = sorted(self._staged)
        stored = self._session.store.entries(self._place, names) if names else []
        for name, entry in zip(names, stored, strict=True):
            lane = self._lanes[name]
            if entry is not None:
                if entry.ref != lane.number and entry.cluster != self._owner:
                    raise self._is_overtaken(name)
                changes.dropped.append(KeyedEntry(entry, None))
            record = LaneRecord(0, lane.first, lane.events | self._staged[name])
            new = record.stored_as(self._place, name, self._owner, self._session.clock())
            changes.new.append(KeyedEntry(new, None))

    def _is_overtaken(self, name: str) -> IncompatibleError:
        return IncompatibleError(
            f"another consumer of the group {self._group} has processed events of {name!r} of "
            f"{self._stream}; start this one again, and give consumers names of their own"
        )

    def _processed(self, event: StreamEvent, outcomes: Sequence[OutcomeEvent]) -> ProcessedEvent:
        values = [outcome.values for outcome in outcomes] if self._keeps_outcomes else []
        return ProcessedEvent(_digest(event), event.position, values)

    def _confirm(self, _: Changes) -> None:
        """Notes that the records of a step were stored."""
        for name, events in self._staged.items():
            self._lanes[name].events |= events
            self._lanes[name].is_saved = True
        self._staged = {}

    def finish(
        self, documents: Sequence[EventDocument], outcomes: Mapping[str, list[OutcomeEvent]]
    ) -> dict[str, list[OutcomeEvent]]:
        """Notes that events were processed, which the next step stores.

        Args:
            outcomes: Their outcomes by key.

        Returns:
            The outcomes by key, those that were stored first.
        """
        for document in documents:
            event = document.event
            lane = self._lanes[event.lane]
            if event.key not in lane.events:
                lane.events[event.key] = self._processed(event, outcomes.get(event.key, []))
                lane.is_saved = False
        return {
            document.event.key: self._lanes[document.event.lane]
            .events[document.event.key]
            .list_outcomes()
            for document in documents
        }

    def save(self) -> None:
        """Stores the events of the batch that no step has stored, because they changed nothing."""
        if all(lane.is_saved for lane in self._lanes.values()):
            return

        def write() -> None:
            changes = Changes()
            self._stage(changes, {})
            self._session.apply(changes)
            self._confirm(changes)

        self._session.run_step(self._place, write)


def _digest(event: StreamEvent) -> str:
    """Returns a digest of the content of an event."""
    content = [*sorted((event.fields or {}).items()), *sorted(event.headers.items())]
    return hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()
