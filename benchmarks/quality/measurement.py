"""The measurement of methods over the halves of labelled sets.

Each set is split into two halves of its clusters. Every method runs over each half alone. A method
that learns from labels gets those of the other half, so that no scored document gave a label.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.quality.exhaustive import ScoredSetting
from benchmarks.quality.labelled_set import LabelledSet, split_halves
from benchmarks.quality.nearkin_runs import (
    CONTAINMENT,
    DEFAULT,
    Clustering,
    FittedRun,
    ask_settings,
    describe_setting,
    describe_settings,
    fit_settings,
    run_dedup,
)
from benchmarks.quality.scores import score_clusters, score_kept
from benchmarks.quality.search_cache import search_set
from benchmarks.quality.texts import LEVELS
from nearkin.engine.settings_file import Settings

SPLIT_SEED = 1
ANSWERS = 50
"""The number of answers of the simulated user."""
CAUTIOUS_THRESHOLD = 0.9
CAUTIOUS_OBJECTIVES = ("precision>=0.99", "lost<=0.01")


@dataclass(frozen=True)
class MethodScores:
    """The scores of a method over a set, or over one of its halves.

    Attributes:
        precision: Share of the pairs inside the clusters that are true pairs.
        recall: Share of the true pairs that are inside the clusters.
        f1: Harmonic mean of precision and recall.
        rand: Adjusted Rand index.
        b_cubed: Harmonic mean of the B-cubed precision and recall.
        lost: Share of the true clusters of which no document is kept.
        removed: Share of the redundant documents that are removed.
        cpu: CPU time in seconds, of a choice of settings included.
        seconds: Wall-clock time in seconds.
    """

    precision: float
    recall: float
    f1: float
    rand: float
    b_cubed: float
    lost: float
    removed: float
    cpu: float
    seconds: float


class MethodResult(NamedTuple):
    """The outcome of a method over both halves of a set.

    Attributes:
        method: Name of the method.
        scores: Means of the halves.
        settings: Settings over each half, as short texts.
        levels: Share of the copies of each level that are in the cluster of their original, for
            sets of planted copies.
        failed: Why the method failed, or an empty text.
    """

    method: str
    scores: MethodScores | None
    settings: tuple[str, ...] = ()
    levels: tuple[float, ...] = ()
    failed: str = ""


def mean_scores(scores: Sequence[MethodScores]) -> MethodScores:
    """Returns the mean of each score."""
    means = {
        field.name: float(np.mean([getattr(one, field.name) for one in scores]))
        for field in fields(MethodScores)
    }
    return MethodScores(**means)


def score_clustering(labelled: LabelledSet, clustering: Clustering) -> MethodScores:
    """Returns the scores of clusters over a set."""
    clusters = score_clusters(labelled.clusters, clustering.labels)
    kept = score_kept(labelled.clusters, clustering.kept)
    return MethodScores(
        precision=clusters.precision,
        recall=clusters.recall,
        f1=clusters.f1,
        rand=clusters.rand,
        b_cubed=clusters.b_cubed,
        lost=kept.lost,
        removed=kept.removed,
        cpu=clustering.cpu,
        seconds=clustering.seconds,
    )


def recall_of_levels(labelled: LabelledSet, clustering: Clustering) -> tuple[float, ...]:
    """Returns the share of the copies of each level that are with their original."""
    variants = np.array(labelled.variants)
    originals = np.flatnonzero(variants == "original")
    original_of = dict(zip(labelled.clusters[originals].tolist(), originals.tolist(), strict=True))
    shares = []
    for level in LEVELS:
        rows = np.flatnonzero(variants == level)
        if len(rows):
            originals_of_rows = [
                original_of[cluster] for cluster in labelled.clusters[rows].tolist()
            ]
            is_joined = clustering.labels[rows] == clustering.labels[originals_of_rows]
            shares.append(float(np.mean(is_joined)))
    return tuple(shares)


class Halves(NamedTuple):
    """A set, split into two halves of its clusters."""

    first: LabelledSet
    second: LabelledSet

    @classmethod
    def of(cls, labelled: LabelledSet) -> "Halves":
        """Returns the halves of a set."""
        first, second = split_halves(labelled, SPLIT_SEED)
        return cls(labelled.select(first), labelled.select(second))

    def with_other(self) -> Iterator[tuple[LabelledSet, LabelledSet]]:
        """Yields each half with the other one."""
        yield self.first, self.second
        yield self.second, self.first


def measure_method(
    method: str,
    halves: Halves,
    run: Callable[[LabelledSet, LabelledSet], tuple[Clustering, str]],
) -> MethodResult:
    """Measures a method over both halves.

    Args:
        method: Name of the method.
        halves: The halves.
        run: Clusters a half, for which it may learn from the other one. Returns the clusters and
            the settings.
    """
    scores = []
    settings = []
    levels = []
    for half, other in halves.with_other():
        clustering, described = run(half, other)
        scores.append(score_clustering(half, clustering))
        settings.append(described)
        levels.append(recall_of_levels(half, clustering))
    means = tuple(float(np.mean(shares)) for shares in zip(*levels, strict=True))
    return MethodResult(method, mean_scores(scores), tuple(settings), means)


def _run_with(settings: Mapping[str, object], half: LabelledSet) -> tuple[Clustering, str]:
    return run_dedup(half, settings), describe_settings(settings)


def _run_fitted(half: LabelledSet, fitted: FittedRun) -> tuple[Clustering, str]:
    clustering = run_dedup(half, fitted.settings)
    clustering = clustering._replace(
        cpu=clustering.cpu + fitted.cpu, seconds=clustering.seconds + fitted.seconds
    )
    return clustering, describe_settings(fitted.settings)


def measure_default(halves: Halves) -> MethodResult:
    """Measures `nearkin dedup` without options."""
    return measure_method("default", halves, lambda half, _: _run_with(DEFAULT, half))


def measure_preset(halves: Halves) -> MethodResult:
    """Measures the preset of the kind of data."""
    settings = Settings.of_preset(halves.first.kind).values
    return measure_method("preset", halves, lambda half, _: _run_with(settings, half))


def measure_fitted(halves: Halves) -> MethodResult:
    """Measures settings that are fitted to the labels of the other half."""
    return measure_method(
        "fitted", halves, lambda half, other: _run_fitted(half, fit_settings(other))
    )


def measure_asked(halves: Halves) -> MethodResult:
    """Measures settings that are chosen from answers about pairs of the half itself."""
    return measure_method(
        "asked", halves, lambda half, _: _run_fitted(half, ask_settings(half, ANSWERS))
    )


def measure_cautious(halves: Halves) -> Iterator[MethodResult]:
    """Measures what a user would do who must not lose a text: few found pairs may be wrong.

    A threshold of 0.9 needs no labels. The other settings are fitted with a minimum of precision,
    and with a limit of the clusters that are lost.
    """
    settings = {"threshold": CAUTIOUS_THRESHOLD}
    yield measure_method(
        f"threshold {CAUTIOUS_THRESHOLD}", halves, lambda half, _: _run_with(settings, half)
    )
    for objective in CAUTIOUS_OBJECTIVES:
        yield measure_method(
            f"fitted, {objective}",
            halves,
            lambda half, other, objective=objective: _run_fitted(
                half, fit_settings(other, objective)
            ),
        )


class Search(NamedTuple):
    """The best F1 of the exhaustive search over the halves of a set.

    Attributes:
        transferred: Mean F1 of the settings that are the best ones on the other half.
        best: Mean F1 of the settings that are the best ones on the half itself, which no method
            that learns from other data can be expected to reach.
        settings: The best settings on each half.
    """

    transferred: float
    best: float
    settings: tuple[str, ...]


def search_halves(halves: Halves, folder: Path, *, has_containment: bool) -> Search:
    """Searches the best single measure over each half.

    Args:
        halves: The halves.
        folder: Folder in which results of searches are kept.
        has_containment: Whether containment is among the measures. `nearkin dedup` does not
            offer it.
    """
    scored = []
    for half, _ in halves.with_other():
        rows = search_set(half, folder)
        scored.append(
            [row for row in rows if has_containment or row.setting.measure != CONTAINMENT]
        )
    first, second = scored
    return Search(
        transferred=(_find_f1(second, first[0]) + _find_f1(first, second[0])) / 2,
        best=(first[0].f1 + second[0].f1) / 2,
        settings=tuple(describe_setting(rows[0].setting) for rows in scored),
    )


def _find_f1(rows: Sequence[ScoredSetting], chosen: ScoredSetting) -> float:
    """Returns the F1 of a setting among the scores of a half.

    A normalisation that changes nothing in a half is not among them. It is the plain one then.
    """
    by_setting = {row.setting: row.f1 for row in rows}
    if chosen.setting in by_setting:
        return by_setting[chosen.setting]
    plain = {setting: f1 for setting, f1 in by_setting.items() if setting.normalise == "plain"}
    same = {
        (one.unit, one.size, one.measure, one.threshold, one.cluster): f1
        for one, f1 in plain.items()
    }
    one = chosen.setting
    return same[(one.unit, one.size, one.measure, one.threshold, one.cluster)]
