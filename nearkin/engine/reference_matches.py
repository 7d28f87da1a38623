"""The documents of a run that repeat a document of a reference."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.engine.result_schema import EXACT, SAME
from nearkin.engine.stats import ReferenceStats
from nearkin.engine.work_folder import WorkFolder
from nearkin.stages.cluster.id_order import sort_ids

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


NUMBERS: dict[str, type[np.generic]] = {
    "documents": np.int64,
    "similarity": np.float64,
    "kind": np.uint8,
    "shared": np.int64,
    "sizes": np.int64,
    "reference": np.int64,
    "other": np.int64,
}
"""The types of the arrays of matches."""
KINDS_IN_ORDER = (EXACT, SAME)
"""The kinds of matches that come before all others."""


@dataclass(frozen=True)
class ReferenceMatches:
    """The best match of each document of a run that repeats a document of a reference.

    Attributes:
        documents: Numbers of the documents that repeat one, ascending, int64 (m,).
        similarity: Similarity to the document of the reference, float64 (m,). NaN if an equal value
            of a column made the match.
        kind: Kind of the document as an index into KINDS, uint8 (m,).
        shared: Number of shingles that both documents have, int64 (m,).
        sizes: Number of shingles of the document of the run, int64 (m,). It is 0 if the sets of
            shingles were not compared, and 1 for an exact duplicate.
        reference: Number of the reference, int64 (m,). It is -1 if `other` is.
        other: Number of the document in its reference, int64 (m,), or -1 if it is not known.
        ids: Id of the document of the reference, large_string (m,).
    """

    documents: np.ndarray
    similarity: np.ndarray
    kind: np.ndarray
    shared: np.ndarray
    sizes: np.ndarray
    reference: np.ndarray
    other: np.ndarray
    ids: pa.Array

    def __len__(self) -> int:
        return len(self.documents)

    @classmethod
    def without_shingles(
        cls, documents: np.ndarray, similarity: np.ndarray, kind: int, ids: pa.Array
    ) -> "ReferenceMatches":
        """Returns matches of one kind whose sets of shingles were not compared.

        Args:
            documents: Numbers of the documents, int64 (m,).
            similarity: Similarity of each, float64 (m,).
        """
        zeros = np.zeros(len(documents), np.int64)
        return cls(
            documents=documents,
            similarity=similarity,
            kind=np.full(len(documents), kind, np.uint8),
            shared=zeros,
            sizes=zeros,
            reference=zeros - 1,
            other=zeros - 1,
            ids=ids,
        )

    @classmethod
    def of_copies(cls, documents: np.ndarray, ids: pa.Array) -> "ReferenceMatches":
        """Returns matches of exact duplicates.

        Args:
            documents: Numbers of the documents, int64 (m,).
        """
        ones = np.ones(len(documents), np.int64)
        copies = cls.without_shingles(documents, ones.astype(np.float64), EXACT, ids)
        return replace(copies, shared=ones, sizes=ones)

    @classmethod
    def concatenate(cls, parts: "list[ReferenceMatches]") -> "ReferenceMatches":
        """Returns the matches of several parts, one after the other."""
        numbers = {
            name: np.concatenate([np.empty(0, dtype), *(getattr(part, name) for part in parts)])
            for name, dtype in NUMBERS.items()
        }
        ids = [pa.array([], pa.large_string()), *(part.ids for part in parts)]
        return cls(**numbers, ids=pa.concat_arrays(ids))

    def select(self, rows: np.ndarray) -> "ReferenceMatches":
        """Returns some of the matches.

        Args:
            rows: Positions of the matches in the order of the result, int64 (k,).
        """
        numbers = {name: getattr(self, name)[rows] for name in NUMBERS}
        return ReferenceMatches(**numbers, ids=self.ids.take(rows))

    def add_to(self, stats: ReferenceStats) -> ReferenceStats:
        """Returns statistics with the numbers of these documents by their kinds."""
        exact = int(np.count_nonzero(self.kind == EXACT))
        same = int(np.count_nonzero(self.kind == SAME))
        return replace(stats, exact=exact, same=same, near=len(self) - exact - same)

    def best(self) -> "ReferenceMatches":
        """Returns the best match of each document.

        Exact duplicates come first, then equal values, then higher similarities, then smaller ids,
        then earlier matches.

        Examples:
            >>> from nearkin.engine.result_schema import NEAR
            >>> matches = ReferenceMatches.without_shingles(
            ...     np.array([4, 4, 2]), np.array([0.9, 0.9, 0.8]), NEAR,
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
        by_id = sort_ids(self.ids)
        rank = np.empty(len(self), np.int64)
        rank[by_id] = _number_groups(self.ids.take(pa.array(by_id)))
        place = np.full(len(self), len(KINDS_IN_ORDER))
        for position, kind in enumerate(KINDS_IN_ORDER):
            place[self.kind == kind] = position
        return self.select(np.lexsort((rank, -self.similarity, place, self.documents)))

    def without(self, documents: np.ndarray) -> "ReferenceMatches":
        """Returns the matches of other documents.

        Args:
            documents: Numbers of the documents whose matches are left out, int64.
        """
        return self.select(np.flatnonzero(~np.isin(self.documents, documents)))

    def save(self, work: WorkFolder, prefix: str = REFERENCE_PREFIX) -> None:
        """Saves the matches in a work folder."""
        for name in NUMBERS:
            work.save(f"{prefix}-{name}", getattr(self, name))
        table = pa.table({"id": self.ids})
        path = str(work.path / f"{prefix}-ids.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def load(cls, work: WorkFolder, prefix: str = REFERENCE_PREFIX) -> "ReferenceMatches":
        """Returns the matches that `save` saved, mapped from disk."""
        path = str(work.path / f"{prefix}-ids.arrow")
        table = pa.ipc.open_file(pa.memory_map(path)).read_all()
        numbers = {name: np.asarray(work.load(f"{prefix}-{name}")) for name in NUMBERS}
        ids = pa.concat_arrays([pa.array([], pa.large_string()), *table["id"].chunks])
        return cls(**numbers, ids=ids)


def expand_groups(matches: ReferenceMatches, representative: np.ndarray) -> ReferenceMatches:
    """Returns the matches of all members of the exact groups whose first documents matched.

    Args:
        representative: First document of the group of each document, uint32 (n,).

    Examples:
        >>> from nearkin.engine.result_schema import NEAR
        >>> matches = ReferenceMatches.without_shingles(
        ...     np.array([0, 0]), np.array([0.9, 0.8]), NEAR,
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
