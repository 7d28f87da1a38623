"""Weights of columns for duplicates, found without labels (Fellegi and Sunter 1969).

The values of a column of two rows are compared, and their similarity is one of a few levels. A pair
of similar rows belongs to one of a few classes: duplicates, members of a household, or rows that
are alike by chance. Within a class the levels of the columns are independent. The classes are found
by expectation maximization (Dempster, Laird, Rubin 1977; for records: Winkler, *Using the EM
algorithm for weight computation in the Fellegi-Sunter model*, 1988), for several numbers of
classes. The classes whose values agree most are taken for duplicates.

Which number of classes is right does not follow from the likelihood. So several proposals are made,
and the words by which their pairs differ decide (see `nearkin.runs.choose_weights`). A proposal is
a sum of one weight for each column: the logistic regression that comes nearest to the probabilities
of the classes. It accounts for columns that depend on each other, such as city and postcode.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nearkin.engine.pair_acceptance import add_weights, weigh_similarities
from nearkin.quality.fit.pair_model import to_probability
from nearkin.settings.acceptance.expression import ColumnWeights, WeightLevel

LEAST = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The smallest similarity of the values of each level."""
MISSING = -1
"""The level of a pair of values of which one is missing."""
SIMILARITIES = np.array([*LEAST, np.nan])
"""A similarity of each level. The last one is that of `MISSING`."""
NUMBERS_OF_CLASSES = (2, 3, 4)
MOST_STEPS = 200
TOLERANCE = 1e-6
"""The relative change of the likelihood at which the classes are final."""
INITIAL_SHARE = 0.9
"""The share of a pair that the class of its rank has before the first step."""
SMOOTHING = 1.0
"""The number of further pairs of a class, whose levels are those of all pairs."""
LEAST_FREQUENCY = 1e-3
WEIGHT_PRECISION = 0.3
"""The precision of the prior of weights, whose mean is 0."""
NEWTON_STEPS = 60
WEIGHT_TOLERANCE = 1e-4
LEAST_DIFFERENCE = 0.3
"""The difference of the weights of two levels, in bits, below which they become one."""
WEIGHT_DIGITS = 1
"""The number of decimal digits of weights in bits."""


class Proposal(NamedTuple):
    """Weights of columns that may tell duplicates from other similar pairs."""

    columns: tuple[ColumnWeights, ...]
    even: float
    """The sum of the weights from which a pair is more likely of duplicates than not."""
    totals: np.ndarray
    """float64 (m,): The sum of the weights of each pair, in bits."""

    def least(self, probability: float) -> float:
        """Returns the sum of the weights of pairs that are duplicates with a probability."""
        odds = float(np.log2(probability / (1 - probability)))
        return round(self.even + odds, WEIGHT_DIGITS)


def level_of(similarities: np.ndarray) -> np.ndarray:
    """Returns the level of each similarity, int64 of any shape.

    Examples:
        >>> level_of(np.array([1.0, 0.99, 0.1, np.nan])).tolist()
        [5, 4, 0, -1]
    """
    levels = np.searchsorted(LEAST, similarities, side="right") - 1
    return np.where(np.isnan(similarities), MISSING, levels)


def propose_weights(
    columns: Sequence[str], levels: np.ndarray, is_learned: np.ndarray
) -> Iterator[Proposal]:
    """Yields weights that may tell duplicates from other similar pairs.

    Args:
        columns: Names of the columns.
        levels: Level of each pair in each column, int64 (m, columns).
        is_learned: Whether the classes are found among a pair, bool (m,).
    """
    learned = levels[is_learned]
    indicators = _indicate(learned)
    for classes in NUMBERS_OF_CLASSES:
        shares = _find_classes(learned, indicators, classes)
        for duplicates in range(1, classes):
            weights, constant = _fit_weights(indicators, shares[:, :duplicates].sum(axis=1))
            of_levels = weights.reshape(len(columns), len(LEAST)) / np.log(2)
            described = _describe(columns, of_levels, learned)
            if described:
                totals = _weigh(described, columns, levels)
                yield Proposal(described, float(-constant / np.log(2)), totals)


def _indicate(levels: np.ndarray) -> np.ndarray:
    """Returns 1 for the level of each column of each pair, float64 (m, columns * levels)."""
    indicators = levels[:, :, None] == np.arange(len(LEAST))
    return indicators.reshape(len(levels), -1).astype(float)


