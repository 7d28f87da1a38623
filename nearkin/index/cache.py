"""What is known of documents that came before: the first layer of an upsert, in memory."""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple


class Resolution(NamedTuple):
    """To whom a document was resolved."""

    digest: bytes
    leader: str
    cluster: str
    similarity: float


class ResolvedCache:
    """The resolutions used last; safe for concurrent use.

    Args:
        size: How many.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._held: OrderedDict[tuple[str, str], tuple[bytes, str, str, float]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, scope: str, name: str) -> Resolution | None:
        """Of a document, if it is known."""
        with self._lock:
            found = self._held.get((scope, name))
            if found is None:
                return None
            self._held.move_to_end((scope, name))
            return Resolution._make(found)

    def put(self, scope: str, name: str, resolution: Resolution) -> None:
        """Remembers it, and forgets the one that was not used for longest."""
        with self._lock:
            # a plain tuple: see the memory store
            self._held[scope, name] = tuple(resolution)  # type: ignore[assignment]
            self._held.move_to_end((scope, name))
            if len(self._held) > self.size:
                self._held.popitem(last=False)

    def forget(self, scope: str, name: str) -> None:
        """It changed, or went."""
        with self._lock:
            self._held.pop((scope, name), None)

    def clear(self) -> None:
        """Everything may have changed."""
        with self._lock:
            self._held.clear()
