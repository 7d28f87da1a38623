"""The search for the blocked entry that a document is most similar to. It misses none.

The entries are looked up by each of their shingles, and not by bands of signatures: a document that
shares no shingle with an entry has a similarity of 0 to it. So every entry that a document may be
similar to is compared with it exactly, and the result does not depend on chance. Fingerprints,
vectors and documents with several fields are compared with all entries.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.engine.blocklist import kernels
from nearkin.stages.hashing.sorted_lookup import PrefixIndex
from nearkin.stages.measures import Measure
from nearkin.stages.measures.base import (
    Payload,
    as_stored,
    concatenate_payloads,
    row_starts,
    select_documents,
)
from nearkin.stages.measures.compared_sets import compares_sets
from nearkin.stages.measures.fields import FieldsMeasure
from nearkin.stages.measures.hamming import Hamming
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, meets_threshold, pack_pairs, sorted_unique


class BlockedMatches(NamedTuple):
    """The documents that are like a blocked entry, each with the most similar one."""

    documents: np.ndarray
    """The positions of the documents, ascending, int64 (m,)."""
    entries: np.ndarray
    """The positions of the entries, int64 (m,). Of equally similar ones, it is the first."""
    similarity: np.ndarray
    """The exact similarities, float64 (m,)."""


class _Candidates(NamedTuple):
    """Pairs of a document and an entry that share a shingle."""

    documents: np.ndarray
    """The positions of the documents, int64 (m,)."""
    entries: np.ndarray
    """The positions of the entries, int64 (m,)."""
    shared: np.ndarray
    """The numbers of shared hashes, int64 (m,)."""

    def select(self, is_selected: np.ndarray) -> "_Candidates":
        """Returns some of the pairs, by a mask, bool (m,)."""
        return _Candidates(
            self.documents[is_selected], self.entries[is_selected], self.shared[is_selected]
        )


class EntrySearch:
    """A search among the payloads of blocked entries. Safe for threads."""

    def __init__(self, measure: Measure, payload: Payload) -> None:
        self._measure = measure
        self._payload = payload
        # Fingerprints and vectors have no shingles, and several fields need not share one.
        self._compares_all = isinstance(measure, Hamming | FieldsMeasure)
        self._compares_all |= not measure.spec.has_shingles
        if self._compares_all:
            return
        hashes = payload.columns[0]
        entry_of = np.repeat(np.arange(len(payload.sizes), dtype=np.uint32), payload.sizes)
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        is_first = np.ones(len(ordered), bool)
        is_first[1:] = ordered[1:] != ordered[:-1]
        self._hashes = ordered[is_first]
        self._prefixes = PrefixIndex.of(self._hashes)
        self._posting_starts = np.append(np.flatnonzero(is_first), len(ordered)).astype(np.int64)
        self._postings = entry_of[order]

    def __reduce__(self) -> tuple[type["EntrySearch"], tuple[object, ...]]:
        return EntrySearch, (self._measure, self._payload)

    def find(self, payload: Payload, threshold: float) -> BlockedMatches:
        """Returns the documents that reach a similarity to an entry, each with the best one."""
        parts = [
            self._compare(payload, candidates, threshold)
            for candidates in self._candidates(payload, threshold)
        ]
        no_numbers = np.empty(0, np.int64)
        documents = np.concatenate([no_numbers, *(part.documents for part in parts)])
        entries = np.concatenate([no_numbers, *(part.entries for part in parts)])
        similarity = np.concatenate([np.empty(0), *(part.similarity for part in parts)])
        order = np.lexsort((entries, -similarity, documents))
        ordered = documents[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = ordered[1:] != ordered[:-1]
        best = order[is_first]
        return BlockedMatches(documents[best], entries[best], similarity[best])

    def _candidates(self, payload: Payload, threshold: float) -> Iterator[_Candidates]:
        """Yields the pairs of documents and entries that are compared, in bounded portions."""
        entries = len(self._payload.sizes)
        documents = len(payload.sizes)
        if not entries:
            return
        documents_at_once = max(1, PAIRS_PER_BATCH // entries)
        for start in range(0, documents, documents_at_once):
            end = min(start + documents_at_once, documents)
            if self._compares_all:
                yield _all_pairs(start, end, entries)
            else:
                yield self._sharing_pairs(payload, start, end, threshold)

    def _sharing_pairs(
        self, payload: Payload, start: int, end: int, threshold: float
    ) -> _Candidates:
        """Returns the pairs of a range of documents and the entries that they share a hash with.

        Of sets without weights, the number of shared hashes decides, so that only similar pairs
        remain.
        """
        starts = row_starts(payload)[start : end + 1]
        entries = len(self._payload.sizes)
        most = (end - start) * entries
        documents_out = np.empty(most, np.int64)
        entries_out = np.empty(most, np.int64)
        shared_out = np.empty(most, np.int64)
        first, shift = self._prefixes
        count = kernels.count_shared_hashes(
            payload.columns[0],
            starts,
            self._hashes,
            first,
            shift,
            self._posting_starts,
            self._postings,
            np.zeros(entries, np.int64),
            documents_out,
            entries_out,
            shared_out,
        )
        candidates = _Candidates(
            documents_out[:count] + start, entries_out[:count], shared_out[:count]
        )
        if not compares_sets(self._measure.spec.measure):
            return candidates
        sizes = payload.sizes[candidates.documents] + self._payload.sizes[candidates.entries]
        union = sizes - candidates.shared
        return candidates.select(meets_threshold(candidates.shared, union, threshold))

    def _compare(
        self, payload: Payload, candidates: _Candidates, threshold: float
    ) -> BlockedMatches:
        """Returns the candidates that reach the threshold, with their exact similarities."""
        documents = sorted_unique(candidates.documents)
        entries = sorted_unique(candidates.entries)
        if not len(documents):
            no_numbers = np.empty(0, np.int64)
            return BlockedMatches(no_numbers, no_numbers, np.empty(0))
        compared = concatenate_payloads(
            [select_documents(payload, documents), select_documents(self._payload, entries)]
        )
        pairs = pack_pairs(
            np.searchsorted(documents, candidates.documents),
            np.searchsorted(entries, candidates.entries) + len(documents),
        )
        order = np.argsort(pairs)
        scored = self._measure.compare(pairs[order], as_stored(compared))
        is_similar = scored.meets_threshold(threshold)
        rows = order[is_similar]
        return BlockedMatches(
            candidates.documents[rows],
            candidates.entries[rows],
            scored.similarity[is_similar],
        )


def _all_pairs(start: int, end: int, entries: int) -> _Candidates:
    """Returns the pairs of a range of documents and all entries."""
    documents = np.repeat(np.arange(start, end), entries)
    numbers = np.tile(np.arange(entries), end - start)
    return _Candidates(documents, numbers, np.zeros(len(documents), np.int64))
