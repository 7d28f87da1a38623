"""The interface by which a run reports its progress."""

import logging
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

LOG = logging.getLogger("nearkin.run")
STAGE_NAMES = {
    "list inputs": "List inputs",
    "read source code": "Read source code",
    "frequencies": "Count shingles",
    "sketch": "Read documents",
    "collapse": "Find exact copies",
    "bands": "Find candidates",
    "candidates": "Find candidates",
    "missing_pairs": "Estimate misses",
    "blocklist": "Compare blocklist",
    "against": "Compare reference",
    "reread": "Read candidates",
    "verify": "Compare candidates",
    "cluster": "Form clusters",
    "then": "Compare vectors",
    "containment": "Find contained texts",
    "smallest hashes": "Index shingles",
    "look up": "Look up shingles",
    "fingerprints": "Collect anchors",
    "windows": "Find repeated words",
    "sources": "Join passages",
    "plan": "Choose cuts",
    "lines": "Read lines",
    "line-frequencies": "Count lines",
    "scan": "Search documents",
    "match": "Compare items",
    "cut": "Cut repeated text",
    "write": "Write results",
    "read samples": "Read samples",
    "compare": "Compare samples",
    "fit": "Try settings",
    "kernels": "Prepare kernels",
    "synth": "Write documents",
}
"""The titles of stages on the terminal, by the names under which they are recorded."""


def describe_stage(name: str) -> str:
    """Returns what a stage does, in a few words.

    Examples:
        >>> describe_stage("collapse"), describe_stage("my own stage")
        ('Find exact copies', 'my own stage')
    """
    return STAGE_NAMES.get(name, name)


@runtime_checkable
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


class LoggedProgress:
    """A receiver that logs the stages of a run of the library, and their durations (INFO)."""

    def __init__(self) -> None:
        self._stage = ""
        self._began = 0.0

    def stage(self, name: str, total: int | None = None) -> None:
        """Logs the end of the previous stage and the beginning of the next one."""
        self.close()
        self._stage = name
        self._began = time.perf_counter()
        if total is None:
            LOG.info("stage %s begins", name)
        else:
            LOG.info("stage %s begins (%d)", name, total)

    def advance(self, count: int) -> None:
        """Does nothing. Stages are logged, not their parts."""

    def close(self) -> None:
        """Logs the end of the last stage."""
        if self._stage:
            LOG.info("stage %s ended after %.2f s", self._stage, time.perf_counter() - self._began)
            self._stage = ""


class StepCounter:
    """Counts the documents of a stage that handles all of them at once, in several steps.

    Each step counts as the same share of the documents.

    Examples:
        >>> counted = []
        >>> counter = StepCounter(counted.append, documents=10, steps=3)
        >>> for _ in range(3):
        ...     counter.finish_step()
        >>> counted
        [3, 3, 4]
    """

    def __init__(self, advance: Callable[[int], None], documents: int, steps: int) -> None:
        """Creates a counter."""
        self._advance = advance
        self._documents = documents
        self._steps = steps
        self._finished = 0
        self._counted = 0

    def finish_step(self) -> None:
        """Counts the share of a step."""
        self._finished += 1
        counted = self._documents * self._finished // self._steps
        self._advance(counted - self._counted)
        self._counted = counted


def ignore_count(count: int) -> None:
    """Ignores a number of documents. Callers pass it if nobody receives progress updates."""
