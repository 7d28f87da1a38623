"""Where an index is: the state of a move from one store to another, which each store keeps beside its header.

The epoch is a fencing token (M. Kleppmann, Designing Data-Intensive Applications, chapter 8): every step says under which epoch
it was made, and a store refuses those of another one. So when a phase is written, no step of an earlier phase can come after
it, however long a process slept; waiting for "everybody must have noticed by now" proves nothing of the kind.
"""

from typing import NamedTuple

OPEN = "open"
FILLING = "filling"
"""It is being made from another index, and nobody else writes to it."""
COPYING = "copying"
"""It is being copied: steps log which documents they touch."""
CLOSING = "closing"
"""The last of those are being carried over: writers wait."""
MOVED = "moved"
"""It is elsewhere."""
STOPPED = 2**31 - 1
"""The epoch of a move that processes of older versions find where they look for it, so that their steps are refused. The first
version reads a number of 32 bits from PostgreSQL."""


class Move(NamedTuple):
    """The state of a store."""

    epoch: int = 0
    """How often the state was written."""
    phase: str = OPEN
    urls: tuple[str, ...] = ()
    """Without passwords: where it is moved to, or what it is filled from; several for shards."""


class StoreState(NamedTuple):
    """What a process that has an index open asks now and then."""

    move: Move
    generation: int
    """How many steps have made what other processes remember of a document untrue: it was deleted, or resolved again."""
