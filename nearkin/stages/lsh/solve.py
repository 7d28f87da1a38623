"""Bisection, and the rule that sets the margin of the prefilter."""

import math
from collections.abc import Callable

from nearkin.stages.lsh.curve import pass_probability

MAX_PASS_RATE = 0.9999
"""The largest share of the pairs at the threshold that a margin is required to let through."""


def smallest_integer(condition: Callable[[int], bool], low: int, high: int) -> int:
    """Returns the smallest integer that satisfies a monotone condition, by bisection.

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
    """Returns the largest number of agreeing slots that pairs reach with a given probability."""

    def passes_too_few(agreements: int) -> bool:
        return pass_probability(k, agreements, collision) < pass_rate

    return smallest_integer(passes_too_few, 1, k + 1) - 1


def prefilter_margin(k: int, collision: float, recall: float, candidate_recall: float) -> int:
    """Returns the margin of the prefilter: the agreeing slots that a candidate needs.

    The margin is as large as the required recall allows. If the bands do not reach that recall by
    themselves, the margin lets MAX_PASS_RATE of the pairs at the threshold through.
    """
    pass_rate = MAX_PASS_RATE
    if candidate_recall > recall:
        pass_rate = min(recall / candidate_recall, MAX_PASS_RATE)
    return largest_margin(k, collision, pass_rate)
