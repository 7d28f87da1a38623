"""Buckets in map CDTs of Aerospike.

A record of its own for each bucket would cost 64 bytes of the server's index for eight of content, so a record holds a *group*
of them: keys with the same top bits. Its map `m`, ordered by key, has a posting per key: the bucket's key and the posting's
word, 8 bytes each, big-endian, so that a bucket is a range, oldest document first, and putting or removing a posting twice is
the same as once. `n` counts the map and `g` what was evicted from it.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from nearkin.index.entry import Postings
from nearkin.index.stores.aerospike_records import GENERATION, NOT_FOUND, Records

KIND = "buckets"
POSTING = struct.Struct(">QQ")
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
        expressions = records.library.expressions
        size = expressions.MapSize(None, expressions.MapBin("m")).compile()
        self._count = records.library.expression_operations.expression_write("n", size)

    def _group(self, key: int) -> int:
        return key >> (64 - self._bits)

    def look_up(self, keys: np.ndarray) -> Postings:
        """As `Store.postings`: one range of one record for each key."""
        wanted = self._api.MAP_RETURN_KEY
        reads = (
            (KIND, self._group(key), self._maps.map_get_by_key_range("m", *_range(key, 0, 1 << 63), wanted))
            for key in keys.tolist()
        )
        found = [bins["m"] if bins is not None and bins.get("m") else () for bins in self._records.pick(reads)]
        offsets = np.concatenate([[0], np.cumsum([len(held) for held in found], dtype=np.int64)])
        packed = b"".join(bytes(posting) for held in found for posting in held)
        return Postings(np.frombuffer(packed, ">u8").reshape(-1, 2)[:, 1].astype(np.int64), offsets)

    def put(self, postings: Iterable[tuple[int, np.ndarray]]) -> list[int]:
        """(word, keys): into buckets; returns the groups in which one may be too full by now."""
        groups: dict[int, dict[bytes, int]] = defaultdict(dict)
        for word, keys in postings:
            for key in keys.tolist():
                groups[self._group(key)][POSTING.pack(key, word)] = 0
        ordered = {"map_order": self._api.MAP_KEY_ORDERED}
        writes = [
            self._records.change(KIND, group, [self._maps.map_put_items("m", items, ordered), self._count], self._ttl)
            for group, items in groups.items()
        ]
        answers = self._records.run(writes)
        limit = min(self._most, self._room)
        return [group for group, answer in zip(groups, answers, strict=True) if answer.bins["m"] > limit]

    def remove(self, spans: Iterable[Span]) -> None:
        """Postings out of buckets; those that are not there are none."""
        groups: dict[int, list[Any]] = defaultdict(list)
        for keys, low, high in spans:
            for key in keys.tolist():
                limits = _range(key, low, high)
                operation = self._maps.map_remove_by_key_range("m", *limits, self._api.MAP_RETURN_NONE)
                groups[self._group(key)].append(operation)
        writes = (
            self._records.change(KIND, group, [*operations, self._count], self._ttl, there=True)
            for group, operations in groups.items()
        )
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
                    self._count,
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
        """Postings that are there, and that were evicted."""
        held = self._records.scan(KIND, "n", "g")
        return {name: sum(int(bins.get(bin_, 0)) for bins in held) for name, bin_ in (("postings", "n"), ("evicted", "g"))}


def bits_for(expected: int) -> int:
    """Bits of a group's number, for so many postings."""
    return min(max((expected // GROUP).bit_length(), LEAST_BITS), MOST_BITS)


def _range(key: int, low: int, high: int) -> tuple[bytes, bytes]:
    return POSTING.pack(key, low), POSTING.pack(key, high)
