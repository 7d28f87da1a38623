"""The online index: is this a near-duplicate of anything seen?

A document is looked for in layers: its own record, the resolutions used last (memory), those of the store, and then a search:
signature, buckets of representatives, candidates by shared bands, length filter, estimate with margin, exact comparison.
"""

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import random
from threading import RLock
from typing import Any, NamedTuple, Self, TypeGuard, TypeVar
from weakref import finalize

import numpy as np

from nearkin.errors import LargeClusterError, MovedError, RacedError, StoreError, UsageError
from nearkin.index.cache import Resolution, ResolvedCache
from nearkin.index.changes import TOUCHED, Changes, Event, KeyedEntry, LeaderSnapshot
from nearkin.index.clock import TOLERANCE, ClockWatch, SystemClock
from nearkin.index.entry import (
    REF_SHIFT,
    Cluster,
    ClusterPart,
    Entry,
    Layer,
    Match,
    MemberPosition,
    Outcome,
    OutcomeKind,
    batches_by_scope,
    require_id,
    require_scope,
)
from nearkin.index.exports import write_export
from nearkin.index.making import Maker
from nearkin.index.migration.state import CLOSING, COPYING, FILLING, MOVED, Move, StoreState
from nearkin.index.opening import Opened, open_index, unasked
from nearkin.index.preparation import Checked, Document, Prepared, Preparer, default_id
from nearkin.index.scope_names import ScopeNames
from nearkin.index.search import Decision, Searcher
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.base import PORTION, Store
from nearkin.index.stores.memory import MemoryStore
from nearkin.index.stores.sharded import ShardedStore
from nearkin.index.stores.urls import recorded_url, with_passwords
from nearkin.measures import BandingRequest, Measure, measure_of
from nearkin.measures.base import as_stored
from nearkin.measures.explanation import Explanation, explain_pair
from nearkin.runtime.metrics import QualityMetrics
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.spec import Spec

R = TypeVar("R")
STRIPES = 64
EXPLAINED_DOCUMENTS = 1_000_000
"""The number of documents that an explanation assumes the bands of sign signatures to be solved for."""
TRIES = 8
"""Attempts of a step that meets moves of the index, or representatives with too many members."""
RACE_TIME = 15.0
"""Seconds for which a step that meets others is tried again, before its caller is told (RacedError)."""
INTERVAL = 5.0
"""Seconds of the clock after which a store is asked for news again."""
CLOSED, PAUSE = 30.0, 0.02
"""Seconds that a writer waits for a cut-over to end, and between looks."""
REASSIGNED = 256
"""Members of a representative that find another one in one step. Of more, portions go first, each in a step of its own, between
which other requests pass: the representative stays until its last portion."""
AT_ONCE = 200
"""Documents that leave their buckets in one step, when their time is over."""
RACE_PAUSE = 0.005
"""Seconds that a step which met another one waits at most before it is tried again; twice as long each time, up to a bound."""
LONGEST_PAUSE = 0.25
FRESH = 0.01
"""Of a time to live: a hit within so much of the last one writes nothing."""


class _Known(NamedTuple):
    """What is known of a document before any search."""

    resolution: Resolution | None
    layer: Layer
    entry: Entry | None
    """Of the store, if it was asked: another content under the same id, or the document itself."""


