"""Operating points: every sensible choice of bands, rows, tables and probes for a threshold, and what each finds and costs.

Everything follows from one function, the chance that a banded slot agrees at a similarity (`Measure.collision`); see
`nearkin.lsh.curve` for the S-curve and its sources.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from nearkin.errors import UsageError
from nearkin.lsh.curve import UNRELATED_BETA, classic_threshold, steepest_point
from nearkin.lsh.sign_bands import SignBanding
from nearkin.lsh.slot_bands import Banding
from nearkin.lsh.solve import find_similarity, smallest_integer
from nearkin.measures import BandingRequest, Measure, measure_of
from nearkin.spec import Spec

LANDMARKS = (0.001, 0.5, 0.99)
"""P(candidate) whose similarities are told."""
GRID = 400
MOST_POINTS = 200
STEP = 1e-6


@dataclass(frozen=True)
class Distribution:
    """How many pairs of a corpus live at each similarity.

    Attributes:
        documents: Of the corpus.
        similarities: float64 (m,), ascending.
        pairs: float64 (m,): pairs a document has at each of them.
        source: Where it comes from, in words.
    """

    documents: int
    similarities: np.ndarray
    pairs: np.ndarray
    source: str

    @classmethod
    def assumed(cls, documents: int) -> "Distribution":
        """Of unrelated documents: similarities like Beta(1, 20), mean 0.05, thin tail."""
        s = (np.arange(GRID) + 0.5) / GRID
        density = UNRELATED_BETA * (1 - s) ** (UNRELATED_BETA - 1) / GRID
        return cls(
            documents, s, density * max(documents - 1, 0), "unrelated documents, Beta(1, 20)"
        )

    def scaled(self, documents: int) -> "Distribution":
        """The same shape in a corpus of another size."""
        factor = max(documents - 1, 0) / max(self.documents - 1, 1)
        return replace(self, documents=documents, pairs=self.pairs * factor)


@dataclass(frozen=True)
class OperatingPoint:
    """One choice, and what follows from it.

    Attributes:
        bands: b, of all tables together.
        rows: r.
        tables: L.
        probes: Slots of each band that are probed from both sides.
        recall: P(candidate) at the threshold.
        similarities: Where P(candidate) is 0.1 %, 50 % and 99 %; NaN where it is nowhere.
        classic_threshold: (1/b)^(1/r) as a similarity: P(candidate) is about 63 % there.
        steepest: The similarity at which the S-curve rises fastest.
        slope: dP/ds there.
        candidates: Expected candidates of a document.
        keys: Keys posted for a document.
    """

    bands: int
    rows: int
    tables: int
    probes: int
    recall: float
    similarities: tuple[float, ...]
    classic_threshold: float
    steepest: float
    slope: float
    candidates: float
    keys: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; similarities by their P(candidate)."""
        named = dict(zip((f"{p:g}" for p in LANDMARKS), self.similarities, strict=True))
        return {
            **asdict(self),
            "similarities": {name: none_of_nan(value) for name, value in named.items()},
        }


@dataclass(frozen=True)
class Tuning:
    """Operating points that reach the asked recall, cheapest first.

    Attributes:
        spec: Of the signatures.
        threshold: Similarity from which documents are near-duplicates.
        recall: Asked share of the pairs at the threshold.
        distribution: What candidates were counted by.
        points: In the order of their candidates and keys.
    """

    spec: Spec
    threshold: float
    recall: float
    distribution: Distribution
    points: tuple[OperatingPoint, ...]

    @property
    def best(self) -> OperatingPoint:
        """The first of the points."""
        return self.points[0]

    def curve(self, point: OperatingPoint, similarities: np.ndarray) -> np.ndarray:
        """P(candidate) of a point at similarities."""
        measure = measure_of(self.spec)
        banding = banding_of(
            measure,
            self.threshold,
            point.bands,
            point.rows,
            point.probes,
            self.distribution.documents,
        )
        return probabilities(measure, banding, similarities)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "measure": self.spec.measure,
            "k": self.spec.k,
            "threshold": self.threshold,
            "recall": self.recall,
            "documents": self.distribution.documents,
            "distribution": self.distribution.source,
            "points": [point.to_dict() for point in self.points],
        }


