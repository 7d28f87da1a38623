"""Finds operating points: choices of bands, rows, tables and probes, with their recall and cost.

Everything follows from the probability that a banded slot agrees at a similarity
(`Estimator.slot_collision_probability`). `stages.lsh.curve` has the S-curve and its sources.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

import numpy as np
import pyarrow as pa

from nearkin.engine.advice import Advice, advise
from nearkin.engine.short_documents import count_short_documents
from nearkin.errors import UsageError
from nearkin.quality.plan.data_kind import (
    DataRecord,
    find_kind,
    to_record,
    warn_of_unspaced_scripts,
)
from nearkin.quality.plan.distribution import Distribution
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.notebook_view import TableView, render_view
from nearkin.runtime.number_range import COUNT, OPEN_SHARE, SHARE_ABOVE_0
from nearkin.runtime.plots import open_axes
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.table_forms import TableForms
from nearkin.settings.spec import HAMMING, Spec
from nearkin.stages.lsh.curve import classic_threshold, steepest_point
from nearkin.stages.lsh.sign_bands import SignBanding
from nearkin.stages.lsh.slot_bands import Banding, require_bands_with_rows
from nearkin.stages.lsh.solve import find_similarity, smallest_integer
from nearkin.stages.measures import BandingRequest, Measure, measure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOTTED = 201
"""The number of similarities at which a curve is plotted."""

LANDMARKS = (0.001, 0.5, 0.99)
"""The candidate probabilities whose similarities are reported."""
MAX_POINTS = 200
"""The largest number of operating points of a tuning."""
SLOPE_STEP = 1e-6
"""The distance of the two similarities between which the slope is computed, halved."""
MAX_CROWDING = 0.5
"""The crowding around a threshold up to which the similarities have a gap there: pairs are at most
half as dense there as on average from there up."""
REPETITION_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9)
"""The similarities from which the pairs of a document are counted."""
MAX_SIGN_BANDS = 256
MAX_SIGN_ROWS = 64


class OperatingPointRecord(TypedDict):
    """An operating point as a JSON object. `OperatingPoint` documents the members.

    Attributes:
        similarities: Similarities by candidate probability, or None where it is not reached.
    """

    bands: int
    rows: int
    tables: int
    probes: int
    recall: float
    similarities: dict[str, float | None]
    classic_threshold: float
    steepest: float
    slope: float
    candidates: float
    keys: int


class TuningRecord(TypedDict):
    """A tuning as a JSON object.

    Attributes:
        short_texts: True if most sampled texts are too short for the settings.
        distribution: Origin of the distribution of similarities, in words.
        points: The operating points, the cheapest first.
        data: Description of the sampled texts. It is absent without texts.
    """

    short_texts: bool
    measure: str
    k: int
    threshold: float
    recall: float
    documents: int
    distribution: str
    points: list[OperatingPointRecord]
    data: NotRequired[DataRecord]


@dataclass(frozen=True)
class OperatingPoint:
    """A choice of bands, rows, tables and probes, with its recall and its cost.

    Attributes:
        bands: Number of bands of all tables together.
        rows: Number of slots in a band.
        tables: Number of independent tables.
        probes: Number of slots of each band that are probed.
        recall: Candidate probability at the threshold.
        similarities: Similarities at which the candidate probability is 0.1 %, 50 % and 99 %. NaN
            if it is not reached.
        classic_threshold: (1/b)^(1/r) as a similarity, at which the candidate probability is about
            63 %.
        steepest: Similarity at which the S-curve rises fastest.
        slope: Slope of the S-curve at this similarity.
        candidates: Expected number of candidates of a document.
        keys: Number of band keys of a document.
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

    @property
    def bands_of_table(self) -> int:
        """The number of bands of one table, as in the option `bands` of a run."""
        return self.bands // self.tables

    @property
    def banding(self) -> str:
        """The bands of one table and their rows, with tables and probes if there are any.

        Examples:
            >>> point = OperatingPoint(
            ...     bands=26, rows=7, tables=2, probes=3, recall=0.99, similarities=(),
            ...     steepest=0.6, classic_threshold=0.6, slope=3.0, candidates=1.0, keys=104,
            ... )
            >>> point.banding
            '13 × 7, 2 tables, 3 probes'
        """
        parts = [f"{self.bands_of_table} × {self.rows}"]
        if self.tables > 1:
            parts.append(f"{self.tables} tables")
        if self.probes:
            parts.append(f"{self.probes} probes")
        return ", ".join(parts)

    def to_dict(self) -> OperatingPointRecord:
        """Returns the point as a JSON object, with the similarities by candidate probability."""
        similarities = {
            f"{probability:g}": None if math.isnan(value) else value
            for probability, value in zip(LANDMARKS, self.similarities, strict=True)
        }
        return cast("OperatingPointRecord", {**asdict(self), "similarities": similarities})


