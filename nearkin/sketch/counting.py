"""A MinHash signature that can forget: each slot keeps its several smallest elements, and knows when it knows no more.

A slot holds at most `depth` elements, all those whose value lies below its bound; the bound is the smallest value that was ever
crowded out. So what is held is exact, with how often each element was added, and a slot whose elements have all been discarded
while others were crowded out before is unknown: it is reported, never guessed.
"""

from threading import Lock
from typing import Self

import numpy as np
import pyarrow as pa

from nearkin.errors import RebuildDueError, UsageError
from nearkin.sketch import kernels
from nearkin.sketch.minhash import multipliers
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.sketch.sketcher import iterate_shingles
from nearkin.spec import Spec

DEPTH = 8


class CountingMinHash:
    """Shingles come and go; the signature is that of those which are there.

    Args:
        spec: Of `jaccard` with whole slots; signatures are those of any other document of it.
        depth: Elements that a slot keeps: how many of its smallest may be discarded before it is unknown.
        resources: What the Spec names but does not hold.

    Examples:
        >>> spec = Spec(n=1, k=16)
        >>> sketch = CountingMinHash(spec).add("the cat sat").add("the cat lay")
        >>> alone = CountingMinHash(spec).add("the cat sat")
        >>> bool((sketch.discard("the cat lay").snapshot() == alone.snapshot()).all())
        True
    """

    def __init__(self, spec: Spec, depth: int = DEPTH, resources: SpecResources = NO_RESOURCES) -> None:
        if spec.measure != "jaccard" or spec.truncated:
            raise UsageError(
                f"slots of measure={spec.measure!r} with slot_bits={spec.slot_bits} do not say which elements made them; "
                "count with measure jaccard and whole slots"
            )
        if depth < 1:
            raise UsageError(f"depth={depth} is not at least 1")
        self.spec, self.depth = spec, depth
        self._shingler = resources.shingler(spec)
        self._functions = multipliers(spec)
        self._lock = Lock()
        self._clear()

    def _clear(self) -> None:
        shape = (self.spec.k, self.depth)
        self._values, self._owners = np.full(shape, kernels.EMPTY, np.uint32), np.zeros(shape, np.uint64)
        self._counts = np.zeros(shape, np.int64)
        self._bounds = np.full(self.spec.k, kernels.EMPTY, np.uint32)
        self._size = 0

    def __len__(self) -> int:
        """Elements that are there, each as often as it was added."""
        return self._size

    def add(self, text: str) -> Self:
        """Adds the shingles of a text, with repeats."""
        return self.add_hashes(self._hashes(text))

    def discard(self, text: str) -> Self:
        """Takes the shingles of a text away that was added before."""
        return self.discard_hashes(self._hashes(text))

    def add_hashes(self, hashes: np.ndarray) -> Self:
        """Adds shingle hashes, uint64 (m,), of the caller's own making."""
        with self._lock:
            self._change(np.ascontiguousarray(hashes, np.uint64), 1)
        return self

    def discard_hashes(self, hashes: np.ndarray) -> Self:
        """Takes shingle hashes away.

        Raises:
            UsageError: One is not there; those before it have been taken away.
        """
        with self._lock:
            self._change(np.ascontiguousarray(hashes, np.uint64), -1)
        return self

    def _change(self, hashes: np.ndarray, step: int) -> None:
        state = (self._values, self._owners, self._counts, self._bounds)
        done = int(kernels.change_counts(hashes, step, *self._functions, *state))
        self._size += step * done
        if done < len(hashes) or self._size < 0:
            raise UsageError(
                f"element {int(hashes[min(done, len(hashes) - 1)]):016x} is not there; only what was added is discarded"
            )

    @property
    def underflowed(self) -> np.ndarray:
        """Slots that are unknown, int64: all elements that they held are gone, and smaller than those crowded out is none."""
        return np.flatnonzero((self._values[:, 0] == kernels.EMPTY) & (self._bounds < kernels.EMPTY))

    @property
    def rebuild_due(self) -> bool:
        """Whether some slot is unknown."""
        return len(self.underflowed) > 0

    def snapshot(self) -> np.ndarray:
        """The signature, uint32 (k,); a copy.

        Raises:
            RebuildDueError: Some slot is unknown.
        """
        with self._lock:
            if len(unknown := self.underflowed):
                raise RebuildDueError(
                    f"{len(unknown)} of {self.spec.k} slots have lost all their {self.depth} smallest elements; rebuild with "
                    "the elements that are left, or give more depth"
                )
            return self._values[:, 0].copy()

    def rebuild(self, hashes: np.ndarray) -> Self:
        """Starts again with all the elements that are there, uint64 (m,) with repeats."""
        with self._lock:
            self._clear()
            self._change(np.ascontiguousarray(hashes, np.uint64), 1)
        return self

    def _hashes(self, text: str) -> np.ndarray:
        documents = pa.array([text], pa.large_string())
        return np.concatenate([shingles.hashes.copy() for _, shingles in iterate_shingles(self._shingler, documents)])
