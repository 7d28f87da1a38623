"""Groups of exact duplicates: from pairs of representatives to pairs of all members."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, pack_pairs

ALIKE = 64
"""Groups of at most this size are expanded together with the other groups of their size."""


class ExactGroups(NamedTuple):
    """Exact groups of two or more documents, one after the other."""

    members: np.ndarray
    """The numbers of the documents, int64, ascending inside a group."""
    starts: np.ndarray
    """The position of each group's first member, and the total, int64 (groups + 1,)."""
    of: np.ndarray
    """The group that each document represents, or -1, int32 (documents,)."""

    @classmethod
    def read(cls, representative: np.ndarray) -> "ExactGroups":
        """Returns the groups that representatives describe.

        Args:
            representative: First document of each document's exact group, uint32 (n,).
        """
        own = np.arange(len(representative), dtype=representative.dtype)
        represents = np.zeros(len(own), bool)
        represents[representative[representative != own]] = True
        members = np.flatnonzero(represents[representative])
        members = members[np.argsort(representative[members], kind="stable")]
        heads = representative[members]
        starts = np.zeros(1, np.int64)
        if len(heads):
            starts = np.flatnonzero(np.concatenate([[True], heads[1:] != heads[:-1], [True]]))
        of = np.full(len(own), -1, np.int32)
        of[heads[starts[:-1]]] = np.arange(len(starts) - 1)
        return cls(members, starts, of)

    @property
    def sizes(self) -> np.ndarray:
        """The number of members of each group, int64 (groups,)."""
        return np.diff(self.starts)

    def own_pairs(self) -> Iterator[np.ndarray]:
        """Yields all pairs inside the groups, packed, in portions of a bounded size."""
        for size in np.unique(self.sizes).tolist():
            starts = self.starts[:-1][self.sizes == size]
            if size > ALIKE:
                for start in starts.tolist():
                    yield from _pairs_inside(self.members[start : start + size])
                continue
            first, second = np.triu_indices(size, 1)
            groups_at_once = max(1, PAIRS_PER_BATCH // len(first))
            for at in range(0, len(starts), groups_at_once):
                portion = starts[at : at + groups_at_once, None]
                rows = self.members[portion + np.arange(size)]
                yield pack_pairs(rows[:, first].reshape(-1), rows[:, second].reshape(-1))

    def cross_members(
        self, a: np.ndarray, b: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the pairs of every member of one group with every member of another."""
        sizes = np.append(self.sizes, 1)
        sizes_of_b = sizes[self.of[b]]
        counts = sizes[self.of[a]] * sizes_of_b
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, PAIRS_PER_BATCH):
            numbers = np.arange(start, min(start + PAIRS_PER_BATCH, total))
            rows = np.searchsorted(ends, numbers, side="right")
            inside = numbers - (ends - counts)[rows]
            first = self._pick_member(a[rows], inside // sizes_of_b[rows])
            second = self._pick_member(b[rows], inside % sizes_of_b[rows])
            yield pack_pairs(first, second), rows

    def _pick_member(self, representatives: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Returns a member of each representative's group. A document without group is its own."""
        if not len(self.members):
            return representatives
        group = self.of[representatives]
        is_alone = group < 0
        places = np.where(is_alone, 0, self.starts[group] + position)
        return np.where(is_alone, representatives, self.members[places])


def _pairs_inside(members: np.ndarray) -> Iterator[np.ndarray]:
    """Yields all pairs of one large group, in portions."""
    pending = []
    count = 0
    for i in range(len(members) - 1):
        pending.append(pack_pairs(members[i], members[i + 1 :]))
        count += len(pending[-1])
        if count >= PAIRS_PER_BATCH or i == len(members) - 2:
            yield np.concatenate(pending)
            pending = []
            count = 0


def number_groups(fingerprints: np.ndarray) -> np.ndarray:
    """Returns a number for each distinct fingerprint, int64 (n,).

    Args:
        fingerprints: Fingerprints of documents, uint64 (n, 2).

    Examples:
        >>> number_groups(np.array([[5, 1], [3, 9], [5, 1], [5, 2]], np.uint64)).tolist()
        [1, 0, 1, 2]
    """
    order = np.lexsort((fingerprints[:, 1], fingerprints[:, 0]))
    ordered = fingerprints[order]
    is_new = np.ones(len(fingerprints), bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    out = np.empty(len(fingerprints), np.int64)
    out[order] = np.cumsum(is_new) - 1
    return out
