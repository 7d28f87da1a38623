"""The search for stored documents that resemble those of a batch.

The stages are: buckets, candidates by shared bands, length filter, estimate with a safety margin,
and exact comparison.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nearkin.index.changes import Changes
from nearkin.index.entry import MAX_SIZE, MEMBER, REF_SHIFT, Entry
from nearkin.index.lookup_probes import LookupProber
from nearkin.index.preparation import PreparedDocuments, Preparer
from nearkin.index.settings import IndexSettings, require_probeable
from nearkin.index.stats import SearchStats
from nearkin.index.stores.base import Store
from nearkin.lsh.kernels import pair_agreements
from nearkin.lsh.solve import largest_margin
from nearkin.measures.base import (
    StoredPayloads,
    as_stored,
    band_layout_of,
    concatenate_payloads,
    row_starts,
)
from nearkin.packed_pairs import pack_pairs


class RankedCandidates(NamedTuple):
    """Stored documents that share buckets with documents of a batch, best first for each.

    All arrays have one item for each candidate of each document.
    """

    documents: np.ndarray
    """The positions of the batch's documents, ascending, int64."""
    words: np.ndarray
    """The postings of the candidates, int64."""
    shared: np.ndarray
    """The numbers of shared bands, int64."""
    may_overflow: bool
    """True if the batch could exceed the capacity of a bucket."""


class Decision(NamedTuple):
    """The representative of a document of a batch: stored, of the same batch, or none yet."""

    entry: Entry | None
    """The stored representative, if there is one."""
    position: int | None
    """The position of the representative in the batch, if it is there."""
    similarity: float
    """The exact similarity to the representative, or 0."""
    compared: int
    """The number of documents that were compared."""


class Pool(NamedTuple):
    """A batch and the stored documents it may resemble, for comparisons by position.

    The batch comes first.
    """

    signatures: np.ndarray
    stored: StoredPayloads
    entries: list[Entry]
    positions: dict[int, int]
    """The positions of stored documents by their numbers."""


PASS_PROBABILITY = 0.999
"""The share of pairs at the threshold whose estimate must pass the margin."""
NO_REPRESENTATIVE = Decision(entry=None, position=None, similarity=0.0, compared=0)


