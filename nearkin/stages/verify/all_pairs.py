"""The exact comparison of all pairs of documents, by the rarest shingles of each (prefix filter).

Two documents that reach the threshold share a shingle of their prefixes. Only these pairs are
compared, so the time depends on how similar the documents are, and little on how long they are.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from nearkin.runtime.threads import ordered_map
from nearkin.stages.hashing.sorted_lookup import PrefixIndex
from nearkin.stages.packed_pairs import ScoredPairs, sorted_unique
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.verify import kernels
from nearkin.stages.verify.jaccard import document_ranges
from nearkin.stages.verify.kernels import Compared, Hashes, Inverted, PairBuffer, Prefixes
from nearkin.stages.verify.weighted import DEFAULT_MEMORY, WeightedSets, total_weights

BYTES_PER_POSTING = 80
"""The bytes of memory that one posting needs while its range is sorted and searched."""
COUNTS_SHARE = 8
"""The counts of hashes take at most one part in so many of the memory."""
MIN_ROWS = 1 << 12
"""The smallest number of postings that a range is allowed to have."""
LOOKUP_STEPS = 8
"""The cost of a lookup of a hash in postings, in steps of the comparison of two sorted sets."""
COUNTS_PER_STEP = 4
"""The counts of hashes that cost as much as one step: each posting is half as expensive, and the
counts include earlier documents, which are not looked up."""


def invert(documents: Hashes) -> Inverted:
    """Returns the postings of consecutive documents."""
    order = np.argsort(documents.hashes, kind="stable")
    ordered = documents.hashes[order]
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    keys = ordered[is_first]
    prefixes, shift = PrefixIndex.of(keys)
    numbers = np.arange(len(documents.starts) - 1, dtype=np.int64)
    weights = documents.weights
    return Inverted(
        keys=keys,
        prefixes=prefixes,
        shift=shift,
        firsts=np.append(np.flatnonzero(is_first), len(ordered)).astype(np.int64),
        postings=np.repeat(numbers, np.diff(documents.starts))[order],
        weights=weights[order] if len(weights) else weights,
    )


class _AllPairs:
    """The comparison of each document with all later ones.

    Args:
        memory: Number of bytes for counts of hashes, and for the postings of all threads.
    """

    def __init__(
        self, compared: Compared, threshold: float, *, product: bool, workers: int, memory: int
    ) -> None:
        self._compared = compared
        self._threshold = threshold
        self._product = product
        self._rows = max(MIN_ROWS, memory // BYTES_PER_POSTING // workers)
        documents = len(compared.totals)
        counts_in_memory = max(2, memory // COUNTS_SHARE // np.dtype(np.uint16).itemsize)
        total = len(compared.documents.hashes)
        bits = min(total.bit_length() + 1, counts_in_memory.bit_length() - 1)
        self._prefixes = Prefixes(
            counts=np.zeros(1 << bits, np.uint16),
            shift=np.uint64(64 - bits),
            last_counts=np.empty(documents, np.int64),
            last_hashes=np.empty(documents, np.uint64),
            rests=np.empty(documents),
        )
        kernels.count_documents(
            compared.documents.hashes, self._prefixes.shift, self._prefixes.counts
        )
        sizes = np.empty(documents, np.int64)
        costs = np.empty(documents, np.int64)
        share = threshold**2 if product else threshold
        levels = np.zeros(kernels.MOST_COUNTED + 1)
        kernels.find_prefixes(compared, share, product, levels, self._prefixes, sizes, costs)
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._costs = np.concatenate([[0], np.cumsum(costs)])
        self._prefixes_of = lru_cache(maxsize=1)(self._write_prefixes)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yields the first document of each range that is compared at a time, and its end."""
        return document_ranges(self._starts, self._rows)

    def compare_range(self, bounds: tuple[int, int]) -> ScoredPairs:
        """Returns the pairs of the documents of a range with all later documents, in order.

        If many pairs would have to be compared outside of their prefixes, the postings of whole
        documents are faster.
        """
        first, last = bounds
        starts = self._compared.documents.starts
        parts = [
            (first + low, first + high)
            for low, high in document_ranges(starts[first : last + 1], self._rows)
        ]
        most_steps = (self._costs[last] - self._costs[first]) // COUNTS_PER_STEP
        most_steps += LOOKUP_STEPS * len(parts) * (starts[-1] - starts[first])
        scored = self._compare_prefixes(first, last, most_steps)
        if scored is None:
            scored = ScoredPairs.concatenate([self._compare_whole(*part) for part in parts])
        return scored

    def _compare_prefixes(self, first: int, last: int, most_steps: int) -> ScoredPairs | None:
        """Returns the pairs of some documents, or None if that takes too many steps."""
        index = invert(self._write_prefixes(first, last))
        scored = self._buffer(first, last)
        for begin, end in self._blocks():
            if end > first and not kernels.add_pairs(
                first,
                index,
                begin,
                self._prefixes_of(begin, end),
                self._compared,
                self._prefixes,
                self._threshold,
                self._product,
                most_steps,
                scored,
            ):
                return None
        return _in_order(scored)

    def _compare_whole(self, first: int, last: int) -> ScoredPairs:
        scored = self._buffer(first, last)
        documents = self._compared.documents
        kernels.add_pairs(
            first,
            invert(documents.select(first, last)),
            0,
            documents,
            self._compared,
            self._prefixes._replace(rests=np.zeros(len(self._compared.totals))),
            self._threshold,
            self._product,
            0,
            scored,
        )
        return _in_order(scored)

    def _buffer(self, first: int, last: int) -> PairBuffer:
        """Returns room for all pairs of some documents with later ones."""
        room = sum(len(self._compared.totals) - 1 - e for e in range(first, last))
        return PairBuffer(
            pairs=np.empty(room, np.uint64),
            both=np.empty(room),
            union=np.empty(room),
            counts=np.zeros(2, np.int64),
        )

    def _blocks(self) -> list[tuple[int, int]]:
        """Returns ranges of documents whose prefixes are in memory at a time."""
        rows = np.arange(0, self._starts[-1] + 1, self._rows)
        firsts = sorted_unique(np.searchsorted(self._starts, rows, side="right") - 1)
        ends = np.append(firsts[1:], len(self._starts) - 1)
        return list(zip(firsts.tolist(), ends.tolist(), strict=True))

    def _write_prefixes(self, first: int, last: int) -> Hashes:
        starts = self._starts[first : last + 1] - self._starts[first]
        total = int(starts[-1])
        has_weights = len(self._compared.documents.weights) > 0
        written = Hashes(starts, np.empty(total, np.uint64), np.empty(total if has_weights else 0))
        kernels.write_prefixes(first, self._compared, self._prefixes, written)
        return written


