"""The resolution cache: recent outcomes of upserts, which a process keeps in memory."""

import struct
import sys
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import NamedTuple

HEAD = struct.Struct("<16sdH")
"""The beginning of a packed resolution: digest, similarity, and the length of the leader's id.

The leader's id is left out if it is the document's own, and the cluster's if it is the leader's.
"""
UNKNOWN_GENERATION = -(1 << 62)
"""A generation that no store reaches, however many steps are added to it."""
SLOT_BYTES = 104
"""The largest share of a dictionary's table that one item takes.

An item has an index of 8 bytes and a row of 24, in a table that may be a third full.
"""


class Resolution(NamedTuple):
    """The representative that a document was resolved to."""

    digest: bytes
    leader: str
    cluster: str
    similarity: float


class ResolvedCache:
    """A cache of the resolutions that were used last. Safe for threads.

    It consists of two generations of a plain dictionary of text and bytes. A resolution that is
    used moves to the younger one; when that is full, the older one is dropped. Such dictionaries
    hold nothing that the garbage collector has to visit.

    A cached resolution may only be used after `sync_generation` has confirmed it, because another
    process may have deleted the document.

    Args:
        max_bytes: Maximum memory of both generations together, in bytes. Names may be a kilobyte
            long, so that a number of resolutions alone does not bound the memory.

    Examples:
        >>> cache = ResolvedCache(2, 10_000)
        >>> for name in "abc":
        ...     resolution = Resolution(bytes(16), "leader", "cluster", 0.9)
        ...     cache.put("scope", name, resolution, cache.clear_count)
        >>> cache.get("scope", "a"), cache.get("scope", "c").leader, len(cache)
        (None, 'leader', 2)
    """

    def __init__(self, size: int, max_bytes: int) -> None:
        # each generation may hold half; a size of 1 lets one of them hold a resolution
        self._young_size = max(1, size // 2) if size else 0
        self._max_young_bytes = max_bytes // 2
        self.clear_count = 0
        """The number of times that the cache was cleared."""
        self._store_generation = UNKNOWN_GENERATION
        self._steps = 0
        self._steps_under_way: set[object] = set()
        self._young: dict[str, bytes] = {}
        self._old: dict[str, bytes] = {}
        self._young_bytes = 0
        self._old_bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    @property
    def nbytes(self) -> int:
        """The memory that the resolutions take, in bytes."""
        return self._young_bytes + self._old_bytes

    def get(self, scope: str, id: str) -> Resolution | None:
        """Returns the cached resolution of a document. It must be confirmed before it is used."""
        return self.get_many(scope, [id])[0]

    def get_many(self, scope: str, ids: Sequence[str]) -> list[Resolution | None]:
        """Returns the cached resolutions of documents, as `get` does that of each."""
        keys = [f"{scope}\0{id}" for id in ids]
        with self._lock:
            return [
                self._use(key, id) if key in self._young or key in self._old else None
                for key, id in zip(keys, ids, strict=True)
            ]

    def _use(self, key: str, id: str) -> Resolution:
        """Returns a resolution of either generation, and moves it to the younger one."""
        packed = self._young.get(key)
        if packed is None:
            packed = self._old[key]
            self._discard(key)
            self._keep(key, packed)
        return _unpack_resolution(packed, id)

    def put(self, scope: str, id: str, resolution: Resolution, clear_count: int) -> None:
        """Caches a resolution, unless the cache was cleared since it was looked up."""
        self.put_many(scope, [(id, resolution)], clear_count)

    def put_many(
        self, scope: str, resolutions: Iterable[tuple[str, Resolution]], clear_count: int
    ) -> None:
        """Caches resolutions, unless the cache was cleared since they were looked up."""
        items = [(f"{scope}\0{id}", _pack_resolution(value, id)) for id, value in resolutions]
        with self._lock:
            if clear_count != self.clear_count:
                return
            for key, packed in items:
                if key in self._young or key in self._old:
                    self._discard(key)
                self._keep(key, packed)

    def _keep(self, key: str, packed: bytes) -> None:
        """Adds an item that is in neither generation to the younger one."""
        size = _item_bytes(key, packed)
        if not self._young_size or size > self._max_young_bytes:
            return
        is_full = len(self._young) >= self._young_size
        if is_full or self._young_bytes + size > self._max_young_bytes:
            self._old = self._young
            self._old_bytes = self._young_bytes
            self._young = {}
            self._young_bytes = 0
        self._young[key] = packed
        self._young_bytes += size

    def _discard(self, key: str) -> None:
        packed = self._young.pop(key, None)
        if packed is not None:
            self._young_bytes -= _item_bytes(key, packed)
        packed = self._old.pop(key, None)
        if packed is not None:
            self._old_bytes -= _item_bytes(key, packed)

    def forget(self, scope: str, id: str) -> None:
        """Invalidates a document that was changed or deleted."""
        with self._lock:
            self._discard(f"{scope}\0{id}")

    def clear(self) -> None:
        """Invalidates all documents."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._young = {}
        self._old = {}
        self._young_bytes = 0
        self._old_bytes = 0
        self.clear_count += 1

    # -- The generation of the store, which rises with steps that make resolutions wrong

    def begin_step(self, step: object) -> None:
        """Notes that this process is about to raise the generation by one.

        The process invalidates by itself what its own steps make wrong.
        """
        with self._lock:
            self._steps += 1
            self._steps_under_way.add(step)

    def end_step(self, step: object, *, done: bool) -> None:
        """Notes that such a step has ended. It may have ended before it was begun."""
        with self._lock:
            self._steps += 1
            self._steps_under_way.discard(step)
            self._store_generation = self._store_generation + 1 if done else UNKNOWN_GENERATION

    def stamp(self) -> int:
        """Returns a number that changes when a step of this process begins or ends."""
        # reading one number needs no lock
        return self._steps

    def sync_generation(self, generation: int, stamp: int) -> bool:
        """Clears the cache if the store's generation is not the expected one."""
        with self._lock:
            if self._steps_under_way or stamp != self._steps:
                return False
            if generation == self._store_generation:
                return True
            self._clear()
            self._store_generation = generation
            return False


def _pack_resolution(resolution: Resolution, id: str) -> bytes:
    """Returns the resolution of a document as it is kept.

    Examples:
        >>> resolution = Resolution(bytes(16), "leader", "cluster", 0.9)
        >>> _unpack_resolution(_pack_resolution(resolution, "one"), "one") == resolution
        True
    """
    digest, leader, cluster, similarity = resolution
    cluster_name = b"" if cluster == leader else cluster.encode()
    leader_name = b"" if leader == id else leader.encode()
    return HEAD.pack(digest, similarity, len(leader_name)) + leader_name + cluster_name


def _unpack_resolution(packed: bytes, id: str) -> Resolution:
    """Returns the resolution of a document from the form in which it is kept."""
    digest, similarity, length = HEAD.unpack_from(packed)
    names = packed[HEAD.size :]
    leader = names[:length].decode() or id
    return Resolution(digest, leader, names[length:].decode() or leader, similarity)


def _item_bytes(key: str, packed: bytes) -> int:
    """Returns the memory that an item of a generation takes, in bytes."""
    return sys.getsizeof(key) + sys.getsizeof(packed) + SLOT_BYTES
