"""Pairs of documents that people decided about, as constraints of clustering.

Constrained clustering with must-links and cannot-links (Wagstaff et al., *Constrained K-means
Clustering with Background Knowledge*, ICML 2001): pairs decided to be the same are joined before
anything else, and no group or cluster ever has both documents of a pair decided to be different.
Where a link would join two such documents, directly or through others, it is dropped:

- Groups of equal documents are formed in keep order: a document joins the first group that it may.
- An elected document joins its most similar leader whose documents it may be with.
- Connected components are formed from the most similar link to the least similar one. Of equally
  similar links, the one with the earlier documents in keep order comes first.

So the result depends on the keep order, but not on the order of the inputs.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nearkin.stages.cluster import kernels
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs, sorted_unique, unpack_pairs

NO_PAIRS = np.empty((0, 2), np.int64)


class DecidedPairs(NamedTuple):
    """The decided pairs among some documents, by document numbers."""

    same: np.ndarray = NO_PAIRS
    """int64 (s, 2): The pairs that are always in one cluster."""
    different: np.ndarray = NO_PAIRS
    """int64 (d, 2): The pairs that are never in one cluster."""
    absent: int = 0
    """The number of decisions about a document that is not among these."""
    unknown_ids: Mapping[str, str] = {}
    """Some ids that no document has, each with the one that a spreadsheet changed to it, or ""."""

    def count_verdicts(self) -> dict[str, int]:
        """Returns the number of pairs of each verdict, and of decisions about other documents."""
        return {"same": len(self.same), "different": len(self.different), "absent": self.absent}

    def without(self, documents: np.ndarray) -> "DecidedPairs":
        """Returns the pairs of other documents, as if some had not been there.

        Examples:
            >>> decided = DecidedPairs(np.array([[0, 1], [2, 3]]), np.array([[1, 2]]))
            >>> rest = decided.without(np.array([1]))
            >>> rest.same.tolist(), rest.different.tolist(), rest.absent
            ([[2, 3]], [], 2)
        """
        same = self.same[~np.isin(self.same, documents).any(axis=1)]
        different = self.different[~np.isin(self.different, documents).any(axis=1)]
        before = len(self.same) + len(self.different)
        absent = self.absent + before - len(same) - len(different)
        return DecidedPairs(same, different, absent, self.unknown_ids)

    def different_representatives(self, representative: np.ndarray) -> np.ndarray:
        """Returns the pairs of groups that are never in one cluster, packed and sorted.

        A group has the number of the document that represents it.
        """
        ends = representative[self.different]
        return sorted_unique(pack_pairs(ends[:, 0], ends[:, 1]))


class ConstrainedGroups:
    """Groups of documents that grow, and never have both documents of a pair kept apart."""

    def __init__(self, apart: np.ndarray) -> None:
        self._parent: dict[int, int] = {}
        self._apart: dict[int, set[int]] = {}
        for first, second in apart.tolist():
            self._apart.setdefault(first, set()).add(second)
            self._apart.setdefault(second, set()).add(first)

    def group_of(self, document: int) -> int:
        """Returns the document that stands for the group of a document."""
        parent = self._parent
        root = document
        while (above := parent.get(root, root)) != root:
            root = above
        while document != root:
            above = parent[document]
            parent[document] = root
            document = above
        return root

    def unite(self, first: int, second: int) -> bool:
        """Joins the groups of two documents, unless a pair that is kept apart would be in one."""
        first = self.group_of(first)
        second = self.group_of(second)
        if first == second:
            return True
        if second in self._apart.get(first, ()):
            return False
        if len(self._apart.get(first, ())) < len(self._apart.get(second, ())):
            first, second = second, first
        self._parent[second] = first
        for other in self._apart.pop(second, ()):
            # The pairs are kept with the documents that stand for groups.
            others = self._apart[other]
            others.remove(second)
            others.add(first)
            self._apart[first].add(other)
        return True


def join_decided_groups(
    relations: Sequence[np.ndarray],
    decided: DecidedPairs,
    order: np.ndarray,
) -> np.ndarray:
    """Returns the groups of equal documents and of pairs decided to be the same, uint32 (n,).

    A relation is the groups by one equality. In each of them, and in the result, a document has the
    number of the one that represents its group, which is the first in `order`.

    Examples:
        Documents 0, 1 and 2 have the same content, and 0 and 1 are decided to be different.

        >>> decided = DecidedPairs(np.array([[2, 3]]), np.array([[0, 1]]))
        >>> order = np.arange(4, dtype=np.uint32)
        >>> join_decided_groups([np.array([0, 0, 0, 3], np.uint32)], decided, order).tolist()
        [0, 1, 0, 0]
    """
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    parent = np.arange(len(order), dtype=np.uint32)
    for representative in relations:
        kernels.unite(rank, rank[representative], parent)
    same = rank[decided.same]
    kernels.unite(np.ascontiguousarray(same[:, 0]), np.ascontiguousarray(same[:, 1]), parent)
    kernels.flatten(parent)
    different = rank[decided.different].astype(np.int64)
    is_joined = parent[different[:, 0]] == parent[different[:, 1]]
    if is_joined.any():
        joined = np.zeros(len(order), bool)
        joined[parent[different[is_joined, 0]]] = True
        members = np.flatnonzero(joined[parent])
        groups = ConstrainedGroups(different)
        for first, second in same.tolist():
            groups.unite(first, second)
        for representative in relations:
            _join_members(groups, members, rank[representative[order[members]]])
        parent[members] = _first_members(groups, members)
    out = np.empty(len(order), np.uint32)
    out[order] = order[parent]
    return out


def _join_members(groups: ConstrainedGroups, members: np.ndarray, equals: np.ndarray) -> None:
    """Joins equal documents: each joins the first group of its equals that it may.

    `members` are their ranks, ascending, int64 (m,).
    """
    first_of_groups: dict[int, list[int]] = {}
    for member, equal in zip(members.tolist(), equals.tolist(), strict=True):
        firsts = first_of_groups.setdefault(equal, [])
        if not any(groups.unite(first, member) for first in firsts):
            firsts.append(member)


def _first_members(groups: ConstrainedGroups, members: np.ndarray) -> np.ndarray:
    """Returns the first member of the group of each member, uint32 (m,)."""
    firsts: dict[int, int] = {}
    numbers = [firsts.setdefault(groups.group_of(rank), rank) for rank in members.tolist()]
    return np.array(numbers, np.uint32)


def drop_forbidden_links(scored: ScoredPairs, rank: np.ndarray, apart: np.ndarray) -> ScoredPairs:
    """Returns pairs whose connected components have no two documents that are kept apart.

    `rank` is that in keep order, uint32 (n,), and `apart` has packed pairs, uint64 (d,).
    """
    first, second = (rank[ends] for ends in unpack_pairs(np.asarray(scored.pairs)))
    parent = np.arange(len(rank), dtype=np.uint32)
    kernels.unite(first, second, parent)
    kernels.flatten(parent)
    different = np.stack([rank[ends].astype(np.int64) for ends in unpack_pairs(apart)], axis=1)
    is_joined = parent[different[:, 0]] == parent[different[:, 1]]
    if not is_joined.any():
        return scored
    joined = np.zeros(len(rank), bool)
    joined[parent[different[is_joined, 0]]] = True
    links = np.flatnonzero(joined[parent[first]])
    earlier = np.minimum(first[links], second[links])
    later = np.maximum(first[links], second[links])
    similarity = scored.similarity[links]
    groups = ConstrainedGroups(different)
    for link in np.lexsort((later, earlier, -similarity)).tolist():
        groups.unite(int(earlier[link]), int(later[link]))
    is_kept = np.ones(len(scored.pairs), bool)
    is_kept[links] = [
        groups.group_of(a) == groups.group_of(b)
        for a, b in zip(earlier.tolist(), later.tolist(), strict=True)
    ]
    return scored.select(is_kept)
