from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.cluster.clusters import components, leaders
from nearkin.engine.local.verification import Payloads
from nearkin.measures import measure_of
from nearkin.measures.base import as_stored
from nearkin.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs
from nearkin.spec import Spec

edges = st.dictionaries(
    st.tuples(st.integers(0, 14), st.integers(0, 14)).filter(lambda p: p[0] < p[1]), st.integers(50, 100), max_size=40
)


def scored_of(found: dict[tuple[int, int], int]) -> ScoredPairs:
    keys = sorted(found)
    pairs = np.array([a << 32 | b for a, b in keys], np.uint64)
    return ScoredPairs(pairs, np.array([found[key] for key in keys], np.int64), np.full(len(keys), 100, np.int64))


@settings(deadline=None)
@given(edges, st.permutations(range(15)))
def test_leaders_against_the_definition(found: dict[tuple[int, int], int], order: list[int]) -> None:
    similarity = {**found, **{(b, a): s for (a, b), s in found.items()}}
    want = {}
    kept: list[int] = []
    for d in order:
        choices = [(similarity[d, e], -kept.index(e), e) for e in kept if (d, e) in similarity]
        want[d] = max(choices)[2] if choices else d
        if not choices:
            kept.append(d)
    rank = np.empty(15, np.uint32)
    rank[order] = np.arange(15)
    got = leaders(scored_of(found), np.array(order, np.uint32), rank)
    assert dict(enumerate(got.tolist())) == want


