from itertools import combinations, product

import numpy as np
import pytest

from nearkin.engine import exact_groups
from nearkin.engine.exact_groups import ExactGroups


@pytest.mark.parametrize("at_once", [3, 1 << 20])
@pytest.mark.parametrize("alike", [1, 64])
def test_expanded_pairs_have_every_member_of_a_group(
    at_once: int, alike: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_groups, "PAIRS_PER_BATCH", at_once)
    monkeypatch.setattr(exact_groups, "ALIKE", alike)
    rng = np.random.default_rng(3)
    names = rng.integers(0, 30, 60)
    representative = np.array([int(np.flatnonzero(names == n)[-1]) for n in names], np.uint32)
    groups = ExactGroups.read(representative)
    members = {
        int(r): np.flatnonzero(representative == r).tolist() for r in np.unique(representative)
    }
    own = [pair for part in groups.own_pairs() for pair in part.tolist()]
    assert sorted(own) == sorted(
        a << 32 | b for some in members.values() for a, b in combinations(some, 2)
    )
    heads = sorted(members)
    pairs = [(a, b) for a, b in combinations(heads, 2) if (a + b) % 5 == 0]
    a, b = np.array(pairs).T
    got = [
        (p, r)
        for part, rows in groups.cross_members(a, b)
        for p, r in zip(part.tolist(), rows.tolist(), strict=True)
    ]
    want = [
        (min(x, y) << 32 | max(x, y), r)
        for r, (p, q) in enumerate(pairs)
        for x, y in product(members[p], members[q])
    ]
    assert sorted(got) == sorted(want)


def test_documents_without_exact_duplicates_give_only_their_own_pairs() -> None:
    groups = ExactGroups.read(np.arange(5, dtype=np.uint32))
    assert list(groups.own_pairs()) == []
    assert [
        part.tolist() for part, _ in groups.cross_members(np.array([0, 1]), np.array([2, 4]))
    ] == [[2, (1 << 32) | 4]]
    assert list(groups.cross_members(np.array([], np.int64), np.array([], np.int64))) == []
    assert list(ExactGroups.read(np.zeros(0, np.uint32)).own_pairs()) == []
