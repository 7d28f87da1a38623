"""The estimated similarity of two documents from their signatures alone."""

import numpy as np

from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments
from nearkin.settings.spec import HAMMING, Spec
from nearkin.stages.lsh.kernels import pair_agreements
from nearkin.stages.measures.base import BandingRequest, band_layout_of
from nearkin.stages.measures.registry import measure_of

NO_KEYS = np.empty((0, 0), np.uint64)


@check_arguments
def estimate(a: np.ndarray, b: np.ndarray, spec: Spec | None = None) -> float:
    """Returns the estimated similarity of two documents, by the measure of their Spec.

    Args:
        a: Signature of the first document, (w,).
        b: Signature of the second document, (w,), of the same Spec.
        spec: Spec of the signatures. By default, they are whole MinHash slots, uint32 (k,).

    Raises:
        UsageError: If the arrays are not signatures of the Spec.

    Examples:
        >>> a = np.array([1, 1, 5, 7, 2, 2, 3, 9], np.uint32)
        >>> estimate(a, np.array([3, 1, 5, 7, 2, 2, 3, 9], np.uint32))
        0.875
        >>> a, b = np.array([[0], [0xFFFF]], np.uint64)
        >>> round(estimate(a, b, Spec(measure="simhash")), 3)
        0.707
    """
    if spec is None:
        spec = Spec(k=len(a))
    dtype = spec.signature_type
    shape = (spec.signature_width,)
    if not a.dtype == b.dtype == dtype or not a.shape == b.shape == shape:
        raise UsageError(
            f"signatures of this Spec are {np.dtype(dtype)} {shape}, not {a.dtype} {a.shape} and "
            f"{b.dtype} {b.shape}; pass the Spec of the signatures"
        )
    measure = measure_of(spec)
    request = BandingRequest(0.8, 0.5, bands=1, rows=1)
    if spec.measure == HAMMING:
        # A distance chooses its own bands. The layout of the signatures is read, and no band.
        request = BandingRequest(0.8, 0.5)
    banding = measure.banding(request)
    band_layout = band_layout_of(spec, banding, NO_KEYS)
    agreeing = np.empty(1, np.int64)
    pair = np.ones(1, np.uint64)
    pair_agreements(pair, np.stack([a, b]), band_layout.layout, agreeing)
    return float(measure.estimator.estimate(pair, agreeing).similarity[0])
