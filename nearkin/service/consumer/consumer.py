"""A consumer of an event stream: every event is processed at least once, without a second effect.

An event is acknowledged after its document was written and its outcome was published. If a consumer
dies before that, the event is delivered again. The same document under the same id, or under an id
made from its content, does not change an index, and a deletion may be repeated. Events without a
valid document become dead letters, so that they neither block the stream nor disappear.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from nearkin.errors import (
    MissingExtraError,
    NearkinError,
    OldVersionError,
    ServiceError,
    StoreError,
    UsageError,
)
from nearkin.index.changes import StepEffects, observe_steps
from nearkin.index.entry import Outcome
from nearkin.index.stores.sql import SqlStore
from nearkin.service.consumer.events import (
    SEPARATE_DELIVERIES,
    DocumentSink,
    EventDocument,
    EventSource,
    OutcomeTarget,
    StreamEvent,
    StreamSettings,
    parse_event,
)
from nearkin.service.consumer.outcomes import Answer, Handled, OutcomeEvent, list_outcomes
from nearkin.service.consumer.progress import StreamProgress
from nearkin.service.consumer.sinks import IndexSink

if TYPE_CHECKING:
    from nearkin.index.document_versions import DocumentVersions

try:
    import tenacity
except ImportError as error:
    raise MissingExtraError.for_extra(f"streams require {error.name}", "stream") from error

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("nearkin.stream")

LONGEST_WAIT = 30.0
"""The maximum time between two attempts while a store or a server does not respond, in seconds."""
INTERNAL_ERROR_RETRIES = 3
"""The number of retries after an internal error of a server. Then the event is a dead letter."""


@dataclass
class ConsumerCounts:
    """The counts of a consumer.

    Attributes:
        kinds: The number of documents by `Outcome.kind`.
        removed: The number of events that deleted a document, or found none to delete.
        old: The number of events that were passed over, because a newer version is stored.
        repeated: The number of events that a consumer had processed before it was killed.
        dead: The number of events that became dead letters.
        dropped: The number of events that their source deleted before they were processed, for
            example because the stream was trimmed.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    removed: int = 0
    old: int = 0
    repeated: int = 0
    dead: int = 0
    dropped: int = 0

    def to_dict(self) -> dict[str, int]:
        """Returns the counts as a mapping that can be written as JSON."""
        return {
            "documents": self.kinds.total(),
            **self.kinds,
            "removed": self.removed,
            "old": self.old,
            "repeated": self.repeated,
            "dead": self.dead,
            "dropped": self.dropped,
        }


