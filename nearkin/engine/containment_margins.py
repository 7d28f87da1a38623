"""The lookup of a document's smallest shingle hashes in others.

If a share c of document A's shingles is in B, each of A's m smallest shingle hashes is in B with
probability c. So the number of hits is binomial, and a margin at the quantile of the recall decides
which pairs are candidates.
"""

import numpy as np

from nearkin.stages.lsh.solve import MAX_PASS_RATE, largest_margin

SMALLEST = 64
"""Number of hashes of a document that are looked up (m)."""


def containment_margins(threshold: float, recall: float, most: int) -> np.ndarray:
    """Returns the number of hits that a candidate pair needs, int64 (most + 1,).

    It is given by the number of hashes that are looked up, and cannot be reached without any.
    """
    pass_rate = min(recall, MAX_PASS_RATE)
    margin_of = [largest_margin(hashes, threshold, pass_rate) for hashes in range(most + 1)]
    margin_of[0] = most + 1
    return np.maximum(np.array(margin_of, np.int64), 1)
