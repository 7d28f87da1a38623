"""Tests of the pairs that a run may compare, against two loops over the documents."""

from itertools import product

import numpy as np
import pytest

from nearkin.stages.packed_pairs import pack_pairs
from nearkin.stages.pair_scope import EVERY_SOURCE, PairScope

BLOCKS = np.array([0, 0, 1, 1, 0, 2**64 - 1], np.uint64)
SOURCES = np.array([7, 8, 7, 7, 7, 7], np.uint64)
FIRST, SECOND = np.array(list(product(range(6), repeat=2))).T


@pytest.mark.parametrize("sources", [EVERY_SOURCE, SOURCES], ids=["every source", "by source"])
def test_pairs_of_one_block_and_of_different_sources_are_allowed(sources: np.ndarray) -> None:
    want = [
        bool(BLOCKS[a] == BLOCKS[b] and (not len(sources) or sources[a] != sources[b]))
        for a, b in zip(FIRST, SECOND, strict=True)
    ]
    scope = PairScope(BLOCKS, sources)
    assert scope.allows(FIRST, SECOND).tolist() == want
    assert scope.allows_packed(pack_pairs(FIRST, SECOND)).tolist() == want


def test_scope_of_all_pairs_allows_every_pair() -> None:
    assert PairScope.of_all_pairs(6).allows(FIRST, SECOND).all()


def test_scope_without_documents_allows_no_pairs() -> None:
    nothing = np.empty(0, np.int64)
    assert PairScope.of_all_pairs(0).allows(nothing, nothing).tolist() == []
    assert PairScope.of_all_pairs(0).allows_packed(np.empty(0, np.uint64)).tolist() == []


@pytest.mark.parametrize("sources", [EVERY_SOURCE, SOURCES], ids=["every source", "by source"])
@pytest.mark.parametrize("chosen", [[], [4], [5, 0, 1, 0]])
def test_scope_of_selected_documents_is_by_their_positions(
    chosen: list[int], sources: np.ndarray
) -> None:
    documents = np.array(chosen, np.int64)
    scope = PairScope(BLOCKS, sources)
    selected = scope.select(documents)
    a, b = np.array(list(product(range(len(chosen)), repeat=2)), np.int64).reshape(-1, 2).T
    assert (selected.allows(a, b) == scope.allows(documents[a], documents[b])).all()
    assert selected.blocks.flags.c_contiguous