class Consumer:
    """A consumer, which writes the documents of a source to a sink.

    Args:
        source: The source of the events.
        sink: The destination of the documents.
        settings: The settings of the consumer.
        stop: An event that ends the consumer after the current batch. A signal handler may set it.
        target: The stream that receives the outcomes of events, before they are acknowledged.
    """

    def __init__(
        self,
        source: EventSource,
        sink: DocumentSink,
        settings: StreamSettings,
        stop: Flag | None = None,
        target: OutcomeTarget | None = None,
    ) -> None:
        self.source = source
        self.sink = sink
        self.target = target
        self.settings = settings
        self.stop = stop or Flag()
        self.counts = ConsumerCounts()
        self.versions = None if settings.version is None else _versions_of(sink)
        self.progress = _progress_of(sink, source, keeps_outcomes=target is not None)
        needs_single_ids = (self.versions, self.progress, self.target)
        self._needs_single_ids = any(one is not None for one in needs_single_ids)

    def run(self, *, until_empty: bool = False) -> ConsumerCounts:
        """Processes events until the consumer is stopped.

        While a store or a server does not respond, the consumer waits and retries. Events that
        were not acknowledged are delivered again.

        Args:
            until_empty: Whether it ends when no event is left.

        Returns:
            The counts of processed events.

        Raises:
            NearkinError: If the sink refuses the consumer, for example because of another Spec or
                a wrong token.
        """
        next_reclaim = time.monotonic()
        try:
            while not self.stop.is_set():
                if time.monotonic() >= next_reclaim:
                    self._process_unacknowledged()
                    next_reclaim = time.monotonic() + self.settings.idle / 2
                events = self._retry(self.source.read, self.settings.batch, self.settings.wait)
                self._process(events)
                if until_empty and not events:
                    # a lost answer may have delivered events that were not received
                    self._process_unacknowledged()
                    break
        except (StoreError, ServiceError) as error:
            if not (self.stop.is_set() and _is_transient(error)):
                raise
            log.warning("stopped while waiting for a retry: %s", error)
        return self.counts

    def _process_unacknowledged(self) -> None:
        """Processes events that a consumer received and did not acknowledge."""
        while not self.stop.is_set():
            events = self._retry(self.source.reclaim, self.settings.batch)
            if not events:
                return
            self._process(events)

    def _process(self, events: list[StreamEvent]) -> None:
        """Processes events in one batch, or one by one after several deliveries."""
        if not any(event.deliveries > SEPARATE_DELIVERIES for event in events):
            if events:
                self._process_batch(events)
            return
        first = events[0]
        if first.deliveries > self.settings.deliveries:
            # The events behind it were delivered as often, because processing ended at this one.
            reason = f"the event was delivered {first.deliveries - 1} times and never acknowledged"
            self._move_to_dead_letters([(first, reason)])
            events = events[1:]
        for event in events:
            self._process_batch([event])

    def _process_batch(self, events: list[StreamEvent]) -> None:
        """Writes and deletes the documents of events, then acknowledges the events."""
        documents, refused = self._parse_events(events)
        outcomes: dict[str, list[OutcomeEvent]] = {}
        if self.progress is not None:
            documents = self.progress.name_documents(documents)
            outcomes = self._retry(self.progress.begin, documents)
            self.counts.repeated += len(outcomes)
            documents = [document for document in documents if document.event.key not in outcomes]
        for scope in dict.fromkeys(document.scope for document in documents):
            scope_documents = [document for document in documents if document.scope == scope]
            for run in self._split_runs(scope_documents):
                outcomes |= self._process_run(scope, run, refused)
        if self.progress is not None:
            self._retry(self.progress.save)
        published = [outcome for event in events for outcome in outcomes.get(event.key, ())]
        if self.target is not None and published:
            self._retry(self.target.publish, published)
        self._move_to_dead_letters(
            [(event, refused[event.key]) for event in events if event.key in refused]
        )
        processed = [event for event in events if event.key not in refused]
        self._retry(self.source.acknowledge, processed)

    def _process_run(
        self, scope: str, documents: list[EventDocument], refused: dict[str, str]
    ) -> dict[str, list[OutcomeEvent]]:
        """Upserts documents, or deletes them all, and returns the outcomes of the events by key.

        Args:
            refused: Receives the reasons of refusals, by key.
        """
        effects = StepEffects()
        progress = self.progress
        recording = nullcontext() if progress is None else progress.recording(documents)
        with observe_steps(after=effects.add), recording:
            answers = self._write_documents(scope, documents)
        self._count(documents, answers, refused)
        outcomes = list_outcomes(self.source.name, documents, answers, effects)
        if progress is None:
            return outcomes
        return progress.finish([one for one in documents if one.event.key not in refused], outcomes)

    def _split_runs(self, documents: list[EventDocument]) -> Iterator[list[EventDocument]]:
        """Yields upserts or deletions of one scope that are sent together, in their order.

        Events about one document are not sent together if steps are compared with them.
        """
        run: list[EventDocument] = []
        ids: set[str] = set()
        for document in documents:
            is_repeated = self._needs_single_ids and document.id in ids
            if run and (is_repeated or run[0].is_deletion != document.is_deletion):
                yield run
                run = []
                ids.clear()
            run.append(document)
            if document.id is not None:
                ids.add(document.id)
        if run:
            yield run

    def _count(
        self, documents: list[EventDocument], answers: list[Answer], refused: dict[str, str]
    ) -> None:
        """Counts the answers to some events, and adds the reasons of refusals, by key."""
        for document, answer in zip(documents, answers, strict=True):
            if isinstance(answer, Outcome):
                self.counts.kinds[answer.kind] += 1
            elif answer is Handled.REMOVED:
                self.counts.removed += 1
            elif answer is Handled.OLD:
                self.counts.old += 1
            else:
                refused[document.event.key] = str(answer)

    def _move_to_dead_letters(self, reasons: list[tuple[StreamEvent, str]]) -> None:
        for event, reason in reasons:
            self._retry(self.source.move_to_dead_letters, event, reason)
            self.counts.dead += 1

    def _parse_events(
        self, events: list[StreamEvent]
    ) -> tuple[list[EventDocument], dict[str, str]]:
        """Returns the documents of events, and the reasons why other events have none, by key."""
        documents: list[EventDocument] = []
        refused: dict[str, str] = {}
        for event in events:
            if event.fields is None:
                self.counts.dropped += 1
                continue
            try:
                documents.append(parse_event(event, self.settings))
            except UsageError as error:
                refused[event.key] = str(error)
        return documents, refused

    def _write_documents(self, scope: str, documents: list[EventDocument]) -> list[Answer]:
        """Upserts or deletes documents of one scope.

        If some are refused, the others are still processed.
        """
        try:
            return self._retry(self._write, scope, documents)
        except ServiceError as error:
            refused = error
        if _is_transient(refused) or not self._is_about_events(refused, scope):
            raise refused
        if refused.status in (403, 404):
            return [refused] * len(documents)
        if len(documents) > 1:
            half = len(documents) // 2
            return [
                *self._write_documents(scope, documents[:half]),
                *self._write_documents(scope, documents[half:]),
            ]
        if refused.code == "internal":
            return [self._retry_internal_error(scope, documents, refused)]
        return [refused]

    def _is_about_events(self, error: ServiceError, scope: str) -> bool:
        """Returns whether a server refused the content of events.

        Otherwise it refused the consumer: its token, its address or its scope.
        """
        if error.code in ("unauthenticated", "unexpected-answer") or error.status is None:
            return False
        if error.status in (403, 404):
            # If a token lacks a right, the scope of the events is not the reason.
            return scope != self.settings.scope and (error.status == 404 or error.field == "/scope")
        return error.status < 500 or error.code == "internal"

    def _retry_internal_error(
        self, scope: str, documents: list[EventDocument], refused: ServiceError
    ) -> Answer:
        """Retries one event to which a server responded with an internal error."""
        for attempt in range(INTERNAL_ERROR_RETRIES):
            if self.stop.wait(min(LONGEST_WAIT, 2.0**attempt)):
                raise refused
            try:
                return self._retry(self._write, scope, documents)[0]
            except ServiceError as error:
                if error.code != "internal":
                    raise
                refused = error
        return refused

    def _write(self, scope: str, documents: list[EventDocument]) -> list[Answer]:
        """Upserts documents, or deletes them all, unless a newer version is stored."""
        if self.versions is None:
            return self._send(scope, documents)
        answers: dict[str, Answer] = {}
        while True:
            rest = [document for document in documents if document.event.key not in answers]
            versions = {
                document.id: document.version
                for document in rest
                if document.id is not None and document.version is not None
            }
            refused = self.versions.claim(scope, versions)
            for document in rest:
                if document.id in refused:
                    error = refused[document.id]
                    is_old = isinstance(error, OldVersionError)
                    answers[document.event.key] = Handled.OLD if is_old else error
            rest = [document for document in rest if document.event.key not in answers]
            try:
                with self.versions.requiring(scope, versions):
                    sent = self._send(scope, rest) if rest else []
            except OldVersionError:
                # another consumer has claimed a newer version, so that this one is refused
                continue
            answers |= zip((document.event.key for document in rest), sent, strict=True)
            return [answers[document.event.key] for document in documents]

    def _send(self, scope: str, documents: list[EventDocument]) -> list[Answer]:
        """Upserts documents, or deletes them all."""
        contents = [document.document for document in documents if document.document is not None]
        ids = [document.id for document in documents]
        if not contents:
            self.sink.remove(scope, [id for id in ids if id is not None])
            return [Handled.REMOVED] * len(documents)
        results = self.sink.upsert(scope, contents, ids)
        for result in results:
            if isinstance(result, NearkinError) and _is_transient(result):
                raise result
        return [*results]

    def _retry(self, work: Callable[P, R], *arguments: P.args, **fields: P.kwargs) -> R:
        """Calls a function, and calls it again after transient errors."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_transient),
            wait=tenacity.wait_random_exponential(0.5, LONGEST_WAIT),
            stop=tenacity.stop_when_event_set(self.stop),
            sleep=tenacity.sleep_using_event(self.stop),
            before_sleep=tenacity.before_sleep_log(log, logging.WARNING),
            reraise=True,
        )
        return retrying(work, *arguments, **fields)


def _versions_of(sink: DocumentSink) -> "DocumentVersions":
    """Returns the versions that an index stores."""
    # most streams have no versions
    from nearkin.index.document_versions import DocumentVersions

    if not isinstance(sink, IndexSink):
        raise UsageError(
            "versions need an index that the consumer writes to itself; leave out the field of "
            "versions"
        )
    return DocumentVersions(sink.index._session)


def _progress_of(
    sink: DocumentSink, source: EventSource, *, keeps_outcomes: bool
) -> StreamProgress | None:
    """Returns the progress that an index stores, or None if its store has no transactions."""
    if not (isinstance(sink, IndexSink) and isinstance(sink.index._session.store, SqlStore)):
        return None
    session = sink.index._session
    return StreamProgress(session, source.name, source.group, keeps_outcomes=keeps_outcomes)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, StoreError) or (isinstance(error, ServiceError) and error.transient)
