"""A builder of signatures of documents that arrive in parts."""

from threading import Lock
from typing import Self

import numpy as np

from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments, check_type
from nearkin.runtime.arrow_types import to_text_array
from nearkin.settings.spec import Spec
from nearkin.stages.hashing.families import require_hashes
from nearkin.stages.sketch.minhash import EMPTY_SLOT, scheme_of
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.sketcher import Sketcher


class MinHashBuilder:
    """A builder that combines parts of a text into one signature. It is safe for use by threads.

    Each part is split into shingles separately. The result is the signature of the union of the
    shingle sets, independent of the order of the parts and of repetitions. Minima commute, so
    threads sketch independently, and only the combination is locked.

    Args:
        spec: Spec of measure `jaccard` with whole slots.
        resources: Key and cut shingles that the Spec refers to.

    Raises:
        UsageError: If signatures of the Spec cannot be merged.

    Examples:
        >>> whole = MinHashBuilder(Spec(k=16))
        >>> whole.update("the cat sat on the mat").update("a dog lay on a rug").snapshot().shape
        (16,)
    """

    @check_arguments
    def __init__(self, spec: Spec, resources: SpecResources = NO_RESOURCES) -> None:
        if spec.measure != "jaccard" or spec.slot_bits != 32:
            raise UsageError(
                f"signatures of measure={spec.measure!r} with slot_bits={spec.slot_bits} cannot be "
                "built in parts or merged; use measure='jaccard' and slot_bits=32"
            )
        self.spec = spec
        self.resources = resources
        self._slots = np.full(spec.k, EMPTY_SLOT, np.uint32)
        self._lock = Lock()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    def update(self, *parts: str) -> Self:
        """Adds the shingles of each part of the text.

        Raises:
            UsageError: If a part is not valid Unicode.
        """
        check_type("parts", parts, tuple[str, ...])
        texts = to_text_array(parts)
        signatures = Sketcher(self.spec, self.resources).sketch(texts).signatures
        return self._combine(signatures.min(axis=0, initial=EMPTY_SLOT))

    @check_arguments
    def update_hashes(self, hashes: np.ndarray) -> Self:
        """Adds shingle hashes that the caller computed, uint64 (m,).

        Raises:
            UsageError: If they are not one row of whole numbers that are 0 or more.
        """
        slots = np.full(self.spec.k, EMPTY_SLOT, np.uint32)
        scheme_of(self.spec).update(require_hashes(hashes), slots)
        return self._combine(slots)

    @check_arguments
    def merge(self, other: "MinHashBuilder | np.ndarray") -> Self:
        """Adds the shingles of another builder, or of a signature, of the same Spec.

        Args:
            other: Builder, or signature, uint32 (k,).

        Raises:
            IncompatibleError: If the other builder has another Spec.
            UsageError: If the signature has another type or shape.
        """
        if isinstance(other, MinHashBuilder):
            self.spec.require(other.spec, "the builder to merge")
            return self._combine(other.snapshot())
        if other.shape != self._slots.shape or other.dtype != np.uint32:
            raise UsageError(
                f"a signature of this Spec is uint32 ({self.spec.k},), not {other.dtype} "
                f"{other.shape}"
            )
        return self._combine(other)

    def snapshot(self) -> np.ndarray:
        """Returns a copy of the signature of everything added so far, uint32 (k,)."""
        with self._lock:
            return self._slots.copy()

    def _combine(self, slots: np.ndarray) -> Self:
        with self._lock:
            np.minimum(self._slots, slots, out=self._slots)
        return self
