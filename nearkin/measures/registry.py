"""The measure that a Spec names."""

from nearkin.errors import UsageError
from nearkin.measures.base import Measure
from nearkin.measures.minhash import Jaccard, WeightedJaccard
from nearkin.measures.signs import Cosine, Hamming, SimHash
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.spec import Spec


def measure_of(spec: Spec, resources: SpecResources = NO_RESOURCES, distance: int | None = None) -> Measure:
    """The measure of a Spec; with a distance, Hamming distance over its signatures.

    Examples:
        >>> type(measure_of(Spec())).__name__, type(measure_of(Spec(measure="simhash"), distance=3)).__name__
        ('Jaccard', 'Hamming')
    """
    if spec.measure in ("jaccard", "weighted-jaccard"):
        if distance is not None:
            raise UsageError(f"distance {distance} is of signs: choose measure simhash or cosine, or give a threshold")
        return (Jaccard if spec.measure == "jaccard" else WeightedJaccard)(spec, resources)
    signs = SimHash(spec, resources) if spec.measure == "simhash" else Cosine(spec, resources)
    return signs if distance is None else Hamming(signs, distance)
