"""Tests of the kernels of the search among blocked entries."""

import numpy as np

from nearkin.engine.blocklist.kernels import count_shared_hashes
from nearkin.stages.hashing.sorted_lookup import PrefixIndex


def test_shared_hashes_are_counted_like_intersections_of_sets() -> None:
    rng = np.random.default_rng(5)
    universe = rng.integers(0, 2**64, 30, np.uint64)
    entries = [set(rng.choice(universe, 6, replace=False).tolist()) for _ in range(12)]
    documents = [set(rng.choice(universe, size, replace=False).tolist()) for size in range(9)]
    ordered = np.array(sorted(set().union(*entries)), np.uint64)
    holders = [[i for i, entry in enumerate(entries) if value in entry] for value in ordered]
    first, shift = PrefixIndex.of(ordered)
    out = [np.empty(len(documents) * len(entries), np.int64) for _ in range(3)]
    counts = np.zeros(len(entries), np.int64)
    count = count_shared_hashes(
        np.array([value for document in documents for value in sorted(document)], np.uint64),
        np.concatenate([[0], np.cumsum([len(document) for document in documents])]),
        ordered,
        first,
        shift,
        np.concatenate([[0], np.cumsum([len(entry) for entry in holders])]),
        np.concatenate(holders).astype(np.uint32),
        counts,
        *out,
    )
    got = sorted(zip(*(column[:count].tolist() for column in out), strict=True))
    assert got == [
        (i, j, len(document & entry))
        for i, document in enumerate(documents)
        for j, entry in enumerate(entries)
        if document & entry
    ]
    assert not counts.any()
