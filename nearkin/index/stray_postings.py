"""Postings of documents that are not there, which an interrupted step over several stores may leave: found and deleted.

No transaction spans shards, so the postings of a document go in before the document and out after it. If a process is killed in
between, its postings stay. Look-ups pass over them, but they take memory and places in full buckets.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nearkin.errors import StoreError
from nearkin.index.changes import Changes
from nearkin.index.entry import REF_SHIFT, Entry, PostingPortion
from nearkin.index.stores.base import Store

AGE = 120.0
"""Seconds for which a posting must have been a stray before it is deleted: a step that is still under way takes less."""
PORTION = 20_000
"""Postings of each shard that one sweep looks at."""
MOST_SUSPECTS = 100_000
"""Strays that are remembered until they are old enough."""
log = logging.getLogger("nearkin.strays")


class Suspect(NamedTuple):
    """A posting whose document was not there when it was looked at."""

    since: float
    keys: np.ndarray
    """The buckets of the shard that hold it, uint64."""


class StraySweeper:
    """Looks through the buckets of shards, a portion at a time, and deletes postings whose documents stay away.

    Args:
        shards: The stores of an index.
        look_up: Returns documents by their numbers, from all shards.
        seconds: Returns the seconds of a clock that runs evenly.
    """

    def __init__(
        self,
        shards: Sequence[Store],
        look_up: Callable[[Sequence[int]], list[Entry | None]],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shards = shards
        self._look_up = look_up
        self._seconds = seconds
        self._places: list[Any] = [None] * len(shards)
        self._suspects: dict[tuple[int, int], Suspect] = {}

    def sweep(self) -> int:
        """Looks at the next portion of each shard; returns how many strays were deleted.

        Raises:
            StoreError: If a shard does not answer. The next sweep continues where this one stopped.
        """
        now = self._seconds()
        for number, shard in enumerate(self._shards):
            portion = shard.posting_portion(self._places[number], PORTION)
            self._suspect(number, portion, now)
            self._places[number] = portion.place
        deleted = self._delete_old(now)
        if deleted:
            log.info("deleted postings of documents that are not there", extra={"documents": deleted})
        return deleted

    def _suspect(self, number: int, portion: PostingPortion, now: float) -> None:
        """Remembers the strays of a portion, each from when it was first seen."""
        refs = portion.words >> REF_SHIFT
        away = self._away(np.unique(refs).tolist())
        if not away:
            return
        for ref in away:
            keys = portion.keys[refs == ref]
            known = self._suspects.get((number, ref))
            if known is not None:
                # the buckets of a document are in several portions
                self._suspects[number, ref] = Suspect(known.since, np.union1d(known.keys, keys))
            elif len(self._suspects) < MOST_SUSPECTS:
                self._suspects[number, ref] = Suspect(now, keys)

    def _away(self, refs: list[int]) -> list[int]:
        """Returns those numbers whose documents are not there, or do not stand in buckets."""
        entries = self._look_up(refs) if refs else []
        return [ref for ref, entry in zip(refs, entries, strict=True) if entry is None or not entry.posted]

    def _delete_old(self, now: float) -> int:
        old = {key: suspect for key, suspect in self._suspects.items() if now - suspect.since >= AGE}
        if not old:
            return 0
        away = set(self._away(sorted({ref for _, ref in old})))
        for key in old:
            del self._suspects[key]
        leaving = {key: suspect.keys for key, suspect in old.items() if key[1] in away}
        for number, shard in enumerate(self._shards):
            mine = [(ref, keys) for (at, ref), keys in leaving.items() if at == number]
            if mine:
                shard.apply(Changes(postings_removed=mine))
        self._put_back(leaving)
        return len({ref for _, ref in leaving})

    def _put_back(self, leaving: dict[tuple[int, int], np.ndarray]) -> None:
        """Enters postings again whose documents came, or came into buckets, after they were looked up."""
        refs = sorted({ref for _, ref in leaving})
        came = {entry.ref: entry for entry in self._look_up(refs) if entry is not None and entry.posted} if refs else {}
        for (number, ref), keys in leaving.items():
            if ref in came:
                # out first, so that none is twice in a bucket
                self._shards[number].apply(Changes(postings_removed=[(ref, keys)], postings_added=[(came[ref].posting, keys)]))


def sweep_quietly(sweeper: StraySweeper) -> None:
    """Sweeps; a store that fails is tried again by the next sweep."""
    try:
        sweeper.sweep()
    except StoreError as error:
        log.warning("strays could not be swept", extra={"error": str(error)})
