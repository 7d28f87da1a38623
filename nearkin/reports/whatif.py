"""The results of a run at higher thresholds, computed from its stored pairs alone."""

from dataclasses import dataclass

import numpy as np

from nearkin.engine.run import Run
from nearkin.reports.model import ThresholdStep
from nearkin.runtime.threads import ordered_map
from nearkin.stages.packed_pairs import unpack_pairs

MAX_STEPS = 20
MIN_STEPS = 4
ELECTED_DOCUMENTS = 4_000_000
"""The number of documents that are elected again for one report, over all steps. Larger corpora
have fewer steps."""
PAIRS_PER_STEP = 2
"""The number of borderline pairs that are shown for a step."""
SEARCHED_PAIRS = 1 << 22
"""The number of stored pairs that are searched for borderline pairs."""


@dataclass(frozen=True)
class PairAboveThreshold:
    """A pair whose similarity is just above the threshold of a step.

    Attributes:
        threshold: Threshold of the step.
        similarity: Similarity of the pair.
        a: Number of the first document in the corpus.
        b: Number of the second document in the corpus.
    """

    threshold: float
    similarity: float
    a: int
    b: int


def has_higher_thresholds(run: Run) -> bool:
    """Returns True if the stored pairs of a run determine its result at higher thresholds.

    They do not for Hamming distances, for runs with several fields, a second measure, a reference
    or a blocklist, and for those in which an expression decides.
    """
    options = run.options
    if options.distance is not None or options.second_measure is not None or run.compares_others:
        return False
    return options.acceptance is None and not options.fields and options.threshold < 1


def list_thresholds(run: Run) -> list[float]:
    """Returns thresholds in even steps from that of the run to 1, both included."""
    affordable = ELECTED_DOCUMENTS // max(len(run.documents()), 1)
    steps = max(MIN_STEPS, min(MAX_STEPS, affordable))
    low = run.options.threshold
    return [round(low + (1 - low) * i / steps, 6) for i in range(steps + 1)]


def evaluate_thresholds(run: Run) -> tuple[ThresholdStep, ...]:
    """Returns the numbers of kept documents and of pairs at each threshold.

    There are none if buckets were hot: their documents were compared with the leaders of the run's
    threshold, and others would lead at a higher one.
    """
    if run.hot_buckets or not has_higher_thresholds(run):
        return ()

    def evaluate(threshold: float) -> ThresholdStep:
        kept = int(np.asarray(run.elect_at(threshold).kept).sum())
        return ThresholdStep(threshold, kept, len(run.scored_at(threshold).pairs))

    return tuple(ordered_map(evaluate, list_thresholds(run), run.options.workers))


def borderline_pairs(run: Run) -> tuple[PairAboveThreshold, ...]:
    """Returns the least similar pairs above each threshold. A pair is returned once."""
    if not has_higher_thresholds(run):
        return ()
    scored = run.scored().select(slice(0, SEARCHED_PAIRS))
    similarity = scored.similarity
    order = np.argsort(similarity, kind="stable")
    ascending = similarity[order]
    pairs: list[PairAboveThreshold] = []
    last = 0
    for threshold in list_thresholds(run):
        first = max(last, int(np.searchsorted(ascending, threshold)))
        last = min(first + PAIRS_PER_STEP, len(order))
        chosen = order[first:last]
        a, b = unpack_pairs(np.asarray(scored.pairs[chosen]))
        for value, x, y in zip(similarity[chosen].tolist(), a.tolist(), b.tolist(), strict=True):
            pairs.append(PairAboveThreshold(threshold, value, x, y))
    return tuple(pairs)
