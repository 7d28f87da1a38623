"""What is known of documents that came before: the first layer of an upsert, in memory."""

import struct
from threading import Lock
from typing import NamedTuple

HEAD = struct.Struct("<16sdH")
NEVER = -(1 << 62)
"""A generation that no store reaches, however many steps are added to it."""


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

    Args:
        size: How many, of both generations.

    Examples:
        >>> cache = ResolvedCache(2)
        >>> for name in "abc":
        ...     cache.put("scope", name, Resolution(bytes(16), "leader", "cluster", 0.9), cache.era)
        >>> cache.get("scope", "a"), cache.get("scope", "c").leader, len(cache)
        (None, 'leader', 2)
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.era = 0
        """How often everything was forgotten."""
        self._generation = 0
        self._young: dict[str, bytes] = {}
        self._old: dict[str, bytes] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, scope: str, name: str) -> Resolution | None:
        """Of a document, if it is known."""
        key = f"{scope}\0{name}"
        with self._lock:
            held = self._young.get(key)
            if held is None:
                held = self._old.pop(key, None)
                if held is None:
                    return None
                self._keep(key, held)
        digest, similarity, length = HEAD.unpack_from(held)
        names = held[HEAD.size :]
        return Resolution(digest, names[:length].decode(), names[length:].decode(), similarity)

    def put(self, scope: str, name: str, resolution: Resolution, era: int) -> None:
        """Remembers it, if it was found in this era: what was looked up before everything was forgotten may be untrue."""
        leader = resolution.leader.encode()
        held = HEAD.pack(resolution.digest, resolution.similarity, len(leader)) + leader + resolution.cluster.encode()
        key = f"{scope}\0{name}"
        with self._lock:
            if era == self.era:
                self._old.pop(key, None)
                self._keep(key, held)

    def _keep(self, key: str, held: bytes) -> None:
        if key not in self._young and len(self._young) >= max(1, self.size // 2):
            self._old, self._young = self._young, {}
        if self.size:
            self._young[key] = held

    def forget(self, scope: str, name: str) -> None:
        """It changed, or went."""
        key = f"{scope}\0{name}"
        with self._lock:
            self._young.pop(key, None)
            self._old.pop(key, None)

    def clear(self) -> None:
        """Everything may have changed."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._young, self._old = {}, {}
        self.era += 1

    # -- the generation of the store: steps of other processes that made something untrue

    def step(self) -> None:
        """This process is about to raise the generation by one, and forgets by itself what its step makes untrue."""
        with self._lock:
            self._generation += 1

    def doubt(self) -> None:
        """Whether that step was done is unknown."""
        with self._lock:
            self._generation = NEVER

    def held_against(self, generation: int) -> None:
        """Forgets everything where the store's generation is not what this process has made it."""
        with self._lock:
            if generation != self._generation:
                self._clear()
                self._generation = generation
