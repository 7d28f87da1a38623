"""Counts duplicates between the parts of a corpus, such as its sources or splits."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.quality.evaluate.labels import most_frequent_labels
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, unpack_pairs

MAX_LABELS = 12
"""The largest number of labels. Smaller parts are counted together."""


@dataclass(frozen=True)
class Overlap:
    """The duplicates between the values of a column, which are the labels of the parts.

    Attributes:
        column: Name of the column.
        labels: Most frequent values, then the label of all others.
        documents: Number of documents of each label.
        similar: Number of documents of label a with a verified exact or near-duplicate of label b
            (another document), as rows a and columns b.
        exact: Number of documents of label a with an exact duplicate of label b, likewise.
    """

    column: str
    labels: tuple[str, ...]
    documents: tuple[int, ...]
    similar: tuple[tuple[int, ...], ...]
    exact: tuple[tuple[int, ...], ...]

    def share(self, a: int, b: int) -> float:
        """Returns the share of the documents of a label that have a duplicate of another one."""
        return self.similar[a][b] / self.documents[a] if self.documents[a] else 0.0

    @property
    def leaks(self) -> tuple[tuple[int, int], ...]:
        """The pairs (a, b) of a label and one that is at least as large, with duplicates in it.

        For a column of splits, these are for example test documents that occur in the training
        split. Either of two splits of one size can be the one for training.

        Examples:
            >>> overlap = Overlap(
            ...     column="split", labels=("train", "test"), documents=(90, 10),
            ...     similar=((4, 3), (2, 0)), exact=((0, 0), (0, 0)),
            ... )
            >>> overlap.leaks
            ((1, 0),)
        """
        labels = range(len(self.labels))
        return tuple(
            (a, b)
            for a in labels
            for b in labels
            if a != b and self.documents[a] <= self.documents[b] and self.similar[a][b]
        )


def compute_overlap(
    column: str, values: pa.ChunkedArray, representative: np.ndarray, pairs: np.ndarray
) -> Overlap:
    """Counts documents by their label and the labels of their duplicates.

    Exact duplicates have one representative, uint32 (n,). The pairs are verified packed pairs of
    representatives, uint64 (m,).

    Examples:
        >>> labels = pa.chunked_array([["train", "test", "test", "train"]])
        >>> exact = np.array([0, 0, 2, 3], np.uint32)
        >>> near = np.array([(0 << 32) | 2], np.uint64)
        >>> overlap = compute_overlap("split", labels, exact, near)
        >>> overlap.labels, overlap.similar, overlap.exact
        (('test', 'train'), ((2, 2), (1, 0)), ((0, 1), (1, 0)))
    """
    labels, codes = most_frequent_labels(values, MAX_LABELS)
    bits = np.uint32(1) << codes
    group_labels = np.zeros(len(codes), np.uint32)
    np.bitwise_or.at(group_labels, representative, bits)
    repeated = _repeated_labels(representative, codes)
    exact = (group_labels[representative] & ~bits) | (repeated[representative] & bits)
    near = np.zeros(len(codes), np.uint32)
    for start in range(0, len(pairs), PAIRS_PER_BATCH):
        a, b = unpack_pairs(np.asarray(pairs[start : start + PAIRS_PER_BATCH]))
        np.bitwise_or.at(near, a, group_labels[b])
        np.bitwise_or.at(near, b, group_labels[a])
    similar = exact | near[representative]
    size = len(labels)
    return Overlap(
        column=column,
        labels=labels,
        documents=tuple(np.bincount(codes, minlength=size).tolist()),
        similar=_count_matrix(codes, similar, size),
        exact=_count_matrix(codes, exact, size),
    )


def _repeated_labels(representative: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Returns the labels that an exact group has more than once, as bits at its representative."""
    repeated = np.zeros(len(codes), np.uint32)
    ordered = np.sort((representative.astype(np.uint64) << np.uint64(8)) | codes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    bits = np.uint32(1) << (twice & np.uint64(255)).astype(np.uint32)
    np.bitwise_or.at(repeated, twice >> np.uint64(8), bits)
    return repeated


def _count_matrix(codes: np.ndarray, labels: np.ndarray, size: int) -> tuple[tuple[int, ...], ...]:
    """Returns how many documents of label a have the bit of label b, as rows a and columns b."""
    columns = []
    for b in range(size):
        has_label = (labels >> np.uint32(b)) & np.uint32(1) == 1
        columns.append(np.bincount(codes[has_label], minlength=size).tolist())
    return tuple(tuple(column[a] for column in columns) for a in range(size))
