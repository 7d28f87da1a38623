"""Chooses pairs to ask about, and the settings that the answers suggest.

The competing settings are pairs of a definition and a threshold. After each round of answers, a
model of the probability that a pair are duplicates is drawn several times from its posterior
distribution. The best settings of each draw are a committee, and the next questions are about pairs
on which it is divided (query by committee: Seung, Opper, Sompolinsky, COLT 1992). They are drawn at
random with known probabilities, and spread over the range of ranks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nearkin.corpus import Columns, Corpus
from nearkin.engine.settings_file import REMARK, Settings, write_settings
from nearkin.errors import UsageError
from nearkin.quality.evaluate.intervals import Estimate
from nearkin.quality.fit.answer_file import Answer
from nearkin.quality.fit.candidate_pool import SEARCHED_DOCUMENTS, CandidatePool, build_pool
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.documents import read_documents
from nearkin.quality.fit.labels import threshold_grid
from nearkin.quality.fit.objective import Curve, Objective
from nearkin.quality.fit.pair_model import PairFeatures, PairModel, to_probability
from nearkin.quality.fit.scoring import LEAST_SIMILARITY
from nearkin.runtime.number_format import format_fraction
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.version import VERSION

DRAWS = 32
"""The number of draws from the posterior distribution, which is the size of the committee."""
LOWER_QUANTILE = 0.05
"""The quantile of the draws that is the lower bound of a score. There is no upper bound: with few
answers, the draws contain more duplicates among dissimilar pairs than there are, so that scores are
better than most draws say."""
STEP = 0.01
"""The distance between two thresholds."""
EXPLORED_SHARE = 0.1
"""The share of questions that are spread evenly over the ranks, whatever the committee says."""
UNCERTAINTY_WEIGHT = 0.5
"""The weight of pairs whose probability is near 1/2, beside those that divide the committee."""


@dataclass(frozen=True)
class Suggestion:
    """The settings that the answers suggest, and how sure that is.

    Attributes:
        definition: Definition of similarity.
        threshold: Threshold.
        precision: Expected precision over all pairs, with a one-sided 95 % lower bound: the 5 %
            quantile of draws from the posterior distribution. The upper bound of scores is 1.
        recall: Expected recall, with its lower bound.
        f1: Expected F1, with its lower bound.
        alive: Number of competing definitions that are the best one at the mode or in a draw of
            the model.
        competing: Number of competing definitions.
    """

    definition: Definition
    threshold: float
    precision: Estimate
    recall: Estimate
    f1: Estimate
    alive: int
    competing: int

    @property
    def settings(self) -> Mapping[str, object]:
        """The values of a settings file, which `nearkin.dedup` takes as keywords."""
        return self.definition.settings(self.threshold)


@dataclass
class AskSession:
    """Answers about pairs of a pool, and what follows from them.

    Attributes:
        pool: Pairs with their similarities.
        objective: What is maximized.
        seed: Random seed.
        answers: Whether a pair of the pool are duplicates, by its number.
        skipped: Numbers of pairs about which nothing is asked again.
    """

    pool: CandidatePool
    objective: Objective
    seed: int = 1
    answers: dict[int, bool] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._features = PairFeatures.of_pool(self.pool)
        self._curves = _CurveBuilder.of_pool(self.pool)

    def choose_pairs(self, count: int) -> list[int]:
        """Returns the numbers of the pairs about which to ask next, the most similar first.

        The first round is spread evenly over the ranks.
        """
        is_open = np.ones(len(self.pool), bool)
        is_open[[*self.answers, *self.skipped]] = False
        is_open &= self.pool.weights > 0
        if not is_open.any():
            return []
        rank = self._features.rank
        chances = self._spread_evenly(is_open)
        if self.answers:
            informative = np.where(is_open, self._measure_disagreement(), 0.0)
            if informative.sum() > 0:
                informative /= informative.sum()
                chances = (1 - EXPLORED_SHARE) * informative + EXPLORED_SHARE * chances
        # Systematic sampling along the ranks: each pair has its chance, and ranks are spread.
        order = np.argsort(rank, kind="stable")
        order = order[is_open[order]]
        through = np.cumsum(chances[order])
        points = (np.arange(count) + self._rng.random()) / count * through[-1]
        places = np.minimum(np.searchsorted(through, points), len(order) - 1)
        return list(dict.fromkeys(order[places].tolist()))

    def _spread_evenly(self, is_open: np.ndarray) -> np.ndarray:
        """Returns chances that are equal for each doubling of the rank, float64 (m,)."""
        doublings = np.floor(self._features.rank).astype(np.int64)
        sizes = np.bincount(doublings[is_open], minlength=int(doublings.max()) + 1)
        chances = np.where(is_open, 1 / np.maximum(sizes[doublings], 1), 0.0)
        return np.asarray(chances / chances.sum())

    def _measure_disagreement(self) -> np.ndarray:
        """Returns how much the committee is divided about each pair, float64 (m,)."""
        probabilities = self._draw_probabilities()
        votes = np.zeros(len(self.pool))
        for probabilities_of_draw in probabilities:
            column, position = self._best_settings(probabilities_of_draw)
            votes += self.pool.similarity[:, column] >= self._curves.thresholds[position]
        votes /= len(probabilities)
        mean = probabilities.mean(axis=0)
        return np.asarray(np.sqrt(votes * (1 - votes)) + UNCERTAINTY_WEIGHT * mean * (1 - mean))

    def _draw_probabilities(self) -> np.ndarray:
        """Returns probabilities of all pairs: at the mode of the model, then from draws of it.

        They are float64 (1 + draws, m).
        """
        numbers = list(self.answers)
        answers = np.array(list(self.answers.values()), np.float64)
        matrix = self._features.matrix
        model = PairModel.learn(matrix[numbers], answers)
        # Each number of answers has its own draws, so that a repeated run asks the same.
        rng = np.random.default_rng([self.seed, len(numbers)])
        drawn = model.draw_probabilities(matrix, DRAWS, rng)
        probabilities = np.concatenate([to_probability(matrix @ model.mode)[None], drawn])
        probabilities[:, numbers] = answers
        return probabilities

    def _best_settings(self, probability: np.ndarray) -> tuple[int, int]:
        choices = []
        for column, curve in enumerate(self._curves.curves(probability)):
            position = self.objective.choose(curve)
            choices.append((self.objective.rank_at(curve, position), -column, position))
        _, column, position = max(choices)
        return -column, position

    def suggest(self) -> Suggestion | None:
        """Returns the settings that the answers suggest, or None without both kinds of answers."""
        if len(set(self.answers.values())) < 2:
            return None
        probabilities = self._draw_probabilities()
        # Averaged draws would count too many duplicates among the many distinct pairs.
        column, position = self._best_settings(probabilities[0])
        of_draws = [self._best_settings(drawn) for drawn in probabilities]
        curves = [self._curves.curve(drawn, column) for drawn in probabilities]
        expected = curves[0]
        return Suggestion(
            definition=self.pool.definitions[column],
            threshold=float(self._curves.thresholds[position]),
            precision=_to_estimate(
                expected.precision[position], [curve.precision[position] for curve in curves]
            ),
            recall=_to_estimate(
                expected.recall[position], [curve.recall[position] for curve in curves]
            ),
            f1=_to_estimate(expected.f1[position], [curve.f1[position] for curve in curves]),
            alive=len(Counter(best for best, _ in of_draws)),
            competing=len(self.pool.definitions),
        )


def _to_estimate(expected: float, drawn: Sequence[float]) -> Estimate:
    value = float(expected)
    return Estimate(value, min(float(np.quantile(drawn, LOWER_QUANTILE)), value), 1.0)


@dataclass(frozen=True)
class _CurveBuilder:
    """Builds the curves of all definitions from probabilities of pairs.

    Attributes:
        thresholds: Thresholds in ascending order, float64 (t,).
        weights: Number of pairs for which each pair stands, float64 (m,).
        orders: Order of the pairs by descending similarity, one for each definition, int64 (m,).
        counts: Number of pairs that reach each threshold, one for each definition, int64 (t,).
    """

    thresholds: np.ndarray
    weights: np.ndarray
    orders: tuple[np.ndarray, ...]
    counts: tuple[np.ndarray, ...]

    @classmethod
    def of_pool(cls, pool: CandidatePool) -> "_CurveBuilder":
        # A run finds no pairs of lower similarity, whatever the answers say about them.
        thresholds = threshold_grid(LEAST_SIMILARITY, STEP)
        orders = tuple(np.argsort(-column, kind="stable") for column in pool.similarity.T)
        counts = tuple(
            len(pool) - np.searchsorted(np.sort(column), thresholds) for column in pool.similarity.T
        )
        return cls(thresholds, pool.weights, orders, counts)

    def curve(self, probability: np.ndarray, column: int) -> Curve:
        order = self.orders[column]
        duplicates = (self.weights * probability)[order]
        together = np.concatenate([[0.0], np.cumsum(duplicates)])[self.counts[column]]
        listed = np.concatenate([[0.0], np.cumsum(self.weights[order])])[self.counts[column]]
        return Curve(self.thresholds, float(duplicates.sum()), together, listed - together)

    def curves(self, probability: np.ndarray) -> list[Curve]:
        return [self.curve(probability, column) for column in range(len(self.orders))]


def format_bound(score: Estimate) -> str:
    """Returns a score with its lower bound.

    Examples:
        >>> format_bound(Estimate(0.912, 0.85, 1.0))
        '0.91, probably at least 0.85'
    """
    low = format_fraction(score.low, digits=2)
    return f"{format_fraction(score.value, digits=2)}, probably at least {low}"


@dataclass(frozen=True)
class AskedSettings:
    """Settings that were chosen from the answers of a session.

    Attributes:
        suggestion: The settings, with their expected scores.
        objective: What was maximized.
        duplicates: Number of pairs that are duplicates by an answer.
        distinct: Number of pairs that are distinct by an answer.
        compared_documents: Number of documents of which all pairs were compared.
        searched_documents: Number of documents of which similar pairs were sought.
        corpus_documents: Number of documents of the inputs.
    """

    suggestion: Suggestion
    objective: str
    duplicates: int
    distinct: int
    compared_documents: int
    searched_documents: int
    corpus_documents: int

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings, which `nearkin.dedup` takes as `settings=` or as keywords."""
        return self.suggestion.settings

    @classmethod
    def of_session(cls, session: AskSession) -> "AskedSettings":
        """Returns the settings that the answers of a session suggest."""
        suggestion = session.suggest()
        duplicates = sum(session.answers.values())
        distinct = len(session.answers) - duplicates
        if suggestion is None:
            raise UsageError(
                f"{duplicates} pairs are labelled as duplicates and {distinct} as distinct, and "
                "settings can be chosen only between both; answer more questions"
            )
        return cls(
            suggestion,
            str(session.objective),
            duplicates,
            distinct,
            session.pool.compared,
            session.pool.searched,
            session.pool.documents.corpus_documents,
        )

    def write(self, path: str | Path) -> None:
        """Writes the settings into a settings file, with a comment on their origin."""
        suggestion = self.suggestion
        remarks = [
            f"{REMARK} fit {VERSION}, objective {self.objective}, from answers about "
            f"{self.duplicates:,} pairs of duplicates and {self.distinct:,} distinct pairs.",
            "Expected (by a model of the answers, with 95 % lower bounds):",
            f"precision {format_bound(suggestion.precision)}",
            f"recall    {format_bound(suggestion.recall)}",
            f"F1        {format_bound(suggestion.f1)}",
        ]
        write_settings(path, Settings(suggestion.settings), remarks)

    def to_dict(self) -> dict[str, object]:
        """Returns the settings as a JSON object, without texts and ids of documents."""
        suggestion = self.suggestion
        scores = {
            "precision": suggestion.precision,
            "recall": suggestion.recall,
            "f1": suggestion.f1,
        }
        return {
            "version": VERSION,
            "objective": self.objective,
            "answers": {"duplicates": self.duplicates, "distinct": self.distinct},
            "compared_documents": self.compared_documents,
            "searched_documents": self.searched_documents,
            "corpus_documents": self.corpus_documents,
            "settings": dict(suggestion.settings),
            "alive": suggestion.alive,
            "competing": suggestion.competing,
            "scores": {
                name: {"value": score.value, "low": score.low} for name, score in scores.items()
            },
        }


def open_session(
    corpus: Corpus,
    columns: Columns,
    answered: Sequence[Answer],
    objective: Objective,
    *,
    seed: int,
    workers: int,
    progress: Progress,
) -> AskSession:
    """Reads a sample of a corpus, and returns a session with the answers that exist."""
    if objective.needs_clusters:
        raise UsageError(
            f"{name_setting('objective', str(objective))} needs labelled clusters, and "
            f"{name_setting('ask')} asks about single pairs; choose precision>=0.99"
        )
    ids = list(dict.fromkeys(id for answer in answered for id in (answer.id_a, answer.id_b)))
    other_documents = max(SEARCHED_DOCUMENTS - len(ids), 2)
    documents = read_documents(corpus, columns, ids, other_documents, seed, progress)
    id_pairs = [(answer.id_a, answer.id_b) for answer in answered]
    pool = build_pool(documents, id_pairs, seed=seed, workers=workers, progress=progress)
    session = AskSession(pool, objective, seed)
    for answer, number in zip(answered, pool.find_pairs(id_pairs), strict=True):
        if number is not None:
            session.answers[number] = answer.is_duplicate
    return session
