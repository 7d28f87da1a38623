"""Bisection, and the rule that sets the margin of the prefilter."""

import math
from collections.abc import Callable

from nearkin.lsh.curve import pass_probability

MAX_PASS_RATE = 0.9999
"""The largest share of the pairs at the threshold that a margin is required to let through."""


def smallest_integer(condition: Callable[[int], bool], low: int, high: int) -> int:
    """Returns the smallest integer that satisfies a monotone condition, by bisection.

    Args:
        condition: Is false below some integer and true from it on.
        low: The smallest possible result.
        high: The largest possible result. It is returned if no smaller integer qualifies, and the
            condition is not evaluated for it.

    Examples:
        >>> smallest_integer(lambda x: x * x >= 50, 0, 100)
        8
    """
    while low < high:
        middle = (low + high) // 2
        if condition(middle):
            high = middle
        else:
            low = middle + 1
    return low


def find_similarity(curve: Callable[[float], float], probability: float) -> float:
    """Returns the similarity at which a rising curve reaches a probability, by bisection.

    Args:
        curve: A non-decreasing function over [0, 1].
        probability: The value to reach.

    Returns:
        A similarity in [0, 1], or NaN if the curve starts above the probability or ends below it.

    Examples:
        >>> round(find_similarity(lambda s: 1 - (1 - s**5) ** 20, 0.5), 3)
        0.509
    """
    low = 0.0
    high = 1.0
    if curve(low) > probability or curve(high) < probability:
        return math.nan
    for _ in range(60):
        middle = (low + high) / 2
        if curve(middle) < probability:
            low = middle
        else:
            high = middle
    return high


def largest_margin(k: int, collision: float, pass_rate: float) -> int:
    """Returns the largest number of agreeing slots that pairs reach with a given probability.

    Args:
        k: Number of slots of a signature.
        collision: Probability that one slot agrees, in (0, 1].
        pass_rate: Minimum probability that at least as many slots agree as the result says.
    """

    def passes_too_few(agreements: int) -> bool:
        return pass_probability(k, agreements, collision) < pass_rate

    return smallest_integer(passes_too_few, 1, k + 1) - 1


def prefilter_margin(k: int, collision: float, recall: float, candidate_recall: float) -> int:
    """Returns the margin of the prefilter: the agreeing slots that a candidate needs.

    The margin is as large as the required recall allows. If the bands do not reach that recall by
    themselves, the margin lets MAX_PASS_RATE of the pairs at the threshold through.

    Args:
        k: Number of slots of a signature.
        collision: Probability that one slot agrees at the threshold, in (0, 1].
        recall: Required recall at the threshold, in (0, 1).
        candidate_recall: Candidate probability of the bands at the threshold, in [0, 1].
    """
    pass_rate = MAX_PASS_RATE
    if candidate_recall > recall:
        pass_rate = min(recall / candidate_recall, MAX_PASS_RATE)
    return largest_margin(k, collision, pass_rate)