class Index:
    """Documents of many scopes, none of which sees another.

    Opened with `Index.open`; a context manager; safe for threads, and for processes over a shared store.

    Examples:
        >>> index = Index.open("memory://", threshold=0.5)
        >>> index.upsert("tenant-a", "the cat sat on the mat", id="one").kind.value
        'new'
        >>> outcome = index.upsert("tenant-a", "the cat sat on the mat today", id="two")
        >>> outcome.kind.value, outcome.representative, outcome.similarity
        ('match', 'one', 0.8)
        >>> index.upsert("tenant-b", "the cat sat on the mat").kind.value
        'new'
    """

    def __init__(
        self,
        opened: Opened,
        resources: SpecResources,
        clock: Callable[[], float] | None = None,
        tables: Path | None = None,
        follow: bool = True,
    ) -> None:
        self.clock = SystemClock() if clock is None else clock
        self._tables, self._follow = tables, follow
        self._locks = [RLock() for _ in range(STRIPES)]
        self._watch = RLock()
        self._cache = ResolvedCache(opened.settings.cache, opened.settings.cache_bytes)
        self._evicted_cold = 0
        self._name = uuid.uuid4().hex
        """Of this opened index, which no other has, in this process or another one."""
        self._inherited: set[tuple[str, str, str]] = set()
        """(scope, representative, cluster) of clusters whose id went to an heir while the representative is there still."""
        self._enter(opened, resources)

    def _enter(self, opened: Opened, resources: SpecResources) -> None:
        """Everything that follows from where the index is and what it was made with."""
        chosen = opened.settings
        assert chosen.spec is not None
        assert chosen.threshold is not None
        if self._tables is not None:
            resources = SpecResources.read(self._tables, chosen.spec, resources.secret)
        measure: Measure = measure_of(chosen.spec, resources)
        banding = measure.banding(
            BandingRequest(chosen.threshold, chosen.recall, chosen.bands, chosen.rows, 1, chosen.probes, chosen.documents)
        )
        salt = f"{chosen.spec.fingerprint}:{banding.bands}:{banding.rows}:{banding.probes}"
        self.store, self.settings, self._news, self._urls = opened
        self.spec: Spec = chosen.spec
        self.threshold: float = chosen.threshold
        self.resources, self.measure, self.banding = resources, measure, banding
        self._binned = self.spec.scheme == "binned" and not self.spec.truncated
        self.preparer = Preparer(measure, banding, resources, salt.encode(), chosen.max_document)
        self.searcher = Searcher(self.store, chosen, self.preparer, self.clock)
        self._cache.sync_generation(self._news.generation, self._cache.stamp())
        self._clocks = ClockWatch(self.clock, self.store)
        self._scope_names = ScopeNames(self.store)
        self._looked = self.clock()

    @classmethod
    def open(
        cls,
        url: str | Sequence[str],
        spec: Spec | None = None,
        threshold: float | None = None,
        *,
        settings: IndexSettings | None = None,
        resources: SpecResources = NO_RESOURCES,
        tables: str | Path | None = None,
        clock: Callable[[], float] | None = None,
        follow: bool = True,
        **fields: Any,
    ) -> Self:
        """Opens an index, or makes one where there is none.

        Args:
            url: `memory://`, `sqlite:///file.db`, `redis://…`, `postgresql://…`, `aerospike://…`; a list
                shards over several.
            spec: How documents become signatures; an existing index's by default.
            threshold: Similarity from which a document is resolved to another; an existing index's, or 0.8.
            settings: Further parameters.
            resources: The key and the tables that the Spec names.
            tables: A run's folder to read those tables from (a frequency cut, document frequencies), whatever the Spec is.
            clock: Seconds; for times to live and windows, and for how often the store is asked for news. By default the
                machine's clock, or the store's where that differs from it.
            follow: Whether to go where the index has been moved to, now and later. One that does not is a copy in the
                making: its steps fail (MovedError) when a move begins or ends.
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
        return cls(open_index(url, asked, follow), resources, clock, None if tables is None else Path(tables), follow)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives back what the store holds."""
        self.store.close()

    # -- where it is

    @property
    def place(self) -> tuple[str, ...]:
        """The URLs of its store as they may be written down, without passwords."""
        return tuple(map(recorded_url, self._urls))

    @property
    def moving(self) -> str:
        """The phase of a move (`nearkin.index.migration.state`) that the index is in, as far as it has heard."""
        return self._news.move.phase

    def refresh(self) -> None:
        """Asks the store for news: goes over to another one where the index has moved, and forgets what others made untrue.

        It happens by itself, INTERVAL seconds after the last time.

        Raises:
            StoreError: The store, or the one that the index has moved to, cannot be reached.
        """
        with self._watch:
            # before the store is asked, so that other threads work on meanwhile
            self._looked = self.clock()
            stamp = self._cache.stamp()
            news = self.store.state()
            if self._follow and news.move.phase == MOVED:
                self._switch_store(news.move)
                return
            self._cache.sync_generation(news.generation, stamp)
            self._news = news
            self._clocks.compare()

    def _refresh_if_due(self) -> None:
        """Where it is time to; memory:// has no other processes.

        One that does not follow keeps to the epoch of its last look, so that its steps end where another move begins.
        """
        if not 0 <= self.clock() - self._looked < INTERVAL and self.store.url != MemoryStore.url:
            move = self._news.move
            self.refresh()
            if not self._follow:
                self._news = self._news._replace(move=move)

    def _switch_store(self, move: Move) -> None:
        """To the store that the index has moved to, between steps: none is half here and half there."""
        asked = replace(unasked(self.settings), max_memory=None)
        opened = open_index(with_passwords(move.urls, self._urls), asked, True)
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            left = self.searcher
            try:
                self._enter(opened, self.resources)
            except BaseException:
                opened.store.close()
                raise
            self._cache.clear()
        # look-ups that are under way hold the searcher, so that they end where they began
        finalize(left, left.store.close)

    def _await_opening(self) -> None:
        """Until steps may be written: for as long as the last documents of a move are carried over, nobody writes."""
        until = time.monotonic() + CLOSED
        while self._closed:
            self.refresh()
            _, phase, urls = self._news.move
            if phase == FILLING or (phase == CLOSING and time.monotonic() > until):
                about = "is being made from" if phase == FILLING else f"has been closed for {CLOSED:.0f} s, for a cut-over to"
                raise StoreError(
                    f"{self.store.url} {about} {' '.join(urls)}: try again; or, if that was broken off, nearkin index rebuild "
                    "--cut-back opens it as it is"
                )
            time.sleep(PAUSE)

    @property
    def _closed(self) -> bool:
        return self._follow and self._news.move.phase in (CLOSING, FILLING)

    def step(self, scope: str, step: Callable[[], R]) -> R:
        """A step under its scope's lock, again where another process came between, or where the index has moved."""
        # no error is kept in a variable: its traceback holds this frame, and both would live until the collector runs
        attempts, races, until = 0, 0, time.monotonic() + RACE_TIME
        while True:
            self._refresh_if_due()
            self._await_opening()
            moved, drained = False, None
            try:
                with self._locked(scope):
                    return step()
            except MovedError:
                attempts += 1
                if not self._follow or attempts == TRIES:
                    raise
                moved = True
            except RacedError:
                races += 1
                if time.monotonic() > until:
                    raise
            except LargeClusterError as error:
                attempts += 1
                if attempts == TRIES:
                    raise
                drained = (error.leader, error.into, error.inherits)
            if drained is not None:
                self._drain(scope, *drained)
            elif moved:
                self.refresh()
            else:
                self._cache.clear()
                # who has met another step comes again at a time of its own, so that the two do not meet once more
                time.sleep(random() * min(LONGEST_PAUSE, RACE_PAUSE * 2 ** min(races - 1, 16)))

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
            StoreError: The store failed. Nothing of the document at which it did was written, and nothing at all but where
                documents of the batch change what later ones find (updates, buckets that overflow): these are written one by
                one, those before it are there, and the batch may be tried again as it is.
        """
        self.require_writable(scope)
        if len(documents) > self.settings.max_batch:
            raise UsageError(f"a batch of {len(documents):,} documents is larger than max_batch={self.settings.max_batch:,}")
        if ids is not None and len(ids) != len(documents):
            raise UsageError(f"{len(ids)} ids for {len(documents)} documents")
        began = time.perf_counter()
        checked = [self.preparer.check(document) for document in documents]
        digests = [self.preparer.digest(document) for document in checked]
        given = ids or [None] * len(checked)
        names = [default_id(digests[i]) if name is None else require_id(name) for i, name in enumerate(given)]
        return self.step(scope, lambda: self._upsert(scope, checked, digests, names, began))

    def require_writable(self, scope: str) -> None:
        """Refuses a new scope whose name could be taken for another one; see `nearkin.index.scope_names`.

        A copy in the making takes every scope that its source has.

        Raises:
            UsageError: If the name is refused.
        """
        if self._follow:
            self._scope_names.require(require_scope(scope))

    def _upsert(
        self, scope: str, documents: list[Checked], digests: list[bytes], names: list[str], began: float
    ) -> list[Outcome]:
        if len(set(names)) < len(names):
            return self._with_repeats(scope, documents, digests, names, began)
        clear_count = self._cache.clear_count
        known = self._known(scope, digests, names)
        if len(names) > 1 and any(one.entry is not None and one.resolution is None for one in known):
            return self._one_by_one(scope, documents, digests, names)
        rest = [i for i, one in enumerate(known) if one.resolution is None]
        looked, now, changes = time.perf_counter(), self.clock(), Changes()
        self._refresh(scope, names, known, changes, now)
        decisions: list[Decision] = []
        if rest:
            prepared = self.preparer.prepare(scope, [documents[i] for i in rest], [digests[i] for i in rest])
            sketched = time.perf_counter()
            gone = next((one.entry for one in known if one.entry is not None and one.resolution is None), None)
            if gone is not None:
                self._take_out(gone, changes, heir=False)
            without = frozenset() if gone is None else frozenset((gone.ref,))
            decisions = self.searcher.decide(prepared, without, changes)
            compared = sum(decision.compared for decision in decisions)
            slots = prepared.signatures[: len(rest) if self._binned else 0]
            self.searcher.observed.searched(len(rest), compared, slots, sketched - looked)
            if changes.may_overflow and len(names) > 1:
                return self._one_by_one(scope, documents, digests, names)
            self._add(scope, [documents[i] for i in rest], [names[i] for i in rest], prepared, decisions, changes, now)
        searched = time.perf_counter()
        if changes:
            self.apply(changes)
        self._evict_cold()
        spent = {"look_up": looked - began, "search": searched - looked, "write": time.perf_counter() - searched}
        seconds = {name: value / max(len(names), 1) for name, value in spent.items()}
        outcomes = self._outcomes(names, known, rest, decisions, changes, seconds)
        for outcome, digest in zip(outcomes, digests, strict=True):
            if outcome.layer != Layer.MEMORY:
                resolution = Resolution(digest, outcome.representative, outcome.cluster, outcome.similarity)
                self._cache.put(scope, outcome.id, resolution, clear_count)
        return outcomes

    def _with_repeats(
        self, scope: str, documents: list[Checked], digests: list[bytes], names: list[str], began: float
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

    def _one_by_one(self, scope: str, documents: list[Checked], digests: list[bytes], names: list[str]) -> list[Outcome]:
        """For batches whose documents change what later ones find in other ways than by being new."""
        rows = zip(documents, digests, names, strict=True)
        return [self._upsert(scope, [d], [g], [n], time.perf_counter())[0] for d, g, n in rows]

    def apply(self, changes: Changes) -> None:
        """One step of the store; what it changed is no longer what the cache says."""
        move = self._news.move
        if self._follow and move.phase == CLOSING:
            raise MovedError(f"{self.store.url} is being moved")
        changes.epoch = move.epoch
        if move.phase == COPYING:
            now = self.clock()
            changes.events += [Event(TOUCHED, e.scope, e.id, "", now) for e, _ in (*changes.dropped, *changes.new)]
        changes.invalidates_caches = bool(changes.dropped or changes.posted or changes.unposted or changes.expected)
        done = False
        if changes.invalidates_caches:
            self._cache.begin_step()
        try:
            self.store.apply(changes)
            done = True
        finally:
            if changes.invalidates_caches:
                self._cache.end_step(done)
        for entry in (*changes.changed, *(written.entry for written in changes.dropped)):
            self._cache.forget(entry.scope, entry.id)

    def _known(self, scope: str, digests: list[bytes], names: list[str]) -> list[_Known]:
        """Asks the first three layers about a batch, with one look into the store.

        A document that is known is not written, so it must be in the store while this runs, and the store must be where the
        index is: one small read confirms both for all of them, whatever other processes have deleted or moved meanwhile.
        """
        stamp = self._cache.stamp()
        cached = [self._cache.get(scope, name) for name in names]
        known: dict[int, _Known] = {}
        for i, hit in enumerate(cached):
            if hit is not None and hit.digest == digests[i]:
                known[i] = _Known(hit, Layer.MEMORY, None)
        remembered = list(known)
        asked = [i for i in range(len(names)) if i not in known]
        known |= self._stored(scope, digests, names, asked)
        if remembered and not self._cache.sync_generation(self._confirmed_news().generation, stamp):
            known |= self._stored(scope, digests, names, remembered)
            remembered = []
        if not remembered and any(one.resolution is not None for one in known.values()):
            self._confirmed_news()
        return [known[i] for i in range(len(names))]

    def _confirmed_news(self) -> StoreState:
        """Returns the store's news, if the index is where it was.

        A caller that answers from what was read, and writes nothing, calls this after the reading. A step that writes is
        refused if the index has moved, and such an answer must be refused, too.

        Raises:
            MovedError: If the store's epoch is another than that of the last look.
        """
        news = self.store.state()
        if news.move.epoch != self._news.move.epoch:
            raise MovedError(f"{self.store.url} is being moved")
        return news

    def _stored(self, scope: str, digests: list[bytes], names: list[str], asked: list[int]) -> dict[int, _Known]:
        """Returns what the store knows of some documents of a batch, by their places in it."""
        if not asked:
            return {}
        known: dict[int, _Known] = {}
        for i, entry in zip(asked, self.store.entries(scope, [names[i] for i in asked]), strict=True):
            if entry is None or entry.digest != digests[i]:
                known[i] = _Known(None, Layer.SEARCH, entry)
                continue
            resolution = Resolution(digests[i], entry.leader, entry.cluster, entry.similarity)
            known[i] = _Known(resolution, Layer.RECORD if entry.is_leader else Layer.STORE, entry)
        return known

    def _refresh(self, scope: str, names: list[str], known: list[_Known], changes: Changes, now: float) -> None:
        """A hit keeps a document and its representative alive, where they have a time to live."""
        times = [ttl for ttl in (self.settings.record_ttl, self.settings.bucket_ttl, self.settings.window) if ttl is not None]
        hits = [(name, one) for name, one in zip(names, known, strict=True) if one.resolution is not None]
        if not times or not hits:
            return
        wanted = {name for name, _ in hits} | {one.resolution.leader for _, one in hits if one.resolution is not None}
        own = {one.entry.id: one.entry for _, one in hits if one.entry is not None}
        missing = sorted(wanted - set(own))
        own |= {entry.id: entry for entry in self.store.entries(scope, missing) if entry is not None}
        least = now - FRESH * min(times)
        # what is written again is what was read: it must still be so
        # a document of a clock that was ahead gets the right time, too; else it would stay for ever
        due = [entry for entry in own.values() if entry.seen < least or entry.seen > now + TOLERANCE]
        old = [entry for entry in due if _leads(own.get(entry.leader))]
        changes.changed += [entry._replace(seen=now) for entry in old]
        changes.required_leaders += [own[name] for name in dict.fromkeys(entry.leader for entry in old)]

    def _outcomes(
        self,
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
                kind = OutcomeKind.EXACT if leader == name else OutcomeKind.RESOLVED
                outcomes.append(Outcome(kind, one.layer, name, one.resolution.cluster, leader, similarity, 0, seconds))
                continue
            entry, compared = written[name], searched[i].compared
            kind = OutcomeKind.NEW if entry.is_leader else OutcomeKind.MATCH
            if one.entry is not None:
                kind = OutcomeKind.UPDATED
            outcomes.append(Outcome(kind, Layer.SEARCH, name, entry.cluster, entry.leader, entry.similarity, compared, seconds))
        return outcomes

    def _add(
        self,
        scope: str,
        documents: list[Checked],
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
                changes.required_leaders.append(decision.entry)
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

        Raises:
            UsageError: The document is none, or `top` is less than 1.
        """
        if top < 1:
            raise UsageError(f"top={top} is less than 1")
        self._refresh_if_due()
        searcher = self.searcher
        preparer = searcher.preparer
        checked = preparer.check(document)
        prepared = preparer.prepare(require_scope(scope), [checked], [preparer.digest(checked)])
        if prepared.empty[0]:
            return []
        ranked = searcher.ranked(prepared, leaders=searcher.settings.postings == "leaders")
        pool = searcher.pool(prepared, ranked)
        found = []
        shared = dict(zip((ranked.words >> REF_SHIFT).tolist(), ranked.shared.tolist(), strict=True))
        positions = np.arange(1, 1 + len(pool.entries), dtype=np.uint64)
        for entry, similarity in zip(pool.entries, searcher.similarity(np.uint64(0), positions, pool).tolist(), strict=True):
            if similarity >= 0:
                found.append(Match(entry.id, entry.cluster, similarity, int(shared[entry.ref])))
        return sorted(found, key=lambda match: (-match.similarity, match.id))[:top]

    # -- what is there

    def get(self, scope: str, id: str) -> Entry | None:
        """A document's entry, if it is there."""
        self._refresh_if_due()
        return self._get(scope, id)

    def _get(self, scope: str, id: str) -> Entry | None:
        searcher = self.searcher
        return searcher.store.entries(require_scope(scope), [require_id(id)])[0]

    def entry_or_confirmed_absence(self, scope: str, id: str) -> Entry | None:
        """Returns a document's entry as a step needs it. None is only returned by the store that the index is in.

        Raises:
            MovedError: If it is not there, and the index has moved since the last look; `step` tries again in that case.
        """
        entry = self._get(scope, id)
        if entry is None:
            self._confirmed_news()
        return entry

    def cluster(self, scope: str, id: str) -> Cluster | None:
        """The cluster of a document."""
        self._refresh_if_due()
        searcher = self.searcher
        store = searcher.store
        entry = store.entries(require_scope(scope), [require_id(id)])[0]
        if entry is None:
            return None
        members = [(entry.leader, 1.0)]
        last = 0
        while some := store.member_page(scope, entry.leader, last, 0, PORTION):
            members += [(one.id, one.similarity) for one in some]
            last = some[-1].ref
        return Cluster(entry.cluster, entry.leader, tuple(members))

    def cluster_part(
        self, scope: str, id: str, start: int = 0, limit: int = 100, after: str | None = None
    ) -> ClusterPart | None:
        """Returns some of the documents of a cluster, or None if there is no such document; no text is read.

        Args:
            scope: Tenant or group.
            id: Id of any document of the cluster.
            start: Number of the first one; 0 is the representative.
            limit: Maximum number of documents.
            after: Id of the last one that is known. If it is there still, this is a look-up by key, and `start` has no meaning;
                with `start` alone all members before it are passed over.
        """
        self._refresh_if_due()
        store = self.searcher.store
        wanted = [require_id(id)] if after is None else [require_id(id), require_id(after)]
        entry, *known = store.entries(require_scope(scope), wanted)
        if entry is None:
            return None
        leader = entry if entry.is_leader else store.entries(scope, [entry.leader])[0]
        if leader is None:
            return None
        last = known[0] if known and known[0] is not None and known[0].leader == leader.id else None
        begins = start == 0 and last is None
        skip = 0 if last is not None else max(0, start - 1)
        after_ref = 0 if last is None or last.is_leader else last.ref
        return _cluster_part(store, leader, begins, after_ref, skip, limit)

    def cluster_part_after(self, scope: str, id: str, position: MemberPosition, limit: int = 100) -> ClusterPart | None:
        """Returns the documents of a cluster behind one that was listed, or None if there is no such document.

        Documents that are in the cluster all the time are listed once each, whatever comes and goes between two calls: also if
        the one at the position was deleted, or if another document came to represent the others.

        Args:
            scope: Tenant or group.
            id: Id of any document of the cluster.
            position: `ClusterPart.end` of the part before, of this index in this store.
            limit: Maximum number of documents.
        """
        self._refresh_if_due()
        store = self.searcher.store
        entry = store.entries(require_scope(scope), [require_id(id)])[0]
        if entry is None:
            return None
        leader = entry if entry.is_leader else store.entries(scope, [entry.leader])[0]
        if leader is None:
            return None
        # one that was a member when the part before was listed, and whose turn would come
        begins = leader.id != position.representative and leader.ref > position.number
        part = _cluster_part(store, leader, begins, position.number, 0, limit)
        # one that came to be a member after it was listed as the representative
        members = [row for row in part.members if leader.id == position.representative or row[0] != position.representative]
        return replace(part, members=tuple(members))

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
        request = BandingRequest(
            threshold=self.threshold,
            recall=self.settings.recall,
            bands=self.banding.bands,
            rows=self.banding.rows,
            probes=self.banding.probes,
            documents=EXPLAINED_DOCUMENTS,
        )
        return explain_pair(
            texts[0],
            texts[1],
            spec=self.spec,
            resources=self.resources,
            threshold=self.threshold,
            banding=self.measure.banding(request),
            names=(a, b),
        )

    def stats(self) -> dict[str, Any]:
        """Counts of the store, of the cache, and what the index is."""
        self._refresh_if_due()
        return {
            **self.store.counts(),
            "evicted_cold": self._evicted_cold,
            "cached": len(self._cache),
            "cached_bytes": self._cache.nbytes,
            "threshold": self.threshold,
            "bands": self.banding.bands,
            "rows": self.banding.rows,
            "spec_fingerprint": self.spec.fingerprint,
            "url": self.store.url,
        }

    def metrics(self, recall: float | None = None) -> QualityMetrics:
        """The figures that a fleet is watched by, of what this process saw since it opened the index.

        Args:
            recall: On labelled documents, if it was measured.
        """
        return self.searcher.observed.metrics(recall, self.store.counts().get("bytes"))

    def hot_buckets(self, most: int = 20) -> list[tuple[int, Entry]]:
        """(postings, oldest document) of the largest buckets that searches looked into, largest first."""
        hot = self.searcher.observed.hottest()[:most]
        found = self.store.by_refs([bucket.oldest for bucket in hot])
        return [(bucket.size, entry) for bucket, entry in zip(hot, found, strict=True) if entry is not None]

    # -- what goes

    def remove(self, scope: str, id: str) -> bool:
        """Erases a document; if it stood for others, they elect another representative. Says whether it was there."""
        return self.step(scope, lambda: self._remove(scope, id))

    def _remove(self, scope: str, id: str) -> bool:
        entry = self.entry_or_confirmed_absence(scope, id)
        if entry is None:
            return False
        changes, now = Changes(), self.clock()
        self._take_out(entry, changes)
        changes.events.append(Event("erased", scope, id, "", now))
        self.apply(changes)
        self._inherited.discard((scope, id, entry.cluster))
        return True

    def _take_out(self, entry: Entry, changes: Changes, heir: bool = True) -> None:
        """The steps by which a document goes, and those that it stood for find another representative.

        The first that then stands for itself inherits the cluster's id: not from one that comes back at once as another text,
        for whose cluster it would be then.
        """
        keys = self.preparer.keys_of(entry.scope, [entry])[0] if entry.posted else None
        changes.dropped.append(KeyedEntry(entry, keys))
        members = self._members_for_step(entry, None, heir) if entry.is_leader else []
        changes.leader_snapshots.append(_standing(entry, members))
        if members:
            self._settle(entry, members, changes, heir)

    def _members_for_step(self, entry: Entry, into: str | None, heir: bool) -> list[Entry]:
        """Returns the members of a representative that is removed.

        Raises:
            LargeClusterError: If they are too many for one step; `step` then resolves some of them and tries again.
        """
        members = self.store.members(entry.scope, entry.id, REASSIGNED + 1)
        if len(members) > REASSIGNED:
            raise LargeClusterError(entry.id, into, heir)
        return members

    def _drain(self, scope: str, leader: str, into: str | None, heir: bool) -> None:
        """Resolves members of a representative that will go, in portions, until one step can do the rest.

        After each portion the index is sound: the representative stands for the other members still. So a process that is
        killed in between leaves nothing to repair, and a repeated request continues where it stopped.
        """
        while self.step(scope, partial(self._drain_portion, scope, leader, into, heir)):
            pass

    def _drain_portion(self, scope: str, leader: str, into: str | None, heir: bool) -> bool:
        """Resolves one portion; returns False if there are few enough members left."""
        entry = self._get(scope, leader)
        if entry is None or not entry.is_leader:
            return False
        members = self.store.members(scope, leader, REASSIGNED + 1)
        if len(members) <= REASSIGNED:
            return False
        members = members[:REASSIGNED]
        changes = Changes(required_leaders=[entry], expected=members)
        if into is not None:
            older = self._get(scope, into)
            if older is None or not older.is_leader:
                return False
            members = self._move_near(members, older, changes)
        if members:
            self._settle(entry, members, changes, heir)
        self.apply(changes)
        if any(one.is_leader and one.cluster == entry.cluster for one in changes.changed):
            self._inherited.add((scope, leader, entry.cluster))
        return True

    def _move_near(self, members: list[Entry], older: Entry, changes: Changes) -> list[Entry]:
        """Resolves the members that are similar enough to another representative to that one; returns the others."""
        stored = as_stored(self.preparer.payload_of([older, *members]))
        scored = self.measure.compare(np.arange(1, len(members) + 1, dtype=np.uint64), stored)
        near = scored.meets_threshold(self.threshold).tolist()
        changes.required_leaders.append(older)
        for member, one, is_near in zip(members, scored.similarity.tolist(), near, strict=True):
            if is_near:
                changes.changed.append(member._replace(leader=older.id, cluster=older.cluster, similarity=one))
        return [member for member, is_near in zip(members, near, strict=True) if not is_near]

    def _settle(self, gone: Entry, members: list[Entry], changes: Changes, heir: bool) -> None:
        """Documents whose representative goes are searched for anew, in the order of their numbers, and verified again."""
        scope, every = gone.scope, self.settings.postings == "all"
        prepared = self.preparer.restored(scope, members)
        without = frozenset((gone.ref, *(member.ref for member in members)))
        decisions = self.searcher.decide(prepared, without, changes)
        # an earlier portion may have had the heir, of this process or of one that was killed
        heir = heir and not any(one.entry is not None and one.entry.cluster == gone.cluster for one in decisions)
        heir = heir and any(one.entry is None and one.position is None for one in decisions)
        heir = heir and not self._is_inherited(gone)
        clusters: dict[int, str] = {}
        for at, (member, decision) in enumerate(zip(members, decisions, strict=True)):
            if decision.entry is not None:
                found = decision.entry
                changes.required_leaders.append(found)
                moved = member._replace(leader=found.id, cluster=found.cluster, similarity=decision.similarity)
            elif decision.position is not None:
                head = members[decision.position]
                moved = member._replace(leader=head.id, cluster=clusters[decision.position], similarity=decision.similarity)
            else:
                clusters[at] = gone.cluster if heir else member.id
                heir = False
                moved = member._replace(leader=member.id, cluster=clusters[at], similarity=1.0)
            posted = (moved.is_leader or every) and not prepared.empty[at]
            moved = moved._replace(posted=posted, signature=prepared.signatures[at].tobytes() if posted else b"")
            changes.changed.append(moved)
            if posted:
                changes.posted.append(KeyedEntry(moved, prepared.keys[at]))

    def _is_inherited(self, gone: Entry) -> bool:
        """Returns whether another representative has the cluster of one that goes, from an earlier portion of its members.

        If that portion was resolved by another process, the heir is found in the buckets that it shares with the one that goes,
        to which it was resolved.
        """
        if (gone.scope, gone.id, gone.cluster) in self._inherited:
            return True
        prepared = self.preparer.restored(gone.scope, [gone])
        ranked = self.searcher.ranked(prepared, leaders=True, without=frozenset((gone.ref,)))
        return any(one.cluster == gone.cluster for one in self.searcher.pool(prepared, ranked).entries)

    def merge_into_older(self, scope: str, id: str) -> int:
        """A representative that verifies with an older one goes to it, with what it stands for; returns how many moved."""
        members = self.store.member_count(require_scope(scope), require_id(id))
        done = self.step(scope, lambda: self._merge(scope, id))
        # with those that went in portions before the last step
        return max(done, 1 + members) if done else 0

    def _merge(self, scope: str, id: str) -> int:
        entry = self._get(scope, id)
        if entry is None or not entry.is_leader or not entry.posted:
            return 0
        older = self._older(entry)
        if older is None:
            return 0
        changes = self._merging(entry, *older)
        self.apply(changes)
        return len(changes.changed)

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
        changes.required_leaders.append(older)
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
        (changes.posted if every else changes.unposted).append(KeyedEntry(moved if every else entry, keys))
        members = self._members_for_step(entry, older.id, heir=False)
        changes.leader_snapshots.append(_standing(entry, members))
        if members and (rest := self._move_near(members, older, changes)):
            self._settle(entry, rest, changes, heir=False)
        return changes

    def expire(self, trust_clock: bool = False) -> dict[str, int]:
        """Deletes documents and postings whose time to live is over; returns how many of each.

        Args:
            trust_clock: Whether the caller has confirmed that the clock of this machine is right, although most documents are
                due at once. A clock that is not the store's is refused all the same.

        Raises:
            ClockError: If the clock of this process is not plausible; nothing is deleted.
        """
        self._refresh_if_due()
        if isinstance(self.store, ShardedStore):
            self.store.sweep_strays()
        self._require_plausible_clock(trust_clock)
        now, gone, store = self.clock(), {"records": 0, "postings": 0}, self.store
        if self.settings.bucket_ttl is not None:
            before = now - self.settings.bucket_ttl
            for scope, batch in batches_by_scope(store.due(before, posted=True), AT_ONCE):
                gone["postings"] += self.step(scope, partial(self._unpost, store, scope, batch))
        if self.settings.record_ttl is not None:
            before = now - self.settings.record_ttl
            # members first: a representative stays for as long as others are resolved to it
            for leads in (False, True):
                for entry in store.due(before, posted=False):
                    if entry.is_leader == leads:
                        gone["records"] += self.step(entry.scope, partial(self._expire, entry, before))
        return gone

    def sweep(self, every: float) -> dict[str, int]:
        """Does what `expire` does, if it is this process' turn: of all that have the index open, one sweeps.

        Args:
            every: Seconds between the calls of a process. Another one takes over when the process did not call for half as long
                again.
        """
        # before the turn is taken: a process whose clock is wrong must not keep the others from sweeping
        self._require_plausible_clock(trusted=False)
        if self.store.take_turn("sweep", self._name, 1.5 * every):
            return self.expire()
        return {"records": 0, "postings": 0}

    def _require_plausible_clock(self, trusted: bool) -> None:
        times = [ttl for ttl in (self.settings.bucket_ttl, self.settings.record_ttl) if ttl is not None]
        if times:
            self._clocks.require_plausible(min(times), trusted)

    def _expire(self, entry: Entry, before: float) -> bool:
        held = self._get(entry.scope, entry.id)
        if held is None or held.seen >= before:
            return False
        if held.is_leader and self.store.member_page(held.scope, held.id, 0, 0, 1):
            # it stays for as long as others are resolved to it
            return False
        keys = self.preparer.keys_of(held.scope, [held])[0] if held.posted else None
        self.apply(Changes(dropped=[KeyedEntry(held, keys)], leader_snapshots=[_standing(held, [])]))
        return True

    def _unpost(self, store: Store, scope: str, entries: list[Entry]) -> int:
        """Out of their buckets: they stay, but nothing new is resolved to them. Returns how many there are."""
        if store is not self.store:
            # their numbers say nothing in the store that the index has moved to
            return 0
        # what was found is without content, and some of it may have changed since
        seen = {entry.ref: entry.seen for entry in entries}
        found = store.by_refs(list(seen))
        entries = [one for one in found if one is not None and one.posted and one.scope == scope and one.seen == seen[one.ref]]
        if not entries:
            return 0
        keys = self.preparer.keys_of(scope, entries)
        unposted = [KeyedEntry(entry, keys[at]) for at, entry in enumerate(entries)]
        leaders = {entry.id: entry for entry in entries if entry.is_leader}
        missing = sorted({entry.leader for entry in entries} - set(leaders))
        needs = [*leaders.values(), *(entry for entry in store.entries(scope, missing) if _leads(entry))]
        changed = [entry._replace(posted=False) for entry in entries]
        self._apply_quietly(Changes(unposted=unposted, changed=changed, required_leaders=needs))
        return len(entries)

    def _apply_quietly(self, changes: Changes) -> None:
        """What another process has changed meanwhile is left to the next time."""
        try:
            self.apply(changes)
        except RacedError:
            return

    def _evict_cold(self) -> None:
        """Where memory is bounded, the documents that were not used for longest leave their buckets."""
        most = self.settings.max_memory
        if most is None or (counts := self.store.counts())["bytes"] <= most:
            return
        cold = islice(self.store.due(np.inf, posted=True), max(1, counts["leaders"] // 10))
        self._evicted_cold += sum(self._unpost(self.store, scope, batch) for scope, batch in batches_by_scope(cold, AT_ONCE))

    def export(self, path: str | Path) -> int:
        """Writes all documents as parquet, to be looked at or loaded elsewhere (`nearkin index migrate`); returns how many."""
        return write_export(self.store, Path(path))

    def scopes(self) -> list[str]:
        """The scopes that have documents."""
        return sorted(self.store.scopes())

    @contextmanager
    def _locked(self, scope: str) -> Iterator[None]:
        """One writer of a scope at a time, within this process."""
        digest = hashlib.sha256(require_scope(scope).encode()).digest()
        with self._locks[int.from_bytes(digest[:2], "little") % STRIPES]:
            yield


def _cluster_part(store: Store, leader: Entry, begins: bool, after: int, skip: int, limit: int) -> ClusterPart:
    """Returns some documents of a cluster: the representative if the part begins with it, and members behind a number."""
    rest = limit - begins
    found = store.member_page(leader.scope, leader.id, after, skip, rest) if rest else []
    members = [(leader.id, 1.0)] if begins else []
    members += [(one.id, one.similarity) for one in found]
    number = found[-1].ref if found else after
    end = MemberPosition(leader.id, number) if members and len(members) == limit else None
    size = 1 + store.member_count(leader.scope, leader.id)
    return ClusterPart(leader.cluster, leader.id, size, tuple(members), leader.created, end)


def _leads(entry: Entry | None) -> TypeGuard[Entry]:
    return entry is not None and entry.is_leader


def _standing(entry: Entry, members: list[Entry]) -> LeaderSnapshot:
    return LeaderSnapshot(entry, frozenset(member.ref for member in members))


def _again(outcome: Outcome) -> Outcome:
    """Of a document that came once more."""
    kind = OutcomeKind.RESOLVED if outcome.duplicate else OutcomeKind.EXACT
    return replace(outcome, kind=kind, layer=Layer.MEMORY, candidates=0)