class Searcher:
    """Finds stored documents that resemble those of a batch.

    Args:
        store: Store that is searched.
        settings: Settings of the index, with its threshold.
        preparer: Preparer of the index.
        clock: Returns the time in seconds.
        on_comparisons: Receives the number of exact comparisons of each document.
    """

    def __init__(
        self,
        store: Store,
        settings: IndexSettings,
        preparer: Preparer,
        clock: Callable[[], float],
        on_comparisons: Callable[[int], None] | None = None,
    ) -> None:
        assert settings.threshold is not None
        self.store = store
        self.settings = settings
        self.preparer = preparer
        self.stats = SearchStats(clock, on_comparisons)
        self._clock = clock
        self._threshold = settings.threshold
        self._measure = preparer.measure
        spec = self._measure.spec
        self._compares_sets = spec.measure == "jaccard"
        agreeing_share = self._measure.estimator.expected_agreements(self._threshold) / spec.k
        self._margin = largest_margin(spec.k, agreeing_share, PASS_PROBABILITY)
        if preparer.compares_signatures:
            # the signatures decide, so that the margin is exact
            self._margin = preparer.banding.margin
        keys = np.empty((0, 0), np.uint64) if spec.truncated else None
        self._layout = band_layout_of(spec, preparer.banding, keys).layout
        require_probeable(spec, settings.probes, settings.lookup_probes)
        self._prober: LookupProber | None = None
        if settings.lookup_probes:
            self._prober = LookupProber(preparer, settings.lookup_probes)

    def decide(
        self, prepared: PreparedDocuments, excluded: frozenset[int], changes: Changes
    ) -> list[Decision]:
        """Decides for each document of a batch which representative it is resolved to.

        The decisions are those that would be made if the documents came one by one.

        Args:
            prepared: The batch.
            excluded: Numbers of stored documents that are not representatives any more.
            changes: Changes of the step. `may_overflow` is set if a bucket may overflow.
        """
        n = len(prepared.digests)
        read_keys = self._read_keys(prepared)
        ranked = self.rank(prepared, leaders_only=True, excluded=excluded, read_keys=read_keys)
        changes.may_overflow |= ranked.may_overflow
        batch_keys = _keys_shared_in_batch(prepared.keys, read_keys, prepared.empty)
        if not len(ranked.words) and not any(keys.read for keys in batch_keys):
            return [NO_REPRESENTATIVE] * n
        pool = self.fetch(prepared, ranked)
        bounds = np.searchsorted(ranked.documents, np.arange(n + 1)).tolist()
        # the buckets of the batch's new representatives, as positions by key
        new_leaders: dict[int, list[int]] = {}
        decisions: list[Decision] = []
        for i in range(n):
            keys = batch_keys[i]
            candidates = slice(bounds[i], bounds[i + 1])
            near = Counter(other for key in keys.read for other in new_leaders.get(key, ()))
            decision = NO_REPRESENTATIVE
            if candidates.start < candidates.stop or near:
                decision = self._best(i, candidates, near, ranked, pool, prepared)
            decisions.append(decision)
            if decision.entry is None and decision.position is None:
                for key in keys.posted:
                    new_leaders.setdefault(key, []).append(i)
        return decisions

    def rank(
        self,
        prepared: PreparedDocuments,
        *,
        leaders_only: bool,
        excluded: frozenset[int] = frozenset(),
        read_keys: np.ndarray | None = None,
    ) -> RankedCandidates:
        """Returns the stored documents in the buckets of a batch, by shared bands, then by age.

        Documents that are too long or too short to be similar are left out.

        Args:
            prepared: The batch.
            leaders_only: True to leave out documents that are not representatives.
            excluded: Numbers of documents that are left out.
            read_keys: Keys of the buckets that are read, uint64 (n, m). By default those of the
                documents, with the additional ones of `lookup_probes`.
        """
        if read_keys is None:
            read_keys = self._read_keys(prepared)
        n, keys_per_document = read_keys.shape
        keys = read_keys.reshape(-1)
        postings = self.store.postings(keys)
        sizes = np.diff(postings.offsets)
        self.stats.record_buckets(keys, postings, sizes)
        may_overflow = bool(len(sizes)) and int(sizes.max()) + n > self.settings.bucket_capacity
        words = postings.words
        if not len(words):
            nothing = np.empty(0, np.int64)
            return RankedCandidates(nothing, nothing, nothing, may_overflow)
        documents = np.repeat(np.arange(n).repeat(keys_per_document), sizes)
        keep = ~prepared.empty[documents]
        if leaders_only:
            keep &= (words & MEMBER) == 0
        if excluded:
            keep &= ~np.isin(words >> REF_SHIFT, list(excluded))
        if self._compares_sets:
            own = prepared.payload.sizes[documents]
            other = words & MAX_SIZE
            fits = other >= np.floor(self._threshold * own)
            fits &= own >= np.floor(self._threshold * other)
            # the size of a larger document is unknown
            keep &= fits | (other == MAX_SIZE)
        documents = documents[keep]
        words = words[keep]
        order = np.lexsort((words, documents))
        documents = documents[order]
        words = words[order]
        is_first = np.ones(len(words), bool)
        is_first[1:] = (words[1:] != words[:-1]) | (documents[1:] != documents[:-1])
        firsts = np.flatnonzero(is_first)
        shared = np.diff(np.append(firsts, len(words)))
        documents = documents[firsts]
        words = words[firsts]
        order = np.lexsort((words >> REF_SHIFT, -shared, documents))
        documents = documents[order]
        rank = np.arange(len(words)) - np.searchsorted(documents, documents)
        keep = rank < self.settings.max_candidates
        return RankedCandidates(
            documents[keep], words[order][keep], shared[order][keep], may_overflow
        )

    def _read_keys(self, prepared: PreparedDocuments) -> np.ndarray:
        """Returns the keys of the buckets that are read for a batch, uint64 (n, m)."""
        if self._prober is None:
            return prepared.keys
        return np.concatenate([prepared.keys, self._prober.keys(prepared)], axis=1)

    def fetch(self, prepared: PreparedDocuments, ranked: RankedCandidates) -> Pool:
        """Fetches all candidates at once and places them after the batch.

        A posting is of the same scope because its key of 64 bits is derived from the scope. Keys of
        another scope may be equal by chance, so the scope of every fetched document is compared.

        Args:
            prepared: The batch.
            ranked: The candidates of the batch.
        """
        refs = np.unique(ranked.words >> REF_SHIFT).tolist() if len(ranked.words) else []
        entries = self.store.by_refs(refs) if refs else []
        now = self._clock()
        alive = [
            entry
            for entry in entries
            if entry is not None and entry.scope == prepared.scope and self._is_alive(entry, now)
        ]
        payload = prepared.payload
        signatures = prepared.signatures
        if alive:
            payload = concatenate_payloads([payload, self.preparer.payload_of(alive)])
            signatures = np.concatenate([signatures, self.preparer.signatures_of(alive)])
        n = len(prepared.digests)
        rows = np.arange(n + len(alive), dtype=np.uint32)
        stored = StoredPayloads(rows, row_starts(payload), payload.columns)
        positions = {entry.ref: n + i for i, entry in enumerate(alive)}
        return Pool(signatures, stored, alive, positions)

    def compare_members(
        self, prepared: PreparedDocuments, members: list[Entry]
    ) -> list[tuple[Entry, float]]:
        """Compares members of clusters with a document exactly. No estimate comes first.

        The comparisons are not counted in the statistics, which describe candidates.

        Args:
            prepared: A batch of one document.
            members: Members of any clusters of its scope.

        Returns:
            The members that reach the threshold, each with its exact similarity. Members whose
            content is not stored are left out.
        """
        now = self._clock()
        times = (self.settings.record_ttl, self.settings.window)
        comparable = [
            entry for entry in members if entry.has_content and _was_seen(entry, now, times)
        ]
        if not comparable:
            return []
        payload = concatenate_payloads([prepared.payload, self.preparer.payload_of(comparable)])
        # position 0 is the document of the batch
        others = np.arange(1, 1 + len(comparable), dtype=np.uint64)
        pairs = pack_pairs(np.zeros(1, np.uint64), others)
        scored = self._measure.compare(pairs, as_stored(payload))
        reached = np.flatnonzero(scored.meets_threshold(self._threshold))
        similarity = scored.similarity
        return [(comparable[i], float(similarity[i])) for i in reached.tolist()]

    def compare_exactly(self, pool: Pool) -> np.ndarray:
        """Compares the first document of a pool with the stored ones, whatever their estimates.

        The comparisons are not counted in the statistics, which describe searches.

        Args:
            pool: A batch of one document, and stored documents.

        Returns:
            The exact similarities, float64 (m,), one for each stored document.
        """
        others = np.arange(1, 1 + len(pool.entries), dtype=np.uint64)
        pairs = pack_pairs(np.zeros(1, np.uint64), others)
        return self._measure.compare(pairs, pool.stored).similarity

    def _is_alive(self, entry: Entry, now: float) -> bool:
        """Returns True if a document still is in buckets and no time limit has passed.

        It may have left its buckets since they were read.
        """
        settings = self.settings
        times = (settings.bucket_ttl, settings.record_ttl, settings.window)
        return entry.posted and _was_seen(entry, now, times)

    def _best(
        self,
        position: int,
        candidates: slice,
        near: Counter[int],
        ranked: RankedCandidates,
        pool: Pool,
        prepared: PreparedDocuments,
    ) -> Decision:
        """Returns the decision for one document: its most similar representative.

        Of equally similar ones the older one is chosen.

        Args:
            position: Position of the document in the batch.
            candidates: Range of its stored candidates in `ranked`.
            near: Numbers of shared bands of new representatives of the batch, by position.
            ranked: Candidates of the batch.
            pool: The batch and its candidates.
            prepared: The batch.
        """
        refs = (ranked.words[candidates] >> REF_SHIFT).tolist()
        # ages order the options: positions in the pool, and behind them those of the batch, whose
        # documents are younger than all stored ones
        youngest_stored = len(pool.signatures)
        options = [
            (-shared, pool.positions[ref])
            for shared, ref in zip(ranked.shared[candidates].tolist(), refs, strict=True)
            if ref in pool.positions
        ]
        options += [
            (-shared, youngest_stored + other)
            for other, shared in near.items()
            if self._length_fits(prepared, position, other)
        ]
        options.sort()
        options = options[: self.settings.max_candidates]
        if not options:
            return NO_REPRESENTATIVE
        ages = np.array([age for _, age in options])
        positions = np.where(ages < youngest_stored, ages, ages - youngest_stored)
        similarity = self.similarity(np.uint64(position), positions.astype(np.uint64), pool)
        good = np.flatnonzero(similarity >= 0)
        if not len(good):
            return NO_REPRESENTATIVE._replace(compared=len(options))
        best = good[np.lexsort((ages[good], -similarity[good]))[0]]
        age = int(ages[best])
        decision = Decision(None, None, float(similarity[best]), len(options))
        if age >= youngest_stored:
            return decision._replace(position=age - youngest_stored)
        return decision._replace(entry=pool.entries[age - len(prepared.digests)])

    def _length_fits(self, prepared: PreparedDocuments, a: int, b: int) -> bool:
        """Returns True if two documents of a batch are close enough in size to be similar."""
        if not self._compares_sets:
            return True
        size_a = int(prepared.payload.sizes[a])
        size_b = int(prepared.payload.sizes[b])
        return bool(
            size_b >= np.floor(self._threshold * size_a)
            and size_a >= np.floor(self._threshold * size_b)
        )

    def similarity(self, position: np.uint64, others: np.ndarray, pool: Pool) -> np.ndarray:
        """Compares a document with others exactly, if their estimates pass the margin.

        Args:
            position: Position of the document in the pool.
            others: Positions of the others, uint64 (m,).
            pool: The documents.

        Returns:
            The exact similarities, float64 (m,); -1 for those below the margin or the threshold.
        """
        similarity = np.full(len(others), -1.0)
        pairs = pack_pairs(np.asarray(position), others)
        agreeing = np.empty(len(pairs), np.int64)
        pair_agreements(pairs, pool.signatures, self._layout, agreeing)
        passed = np.flatnonzero(agreeing >= self._margin)
        reached_count = 0
        if len(passed):
            scored = self._measure.compare(pairs[passed], pool.stored)
            reached = scored.meets_threshold(self._threshold)
            similarity[passed[reached]] = scored.similarity[reached]
            reached_count = int(np.count_nonzero(reached))
        if len(pairs):
            self.stats.record_comparisons(
                estimated=len(pairs), compared=len(passed), reached=reached_count
            )
        return similarity


