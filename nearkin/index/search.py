"""The search for stored documents that resemble those of a batch.

The stages are: buckets, length filter, candidates by shared bands, estimate with a safety margin,
and exact comparison of the candidates with the greatest estimates.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearkin.index.changes import Changes
from nearkin.index.comparison import (
    CandidatePairs,
    ComparableKind,
    ComparedCandidates,
    ComparedPairs,
    DocumentComparer,
)
from nearkin.index.decided_pairs import GuardedBatch, PairGuard, Representative
from nearkin.index.document_preparation import DocumentPreparer, PreparedBatch
from nearkin.index.entry import (
    MAX_SIZE,
    MEMBER,
    REF_SHIFT,
    Entry,
    Evidence,
    Match,
    RelatedDocument,
)
from nearkin.index.lookup_probes import LookupProber
from nearkin.index.settings import IndexSettings, require_probeable
from nearkin.index.spare_buckets import content_key, is_crowded, spare_keys
from nearkin.index.stats import SearchStats
from nearkin.index.stores.base import Store
from nearkin.stages.measures.base import as_stored, concatenate_payloads
from nearkin.stages.packed_pairs import pack_pairs

if TYPE_CHECKING:
    from nearkin.index.passage_search import PassageSearcher


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
    crowded: np.ndarray
    """True for documents of the batch that need spare buckets, bool (n,)."""


class Decision(NamedTuple):
    """The representative of a document of a batch: stored, of the same batch, or none yet."""

    entry: Entry | None
    """The stored representative, if there is one."""
    position: int | None
    """The position of the representative in the batch, if it is there."""
    similarity: float
    """The exact similarity to the representative, or 0."""
    compared: int
    """The number of documents that were compared: those with the greatest estimates."""
    evidence: Evidence | None = None
    """Both similarities to the representative in an index of texts and vectors."""
    related: tuple[RelatedDocument, ...] = ()
    """Other representatives that are related, most similar first."""
    crowded: bool = False
    """True if the document is posted in spare buckets, too."""


class ReadKeys(NamedTuple):
    """The keys of the buckets that are read for the n documents of a batch."""

    keys: np.ndarray
    """The keys, uint64 (n, m), first those of the documents' own buckets of each kind."""
    kinds: tuple[np.ndarray, ...]
    """The keys of each kind of evidence, uint64 (n, m_kind)."""

    def postings_of_second_kind(self, sizes: np.ndarray) -> np.ndarray | None:
        """Returns which postings are in buckets of the second kind of evidence.

        Args:
            sizes: Numbers of postings of the buckets, int64 (n · m,).
        """
        if len(self.kinds) == 1:
            return None
        is_second = np.arange(self.keys.shape[1]) >= self.kinds[0].shape[1]
        return np.repeat(np.tile(is_second, len(self.keys)), sizes)


class _SparePostings(NamedTuple):
    """The postings that a batch finds in spare buckets."""

    words: np.ndarray
    """The postings, int64 (m,)."""
    documents: np.ndarray
    """The positions of the documents that find them, int64 (m,)."""
    of_second: np.ndarray
    """True for those that are found by the second kind of evidence, bool (m,)."""


class Pool(NamedTuple):
    """A batch and the stored documents it may resemble, for comparisons by position.

    The batch comes first.
    """

    kinds: list[ComparableKind]
    """The documents by each kind of evidence."""
    size: int
    """The number of documents."""
    entries: list[Entry]
    positions: dict[int, int]
    """The positions of stored documents by their numbers."""


class AgedMatch(NamedTuple):
    """A match, and the number of its document, by which documents are ordered by age."""

    match: Match
    age: int


_NO_NUMBERS = np.empty(0, np.int64)
MAX_VARIANTS = 100
"""The number of searchers with settings of scopes that a process keeps."""
ESTIMATED_PER_CANDIDATE = 20
"""The number of documents that are estimated at most, for each one that is compared exactly.

By the number of shared bands alone, documents that share some by chance tie with true duplicates.
"""
MOST_RELATED = 10
"""The largest number of related representatives of a document: the most similar ones."""
NO_REPRESENTATIVE = Decision(entry=None, position=None, similarity=0.0, compared=0)


