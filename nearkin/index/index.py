"""The online index: is this a near-duplicate of anything seen?

A document is looked for in layers: its own record, the resolutions used last (memory), those of the store, and then a search:
signature, buckets of representatives, candidates by shared bands, length filter, estimate with margin, exact comparison.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from threading import RLock
from typing import Any, NamedTuple, Self

import numpy as np

from nearkin.engine.settings import Settings
from nearkin.errors import IncompatibleError, RacedError, UsageError
from nearkin.evaluate.explain import Explanation, explain
from nearkin.index.cache import Resolution, ResolvedCache
from nearkin.index.entry import MEMBER, MOST_SIZE, REF_SHIFT, Changes, Cluster, Entry, Event, Match, Outcome, Written
from nearkin.index.preparing import Document, Prepared, Preparer, default_id
from nearkin.index.settings import IndexSettings
from nearkin.index.store import Store
from nearkin.index.stores.urls import open_store
from nearkin.lsh.kernels import pair_agreements
from nearkin.measures import Measure, Request, measure_of
from nearkin.measures.base import Payload, Stored
from nearkin.sketch.materials import NOTHING, Materials
from nearkin.spec import Spec

FORMAT = 1
STRIPES = 64
TRIES = 8
FRESH = 0.01
"""Of a time to live: a hit within so much of the last one writes nothing."""
DEFAULT_THRESHOLD = 0.8


class _Ranked(NamedTuple):
    """Stored documents that share buckets with documents of a batch, those of one document together, best first."""

    documents: np.ndarray
    words: np.ndarray
    shared: np.ndarray
    crowded: bool
    """Whether the batch could overflow a bucket."""


class _Decision(NamedTuple):
    """Where a document of a batch belongs: to a stored representative, to one of the same batch, or nowhere yet."""

    entry: Entry | None
    position: int | None
    similarity: float
    compared: int


class _Pool(NamedTuple):
    """A batch and the stored documents it may resemble, for comparing by position: the batch first."""

    signatures: np.ndarray
    stored: Stored
    entries: list[Entry]
    at: dict[int, int]
    """Position of a stored document, by its number."""


class _Known(NamedTuple):
    """What is known of a document before any search."""

    resolution: Resolution | None
    layer: str
    entry: Entry | None
    """Of the store, if it was asked: another content under the same id, or the document itself."""


class Index:
    """Documents of many scopes, none of which sees another.

    Opened with `Index.open`; a context manager; safe for threads, and for processes over a shared store.

    Examples:
        >>> index = Index.open("memory://", threshold=0.5)
        >>> index.upsert("tenant-a", "the cat sat on the mat", id="one").kind
        'new'
        >>> outcome = index.upsert("tenant-a", "the cat sat on the mat today", id="two")
        >>> outcome.kind, outcome.representative, outcome.similarity
        ('match', 'one', 0.8)
        >>> index.upsert("tenant-b", "the cat sat on the mat").kind
        'new'
    """

    def __init__(self, store: Store, settings: IndexSettings, materials: Materials, clock: Callable[[], float]) -> None:
        self.store = store
        self.clock = clock
        header = store.claim(_header(settings))
        self.settings = _of_header(header, settings, store.url)
        assert self.settings.spec is not None
        assert self.settings.threshold is not None
        self.spec: Spec = self.settings.spec
        self.threshold: float = self.settings.threshold
        self.materials = materials
        self.measure: Measure = measure_of(self.spec, materials)
        chosen = self.settings
        self.banding = self.measure.banding(
            Request(self.threshold, chosen.recall, chosen.bands, chosen.rows, 1, chosen.probes, chosen.documents)
        )
        salt = f"{self.spec.fingerprint}:{self.banding.bands}:{self.banding.rows}:{self.banding.probes}"
        self.preparer = Preparer(self.measure, self.banding, materials, salt.encode(), chosen.max_document)
        self._form = self.measure.form(self.banding, np.empty((0, 0), np.uint64) if self.spec.truncated else None)
        self._cache = ResolvedCache(chosen.cache)
        self._locks = [RLock() for _ in range(STRIPES)]
        self.evicted_cold = 0

    @classmethod
    def open(
        cls,
        url: str | Sequence[str],
        spec: Spec | None = None,
        threshold: float | None = None,
        *,
        settings: IndexSettings | None = None,
        materials: Materials = NOTHING,
        clock: Callable[[], float] = time.time,
        **fields: Any,
    ) -> Self:
        """Opens an index, or makes one where there is none.

        Args:
            url: `memory://`, `sqlite:///file.db`, `redis://…`, `postgresql://…`, `aerospike://…`; a list shards over several.
            spec: How documents become signatures; an existing index's by default.
            threshold: Similarity from which a document is resolved to another; an existing index's, or 0.8.
            settings: Further parameters.
            materials: The key and the tables that the Spec names.
            clock: Seconds; for times to live and windows.
            **fields: Fields of IndexSettings, in place of `settings`'.

        Raises:
            IncompatibleError: The index was made with another Spec or threshold.
            StoreError: The store is not there.
        """
        try:
            asked = replace(settings or IndexSettings(), **fields)
        except TypeError as error:
            raise UsageError(
                f"{error}; the settings of an index are {', '.join(IndexSettings.__dataclass_fields__)}"
            ) from error
        asked = replace(asked, spec=spec or asked.spec, threshold=threshold if threshold is not None else asked.threshold)
        return cls(open_store(url, asked), asked, materials, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives back what the store holds."""
        self.store.close()

    # -- upsert

    def upsert(self, scope: str, document: Document, id: str | None = None) -> Outcome:
        """Puts a document where it belongs: to the representative that it resembles, or in a cluster of its own.

        Args:
            scope: Tenant or group.
            document: A text, or a vector.
            id: Of the document; by default one of its content. Another content under a known id is an update.
        """
        return self.upsert_many(scope, [document], None if id is None else [id])[0]

    def upsert_many(self, scope: str, documents: Sequence[Document], ids: Sequence[str | None] | None = None) -> list[Outcome]:
        """As `upsert` for each, in order, with a few round trips for all of them.

        Raises:
            UsageError: A document is of the wrong kind or too large, or there are too many; nothing was written.
            StoreError: The store failed; nothing was written.
        """
        if len(documents) > self.settings.max_batch:
            raise UsageError(f"a batch of {len(documents):,} documents is larger than max_batch={self.settings.max_batch:,}")
        if ids is not None and len(ids) != len(documents):
            raise UsageError(f"{len(ids)} ids for {len(documents)} documents")
        began = time.perf_counter()
        checked = [self.preparer.check(document) for document in documents]
        digests = [self.preparer.digest(document) for document in checked]
        given = ids or [None] * len(checked)
        names = [default_id(digests[i]) if name is None else _checked_id(name) for i, name in enumerate(given)]
        with self._locked(scope):
            for _ in range(TRIES):
                try:
                    return self._upsert(_checked_scope(scope), checked, digests, names, began)
                except RacedError as error:
                    raced = error
                    self._cache.clear()
            raise raced

    def _upsert(
        self, scope: str, documents: "list[str | np.ndarray]", digests: list[bytes], names: list[str], began: float
    ) -> list[Outcome]:
        known = self._known(scope, digests, names)
        updates = [one.entry is not None and one.resolution is None for one in known]
        if len(names) > 1 and (any(updates) or len(set(names)) < len(names)):
            return self._one_by_one(scope, documents, digests, names)
        rest = [i for i, one in enumerate(known) if one.resolution is None]
        looked, now, changes = time.perf_counter(), self.clock(), Changes()
        self._refresh(scope, known, changes, now)
        decisions: list[_Decision] = []
        if rest:
            prepared = self.preparer.prepare(scope, [documents[i] for i in rest], [digests[i] for i in rest])
            gone = next((one.entry for one in known if one.entry is not None and one.resolution is None), None)
            if gone is not None:
                self._take_out(gone, changes, now)
            found = self._decide(prepared, frozenset() if gone is None else frozenset((gone.ref,)), changes)
            if found is None:
                return self._one_by_one(scope, documents, digests, names)
            decisions = found
            self._add(scope, [documents[i] for i in rest], [names[i] for i in rest], prepared, decisions, changes, now)
        searched = time.perf_counter()
        if changes:
            self.store.apply(changes)
        self._evict_cold()
        spent = {"look_up": looked - began, "search": searched - looked, "write": time.perf_counter() - searched}
        seconds = {name: value / max(len(names), 1) for name, value in spent.items()}
        return self._outcomes(scope, names, known, rest, decisions, changes, seconds)

    def _one_by_one(
        self, scope: str, documents: "list[str | np.ndarray]", digests: list[bytes], names: list[str]
    ) -> list[Outcome]:
        """For batches whose documents change what later ones find in other ways than by being new."""
        rows = zip(documents, digests, names, strict=True)
        return [self._upsert(scope, [d], [g], [n], time.perf_counter())[0] for d, g, n in rows]

    def _known(self, scope: str, digests: list[bytes], names: list[str]) -> list[_Known]:
        """The first three layers, for a batch with one look into the store."""
        cached = [self._cache.get(scope, name) for name in names]
        fresh = [hit is not None and hit.digest == digests[i] for i, hit in enumerate(cached)]
        asked = [i for i, hit in enumerate(fresh) if not hit]
        held = dict(zip(asked, self.store.entries(scope, [names[i] for i in asked]), strict=True)) if asked else {}
        return [_Known(cached[i], "memory", None) if fresh[i] else self._stored(held[i], digests[i]) for i in range(len(names))]

    def _stored(self, entry: Entry | None, digest: bytes) -> _Known:
        if entry is None or entry.digest != digest:
            return _Known(None, "search", entry)
        resolution = Resolution(digest, entry.leader, entry.cluster, entry.similarity)
        return _Known(resolution, "record" if entry.is_leader else "store", entry)

    def _refresh(self, scope: str, known: list[_Known], changes: Changes, now: float) -> None:
        """A hit keeps a document and its representative alive, where they have a time to live."""
        times = [ttl for ttl in (self.settings.record_ttl, self.settings.bucket_ttl, self.settings.window) if ttl is not None]
        hits = [one for one in known if one.resolution is not None]
        if not times or not hits:
            return
        leaders = {one.resolution.leader for one in hits if one.resolution is not None}
        own = {one.entry.id: one.entry for one in hits if one.entry is not None}
        missing = sorted(leaders - set(own))
        own |= {entry.id: entry for entry in self.store.entries(scope, missing) if entry is not None}
        least = now - FRESH * min(times)
        changes.changed += [entry._replace(seen=now) for entry in own.values() if entry.seen < least]

    def _outcomes(
        self,
        scope: str,
        names: list[str],
        known: list[_Known],
        rest: list[int],
        decisions: list[_Decision],
        changes: Changes,
        seconds: dict[str, float],
    ) -> list[Outcome]:
        outcomes = []
        written = {entry.id: entry for entry, _ in changes.new}
        searched = dict(zip(rest, decisions, strict=True))
        for i, (name, one) in enumerate(zip(names, known, strict=True)):
            if one.resolution is not None:
                leader, similarity = one.resolution.leader, one.resolution.similarity
                kind = "exact" if leader == name else "resolved"
                outcomes.append(Outcome(kind, one.layer, name, one.resolution.cluster, leader, similarity, 0, seconds))
                self._cache.put(scope, name, one.resolution)
                continue
            entry, compared = written[name], searched[i].compared
            kind = "updated" if one.entry is not None else "new" if entry.is_leader else "match"
            outcomes.append(Outcome(kind, "search", name, entry.cluster, entry.leader, entry.similarity, compared, seconds))
            self._cache.put(scope, name, Resolution(entry.digest, entry.leader, entry.cluster, entry.similarity))
        return outcomes

    def _add(
        self,
        scope: str,
        documents: "list[str | np.ndarray]",
        names: list[str],
        prepared: Prepared,
        decisions: list[_Decision],
        changes: Changes,
        now: float,
    ) -> None:
        """New entries by what was decided; those that are posted with their keys."""
        starts, every = _starts(prepared.payload), self.settings.postings == "all"
        refreshed = {entry.id for entry in changes.changed}
        times = (self.settings.record_ttl, self.settings.bucket_ttl, self.settings.window)
        least = now - FRESH * min((ttl for ttl in times if ttl is not None), default=np.inf)
        for at, (document, name, decision) in enumerate(zip(documents, names, decisions, strict=True)):
            leader, cluster, similarity = name, name, 1.0
            if decision.entry is not None:
                leader, cluster, similarity = decision.entry.id, decision.entry.cluster, decision.similarity
                changes.needs.append(decision.entry)
                if decision.entry.seen < least and leader not in refreshed:
                    refreshed.add(leader)
                    changes.changed.append(decision.entry._replace(seen=now))
            elif decision.position is not None:
                leader = cluster = names[decision.position]
                similarity = decision.similarity
            posted = (leader == name or every) and not prepared.empty[at]
            text = document if isinstance(document, str) and self.settings.store_text else None
            payload = b"" if text is not None else self.preparer.packed_payload(prepared.payload, starts, at)
            signature = prepared.signatures[at].tobytes() if posted else b""
            size = 0 if self.preparer.vectors else int(prepared.payload.sizes[at])
            entry = Entry(
                scope,
                name,
                0,
                prepared.digests[at],
                leader,
                cluster,
                similarity,
                size,
                now,
                now,
                posted,
                signature,
                text,
                payload,
            )
            changes.new.append(Written(entry, prepared.keys[at] if posted else None))

    # -- search

    def _decide(self, prepared: Prepared, without: frozenset[int], changes: Changes) -> list[_Decision] | None:
        """Where each document of a batch belongs, as if they came one by one; None if that is the only way to tell."""
        n = len(prepared.digests)
        ranked = self._ranked(prepared, leaders=True, without=without)
        changes.crowded |= ranked.crowded
        if ranked.crowded and n > 1:
            return None
        pool = self._pool(prepared, ranked)
        bounds = np.searchsorted(ranked.documents, np.arange(n + 1)).tolist()
        twice = _shared_keys(prepared.keys, prepared.empty)
        buckets: dict[int, list[int]] = {}
        decisions: list[_Decision] = []
        for at in range(n):
            mine, own = twice[at], slice(bounds[at], bounds[at + 1])
            best: _Decision = NOWHERE
            if own.start < own.stop or any(key in buckets for key in mine):
                best = self._best(at, own, mine, buckets, ranked, pool, prepared)
            decisions.append(best)
            if best.entry is None and best.position is None:
                for key in mine:
                    buckets.setdefault(key, []).append(at)
        return decisions

    def _ranked(self, prepared: Prepared, leaders: bool, without: frozenset[int] = frozenset()) -> _Ranked:
        """The stored documents in each one's buckets: by shared bands, then by age; too long or short ones left out."""
        n, per = prepared.keys.shape
        found = self.store.postings(prepared.keys.reshape(-1))
        sizes = np.diff(found.offsets)
        crowded = bool(len(sizes)) and int(sizes.max()) + n > self.settings.max_bucket
        if not len(found.words):
            return _Ranked(*NONE_RANKED, crowded)
        documents = np.repeat(np.arange(n).repeat(per), sizes)
        words = found.words
        keep = ~prepared.empty[documents]
        if leaders:
            keep &= (words & MEMBER) == 0
        if without:
            keep &= ~np.isin(words >> REF_SHIFT, list(without))
        if self.spec.measure == "jaccard" and len(words):
            own, other = prepared.payload.sizes[documents], words & MOST_SIZE
            fits = (other >= np.floor(self.threshold * own)) & (own >= np.floor(self.threshold * other))
            keep &= fits | (other == MOST_SIZE)
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
        return _Ranked(documents[keep], words[keep], shared[keep], crowded)

    def _pool(self, prepared: Prepared, ranked: _Ranked) -> _Pool:
        """The candidates, fetched at once, behind the batch."""
        refs = np.unique(ranked.words >> REF_SHIFT).tolist() if len(ranked.words) else []
        entries = [entry for entry in self.store.by_refs(refs) if entry is not None] if refs else []
        now = self.clock()
        alive = [entry for entry in entries if self._is_alive(entry, now)]
        payload, signatures = prepared.payload, prepared.signatures
        if alive:
            payload = _joined(payload, self.preparer.payload_of(alive))
            signatures = np.concatenate([signatures, self.preparer.signatures_of(alive)])
        n = len(prepared.digests)
        places = np.arange(n + len(alive), dtype=np.uint32)
        stored = Stored(places, _starts(payload), payload.columns)
        return _Pool(signatures, stored, alive, {entry.ref: n + at for at, entry in enumerate(alive)})

    def _is_alive(self, entry: Entry, now: float) -> bool:
        """Whether its bucket's time, its record's and the window still hold."""
        times = (self.settings.bucket_ttl, self.settings.record_ttl, self.settings.window)
        return all(ttl is None or entry.seen >= now - ttl for ttl in times)

    def _best(
        self,
        at: int,
        candidates: slice,
        mine: list[int],
        buckets: dict[int, list[int]],
        ranked: _Ranked,
        pool: _Pool,
        prepared: Prepared,
    ) -> _Decision:
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
        similarity = self._similarity(np.uint64(at), positions, pool)
        good = np.flatnonzero(similarity >= 0)
        if not len(good):
            return _Decision(None, None, 0.0, len(options))
        best = good[np.lexsort((ages[good], -similarity[good]))[0]]
        place = int(ages[best])
        if place >= younger:
            return _Decision(None, place - younger, float(similarity[best]), len(options))
        entry = pool.entries[place - len(prepared.digests)]
        return _Decision(entry, None, float(similarity[best]), len(options))

    def _fits(self, prepared: Prepared, at: int, other: int) -> bool:
        """The length filter, within a batch."""
        if self.spec.measure != "jaccard":
            return True
        a, b = int(prepared.payload.sizes[at]), int(prepared.payload.sizes[other])
        return b >= np.floor(self.threshold * a) and a >= np.floor(self.threshold * b)

    def _similarity(self, at: np.uint64, positions: np.ndarray, pool: _Pool, threshold: bool = True) -> np.ndarray:
        """Exact similarity with each position, float64; −1 where the estimate, or it, stays below what is asked."""
        out = np.full(len(positions), -1.0)
        pairs = (np.minimum(at, positions) << np.uint64(32)) | np.maximum(at, positions)
        agreeing = np.empty(len(pairs), np.int64)
        pair_agreements(pairs, pool.signatures, self._form.kind, agreeing)
        passed = np.flatnonzero(agreeing >= self.banding.margin)
        if len(passed):
            scored = self.measure.compare(pairs[passed], pool.stored)
            reached = scored.at_least(self.threshold)
            out[passed[reached]] = scored.similarity[reached]
        return out

    def query(self, scope: str, document: Document, top: int = 10) -> list[Match]:
        """Stored documents at or above the threshold, most similar first: representatives, or any where all are posted.

        Nothing is written.
        """
        checked = self.preparer.check(document)
        prepared = self.preparer.prepare(_checked_scope(scope), [checked], [self.preparer.digest(checked)])
        if prepared.empty[0]:
            return []
        ranked = self._ranked(prepared, leaders=self.settings.postings == "leaders")
        pool = self._pool(prepared, ranked)
        found = []
        shared = dict(zip((ranked.words >> REF_SHIFT).tolist(), ranked.shared.tolist(), strict=True))
        positions = np.arange(1, 1 + len(pool.entries), dtype=np.uint64)
        for entry, similarity in zip(pool.entries, self._similarity(np.uint64(0), positions, pool).tolist(), strict=True):
            if similarity >= 0:
                found.append(Match(entry.id, entry.cluster, similarity, int(shared[entry.ref])))
        return sorted(found, key=lambda match: (-match.similarity, match.id))[:top]

    # -- what is there

    def get(self, scope: str, id: str) -> Entry | None:
        """A document's entry, if it is there."""
        return self.store.entries(scope, [id])[0]

    def cluster(self, scope: str, id: str) -> Cluster | None:
        """The cluster of a document."""
        entry = self.get(scope, id)
        if entry is None:
            return None
        members = ((one.id, one.similarity) for one in self.store.members(scope, entry.leader))
        return Cluster(entry.cluster, entry.leader, ((entry.leader, 1.0), *members))

    def explain(self, scope: str, a: str, b: str) -> Explanation:
        """Why two stored documents were matched, or were not.

        Raises:
            UsageError: One of them is not there, or its text was not kept.
        """
        texts = []
        for name in (a, b):
            entry = self.get(scope, name)
            if entry is None:
                raise UsageError(f"the index has no document {name!r} in this scope")
            if entry.text is None:
                raise UsageError(f"the text of {name!r} was not kept; there are no words to explain")
            texts.append(entry.text)
        bands, rows, probes = self.banding.bands, self.banding.rows, self.banding.probes
        asked = (self.threshold, None, self.settings.recall, bands, rows, 1, probes)
        settings = Settings(self.spec, *asked)
        return explain(texts[0], texts[1], settings=settings, materials=self.materials, names=(a, b))

    def stats(self) -> dict[str, Any]:
        """Counts of the store, of the cache, and what the index is."""
        return {
            **self.store.counts(),
            "cached": len(self._cache),
            "threshold": self.threshold,
            "bands": self.banding.bands,
            "rows": self.banding.rows,
            "spec_fingerprint": self.spec.fingerprint,
            "url": self.store.url,
        }

    # -- what goes

    def remove(self, scope: str, id: str) -> bool:
        """Erases a document; if it stood for others, they elect another representative. Says whether it was there."""
        with self._locked(scope):
            for _ in range(TRIES):
                entry = self.get(scope, id)
                if entry is None:
                    return False
                changes, now = Changes(), self.clock()
                self._take_out(entry, changes, now)
                changes.events.append(Event("erased", scope, id, "", now))
                try:
                    self.store.apply(changes)
                except RacedError as error:
                    raced = error
                    continue
                self._cache.forget(scope, id)
                for moved in (*changes.changed, *(written.entry for written in changes.posted)):
                    self._cache.forget(scope, moved.id)
                return True
            raise raced

    def _take_out(self, entry: Entry, changes: Changes, now: float) -> None:
        """The steps by which a document goes, and those that it stood for find another representative."""
        keys = self.preparer.keys_of(entry.scope, [entry])[0] if entry.posted else None
        changes.dropped.append(Written(entry, keys))
        members = self.store.members(entry.scope, entry.id) if entry.is_leader else []
        if members:
            self._settle(entry, members, changes, now)

    def _settle(self, gone: Entry, members: list[Entry], changes: Changes, now: float) -> None:
        """Documents whose representative goes are searched for anew, in the order of their numbers, and verified again."""
        scope, every = gone.scope, self.settings.postings == "all"
        prepared = self.preparer.restored(scope, members)
        decisions = self._decide(prepared, frozenset((gone.ref, *(member.ref for member in members))), changes)
        if decisions is None:
            decisions = [self._decide(_row(prepared, at), frozenset((gone.ref,)), changes)[0] for at in range(len(members))]  # type: ignore[index]
        heir: int | None = None
        clusters: dict[int, str] = {}
        for at, (member, decision) in enumerate(zip(members, decisions, strict=True)):
            if decision.entry is not None:
                found = decision.entry
                changes.needs.append(found)
                moved = member._replace(leader=found.id, cluster=found.cluster, similarity=decision.similarity)
            elif decision.position is not None:
                head = members[decision.position]
                moved = member._replace(leader=head.id, cluster=clusters[decision.position], similarity=decision.similarity)
            else:
                # the cluster keeps its id with the first that stands for itself
                clusters[at] = gone.cluster if heir is None else member.id
                heir = at if heir is None else heir
                moved = member._replace(leader=member.id, cluster=clusters[at], similarity=1.0)
            posted = (moved.is_leader or every) and not prepared.empty[at]
            moved = moved._replace(posted=posted, signature=prepared.signatures[at].tobytes() if posted else b"")
            changes.changed.append(moved)
            if posted:
                changes.posted.append(Written(moved, prepared.keys[at]))

    def expire(self) -> dict[str, int]:
        """Takes out documents and postings whose time is over; returns how many of each."""
        now, gone = self.clock(), {"records": 0, "postings": 0}
        if self.settings.bucket_ttl is not None:
            for batch in _batches(self.store.due(now - self.settings.bucket_ttl, posted=True)):
                self._unpost(batch)
                gone["postings"] += len(batch)
        if self.settings.record_ttl is not None:
            due = list(self.store.due(now - self.settings.record_ttl, posted=False))
            for entry in sorted(due, key=lambda entry: entry.is_leader):
                changes = Changes()
                held = self.get(entry.scope, entry.id)
                if held is None or held.seen >= now - self.settings.record_ttl:
                    continue
                if held.is_leader and self.store.members(held.scope, held.id):
                    # it stays for as long as others are resolved to it
                    continue
                keys = self.preparer.keys_of(held.scope, [held])[0] if held.posted else None
                changes.dropped.append(Written(held, keys))
                self._apply_quietly(changes)
                self._cache.forget(held.scope, held.id)
                gone["records"] += 1
        return gone

    def _unpost(self, entries: list[Entry]) -> None:
        """Out of their buckets: they stay, but nothing new is resolved to them."""
        changes = Changes()
        for scope, batch in _by_scope(entries):
            keys = self.preparer.keys_of(scope, batch)
            changes.unposted += [Written(entry, keys[at]) for at, entry in enumerate(batch)]
            changes.changed += [entry._replace(posted=False) for entry in batch]
        self._apply_quietly(changes)

    def _apply_quietly(self, changes: Changes) -> None:
        """What another process has changed meanwhile is left to the next time."""
        try:
            self.store.apply(changes)
        except RacedError:
            return

    def _evict_cold(self) -> None:
        """Where memory is bounded, the postings that were not used for longest go."""
        most = self.settings.max_memory
        if most is None or (counts := self.store.counts())["bytes"] <= most:
            return
        cold = islice(self.store.due(np.inf, posted=True), max(1, counts["leaders"] // 10))
        self._unpost(list(cold))
        self.evicted_cold += 1

    def scopes(self) -> list[str]:
        """The scopes that have documents."""
        return sorted({entry.scope for entry in self.store.scan()})

    @contextmanager
    def _locked(self, scope: str) -> Iterator[None]:
        """One writer of a scope at a time, within this process."""
        with self._locks[int.from_bytes(hashlib.sha256(scope.encode()).digest()[:2], "little") % STRIPES]:
            yield


NOWHERE = _Decision(None, None, 0.0, 0)
NONE_RANKED = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


def _starts(payload: Payload) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(payload.sizes)]).astype(np.int64)


