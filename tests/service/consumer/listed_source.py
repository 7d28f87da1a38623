"""A source of events in the memory of the test, which delivers again what was not acknowledged."""

from collections.abc import Iterable, Sequence

from nearkin.service.consumer.events import StreamEvent
from nearkin.service.consumer.outcomes import OutcomeEvent


class ListedSource:
    """The events of a list, in order. `restart` is what a new consumer of the group receives."""

    name = "listed"

    def __init__(self, events: Iterable[StreamEvent]) -> None:
        self.events = list(events)
        self.position = 0
        self.acknowledged: list[str] = []
        self.letters: list[tuple[str, str]] = []

    def read(self, most: int, seconds: float) -> list[StreamEvent]:
        events = self.events[self.position : self.position + most]
        self.position += len(events)
        return events

    def reclaim(self, most: int) -> list[StreamEvent]:
        return []

    def acknowledge(self, events: Sequence[StreamEvent]) -> None:
        self.acknowledged += [event.key for event in events]

    def move_to_dead_letters(self, event: StreamEvent, reason: str) -> None:
        self.letters.append((event.key, reason))
        self.acknowledge([event])

    def restart(self) -> None:
        """Delivers all events from the first one that was not acknowledged on again."""
        done = set(self.acknowledged)
        keys = [event.key for event in self.events]
        self.position = next((i for i, key in enumerate(keys) if key not in done), len(keys))


class ListedTarget:
    """A target that keeps the outcomes in a list."""

    def __init__(self) -> None:
        self.outcomes: list[OutcomeEvent] = []

    def publish(self, outcomes: Sequence[OutcomeEvent]) -> None:
        self.outcomes += outcomes