@settings(deadline=None)
@given(edges, st.permutations(range(15)), st.sampled_from([0.0, 0.5, 0.7, 0.9]))
def test_components_keep_the_floor_and_split(found: dict[tuple[int, int], int], order: list[int], floor: float) -> None:
    rank = np.empty(15, np.uint32)
    rank[order] = np.arange(15)

    def compare(pairs: np.ndarray) -> ScoredPairs:
        a, b = unpack_pairs(pairs)
        shared = [found.get((x, y), 0) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        return ScoredPairs(pairs, np.array(shared, np.int64), np.full(len(pairs), 100, np.int64))

    got = components(scored_of(found), np.array(order, np.uint32), rank, floor, compare).tolist()
    for d, kept in enumerate(got):
        assert got[kept] == kept
        if d != kept:
            assert rank[kept] < rank[d]
            assert found.get((min(d, kept), max(d, kept)), 0) >= floor * 100
    if floor == 0:
        assert len(set(got)) == 15 - _forest_edges(found)


def _forest_edges(found: dict[tuple[int, int], int]) -> int:
    parent = list(range(15))

    def root(x: int) -> int:
        while parent[x] != x:
            x = parent[x]
        return x

    concatenate_payloads = 0
    for a, b in found:
        x, y = root(a), root(b)
        if x != y:
            parent[x] = y
            concatenate_payloads += 1
    return concatenate_payloads


def test_pack_round_trip() -> None:
    a, b = unpack_pairs(pack_pairs(np.array([5, 1]), np.array([2, 7])))
    assert (a.tolist(), b.tolist()) == ([2, 1], [5, 7])


@pytest.mark.parametrize("cluster", ["leaders", "components"])
def test_no_pairs_no_clusters(cluster: str) -> None:
    none, order = ScoredPairs.concatenate([]), np.arange(3, dtype=np.uint32)
    got = leaders(none, order, order) if cluster == "leaders" else components(none, order, order, 0.6, lambda pairs: none)
    assert got.tolist() == [0, 1, 2]


def rounds_over_all(
    scored: ScoredPairs, order: np.ndarray, rank: np.ndarray, floor: float, compare: Callable[[np.ndarray], ScoredPairs]
) -> list[int]:
    """Components as they are defined: settle what resembles the first document of each, and start again with the rest."""
    alive = {(int(rank[a]), int(rank[b])) for a, b in zip(*map(np.ndarray.tolist, unpack_pairs(scored.pairs)), strict=True)}
    leader = list(range(len(order)))
    while alive:
        near: dict[int, int] = {}
        for group in groups(alive):
            for member in group - {min(group)}:
                if compare(pack_pairs(order[[member]], order[[min(group)]])).meets_threshold(floor)[0]:
                    near[member] = min(group)
            near[min(group)] = min(group)
        for member, kept in near.items():
            leader[member] = kept
        alive = {(a, b) for a, b in alive if a not in near and b not in near}
    out = [0] * len(order)
    for place, kept in enumerate(leader):
        out[int(order[place])] = int(order[kept])
    return out


def groups(pairs: set[tuple[int, int]]) -> list[set[int]]:
    found: list[set[int]] = []
    for a, b in pairs:
        touching = [group for group in found if a in group or b in group]
        found = [group for group in found if not (a in group or b in group)]
        found.append({a, b}.union(*touching))
    return found


def by_values(values: np.ndarray, reach: float) -> Callable[[np.ndarray], ScoredPairs]:
    """Documents are points on a line; similarity falls with their distance, to 0 at `reach`."""

    def compare(pairs: np.ndarray) -> ScoredPairs:
        a, b = unpack_pairs(pairs)
        apart = np.abs(values[a] - values[b])
        return ScoredPairs(pairs, np.maximum(reach - apart, 0.0), np.full(len(pairs), reach))

    return compare


def all_pairs_of(values: np.ndarray, compare: Callable[[np.ndarray], ScoredPairs], threshold: float) -> ScoredPairs:
    a, b = np.triu_indices(len(values), 1)
    scored = compare(np.sort(pack_pairs(a, b)))
    return scored.select(scored.meets_threshold(threshold))


@pytest.mark.parametrize("rounds", [0, 1, 8])
@pytest.mark.parametrize("shape", ["chain", "shuffled chain", "ring", "clumps", "random"])
@pytest.mark.parametrize("seed", range(4))
def test_long_chains_settle_as_rounds_over_all_would(
    rounds: int, shape: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.cluster.clusters.ROUNDS", rounds)
    n, rng = 120, np.random.default_rng(seed)
    values = np.arange(n) + rng.uniform(0, 0.9, n)
    if shape in ("clumps", "random"):
        values = np.sort(rng.integers(0, n if shape == "random" else n // 8, n) + rng.uniform(0, 0.3, n))
    order = np.arange(n, dtype=np.uint32) if shape in ("chain", "ring") else rng.permutation(n).astype(np.uint32)
    rank = np.empty(n, np.uint32)
    rank[order] = np.arange(n, dtype=np.uint32)
    compare = by_values(values, 10.0)
    scored = all_pairs_of(values, compare, 0.8)
    if shape == "ring":
        closing = ScoredPairs(np.array([n - 1], np.uint64), np.array([9.0]), np.array([10.0]))
        scored = ScoredPairs.concatenate([closing, scored])
        scored = scored.select(np.argsort(scored.pairs))

    def sharing_among(ordinals: np.ndarray) -> Callable[[int], np.ndarray]:
        return lambda document: np.flatnonzero(np.abs(values[ordinals] - values[ordinals[document]]) <= 5)

    for floor in (0.5, 0.7):
        want = rounds_over_all(scored, order, rank, floor, compare)
        assert components(scored, order, rank, floor, compare).tolist() == want
        assert components(scored, order, rank, floor, compare, sharing_among).tolist() == want


def test_a_chain_costs_as_much_as_it_is_long() -> None:
    """Comparisons and documents looked at grow with the length, not with its square."""
    counted = []
    for n in (2_000, 4_000):
        values, order = np.arange(n) + 0.0, np.arange(n, dtype=np.uint32)
        compare = by_values(values, 10.0)
        compared = 0

        def count(pairs: np.ndarray, compare: Callable[[np.ndarray], ScoredPairs] = compare) -> ScoredPairs:
            nonlocal compared
            compared += len(pairs)
            return compare(pairs)

        def sharing_among(ordinals: np.ndarray, values: np.ndarray = values) -> Callable[[int], np.ndarray]:
            return lambda document: np.flatnonzero(np.abs(values[ordinals] - values[ordinals[document]]) <= 5)

        a = np.arange(n - 1)
        scored = compare(pack_pairs(a, a + 1))
        leader = components(scored, order, order, 0.5, count, sharing_among)
        assert len(set(leader.tolist())) == -(-n // 6)
        counted.append(compared)
    # the first rounds are over all: so many comparisons of each document; the rest is linear
    assert counted[1] <= 2.1 * counted[0]


@pytest.mark.parametrize("measure", ["jaccard", "weighted-jaccard", "simhash"])
@pytest.mark.parametrize("floor", [0.3, 0.6, 0.9])
def test_documents_at_the_floor_share_a_rare_shingle(measure: str, floor: float) -> None:
    """Every pair at or above the floor is among those that are asked about."""
    rng = np.random.default_rng(5)
    words = rng.integers(0, 60, (10, 30)).repeat(9, axis=0)
    changed = rng.random(words.shape) < rng.uniform(0, 0.3, (90, 1))
    words[changed] = rng.integers(0, 60, np.count_nonzero(changed))
    texts = [" ".join(f"w{x}" for x in row) for row in words.tolist()]
    found = measure_of(Spec(unit="words", n=1, measure=measure))
    payload = found.payload_builder().build(pa.array(texts, pa.large_string()))
    stored = Payloads(found, as_stored(payload))
    sharing = stored.sharing_among(np.arange(90), floor, 1 << 30)
    assert sharing is not None
    scored = ScoredPairs.concatenate(list(found.compare_all(payload, np.zeros(90, np.uint64), floor, 1)))
    assert len(scored.pairs) > 5
    reached = {document: set(sharing(document).tolist()) for document in range(90)}
    for a, b in zip(*map(np.ndarray.tolist, unpack_pairs(scored.pairs)), strict=True):
        assert b in reached[a]
        assert a in reached[b]
