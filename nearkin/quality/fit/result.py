"""The result of a fit: settings, how good they are, and what they get wrong."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np
import pyarrow as pa

from nearkin.engine.settings_file import REMARK, Settings, write_settings
from nearkin.quality.evaluate.doubtful_removals import FEW_DOUBTFUL, DoubtfulRemovals
from nearkin.quality.evaluate.intervals import Estimate
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.objective import Curve, Objective
from nearkin.quality.fit.validation import HeldOut
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.number_format import format_percent
from nearkin.runtime.plots import open_axes
from nearkin.runtime.table_forms import TableForms
from nearkin.runtime.version import VERSION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_PRECISION = 1e-9
"""The precision instead of 0, from which numbers of pairs follow."""


class FittedRecord(TypedDict):
    """Settings or held-out settings with their scores, as JSON.

    Attributes:
        settings: The settings, unless the scores are held out.
        precision: The `value`, `low` and `high` of the precision and its 95 % interval.
        recall: Those of the recall.
        f1: Those of their harmonic mean.
        folds: Number of folds, if the scores are held out.
        lost: Share of the labelled clusters of which no document is kept, if clusters are labelled.
        removed: Share of the redundant documents that are removed, if clusters are labelled.
        doubtful_removals: What they remove from the inputs, as in run.json, and the doubtful pairs
            of the clusters, if pairs are labelled.
    """

    settings: NotRequired[dict[str, object]]
    precision: dict[str, float]
    recall: dict[str, float]
    f1: dict[str, float]
    folds: NotRequired[int]
    lost: NotRequired[float]
    removed: NotRequired[float]
    doubtful_removals: NotRequired[dict[str, object]]


class FitRecord(TypedDict):
    """The result of a fit as a JSON object. It contains no texts and no ids of documents."""

    version: str
    objective: str
    is_met: bool
    labels: dict[str, int | None]
    tried: int
    settings: dict[str, object]
    choices: list[FittedRecord]
    default: FittedRecord | None
    held_out: FittedRecord | None
    warnings: list[str]


@dataclass(frozen=True)
class LabelCounts:
    """The numbers of labels of a fit.

    Attributes:
        documents: Number of labelled documents that took part.
        clusters: Number of their true clusters. None if pairs are labelled.
        duplicates: Number of pairs of duplicates.
        distinct: Number of pairs that are labelled as distinct. None if clusters are labelled.
        missing: Number of labelled documents that the inputs do not have.
        left_out: Number of labelled documents that were not drawn for the comparison.
        corpus_documents: Number of documents of the inputs.
        compared_documents: Number of documents that were compared: labelled and other ones.
        duplicates_of_one_source: Number of pairs of duplicates of one source, which are not
            compared. None if all documents are compared.
        distinct_of_one_source: Number of distinct pairs of one source. None if clusters are
            labelled, or all documents are compared.
    """

    documents: int
    clusters: int | None
    duplicates: int
    distinct: int | None
    missing: int
    left_out: int
    corpus_documents: int
    compared_documents: int
    duplicates_of_one_source: int | None = None
    distinct_of_one_source: int | None = None


@dataclass(frozen=True)
class FittedSettings:
    """Settings with their scores on all labels, on which they were chosen.

    Attributes:
        definition: Definition of similarity.
        threshold: Threshold.
        precision: Share of the found pairs that are duplicates, with its 95 % interval.
        recall: Share of the pairs of duplicates that are found.
        f1: Harmonic mean of precision and recall.
        curve: Precision and recall at every threshold.
        across: Column of sources, of which only different ones are compared, or None.
        columns: Columns whose texts are joined, chosen from several ones. Empty if there was one.
        removals: What they remove from the inputs, and how much of it is doubtful. None if that was
            not tried, because clusters are labelled, or if they remove nothing.
    """

    definition: Definition
    threshold: float
    precision: Estimate
    recall: Estimate
    f1: Estimate
    curve: Curve = field(repr=False)
    across: str | None = None
    columns: tuple[str, ...] = ()
    removals: DoubtfulRemovals | None = None

    @property
    def position(self) -> int:
        """The position of the threshold in the curve."""
        return int(np.searchsorted(self.curve.thresholds, self.threshold - 1e-9))

    @property
    def settings(self) -> dict[str, object]:
        """The values of a settings file, which `nearkin.dedup` takes as keywords."""
        settings = self.definition.settings(self.threshold)
        if self.columns:
            settings = {"text": list(self.columns)} | settings
        if self.across is not None:
            settings["across"] = self.across
        return settings

    def rank(self, objective: Objective) -> tuple[bool, float, float]:
        """Returns the key by which an objective compares settings, see `Objective.rank_at`.

        The recall is at most that over the inputs. Unless few removals from the inputs are
        doubtful, the precision is at most what is expected of the pairs inside of their clusters.
        """
        if self.removals is None or self.removals.pairs is None:
            return objective.rank_at(self.curve, self.position)
        pairs = self.removals.pairs
        place = slice(self.position, self.position + 1)
        together = np.minimum(self.curve.together[place], pairs.recall * self.curve.duplicates)
        precision = self.curve.precision[place]
        if self.removals.share > FEW_DOUBTFUL:
            precision = np.minimum(precision, 1 - pairs.expect_wrong().mean)
        wrong = together / np.maximum(precision, LEAST_PRECISION) - together
        point = Curve(self.curve.thresholds[place], self.curve.duplicates, together, wrong)
        return objective.rank_at(point, 0)


@dataclass(frozen=True)
class WrongPair:
    """A pair that the settings judge wrongly.

    Attributes:
        id_a: Id of one document.
        id_b: Id of the other document.
        text_a: Text of the one, or a description of its vector.
        text_b: Text of the other.
        similarity: Their similarity.
    """

    id_a: str
    id_b: str
    text_a: str
    text_b: str
    similarity: float


@dataclass(frozen=True)
class FitResult(TableForms):
    """Settings that were chosen from labels.

    Attributes:
        best: The settings that the objective prefers, with their scores.
        choices: The best settings of up to three different kinds. The first one is `best`.
        default: The settings of a run without options. None for vectors.
        held_out: Scores in cross-validation, which are those to expect on documents without labels.
            If pairs are labelled, they are also those of the clusters of the inputs. None if only
            one cluster has duplicates.
        objective: What was maximized, for example `f1`.
        is_met: Whether the minimum of the objective is met, if it has one.
        labels: Numbers of labels.
        tried: Number of definitions of similarity that were tried.
        false_pairs: Distinct documents that the settings find, up to ten, the most similar first.
        missed_pairs: Duplicates that they do not find, up to ten, the least similar first.
        false_count: Number of false pairs among the compared documents, without those of one source
            if only different sources are compared.
        missed_count: Number of missed pairs among the compared documents, without those of one
            source if only different sources are compared.
        warnings: What limits the result, in sentences.
    """

    best: FittedSettings
    choices: tuple[FittedSettings, ...]
    default: FittedSettings | None
    held_out: HeldOut | None
    objective: str
    is_met: bool
    labels: LabelCounts
    tried: int
    false_pairs: tuple[WrongPair, ...]
    missed_pairs: tuple[WrongPair, ...]
    false_count: int
    missed_count: int
    warnings: tuple[str, ...]

    def to_arrow(self) -> pa.Table:
        """Returns the choices as an Arrow table.

        The columns are settings (as JSON), threshold, and value, low and high of each score, for
        example `precision.value` and `precision.low`.
        """
        rows = [
            {
                "settings": json.dumps(choice.settings),
                "threshold": choice.threshold,
                "precision": asdict(choice.precision),
                "recall": asdict(choice.recall),
                "f1": asdict(choice.f1),
            }
            for choice in self.choices
        ]
        return pa.Table.from_pylist(rows).flatten()

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draws precision over recall of the best settings of each kind, with Matplotlib.

        A dot marks the threshold. The scores are those on the labels.

        Args:
            axes: Axes to draw on. By default, those of a new figure.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        axes = open_axes(axes)
        for choice in self.choices:
            found = choice.curve.together > 0
            label = f"{choice.definition}, threshold {choice.threshold:g}"
            recall, precision = choice.curve.recall[found], choice.curve.precision[found]
            (line,) = axes.plot(recall, precision, label=label)
            axes.plot(choice.recall.value, choice.precision.value, "o", color=line.get_color())
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
        axes.legend()
        return axes

    @property
    def settings(self) -> Mapping[str, object]:
        """The best settings, which `nearkin.dedup` takes as `settings=` or as keywords."""
        return self.best.settings

    @check_arguments
    def write(self, path: str | Path) -> None:
        """Writes the best settings into a settings file.

        Its comment says what chose them, from which labels, and how good they are.

        Args:
            path: The file, for example `settings.toml`. An existing file is replaced.

        Raises:
            OSError: If the file cannot be written.
        """
        write_settings(path, Settings(self.settings), self._list_remarks())

    def _list_remarks(self) -> list[str]:
        """Returns the comment of the settings file: what chose it, and how good it is."""
        counts = self.labels
        labelled = f"{counts.duplicates:,} pairs of duplicates"
        if counts.distinct is not None:
            labelled += f" and {counts.distinct:,} distinct pairs"
        expected: FittedSettings | HeldOut = self.best
        basis = "on the same labels"
        if self.held_out is not None:
            expected = self.held_out
            basis = "in cross-validation"
        return [
            f"{REMARK} fit {VERSION}, objective {self.objective}, from {labelled} of "
            f"{counts.documents:,} documents.",
            f"Expected ({basis}, with 95 % intervals):",
            f"precision {format_estimate(expected.precision)}",
            f"recall    {format_estimate(expected.recall)}",
            f"F1        {format_estimate(expected.f1)}",
        ]

    def to_dict(self) -> FitRecord:
        """Returns the result as a JSON object, without texts and ids of documents."""
        held_out: FittedRecord | None = None
        if self.held_out is not None:
            held_out = {
                "precision": asdict(self.held_out.precision),
                "recall": asdict(self.held_out.recall),
                "f1": asdict(self.held_out.f1),
                "folds": len(self.held_out.folds),
            }
            if self.held_out.kept is not None:
                held_out["lost"] = self.held_out.kept.lost_share
                held_out["removed"] = self.held_out.kept.removed_share
        return {
            "version": VERSION,
            "objective": self.objective,
            "is_met": self.is_met,
            "labels": _counts_record(self.labels),
            "tried": self.tried,
            "settings": dict(self.settings),
            "choices": [_settings_record(choice) for choice in self.choices],
            "default": None if self.default is None else _settings_record(self.default),
            "held_out": held_out,
            "warnings": list(self.warnings),
        }


def format_estimate(estimate: Estimate) -> str:
    """Returns a score with its interval.

    Examples:
        >>> format_estimate(Estimate(0.912, 0.85, 0.96))
        '91.2% (85.0% to 96.0%)'
    """
    low = format_percent(estimate.low)
    high = format_percent(estimate.high)
    return f"{format_percent(estimate.value)} ({low} to {high})"


def _counts_record(counts: LabelCounts) -> dict[str, int | None]:
    """Returns the numbers of labels, without those of one source if all documents are compared."""
    record = asdict(counts)
    for name in ("duplicates_of_one_source", "distinct_of_one_source"):
        if record[name] is None:
            del record[name]
    return record


def _settings_record(fitted: FittedSettings) -> FittedRecord:
    record: FittedRecord = {
        "settings": fitted.settings,
        "precision": asdict(fitted.precision),
        "recall": asdict(fitted.recall),
        "f1": asdict(fitted.f1),
    }
    if fitted.removals is not None:
        record["doubtful_removals"] = fitted.removals.to_record()
    if fitted.curve.lost is not None and fitted.curve.removed is not None:
        record["lost"] = float(fitted.curve.lost[fitted.position])
        record["removed"] = float(fitted.curve.removed[fitted.position])
    return record
