"""What is known of documents that came before: the first layer of an upsert, in memory."""

import struct
import sys
from threading import Lock
from typing import NamedTuple

HEAD = struct.Struct("<16sdH")
NEVER = -(1 << 62)
"""A generation that no store reaches, however many steps are added to it."""
SLOT_BYTES = 104
"""Share of a dictionary's table that an item takes at most: an index of 8 bytes and a row of 24, in a table that is at worst
a third full after it has grown."""


class Resolution(NamedTuple):
    """To whom a document was resolved."""

    digest: bytes
    leader: str
    cluster: str
    similarity: float


class ResolvedCache:
    """The resolutions used last; safe for concurrent use.

    Two generations of a plain dictionary of text and bytes: what is used moves to the younger one, and when that is full the
    older one goes. Such dictionaries hold nothing that the garbage collector has to walk, however many there are.

    What the cache says is only an answer if `sync_generation` confirms it: another process may have deleted the document since.

    Args:
        size: Maximum number of resolutions, of both generations together. None are kept if it is 0.
        most_bytes: Maximum memory of both generations together, in bytes. Names may be a kilobyte long each, so a number of
            resolutions alone is no bound on the memory that they take.

    Examples:
        >>> cache = ResolvedCache(2, 10_000)
        >>> for name in "abc":
        ...     cache.put("scope", name, Resolution(bytes(16), "leader", "cluster", 0.9), cache.clear_count)
        >>> cache.get("scope", "a"), cache.get("scope", "c").leader, len(cache)
        (None, 'leader', 2)
    """

    def __init__(self, size: int, most_bytes: int) -> None:
        self.size = size
        self.most_bytes = most_bytes
        self.clear_count = 0
        """How often everything was forgotten."""
        self._generation = NEVER
        self._steps = 0
        self._steps_under_way = 0
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

    def get(self, scope: str, name: str) -> Resolution | None:
        """Returns the resolution of a document, or None if it is not known. See `sync_generation` before it is used."""
        key = f"{scope}\0{name}"
        with self._lock:
            held = self._young.get(key)
            if held is None:
                held = self._old.get(key)
                if held is None:
                    return None
                self._discard(key)
                self._keep(key, held)
        digest, similarity, length = HEAD.unpack_from(held)
        names = held[HEAD.size :]
        return Resolution(digest, names[:length].decode(), names[length:].decode(), similarity)

    def put(self, scope: str, name: str, resolution: Resolution, clear_count: int) -> None:
        """Remembers it, if it was found in this era: what was looked up before everything was forgotten may be untrue."""
        leader = resolution.leader.encode()
        held = HEAD.pack(resolution.digest, resolution.similarity, len(leader)) + leader + resolution.cluster.encode()
        key = f"{scope}\0{name}"
        with self._lock:
            if clear_count == self.clear_count:
                self._discard(key)
                self._keep(key, held)

    def _keep(self, key: str, held: bytes) -> None:
        """Puts an item that is in neither generation into the younger one."""
        size = _bytes_of(key, held)
        if not self.size or size > self.most_bytes // 2:
            return
        if len(self._young) >= max(1, self.size // 2) or self._young_bytes + size > self.most_bytes // 2:
            self._old = self._young
            self._old_bytes = self._young_bytes
            self._young = {}
            self._young_bytes = 0
        self._young[key] = held
        self._young_bytes += size

    def _discard(self, key: str) -> None:
        if (held := self._young.pop(key, None)) is not None:
            self._young_bytes -= _bytes_of(key, held)
        if (held := self._old.pop(key, None)) is not None:
            self._old_bytes -= _bytes_of(key, held)

    def forget(self, scope: str, name: str) -> None:
        """It changed, or went."""
        with self._lock:
            self._discard(f"{scope}\0{name}")

    def clear(self) -> None:
        """Everything may have changed."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._young = {}
        self._old = {}
        self._young_bytes = 0
        self._old_bytes = 0
        self.clear_count += 1

    # -- the generation of the store: steps of other processes that made something untrue

    def begin_step(self) -> None:
        """Notes that this process is about to raise the generation by one; it forgets by itself what its step makes untrue."""
        with self._lock:
            self._steps += 1
            self._steps_under_way += 1

    def end_step(self, done: bool) -> None:
        """Notes that such a step has ended.

        Args:
            done: Whether it was done. If not, whether it raised the generation is unknown.
        """
        with self._lock:
            self._steps += 1
            self._steps_under_way -= 1
            self._generation = self._generation + 1 if done else NEVER

    def stamp(self) -> int:
        """Returns a number that changes when a step of this process begins or ends, for `sync_generation`."""
        # reading one number needs no lock
        return self._steps

    def sync_generation(self, generation: int, stamp: int) -> bool:
        """Compares the store's generation with what this process has made it, and forgets everything if it is another.

        Args:
            generation: The generation of the store.
            stamp: Taken by `stamp` before the store was asked. If a step of this process was under way meanwhile, it cannot be
                told whether the generation counts that step or another process's.

        Returns:
            Whether everything that the cache said since the stamp was taken is what the store says.
        """
        with self._lock:
            if self._steps_under_way or stamp != self._steps:
                return False
            if generation == self._generation:
                return True
            self._clear()
            self._generation = generation
            return False


def _bytes_of(key: str, held: bytes) -> int:
    """The memory that an item of a generation takes, in bytes."""
    return sys.getsizeof(key) + sys.getsizeof(held) + SLOT_BYTES
