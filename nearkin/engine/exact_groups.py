"""Pairs of representatives to pairs of all members of their exact groups, in portions of a bounded size."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.packed_pairs import PAIRS_PER_BATCH, pack_pairs

ALIKE = 64
"""ExactGroups up to this size are expanded together with those of their size."""


class ExactGroups(NamedTuple):
    """Exact groups of two or more, one after the other."""

    members: np.ndarray
    """int64, ascending inside a group."""
    starts: np.ndarray
    """int64 (groups + 1,)"""
    of: np.ndarray
    """int32 (documents,): the group of a document that represents one, −1 otherwise."""

    @classmethod
    def read(cls, representative: np.ndarray) -> "ExactGroups":
        """From the first document of each document's exact group, itself where it is alone."""
        own = np.arange(len(representative), dtype=representative.dtype)
        headed = np.zeros(len(own), bool)
        headed[representative[representative != own]] = True
        members = np.flatnonzero(headed[representative])
        members = members[np.argsort(representative[members], kind="stable")]
        heads = representative[members]
        starts = (
            np.flatnonzero(np.concatenate([[True], heads[1:] != heads[:-1], [True]]))
            if len(heads)
            else np.zeros(1, np.int64)
        )
        of = np.full(len(own), -1, np.int32)
        of[heads[starts[:-1]]] = np.arange(len(starts) - 1)
        return cls(members, starts, of)

    @property
    def sizes(self) -> np.ndarray:
        """int64 (groups,)"""
        return np.diff(self.starts)

    def own_pairs(self) -> Iterator[np.ndarray]:
        """Packed pairs inside the groups."""
        for size in np.unique(self.sizes).tolist():
            alike = self.starts[:-1][self.sizes == size]
            if size > ALIKE:
                for start in alike.tolist():
                    yield from _inside(self.members[start : start + size])
                continue
            first, second = np.triu_indices(size, 1)
            step = max(1, PAIRS_PER_BATCH // len(first))
            for at in range(0, len(alike), step):
                rows = self.members[alike[at : at + step, None] + np.arange(size)]
                yield pack_pairs(rows[:, first].reshape(-1), rows[:, second].reshape(-1))

    def crossed(self, a: np.ndarray, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(packed pairs, position of the pair that they stand for) of every member of a's groups with every one of b's."""
        sizes = np.append(self.sizes, 1)
        wide, counts = sizes[self.of[b]], sizes[self.of[a]] * sizes[self.of[b]]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, PAIRS_PER_BATCH):
            numbers = np.arange(start, min(start + PAIRS_PER_BATCH, total))
            rows = np.searchsorted(ends, numbers, side="right")
            inside = numbers - (ends - counts)[rows]
            x, y = (
                self._member(a[rows], inside // wide[rows]),
                self._member(b[rows], inside % wide[rows]),
            )
            yield pack_pairs(x, y), rows

    def _member(self, representatives: np.ndarray, which: np.ndarray) -> np.ndarray:
        group = self.of[representatives]
        if not len(self.members):
            return representatives
        return np.where(
            group < 0,
            representatives,
            self.members[np.where(group < 0, 0, self.starts[group] + which)],
        )


def _inside(members: np.ndarray) -> Iterator[np.ndarray]:
    """All pairs of one large group."""
    held, count = [], 0
    for i in range(len(members) - 1):
        held.append(pack_pairs(members[i], members[i + 1 :]))
        count += len(held[-1])
        if count >= PAIRS_PER_BATCH or i == len(members) - 2:
            yield np.concatenate(held)
            held, count = [], 0
