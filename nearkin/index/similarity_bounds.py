"""Lower bounds of similarities between documents that cannot be compared any more."""

import math

from nearkin.settings.spec import SLOT_MEASURES


def similarity_bound(measure: str, first: float, second: float) -> float:
    """Returns the least similarity of two documents whose similarities to a third one are known.

    Jaccard distances (1 − J, also of weighted sets) and angles are metrics, so the triangle
    inequality applies to them. Source: Lipkus, *A proof of the triangle inequality for the Tanimoto
    distance* (1999).

    Examples:
        >>> round(similarity_bound("jaccard", 0.9, 0.8), 3)
        0.7
        >>> round(similarity_bound("cosine", 0.9, 0.8), 3)
        0.458
    """
    if measure in SLOT_MEASURES:
        return max(0.0, first + second - 1)
    angle = math.acos(min(1.0, first)) + math.acos(min(1.0, second))
    return max(0.0, math.cos(min(angle, math.pi)))
