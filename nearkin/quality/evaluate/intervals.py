"""Scores with 95 % intervals that hold where errors come in clumps.

What is sampled is a document or a cluster, never a pair: the pairs of one document are found or
missed together. Variances are therefore those of the sampled units. For a ratio of two totals they
follow from the deviations of the units from the ratio (Särndal, Swensson, Wretman, *Model Assisted
Survey Sampling*, 1992, section 5.6), for other scores from the jackknife, which leaves out one unit
at a time (Efron, Stein, *The jackknife estimate of variance*, 1981).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.engine.wilson import NORMAL_QUANTILE, wilson_interval


@dataclass(frozen=True)
class Estimate:
    """A score and its 95 % interval.

    Attributes:
        value: The score.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float


class Interval(NamedTuple):
    """An interval, both ends included."""

    low: float
    high: float

    def around(self, value: float) -> Estimate:
        """Returns a score with this interval, which is widened to contain the score."""
        return Estimate(value, min(value, self.low), max(value, self.high))


@dataclass(frozen=True)
class Proportion:
    """A proportion and its 95 % interval.

    Attributes:
        value: The proportion, or 1 if nothing was counted. It differs from `hits / total` if the
            counted items were drawn with unequal probabilities.
        hits: Number of counted items with a property.
        total: Number of counted items.
        low: Lower end of the interval.
        high: Upper end of the interval.

    Examples:
        >>> proportion = Proportion.from_counts(95, 100)
        >>> proportion.value, round(proportion.low, 3), round(proportion.high, 3)
        (0.95, 0.888, 0.978)
    """

    value: float
    hits: int
    total: int
    low: float
    high: float

    @classmethod
    def from_counts(cls, hits: int, total: int) -> "Proportion":
        """Computes a proportion of items that were drawn one by one, with its Wilson interval.

        The interval is [0, 1] if nothing was counted.
        """
        if total == 0:
            return cls(1.0, 0, 0, 0.0, 1.0)
        low, high = wilson_interval(hits / total, total)
        return cls(hits / total, hits, total, low, high)

    @classmethod
    def from_estimate(cls, estimate: Estimate, hits: int, total: int) -> "Proportion":
        """Returns an estimated proportion with the counts of its sample."""
        return cls(estimate.value, hits, total, estimate.low, estimate.high)


def estimate_ratio(
    numerators: np.ndarray, denominators: np.ndarray, inclusion: np.ndarray
) -> Estimate:
    """Estimates the ratio of two totals of a population from a sample of its units.

    The interval allows for one more unit that deviates and was not seen (see `gamma_interval`): as
    much as the largest deviation that was seen, or as a unit of average size among those that are
    drawn most rarely.

    Args:
        numerators: Numerator of each sampled unit, float64 (m,), between 0 and its denominator.
        denominators: Denominator of each sampled unit, float64 (m,).
        inclusion: Probability with which each unit was drawn, float64 (m,), in (0, 1].

    Examples:
        >>> every_unit = np.ones(2)
        >>> estimate_ratio(np.array([1.0, 3.0]), np.array([2.0, 6.0]), every_unit)
        Estimate(value=0.5, low=0.5, high=0.5)
    """
    weights = 1 / inclusion
    total = float((weights * denominators).sum())
    if total == 0:
        return Estimate(1.0, 0.0, 1.0)
    value = float((weights * numerators).sum()) / total
    is_chance = 1 - inclusion
    shares = weights * denominators / total
    if not is_chance.any():
        return Estimate(value, value, value)
    # Dividing by 1 − share corrects for the pull of a unit on the ratio (as the jackknife does).
    deviations = weights * (numerators - value * denominators) / total
    deviations = deviations / np.maximum(1 - shares, 0.5)
    variances = is_chance * deviations**2
    has_items = denominators > 0
    mean_share = 1 / float(weights[has_items].sum())
    largest_weight = float(weights[inclusion < 1].max())
    unseen = max(math.sqrt(float(variances.max())), largest_weight * mean_share)
    return _interval_of_share(value, float(variances.sum()), unseen).around(value)


def _interval_of_share(value: float, variance: float, unseen: float) -> Interval:
    """Returns the interval of a share, from that of its rarer side."""
    rare = gamma_interval(min(value, 1 - value), variance, unseen)
    if value <= 0.5:
        return Interval(rare.low, min(1.0, rare.high))
    return Interval(max(0.0, 1 - rare.high), 1 - rare.low)


def gamma_interval(rate: float, variance: float, unseen: float) -> Interval:
    """Returns the interval of a rate of rare events that have different weights.

    The upper end allows for one more event that was not seen (Fay, Feuer, *Confidence intervals for
    directly standardized rates: a method based on the gamma distribution*, 1997).

    Examples:
        >>> low, high = gamma_interval(0.0, 0.0, 0.01)  # no event: 3.69 events or fewer
        >>> low, round(high, 3)
        (0.0, 0.037)
    """
    low = 0.0
    if rate > 0 and variance > 0:
        low = variance / (2 * rate) * _chi_square_quantile(2 * rate**2 / variance, -NORMAL_QUANTILE)
    most_rate = rate + unseen
    most_variance = variance + unseen**2
    degrees = 2 * most_rate**2 / most_variance
    high = most_variance / (2 * most_rate) * _chi_square_quantile(degrees, NORMAL_QUANTILE)
    return Interval(min(low, rate), max(high, rate))


def _chi_square_quantile(degrees: float, normal_quantile: float) -> float:
    """Returns a quantile of the χ² distribution (Wilson, Hilferty 1931)."""
    step = 2 / (9 * degrees)
    return degrees * max(0.0, 1 - step + normal_quantile * math.sqrt(step)) ** 3


def estimate_score(value: float, without_each: np.ndarray, sizes: np.ndarray) -> Estimate:
    """Estimates a score with the jackknife.

    The interval allows for one more unit that deviates as much as the largest one that was seen
    (see `gamma_interval`). It also contains Wilson's interval (1927) for the effective number of
    units (Kish, *Survey Sampling*, 1965), because a sample with few large clusters has not seen all
    of their errors.

    Args:
        without_each: Score without each of the units, float64 (m,).
        sizes: Number of items of each unit on which the score rests, float64 (m,).
    """
    units = len(without_each)
    total = float(sizes.sum())
    if total == 0:
        return Interval(0.0, 1.0).around(value)
    share = min(max(value, 0.0), 1.0)
    interval = Interval._make(wilson_interval(share, total**2 / float((sizes**2).sum())))
    variances = (without_each - value) ** 2 * max(units - 1, 1) / units
    unseen = math.sqrt(float(variances.max()))
    if unseen > 0:
        jackknifed = _interval_of_share(share, float(variances.sum()), unseen)
        interval = Interval(min(interval.low, jackknifed.low), max(interval.high, jackknifed.high))
    return interval.around(value)
