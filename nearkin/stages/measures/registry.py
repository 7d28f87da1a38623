"""The choice of the measure that a Spec names."""

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import HAMMING, IDF_JACCARD, Spec
from nearkin.stages.measures.base import Measure
from nearkin.stages.measures.cosine import Cosine, SimHash
from nearkin.stages.measures.hamming import GivenFingerprints, Hamming
from nearkin.stages.measures.jaccard import IdfJaccard, Jaccard, WeightedJaccard
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources

SLOT_MEASURE_TYPES: dict[str, type[Jaccard] | type[WeightedJaccard] | type[IdfJaccard]] = {
    "jaccard": Jaccard,
    "weighted-jaccard": WeightedJaccard,
    IDF_JACCARD: IdfJaccard,
}
"""The measures with MinHash signatures, by their names."""


def measure_of(
    spec: Spec, resources: SpecResources = NO_RESOURCES, distance: int | None = None
) -> Measure:
    """Returns the measure that a Spec names.

    Examples:
        >>> type(measure_of(Spec())).__name__
        'Jaccard'
        >>> type(measure_of(Spec(measure="simhash"), distance=3)).__name__
        'Hamming'
    """
    if spec.has_slots:
        if distance is not None:
            raise UsageError(
                f"distance {distance} is only for measures simhash and cosine, and for "
                f"fingerprints, not {spec.measure}; "
                f"use {name_setting('threshold')}"
            )
        return SLOT_MEASURE_TYPES[spec.measure](spec, resources)
    if spec.measure == HAMMING:
        return Hamming(GivenFingerprints(spec), distance or 0)
    kind = SimHash if spec.measure == "simhash" else Cosine
    signs = kind(spec, resources)
    return signs if distance is None else Hamming(signs, distance)
