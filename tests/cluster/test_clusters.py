import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.cluster.clusters import components, leaders, pack, unpack
from nearkin.verify.exact import Overlaps

edges = st.dictionaries(
    st.tuples(st.integers(0, 14), st.integers(0, 14)).filter(lambda p: p[0] < p[1]), st.integers(50, 100), max_size=40
)


def scored_of(found: dict[tuple[int, int], int]) -> Overlaps:
    keys = sorted(found)
    pairs = np.array([a << 32 | b for a, b in keys], np.uint64)
    return Overlaps(pairs, np.array([found[key] for key in keys], np.int64), np.full(len(keys), 100, np.int64))


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

    def compare(pairs: np.ndarray) -> Overlaps:
        a, b = unpack(pairs)
        shared = [found.get((x, y), 0) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        return Overlaps(pairs, np.array(shared, np.int64), np.full(len(pairs), 100, np.int64))

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

    joined = 0
    for a, b in found:
        x, y = root(a), root(b)
        if x != y:
            parent[x] = y
            joined += 1
    return joined


def test_pack_round_trip() -> None:
    a, b = unpack(pack(np.array([5, 1]), np.array([2, 7])))
    assert (a.tolist(), b.tolist()) == ([2, 1], [5, 7])


@pytest.mark.parametrize("cluster", ["leaders", "components"])
def test_no_pairs_no_clusters(cluster: str) -> None:
    none, order = Overlaps.concatenate([]), np.arange(3, dtype=np.uint32)
    got = leaders(none, order, order) if cluster == "leaders" else components(none, order, order, 0.6, lambda pairs: none)
    assert got.tolist() == [0, 1, 2]