def _joined(a: Payload, b: Payload) -> Payload:
    columns = tuple(np.concatenate(pair) for pair in zip(a.columns, b.columns, strict=True))
    return Payload(np.concatenate([a.sizes, b.sizes]), columns)


def _row(prepared: Prepared, at: int) -> Prepared:
    """One document of several."""
    starts, one = _starts(prepared.payload), slice(at, at + 1)
    columns = tuple(column[starts[at] : starts[at + 1]] for column in prepared.payload.columns)
    payload = Payload(prepared.payload.sizes[one], columns)
    return Prepared(prepared.digests[one], prepared.signatures[one], prepared.keys[one], payload, prepared.empty[one])


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


def _batches(entries: Iterator[Entry], size: int = 1000) -> Iterator[list[Entry]]:
    every = list(entries)
    for start in range(0, len(every), size):
        yield every[start : start + size]


def _by_scope(entries: list[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    for scope in dict.fromkeys(entry.scope for entry in entries):
        yield scope, [entry for entry in entries if entry.scope == scope]


MOST_NAME = 1024
KEPT = ("threshold", "recall", "bands", "rows", "probes", "documents", "postings", "store_text")
"""Settings that an index is made with, beside its Spec."""


def _checked_id(name: str) -> str:
    if not isinstance(name, str) or not 0 < len(name.encode("utf-8", "surrogatepass")) <= MOST_NAME or "\0" in name:
        raise UsageError(f"id {str(name)[:60]!r} is no text of 1 to {MOST_NAME} bytes without NUL")
    return name


def _checked_scope(scope: str) -> str:
    if not isinstance(scope, str) or len(scope.encode("utf-8", "surrogatepass")) > MOST_NAME or "\0" in scope:
        raise UsageError(f"scope {str(scope)[:60]!r} is no text of at most {MOST_NAME} bytes without NUL")
    return scope


def _header(settings: IndexSettings) -> dict[str, Any]:
    """What an index is made with."""
    spec = settings.spec or Spec()
    threshold = DEFAULT_THRESHOLD if settings.threshold is None else settings.threshold
    given = asdict(settings)
    kept = {name: given[name] for name in KEPT}
    return {"format": FORMAT, "spec": json.loads(spec.to_json()), **kept, "threshold": threshold}


def _of_header(header: dict[str, Any], asked: IndexSettings, url: str) -> IndexSettings:
    """An existing index' settings, which win over defaults; what was asked for and is another is an error."""
    if header["format"] != FORMAT:
        raise IncompatibleError(f"{url} has index format {header['format']}, this nearkin reads {FORMAT}")
    spec = Spec.from_json(json.dumps(header["spec"]))
    if asked.spec is not None:
        asked.spec.require(spec, f"the index {url}")
    default = IndexSettings()
    kept = {name: header[name] for name in KEPT}
    for name, value in kept.items():
        given = getattr(asked, name)
        if given != getattr(default, name) and given != value:
            raise IncompatibleError(
                f"the index {url} was made with {name}={value!r}, this asks for {given!r}: leave it out, or rebuild the index"
            )
    return replace(asked, spec=spec, **kept)
