"""Tests of clustering with decided pairs, against brute force over small random graphs."""

from collections.abc import Iterable

import numpy as np
import pytest

from nearkin.stages.cluster.components import cluster_components
from nearkin.stages.cluster.decided_pairs import (
    ConstrainedGroups,
    DecidedPairs,
    drop_forbidden_links,
    join_decided_groups,
)
from nearkin.stages.cluster.election import elect_leaders
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs

Pair = tuple[int, int]


def random_pairs(rng: np.random.Generator, documents: int, share: float) -> list[Pair]:
    first, second = np.triu_indices(documents, 1)
    chosen = rng.random(len(first)) < share
    return list(zip(first[chosen].tolist(), second[chosen].tolist(), strict=True))


def pack(pairs: Iterable[Pair]) -> np.ndarray:
    array = np.array(list(pairs), np.int64).reshape(-1, 2)
    return np.sort(pack_pairs(array[:, 0], array[:, 1]))


def random_scored(rng: np.random.Generator, documents: int) -> ScoredPairs:
    pairs = pack(random_pairs(rng, documents, 0.5))
    # Few distinct similarities, so that there are ties.
    return ScoredPairs(pairs, rng.integers(7, 11, len(pairs)), np.full(len(pairs), 10))


def invert(order: np.ndarray) -> np.ndarray:
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return rank


def elect_slowly(scored: ScoredPairs, order: np.ndarray, apart: list[Pair]) -> list[int]:
    """The definition: documents in keep order join the most similar leader that they may."""
    similarity = dict(zip(scored.pairs.tolist(), scored.similarity.tolist(), strict=True))
    forbidden = {frozenset(pair) for pair in apart}
    clusters: dict[int, list[int]] = {}
    leader = [-1] * len(order)
    for document in order.tolist():
        best = (0.0, document)
        for kept, members in clusters.items():
            key = int(pack([(document, kept)])[0])
            allowed = not any(frozenset((document, other)) in forbidden for other in members)
            if key in similarity and allowed and similarity[key] > best[0]:
                best = (similarity[key], kept)
        leader[document] = best[1]
        clusters.setdefault(best[1], []).append(document)
    return leader


def unite_slowly(
    links: Iterable[Pair], apart: list[Pair], documents: int, groups: list[set[int]] | None = None
) -> list[set[int]]:
    """Sets that are united link by link, unless a forbidden pair would be in one."""
    groups = groups or [{document} for document in range(documents)]
    for first, second in links:
        a = next(group for group in groups if first in group)
        b = next(group for group in groups if second in group)
        if a is b or any({x, y} <= a | b for x, y in apart):
            continue
        groups = [group for group in groups if group is not a and group is not b] + [a | b]
    return groups


@pytest.mark.parametrize("seed", range(40))
def test_elected_clusters_are_those_of_the_definition_and_have_no_forbidden_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents = int(rng.integers(2, 12))
    scored = random_scored(rng, documents)
    apart = random_pairs(rng, documents, 0.25)
    order = rng.permutation(documents).astype(np.uint32)
    leader = elect_leaders(scored, order, invert(order), pack(apart))
    assert leader.tolist() == elect_slowly(scored, order, apart)
    assert not any(leader[a] == leader[b] for a, b in apart)


