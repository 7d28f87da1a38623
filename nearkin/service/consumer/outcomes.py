"""The outcomes of events, as another stream receives them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nearkin.errors import NearkinError
from nearkin.index.changes import StepEffects
from nearkin.index.entry import Outcome

if TYPE_CHECKING:
    from nearkin.service.consumer.events import EventDocument

PROMOTED = "promoted"
"""The kind of the outcome for a document that became a representative, because its own one was
removed or changed."""


class Handled(StrEnum):
    """The answers to events whose documents were not upserted."""

    REMOVED = "removed"
    """The document was deleted, or there was none to delete."""
    OLD = "old"
    """A newer version of the document is stored, or was deleted."""


Answer: TypeAlias = Outcome | Handled | NearkinError
"""The answer to an event. An error is the reason why it was refused."""


class OutcomeEvent(NamedTuple):
    """An outcome of an event.

    Attributes:
        key: The name of the stream, the key of the event, and for a promotion the id of the
            document. An event that is processed again has outcomes of the same keys.
        id: The id of the document.
        values: The key, the kind, the scope, the id, and what is known of the cluster, as values
            that JSON can hold.
    """

    key: str
    id: str
    values: Mapping[str, object]


def list_outcomes(
    stream: str,
    documents: "Sequence[EventDocument]",
    answers: Sequence[Answer],
    effects: StepEffects,
) -> dict[str, list[OutcomeEvent]]:
    """Returns the outcomes of events of one scope, by the keys of the events.

    Args:
        stream: Name of the stream of the events.
        documents: The documents of the events, either upserts or deletions.
        answers: The answers to the events.
        effects: Effects of the steps that processed the events.
    """
    outcomes: dict[str, list[OutcomeEvent]] = {}
    events: dict[str, str] = {}
    for document, answer in zip(documents, answers, strict=True):
        if isinstance(answer, NearkinError) or answer is Handled.OLD:
            continue
        key = f"{stream}/{document.event.key}"
        outcome = (
            _describe_upsert(key, document.scope, answer)
            if isinstance(answer, Outcome)
            else _describe_removal(key, document, effects)
        )
        outcomes[document.event.key] = [outcome]
        events[outcome.id] = document.event.key
    for event_key, outcome in _describe_promotions(stream, events, effects):
        outcomes[event_key].append(outcome)
    return outcomes


def _describe_upsert(key: str, scope: str, outcome: Outcome) -> OutcomeEvent:
    """Returns the outcome of an event whose document was upserted."""
    values: dict[str, object] = {
        "key": key,
        "kind": str(outcome.kind),
        "scope": scope,
        "id": outcome.id,
        "cluster": outcome.cluster,
        "representative": outcome.representative,
        "similarity": outcome.similarity,
    }
    if outcome.related:
        values["related"] = [asdict(related) for related in outcome.related]
    if outcome.blocked_by is not None:
        values["blocked_by"] = outcome.blocked_by
    return OutcomeEvent(key, outcome.id, values)


def _describe_removal(key: str, document: "EventDocument", effects: StepEffects) -> OutcomeEvent:
    """Returns the outcome of an event that deleted a document, or found none to delete."""
    id = document.id or ""
    values: dict[str, object] = {
        "key": key,
        "kind": str(Handled.REMOVED),
        "scope": document.scope,
        "id": id,
    }
    removed = effects.removed.get((document.scope, id))
    if removed is not None:
        values["cluster"] = removed.cluster
        values["representative"] = removed.leader
    return OutcomeEvent(key, id, values)


def _describe_promotions(
    stream: str, events: Mapping[str, str], effects: StepEffects
) -> Iterator[tuple[str, OutcomeEvent]]:
    """Yields the outcomes for documents that became representatives, with the keys of events.

    Args:
        events: The keys of the events by the ids of their documents.
    """
    for entry, previous in effects.promoted:
        if previous in events:
            key = f"{stream}/{events[previous]}/{entry.id}"
            values = {
                "key": key,
                "kind": PROMOTED,
                "scope": entry.scope,
                "id": entry.id,
                "cluster": entry.cluster,
                "representative": entry.id,
                "similarity": 1.0,
                "previous": previous,
            }
            yield events[previous], OutcomeEvent(key, entry.id, values)
