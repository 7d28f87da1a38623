"""Buckets in map CDTs of Aerospike.

A record of its own for each bucket would cost 64 bytes of the server's index for eight of content, so a record holds a *group*
of them: keys with the same top bits. Its map `m`, ordered by key, has a posting per key: the bucket's key and the posting's
word, 8 bytes each, big-endian, so that a bucket is a range, oldest document first, and putting or removing a posting twice is
the same as once. `g` counts what was evicted from it. The size of a map is not written beside it: `counts` asks the server for
it, because keeping it would cost the client as much time for each write as the posting itself.

An upsert of 1,000 documents reads and writes about 40,000 groups, so what is done for each of them decides how fast batches
are. Everything that operations have in common is made once, and keys are packed as arrays.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nearkin.index.entry import Postings
from nearkin.index.stores.aerospike_records import GENERATION, NOT_FOUND, Records

KIND = "buckets"
POSTING = struct.Struct(">QQ")
WIDTH = POSTING.size
GROUP = 16
"""Postings of a record, about, at the expected size of the index."""
LEAST_BITS, MOST_BITS = 16, 32
"""Even an index expected to be tiny gets 65,536 groups, which take two thousand million postings before they are full."""
ROOM = 30_000
"""Postings of a group, at most."""
POSTING_COST = 35
"""Bytes of a record's limit for each posting of a full group: two thirds of them, the rest is for what one batch may bring."""


class Span(NamedTuple):
    """Words from `low` to before `high` in the buckets of keys, uint64 (m,)."""

    keys: np.ndarray
    low: int
    high: int