@pytest.mark.parametrize("seed", range(40))
def test_components_drop_the_least_similar_links_and_have_no_forbidden_pair(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    documents = int(rng.integers(2, 12))
    scored = random_scored(rng, documents)
    apart = random_pairs(rng, documents, 0.2)
    order = rng.permutation(documents).astype(np.uint32)
    rank = invert(order)
    linked = drop_forbidden_links(scored, rank, pack(apart))

    def place(pair: Pair) -> tuple[int, int]:
        first, second = sorted(int(rank[document]) for document in pair)
        return first, second

    pairs = list(zip(*(ends.tolist() for ends in unpack_pairs(scored.pairs)), strict=True))
    similarity = dict(zip(pairs, scored.similarity.tolist(), strict=True))
    ranked = sorted(pairs, key=lambda pair: (-similarity[pair], place(pair)))
    expected = unite_slowly(ranked, apart, documents)
    everything = cluster_components(linked, order, rank, 0.0, lambda pairs: _all_near(pairs))
    groups = {frozenset(np.flatnonzero(everything == kept).tolist()) for kept in everything}
    assert groups == {frozenset(group) for group in expected}
    assert not any(everything[a] == everything[b] for a, b in apart)


def _all_near(pairs: np.ndarray) -> ScoredPairs:
    return ScoredPairs(pairs, np.ones(len(pairs)), np.ones(len(pairs)))


@pytest.mark.parametrize("seed", range(40))
def test_clusters_do_not_depend_on_the_order_of_the_inputs(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    documents = 9
    scored = random_scored(rng, documents)
    apart = random_pairs(rng, documents, 0.2)
    order = np.arange(documents, dtype=np.uint32)
    numbers = rng.permutation(documents)
    first, second = unpack_pairs(scored.pairs)
    moved = ScoredPairs(
        pack_pairs(numbers[first], numbers[second]), scored.intersection, scored.union
    )
    moved = moved.select(np.argsort(moved.pairs))
    moved_apart = pack((int(numbers[a]), int(numbers[b])) for a, b in apart)
    moved_order = numbers[order].astype(np.uint32)
    leader = elect_leaders(scored, order, order, pack(apart))
    moved_leader = elect_leaders(moved, moved_order, invert(moved_order), moved_apart)
    assert moved_leader[numbers].tolist() == numbers[leader].tolist()
    linked = drop_forbidden_links(scored, order, pack(apart))
    moved_linked = drop_forbidden_links(moved, invert(moved_order), moved_apart)
    first, second = unpack_pairs(linked.pairs)
    assert sorted(pack_pairs(numbers[first], numbers[second])) == moved_linked.pairs.tolist()


@pytest.mark.parametrize("seed", range(40))
def test_groups_join_same_pairs_and_divide_different_ones(seed: int) -> None:
    rng = np.random.default_rng(300 + seed)
    documents = int(rng.integers(2, 10))
    order = rng.permutation(documents).astype(np.uint32)
    rank = invert(order)
    values = [rng.integers(0, 4, documents) for _ in range(2)]
    relations = []
    for value in values:
        first = [order[value[order] == one][0] for one in value]
        relations.append(np.array(first, np.uint32))
    same = random_pairs(rng, documents, 0.1)
    joined = unite_slowly(same, [], documents)
    different = [
        pair
        for pair in random_pairs(rng, documents, 0.2)
        if not any(set(pair) <= group for group in joined)
    ]
    decided = DecidedPairs(
        np.array(same, np.int64).reshape(-1, 2), np.array(different, np.int64).reshape(-1, 2)
    )
    groups = unite_slowly(same, different, documents)
    for value in values:
        firsts: dict[int, list[int]] = {}
        for document in order.tolist():
            candidates = firsts.setdefault(int(value[document]), [])
            for first in candidates:
                groups = unite_slowly([(first, document)], different, documents, groups)
                if any({first, document} <= group for group in groups):
                    break
            else:
                candidates.append(document)
    expected = {}
    for group in groups:
        representative = min(group, key=lambda document: int(rank[document]))
        expected.update(dict.fromkeys(group, representative))
    out = join_decided_groups(relations, decided, order)
    assert out.tolist() == [expected[document] for document in range(documents)]
    assert all(out[a] == out[b] for a, b in same)
    assert not any(out[a] == out[b] for a, b in different)


def test_groups_are_not_joined_through_a_chain() -> None:
    groups = ConstrainedGroups(np.array([[0, 3]]))
    assert groups.unite(0, 1)
    assert groups.unite(2, 3)
    assert not groups.unite(1, 2)
    assert groups.unite(1, 0)
    assert [groups.group_of(document) for document in (0, 3)] == [
        groups.group_of(1),
        groups.group_of(2),
    ]


def test_pairs_apart_are_those_of_the_representatives() -> None:
    decided = DecidedPairs(different=np.array([[1, 3], [0, 3], [3, 1]]))
    representative = np.array([0, 0, 2, 2], np.uint32)
    apart = decided.different_representatives(representative)
    assert apart.tolist() == pack([(0, 2)]).tolist()
