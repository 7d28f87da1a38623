"""The interface of stream formats, and the documents and answers that pass through it."""

import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

from nearkin.index.documents import Document
from nearkin.index.entry import Outcome
from nearkin.service.server.http.problems import ProblemError

MIN_BYTES_PER_SECOND = 1000
"""Minimum rate of an unfinished line or message. A slower one ends the stream after the idle
timeout."""


class StreamItem(NamedTuple):
    """A line of a request: a document, or the problem with it.

    Attributes:
        line: Number of the line or row, counted from 1.
        id: Id of the document, if it was given.
        document: Text or vector; None if there is a problem.
        problem: The problem; None if there is a document.
    """

    line: int
    id: str | None
    document: "Document | None"
    problem: ProblemError | None


class StreamAnswer(NamedTuple):
    """The answer to a line: the outcome of its document, or the problem with it.

    Attributes:
        line: Number of the line or row, counted from 1; 0 for a problem that ends the stream.
        outcome: Outcome of the upsert.
        problem: The problem.
    """

    line: int
    outcome: Outcome | None
    problem: ProblemError | None


class StreamPart(NamedTuple):
    """A part of a stream that is processed at once.

    Attributes:
        rows: Number of documents that count towards the rate. Empty lines are included.
        size: Number of bytes that count towards the rate.
        parse: Parses the documents. It is called in a thread.
    """

    rows: int
    size: int
    parse: Callable[[], list[StreamItem]]


class StreamFormat(Protocol):
    """A format of requests with many documents, and of the answers to them."""

    media_type: str

    def parts(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[StreamPart]:
        """Yields the parts of a request."""

    def prologue(self) -> bytes:
        """Returns the bytes that a response begins with."""

    def encode(self, answers: list[StreamAnswer]) -> bytes:
        """Returns answers as bytes of the response."""

    def epilogue(self) -> bytes:
        """Returns the bytes that a response ends with."""


class ProgressDeadline:
    """The time within which a line or a message must be complete.

    Args:
        seconds: Maximum number of seconds for each. Long ones have one more second for every
            MIN_BYTES_PER_SECOND bytes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Starts the time of the next line or message."""
        self._began = time.monotonic()

    def check(self, size: int) -> None:
        """Checks that the bytes received so far did not take too long."""
        if time.monotonic() - self._began > self._seconds + size / MIN_BYTES_PER_SECOND:
            raise ProblemError(
                "timeout",
                f"only {size:,} bytes of an unfinished document arrived within {self._seconds:g} s",
            )
