"""Compares the share of doubtful removals of runs with the share of their wrong removals.

Each labelled set is deduplicated with ten settings, from strict to careless. The sets are those of
`benchmarks.quality.sets`, the populations of the presets, and open sets from clones of their
repositories (see `benchmarks.quality.open_sets`). Rows of one source are not compared where only
rows of different sources can be duplicates.

python -m benchmarks.doubtful --clones FOLDER --full --write

`--set NAME`, which can be repeated, measures the choices of these sets only. The rows of the others
are those of the record.
"""

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nearkin as nk
from benchmarks import tables
from benchmarks.pages import HERE, ROOT
from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.nearkin_runs import describe_settings, run_dedup
from benchmarks.quality.open_sets import LOGS, OPEN_SETS, Clones, read_log, read_open_set
from benchmarks.quality.populations.population import POPULATIONS, make_population
from benchmarks.quality.scores import score_clusters, score_kept
from benchmarks.quality.sets import SETS, Places, make_set
from benchmarks.tables import Table
from nearkin.engine.removal_limit import WRONG_SHARES, WrongShare
from nearkin.engine.settings_file import Settings

RECORD = HERE / "doubtful.json"
PAGES = [
    ROOT / "docs" / folder / "doubtful-removals.md" for folder in ("explanation", "contributing")
]
ROWS = 3000
"""The number of rows of a population."""
SEED = 5
QUICK_SETS = 2
"""The number of sets of each origin of the quick form."""
SETTINGS: tuple[Mapping[str, Any], ...] = (
    *(
        {"shingle": "chars:3", "measure": "idf-jaccard", "threshold": threshold}
        for threshold in (0.4, 0.55, 0.7, 0.85)
    ),
    *(
        {"shingle": "words:1", "measure": "idf-jaccard", "threshold": threshold}
        for threshold in (0.5, 0.7)
    ),
    *({"shingle": "words:3", "threshold": threshold} for threshold in (0.4, 0.6, 0.8)),
    {"shingle": "chars:5", "threshold": 0.6},
)
SHOWN_SETTINGS = (SETTINGS[1], SETTINGS[2], SETTINGS[8])
"""The settings that the table of the sets shows."""
INTERVAL = (0.05, 0.95)
"""The quantiles of the share of wrong removals between which it is expected."""
LEAST_REMOVED = 20
"""The number of removed near-duplicates from which a run counts."""


class Measured(NamedTuple):
    """A run over a labelled set."""

    labelled: str
    settings: str
    removed: int
    wrong: float
    """The share of the removed near-duplicates that are not in the true cluster of the kept one."""
    doubtful: float
    """The share of the examined ones that are doubtful."""


def list_sets(clones: Path | None, *, full: bool) -> Iterator[LabelledSet]:
    """Yields the labelled sets."""
    most = None if full else QUICK_SETS
    for name in list(SETS)[:most]:
        labelled = make_set(name, Places())
        if labelled is not None:
            yield labelled
    for name in list(POPULATIONS)[:most]:
        yield replace(make_population(name, ROWS, SEED), name=f"population of {name}")
    if clones is not None:
        for name in list(OPEN_SETS)[:most]:
            yield read_open_set(name, Clones(clones))


