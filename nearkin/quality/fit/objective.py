"""Objectives: which precision and recall a search prefers, and the threshold that it takes."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nearkin.errors import UsageError
from nearkin.quality.evaluate.totals import divide_or_one
from nearkin.runtime.setting_names import name_setting

NEIGHBOURHOOD = 0.02
"""The distance of a threshold up to which the F1 of others counts."""
MOST_LOSS = 0.02
"""The F1 on the labels that is given up, at most, for a threshold around which F1 is high."""
LIMIT = re.compile(r"(precision|recall)\s*>=\s*([0-9.]+)|(lost)\s*<=\s*([0-9.]+)")
RETAINED = "retained"
"""The share of the true clusters of which a document is kept. The others are lost."""
REMOVED = "removed"
"""The share of the redundant documents that are removed."""


@dataclass(frozen=True)
class Curve:
    """Precision and recall of one definition at each threshold.

    Attributes:
        thresholds: Thresholds in ascending order, float64 (t,).
        duplicates: Number of pairs of duplicates.
        together: Number of pairs of duplicates that are found, float64 (t,).
        wrong: Number of distinct pairs that are found, float64 (t,).
        lost: Share of the true clusters of which no document is kept, float64 (t,). None if single
            pairs are labelled.
        removed: Share of the redundant documents that are removed, all but one of each true
            cluster, float64 (t,). None if single pairs are labelled.
    """

    thresholds: np.ndarray
    duplicates: float
    together: np.ndarray
    wrong: np.ndarray
    lost: np.ndarray | None = None
    removed: np.ndarray | None = None

    @cached_property
    def precision(self) -> np.ndarray:
        """The share of the found pairs that are duplicates, and 1 if none is found, (t,)."""
        return divide_or_one(self.together, self.together + self.wrong)

    @cached_property
    def recall(self) -> np.ndarray:
        """The share of the pairs of duplicates that are found, float64 (t,)."""
        return divide_or_one(self.together, np.full(len(self.thresholds), self.duplicates))

    @cached_property
    def f1(self) -> np.ndarray:
        """The harmonic mean of precision and recall, float64 (t,)."""
        return divide_or_one(2 * self.together, self.together + self.wrong + self.duplicates)

    @cached_property
    def nearby_f1(self) -> np.ndarray:
        """The mean F1 of the thresholds within `NEIGHBOURHOOD` of each one, float64 (t,).

        Where nothing is found, F1 is 0.
        """
        f1 = np.where(self.together > 0, self.f1, 0.0)
        tolerance = NEIGHBOURHOOD + 1e-9
        firsts = np.searchsorted(self.thresholds, self.thresholds - tolerance)
        ends = np.searchsorted(self.thresholds, self.thresholds + tolerance)
        sums = np.append(0.0, np.cumsum(f1))
        return np.asarray((sums[ends] - sums[firsts]) / (ends - firsts))

    def scores_at(self, position: int) -> dict[str, float]:
        """Returns the scores at a threshold by name.

        The retained share is the smallest one at all higher thresholds, and at those that are lower
        by up to `NEIGHBOURHOOD`. A cluster can be lost at a high threshold, and be retained at a
        lower one by chance, because its documents follow another leader. And a share that is only
        just met on the labels is rarely met on other documents.
        """
        scores = {
            "precision": float(self.precision[position]),
            "recall": float(self.recall[position]),
            "f1": float(self.f1[position]),
        }
        if self.lost is not None and self.removed is not None:
            lowest = self.thresholds[position] - NEIGHBOURHOOD - 1e-9
            start = int(np.searchsorted(self.thresholds, lowest))
            scores[RETAINED] = 1 - float(self.lost[start:].max())
            scores[REMOVED] = float(self.removed[position])
        return scores

    def plateau(self, position: int) -> tuple[int, int]:
        """Returns the first and the last position around one at which the same pairs are found."""
        same = np.ones(len(self.thresholds), bool)
        for counts in (self.together, self.wrong, self.lost, self.removed):
            if counts is not None:
                same &= counts == counts[position]
        others = np.flatnonzero(~same)
        before = others[others < position]
        after = others[others > position]
        first = int(before[-1]) + 1 if len(before) else 0
        last = int(after[0]) - 1 if len(after) else len(same) - 1
        return first, last


@dataclass(frozen=True)
class Objective:
    """A score that a search maximizes, and a minimum for another one.

    Attributes:
        score: The score that is maximized: `f1`, `precision`, `recall` or `removed`.
        limited: The score that has a minimum: `precision`, `recall`, `retained`, or None.
        least: This minimum.

    Examples:
        >>> Objective.parse("precision >= 0.99")
        Objective(score='recall', limited='precision', least=0.99)
        >>> Objective.parse("lost<=0.01")
        Objective(score='removed', limited='retained', least=0.99)
        >>> str(Objective.parse("lost<=0.01")), str(Objective.parse("f1"))
        ('lost<=0.01', 'f1')
    """

    score: str
    limited: str | None = None
    least: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Objective":
        """Parses an objective: `f1`, `precision>=SHARE`, `recall>=SHARE` or `lost<=SHARE`."""
        if text.strip() == "f1":
            return cls("f1")
        match = LIMIT.fullmatch(text.strip())
        least = 0.0
        if match is not None:
            least = 1 - _parse_share(match[4]) if match[3] else _parse_share(match[2])
        if match is None or not 0 < least <= 1:
            raise UsageError(
                f"{name_setting('objective', text)} is not valid; choose f1, or a minimum such as "
                "precision>=0.99 or recall>=0.95, or the share of clusters that may be lost, such "
                "as lost<=0.01"
            )
        if match[3]:
            return cls(REMOVED, RETAINED, round(least, 9))
        limited = match[1]
        return cls("recall" if limited == "precision" else "precision", limited, least)

    def __str__(self) -> str:
        if self.limited is None:
            return self.score
        if self.limited == RETAINED:
            return f"lost<={1 - self.least:g}"
        return f"{self.limited}>={self.least:g}"

    @property
    def needs_clusters(self) -> bool:
        """True if only labelled clusters can be judged by it."""
        return self.limited == RETAINED

    def rank_at(self, curve: Curve, position: int) -> tuple[bool, float, float]:
        """Returns a key by which settings are compared. The largest one is the best.

        Its first element says if the minimum is met. If it is not, the limited score decides.
        """
        scores = curve.scores_at(position)
        best = round(scores[self.score], 9)
        if self.limited is None:
            return True, best, 0.0
        limited = round(scores[self.limited], 9)
        if limited >= self.least:
            return True, best, round(scores["f1"], 9)
        return False, limited, best

    def choose(self, curve: Curve) -> int:
        """Returns the position of the best threshold of a curve.

        If the same pairs are found in a range of thresholds, it is the middle of the range.
        """
        # A found pair counts. Where nothing is found, the precision is 1 by definition only.
        positions = np.flatnonzero(curve.together > 0)
        if not len(positions):
            return len(curve.thresholds) - 1
        return self._choose_among(curve, positions)

    def choose_stable(self, curve: Curve) -> int:
        """Returns the position of the threshold that is expected to be best on other documents.

        For F1, it is the threshold around which F1 is highest. A peak of F1 at a single threshold
        depends on few pairs, which other documents do not have. Objectives with a minimum take the
        best threshold, because neighbours do not meet the minimum.
        """
        positions = np.flatnonzero(curve.together > 0)
        if self.limited is not None or not len(positions):
            return self.choose(curve)
        return self._choose_among(curve, _stable_positions(curve, positions))

    def _choose_among(self, curve: Curve, positions: np.ndarray) -> int:
        """Returns the middle of the range around the best one of some positions, int64 (p,)."""
        best = max(positions.tolist(), key=lambda position: self.rank_at(curve, position))
        first, last = curve.plateau(best)
        return (first + last) // 2


def _parse_share(text: str) -> float:
    """Returns a number, or -1 if the text is not one."""
    try:
        return float(text)
    except ValueError:
        return -1.0


def _stable_positions(curve: Curve, positions: np.ndarray) -> np.ndarray:
    """Returns those of some positions in the thresholds around which F1 is highest."""
    f1 = curve.f1[positions]
    good = positions[f1 >= f1.max() - MOST_LOSS]
    nearby = curve.nearby_f1[good]
    return good[nearby >= nearby.max() - 1e-9]
