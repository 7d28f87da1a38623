"""A receiver of progress updates that remembers the total and the count of each stage."""

from collections import Counter

import pytest


class CountedStages:
    """The stages of a run, by name.

    Attributes:
        totals: The total of each stage, added up if it ran more than once. None if it is unknown.
        counted: What each stage counted.
    """

    def __init__(self) -> None:
        self.totals: dict[str, int | None] = {}
        self.counted: Counter[str] = Counter()
        self._name = ""

    @classmethod
    def replace_displays(cls, monkeypatch: pytest.MonkeyPatch) -> "CountedStages":
        """Returns stages that commands of this process update instead of a display."""
        stages = cls()
        monkeypatch.setattr("nearkin.cli.options.open_progress", lambda **_: stages)
        return stages

    def stage(self, name: str, total: int | None = None) -> None:
        """Begins a stage."""
        before = self.totals.get(name, 0)
        self.totals[name] = None if total is None or before is None else before + total
        self._name = name
        self.counted[name] += 0

    def advance(self, count: int) -> None:
        """Counts units of the stage that is under way."""
        self.counted[self._name] += count

    def close(self) -> None:
        """Does nothing."""
