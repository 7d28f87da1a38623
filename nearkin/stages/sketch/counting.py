"""A MinHash signature from which elements can be removed.

Each slot keeps its `depth` smallest elements, with the number of times that each was added. The
bound of a slot is the smallest value that was ever evicted from it. So the kept elements are
exactly those below the bound. If all kept elements of a slot are removed after others were evicted,
its minimum is unknown. Such slots are reported, not guessed.
"""

from threading import Lock
from typing import Self

import numpy as np

from nearkin.errors import RebuildDueError, UsageError
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.arrow_types import to_text_array
from nearkin.runtime.number_range import NumberRange
from nearkin.settings.spec import Spec
from nearkin.stages.hashing.families import require_hashes
from nearkin.stages.sketch import kernels
from nearkin.stages.sketch.minhash import multipliers
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.sketcher import iterate_shingles

DEPTH = 8
"""The default number of elements that a slot keeps."""


MAX_DEPTH = 1 << 16
"""The largest number of elements of a slot."""


class CountingMinHash:
    """A signature of a multiset of shingles that are added and removed.

    Args:
        spec: Spec of measure `jaccard` with whole slots.
        depth: Number of the smallest elements that a slot keeps. A slot becomes unknown only after
            all of them are removed.
        resources: Key and cut shingles that the Spec refers to.

    Raises:
        UsageError: If the Spec has another measure or truncated slots, or the depth is not valid.

    Examples:
        >>> spec = Spec(n=1, k=16)
        >>> sketch = CountingMinHash(spec).add("the cat sat").add("the cat lay")
        >>> alone = CountingMinHash(spec).add("the cat sat")
        >>> bool((sketch.discard("the cat lay").snapshot() == alone.snapshot()).all())
        True
    """

    @check_arguments
    def __init__(
        self, spec: Spec, depth: int = DEPTH, resources: SpecResources = NO_RESOURCES
    ) -> None:
        if spec.measure != "jaccard" or spec.truncated:
            raise UsageError(
                f"shingles cannot be removed from signatures of measure={spec.measure!r} with "
                f"slot_bits={spec.slot_bits}; use measure='jaccard' and slot_bits=32"
            )
        NumberRange(1, MAX_DEPTH).require("depth", depth)
        self.spec = spec
        self.depth = depth
        self._shingler = resources.shingler(spec)
        self._functions = multipliers(spec)
        self._lock = Lock()
        self._clear()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    def _clear(self) -> None:
        shape = (self.spec.k, self.depth)
        self._values = np.full(shape, kernels.EMPTY, np.uint32)
        self._owners = np.zeros(shape, np.uint64)
        self._counts = np.zeros(shape, np.int64)
        self._bounds = np.full(self.spec.k, kernels.EMPTY, np.uint32)
        self._size = 0

    def __len__(self) -> int:
        """Returns the number of elements, counted with repetitions."""
        return self._size

    @check_arguments
    def add(self, text: str) -> Self:
        """Adds the shingles of a text, with repetitions.

        Raises:
            UsageError: If the text is not valid Unicode.
        """
        return self.add_hashes(self._hashes(text))

    @check_arguments
    def discard(self, text: str) -> Self:
        """Removes the shingles of a text that was added before.

        Raises:
            UsageError: If a shingle was not added. Those before it are removed. Or if the text is
                not valid Unicode.
        """
        return self.discard_hashes(self._hashes(text))

    @check_arguments
    def add_hashes(self, hashes: np.ndarray) -> Self:
        """Adds shingle hashes that the caller computed, uint64 (m,).

        Raises:
            UsageError: If they are not one row of whole numbers that are 0 or more.
        """
        added = require_hashes(hashes)
        with self._lock:
            self._change(added, 1)
        return self

    @check_arguments
    def discard_hashes(self, hashes: np.ndarray) -> Self:
        """Removes shingle hashes, uint64 (m,).

        Raises:
            UsageError: If a hash was not added. Those before it are removed. Or if they are not one
                row of whole numbers that are 0 or more.
        """
        discarded = require_hashes(hashes)
        with self._lock:
            self._change(discarded, -1)
        return self

    def _change(self, hashes: np.ndarray, step: int) -> None:
        state = (self._values, self._owners, self._counts, self._bounds)
        done = int(kernels.change_counts(hashes, step, *self._functions, *state))
        self._size += step * done
        if done < len(hashes) or self._size < 0:
            raise UsageError(
                f"element {int(hashes[min(done, len(hashes) - 1)]):016x} was not added; "
                "remove only elements that were added"
            )

    @property
    def underflowed(self) -> np.ndarray:
        """The numbers of the slots whose minimum is unknown, int64."""
        return np.flatnonzero(
            (self._values[:, 0] == kernels.EMPTY) & (self._bounds < kernels.EMPTY)
        )

    @property
    def rebuild_due(self) -> bool:
        """True if the minimum of a slot is unknown."""
        return len(self.underflowed) > 0

    def snapshot(self) -> np.ndarray:
        """Returns a copy of the signature, uint32 (k,).

        Raises:
            RebuildDueError: If the minimum of a slot is unknown.
        """
        with self._lock:
            if len(unknown := self.underflowed):
                raise RebuildDueError(
                    f"{len(unknown)} of {self.spec.k} slots have lost all their {self.depth} "
                    "smallest elements; call rebuild with the remaining elements, or use a larger "
                    "depth"
                )
            return self._values[:, 0].copy()

    @check_arguments
    def rebuild(self, hashes: np.ndarray) -> Self:
        """Replaces the content by the remaining elements, uint64 (m,) with repetitions.

        Raises:
            UsageError: If they are not one row of whole numbers that are 0 or more. The content is
                unchanged.
        """
        remaining = require_hashes(hashes)
        with self._lock:
            self._clear()
            self._change(remaining, 1)
        return self

    def _hashes(self, text: str) -> np.ndarray:
        documents = to_text_array([text])
        return np.concatenate(
            [shingles.hashes.copy() for _, shingles in iterate_shingles(self._shingler, documents)]
        )
