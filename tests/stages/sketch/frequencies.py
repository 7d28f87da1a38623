"""Document frequencies for the tests of weighted signatures."""

import numpy as np

from nearkin.stages.sketch.resources import DocumentFrequencies


def make_frequencies() -> DocumentFrequencies:
    """Returns the frequencies of about 500 random shingles among 1000 documents."""
    rng = np.random.default_rng(3)
    values = np.unique(rng.integers(0, 2**63, 500, np.uint64))
    return DocumentFrequencies(1000, values, rng.integers(2, 900, len(values)).astype(np.uint32))
