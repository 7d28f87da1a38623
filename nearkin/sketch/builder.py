"""A signature that grows while its document arrives."""

from threading import Lock
from typing import Self

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.sketch.minhash import EMPTY_SLOT, scheme_of
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.sketch.sketcher import Sketcher
from nearkin.spec import Spec


class MinHashBuilder:
    """Folds pieces of text into one signature; safe under concurrent updates.

    Each piece is shingled by itself: the result is the signature of the union of the pieces' shingle sets, whatever
    their order and however often one arrives. Minima commute, so threads sketch alone and only the fold is locked.

    Examples:
        >>> whole = MinHashBuilder(Spec(k=16))
        >>> whole.update("the cat sat on the mat").update("a dog lay on a rug").snapshot().shape
        (16,)
    """

    def __init__(self, spec: Spec, resources: SpecResources = NO_RESOURCES) -> None:
        if spec.measure != "jaccard" or spec.slot_bits != 32:
            raise UsageError(
                f"signatures of measure={spec.measure!r} with slot_bits={spec.slot_bits} cannot stream or merge: only whole "
                "MinHash slots of sets can; use slot_bits=32"
            )
        self.spec, self.resources = spec, resources
        self._slots = np.full(spec.k, EMPTY_SLOT, np.uint32)
        self._lock = Lock()

    def update(self, *pieces: str) -> Self:
        """Adds the shingles of each piece of text."""
        signatures = Sketcher(self.spec, self.resources).sketch(pa.array(pieces, pa.large_string())).signatures
        return self._fold(signatures.min(axis=0, initial=EMPTY_SLOT))

    def update_hashes(self, hashes: np.ndarray) -> Self:
        """Adds shingle hashes, uint64 (m,), of the caller's own making."""
        slots = np.full(self.spec.k, EMPTY_SLOT, np.uint32)
        scheme_of(self.spec).update(np.ascontiguousarray(hashes, np.uint64), slots)
        return self._fold(slots)

    def merge(self, other: "MinHashBuilder | np.ndarray") -> Self:
        """Adds everything another builder of the same Spec, or a signature uint32 (k,), has seen."""
        if isinstance(other, MinHashBuilder):
            self.spec.require(other.spec, "the builder to merge")
            return self._fold(other.snapshot())
        if other.shape != self._slots.shape or other.dtype != np.uint32:
            raise UsageError(f"a signature of this Spec is uint32 ({self.spec.k},), not {other.dtype} {other.shape}")
        return self._fold(other)

    def snapshot(self) -> np.ndarray:
        """The signature of all that was added so far, uint32 (k,); a copy."""
        with self._lock:
            return self._slots.copy()

    def _fold(self, slots: np.ndarray) -> Self:
        with self._lock:
            np.minimum(self._slots, slots, out=self._slots)
        return self
