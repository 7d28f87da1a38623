"""The documents of a run that repeat a document of a reference."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.engine.local.work_folder import WorkFolder
from nearkin.engine.stats import ReferenceStats

REFERENCE_PREFIX = "against"
"""The beginning of the names of the files of matches, in a work folder."""
RELATED_PREFIX = "against-related"
"""The beginning of the names of the files of related documents, in a work folder."""


class ComparedReference(NamedTuple):
    """The result of a comparison of the documents of a run with those of a reference."""

    matches: "ReferenceMatches"
    """The documents that repeat one of the reference."""
    related: "ReferenceMatches"
    """The documents that are related to one, in a run with the option `related`. A document can
    have several. Those that repeat one of the reference may be left out."""
    stats: ReferenceStats


@dataclass(frozen=True)
class ReferenceMatches:
    """The best match of each document of a run that repeats a document of a reference.

    Attributes:
        documents: Numbers of the documents that repeat one, ascending, int64 (m,).
        similarity: Similarity to the document of the reference, float64 (m,).
        is_exact: Whether both are exact duplicates, bool (m,).
        ids: Id of the document of the reference, large_string (m,).
    """

    documents: np.ndarray
    similarity: np.ndarray
    is_exact: np.ndarray
    ids: pa.Array

    def __len__(self) -> int:
        return len(self.documents)

    @classmethod
    def concatenate(cls, parts: "list[ReferenceMatches]") -> "ReferenceMatches":
        """Returns the matches of several parts, one after the other.

        Args:
            parts: Matches, whose documents may be the same.
        """
        ids = [pa.array([], pa.large_string()), *(part.ids for part in parts)]
        empty = np.empty(0)
        return cls(
            np.concatenate([empty.astype(np.int64), *(part.documents for part in parts)]),
            np.concatenate([empty, *(part.similarity for part in parts)]),
            np.concatenate([empty.astype(bool), *(part.is_exact for part in parts)]),
            pa.concat_arrays(ids),
        )

    def select(self, rows: np.ndarray) -> "ReferenceMatches":
        """Returns some of the matches.

        Args:
            rows: Positions of the matches in the order of the result, int64 (k,).
        """
        return ReferenceMatches(
            self.documents[rows], self.similarity[rows], self.is_exact[rows], self.ids.take(rows)
        )

    def best(self) -> "ReferenceMatches":
        """Returns the best match of each document.

        Exact duplicates come first, then higher similarities, then smaller ids in the order of
        their UTF-8 bytes, then earlier matches.

        Examples:
            >>> matches = ReferenceMatches(
            ...     np.array([4, 4, 2]), np.array([0.9, 0.9, 0.8]), np.zeros(3, bool),
            ...     pa.array(["b", "a", "c"], pa.large_string()),
            ... )
            >>> best = matches.best()
            >>> best.documents.tolist(), best.ids.to_pylist()
            ([2, 4], ['c', 'a'])
        """
        ordered = self.in_order()
        is_first = np.ones(len(ordered), bool)
        is_first[1:] = ordered.documents[1:] != ordered.documents[:-1]
        return ordered.select(np.flatnonzero(is_first))

    def in_order(self) -> "ReferenceMatches":
        """Returns the matches by document, each document's in the order that `best` describes."""
        by_id = pa.compute.sort_indices(self.ids).to_numpy()
        rank = np.empty(len(self), np.int64)
        rank[by_id] = _number_groups(self.ids.take(by_id))
        return self.select(np.lexsort((rank, -self.similarity, ~self.is_exact, self.documents)))

    def without(self, documents: np.ndarray) -> "ReferenceMatches":
        """Returns the matches of other documents.

        Args:
            documents: Numbers of the documents whose matches are left out, int64.
        """
        return self.select(np.flatnonzero(~np.isin(self.documents, documents)))

    def save(self, work: WorkFolder, prefix: str = REFERENCE_PREFIX) -> None:
        """Saves the matches in a work folder.

        Args:
            work: Work folder.
            prefix: Beginning of the names of the files.
        """
        work.save(f"{prefix}-documents", self.documents)
        work.save(f"{prefix}-similarity", self.similarity)
        work.save(f"{prefix}-exact", self.is_exact)
        table = pa.table({"id": self.ids})
        path = str(work.path / f"{prefix}-ids.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def load(cls, work: WorkFolder, prefix: str = REFERENCE_PREFIX) -> "ReferenceMatches":
        """Returns the matches that `save` saved, mapped from disk.

        Args:
            work: Work folder.
            prefix: Beginning of the names of the files.
        """
        path = str(work.path / f"{prefix}-ids.arrow")
        table = pa.ipc.open_file(pa.memory_map(path)).read_all()
        return cls(
            documents=np.asarray(work.load(f"{prefix}-documents")),
            similarity=np.asarray(work.load(f"{prefix}-similarity")),
            is_exact=np.asarray(work.load(f"{prefix}-exact")),
            ids=pa.concat_arrays([pa.array([], pa.large_string()), *table["id"].chunks]),
        )


def expand_groups(matches: ReferenceMatches, representative: np.ndarray) -> ReferenceMatches:
    """Returns the matches of all members of the exact groups whose first documents matched.

    Args:
        matches: Matches of first documents, several for some of them, by document.
        representative: First document of the group of each document, uint32 (n,).

    Examples:
        >>> matches = ReferenceMatches(
        ...     np.array([0, 0]), np.array([0.9, 0.8]), np.zeros(2, bool),
        ...     pa.array(["a", "b"], pa.large_string()),
        ... )
        >>> expanded = expand_groups(matches, np.array([0, 1, 0]))
        >>> expanded.documents.tolist(), expanded.ids.to_pylist()
        ([0, 0, 2, 2], ['a', 'b', 'a', 'b'])
    """
    first = np.searchsorted(matches.documents, representative, "left")
    counts = np.searchsorted(matches.documents, representative, "right") - first
    members = np.repeat(np.arange(len(representative)), counts)
    rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return replace(matches.select(rows), documents=members)


def _number_groups(ordered: pa.Array) -> np.ndarray:
    """Returns the number of each value's group of equal values in a sorted array, int64 (n,)."""
    if len(ordered) < 2:
        return np.zeros(len(ordered), np.int64)
    differs = pa.compute.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(differs)])