class _Option(NamedTuple):
    """A representative that a document was compared with exactly."""

    shared: int
    """The number of shared bands."""
    age: int
    """The position in the pool; for documents of the batch, behind all positions of the pool."""
    similarity: float
    """The exact similarity."""
    reached: bool
    """True if the documents are similar."""
    compared: ComparedPairs
    """The results of the comparison, among others."""
    row: int
    """The position among these results."""


@dataclass
class _Comparison:
    """The comparison of a document with its candidates.

    Attributes:
        options: Representatives whose estimates passed the margin.
        estimated: Number of candidates, whose similarity was estimated.
    """

    options: list[_Option] = field(default_factory=list)
    estimated: int = 0


class _StoredCandidates(NamedTuple):
    """The stored candidates of a batch that still exist, by document, most shared bands first."""

    documents: np.ndarray
    """The positions of the batch's documents, ascending, int64 (m,)."""
    ages: np.ndarray
    """The positions of the candidates in the pool, int64 (m,)."""
    shared: np.ndarray
    """The numbers of shared bands, int64 (m,)."""


class Searcher:
    """Finds stored documents that resemble those of a batch.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        store: Store,
        settings: IndexSettings,
        documents: DocumentPreparer,
        clock: Callable[[], float],
        on_comparisons: Callable[[int], None] | None = None,
        guard: PairGuard | None = None,
    ) -> None:
        assert settings.spec is not None
        self.store = store
        self.settings = settings
        self.documents = documents
        self.guard = PairGuard() if guard is None else guard
        self.comparer = DocumentComparer(documents, settings)
        self.stats = SearchStats(clock, on_comparisons)
        self.passages: PassageSearcher | None = None
        """The search for passages, if the index has their fingerprints."""
        self._most_estimated = ESTIMATED_PER_CANDIDATE * settings.max_candidates
        self._clock = clock
        self._variants: dict[tuple[tuple[str, float], ...], Searcher] = {}
        """The searchers with settings of scopes, by these settings."""
        require_probeable(settings.spec, settings.probes, settings.lookup_probes)
        lookup_probes = [settings.lookup_probes]
        if settings.vector is not None:
            lookup_probes.append(settings.vector.lookup_probes)
        self._probers = [
            LookupProber(kind, probes) if probes else None
            for kind, probes in zip(documents.kinds, lookup_probes, strict=True)
        ]

    def of_scope(self, scope: str) -> "Searcher":
        """Returns the searcher with the settings of a scope, which may be this one."""
        record = self.guard.record_of(self.store, scope)
        if record is None:
            return self
        return self.with_settings(record.settings.search_settings)

    def with_settings(self, values: tuple[tuple[str, float], ...]) -> "Searcher":
        """Returns a searcher with some other settings, or this one if there are none.

        Args:
            values: Names and values of the settings.
        """
        if not values:
            return self
        variant = self._variants.get(values)
        if variant is None:
            if len(self._variants) >= MAX_VARIANTS:
                self._variants.clear()
            variant = copy(self)
            variant.settings = replace(self.settings, **dict(values))  # type: ignore[arg-type]
            variant.comparer = DocumentComparer(self.documents, variant.settings)
            self._variants[values] = variant
        return variant

    def decide(
        self,
        prepared: PreparedBatch,
        ids: Sequence[str],
        excluded: frozenset[int],
        changes: Changes,
    ) -> list[Decision]:
        """Decides for each document of a batch which representative it is resolved to.

        The decisions are those that would be made if the documents came one by one.
        """
        read_keys = self._read_keys(prepared)
        ranked = self.rank(prepared, leaders_only=True, excluded=excluded, read_keys=read_keys)
        changes.may_overflow |= ranked.may_overflow
        decisions = self._decide_ranked(prepared, ids, excluded, changes, ranked, read_keys)
        for i in np.flatnonzero(ranked.crowded).tolist():
            decisions[i] = decisions[i]._replace(crowded=True)
        return decisions

    def _decide_ranked(
        self,
        prepared: PreparedBatch,
        ids: Sequence[str],
        excluded: frozenset[int],
        changes: Changes,
        ranked: RankedCandidates,
        read_keys: ReadKeys,
    ) -> list[Decision]:
        """Decides as `decide` does, with the candidates of the batch and the keys that it reads."""
        n = len(prepared.digests)
        decisions = [NO_REPRESENTATIVE] * n
        guarded = self.guard.guard_batch(self.store, prepared.scope, ids, excluded, changes.changed)
        if n == 1 and not len(ranked.words) and guarded is None:
            return decisions
        batch_keys = [
            _keys_shared_in_batch(kind.keys, read, kind.empty)
            for kind, read in zip(prepared.kinds, read_keys.kinds, strict=True)
        ]
        # most documents of a batch meet no other document, and need not be looked at
        met = set(ranked.documents.tolist()).union(*batch_keys)
        if guarded is not None:
            met |= guarded.positions
        if not met:
            return decisions
        pool = self.fetch(prepared, ranked)
        stored = _select_alive(ranked, pool)
        comparisons = self._compare_stored(stored, pool, n)
        # the buckets of the batch's new representatives, as positions by key
        new_leaders: dict[int, list[int]] = {}
        for i in sorted(met):
            near: Counter[int] = Counter()
            for kind, keys in enumerate(batch_keys):
                if i not in keys:
                    continue
                met_leaders = Counter(
                    earlier for key in keys[i].read for earlier in new_leaders.get(key, ())
                )
                for earlier, shared in met_leaders.items():
                    if not self._bounds_size(kind) or self._length_fits(prepared, i, earlier):
                        near[earlier] += shared
            if near:
                self._compare_in_batch(i, near, comparisons[i], stored, pool)
            is_guarded = guarded is not None and i in guarded.positions
            if is_guarded and guarded is not None:
                decisions[i] = self._decide_guarded(i, ids, comparisons[i], guarded, prepared, pool)
                guarded.placed[ids[i]] = _representative_of(decisions[i], ids, i)
            elif comparisons[i].estimated:
                decisions[i] = self._best_candidate(comparisons[i], pool, ids)
            if decisions[i].entry is None and decisions[i].position is None:
                for key in (key for keys in batch_keys if i in keys for key in keys[i].posted):
                    new_leaders.setdefault(key, []).append(i)
        return decisions

    def _decide_guarded(
        self,
        position: int,
        ids: Sequence[str],
        comparison: _Comparison,
        guarded: GuardedBatch,
        prepared: PreparedBatch,
        pool: Pool,
    ) -> Decision:
        """Returns the decision for a document that people have decided about."""
        id = ids[position]
        required = guarded.representative_of(id)
        if required is not None:
            return self._resolve_to(
                position, required, ids, prepared, self._count_compared(comparison)
            )
        forbidden = guarded.forbidden_of(id)
        allowed = [
            option for option in comparison.options if not forbidden & _names_of(option, ids, pool)
        ]
        if not allowed:
            return NO_REPRESENTATIVE._replace(compared=self._count_compared(comparison))
        return self._best_candidate(_Comparison(allowed, comparison.estimated), pool, ids)

    def _resolve_to(
        self,
        position: int,
        leader: Representative,
        ids: Sequence[str],
        prepared: PreparedBatch,
        compared: int,
    ) -> Decision:
        """Returns the decision for a document whose representative people have decided."""
        entry = leader.entry
        stored = [] if entry is None else [entry]
        kinds = self._comparable_kinds(prepared, stored, with_signatures=False)
        other = len(ids) if entry is not None else ids.index(leader.id)
        pair = pack_pairs(np.array([position]), np.array([other]))
        scores = self.comparer.compare(pair, kinds)
        return Decision(
            entry=entry,
            position=None if entry is not None else other,
            similarity=float(np.nan_to_num(scores.similarity[0])),
            compared=compared,
            evidence=scores.evidence(0),
        )

    def match(self, prepared: PreparedBatch, most: int | None = None) -> list[list[AgedMatch]]:
        """Returns the similar stored documents of each document of a batch, in order.

        Documents of the batch are not compared with each other.

        Args:
            most: Maximum number of matches of a document, or None for no limit.
        """
        n = len(prepared.digests)
        ranked = self.rank(prepared, leaders_only=self.settings.postings == "leaders")
        if not len(ranked.words):
            return [[] for _ in range(n)]
        pool = self.fetch(prepared, ranked)
        comparisons = self._compare_stored(_select_alive(ranked, pool), pool, n)
        return [
            [
                self._match_of_option(prepared, i, pool, option)
                for option in self._similar_options(comparison)[:most]
            ]
            for i, comparison in enumerate(comparisons)
        ]

    def _match_of_option(
        self, prepared: PreparedBatch, position: int, pool: Pool, option: _Option
    ) -> AgedMatch:
        """Returns a stored document that was compared with a document of a batch."""
        entry = pool.entries[option.age - len(prepared.digests)]
        evidence = option.compared.evidence(option.row)
        return self._match_of(prepared, position, entry, option.similarity, option.shared, evidence)

    def _match_of(
        self,
        prepared: PreparedBatch,
        position: int,
        entry: Entry,
        similarity: float,
        shared: int,
        evidence: Evidence | None,
    ) -> AgedMatch:
        """Returns a stored document as a match of a document of a batch."""
        match = Match(
            id=entry.id,
            cluster=entry.cluster,
            similarity=similarity,
            shared=shared,
            representative=entry.leader,
            evidence=evidence,
            exact=self.documents.is_exact_copy(prepared, position, entry, similarity),
        )
        return AgedMatch(match, entry.ref)

    def rank(
        self,
        prepared: PreparedBatch,
        *,
        leaders_only: bool,
        excluded: frozenset[int] = frozenset(),
        read_keys: ReadKeys | None = None,
    ) -> RankedCandidates:
        """Returns the stored documents in the buckets of a batch, by shared bands, then by age.

        Documents that are too long or too short to be similar are left out, and so are those beyond
        the number of documents that are estimated.
        """
        if read_keys is None:
            read_keys = self._read_keys(prepared)
        n, keys_per_document = read_keys.keys.shape
        keys = read_keys.keys.reshape(-1)
        postings = self.store.postings(keys)
        words = postings.words
        if not len(words):
            may_overflow = bool(len(keys)) and n > self.settings.bucket_capacity
            return RankedCandidates(
                _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, may_overflow, np.zeros(n, bool)
            )
        sizes = postings.offsets[1:] - postings.offsets[:-1]
        self.stats.record_buckets(keys, postings, sizes)
        largest = int(sizes.max())
        may_overflow = largest + n > self.settings.bucket_capacity
        documents = np.repeat(np.arange(n).repeat(keys_per_document), sizes)
        of_second = read_keys.postings_of_second_kind(sizes)
        crowded = np.zeros(n, bool)
        if largest >= self.settings.bucket_capacity:
            full = (sizes >= self.settings.bucket_capacity).reshape(n, -1)
            crowded = self._find_crowded(prepared, read_keys, full)
            spare = self._read_spares(prepared, read_keys, full)
            words = np.concatenate([words, spare.words])
            documents = np.concatenate([documents, spare.documents])
            if of_second is not None:
                of_second = np.concatenate([of_second, spare.of_second])
        keep = ~prepared.kinds[0].empty[documents]
        if of_second is not None:
            keep = np.where(of_second, ~prepared.kinds[1].empty[documents], keep)
        if leaders_only:
            keep &= (words & MEMBER) == 0
        if excluded:
            keep &= ~np.isin(words >> REF_SHIFT, list(excluded))
        if self._bounds_size(0):
            own = prepared.kinds[0].payload.sizes[documents]
            stored_size = words & MAX_SIZE
            threshold = self.comparer.kinds[0].search_threshold
            fits = stored_size >= np.floor(threshold * own)
            fits &= own >= np.floor(threshold * stored_size)
            # the size of a larger document is unknown
            fits |= stored_size == MAX_SIZE
            if of_second is not None:
                fits |= of_second
            keep &= fits
        documents = documents[keep]
        words = words[keep]
        order = np.lexsort((words, documents))
        documents = documents[order]
        words = words[order]
        is_first = np.ones(len(words), bool)
        is_first[1:] = (words[1:] != words[:-1]) | (documents[1:] != documents[:-1])
        firsts = np.flatnonzero(is_first)
        # a document can be in a bucket and in its spare one
        shared = np.minimum(np.diff(np.append(firsts, len(words))), keys_per_document)
        documents = documents[firsts]
        words = words[firsts]
        order = np.lexsort((words >> REF_SHIFT, -shared, documents))
        documents = documents[order]
        rank = np.arange(len(words)) - np.searchsorted(documents, documents)
        words = words[order]
        shared = shared[order]
        first_left_out = np.flatnonzero(rank == self._most_estimated)
        ties = shared[first_left_out] == shared[first_left_out - 1]
        self.stats.record_ties(int(np.count_nonzero(ties)))
        keep = rank < self._most_estimated
        return RankedCandidates(documents[keep], words[keep], shared[keep], may_overflow, crowded)

    def _find_crowded(
        self, prepared: PreparedBatch, read_keys: ReadKeys, full: np.ndarray
    ) -> np.ndarray:
        """Returns which documents of a batch need spare buckets, bool (n,).

        Args:
            read_keys: Keys of the buckets that are read, uint64 (n, m).
            full: True for buckets that are full, bool (n, m).
        """
        is_own = np.zeros(full.shape, bool)
        begin = 0
        for kind, keys in zip(prepared.kinds, read_keys.kinds, strict=True):
            is_own[:, begin : begin + kind.keys.shape[1]] = ~kind.empty[:, None]
            begin += keys.shape[1]
        return np.array([is_crowded(row[own]) for row, own in zip(full, is_own, strict=True)], bool)

    def _read_spares(
        self, prepared: PreparedBatch, read_keys: ReadKeys, full: np.ndarray
    ) -> _SparePostings:
        """Reads the spare buckets of a batch's full buckets, and those of its contents.

        Args:
            read_keys: Keys of the buckets that are read, uint64 (n, m).
            full: True for buckets that are full, bool (n, m).
        """
        rows, columns = np.nonzero(full)
        with_content = np.unique(rows)
        contents = [content_key(prepared.scope, prepared.digests[i]) for i in with_content.tolist()]
        keys = np.concatenate(
            [spare_keys(read_keys.keys[rows, columns]), np.array(contents, np.uint64)]
        )
        postings = self.store.postings(keys)
        sizes = np.diff(postings.offsets)
        of_second = np.concatenate(
            [
                columns >= read_keys.kinds[0].shape[1],
                # the content of a document without a text is its vector
                prepared.kinds[0].empty[with_content],
            ]
        )
        return _SparePostings(
            postings.words,
            np.repeat(np.concatenate([rows, with_content]), sizes),
            np.repeat(of_second, sizes),
        )

    def _read_keys(self, prepared: PreparedBatch) -> ReadKeys:
        """Returns the keys of the buckets that are read for a batch."""
        if len(prepared.kinds) == 1 and self._probers[0] is None:
            own_keys = prepared.kinds[0].keys
            return ReadKeys(own_keys, (own_keys,))
        kinds: list[np.ndarray] = []
        for kind, prober in zip(prepared.kinds, self._probers, strict=True):
            keys = kind.keys
            if prober is not None:
                keys = np.concatenate([keys, prober.keys(kind)], axis=1)
            kinds.append(keys)
        return ReadKeys(np.concatenate(kinds, axis=1), tuple(kinds))

    def _bounds_size(self, kind: int) -> bool:
        """Returns True if documents in a bucket of a kind must be of similar size to match."""
        return kind == 0 and self.comparer.kinds[0].compares_sets

    def fetch(self, prepared: PreparedBatch, ranked: RankedCandidates) -> Pool:
        """Fetches all candidates at once and places them after the batch.

        A posting is of the same scope because its key of 64 bits is derived from the scope. Keys of
        another scope may be equal by chance, so the scope of every fetched document is compared.
        """
        # a posting can be of another role that the document had
        words = set(ranked.words.tolist())
        refs = sorted({word >> REF_SHIFT for word in words})
        entries = self.store.by_refs(refs) if refs else []
        now = self._clock()
        alive = [
            entry
            for entry in entries
            if entry is not None
            and entry.scope == prepared.scope
            and entry.posting in words
            and self._is_alive(entry, now)
        ]
        kinds = self._comparable_kinds(prepared, alive, with_signatures=True)
        n = len(prepared.digests)
        positions = {entry.ref: n + i for i, entry in enumerate(alive)}
        return Pool(kinds, n + len(alive), alive, positions)

    def _comparable_kinds(
        self, prepared: PreparedBatch, entries: list[Entry], *, with_signatures: bool
    ) -> list[ComparableKind]:
        """Returns a batch and stored documents, to compare them by their positions."""
        if not entries:
            return [
                ComparableKind(as_stored(kind.payload), kind.empty, kind.signatures)
                for kind in prepared.kinds
            ]
        stored = self.documents.stored_kinds(entries)
        signatures = [kind.signatures for kind in prepared.kinds]
        if with_signatures:
            signatures = [
                np.concatenate([own, others])
                for own, others in zip(
                    signatures, self.documents.signatures_of(entries), strict=True
                )
            ]
        return [
            ComparableKind(
                as_stored(concatenate_payloads([own.payload, others.payload])),
                np.concatenate([own.empty, others.empty]),
                own_and_others,
            )
            for own, others, own_and_others in zip(prepared.kinds, stored, signatures, strict=True)
        ]

    def match_members(self, prepared: PreparedBatch, members: list[Entry]) -> list[AgedMatch]:
        """Returns the members of clusters that are similar to a document. No estimate comes first.

        The comparisons are not counted in the statistics, which describe candidates.
        """
        now = self._clock()
        times = (self.settings.record_ttl, self.settings.window)
        comparable = [
            entry for entry in members if entry.has_content and _was_seen(entry, now, times)
        ]
        if not comparable:
            return []
        kinds = self._comparable_kinds(prepared, comparable, with_signatures=False)
        compared = self.comparer.compare(_pairs_with_first(len(comparable)).pairs, kinds)
        similarities = compared.similarity.tolist()
        return [
            self._match_of(prepared, 0, comparable[i], similarities[i], 0, compared.evidence(i))
            for i in np.flatnonzero(compared.reached).tolist()
        ]

    def near_misses(self, prepared: PreparedBatch) -> list[Match]:
        """Returns the stored documents most like the first one of a batch that are not similar.

        The comparisons are not counted in the statistics, which describe searches.
        """
        ranked = self.rank(prepared, leaders_only=self.settings.postings == "leaders")
        if not len(ranked.words):
            return []
        pool = self.fetch(prepared, ranked)
        candidates = _pairs_with_first(len(pool.entries))
        chosen = self.comparer.choose_closest(candidates, pool.kinds, self.settings.max_candidates)
        compared = self.comparer.compare(candidates.pairs[chosen], pool.kinds)
        entries = [pool.entries[i] for i in np.flatnonzero(chosen).tolist()]
        shared = dict(
            zip((ranked.words >> REF_SHIFT).tolist(), ranked.shared.tolist(), strict=True)
        )
        similarities = compared.similarity.tolist()
        misses = [
            self._match_of(
                prepared,
                0,
                entries[i],
                similarities[i],
                shared[entries[i].ref],
                compared.evidence(i),
            )
            for i in np.flatnonzero(~compared.reached).tolist()
        ]
        return [match for match, _ in sorted(misses, key=rank_of_match)]

    def _is_alive(self, entry: Entry, now: float) -> bool:
        """Returns True if a document still is in buckets and no time limit has passed.

        It may have left its buckets since they were read.
        """
        settings = self.settings
        times = (settings.bucket_ttl, settings.record_ttl, settings.window)
        return entry.posted and _was_seen(entry, now, times)

    def _compare_stored(self, stored: _StoredCandidates, pool: Pool, n: int) -> list[_Comparison]:
        """Compares the documents of a batch with all of their stored candidates."""
        counts = np.bincount(stored.documents, minlength=n).tolist()
        comparisons = [_Comparison(estimated=count) for count in counts]
        candidates = CandidatePairs.of(stored.documents, stored.ages)
        options = self._options(candidates, stored.shared, pool)
        for row, option in options:
            comparisons[int(stored.documents[row])].options.append(option)
        return comparisons

    def _compare_in_batch(
        self,
        position: int,
        near: Counter[int],
        comparison: _Comparison,
        stored: _StoredCandidates,
        pool: Pool,
    ) -> None:
        """Compares a document of a batch with new representatives of the batch and stored ones."""
        begin, end = np.searchsorted(stored.documents, [position, position + 1])
        others = np.fromiter(near, np.int64, len(near))
        positions = np.concatenate([stored.ages[begin:end], others])
        # documents of the batch are younger than all stored ones
        ages = np.concatenate([stored.ages[begin:end], pool.size + others])
        shared = np.concatenate(
            [stored.shared[begin:end], np.fromiter(near.values(), np.int64, len(near))]
        )
        kept = np.lexsort((ages, -shared))[: self._most_estimated]
        comparison.estimated = len(kept)
        candidates = CandidatePairs.of(np.array([position]), positions[kept], ages[kept])
        options = self._options(candidates, shared[kept], pool)
        comparison.options = [option for _, option in options]

    def _options(
        self, candidates: CandidatePairs, shared: np.ndarray, pool: Pool
    ) -> list[tuple[int, _Option]]:
        """Compares candidates exactly, if their estimates pass the margin.

        Args:
            shared: Numbers of shared bands, int64 (m,).
        """
        if not len(candidates.pairs):
            return []
        results = self._compare_candidates(candidates, pool)
        compared = results.compared
        rows = np.flatnonzero(results.is_exact)
        columns = (
            rows,
            shared[rows],
            candidates.ages[rows],
            compared.similarity[rows],
            compared.reached[rows],
        )
        options = zip(*(column.tolist() for column in columns), strict=True)
        return [
            (
                row,
                _Option(
                    shared=bands,
                    age=age,
                    similarity=similarity,
                    reached=reached,
                    compared=compared,
                    row=row,
                ),
            )
            for row, bands, age, similarity, reached in options
        ]

    def _compare_candidates(self, candidates: CandidatePairs, pool: Pool) -> ComparedCandidates:
        """Compares the candidates of each document with the greatest estimates, and counts ties."""
        results = self.comparer.compare_candidates(
            candidates, pool.kinds, self.settings.max_candidates
        )
        self.stats.record_ties(results.ties)
        return results

    def _best_candidate(self, comparison: _Comparison, pool: Pool, ids: Sequence[str]) -> Decision:
        """Returns the decision for one document: its most similar representative.

        Of equally similar ones the older one is chosen.
        """
        best = next(iter(self._similar_options(comparison)), None)
        related = tuple(
            self._related_document(option, pool, ids)
            for option in self._related_options(comparison.options, best)
        )
        if best is None:
            return NO_REPRESENTATIVE._replace(
                compared=self._count_compared(comparison), related=related
            )
        is_stored = best.age < pool.size
        return Decision(
            entry=pool.entries[best.age - len(ids)] if is_stored else None,
            position=None if is_stored else best.age - pool.size,
            similarity=best.similarity,
            compared=self._count_compared(comparison),
            evidence=best.compared.evidence(best.row),
            related=related,
        )

    @staticmethod
    def _related_document(option: _Option, pool: Pool, ids: Sequence[str]) -> RelatedDocument:
        """Returns a representative, stored or of the batch, that a document is related to."""
        if option.age < pool.size:
            entry = pool.entries[option.age - len(ids)]
            return RelatedDocument(entry.id, entry.cluster, option.similarity)
        # a new representative of the same batch, whose cluster has its own id
        id = ids[option.age - pool.size]
        return RelatedDocument(id, id, option.similarity)

    def _count_compared(self, comparison: _Comparison) -> int:
        """Returns the number of candidates after the cuts by their estimates."""
        first = min(comparison.estimated, self.settings.max_candidates)
        return max(first, len(comparison.options))

    def _related_options(self, options: list[_Option], best: _Option | None) -> list[_Option]:
        """Returns the related representatives of a document, but the one it is resolved to.

        Of equally similar ones the older one comes first.
        """
        least = self.settings.related
        if least is None:
            return []
        related = [
            option for option in options if option.similarity >= least and option is not best
        ]
        return sorted(related, key=_rank_of_option)[:MOST_RELATED]

    def match_related(self, prepared: PreparedBatch) -> list[list[Match]]:
        """Returns the related representatives of each document of a batch, most similar first.

        The one that the document would be resolved to is left out. Documents of the batch are not
        compared with each other.
        """
        n = len(prepared.digests)
        ranked = self.rank(prepared, leaders_only=True)
        if not len(ranked.words):
            return [[] for _ in range(n)]
        pool = self.fetch(prepared, ranked)
        matches: list[list[Match]] = []
        comparisons = self._compare_stored(_select_alive(ranked, pool), pool, n)
        for i, comparison in enumerate(comparisons):
            best = next(iter(self._similar_options(comparison)), None)
            related = self._related_options(comparison.options, best)
            matches.append(
                [self._match_of_option(prepared, i, pool, option).match for option in related]
            )
        return matches

    def most_similar_older(
        self, prepared: PreparedBatch, number: int
    ) -> tuple[Entry, float] | None:
        """Returns the older representative most like a stored document, if one is similar."""
        ranked = self.rank(prepared, leaders_only=True, excluded=frozenset((number,)))
        is_older = ranked.words >> REF_SHIFT < number
        ranked = ranked._replace(
            documents=ranked.documents[is_older],
            words=ranked.words[is_older],
            shared=ranked.shared[is_older],
        )
        pool = self.fetch(prepared, ranked)
        (comparison,) = self._compare_stored(_select_alive(ranked, pool), pool, 1)
        best = next(iter(self._similar_options(comparison)), None)
        return None if best is None else (pool.entries[best.age - 1], best.similarity)

    def _similar_options(self, comparison: _Comparison) -> list[_Option]:
        """Returns the options that are similar, the best first, of equal ones the oldest."""
        if not comparison.estimated:
            return []
        similar = [option for option in comparison.options if option.reached]
        self.stats.record_comparisons(
            estimated=comparison.estimated,
            compared=len(comparison.options),
            reached=len(similar),
        )
        return sorted(similar, key=_rank_of_option)

    def _length_fits(self, prepared: PreparedBatch, a: int, b: int) -> bool:
        """Returns True if two texts of a batch are close enough in size to be similar."""
        sizes = prepared.kinds[0].payload.sizes
        threshold = self.comparer.kinds[0].search_threshold
        size_a = int(sizes[a])
        size_b = int(sizes[b])
        return bool(
            size_b >= np.floor(threshold * size_a) and size_a >= np.floor(threshold * size_b)
        )


def rank_of_match(aged: AgedMatch) -> tuple[float, int]:
    """Returns the key that orders matches: the most similar first, of equal ones the oldest."""
    return -aged.match.similarity, aged.age


def _rank_of_option(option: _Option) -> tuple[float, int]:
    return -option.similarity, option.age


def _select_alive(ranked: RankedCandidates, pool: Pool) -> _StoredCandidates:
    """Returns the ranked candidates that are in the pool, which excludes outdated ones."""
    refs = (ranked.words >> REF_SHIFT).tolist()
    ages = np.array([pool.positions.get(ref, -1) for ref in refs], np.int64)
    is_stored = ages >= 0
    return _StoredCandidates(ranked.documents[is_stored], ages[is_stored], ranked.shared[is_stored])


def _pairs_with_first(count: int) -> CandidatePairs:
    """Returns the pairs of position 0 with each of the next positions."""
    return CandidatePairs.of(np.zeros(1, np.int64), np.arange(1, 1 + count))


def _representative_of(decision: Decision, ids: Sequence[str], position: int) -> Representative:
    """Returns the representative that a document of a batch is resolved to."""
    if decision.entry is not None:
        return Representative(decision.entry.id, decision.entry)
    return Representative(ids[position if decision.position is None else decision.position], None)


def _names_of(option: _Option, ids: Sequence[str], pool: Pool) -> frozenset[str]:
    """Returns the ids of a representative and of its cluster."""
    if option.age >= pool.size:
        return frozenset((ids[option.age - pool.size],))
    entry = pool.entries[option.age - len(ids)]
    return frozenset((entry.id, entry.cluster))


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
) -> dict[int, _BatchKeys]:
    """Returns those keys of a batch that several of its documents have, by the positions of these.

    Args:
        posted: Keys of the documents' buckets, uint64 (n, b).
        read: Keys of the buckets that are read for them, uint64 (n, m): first those of `posted`.
        empty: Documents that match nothing, bool (n,).
    """
    n = len(posted)
    if n == 1:
        return {}
    flat = read.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    repeated = ordered[1:] == ordered[:-1]
    is_shared = np.zeros(len(flat), bool)
    is_shared[order[1:][repeated]] = True
    is_shared[order[:-1][repeated]] = True
    is_shared = is_shared.reshape(read.shape) & ~empty[:, None]
    bands = posted.shape[1]
    return {
        i: _BatchKeys(posted[i][is_shared[i, :bands]].tolist(), read[i][is_shared[i]].tolist())
        for i in np.flatnonzero(is_shared.any(axis=1)).tolist()
    }