def _was_seen(entry: Entry, now: float, times: tuple[float | None, ...]) -> bool:
    """Returns True if a document was seen within each of several times, in seconds."""
    return all(ttl is None or entry.seen >= now - ttl for ttl in times)


class _BatchKeys(NamedTuple):
    """The keys by which a document meets other documents of its batch."""

    posted: list[int]
    """Keys of its buckets that other documents read."""
    read: list[int]
    """Keys that it reads, of buckets of other documents."""


def _keys_shared_in_batch(
    posted: np.ndarray, read: np.ndarray, empty: np.ndarray
) -> list[_BatchKeys]:
    """Returns for each document of a batch those of its keys that other documents also have.

    Args:
        posted: Keys of the documents' buckets, uint64 (n, b).
        read: Keys of the buckets that are read for them, uint64 (n, m): first those of `posted`.
        empty: Documents that match nothing, bool (n,).
    """
    n = len(posted)
    if n == 1:
        return [_BatchKeys([], [])]
    flat = read.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    repeated = ordered[1:] == ordered[:-1]
    is_shared = np.zeros(len(flat), bool)
    is_shared[order[1:][repeated]] = True
    is_shared[order[:-1][repeated]] = True
    is_shared = is_shared.reshape(read.shape) & ~empty[:, None]
    bands = posted.shape[1]
    return [
        _BatchKeys(posted[i][is_shared[i, :bands]].tolist(), read[i][is_shared[i]].tolist())
        for i in range(n)
    ]
