"""The search for candidate pairs of which one document may contain the other.

The smallest shingle hashes of each document are looked up among all shingles of the others. If a
share c of document A's shingles is in B, each of A's m smallest shingle hashes is in B with
probability c, however large B is. So the number of A's hits in B is binomial, and a margin at the
quantile of the recall decides which pairs are candidates. MinHash cannot be used here, because the
Jaccard similarity approaches 0 as B grows.

A hash that more documents have than the pair budget allows is not looked up.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearkin.engine.containment_margins import SMALLEST, containment_margins
from nearkin.engine.options import RunOptions
from nearkin.engine.payload_batches import PayloadBatch, PayloadSource
from nearkin.engine.work_folder import create_mapped_file
from nearkin.runtime.progress import Progress
from nearkin.stages.hashing.sorted_lookup import PrefixIndex
from nearkin.stages.lsh.band_keys import SourceBuckets
from nearkin.stages.measures.base import row_starts
from nearkin.stages.packed_pairs import isin_sorted, sorted_unique
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.verify import kernels

ROWS_AT_ONCE = 1 << 15
"""Number of documents whose smallest hashes are read at a time."""
NO_HASHES = np.empty(0, np.uint64)
BYTES_PER_HASH = 64
"""Anonymous memory of a hash while it is looked up, in bytes."""


class SmallestHashes(NamedTuple):
    """The smallest shingle hashes of the documents that are compared."""

    active: np.ndarray
    """The numbers of these documents, int64 (a,)."""
    sizes: np.ndarray
    """The number of shingles of each document of the corpus, int64 (n,)."""
    hashes: np.ndarray
    """The smallest hashes, filled up with all ones, uint64 (a, SMALLEST), mapped from disk."""
    crowded: np.ndarray
    """The hashes that are among the smallest of too many documents, sorted, uint64 (c,)."""


@dataclass(frozen=True)
class ContainmentSearch:
    """The search for candidate pairs.

    Attributes:
        source: Returns the shingle sets of the documents of the corpus.
        options: Options of the run.
        threshold: Smallest containment of the smaller document of a pair in the larger one.
        progress: Receives the number of documents.
        is_active: Which documents are compared, bool (n,).
        scope: Pairs that are compared.
        smallest: Smallest hashes of the documents.
    """

    source: Callable[[], PayloadSource]
    options: RunOptions
    threshold: float
    progress: Progress
    is_active: np.ndarray
    scope: PairScope
    smallest: SmallestHashes

    @classmethod
    def prepare(
        cls,
        source: Callable[[], PayloadSource],
        options: RunOptions,
        threshold: float,
        progress: Progress,
        is_active: np.ndarray,
        scope: PairScope,
        path: Path,
    ) -> "ContainmentSearch":
        """Reads the smallest hashes of the documents, for a search among them.

        Args:
            is_active: Which documents are compared, bool (n,).
        """
        progress.stage("smallest hashes", len(is_active))
        hashes = _read_smallest_hashes(source(), is_active, path, progress)
        crowded = _find_crowded(hashes, options, scope.sources)
        smallest = hashes._replace(crowded=crowded)
        return cls(source, options, threshold, progress, is_active, scope, smallest)

    def find_pairs(self) -> Iterator[np.ndarray]:
        """Yields the candidate pairs, as `look_up` does. Pairs may be repeated."""
        rows = np.arange(len(self.smallest.active))
        documents_at_once = max(1, self.options.memory // 3 // BYTES_PER_HASH // SMALLEST)
        for portion in np.array_split(rows, max(1, -(-len(rows) // documents_at_once))):
            yield from self.look_up(portion, self.smallest.crowded)

    def look_up(self, rows: np.ndarray, crowded: np.ndarray) -> Iterator[np.ndarray]:
        """Yields the candidate pairs of some documents with all, packed: (a << 32) | b.

        Args:
            rows: Positions of the documents among the active ones, int64 (s,), ascending.
            crowded: Hashes that are not looked up, sorted, uint64.
        """
        sizes = self.smallest.sizes
        searched = self.smallest.active[rows]
        looked_up = np.minimum(sizes[searched], SMALLEST)
        positions = np.repeat(np.arange(len(searched)), looked_up)
        hashes = self.smallest.hashes[rows][np.arange(SMALLEST) < looked_up[:, None]]
        order = np.argsort(hashes, kind="stable")
        keys = sorted_unique(hashes)
        prefixes = PrefixIndex.of(keys)
        firsts = np.append(np.searchsorted(hashes[order], keys), len(hashes)).astype(np.int64)
        posted = positions[order]
        is_crowded = isin_sorted(keys, crowded)
        skipped = np.bincount(
            posted[np.repeat(is_crowded, np.diff(firsts))], minlength=len(searched)
        )
        margin_of = containment_margins(self.threshold, self.options.recall, SMALLEST)
        margins = margin_of[looked_up - skipped]
        self.progress.stage("look up", len(sizes))

        def find_pairs(batch: PayloadBatch) -> tuple[np.ndarray, int]:
            a, b = kernels.contained_pairs(
                batch.first,
                batch.payload.columns[0],
                row_starts(batch.payload),
                self.is_active,
                keys,
                prefixes.first,
                prefixes.shift,
                firsts,
                posted,
                is_crowded,
                searched,
                margins,
                sizes,
                self.scope,
            )
            return (a.astype(np.uint64) << np.uint64(32)) | b.astype(np.uint64), batch.documents

        for pairs, documents in self.source().map_batches(find_pairs):
            yield pairs
            self.progress.advance(documents)


def _read_smallest_hashes(
    source: PayloadSource, is_active: np.ndarray, path: Path, progress: Progress
) -> SmallestHashes:
    """Reads the sizes and the smallest hashes of the documents of a corpus.

    Args:
        is_active: Which documents are compared, bool (n,).
    """
    active = np.flatnonzero(is_active)
    sizes = np.zeros(len(is_active), np.int64)
    smallest = create_mapped_file(path, np.uint64, (len(active), SMALLEST))
    for batch in source.map_batches(lambda batch: batch):
        payload = batch.payload
        last = batch.first + batch.documents
        sizes[batch.first : last] = payload.sizes
        low, high = np.searchsorted(active, [batch.first, last])
        rows = np.full((high - low, SMALLEST), np.uint64(2**64 - 1))
        kernels.smallest_hashes(
            payload.columns[0], row_starts(payload), active[low:high] - batch.first, rows
        )
        smallest[low:high] = rows
        progress.advance(batch.documents)
    return SmallestHashes(active, sizes, smallest, NO_HASHES)


def _find_crowded(smallest: SmallestHashes, options: RunOptions, sources: np.ndarray) -> np.ndarray:
    """Returns the hashes that are among the smallest of too many documents, sorted, uint64.

    Ranges of hashes are counted one after the other, so that each of them fits into memory.

    Args:
        sources: Source of each document of the corpus, uint64 (n,), or an empty array. Pairs of
            documents of one source do not count.
    """
    parts = [NO_HASHES]
    in_memory = max(1, options.memory // 3 // BYTES_PER_HASH)
    range_bits = max(0, (smallest.hashes.size - 1) // in_memory).bit_length()
    for number in range(1 << range_bits):
        values = [NO_HASHES]
        owners = [np.empty(0, np.int64)]
        for rows, hashes in _iterate_hashes(smallest):
            ranges = hashes >> np.uint64(64 - range_bits) if range_bits else np.zeros_like(hashes)
            values.append(hashes[ranges == number])
            if len(sources):
                owners.append(smallest.active[rows[ranges == number]])
        ordered = np.concatenate(values)
        order = np.argsort(ordered, kind="stable")
        ordered = ordered[order]
        distinct, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
        if len(sources):
            documents = np.concatenate(owners)[order].astype(np.uint64)
            ends = starts + counts
            counts = SourceBuckets.order(documents, starts, ends, sources).sizes
        parts.append(distinct[counts > options.complete_bucket_size])
    return np.concatenate(parts)


def _iterate_hashes(smallest: SmallestHashes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the smallest hashes in portions, each with the positions of their documents."""
    for start in range(0, len(smallest.active), ROWS_AT_ONCE):
        hashes = np.asarray(smallest.hashes[start : start + ROWS_AT_ONCE])
        counts = np.minimum(smallest.sizes[smallest.active[start : start + ROWS_AT_ONCE]], SMALLEST)
        rows = start + np.repeat(np.arange(len(hashes)), counts)
        yield rows, hashes[np.arange(SMALLEST) < counts[:, None]]


def count_inside(smallest: SmallestHashes, values: np.ndarray) -> np.ndarray:
    """Returns for each active document how many of its smallest hashes are in a sorted array."""
    counts = np.zeros(len(smallest.active), np.int64)
    for rows, hashes in _iterate_hashes(smallest):
        counts += np.bincount(rows[isin_sorted(hashes, values)], minlength=len(counts))
    return counts