def measure(labelled: LabelledSet, settings: Mapping[str, Any]) -> Measured | None:
    """Returns a run over a set, or None if it removes too few near-duplicates."""
    used = {"across": "source" if labelled.across else None, **settings}
    if labelled.kind == "logs":
        used["normalise"] = Settings.of_preset("logs").values["normalise"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the runs warn of is measured
        result = nk.dedup(labelled.documents, id="id", max_removed=1.0, **used)
    removed = result.removed.arrow.to_pylist()
    near = [row for row in removed if row["kind"] == "near"]
    doubtful = result.report_data.doubtful
    if len(near) < LEAST_REMOVED or doubtful is None:
        return None
    rows = {id: row for row, id in enumerate(labelled.documents["id"].to_pylist())}
    true = labelled.clusters
    wrong = np.mean([true[rows[row["id"]]] != true[rows[row["cluster"]]] for row in near])
    described = describe_settings(settings)
    return Measured(labelled.name, described, len(near), float(wrong), doubtful.share)


@cache
def measure_all(clones: Path | None, *, full: bool) -> list[Measured]:
    """Returns the runs over all sets that remove enough near-duplicates."""
    runs = []
    for labelled in list_sets(clones, full=full):
        for settings in SETTINGS:
            run = measure(labelled, settings)
            if run is not None:
                runs.append(run)
                print(
                    f"{run.labelled:28} {run.settings:40} removed {run.removed:5}, wrong "
                    f"{run.wrong:.2f}, doubtful {run.doubtful:.2f}",
                    flush=True,
                )
    return runs


def doubtful_shares(full: bool, clones: Path | None) -> Table:
    """Returns the shares of wrong removals by the share of doubtful ones."""
    runs = measure_all(clones, full=full)
    expected = expect_wrong_shares(runs)
    counts = Counter(find_class(run.doubtful) for run in runs)
    sets = sorted({run.labelled for run in runs})
    errors = []
    covered = []
    weights = []
    for name in sets:
        others = expect_wrong_shares([run for run in runs if run.labelled != name])
        own = [run for run in runs if run.labelled == name]
        for run in own:
            wrong = others[find_class(run.doubtful)]
            errors.append(abs(run.wrong - wrong.mean))
            covered.append(wrong.low <= run.wrong <= wrong.high)
            weights.append(1 / len(own))
    begins = [0.0, *(limit for limit, _ in WRONG_SHARES)]
    return Table(
        "doubtful-shares",
        f"Runs over {len(sets)} labelled sets that remove at least {LEAST_REMOVED} "
        "near-duplicates, by the share of doubtful removals, and the share of removals that are "
        "wrong. Each set has the same weight. With the shares from the other sets, "
        f"{np.average(covered, weights=weights):.0%} of the runs over a set are within the "
        f"interval, and the mean differs by {np.average(errors, weights=weights):.2f} on average:",
        ("doubtful", "runs", "wrong: mean", "90 % of the runs"),
        [
            (
                f"{begins[number]:.0%} to {begins[number + 1]:.0%}",
                f"{counts[number]}",
                f"{wrong.mean:.0%}",
                f"{wrong.low:.0%} to {wrong.high:.0%}",
            )
            for number, wrong in enumerate(expected)
        ],
    )


def find_class(doubtful: float) -> int:
    """Returns the class of a share of doubtful removals."""
    return next(number for number, (limit, _) in enumerate(WRONG_SHARES) if doubtful <= limit)


def expect_wrong_shares(runs: Sequence[Measured]) -> list[WrongShare]:
    """Returns the share of wrong removals of each class, with the same weight for each set."""
    of_set = Counter(run.labelled for run in runs)
    expected = []
    for number in range(len(WRONG_SHARES)):
        chosen = sorted(
            (run for run in runs if find_class(run.doubtful) == number), key=lambda run: run.wrong
        )
        if not chosen:
            expected.append(WrongShare(0, 0, 1))
            continue
        wrong = np.array([run.wrong for run in chosen])
        weights = np.array([1 / of_set[run.labelled] for run in chosen])
        shares = np.cumsum(weights) / weights.sum()
        low, high = (wrong[np.searchsorted(shares, share)] for share in INTERVAL)
        expected.append(WrongShare(low, float(np.average(wrong, weights=weights)), high))
    return expected


def doubtful_sets(full: bool, clones: Path | None) -> Table:
    """Returns the shares of wrong and of doubtful removals of each set with some settings."""
    runs = measure_all(clones, full=full)
    shown = [describe_settings(settings) for settings in SHOWN_SETTINGS]
    by_key = {(run.labelled, run.settings): run for run in runs}
    rows = []
    for name in dict.fromkeys(run.labelled for run in runs):
        cells = [by_key.get((name, settings)) for settings in shown]
        rows.append(
            (
                name,
                *("–" if run is None else f"{run.wrong:.0%} / {run.doubtful:.0%}" for run in cells),
            )
        )
    return Table(
        "doubtful-sets",
        "The share of wrong removals, and that of doubtful ones, of each set with three settings:",
        ("set", *shown),
        rows,
    )


def choices(full: bool, clones: Path | None, only: Sequence[str]) -> Table:
    """Returns the scores of runs without settings, which choose them for short texts and logs."""
    return tabulate_choices(
        "choices",
        "What runs without settings choose, the scores of the pairs inside of the clusters, and "
        "the share of the true clusters of which no document is kept:",
        list_sets(clones, full=full),
        only,
    )


def log_choices(full: bool, clones: Path | None, only: Sequence[str]) -> Table:
    """Returns the scores of runs without settings over logs of loghub."""
    names = [] if clones is None else LOGS[: None if full else QUICK_SETS]
    return tabulate_choices(
        "log-choices",
        "The same of whole lines of logs of loghub, whose clusters are templates:",
        (read_log(name, Clones(clones)) for name in names if clones is not None),
        only,
    )


def tabulate_choices(
    name: str, note: str, sets: Iterable[LabelledSet], only: Sequence[str]
) -> Table:
    """Returns the scores of runs without settings over sets, or only of some and recorded ones."""
    recorded = read_rows(name) if only else {}
    rows = []
    for labelled in sets:
        measured = recorded.get(labelled.name)
        if measured is None or labelled.name in only:
            measured = measure_choice(labelled)
            print(" ".join(measured), flush=True)
        rows.append(measured)
    if rows:
        means = np.mean([[float(score) for score in row[2:]] for row in rows], axis=0)
        rows.append(("mean", "", *(f"{mean:.2f}" for mean in means)))
    return Table(name, note, ("set", "chosen", "precision", "recall", "F1", "lost"), rows)


def read_rows(name: str) -> dict[str, tuple[str, ...]]:
    """Returns the recorded rows of a table by their sets."""
    tables_by_name = {table["name"]: table for table in json.loads(RECORD.read_bytes())["tables"]}
    rows = tables_by_name[name]["rows"] if name in tables_by_name else []
    return {row[0]: tuple(row) for row in rows}


def measure_choice(labelled: LabelledSet) -> tuple[str, ...]:
    """Returns the row of a set: the choice of a run without settings, and its scores."""
    text = list(labelled.fields) if len(labelled.fields) > 1 else None
    clustering = run_dedup(labelled, {"max_removed": 1.0, "text": text})
    found = score_clusters(labelled.clusters, clustering.labels)
    kept = score_kept(labelled.clusters, clustering.kept)
    scores = (found.precision, found.recall, found.f1, kept.lost)
    return (
        labelled.name,
        describe_choice(clustering.chosen),
        *(f"{score:.2f}" for score in scores),
    )


def describe_choice(chosen: nk.results.ChosenSettings | None) -> str:
    """Returns what a run chose."""
    if chosen is None:
        return "long texts"
    if chosen.reason:
        return chosen.reason.partition(":")[0]
    if "accept" in chosen.settings:
        return "weights of columns"
    return "–" if chosen.is_default else describe_settings(chosen.settings)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--clones", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    options, others = parser.parse_known_args()
    makers = []
    for make, given in (
        (doubtful_shares, {}),
        (doubtful_sets, {}),
        (choices, {"only": options.sets}),
        (log_choices, {"only": options.sets}),
    ):
        maker = partial(make, clones=options.clones, **given)
        maker.__name__ = make.__name__  # type: ignore[attr-defined]
        makers.append(maker)
    tables.main(__doc__, makers, RECORD, *PAGES, arguments=others)


if __name__ == "__main__":
    main()
