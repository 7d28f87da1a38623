"""The interval of a share that is estimated from a sample, after Wilson (1927)."""

import math

NORMAL_QUANTILE = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of a share (Wilson, JASA 1927).

    For the mean of values in [0, 1] that are not all 0 or 1, the interval is too wide rather than
    too narrow, because their variance is at most share · (1 − share).

    Args:
        share: Mean of the sample, in [0, 1].
        count: Size of the sample, or its effective size. The interval of an empty sample
            is [0, 1].

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
