"""The search of an upsert: buckets, candidates, the length filter, the estimate and its margin, exact comparison."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nearkin.index.changes import Changes
from nearkin.index.entry import MAX_SIZE, MEMBER, REF_SHIFT, Entry
from nearkin.index.preparation import Prepared, Preparer
from nearkin.index.settings import IndexSettings
from nearkin.index.stats import Observed
from nearkin.index.stores.base import Store
from nearkin.lsh.kernels import pair_agreements
from nearkin.lsh.solve import largest_margin
from nearkin.measures.base import StoredPayloads, band_layout_of, concatenate_payloads, row_starts
from nearkin.packed_pairs import pack_pairs


class Ranked(NamedTuple):
    """Stored documents that share buckets with documents of a batch, those of one document together, best first."""

    documents: np.ndarray
    words: np.ndarray
    shared: np.ndarray
    crowded: bool
    """Whether the batch could overflow a bucket."""


class Decision(NamedTuple):
    """Where a document of a batch belongs: to a stored representative, to one of the same batch, or nowhere yet."""

    entry: Entry | None
    position: int | None
    similarity: float
    compared: int


class Pool(NamedTuple):
    """A batch and the stored documents it may resemble, for comparing by position: the batch first."""

    signatures: np.ndarray
    stored: StoredPayloads
    entries: list[Entry]
    at: dict[int, int]
    """Position of a stored document, by its number."""


PASS_RATE = 0.999
"""The share of the pairs at the threshold that the margin lets through. Verifying a few more candidates costs little."""
NOWHERE = Decision(None, None, 0.0, 0)
NONE_RANKED = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


class Searcher:
    """Finds the stored documents that resemble those of a batch.

    Args:
        store: To look into.
        settings: Of the index, with its threshold.
        preparer: Of its documents.
        clock: Seconds.
    """

    def __init__(self, store: Store, settings: IndexSettings, preparer: Preparer, clock: Callable[[], float]) -> None:
        assert settings.threshold is not None
        self.store, self.settings, self.preparer, self.clock = store, settings, preparer, clock
        self.threshold = settings.threshold
        self.measure, self.banding = preparer.measure, preparer.banding
        self.observed = Observed(settings.bucket_capacity)
        self.sets = self.measure.spec.measure == "jaccard"
        keys = np.empty((0, 0), np.uint64) if self.measure.spec.truncated else None
        k = self.measure.spec.k
        self.margin = largest_margin(k, self.measure.estimator.expected_agreements(self.threshold) / k, PASS_RATE)
        self._kind = band_layout_of(self.measure.spec, self.banding, keys).layout

    def decide(self, prepared: Prepared, without: frozenset[int], changes: Changes) -> list[Decision]:
        """Where each document of a batch belongs, as if they came one by one; `crowded` says if a bucket may overflow."""
        n = len(prepared.digests)
        ranked = self.ranked(prepared, leaders=True, without=without)
        changes.may_overflow |= ranked.crowded
        twice = _shared_keys(prepared.keys, prepared.empty)
        if not len(ranked.words) and not any(twice):
            return [NOWHERE] * n
        pool = self.pool(prepared, ranked)
        bounds = np.searchsorted(ranked.documents, np.arange(n + 1)).tolist()
        buckets: dict[int, list[int]] = {}
        decisions: list[Decision] = []
        for at in range(n):
            mine, own = twice[at], slice(bounds[at], bounds[at + 1])
            best: Decision = NOWHERE
            if own.start < own.stop or any(key in buckets for key in mine):
                best = self._best(at, own, mine, buckets, ranked, pool, prepared)
            decisions.append(best)
            if best.entry is None and best.position is None:
                for key in mine:
                    buckets.setdefault(key, []).append(at)
        return decisions

    def ranked(self, prepared: Prepared, leaders: bool, without: frozenset[int] = frozenset()) -> Ranked:
        """The stored documents in each one's buckets: by shared bands, then by age; too long or short ones left out."""
        n, per = prepared.keys.shape
        found = self.store.postings(prepared.keys.reshape(-1))
        sizes = np.diff(found.offsets)
        self.observed.looked(prepared.keys.reshape(-1), found, sizes)
        crowded = bool(len(sizes)) and int(sizes.max()) + n > self.settings.bucket_capacity
        if not len(found.words):
            return Ranked(*NONE_RANKED, crowded)
        documents = np.repeat(np.arange(n).repeat(per), sizes)
        words = found.words
        keep = ~prepared.empty[documents]
        if leaders:
            keep &= (words & MEMBER) == 0
        if without:
            keep &= ~np.isin(words >> REF_SHIFT, list(without))
        if self.sets and len(words):
            own, other = prepared.payload.sizes[documents], words & MAX_SIZE
            fits = (other >= np.floor(self.threshold * own)) & (own >= np.floor(self.threshold * other))
            keep &= fits | (other == MAX_SIZE)
        documents, words = documents[keep], words[keep]
        order = np.lexsort((words, documents))
        documents, words = documents[order], words[order]
        first = np.ones(len(words), bool)
        first[1:] = (words[1:] != words[:-1]) | (documents[1:] != documents[:-1])
        places = np.flatnonzero(first)
        shared = np.diff(np.append(places, len(words)))
        documents, words = documents[places], words[places]
        order = np.lexsort((words >> REF_SHIFT, -shared, documents))
        documents, words, shared = documents[order], words[order], shared[order]
        rank = np.arange(len(words)) - np.searchsorted(documents, documents)
        keep = rank < self.settings.max_candidates
        return Ranked(documents[keep], words[keep], shared[keep], crowded)

    def pool(self, prepared: Prepared, ranked: Ranked) -> Pool:
        """Fetches the candidates at once and places them behind the batch.

        That a posting is of the same scope follows from a key of 64 bits alone, which documents of another scope may share by
        chance; so the scope of every fetched document is compared.
        """
        refs = np.unique(ranked.words >> REF_SHIFT).tolist() if len(ranked.words) else []
        entries = [entry for entry in self.store.by_refs(refs) if entry is not None] if refs else []
        now = self.clock()
        alive = [entry for entry in entries if entry.scope == prepared.scope and self.is_alive(entry, now)]
        payload, signatures = prepared.payload, prepared.signatures
        if alive:
            payload = concatenate_payloads([payload, self.preparer.payload_of(alive)])
            signatures = np.concatenate([signatures, self.preparer.signatures_of(alive)])
        n = len(prepared.digests)
        places = np.arange(n + len(alive), dtype=np.uint32)
        stored = StoredPayloads(places, row_starts(payload), payload.columns)
        return Pool(signatures, stored, alive, {entry.ref: n + at for at, entry in enumerate(alive)})

    def is_alive(self, entry: Entry, now: float) -> bool:
        """Whether it stands in buckets still (it may have left since they were read), and its times and the window hold."""
        times = (self.settings.bucket_ttl, self.settings.record_ttl, self.settings.window)
        return entry.posted and all(ttl is None or entry.seen >= now - ttl for ttl in times)

    def _best(
        self,
        at: int,
        candidates: slice,
        mine: list[int],
        buckets: dict[int, list[int]],
        ranked: Ranked,
        pool: Pool,
        prepared: Prepared,
    ) -> Decision:
        """The most similar representative, stored or of the same batch; the older one of equals."""
        words, shared = ranked.words[candidates], ranked.shared[candidates]
        places = [pool.at.get(ref, -1) for ref in (words >> REF_SHIFT).tolist()]
        options = [(-int(s), place) for s, place in zip(shared.tolist(), places, strict=True) if place >= 0]
        near = Counter(other for key in mine for other in buckets.get(key, ()))
        # those of the batch are younger than all that are stored
        younger = len(pool.signatures)
        options += [(-count, younger + other) for other, count in near.items() if self._fits(prepared, at, other)]
        options.sort()
        options = options[: self.settings.max_candidates]
        if not options:
            return NOWHERE
        positions = np.array([place if place < younger else place - younger for _, place in options], np.uint64)
        ages = np.array([place for _, place in options])
        similarity = self.similarity(np.uint64(at), positions, pool)
        good = np.flatnonzero(similarity >= 0)
        if not len(good):
            return Decision(None, None, 0.0, len(options))
        best = good[np.lexsort((ages[good], -similarity[good]))[0]]
        place = int(ages[best])
        if place >= younger:
            return Decision(None, place - younger, float(similarity[best]), len(options))
        entry = pool.entries[place - len(prepared.digests)]
        return Decision(entry, None, float(similarity[best]), len(options))

    def _fits(self, prepared: Prepared, at: int, other: int) -> bool:
        """The length filter, within a batch."""
        if not self.sets:
            return True
        a, b = int(prepared.payload.sizes[at]), int(prepared.payload.sizes[other])
        return b >= np.floor(self.threshold * a) and a >= np.floor(self.threshold * b)

    def similarity(self, at: np.uint64, positions: np.ndarray, pool: Pool) -> np.ndarray:
        """Exact similarity with each position, float64; −1 where the estimate, or it, stays below what is asked."""
        out = np.full(len(positions), -1.0)
        pairs = pack_pairs(np.asarray(at), positions)
        agreeing = np.empty(len(pairs), np.int64)
        pair_agreements(pairs, pool.signatures, self._kind, agreeing)
        passed = np.flatnonzero(agreeing >= self.margin)
        if len(passed):
            scored = self.measure.compare(pairs[passed], pool.stored)
            reached = scored.meets_threshold(self.threshold)
            out[passed[reached]] = scored.similarity[reached]
            self.observed.verified(len(passed), int(np.count_nonzero(reached)))
        return out


def _shared_keys(keys: np.ndarray, empty: np.ndarray) -> list[list[int]]:
    """For each document of a batch, those of its keys that another one has, too."""
    n = len(keys)
    if n == 1:
        return [[]]
    flat = keys.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    same = np.zeros(len(flat), bool)
    again = ordered[1:] == ordered[:-1]
    same[order[1:][again]] = True
    same[order[:-1][again]] = True
    same = same.reshape(keys.shape) & ~empty[:, None]
    return [keys[at][same[at]].tolist() if any_ else [] for at, any_ in enumerate(same.any(axis=1).tolist())]
