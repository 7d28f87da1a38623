"""Candidates among unrelated texts, on a finer grid than that of quality.plan.background."""

import numpy as np

from nearkin.quality.plan.background import read_background


def measured_share(bands: int, rows: int) -> float:
    """Returns the share of unrelated texts that are candidates, from the recorded quantiles."""
    places, shares = np.array(read_background()["kinds"]["jaccard words:3"]).T
    s = (np.arange(1_000_000) + 0.5) / 1_000_000 * places[-1]
    above = np.exp(np.interp(s, places, np.log(shares)))
    probability = 1 - (1 - s**rows) ** bands
    return float((probability[:-1] * -np.diff(above)).sum() + probability[-1] * above[-1])
