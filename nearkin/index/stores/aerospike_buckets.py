"""Buckets in maps of Aerospike records (map CDTs).

A record for each bucket would need 64 bytes of the server's index for eight bytes of content.
Therefore a record holds a *group* of buckets, whose keys have the same top bits. Its map `m` is
ordered by key. A key of the map is a posting: the band key and the posting, 8 bytes each,
big-endian. A bucket is a range of the map, oldest document first, and a posting that is written or
deleted twice has the same effect as once. The bin `g` counts evicted postings. The size of the map
is not stored; `counts` asks the server for it, because storing it would take the client as much
time as the posting.

An upsert of 1,000 documents reads and writes about 40,000 groups, so the work for a group decides
the speed of batches. Common parts of operations are created once, and keys are packed as arrays.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nearkin.index.entry import Postings
from nearkin.index.stores.aerospike_records import (
    GENERATION,
    NOT_FOUND,
    SMALL_AT_ONCE,
    Operation,
    Records,
)

KIND = "buckets"
POSTING = struct.Struct(">QQ")
WIDTH = POSTING.size
"""The size of a packed posting, in bytes."""
GROUP = 16
"""The approximate number of postings of a group at the expected size of the index."""
MIN_BITS = 16
MAX_BITS = 32
"""The limits of the number of bits that select a group.

At least 65,536 groups are used, which hold two billion postings.
"""
ROOM = 30_000
"""The maximum number of postings of a group."""
POSTING_COST = 35
"""The size of a posting of a full group, in bytes.