@dataclass(frozen=True, repr=False)
class Tuning(TableForms):
    """The operating points that reach a requested recall, the cheapest first.

    Attributes:
        spec: Spec of the signatures.
        threshold: Smallest similarity of near-duplicates.
        recall: Requested candidate probability at the threshold.
        distribution: Similarities from which the expected candidates were computed.
        points: Operating points by ascending number of candidates and keys.
        is_given: True if the bands and rows were given, so that the recall is not a requirement.
    """

    spec: Spec
    threshold: float
    recall: float
    distribution: Distribution
    points: tuple[OperatingPoint, ...]
    is_given: bool = False

    def __repr__(self) -> str:
        best = self.best
        tables = f" in each of {best.tables} tables" if best.tables > 1 else ""
        return (
            f"<Tuning: {len(self.points)} operating points for threshold {self.threshold:g}; best: "
            f"{best.bands_of_table} bands of {best.rows} rows{tables}, recall {best.recall:.4f}>"
        )

    def _repr_html_(self) -> str:
        numbers = {"threshold": self.threshold, "recall": self.recall, "points": len(self.points)}
        columns = (
            "bands of a table",
            "rows",
            "tables",
            "probes",
            "recall",
            "candidates per document",
            "keys",
        )
        rows = [
            (p.bands_of_table, p.rows, p.tables, p.probes, p.recall, p.candidates, p.keys)
            for p in self.points
        ]
        points = TableView("operating points, the cheapest first", columns, rows)
        return render_view("Tuning", numbers, [], [points])

    def to_arrow(self) -> pa.Table:
        """Returns the operating points as an Arrow table.

        The columns are the attributes of `OperatingPoint`. Its similarities are in a column for
        each candidate probability, for example `similarities.0.5`.
        """
        names = [f"{probability:g}" for probability in LANDMARKS]
        rows = [
            {**asdict(point), "similarities": dict(zip(names, point.similarities, strict=True))}
            for point in self.points
        ]
        return pa.Table.from_pylist(rows).flatten()

    @property
    def best(self) -> OperatingPoint:
        """The cheapest operating point."""
        return self.points[0]

    @property
    def has_short_texts(self) -> bool:
        """True if most sampled texts are too short for the settings."""
        shingles = self.distribution.shingles
        if shingles is None:
            return False
        counts = count_short_documents(shingles, self.spec, self.threshold)
        return counts.is_notable(int(np.count_nonzero(shingles)))

    @property
    def has_gap(self) -> bool:
        """True if few sampled pairs are about as similar as the threshold, or too few are known."""
        crowding = self.distribution.crowding(self.threshold)
        return crowding is None or crowding <= MAX_CROWDING

    @property
    def advice(self) -> Advice:
        """The command to run next over the documents."""
        profile = self.distribution.profile
        kind = None if profile is None else find_kind(profile)
        return advise(
            None if kind is None else kind.name,
            are_short=self.has_short_texts,
            have_gap=self.has_gap,
        )

    @property
    def warnings(self) -> list[str]:
        """The reasons for which the settings cannot work well with the sampled texts."""
        warnings = []
        if self.has_short_texts:
            warnings.append(
                f"Most sampled texts are too short for shingles {self.spec.shingle} and the "
                f"threshold {self.threshold:g}."
            )
        crowding = self.distribution.crowding(self.threshold)
        if crowding is not None and not self.has_gap:
            warnings.append(
                f"The similarities have no gap around the threshold {self.threshold:g}: pairs are "
                f"{crowding:.2g} times as dense there as on average from there up (with a gap: at "
                f"most {MAX_CROWDING:g} times). The threshold separates pairs that are about "
                "equally similar."
            )
        profile = self.distribution.profile
        if profile is not None:
            unspaced = warn_of_unspaced_scripts(profile, self.spec)
            if unspaced is not None:
                warnings.append(unspaced)
        return warnings

    def curve(self, point: OperatingPoint, similarities: np.ndarray) -> np.ndarray:
        """Returns the candidate probabilities of an operating point.

        Args:
            point: Operating point.
            similarities: Similarities in [0, 1], float64 (n,).

        Returns:
            Candidate probabilities, float64 (n,).
        """
        measure = measure_of(self.spec)
        request = _banding_request(
            self.threshold, point.bands, point.rows, point.probes, self.distribution.documents
        )
        return candidate_probabilities(measure, measure.banding(request), similarities)

    def plot(
        self, axes: "Axes | None" = None, points: Sequence[OperatingPoint] | None = None
    ) -> "Axes":
        """Draws the candidate probability over the similarity, with Matplotlib.

        Args:
            axes: Axes to draw on. By default, those of a new figure.
            points: Operating points to draw. By default, the three cheapest ones.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        axes = open_axes(axes)
        similarities = np.linspace(0, 1, PLOTTED)
        for point in self.points[:3] if points is None else points:
            axes.plot(similarities, self.curve(point, similarities), label=point.banding)
        label = f"threshold {self.threshold:g}"
        axes.axvline(self.threshold, linestyle=":", color="black", label=label)
        axes.set(xlabel="similarity", ylabel="candidate probability", xlim=(0, 1), ylim=(0, 1.02))
        axes.legend()
        return axes

    def to_dict(self) -> TuningRecord:
        """Returns the tuning as a JSON object."""
        record: TuningRecord = {
            "short_texts": self.has_short_texts,
            "measure": self.spec.measure,
            "k": self.spec.k,
            "threshold": self.threshold,
            "recall": self.recall,
            "documents": self.distribution.documents,
            "distribution": self.distribution.source,
            "points": [point.to_dict() for point in self.points],
        }
        profile = self.distribution.profile
        if profile is not None:
            record["data"] = to_record(
                profile,
                pairs={
                    f"{similarity:g}": self.distribution.count_pairs(similarity)
                    for similarity in REPETITION_SIMILARITIES
                },
                crowding=self.distribution.crowding(self.threshold),
                warnings=self.warnings,
                advice=self.advice,
            )
        return record


def candidate_probabilities(
    measure: Measure, banding: Banding, similarities: np.ndarray
) -> np.ndarray:
    """Returns the candidate probabilities at some similarities in [0, 1], float64 (n,)."""
    values = np.asarray(similarities, np.float64)
    slot_probabilities = np.asarray(measure.estimator.slot_collision_probability(values)).reshape(
        -1
    )
    return np.array([banding.candidate_probability(float(p)) for p in slot_probabilities])


def _banding_request(
    threshold: float, bands: int, rows: int, probes: int, documents: int
) -> BandingRequest:
    # the recall only decides the margin, which operating points do not use
    return BandingRequest(
        threshold=threshold,
        recall=0.5,
        bands=bands,
        rows=rows,
        tables=1,
        probes=probes,
        documents=documents,
    )


def evaluate_point(
    measure: Measure,
    threshold: float,
    bands: int,
    rows: int,
    *,
    tables: int = 1,
    probes: int = 0,
    distribution: Distribution,
) -> OperatingPoint:
    """Computes the recall and the cost of a choice of bands, rows, tables and probes.

    Examples:
        >>> measure, few = measure_of(Spec()), Distribution.assumed(2)
        >>> round(evaluate_point(measure, 0.5, 42, 3, distribution=few).recall, 3)
        0.996
        >>> round(evaluate_point(measure, 0.05, 42, 3, distribution=few).recall, 3)
        0.005
    """
    request = _banding_request(threshold, bands, rows, probes, distribution.documents)
    banding = measure.banding(request)

    def curve(similarity: float) -> float:
        return float(candidate_probabilities(measure, banding, np.array([similarity]))[0])

    def slot_probability(similarity: float) -> float:
        return float(measure.estimator.slot_collision_probability(np.array(similarity)))

    steepest = find_similarity(slot_probability, steepest_point(bands, rows))
    slope = math.nan
    if not math.isnan(steepest):
        low = max(steepest - SLOPE_STEP, 0.0)
        high = min(steepest + SLOPE_STEP, 1.0)
        slope = (curve(high) - curve(low)) / (high - low)
    probabilities = candidate_probabilities(measure, banding, distribution.similarities)
    return OperatingPoint(
        bands=bands,
        rows=rows,
        tables=tables,
        probes=probes,
        recall=curve(threshold),
        similarities=tuple(find_similarity(curve, probability) for probability in LANDMARKS),
        classic_threshold=find_similarity(slot_probability, classic_threshold(bands, rows)),
        steepest=steepest,
        slope=slope,
        candidates=float((probabilities * distribution.pairs).sum()),
        keys=bands * (1 + probes),
    )


def fit_spec(spec: Spec, budget: int) -> Spec:
    """Returns the Spec with as many slots (or signs) as fit into the bytes of a signature.

    Examples:
        >>> fit_spec(Spec(), 300).k, fit_spec(Spec(measure="simhash"), 16).k
        (75, 128)
    """
    step = spec.smallest_k
    fitting = budget * 8 // spec.slot_bits // step * step
    k = min(fitting, spec.signature_limits.largest_k)
    if k < step:
        least = step * spec.slot_bits // 8
        raise UsageError(
            f"a budget of {budget} bytes is too small for a signature of {spec.slot_bits}-bit "
            f"slots; give at least {least} bytes"
        )
    return replace(spec, k=k)


@dataclass(frozen=True)
class _Choice:
    bands: int
    rows: int
    tables: int
    probes: int


@check_arguments
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
    bands: int | None = None,
    rows: int | None = None,
) -> Tuning:
    """Finds the choices of bands, rows, tables and probes that reach a requested recall.

    If bands and rows are given, they are evaluated as they are. Otherwise, for each number of
    rows, the smallest sufficient number of bands is chosen, because more bands only add candidates.

    Args:
        threshold: Smallest similarity of near-duplicates, in (0, 1].
        recall: Requested candidate probability at the threshold, in (0, 1).
        spec: Spec of the signatures. By default, it is the default Spec, with more slots if the
            given bands and rows need them.
        budget: Size of a document's signature in bytes. Replaces the k of the Spec.
        documents: Number of documents, from which the expected candidates follow.
        distribution: Similarities of the pairs of the corpus. Unrelated documents by default.
        tables: Numbers of independent tables to try (MinHash only).
        probes: Numbers of probes to try (MinHash only).
        at_most: Largest allowed candidate probabilities by similarity.
        bands: Number of bands of a table to evaluate, together with `rows`.
        rows: Number of slots in a band to evaluate.

    Raises:
        UsageError: If an argument is out of range, or no choice reaches the recall.

    Examples:
        >>> tuning = tune(0.5, 0.99, at_most={0.05: 0.006})
        >>> tuning.best.recall >= 0.99, tuning.best.bands * tuning.best.rows <= 128
        (True, True)
        >>> [round(s, 3) for s in tune(0.5, bands=20, rows=5).best.similarities]
        [0.138, 0.509, 0.729]
    """
    require_bands_with_rows(bands, rows)
    SHARE_ABOVE_0.require("threshold", threshold)
    OPEN_SHARE.require("recall", recall)
    COUNT.require("documents", documents)
    _check_table_counts(tables, probes)
    _check_limits(at_most or {})
    spec = spec or default_spec(bands, rows, max(tables))
    if budget is not None:
        spec = fit_spec(spec, budget)
    if spec.measure == HAMMING:
        raise UsageError(
            "fingerprints have nothing to tune: every pair within the distance is found; choose "
            f"{name_setting('distance')} alone"
        )
    measure = measure_of(spec)
    if spec.signature_type is np.uint64 and (max(tables) > 1 or max(probes) > 0):
        raise UsageError(
            f"{name_setting('tables')} {list(tables)} and {name_setting('probes')} "
            f"{list(probes)} are only for MinHash; omit them for "
            f"measure {spec.measure}, which has as many tables as it needs"
        )
    distribution = distribution or Distribution.assumed(documents, spec)
    if bands is not None and rows is not None:
        if at_most:
            raise UsageError(
                "at_most limits the choice of bands and rows; omit it, or omit bands and rows"
            )
        candidates = _list_given_choices(bands, rows, tables, probes)
    else:
        candidates = _list_choices(measure, threshold, recall, tables, probes)
    choices = [
        choice
        for choice in candidates
        if _respects_limits(measure, threshold, choice, distribution.documents, at_most or {})
    ]
    if not choices:
        limits = f" and candidate probabilities of at most {dict(at_most)}" if at_most else ""
        raise UsageError(
            f"recall {recall} at threshold {threshold} is out of reach with signatures of length "
            f"{spec.k}{limits}; "
            f"raise {name_setting('k')} or lower {name_setting('recall')}"
        )
    points = [
        evaluate_point(
            measure,
            threshold,
            choice.bands,
            choice.rows,
            tables=choice.tables,
            probes=choice.probes,
            distribution=distribution,
        )
        for choice in choices
    ]
    points.sort(key=lambda point: (point.candidates, point.keys, point.rows))
    return Tuning(
        spec,
        threshold,
        recall,
        distribution,
        tuple(points[:MAX_POINTS]),
        is_given=bands is not None,
    )


def _check_table_counts(tables: Sequence[int], probes: Sequence[int]) -> None:
    if not tables or min(tables) < 1:
        raise UsageError(f"{name_setting('tables')} {list(tables)} must be numbers of at least 1")
    if not probes or min(probes) < 0:
        raise UsageError(f"{name_setting('probes')} {list(probes)} must be numbers of at least 0")


def _check_limits(at_most: Mapping[float, float]) -> None:
    for similarity, probability in at_most.items():
        if not (0 <= similarity <= 1 and 0 <= probability <= 1):
            raise UsageError(
                f"the limit {similarity:g}:{probability:g} is not a similarity and a candidate "
                "probability, both from 0 to 1"
            )


def default_spec(bands: int | None, rows: int | None, tables: int = 1) -> Spec:
    """Returns the default Spec, with more slots if given bands and rows need them.

    Examples:
        >>> default_spec(20, 5).k, default_spec(50, 4).k
        (128, 200)
    """
    spec = Spec()
    if bands is None or rows is None:
        return spec
    needed = bands * rows * tables
    return replace(spec, k=min(max(spec.k, needed), spec.signature_limits.largest_k))


def _list_given_choices(
    bands: int, rows: int, tables: Sequence[int], probes: Sequence[int]
) -> Iterator[_Choice]:
    for table_count in tables:
        for probe_count in probes:
            yield _Choice(bands * table_count, rows, table_count, min(probe_count, rows))


def _list_choices(
    measure: Measure,
    threshold: float,
    recall: float,
    tables: Sequence[int],
    probes: Sequence[int],
) -> Iterator[_Choice]:
    """Yields the choices that reach the recall, each of them once."""
    spec = measure.spec
    max_rows = spec.k
    if spec.signature_type is np.uint64:
        max_rows = min(spec.k, MAX_SIGN_ROWS)
    known = set()
    for table_count in tables:
        for probe_count in probes:
            for rows in range(1, max_rows + 1):
                bands = fewest_bands(
                    measure, threshold, recall, rows, tables=table_count, probes=probe_count
                )
                if bands is None:
                    continue
                choice = _Choice(bands, rows, table_count, min(probe_count, rows))
                if choice not in known:
                    known.add(choice)
                    yield choice


def _respects_limits(
    measure: Measure,
    threshold: float,
    choice: _Choice,
    documents: int,
    at_most: Mapping[float, float],
) -> bool:
    """Returns True if the candidate probability is nowhere larger than allowed."""
    request = _banding_request(threshold, choice.bands, choice.rows, choice.probes, documents)
    banding = measure.banding(request)
    for similarity, limit in at_most.items():
        probability = candidate_probabilities(measure, banding, np.array([similarity]))[0]
        if probability > limit:
            return False
    return True


def fewest_bands(
    measure: Measure, threshold: float, recall: float, rows: int, *, tables: int, probes: int
) -> int | None:
    """Returns the smallest number of bands with which a recall is reached."""
    probes = min(probes, rows)
    has_signs = measure.spec.signature_type is np.uint64
    if has_signs and (tables > 1 or probes):
        return None
    largest = measure.spec.k // rows // tables * tables
    if has_signs:
        largest = MAX_SIGN_BANDS
    if largest < 1:
        return None
    slot_probability = float(measure.estimator.slot_collision_probability(np.array(threshold)))
    banding_type = SignBanding if has_signs else Banding

    def reaches_recall(bands: int) -> bool:
        banding = banding_type(bands, rows, measure.spec.k, 0, slot_probability, probes)
        return bool(banding.candidate_recall >= recall)

    if not reaches_recall(largest):
        return None
    return tables * smallest_integer(
        lambda count: reaches_recall(count * tables), 1, largest // tables
    )
