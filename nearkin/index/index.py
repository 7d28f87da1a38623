"""The online index: is this a near-duplicate of anything seen?

A document is looked for in layers: its own record, the resolutions used last (memory), those of the store, and then a search:
signature, buckets of representatives, candidates by shared bands, length filter, estimate with margin, exact comparison.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Self

import numpy as np

from nearkin.engine.settings import Settings
from nearkin.errors import IncompatibleError, RacedError, UsageError
from nearkin.evaluate.explain import Explanation, explain
from nearkin.index.cache import Resolution, ResolvedCache
from nearkin.index.entry import REF_SHIFT, Changes, Cluster, Entry, Event, Match, Outcome, Written, batches
from nearkin.index.making import Maker
from nearkin.index.preparing import Document, Prepared, Preparer, default_id
from nearkin.index.searching import Decision, Searcher
from nearkin.index.settings import IndexSettings
from nearkin.index.store import Store
from nearkin.index.stores.urls import open_store
from nearkin.measures import Measure, Request, measure_of
from nearkin.measures.base import stored_of
from nearkin.sketch.materials import NOTHING, Materials
from nearkin.spec import Spec

FORMAT = 1
STRIPES = 64
TRIES = 8
FRESH = 0.01
"""Of a time to live: a hit within so much of the last one writes nothing."""
DEFAULT_THRESHOLD = 0.8


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

    def __init__(
        self,
        store: Store,
        settings: IndexSettings,
        materials: Materials,
        clock: Callable[[], float],
        tables: Path | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        header = store.claim(_header(settings))
        self.settings = _of_header(header, settings, store.url)
        assert self.settings.spec is not None
        assert self.settings.threshold is not None
        self.spec: Spec = self.settings.spec
        self.threshold: float = self.settings.threshold
        self.materials = materials if tables is None else Materials.read(tables, self.spec, materials.secret)
        self.measure: Measure = measure_of(self.spec, self.materials)
        chosen = self.settings
        self.banding = self.measure.banding(
            Request(self.threshold, chosen.recall, chosen.bands, chosen.rows, 1, chosen.probes, chosen.documents)
        )
        salt = f"{self.spec.fingerprint}:{self.banding.bands}:{self.banding.rows}:{self.banding.probes}"
        self.preparer = Preparer(self.measure, self.banding, self.materials, salt.encode(), chosen.max_document)
        self.searcher = Searcher(store, self.settings, self.preparer, clock)
        self._cache = ResolvedCache(chosen.cache)
        self._locks = [RLock() for _ in range(STRIPES)]
        self._evicted_cold = 0

    @classmethod
    def open(
        cls,
        url: str | Sequence[str],
        spec: Spec | None = None,
        threshold: float | None = None,
        *,
        settings: IndexSettings | None = None,
        materials: Materials = NOTHING,
        tables: str | Path | None = None,
        clock: Callable[[], float] = time.time,
        **fields: Any,
    ) -> Self:
        """Opens an index, or makes one where there is none.

        Args:
            url: `memory://`, `sqlite:///file.db`, `redis://…`, `postgresql://…`; a list shards over several.
            spec: How documents become signatures; an existing index's by default.
            threshold: Similarity from which a document is resolved to another; an existing index's, or 0.8.
            settings: Further parameters.
            materials: The key and the tables that the Spec names.
            tables: A run's folder to read those tables from (a frequency cut, document frequencies), whatever the Spec is.
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
        return cls(open_store(url, asked), asked, materials, clock, None if tables is None else Path(tables))

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
        names = [default_id(digests[i]) if name is None else _checked(name, "id", 1) for i, name in enumerate(given)]
        with self._locked(scope):
            for _ in range(TRIES):
                try:
                    return self._upsert(scope, checked, digests, names, began)
                except RacedError as error:
                    raced = error
                    self._cache.clear()
            raise raced

    def _upsert(
        self, scope: str, documents: "list[str | np.ndarray]", digests: list[bytes], names: list[str], began: float
    ) -> list[Outcome]:
        if len(set(names)) < len(names):
            return self._with_repeats(scope, documents, digests, names, began)
        known = self._known(scope, digests, names)
        if len(names) > 1 and any(one.entry is not None and one.resolution is None for one in known):
            return self._one_by_one(scope, documents, digests, names)
        rest = [i for i, one in enumerate(known) if one.resolution is None]
        looked, now, changes = time.perf_counter(), self.clock(), Changes()
        self._refresh(scope, known, changes, now)
        decisions: list[Decision] = []
        if rest:
            prepared = self.preparer.prepare(scope, [documents[i] for i in rest], [digests[i] for i in rest])
            gone = next((one.entry for one in known if one.entry is not None and one.resolution is None), None)
            if gone is not None:
                self._take_out(gone, changes, now)
            without = frozenset() if gone is None else frozenset((gone.ref,))
            decisions = self.searcher.decide(prepared, without, changes)
            if changes.crowded and len(names) > 1:
                return self._one_by_one(scope, documents, digests, names)
            self._add(scope, [documents[i] for i in rest], [names[i] for i in rest], prepared, decisions, changes, now)
        searched = time.perf_counter()
        if changes:
            self._apply(changes)
        self._evict_cold()
        spent = {"look_up": looked - began, "search": searched - looked, "write": time.perf_counter() - searched}
        seconds = {name: value / max(len(names), 1) for name, value in spent.items()}
        return self._outcomes(scope, names, known, rest, decisions, changes, seconds)

    def _with_repeats(
        self, scope: str, documents: "list[str | np.ndarray]", digests: list[bytes], names: list[str], began: float
    ) -> list[Outcome]:
        """A batch that has a document more than once: the later ones find the first."""
        first: dict[str, int] = {}
        for at, name in enumerate(names):
            if digests[first.setdefault(name, at)] != digests[at]:
                return self._one_by_one(scope, documents, digests, names)
        chosen = list(first.values())
        some = ([documents[at] for at in chosen], [digests[at] for at in chosen], [names[at] for at in chosen])
        found = dict(zip(first, self._upsert(scope, *some, began), strict=True))
        return [found[name] if first[name] == at else _again(found[name]) for at, name in enumerate(names)]

    def _one_by_one(
        self, scope: str, documents: "list[str | np.ndarray]", digests: list[bytes], names: list[str]
    ) -> list[Outcome]:
        """For batches whose documents change what later ones find in other ways than by being new."""
        rows = zip(documents, digests, names, strict=True)
        return [self._upsert(scope, [d], [g], [n], time.perf_counter())[0] for d, g, n in rows]

    def _apply(self, changes: Changes) -> None:
        """One step of the store; what it changed is no longer what the cache says."""
        self.store.apply(changes)
        for entry in (*changes.changed, *(written.entry for written in changes.dropped)):
            self._cache.forget(entry.scope, entry.id)

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
        decisions: list[Decision],
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
        decisions: list[Decision],
        changes: Changes,
        now: float,
    ) -> None:
        """New entries by what was decided; those that are posted with their keys."""
        keeps_text = self.settings.store_text and not self.preparer.vectors
        every = self.settings.postings == "all"
        maker = Maker(self.preparer, scope, prepared, documents if keeps_text else None, every, now)
        refreshed = {entry.id for entry in changes.changed}
        times = (self.settings.record_ttl, self.settings.bucket_ttl, self.settings.window)
        least = now - FRESH * min((ttl for ttl in times if ttl is not None), default=np.inf)
        for at, (name, decision) in enumerate(zip(names, decisions, strict=True)):
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
            changes.new.append(maker.make(at, name, leader, cluster, similarity))

    # -- look up

    def query(self, scope: str, document: Document, top: int = 10) -> list[Match]:
        """Stored documents at or above the threshold, most similar first: representatives, or any where all are posted.

        Nothing is written.
        """
        checked = self.preparer.check(document)
        prepared = self.preparer.prepare(_checked(scope, "scope", 0), [checked], [self.preparer.digest(checked)])
        if prepared.empty[0]:
            return []
        ranked = self.searcher.ranked(prepared, leaders=self.settings.postings == "leaders")
        pool = self.searcher.pool(prepared, ranked)
        found = []
        shared = dict(zip((ranked.words >> REF_SHIFT).tolist(), ranked.shared.tolist(), strict=True))
        positions = np.arange(1, 1 + len(pool.entries), dtype=np.uint64)
        for entry, similarity in zip(
            pool.entries, self.searcher.similarity(np.uint64(0), positions, pool).tolist(), strict=True
        ):
            if similarity >= 0:
                found.append(Match(entry.id, entry.cluster, similarity, int(shared[entry.ref])))
        return sorted(found, key=lambda match: (-match.similarity, match.id))[:top]

    # -- what is there

    def get(self, scope: str, id: str) -> Entry | None:
        """A document's entry, if it is there."""
        return self.store.entries(_checked(scope, "scope", 0), [_checked(id, "id", 1)])[0]

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
            "evicted_cold": self._evicted_cold,
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
                    self._apply(changes)
                except RacedError as error:
                    raced = error
                    continue
                return True
            raise raced

    def _take_out(self, entry: Entry, changes: Changes, now: float) -> None:
        """The steps by which a document goes, and those that it stood for find another representative."""
        keys = self.preparer.keys_of(entry.scope, [entry])[0] if entry.posted else None
        changes.dropped.append(Written(entry, keys))
        members = self.store.members(entry.scope, entry.id) if entry.is_leader else []
        if members:
            self._settle(entry, members, changes, now)

    def _settle(self, gone: Entry, members: list[Entry], changes: Changes, now: float, heir: bool = True) -> None:
        """Documents whose representative goes are searched for anew, in the order of their numbers, and verified again."""
        scope, every = gone.scope, self.settings.postings == "all"
        prepared = self.preparer.restored(scope, members)
        without = frozenset((gone.ref, *(member.ref for member in members)))
        decisions = self.searcher.decide(prepared, without, changes)
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
                # a cluster whose representative goes keeps its id with the first that stands for itself
                clusters[at] = gone.cluster if heir else member.id
                heir = False
                moved = member._replace(leader=member.id, cluster=clusters[at], similarity=1.0)
            posted = (moved.is_leader or every) and not prepared.empty[at]
            moved = moved._replace(posted=posted, signature=prepared.signatures[at].tobytes() if posted else b"")
            changes.changed.append(moved)
            if posted:
                changes.posted.append(Written(moved, prepared.keys[at]))

    def merge_into_older(self, scope: str, id: str) -> int:
        """A representative that verifies with an older one goes to it, with what it stands for; returns how many moved."""
        with self._locked(scope):
            for _ in range(TRIES):
                entry = self.get(scope, id)
                if entry is None or not entry.is_leader or not entry.posted:
                    return 0
                older = self._older(entry)
                if older is None:
                    return 0
                changes = self._merging(entry, *older)
                try:
                    self._apply(changes)
                except RacedError as error:
                    raced = error
                    continue
                return len(changes.changed)
            raise raced

    def _older(self, entry: Entry) -> tuple[Entry, float] | None:
        """The most similar representative that came before, and how similar it is."""
        prepared = self.preparer.restored(entry.scope, [entry])
        ranked = self.searcher.ranked(prepared, leaders=True, without=frozenset((entry.ref,)))
        pool = self.searcher.pool(prepared, ranked)
        older = [at for at, one in enumerate(pool.entries) if one.ref < entry.ref]
        similarity = self.searcher.similarity(np.uint64(0), np.array(older, np.uint64) + np.uint64(1), pool)
        best = max(zip(similarity.tolist(), [-pool.entries[at].ref for at in older], older, strict=True), default=None)
        return None if best is None or best[0] < 0 else (pool.entries[best[2]], best[0])

    def _merging(self, entry: Entry, older: Entry, similarity: float) -> Changes:
        changes, now = Changes(), self.clock()
        changes.needs.append(older)
        changes.events.append(Event("merged", entry.scope, entry.cluster, older.cluster, now))
        keys = self.preparer.keys_of(entry.scope, [entry])[0]
        every = self.settings.postings == "all"
        moved = entry._replace(
            leader=older.id,
            cluster=older.cluster,
            similarity=similarity,
            posted=every,
            signature=entry.signature if every else b"",
        )
        changes.changed.append(moved)
        (changes.posted if every else changes.unposted).append(Written(moved if every else entry, keys))
        members = self.store.members(entry.scope, entry.id)
        if members:
            stored = stored_of(self.preparer.payload_of([older, *members]))
            scored = self.measure.compare(np.arange(1, len(members) + 1, dtype=np.uint64), stored)
            near = scored.at_least(self.threshold).tolist()
            for member, one, is_near in zip(members, scored.similarity.tolist(), near, strict=True):
                if is_near:
                    changes.changed.append(member._replace(leader=older.id, cluster=older.cluster, similarity=one))
            rest = [member for member, is_near in zip(members, near, strict=True) if not is_near]
            if rest:
                self._settle(entry, rest, changes, now, heir=False)
        return changes

    def expire(self) -> dict[str, int]:
        """Takes out documents and postings whose time is over; returns how many of each."""
        now, gone = self.clock(), {"records": 0, "postings": 0}
        if self.settings.bucket_ttl is not None:
            gone["postings"] = self._unpost(self.store.due(now - self.settings.bucket_ttl, posted=True))
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
                gone["records"] += 1
        return gone

    def _unpost(self, entries: Iterator[Entry]) -> int:
        """Out of their buckets: they stay, but nothing new is resolved to them. Returns how many there are."""
        count = 0
        for scope, batch in batches(entries):
            keys = self.preparer.keys_of(scope, batch)
            unposted = [Written(entry, keys[at]) for at, entry in enumerate(batch)]
            self._apply_quietly(Changes(unposted=unposted, changed=[entry._replace(posted=False) for entry in batch]))
            count += len(batch)
        return count

    def _apply_quietly(self, changes: Changes) -> None:
        """What another process has changed meanwhile is left to the next time."""
        try:
            self._apply(changes)
        except RacedError:
            return

    def _evict_cold(self) -> None:
        """Where memory is bounded, the documents that were not used for longest leave their buckets."""
        most = self.settings.max_memory
        if most is None or (counts := self.store.counts())["bytes"] <= most:
            return
        self._evicted_cold += self._unpost(islice(self.store.due(np.inf, posted=True), max(1, counts["leaders"] // 10)))

    def scopes(self) -> list[str]:
        """The scopes that have documents."""
        return sorted({entry.scope for entry in self.store.scan()})

    @contextmanager
    def _locked(self, scope: str) -> Iterator[None]:
        """One writer of a scope at a time, within this process."""
        with self._locks[int.from_bytes(hashlib.sha256(_checked(scope, "scope", 0).encode()).digest()[:2], "little") % STRIPES]:
            yield


def _again(outcome: Outcome) -> Outcome:
    """Of a document that came once more."""
    kind = "resolved" if outcome.duplicate else "exact"
    return replace(outcome, kind=kind, layer="memory", candidates=0)


MOST_NAME = 1024
KEPT = ("threshold", "recall", "bands", "rows", "probes", "documents", "postings", "store_text")
"""Settings that an index is made with, beside its Spec."""


def _checked(name: str, what: str, least: int) -> str:
    """A scope or an id.

    Raises:
        UsageError: It is no text, has a NUL, or is too long.
    """
    try:
        size = len(name.encode())
    except (AttributeError, UnicodeEncodeError):
        size = -1
    if not least <= size <= MOST_NAME or "\0" in name:
        raise UsageError(f"{what} {str(name)[:60]!r} is no text of {least} to {MOST_NAME} bytes without NUL")
    return name


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
