"""Runs of nearkin over labelled sets: with the default, a preset, and settings from labels."""

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

import nearkin as nk
from benchmarks.quality.exhaustive import Setting
from benchmarks.quality.labelled_set import LabelledSet

Settings = Mapping[str, object]
DEFAULT: Settings = {"threshold": 0.8}
"""The default settings. A run without any chooses its own for short texts."""
CONTAINMENT = "containment"
"""The measure of the exhaustive search that `nearkin dedup` does not offer."""


class Clustering(NamedTuple):
    """The clusters that a tool made of a set.

    Attributes:
        labels: Number of the cluster of each document, int64 (n,).
        kept: Whether each document is kept, bool (n,).
        cpu: CPU time in seconds.
        seconds: Wall-clock time in seconds.
        chosen: What the run chose for the documents, as `run.json` has it, or None.
    """

    labels: np.ndarray
    kept: np.ndarray
    cpu: float
    seconds: float
    chosen: nk.results.ChosenSettings | None = None


def run_dedup(labelled: LabelledSet, settings: Settings) -> Clustering:
    """Returns the clusters of `nearkin.dedup`.

    Only documents of different sources are compared if the set says so: that is known about data,
    and is not chosen.

    Args:
        labelled: The set.
        settings: Arguments of `nearkin.dedup`, beside the columns.
    """
    keywords: Settings = {"across": _across_of(labelled), **settings}
    began = time.perf_counter()
    cpu_began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short texts and the default are what is measured
        deduplicated = nk.dedup(labelled.documents, id="id", **keywords)  # type: ignore[arg-type]
        clusters = deduplicated.clusters.arrow
    cpu = time.process_time() - cpu_began
    seconds = time.perf_counter() - began
    rows = {id: row for row, id in enumerate(labelled.documents["id"].to_pylist())}
    # a row without a text in the columns is rejected, and is a cluster of its own
    labels = np.arange(len(rows))
    kept = np.zeros(len(rows), bool)
    for id, leader, is_kept in zip(
        clusters["id"].to_pylist(),
        clusters["cluster"].to_pylist(),
        clusters["kept"].to_pylist(),
        strict=True,
    ):
        labels[rows[id]] = rows[leader]
        kept[rows[id]] = is_kept
    return Clustering(labels, kept, cpu, seconds, deduplicated.chosen)


def _across_of(labelled: LabelledSet) -> str | None:
    """Returns the column of sources, if only documents of different sources can be duplicates."""
    return "source" if labelled.across else None


class FittedRun(NamedTuple):
    """Settings that were chosen from labels or answers.

    Attributes:
        settings: Arguments of `nearkin.dedup`.
        cpu: CPU time of the choice in seconds.
        seconds: Wall-clock time of the choice in seconds.
    """

    settings: Settings
    cpu: float
    seconds: float


def fit_settings(labelled: LabelledSet, objective: str = "f1") -> FittedRun:
    """Returns the settings that `nearkin.fit` chooses from all labels of a set.

    Of records, it gets the columns of all fields, and chooses among them.

    Args:
        labelled: The set.
        objective: What is maximized.
    """
    ids = labelled.documents["id"].to_pylist()
    names = dict(zip(ids, map(str, labelled.clusters.tolist()), strict=True))
    began = time.perf_counter()
    cpu_began = time.process_time()
    fitted = nk.fit(
        labelled.documents,
        names,
        id="id",
        text=labelled.fields,
        objective=objective,
        across=_across_of(labelled),
    )
    cpu = time.process_time() - cpu_began
    return FittedRun(fitted.settings, cpu, time.perf_counter() - began)


def ask_settings(labelled: LabelledSet, answers: int) -> FittedRun:
    """Returns the settings that `nearkin fit --ask` chooses from answers about pairs of a set.

    A simulated user who knows the true clusters gives the answers, in rounds as at the terminal.

    Args:
        labelled: The set.
        answers: Number of answers.
    """
    from nearkin.corpus import Columns, TableCorpus
    from nearkin.quality.fit.asking import AskedSettings, open_session
    from nearkin.quality.fit.objective import Objective
    from nearkin.reports.terminal.asking import ROUND
    from nearkin.runtime.progress import Silent

    began = time.perf_counter()
    cpu_began = time.process_time()
    session = open_session(
        TableCorpus(labelled.documents),
        Columns(id="id"),
        [],
        Objective.parse("f1"),
        seed=1,
        workers=2,
        progress=Silent(),
    )
    rows = {id: row for row, id in enumerate(labelled.documents["id"].to_pylist())}
    clusters = labelled.clusters[[rows[id] for id in session.pool.documents.ids]]
    while len(session.answers) < answers:
        for number in session.choose_pairs(min(ROUND, answers - len(session.answers))):
            first, second = session.pool.pairs[number]
            session.answers[number] = bool(clusters[first] == clusters[second])
    settings = AskedSettings.of_session(session).settings
    cpu = time.process_time() - cpu_began
    return FittedRun(settings, cpu, time.perf_counter() - began)


def count_found_pairs(labelled: LabelledSet) -> tuple[int, int]:
    """Counts pairs at 0.8 and above: those that `nearkin.pairs` finds without options, and all.

    All pairs are compared as sets of three words, by the exhaustive search's code.

    Args:
        labelled: The set.

    Returns:
        The number of pairs found, and the number of all pairs.
    """
    from benchmarks.quality.exhaustive import build_shingles, compare_all, number_units

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = nk.pairs(labelled.documents, id="id", expand_exact=True).pairs.arrow
    found = set(zip(pairs["id_a"].to_pylist(), pairs["id_b"].to_pylist(), strict=True))
    units = number_units(labelled.texts, "words", "plain")
    similarity = compare_all(build_shingles(units, 3), "jaccard")
    ids = labelled.documents["id"].to_pylist()
    first, second = np.nonzero(np.triu(similarity >= 0.8 - 1e-6))
    expected = [(ids[a], ids[b]) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    hits = sum((a, b) in found or (b, a) in found for a, b in expected)
    return hits, len(expected)


def describe_settings(settings: Settings) -> str:
    """Returns settings as a short text, for example `chars:3 idf-jaccard 0.5`."""
    steps: Sequence[str] = ()
    normalise = settings.get("normalise", ())
    if isinstance(normalise, str):
        steps = normalise.split(",")
    elif isinstance(normalise, Sequence):
        steps = normalise
    added = [f"+{step}" for step in steps if step not in ("nfkc", "lower")]
    parts = [str(settings.get("shingle", "words:3")), *added]
    parts.append(str(settings.get("measure", "jaccard")))
    parts.append(str(settings.get("accept", settings.get("threshold", 0.8))))
    columns = settings.get("text")
    if isinstance(columns, Sequence):
        parts.append(f"of {', '.join(columns)}")
    if settings.get("cluster", "leaders") != "leaders":
        parts.append(str(settings["cluster"]))
    if settings.get("floor") is not None:
        parts.append(f"floor {settings['floor']:g}")
    return " ".join(parts)


def describe_setting(setting: Setting) -> str:
    """Returns a setting of the exhaustive search in the same form."""
    normalise = "" if setting.normalise == "plain" else setting.normalise
    return describe_settings(
        {
            "shingle": f"{setting.unit}:{setting.size}",
            "normalise": [step for step in normalise.split(",") if step],
            "measure": setting.measure,
            "threshold": setting.threshold,
            "cluster": setting.cluster,
        }
    )
