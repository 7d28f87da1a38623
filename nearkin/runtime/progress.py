"""The interface by which a run reports its progress."""

from typing import Protocol


class Progress(Protocol):
    """A receiver of progress updates."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Is called when a stage begins.

        Args:
            name: Name of the stage.
            total: Number of units of work (documents or pairs), if it is known.
        """

    def advance(self, count: int) -> None:
        """Is called when more units of work are done.

        Args:
            count: Number of these units.
        """

    def close(self) -> None:
        """Is called when the run has ended or failed."""


class Silent:
    """A receiver that ignores all progress updates."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Does nothing."""

    def advance(self, count: int) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""
