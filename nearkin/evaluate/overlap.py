"""Which parts of a corpus (sources, or the splits of an experiment) have duplicates in which others."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.evaluate.labels import most_frequent
from nearkin.packed_pairs import PAIRS_PER_BATCH, unpack_pairs

MOST_LABELS = 12
"""Further ones, the smallest, are counted together."""


@dataclass(frozen=True)
class Overlap:
    """Documents of one label with a duplicate of another.

    Attributes:
        column: Whose values the labels are.
        labels: The most frequent values, then what is left.
        documents: Of each label.
        similar: [a][b]: documents of label a with an exact or near duplicate, verified, of label b (another document).
        exact: [a][b]: those of them with an exact one.
    """

    column: str
    labels: tuple[str, ...]
    documents: tuple[int, ...]
    similar: tuple[tuple[int, ...], ...]
    exact: tuple[tuple[int, ...], ...]

    def share(self, a: int, b: int) -> float:
        """Of label a's documents, those with a duplicate of label b."""
        return self.similar[a][b] / self.documents[a] if self.documents[a] else 0.0

    @property
    def leaks(self) -> tuple[tuple[int, int], ...]:
        """(a, b): label a, smaller than b, has documents with a duplicate of b; of a split, test documents seen in training.

        Examples:
            >>> Overlap("split", ("train", "test"), (90, 10), ((4, 3), (2, 0)), ((0, 0), (0, 0))).leaks
            ((1, 0),)
        """
        labels = range(len(self.labels))
        smaller = ((a, b) for a in labels for b in labels if self.documents[a] < self.documents[b])
        return tuple((a, b) for a, b in smaller if self.similar[a][b])


def overlap(
    column: str, values: pa.ChunkedArray, representative: np.ndarray, pairs: np.ndarray
) -> Overlap:
    """Counts documents by their label and the labels of their duplicates.

    Args:
        column: The labels' name.
        values: (n,): the label of each document.
        representative: uint32 (n,): the document that stands for each group of exact duplicates.
        pairs: uint64 (m,): verified pairs of representatives, packed.

    Examples:
        >>> train, test = "train", "test"
        >>> exact, near = np.array([0, 0, 2, 3], np.uint32), np.array([(0 << 32) | 2], np.uint64)
        >>> found = overlap("split", pa.chunked_array([[train, test, test, train]]), exact, near)
        >>> found.labels, found.similar, found.exact
        (('test', 'train'), ((2, 2), (1, 0)), ((0, 1), (1, 0)))
    """
    labels, codes = most_frequent(values, MOST_LABELS)
    bits = np.uint32(1) << codes
    groups, more = np.zeros(len(codes), np.uint32), np.zeros(len(codes), np.uint32)
    np.bitwise_or.at(groups, representative, bits)
    _mark_repeated(representative, codes, more)
    exact = (groups[representative] & ~bits) | (more[representative] & bits)
    near = np.zeros(len(codes), np.uint32)
    for start in range(0, len(pairs), PAIRS_PER_BATCH):
        a, b = unpack_pairs(np.asarray(pairs[start : start + PAIRS_PER_BATCH]))
        np.bitwise_or.at(near, a, groups[b])
        np.bitwise_or.at(near, b, groups[a])
    similar = exact | near[representative]
    size = len(labels)
    return Overlap(
        column,
        labels,
        tuple(np.bincount(codes, minlength=size).tolist()),
        _matrix(codes, similar, size),
        _matrix(codes, exact, size),
    )


def _mark_repeated(representative: np.ndarray, codes: np.ndarray, out: np.ndarray) -> None:
    """Sets the bits of labels that a group of exact duplicates has more than once, at its representative."""
    ordered = np.sort((representative.astype(np.uint64) << np.uint64(8)) | codes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    np.bitwise_or.at(
        out, twice >> np.uint64(8), np.uint32(1) << (twice & np.uint64(255)).astype(np.uint32)
    )


def _matrix(codes: np.ndarray, reached: np.ndarray, size: int) -> tuple[tuple[int, ...], ...]:
    rows = [
        np.bincount(codes[(reached >> np.uint32(b)) & np.uint32(1) == 1], minlength=size).tolist()
        for b in range(size)
    ]
    return tuple(tuple(row[a] for row in rows) for a in range(size))