def none_of_nan(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


def probabilities(measure: Measure, banding: Banding, similarities: np.ndarray) -> np.ndarray:
    """P(candidate) at similarities, float64."""
    collisions = np.asarray(
        measure.estimator.slot_collision_probability(np.asarray(similarities, np.float64))
    )
    return np.array([banding.candidate_probability(float(c)) for c in collisions.reshape(-1)])


def banding_of(
    measure: Measure, threshold: float, bands: int, rows: int, probes: int, documents: int
) -> Banding:
    """Bands and rows of a measure, whatever their margin."""
    request = BandingRequest(threshold, 0.5, bands, rows, 1, probes, documents)
    return measure.banding(request)


def point_of(
    measure: Measure,
    threshold: float,
    bands: int,
    rows: int,
    tables: int,
    probes: int,
    distribution: Distribution,
) -> OperatingPoint:
    """Everything that follows from one choice.

    Examples:
        >>> spec, nobody = Spec(), Distribution.assumed(2)
        >>> point = point_of(measure_of(spec), 0.5, 42, 3, 1, 0, nobody)
        >>> round(point.recall, 3), round(point_of(measure_of(spec), 0.05, 42, 3, 1, 0, nobody).recall, 3)
        (0.996, 0.005)
    """
    banding = banding_of(measure, threshold, bands, rows, probes, distribution.documents)

    def curve(similarity: float) -> float:
        return float(probabilities(measure, banding, np.array([similarity]))[0])

    def similarity_of(collision: float) -> float:
        return find_similarity(
            lambda s: float(measure.estimator.slot_collision_probability(np.array(s))), collision
        )

    steepest = similarity_of(steepest_point(bands, rows))
    if math.isnan(steepest):
        slope = math.nan
    else:
        low, high = max(steepest - STEP, 0.0), min(steepest + STEP, 1.0)
        slope = (curve(high) - curve(low)) / (high - low)
    chances = probabilities(measure, banding, distribution.similarities)
    return OperatingPoint(
        bands,
        rows,
        tables,
        probes,
        curve(threshold),
        tuple(find_similarity(curve, probability) for probability in LANDMARKS),
        similarity_of(classic_threshold(bands, rows)),
        steepest,
        slope,
        float((chances * distribution.pairs).sum()),
        bands * (1 + probes),
    )


def spec_within(spec: Spec, budget: int) -> Spec:
    """The Spec with as many slots (or bits) as fit a budget of bytes for a document's signature.

    Examples:
        >>> spec_within(Spec(), 300).k, spec_within(Spec(measure="simhash"), 16).k
        (72, 128)
    """
    room = (
        budget * 8 // spec.slot_bits // spec.signature_limits.k_step * spec.signature_limits.k_step
    )
    k = min(room, spec.signature_limits.largest_k)
    if k < spec.signature_limits.k_step:
        least = spec.signature_limits.k_step * spec.slot_bits // 8
        raise UsageError(
            f"a budget of {budget} bytes holds no signature of {spec.slot_bits}-bit slots; {least} bytes do"
        )
    return replace(spec, k=k)


def tune(
    threshold: float = 0.8,
    recall: float = 0.95,
    *,
    spec: Spec | None = None,
    budget: int | None = None,
    documents: int = 1_000_000,
    distribution: Distribution | None = None,
    tables: Sequence[int] = (1,),
    probes: Sequence[int] = (0,),
    at_most: Mapping[float, float] | None = None,
) -> Tuning:
    """Every sensible choice of bands, rows, tables and probes that reaches the asked recall.

    For each number of rows the fewest bands that reach it are taken, as more of them only add candidates.

    Args:
        threshold: Similarity from which documents are near-duplicates.
        recall: Asked P(candidate) at the threshold.
        spec: Of the signatures.
        budget: Bytes of a document's signature, instead of the Spec's k.
        documents: Corpus size, for the expected candidates.
        distribution: Of the corpus' pairs; unrelated documents by default.
        tables: Numbers of independent tables (MinHash).
        probes: Numbers of probes (MinHash).
        at_most: Similarities and the largest P(candidate) that is wanted there.

    Raises:
        UsageError: Nothing reaches it.

    Examples:
        >>> found = tune(0.5, 0.99, at_most={0.05: 0.006})
        >>> found.best.recall >= 0.99, found.best.bands * found.best.rows <= 128
        (True, True)
    """
    if not 0 < threshold <= 1:
        raise UsageError(f"threshold {threshold} is outside 0 (exclusive) to 1")
    if not 0 < recall < 1:
        raise UsageError(f"recall {recall} is outside 0 to 1 (exclusive); 0.95 is usual")
    spec = spec or Spec()
    spec = spec if budget is None else spec_within(spec, budget)
    measure, known = measure_of(spec), distribution or Distribution.assumed(documents)
    found = {}
    for count in tables:
        for probing in probes:
            for rows in range(
                1, min(spec.k, 64 if spec.signature_type is np.uint64 else spec.k) + 1
            ):
                bands = fewest_bands(
                    measure, threshold, recall, rows, count, probing, known.documents
                )
                if bands is not None:
                    found[bands, rows, count, min(probing, rows)] = bands
    found = {
        choice: bands
        for choice, bands in found.items()
        if _within(measure, threshold, choice, known, at_most or {})
    }
    if not found:
        limits = f" and P(candidate) at most {dict(at_most)}" if at_most else ""
        raise UsageError(
            f"recall {recall} at threshold {threshold} is out of reach with k={spec.k}{limits}: raise k, or ask for less"
        )
    points = [point_of(measure, threshold, *choice, known) for choice in found]
    points.sort(key=lambda point: (point.candidates, point.keys, point.rows))
    return Tuning(spec, threshold, recall, known, tuple(points[:MOST_POINTS]))


def _within(
    measure: Measure,
    threshold: float,
    choice: tuple[int, int, int, int],
    known: Distribution,
    at_most: Mapping[float, float],
) -> bool:
    """Whether P(candidate) is nowhere more than wanted."""
    bands, rows, _, probes = choice
    banding = banding_of(measure, threshold, bands, rows, probes, known.documents)
    return all(
        float(probabilities(measure, banding, np.array([similarity]))[0]) <= most
        for similarity, most in at_most.items()
    )


def fewest_bands(
    measure: Measure,
    threshold: float,
    recall: float,
    rows: int,
    tables: int,
    probes: int,
    documents: int,
) -> int | None:
    """The smallest b (a multiple of the tables) whose P(candidate) at the threshold reaches the recall; None if none does."""
    probes = min(probes, rows)
    signs = measure.spec.signature_type is np.uint64
    if signs and (tables > 1 or probes):
        return None
    most = 256 if signs else measure.spec.k // rows // tables * tables
    if most < 1:
        return None
    collision = float(measure.estimator.slot_collision_probability(np.array(threshold)))

    def reached(bands: int) -> bool:
        kind = SignBanding if signs else Banding
        banding = kind(bands, rows, measure.spec.k, 0, collision, probes)
        return banding.candidate_recall >= recall

    if not reached(most):
        return None
    return tables * smallest_integer(lambda count: reached(count * tables), 1, most // tables)
