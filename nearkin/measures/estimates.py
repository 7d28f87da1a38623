"""Similarity of two documents from their signatures alone."""

import numpy as np

from nearkin.errors import UsageError
from nearkin.lsh.kernels import pair_agreements
from nearkin.measures.base import Request
from nearkin.measures.registry import measure_of
from nearkin.spec import Spec

NO_KEYS = np.empty((0, 0), np.uint64)


def estimate(a: np.ndarray, b: np.ndarray, spec: Spec | None = None) -> float:
    """Estimated similarity of two documents, by the measure of their Spec.

    Args:
        a: (w,) signature.
        b: (w,) signature of the same Spec.
        spec: Theirs; by default whole MinHash slots, uint32 (k,), of Jaccard similarity.

    Raises:
        UsageError: The arrays are no signatures of the Spec.

    Examples:
        >>> estimate(np.array([1, 1, 5, 7, 2, 2, 3, 9], np.uint32), np.array([3, 1, 5, 7, 2, 2, 3, 9], np.uint32))
        0.875
        >>> a, b = np.array([[0], [0xFFFF]], np.uint64)
        >>> round(estimate(a, b, Spec(measure="simhash")), 3)
        0.707
    """
    spec = spec or Spec(k=len(a))
    if not a.dtype == b.dtype == spec.signature_type or not a.shape == b.shape == (spec.signature_width,):
        raise UsageError(
            f"signatures of this Spec are {np.dtype(spec.signature_type)} ({spec.signature_width},), not {a.dtype} {a.shape} "
            f"and {b.dtype} {b.shape}; give the Spec that they were made with"
        )
    measure = measure_of(spec)
    band_layout = measure.band_layout(measure.banding(Request(0.8, 0.5, 1, 1)), NO_KEYS)
    agreeing, pair = np.empty(1, np.int64), np.ones(1, np.uint64)
    pair_agreements(pair, np.stack([a, b]), band_layout.layout, agreeing)
    return float(measure.estimate(pair, agreeing).similarity[0])
