"""What a higher threshold would have kept, and the pairs that would be the next to part: from the stored pairs alone."""

from typing import NamedTuple

import numpy as np

from nearkin.engine.local.run import LocalRun
from nearkin.packed_pairs import unpack_pairs
from nearkin.report.model import Step

STEPS, LEAST_STEPS = 20, 4
DOCUMENTS = 4_000_000
"""Documents elected anew for one report, over all steps: beyond, there are fewer steps."""
EXAMPLES = 2
SEARCHED = 1 << 22
"""Pairs among which examples are looked for: the first ones of a larger result."""


class NextToPart(NamedTuple):
    """A pair that is found at a step's threshold, and just so."""

    threshold: float
    similarity: float
    a: int
    b: int


def answers_what_if(run: LocalRun) -> bool:
    """Whether a higher threshold is a matter of the stored pairs: not of distances, nor of a second measure."""
    settings = run.options
    return settings.distance is None and settings.second_measure is None and settings.threshold < 1


def thresholds(run: LocalRun) -> list[float]:
    """From the run's threshold to 1, evenly, both included."""
    most = DOCUMENTS // max(len(run.documents()), 1)
    steps, low = max(LEAST_STEPS, min(STEPS, most)), run.options.threshold
    return [round(low + (1 - low) * i / steps, 6) for i in range(steps + 1)]


def what_if(run: LocalRun) -> tuple[Step, ...]:
    """Documents kept and pairs left at each threshold."""
    if not answers_what_if(run):
        return ()
    out = []
    for threshold in thresholds(run):
        higher = run.at(threshold)
        out.append(
            Step(threshold, int(np.asarray(higher.elect().kept).sum()), len(higher.scored().pairs))
        )
    return tuple(out)


def next_to_part(run: LocalRun) -> tuple[NextToPart, ...]:
    """For each threshold, the pairs that are the least above it; each pair once."""
    if not answers_what_if(run):
        return ()
    scored = run.scored().select(slice(0, SEARCHED))
    similarity = scored.similarity
    order = np.argsort(similarity, kind="stable")
    ascending, out, last = similarity[order], [], 0
    for threshold in thresholds(run):
        first = max(last, int(np.searchsorted(ascending, threshold)))
        last = min(first + EXAMPLES, len(order))
        chosen = order[first:last]
        a, b = unpack_pairs(np.asarray(scored.pairs[chosen]))
        out += [
            NextToPart(threshold, *row)
            for row in zip(similarity[chosen].tolist(), a.tolist(), b.tolist(), strict=True)
        ]
    return tuple(out)