def _find_classes(levels: np.ndarray, indicators: np.ndarray, classes: int) -> np.ndarray:
    """Returns the probability of each class for each pair, float64 (m, classes).

    The class whose values agree most is the first one.
    """
    pairs, columns = levels.shape
    is_present = levels != MISSING
    agreement = np.where(is_present, levels, 0).sum(axis=1) / np.maximum(is_present.sum(axis=1), 1)
    ranks = np.argsort(np.argsort(-agreement, kind="stable"))
    shares = np.full((pairs, classes), (1 - INITIAL_SHARE) / classes)
    shares[np.arange(pairs), ranks * classes // max(pairs, 1)] += INITIAL_SHARE
    usual = indicators.mean(axis=0).reshape(columns, -1)
    usual = usual / np.maximum(usual.sum(axis=1, keepdims=True), LEAST_FREQUENCY)
    before = -np.inf
    for _ in range(MOST_STEPS):
        sizes = (shares.sum(axis=0) + SMOOTHING) / (pairs + classes * SMOOTHING)
        counts = (shares.T @ indicators).reshape(classes, columns, -1)
        frequencies = counts + SMOOTHING * usual + LEAST_FREQUENCY
        frequencies /= frequencies.sum(axis=2, keepdims=True)
        logs = np.log(sizes) + indicators @ np.log(frequencies).reshape(classes, -1).T
        largest = logs.max(axis=1, keepdims=True)
        shares = np.exp(logs - largest)
        totals = shares.sum(axis=1, keepdims=True)
        shares /= totals
        likelihood = float((largest + np.log(totals)).sum())
        if likelihood - before < TOLERANCE * abs(likelihood):
            break
        before = likelihood
    means = frequencies @ np.arange(len(LEAST))
    return shares[:, np.argsort(-means.sum(axis=1), kind="stable")]


def _fit_weights(indicators: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns the weights of all levels, and the constant, that come nearest to probabilities.

    They are those of a logistic regression, in natural logarithms of odds. More similar values
    never speak less for duplicates: a level whose weight would fall gets that of the one below.

    Args:
        indicators: Whether a pair has each level of each column, float64 (m, columns * levels).
        probabilities: Probability that a pair are duplicates, float64 (m,).
    """
    levels = len(LEAST)
    pairs = len(indicators)
    # the weight of a level is the sum of the steps up to it
    reached = indicators.reshape(pairs, -1, levels)[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    features = np.column_stack([reached.reshape(pairs, -1), np.ones(pairs)])
    is_step = np.arange(features.shape[1]) % levels != 0
    is_step[-1] = False
    is_free = np.ones(features.shape[1], bool)
    steps = np.zeros(features.shape[1])
    while True:
        steps[:] = 0.0
        steps[is_free] = _regress(features[:, is_free], probabilities)
        falls = is_step & (steps < 0)
        if not falls.any():
            return steps[:-1].reshape(-1, levels).cumsum(axis=1).ravel(), float(steps[-1])
        is_free &= ~falls


def _regress(features: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Returns the coefficients of a logistic regression, by Newton's method."""
    coefficients = np.zeros(features.shape[1])
    prior = WEIGHT_PRECISION * np.eye(features.shape[1])
    for _ in range(NEWTON_STEPS):
        expected = to_probability(features @ coefficients)
        gradient = features.T @ (probabilities - expected) - WEIGHT_PRECISION * coefficients
        spread = expected * (1 - expected)
        curvature = (features * spread[:, None]).T @ features + prior
        step = np.linalg.solve(curvature, gradient)
        coefficients += step
        if np.abs(step).max() < WEIGHT_TOLERANCE:
            break
    return coefficients


def _describe(
    columns: Sequence[str], weights: np.ndarray, levels: np.ndarray
) -> tuple[ColumnWeights, ...]:
    """Returns weights in bits, float64 (columns, levels), as an expression has them.

    Levels of nearly equal weight become one, and columns without weight are left out.
    """
    described = []
    for position, column in enumerate(columns):
        counts = np.bincount(levels[levels[:, position] != MISSING, position], minlength=len(LEAST))
        merged = _merge_levels(weights[position], counts)
        if any(level.weight for level in merged):
            described.append(ColumnWeights(column, tuple(reversed(merged))))
    return tuple(described)


def _merge_levels(weights: np.ndarray, counts: np.ndarray) -> list[WeightLevel]:
    """Returns the weights of the levels of a column, the lowest level first."""
    merged: list[WeightLevel] = []
    sums: list[tuple[float, float]] = []
    for least, weight, count in zip(LEAST, weights.tolist(), counts.tolist(), strict=True):
        weighted = (weight * (count + 1), count + 1.0)
        if sums and abs(sums[-1][0] / sums[-1][1] - weight) < LEAST_DIFFERENCE:
            sums[-1] = (sums[-1][0] + weighted[0], sums[-1][1] + weighted[1])
        else:
            sums.append(weighted)
            merged.append(WeightLevel(least, 0.0))
    return [
        level._replace(weight=round(total / count, WEIGHT_DIGITS))
        for level, (total, count) in zip(merged, sums, strict=True)
    ]


def _weigh(
    weights: Sequence[ColumnWeights], columns: Sequence[str], levels: np.ndarray
) -> np.ndarray:
    """Returns the sum of the weights of each pair, float64 (m,)."""
    of_columns = [
        weigh_similarities(column, SIMILARITIES[levels[:, columns.index(column.column)]])
        for column in weights
    ]
    return add_weights(np.array(of_columns))