class Buckets:
    """Postings by key.

    Args:
        records: Of the store.
        bits: Of a key, that name its group.
        most: Postings of a bucket.
        ttl: Of a group, as records carry it.
    """

    def __init__(self, records: Records, bits: int, most: int, ttl: int) -> None:
        self._records, self._bits, self._most, self._ttl = records, bits, most, ttl
        self._room = min(ROOM, records.namespace.record_size // POSTING_COST)
        self._api, self._maps = records.library.aerospike, records.library.maps
        ordered = {"map_order": self._api.MAP_KEY_ORDERED}
        self._putting: dict[str, Any] = self._maps.map_put_items("m", {}, ordered)
        """An operation that puts postings, without these."""
        self._reading: dict[str, Any] = self._maps.map_get_by_key_range("m", b"", b"", self._api.MAP_RETURN_KEY)
        """An operation that reads a range of postings, without its ends."""
        self._counting = [self._maps.map_size("m"), records.library.operations.read("g")]

    def _groups(self, keys: np.ndarray) -> list[int]:
        """Returns the number of the group of each key."""
        groups: list[int] = (keys >> np.uint64(64 - self._bits)).tolist()
        return groups

    def look_up(self, keys: np.ndarray) -> Postings:
        """As `Store.postings`: one range of one record for each key."""
        reads = self._records.readings(KIND, zip(self._groups(keys), self._ranges(keys), strict=True))
        packed: list[bytes] = []
        ends = [0]
        for found in self._records.pick(reads):
            if found is not None:
                packed += found.get("m") or ()
            ends.append(len(packed))
        words = np.frombuffer(b"".join(packed), ">u8").reshape(-1, 2)[:, 1].astype(np.int64)
        return Postings(words, np.array(ends, np.int64))

    def _ranges(self, keys: np.ndarray) -> Iterator[list[dict[str, Any]]]:
        """Yields the operations that read the bucket of each key."""
        lows = _packed(keys, 0)
        highs = _packed(keys, 1 << 63)
        for low, high in zip(lows, highs, strict=True):
            yield [{**self._reading, "key": low, "range": high}]

    def put(self, postings: Iterable[tuple[int, np.ndarray]]) -> list[int]:
        """(word, keys): into buckets; returns the groups in which one may be too full by now."""
        given = list(postings)
        if not given:
            return []
        keys = np.concatenate([keys for _, keys in given]).astype(np.uint64)
        words = np.repeat(np.array([word for word, _ in given], np.uint64), [len(keys) for _, keys in given])
        groups: dict[int, dict[bytes, int]] = {}
        for group, posting in zip(self._groups(keys), _packed(keys, words), strict=True):
            items = groups.get(group)
            if items is None:
                groups[group] = {posting: 0}
            else:
                items[posting] = 0
        operations = ((group, [{**self._putting, "val": items}]) for group, items in groups.items())
        answers = self._records.each(self._records.changes(KIND, operations, self._ttl))
        limit = min(self._most, self._room)
        return [group for group, answer in zip(groups, answers, strict=True) if answer.bins["m"] > limit]

    def remove(self, spans: Iterable[Span]) -> None:
        """Postings out of buckets; those that are not there are none."""
        groups: dict[int, list[Any]] = defaultdict(list)
        for keys, low, high in spans:
            for key in keys.tolist():
                limits = _range(key, low, high)
                operation = self._maps.map_remove_by_key_range("m", *limits, self._api.MAP_RETURN_NONE)
                groups[key >> (64 - self._bits)].append(operation)
        writes = self._records.changes(KIND, groups.items(), self._ttl, there=True)
        self._records.run(writes, (NOT_FOUND,))

    def trim(self, groups: list[int]) -> None:
        """The oldest postings leave buckets that are too full, counted; what changed meanwhile is left to its next put."""
        found = self._records.read(KIND, groups)
        writes = []
        for group, held in zip(groups, found, strict=True):
            over = self._over([POSTING.unpack(posting) for posting in held.bins["m"]]) if held is not None else []
            if held is not None and over:
                operations = [
                    self._maps.map_remove_by_key_list("m", over, self._api.MAP_RETURN_NONE),
                    self._records.library.operations.increment("g", len(over)),
                ]
                writes.append(self._records.exchange(KIND, group, operations, self._ttl, held.generation))
        self._records.run(writes, (NOT_FOUND, GENERATION))

    def _over(self, postings: list[tuple[int, int]]) -> list[bytes]:
        """What a group holds too many: beyond what a bucket takes, then of the largest for the sake of the record."""
        buckets: dict[int, list[int]] = defaultdict(list)
        for key, word in sorted(postings):
            buckets[key].append(word)
        most = self._most
        while most > 1 and sum(min(len(words), most) for words in buckets.values()) > self._room:
            most //= 2
        over = [(word, key) for key, words in buckets.items() for word in words[: max(len(words) - most, 0)]]
        kept = [(word, key) for key, words in buckets.items() for word in words[max(len(words) - most, 0) :]]
        # more buckets than the group has room for: those of the oldest documents go
        over += sorted(kept)[: max(len(kept) - self._room, 0)]
        return [POSTING.pack(key, word) for word, key in over]

    def counts(self) -> dict[str, int]:
        """Returns how many postings there are, and how many were evicted."""
        postings = 0
        evicted = 0
        reads = self._records.readings_of(self._records.keys(KIND), self._counting)
        for found in self._records.pick(reads):
            if found is not None:
                postings += int(found.get("m") or 0)
                evicted += int(found.get("g") or 0)
        return {"postings": postings, "evicted": evicted}


def bits_for(expected: int) -> int:
    """Bits of a group's number, for so many postings."""
    return min(max((expected // GROUP).bit_length(), LEAST_BITS), MOST_BITS)


def _range(key: int, low: int, high: int) -> tuple[bytes, bytes]:
    return POSTING.pack(key, low), POSTING.pack(key, high)


def _packed(keys: np.ndarray, words: np.ndarray | int) -> list[bytes]:
    """Returns postings as `POSTING` packs them: each key, uint64 (n,), with its word."""
    pairs = np.empty((len(keys), 2), ">u8")
    pairs[:, 0] = keys
    pairs[:, 1] = words
    packed = pairs.tobytes()
    return [packed[start : start + WIDTH] for start in range(0, len(packed), WIDTH)]