def _in_order(buffer: PairBuffer) -> ScoredPairs:
    found = buffer.counts[0]
    scored = ScoredPairs(buffer.pairs[:found], buffer.both[:found], buffer.union[:found])
    return scored.select(np.argsort(scored.pairs))


def compare_all(
    stored: WeightedSets,
    scope: PairScope,
    threshold: float,
    *,
    product: bool,
    workers: int,
    memory: int = DEFAULT_MEMORY,
) -> Iterator[ScoredPairs]:
    """Yields every pair of a scope that reaches the threshold, in order.

    The prefixes of one range of documents at a time are inverted, and those of all later documents
    are looked up in the postings. So the memory does not grow with the corpus.

    Args:
        memory: Number of bytes for counts of hashes, and for the postings of all threads. The
            result does not depend on it.
    """
    starts = np.concatenate([[0], np.cumsum(stored.sizes)]).astype(np.int64)
    documents = Hashes(
        starts, np.asarray(stored.hashes), np.asarray(stored.weights, dtype=np.float64)
    )
    totals = stored.sizes.astype(np.float64)
    if len(documents.weights):
        totals = total_weights(starts, documents.weights, product=product)
    pairs = _AllPairs(
        Compared(documents, totals, scope),
        threshold,
        product=product,
        workers=workers,
        memory=memory,
    )
    yield from ordered_map(pairs.compare_range, pairs.ranges(), workers, 0)
