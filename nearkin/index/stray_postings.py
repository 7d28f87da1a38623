"""The sweep of stray postings: postings without their document.

No transaction spans shards, so the postings of a document are inserted before the document and
deleted after it. If a process is killed in between, its postings stay. Look-ups skip them, but they
take memory and places in full buckets.
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

MIN_AGE = 120.0
"""The number of seconds after which a stray is deleted. A step that is under way takes less."""
PORTION = 20_000
"""The number of postings of each shard that one sweep reads."""
MAX_SUSPECTS = 100_000
"""The maximum number of strays that are remembered until they are old enough."""
log = logging.getLogger("nearkin.strays")


class Suspect(NamedTuple):
    """A document number whose postings were read while the document did not exist."""

    since: float
    """The time at which it was first seen, in seconds."""
    keys: np.ndarray
    """The keys of its buckets on the shard, uint64 (n,)."""


class StraySweeper:
    """Reads the buckets of shards in portions, and deletes postings whose documents stay missing.

    Args:
        seconds: Returns the time of a monotonic clock, in seconds.
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
        """Reads the next portion of each shard, and deletes old strays."""
        now = self._seconds()
        for number, shard in enumerate(self._shards):
            portion = shard.posting_portion(self._places[number], PORTION)
            self._remember_strays(number, portion, now)
            self._places[number] = portion.place
        deleted = self._delete_old(now)
        if deleted:
            log.info("deleted postings of missing documents", extra={"documents": deleted})
        return deleted

    def _remember_strays(self, number: int, portion: PostingPortion, now: float) -> None:
        """Remembers the strays of a portion, with the time at which each was first seen."""
        refs = portion.words >> REF_SHIFT
        away = self._missing_refs(np.unique(refs).tolist())
        if not away:
            return
        for ref in away:
            keys = portion.keys[refs == ref]
            known = self._suspects.get((number, ref))
            if known is not None:
                # the buckets of a document are spread over several portions
                self._suspects[number, ref] = Suspect(known.since, np.union1d(known.keys, keys))
            elif len(self._suspects) < MAX_SUSPECTS:
                self._suspects[number, ref] = Suspect(now, keys)

    def _missing_refs(self, refs: list[int]) -> list[int]:
        """Returns the numbers of documents that do not exist, or are in no bucket."""
        entries = self._look_up(refs) if refs else []
        return [
            ref
            for ref, entry in zip(refs, entries, strict=True)
            if entry is None or not entry.posted
        ]

    def _delete_old(self, now: float) -> int:
        old = {
            key: suspect
            for key, suspect in self._suspects.items()
            if now - suspect.since >= MIN_AGE
        }
        if not old:
            return 0
        away = set(self._missing_refs(sorted({ref for _, ref in old})))
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
        """Inserts postings again whose documents were inserted after they were looked up."""
        refs = sorted({ref for _, ref in leaving})
        came = (
            {
                entry.ref: entry
                for entry in self._look_up(refs)
                if entry is not None and entry.posted
            }
            if refs
            else {}
        )
        for (number, ref), keys in leaving.items():
            if ref in came:
                # deleted first, so that none is in a bucket twice
                self._shards[number].apply(
                    Changes(
                        postings_removed=[(ref, keys)], postings_added=[(came[ref].posting, keys)]
                    )
                )


def sweep_quietly(sweeper: StraySweeper) -> None:
    """Sweeps, and logs the error of a store that fails. The next sweep tries again."""
    try:
        sweeper.sweep()
    except StoreError as error:
        log.warning("stray postings could not be swept", extra={"error": str(error)})
