"""Intervals of shares and totals that are estimated from a sample."""

import math

import numpy as np

NORMAL_QUANTILE = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of a share (Wilson, JASA 1927).

    For the mean of values in [0, 1] that are not all 0 or 1, the interval is too wide rather than
    too narrow, because their variance is at most share · (1 − share).

    Examples:
        >>> [round(end, 3) for end in wilson_interval(0.95, 100)]
        [0.888, 0.978]
        >>> wilson_interval(0.5, 0)
        (0.0, 1.0)
    """
    if count == 0:
        return 0.0, 1.0
    z = NORMAL_QUANTILE
    center = share + z * z / (2 * count)
    width = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    low = max(0.0, min(share, (center - width) / scale))
    high = min(1.0, max(share, (center + width) / scale))
    return low, high


def total_interval(counts: np.ndarray, documents: int) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of a total, from a sample of its parts.

    It is the normal interval of a sample without replacement. Its upper end is raised to that of
    the share of the documents with a count above 0 (Wilson), because a sample of zeros has no
    variance.
    """
    sampled = len(counts)
    total = float(counts.mean()) * documents
    if sampled == documents:
        return total, total
    correction = math.sqrt(1 - sampled / documents)
    deviation = float(counts.std(ddof=1)) / math.sqrt(sampled) * correction
    half = NORMAL_QUANTILE * deviation * documents
    positive = counts[counts > 0]
    share_high = wilson_interval(len(positive) / sampled, sampled)[1]
    mean_positive = float(positive.mean()) if len(positive) else 1.0
    return max(0.0, total - half), max(total + half, share_high * mean_positive * documents)
