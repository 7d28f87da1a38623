"""The one who makes the steps of a thread, whom the history of an index names."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Actor(NamedTuple):
    """A token, or a kind of program."""

    name: str
    purges: bool = False
    """True if it removes documents because they are like given ones."""


LIBRARY = Actor("library")
ACTOR: ContextVar[Actor] = ContextVar("ACTOR", default=LIBRARY)
"""The actor of the steps of this thread."""


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Names the actor of the steps that this thread makes within the context."""
    token = ACTOR.set(actor)
    try:
        yield
    finally:
        ACTOR.reset(token)
