"""Documents that are too short for the shingles of a run, so that edited copies are not found."""

import math
from typing import NamedTuple

import numpy as np

from nearkin.settings.spec import Spec

NOTABLE_SINGLE_SHARE = 0.1
"""The share of documents with one shingle from which a run warns."""
NOTABLE_FRAGILE_SHARE = 0.5
"""The share of fragile documents from which a run warns."""
USUAL_THRESHOLD = 0.8
"""The largest threshold by which documents are judged as short. A user who sets a higher one does
not want copies with small edits, so a document does not count as short because it cannot have any.
"""


class ShortDocumentCounts(NamedTuple):
    """The numbers of documents that are too short for their shingles."""

    single: int
    """The number of documents with one shingle, which are not longer than it."""
    fragile: int
    """The number of documents of which a copy with one changed word is below the threshold. The
    documents with one shingle are included."""

    def is_notable(self, documents: int) -> bool:
        """Returns True if so many documents are short that a run warns of them."""
        is_notable_single = self.single >= NOTABLE_SINGLE_SHARE * documents
        is_notable_fragile = self.fragile >= NOTABLE_FRAGILE_SHARE * documents
        return documents > 0 and (is_notable_single or is_notable_fragile)


def fewest_robust_shingles(spec: Spec, threshold: float) -> int:
    """Returns the number of shingles from which a copy with one changed unit reaches a threshold.

    A word in the middle of a document is in n shingles. If it is replaced, m − n of m shingles
    remain, so that the Jaccard similarity is (m − n)/(m + n) and the cosine is (m − n)/m.

    Examples:
        >>> fewest_robust_shingles(Spec(), 0.8), fewest_robust_shingles(Spec(n=1), 0.5)
        (27, 3)
        >>> fewest_robust_shingles(Spec(measure="simhash"), 0.8)
        15
    """
    limit = min(threshold, USUAL_THRESHOLD)
    lost = spec.n * (1 + limit) if spec.measure != "simhash" else spec.n
    return math.ceil(lost / (1 - limit) - 1e-9)


def count_short_documents(
    shingles: np.ndarray, spec: Spec, threshold: float
) -> ShortDocumentCounts:
    """Counts the documents that are too short for their shingles.

    Documents without shingles do not count.

    Args:
        shingles: Number of shingles of each document, integers (n,).

    Examples:
        >>> count_short_documents(np.array([0, 1, 5, 27]), Spec(), 0.8)
        ShortDocumentCounts(single=1, fragile=2)
    """
    if not spec.has_shingles:
        return ShortDocumentCounts(0, 0)
    has_shingles = shingles > 0
    single = int(np.count_nonzero(shingles == 1))
    robust = fewest_robust_shingles(spec, threshold)
    return ShortDocumentCounts(single, int(np.count_nonzero(has_shingles & (shingles < robust))))
