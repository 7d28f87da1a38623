"""A model of the probability that a pair of documents are duplicates, learned from few answers.

It is a Bayesian logistic regression. Its main feature is the rank of a pair by similarity, on a
logarithmic scale and averaged over all definitions: the rank makes definitions comparable, because
all of them begin with duplicates. The similarities by the single definitions correct it. The
posterior distribution is approximated by a normal one at its mode (Laplace's method; MacKay,
"Information Theory, Inference, and Learning Algorithms", 2003, section 27).
"""

from dataclasses import dataclass

import numpy as np

from nearkin.quality.fit.candidate_pool import CandidatePool

SLOPE_MEAN = 1.5
SLOPE_PRECISION = 4.0
"""The prior of the decrease of the log odds with each doubling of the rank."""
LEAST_SLOPE = float(np.log(2))
"""The smallest decrease with which the number of duplicates is finite: while the rank doubles, so
does the number of pairs, and the odds must fall by more than half."""
INTERCEPT_PRECISION = 0.02
CORRECTION_PRECISION = 4.0
"""The precision of the prior of the corrections by single definitions, whose mean is 0."""
LARGEST_LOG_ODDS = 30.0
LARGEST_STEP = 2.0
"""The largest change of a coefficient in a step of Newton's method."""
MAX_STEPS = 50
TOLERANCE = 1e-6


@dataclass(frozen=True)
class PairFeatures:
    """The features of the pairs of a pool.

    Attributes:
        rank: Mean logarithm (base 2) of the rank of a pair over all definitions, float64 (m,).
        matrix: Constant, negative centred rank, and standardized similarities, float64 (m, 2 + d).
    """

    rank: np.ndarray
    matrix: np.ndarray

    @classmethod
    def of_pool(cls, pool: CandidatePool) -> "PairFeatures":
        """Computes the features of all pairs of a pool."""
        similarity = pool.similarity
        rank = log_ranks(similarity, pool.weights).mean(axis=1)
        spread = similarity.std(axis=0) + TOLERANCE
        corrections = (similarity - similarity.mean(axis=0)) / spread / 2
        centred = rank - np.log2(len(pool)) / 2
        ones = np.ones(len(pool))
        return cls(rank, np.column_stack([ones, -centred, corrections]))


def log_ranks(similarity: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the logarithm (base 2) of the rank of each pair by each definition, float64 (m, d).

    A pair has the weight of those for which it stands. Equally similar pairs share their mean rank.

    Examples:
        >>> log_ranks(np.array([[0.9], [0.5], [0.5], [0.1]]), np.ones(4)).round(2).tolist()
        [[1.0], [1.81], [1.81], [2.32]]
    """
    ranks = np.empty(similarity.shape)
    for column in range(similarity.shape[1]):
        order = np.argsort(-similarity[:, column], kind="stable")
        descending = -similarity[order, column]
        through = np.cumsum(weights[order])
        first = np.searchsorted(descending, descending, side="left")
        last = np.searchsorted(descending, descending, side="right") - 1
        ranks[order, column] = np.log2((through[first] + through[last]) / 2 + 1)
    return ranks


@dataclass(frozen=True)
class PairModel:
    """The posterior distribution of the coefficients of the model.

    Attributes:
        mode: Coefficients at the mode, float64 (f,).
        covariance: Covariance of the normal approximation, float64 (f, f).
    """

    mode: np.ndarray
    covariance: np.ndarray

    @classmethod
    def learn(cls, features: np.ndarray, answers: np.ndarray) -> "PairModel":
        """Computes the posterior distribution from answers, with Newton's method.

        Answered pairs have features, float64 (n, f), and answers: 1 for duplicates and 0 for
        distinct documents.
        """
        size = features.shape[1]
        mean = np.zeros(size)
        mean[1] = SLOPE_MEAN
        precision = np.full(size, CORRECTION_PRECISION)
        precision[0] = INTERCEPT_PRECISION
        precision[1] = SLOPE_PRECISION
        mode = mean.copy()
        curvature = np.diag(precision)
        for _ in range(MAX_STEPS):
            probability = to_probability(features @ mode)
            spread = probability * (1 - probability)
            gradient = features.T @ (answers - probability) - precision * (mode - mean)
            curvature = (features * spread[:, None]).T @ features + np.diag(precision)
            step = np.linalg.solve(curvature, gradient)
            largest = float(np.abs(step).max())
            mode += step * min(1.0, LARGEST_STEP / max(largest, TOLERANCE))
            if largest < TOLERANCE:
                break
        return cls(mode, np.linalg.inv(curvature))

    def draw_probabilities(
        self, features: np.ndarray, draws: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Returns probabilities, float64 (draws, m), by coefficients drawn from the posterior.

        A slope below `LEAST_SLOPE` is mirrored there.
        """
        root = np.linalg.cholesky(self.covariance + 1e-9 * np.eye(len(self.mode)))
        coefficients = self.mode + rng.standard_normal((draws, len(self.mode))) @ root.T
        slopes = coefficients[:, 1]
        coefficients[:, 1] = LEAST_SLOPE + np.abs(slopes - LEAST_SLOPE)
        return to_probability(coefficients @ features.T)


def to_probability(log_odds: np.ndarray) -> np.ndarray:
    """Returns the probabilities for log odds."""
    return 1 / (1 + np.exp(-np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)))
