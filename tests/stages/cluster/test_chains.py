"""Clusters of long chains, compared with rounds over whole components."""

import itertools

import numpy as np
import pytest

from nearkin.stages.cluster.chains import graph_of, settle_chains


def settle_in_rounds(links: set[tuple[int, int]], near: np.ndarray) -> list[int]:
    """Returns the kept document of each document: the first of each component takes those near it,
    and the rest falls into components again."""
    n = len(near)
    leader = list(range(n))
    remaining = set(range(n))
    while remaining:
        kept = min(remaining)
        component = {kept}
        while reached := {
            b for a in component for b in remaining - component if (min(a, b), max(a, b)) in links
        }:
            component |= reached
        settled = {d for d in component if near[kept, d]}
        for d in settled:
            leader[d] = kept
        remaining -= settled | {kept}
    return leader


@pytest.mark.parametrize("seed", range(20))
def test_chains_are_settled_as_by_rounds_over_whole_components(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    pairs = [*itertools.pairwise(rng.permutation(n).tolist())]
    pairs += rng.integers(0, n, (seed, 2)).tolist()
    links = {(min(a, b), max(a, b)) for a, b in pairs if a != b and rng.random() < 0.9}
    near = np.zeros((n, n), bool)
    for a, b in sorted(links):
        near[a, b] = near[b, a] = rng.random() < 0.8
    a, b = (np.array(side) for side in zip(*sorted(links), strict=True))
    leader = settle_chains(graph_of(a, b, n), lambda members, kept: near[members, kept])
    assert leader.tolist() == settle_in_rounds(links, near)