It is larger than the real size, so that a third of a record remains free for the next batch.
"""


class Span(NamedTuple):
    """The postings from `low` to before `high` in the buckets of keys, uint64 of shape (m,)."""

    keys: np.ndarray
    low: int
    high: int


class Buckets:
    """The buckets of a store.

    Args:
        bits: Number of bits of a band key that select its group.
    """

    def __init__(self, records: Records, bits: int, most: int, ttl: int) -> None:
        self._records = records
        self._bits = bits
        self._most = most
        self._ttl = ttl
        self._room = min(ROOM, records.namespace.record_size // POSTING_COST)
        self._api = records.library.aerospike
        self._maps = records.library.maps
        ordered = {"map_order": self._api.MAP_KEY_ORDERED}
        self._putting: Operation = self._maps.map_put_items("m", {}, ordered)
        """An operation that writes postings, to which the postings are added."""
        self._reading: Operation = self._maps.map_get_by_key_range(
            "m", b"", b"", self._api.MAP_RETURN_KEY
        )
        """An operation that reads a range of postings, to which the limits are added."""
        self._counting = [self._maps.map_size("m"), records.library.operations.read("g")]

    def _groups(self, keys: np.ndarray) -> list[int]:
        """Returns the number of the group of each key."""
        groups: list[int] = (keys >> np.uint64(64 - self._bits)).tolist()
        return groups

    def look_up(self, keys: np.ndarray) -> Postings:
        """Returns the buckets of band keys, as `Store.postings` does."""
        reads = self._records.readings(
            KIND, zip(self._groups(keys), self._ranges(keys), strict=True)
        )
        packed: list[bytes] = []
        ends = [0]
        for group_bins in self._records.pick(reads):
            if group_bins is not None:
                packed += group_bins.get("m") or ()
            ends.append(len(packed))
        words = np.frombuffer(b"".join(packed), ">u8").reshape(-1, 2)[:, 1].astype(np.int64)
        return Postings(words, np.array(ends, np.int64))

    def overflowed(self, keys: np.ndarray) -> np.ndarray:
        """Returns whether buckets may lack postings, as `Store.overflowed` does.

        All buckets of a group are marked if one of them has lost postings.
        """
        reading = [self._records.library.operations.read("g")]
        groups = self._groups(keys)
        reads = self._records.readings(KIND, ((group, reading) for group in groups))
        marks = [
            group_bins is not None and int(group_bins.get("g") or 0) > 0
            for group_bins in self._records.pick(reads)
        ]
        return np.array(marks, bool)

    def _ranges(self, keys: np.ndarray) -> Iterator[list[Operation]]:
        """Yields the operations that read the bucket of each key."""
        lows = _packed(keys, 0)
        highs = _packed(keys, 1 << 63)
        for low, high in zip(lows, highs, strict=True):
            yield [{**self._reading, "key": low, "range": high}]

    def put(self, postings: Iterable[tuple[int, np.ndarray]]) -> list[int]:
        """Writes postings."""
        listed = list(postings)
        if not listed:
            return []
        keys = np.concatenate([keys for _, keys in listed]).astype(np.uint64)
        words = np.repeat(
            np.array([word for word, _ in listed], np.uint64), [len(keys) for _, keys in listed]
        )
        groups: dict[int, dict[bytes, int]] = {}
        for group, posting in zip(self._groups(keys), _packed(keys, words), strict=True):
            members = groups.get(group)
            if members is None:
                groups[group] = {posting: 0}
            else:
                members[posting] = 0
        operations: Iterator[tuple[int, list[Operation]]] = (
            (group, [{**self._putting, "val": members}]) for group, members in groups.items()
        )
        writes = self._records.changes(KIND, operations, self._ttl)
        answers = self._records.each(writes, at_once=SMALL_AT_ONCE)
        limit = min(self._most, self._room)
        return [
            group for group, answer in zip(groups, answers, strict=True) if answer.bins["m"] > limit
        ]

    def remove(self, spans: Iterable[Span]) -> None:
        """Deletes postings. Postings that do not exist are ignored."""
        groups: dict[int, list[Any]] = defaultdict(list)
        for keys, low, high in spans:
            for key in keys.tolist():
                limits = POSTING.pack(key, low), POSTING.pack(key, high)
                operation = self._maps.map_remove_by_key_range(
                    "m", *limits, self._api.MAP_RETURN_NONE
                )
                groups[key >> (64 - self._bits)].append(operation)
        writes = self._records.changes(KIND, groups.items(), self._ttl, there=True)
        self._records.run(writes, (NOT_FOUND,))

    def trim(self, groups: list[int]) -> None:
        """Evicts and counts the newest postings of full buckets.

        A group that another process has changed is left to the next write.
        """
        group_records = self._records.read(KIND, groups)
        writes = []
        for group, record in zip(groups, group_records, strict=True):
            over = (
                self._excess([POSTING.unpack(posting) for posting in record.bins["m"]])
                if record is not None
                else []
            )
            if record is not None and over:
                operations = [
                    self._maps.map_remove_by_key_list("m", over, self._api.MAP_RETURN_NONE),
                    self._records.library.operations.increment("g", len(over)),
                ]
                writes.append(
                    self._records.exchange(KIND, group, operations, self._ttl, record.generation)
                )
        self._records.run(writes, (NOT_FOUND, GENERATION))

    def _excess(self, postings: list[tuple[int, int]]) -> list[bytes]:
        """Returns the postings of a group that must be evicted.

        These are the ones beyond the capacity of their bucket, then the ones of the largest
        buckets, until the group fits into its record.
        """
        buckets: dict[int, list[int]] = defaultdict(list)
        for key, word in sorted(postings):
            buckets[key].append(word)
        most = self._most
        while most > 1 and sum(min(len(words), most) for words in buckets.values()) > self._room:
            most //= 2
        over = [(word, key) for key, words in buckets.items() for word in words[most:]]
        kept = [(word, key) for key, words in buckets.items() for word in words[:most]]
        # if there are too many buckets, the postings of the newest documents are evicted
        over += sorted(kept)[self._room :]
        return [POSTING.pack(key, word) for word, key in over]

    def counts(self) -> dict[str, int]:
        """Returns the numbers of postings and of evicted postings."""
        postings = 0
        evicted = 0
        reads = self._records.readings_of(self._records.keys(KIND), self._counting)
        for group_bins in self._records.pick(reads):
            if group_bins is not None:
                postings += int(group_bins.get("m") or 0)
                evicted += int(group_bins.get("g") or 0)
        return {"postings": postings, "evicted": evicted}


def bits_for(expected: int) -> int:
    """Returns the number of bits that select a group, for an expected number of postings."""
    return min(max((expected // GROUP).bit_length(), MIN_BITS), MAX_BITS)


def _packed(keys: np.ndarray, words: np.ndarray | int) -> list[bytes]:
    """Returns packed postings: each band key, uint64 of shape (n,), with its posting."""
    pairs = np.empty((len(keys), 2), ">u8")
    pairs[:, 0] = keys
    pairs[:, 1] = words
    packed = pairs.tobytes()
    return [packed[start : start + WIDTH] for start in range(0, len(packed), WIDTH)]
