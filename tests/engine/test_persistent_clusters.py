"""Tests of ids of clusters that last, against rules that are applied one by one."""

import numpy as np
import pyarrow as pa
import pytest

from nearkin.engine.persistent_clusters import NO_HISTORY, continue_clusters


def continue_one_by_one(
    before: list[str], left: list[bool], leader: list[int], ids: list[str], retired: set[str]
) -> tuple[list[str], set[tuple[str, str, str | None]]]:
    """The persistent ids and the changes, from the definition."""
    remaining = [name for name, is_left in zip(before, left, strict=True) if is_left]
    shared: dict[tuple[str, int], int] = {}
    for name, of in zip(remaining, leader, strict=False):
        shared[name, of] = shared.get((name, of), 0) + 1
    names: dict[int, str] = {}
    for (name, of), _ in sorted(
        shared.items(), key=lambda link: (-link[1], link[0][0].encode(), link[0][1])
    ):
        if of not in names and name not in names.values():
            names[of] = name
    taken = set(before) | retired | {ids[of] for of in set(leader) if of not in names}
    for of in sorted(set(leader) - set(names)):
        own = ids[of]
        number = 2
        while own in set(before) | retired or (own != ids[of] and own in taken):
            own = f"{ids[of]}#{number}"
            number += 1
        names[of] = own
        taken.add(own)
    changes: set[tuple[str, str, str | None]] = set()
    for name in set(before):
        if before.count(name) < 2:
            continue
        parts = [of for other, of in shared if other == name]
        kept = name in names.values()
        into = [of for of in parts if names[of] != name]
        if not parts and not kept:
            changes.add(("dissolved", name, None))
        has_split = len(into) + kept > 1
        changes |= {("split" if has_split else "merged", name, names[of]) for of in into}
    return [names[of] for of in leader], changes


@pytest.mark.parametrize("seed", range(40))
def test_ids_follow_the_rules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    before = [f"c{number}" for number in rng.integers(0, 9, count)]
    left = rng.random(count) < 0.8
    size = int(left.sum()) + int(rng.integers(0, 6))
    ids = [f"c{number}" for number in range(size)]
    group = rng.integers(0, 7, size)
    first = {int(of): place for place, of in reversed(list(enumerate(group.tolist())))}
    leader = np.array([first[of] for of in group.tolist()], np.uint32)
    retired = {"c20", "c4#2"}
    history = NO_HISTORY.from_pylist(
        [{"step": 3, "change": "merged", "cluster": name, "into": "c1"} for name in retired],
        schema=NO_HISTORY.schema,
    )
    found = continue_clusters(
        pa.array(before, pa.large_string()),
        left,
        leader,
        pa.chunked_array([ids], pa.large_string()),
        history,
    )
    names, changes = continue_one_by_one(before, left.tolist(), leader.tolist(), ids, retired)
    assert found.ids.to_pylist() == names
    rows = found.history.slice(len(retired)).to_pylist()
    assert {(row["change"], row["cluster"], row["into"]) for row in rows} == changes
    assert {row["step"] for row in rows} <= {4}


def test_a_cluster_that_grows_keeps_its_id_when_another_document_is_kept() -> None:
    found = continue_clusters(
        pa.array(["a", "a"], pa.large_string()),
        np.array([True, True]),
        np.array([2, 2, 2], np.uint32),
        pa.chunked_array([["a", "b", "longer"]], pa.large_string()),
        NO_HISTORY,
    )
    assert found.ids.to_pylist() == ["a", "a", "a"]
    assert len(found.history) == 0
