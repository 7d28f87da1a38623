"""How a run tells where it is, without knowing who listens."""

from typing import Protocol


class Progress(Protocol):
    """Told of stages and of documents (or pairs) done."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A stage begins; `total` units of work where known."""

    def advance(self, count: int) -> None:
        """So many more units are done."""

    def close(self) -> None:
        """The run is over, or was given up."""


class Silent:
    """Listens to nothing."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Ignored."""

    def advance(self, count: int) -> None:
        """Ignored."""

    def close(self) -> None:
        """Ignored."""
