"""A source of events in the memory of the test, which delivers again what was not acknowledged."""

from collections.abc import Iterable, Sequence

from nearkin.service.consumer.events import StreamEvent
from nearkin.service.consumer.outcomes import OutcomeEvent


class ListedSource:
    """The events of a list, in order. `restart` is what a new consumer of the group receives.

    Args:
        lane: The lane of the events that have positions.
        has_positions: Whether events have positions, as those of Kafka. Otherwise the numbers of
            their deliveries tell which are repeated, as with Redis.
    """

    name = "listed"
    group = "nearkin"

    def __init__(
        self, events: Iterable[StreamEvent], lane: str = "0", *, has_positions: bool = True
    ) -> None:
        self.events = list(events)
        self.lane = lane
        self.has_positions = has_positions
        self.delivered = 0
        self.position = 0
        self.acknowledged: list[str] = []
        self.letters: list[tuple[str, str]] = []

    def read(self, most: int, seconds: float) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        while len(events) < most and self.position < len(self.events):
            event = self.events[self.position]
            if self.has_positions:
                event = event._replace(lane=self.lane, position=self.position)
            elif self.position < self.delivered:
                event = event._replace(deliveries=2)
            events.append(event)
            self.position += 1
        self.delivered = max(self.delivered, self.position)
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
