"""Compares what `nearkin fit` promises from labelled pairs with the scores over all documents.

Of each labelled set, 50 pairs of duplicates and 50 distinct pairs are labelled: half of the
distinct ones are drawn at random, and half among pairs that look similar. The promised intervals
are those of the precision and of F1, and the truth is that of the pairs inside of the clusters of a
run with the settings over the whole set.

python -m benchmarks.pair_fits --clones FOLDER --full --write
"""

import argparse
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import nearkin as nk
from benchmarks import tables
from benchmarks.doubtful import list_sets
from benchmarks.pages import HERE, ROOT
from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.nearkin_runs import describe_settings, run_dedup
from benchmarks.quality.scores import score_clusters
from benchmarks.tables import Table
from nearkin.quality.evaluate.golden import GoldenSet, golden_set_from_pairs
from nearkin.quality.evaluate.intervals import Estimate

RECORD = HERE / "pair_fits.json"
PAGE = ROOT / "docs" / "contributing" / "measured-fits.md"
LABELS = 50
"""The number of labelled pairs of each kind."""
SEED = 7
SIMILAR = {"shingle": "chars:3", "threshold": 0.3}
"""The settings with which pairs look similar."""


def label_pairs(labelled: LabelledSet) -> GoldenSet:
    """Labels some pairs of a set."""
    draw = np.random.default_rng(SEED)
    ids = labelled.documents["id"].to_pylist()
    sources = labelled.documents["source"].to_pylist()
    rows_of_cluster: dict[int, list[int]] = {}
    for row, cluster in enumerate(labelled.clusters.tolist()):
        rows_of_cluster.setdefault(cluster, []).append(row)

    def may_be_compared(first: int, second: int) -> bool:
        return not labelled.across or sources[first] != sources[second]

    duplicates = [
        (rows[0], other)
        for rows in rows_of_cluster.values()
        for other in rows[1:]
        if may_be_compared(rows[0], other)
    ]
    place = {id: row for row, id in enumerate(ids)}
    found = nk.pairs(
        labelled.documents.select(["id", "text", "source"]),
        id="id",
        text="text",
        across="source" if labelled.across else None,
        **SIMILAR,  # type: ignore[arg-type]
    ).pairs.arrow
    similar = [
        (place[first], place[second])
        for first, second in zip(found["id_a"].to_pylist(), found["id_b"].to_pylist(), strict=True)
        if labelled.clusters[place[first]] != labelled.clusters[place[second]]
    ]
    distinct = {similar[row] for row in draw.permutation(len(similar))[: LABELS // 2].tolist()}
    while len(distinct) < LABELS:
        first, second = draw.integers(len(ids), size=2).tolist()
        if labelled.clusters[first] != labelled.clusters[second] and may_be_compared(first, second):
            distinct.add((first, second))
    chosen = [duplicates[row] for row in draw.permutation(len(duplicates))[:LABELS].tolist()]
    pairs = [(ids[first], ids[second]) for first, second in [*chosen, *sorted(distinct)]]
    return golden_set_from_pairs(pairs, [True] * len(chosen) + [False] * len(distinct))


def pair_fits(full: bool, clones: Path | None) -> Table:
    """Returns the promises and the truth of each set."""
    rows = []
    scores = []
    for labelled in list_sets(clones, full=full):
        across = "source" if labelled.across else None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = nk.fit(
                    labelled.documents, label_pairs(labelled), id="id", text="text", across=across
                )
        except nk.UsageError as error:
            print(labelled.name, error, flush=True)
            continue
        settings = {"max_removed": 1.0, "text": "text", **fitted.settings}
        found = score_clusters(labelled.clusters, run_dedup(labelled, settings).labels)
        held_out = fitted.held_out
        if held_out is None:
            continue
        holds = held_out.precision.low <= found.precision <= held_out.precision.high
        scores.append((found.precision, found.recall, found.f1, float(holds)))
        rows.append(
            (
                labelled.name,
                describe_settings(fitted.settings),
                _describe(held_out.precision),
                f"{found.precision:.2f}",
                _describe(held_out.f1),
                f"{found.f1:.2f}",
            )
        )
        print(*rows[-1], flush=True)
    means = dict(zip(("precision", "recall", "f1", "holds"), np.mean(scores, axis=0), strict=True))
    return Table(
        "pair-fits",
        f"What {2 * LABELS} labelled pairs promise, and what is true over all pairs of "
        f"{len(scores)} labelled sets. The mean precision is {means['precision']:.2f}, the "
        f"recall {means['recall']:.2f} and F1 {means['f1']:.2f}; the interval of the precision "
        f"holds on {means['holds']:.0%} of the sets:",
        ("set", "settings", "precision to expect", "true", "F1 to expect", "true F1"),
        rows,
    )


def _describe(score: Estimate) -> str:
    return f"{score.value:.2f} ({score.low:.2f} to {score.high:.2f})"


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--clones", type=Path)
    options, others = parser.parse_known_args()
    maker = partial(pair_fits, clones=options.clones)
    maker.__name__ = "pair_fits"  # type: ignore[attr-defined]
    tables.main(__doc__, (maker,), RECORD, PAGE, arguments=others)


if __name__ == "__main__":
    main()
