"""An open index: its store and configuration, and the rules by which every step is carried out.

A step reads from the store, decides, and writes all of its changes at once. The session gives each
step its scope's lock and the current epoch, repeats a step that conflicted with another process,
and switches to the new store after a migration. `Index` and the modules beside this one are built
on it.
"""

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from random import random
from threading import RLock
from typing import TYPE_CHECKING, TypeVar
from weakref import finalize

from nearkin.errors import LargeClusterError, MovedError, RacedError, StoreError, UsageError
from nearkin.index.cache import ResolvedCache
from nearkin.index.changes import OBSERVERS, TOUCHED, Changes, Event
from nearkin.index.clock import ClockWatch, SystemClock
from nearkin.index.decided_pairs import PairGuard
from nearkin.index.entry import Entry, require_id, require_scope
from nearkin.index.migration.state import (
    CLOSING,
    COPYING,
    FILLING,
    MOVED,
    OPEN,
    MigrationState,
    StoreState,
)
from nearkin.index.opening import (
    Opened,
    open_index,
    require_matching_key,
    target_of_move,
    without_fixed_settings,
)
from nearkin.index.scope_names import ScopeNames
from nearkin.index.scope_settings import stage_counts
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.addresses import MEMORY_URL
from nearkin.index.stores.base import Store
from nearkin.index.stores.urls import (
    recorded_url,
    with_passwords,
    without_inapplicable_bound,
)
from nearkin.index.telemetry import telemetry_of
from nearkin.settings.spec import Spec

if TYPE_CHECKING:
    from nearkin.index.document_preparation import DocumentPreparer
    from nearkin.index.preparation import Preparer
    from nearkin.index.search import Searcher
    from nearkin.stages.lsh.slot_bands import Banding
    from nearkin.stages.measures import Measure
    from nearkin.stages.sketch.resources import SpecResources

R = TypeVar("R")
LOCK_STRIPES = 64
"""The number of locks that the scopes of a process share."""
MAX_ATTEMPTS = 8
"""The number of attempts of a step that meets migrations, or representatives with many members."""
MAX_RACE_SECONDS = 15.0
"""The duration for which a step that conflicts with others is repeated."""
MIN_RACES = 32
"""The number of conflicts that a step meets before it fails, however long its attempts take.

On a busy machine, or while kernels are compiled, a single attempt can take longer than
`MAX_RACE_SECONDS`.
"""
REFRESH_SECONDS = 5.0
"""The interval, by the index's clock, at which a process reads the state of its store."""
MAX_PAUSE_SECONDS = 30.0
"""The duration for which a writer waits for a cutover to end."""
POLL_SECONDS = 0.02
"""The interval at which a waiting writer reads the state of the store."""
FIRST_BACKOFF = 0.005
"""The longest pause after a first conflict, in seconds. It doubles with each further conflict."""
LONGEST_BACKOFF = 0.25


def with_frequencies(
    settings: IndexSettings, resources: "SpecResources | None", spec_resources: Path | None
) -> IndexSettings:
    """Returns settings whose Spec names its document frequencies."""
    spec = settings.spec
    if spec is None or not spec.uses_frequencies:
        return settings
    from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources

    given = resources or NO_RESOURCES
    if spec_resources is not None:
        given = SpecResources.read(spec_resources, spec, given.secret)
    spec = given.complete(spec)
    given.weights(spec)
    return replace(settings, spec=spec)


class Session:
    """The connection of a process to an index, shared by all steps.

    Safe for threads. The store, the settings and everything that follows from them are replaced
    together when the index has moved to another store.

    Args:
        clock: Returns the time in seconds. By default the machine's clock, corrected by the
            store's if they differ.
    """

    store: Store
    settings: IndexSettings
    state: StoreState
    """The state of the store when it was last read."""
    urls: tuple[str, ...]
    """The URLs of the store, with passwords."""
    spec: Spec
    threshold: float
    resources: "SpecResources"
    measure: "Measure"
    banding: "Banding"
    preparer: "Preparer"
    """The preparer of texts, or of vectors in an index of vectors."""
    documents: "DocumentPreparer"
    """The preparer of whole documents."""
    searcher: "Searcher"

    def __init__(
        self,
        opened: Opened,
        resources: "SpecResources | None",
        clock: Callable[[], float] | None,
        spec_resources: Path | None,
        *,
        follow: bool,
        guard: PairGuard | None = None,
    ) -> None:
        self.clock = SystemClock() if clock is None else clock
        self.follow = follow
        self.guard = PairGuard() if guard is None else guard
        self.process_name = uuid.uuid4().hex
        """A name that no other open index has, in this process or another one."""
        self.cache = ResolvedCache(opened.settings.cache, opened.settings.max_cache_bytes)
        self.drain_cluster: Callable[[str, LargeClusterError], None] | None = None
        """Resolves members of a cluster that is too large for one step. Set by `Removals`."""
        self._spec_resources = spec_resources
        self._locks = [RLock() for _ in range(LOCK_STRIPES)]
        self._refresh_lock = RLock()
        self._use_store(opened, resources)

    def _use_store(self, opened: Opened, resources: "SpecResources | None") -> None:
        """Sets everything that follows from the store and the settings of the index.

        The stages of sketching and comparison are imported here, so that `import nearkin.index`
        and processes that open no index do without their kernels.
        """
        from nearkin.index.document_preparation import DocumentPreparer
        from nearkin.index.history import read_setting
        from nearkin.index.preparation import Preparer
        from nearkin.index.search import Searcher
        from nearkin.stages.measures import BandingRequest, measure_of
        from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources

        settings = opened.settings
        assert settings.spec is not None
        assert settings.threshold is not None
        resources = resources or NO_RESOURCES
        require_matching_key(settings, resources.secret)
        if self._spec_resources is not None:
            resources = SpecResources.read(self._spec_resources, settings.spec, resources.secret)
        if resources.frequencies is not None:
            resources.weights(settings.spec)
        measure = measure_of(settings.spec, resources, settings.distance)
        request = BandingRequest(
            threshold=settings.search_threshold,
            recall=settings.recall,
            bands=settings.bands,
            rows=settings.rows,
            tables=1,
            probes=settings.probes,
            documents=settings.documents,
        )
        banding = measure.banding(request)
        salt = _configuration_salt(settings.spec, banding)
        self.store = opened.store
        self.settings = settings
        self.state = opened.state
        self.urls = opened.urls
        self.spec = settings.spec
        self.threshold = settings.threshold
        self.resources = resources
        self.measure = measure
        self.banding = banding
        self.preparer = Preparer(measure, banding, resources, salt, settings.max_document_bytes)
        vector_preparer = _vector_preparer(settings, resources)
        self.documents = DocumentPreparer(
            self.preparer, vector_preparer, requires_both=settings.combine == "both"
        )
        self.telemetry = telemetry_of(settings.spec.measure)
        on_comparisons = None if self.telemetry is None else self.telemetry.record_comparisons
        self.guard.forget()
        self.searcher = Searcher(
            self.store, settings, self.documents, self.clock, on_comparisons, self.guard
        )
        if settings.passages is not None:
            from nearkin.index.passage_postings import PassagePostings
            from nearkin.index.passage_search import PassageSearcher

            postings = PassagePostings(settings.spec, resources.secret, settings.passages)
            self.searcher.passages = PassageSearcher(self.store, settings, postings)
        self.cache.sync_generation(self.state.generation, self.cache.stamp())
        self.clocks = ClockWatch(self.clock, self.store)
        self.scope_names = ScopeNames(self.searcher)
        self._read_history = read_setting
        self.keeps_history = read_setting(self.store) > 0
        """True if each step writes what it does to the change log."""
        self._refreshed_at = self.clock()

    def public_urls(self) -> tuple[str, ...]:
        """Returns the URLs of the store without passwords."""
        return tuple(recorded_url(url) for url in self.urls)

    def refresh(self) -> None:
        """Reads the state of the store, as `Index.refresh` does."""
        with self._refresh_lock:
            # set before the store is read, so that other threads continue meanwhile
            self._refreshed_at = self.clock()
            stamp = self.cache.stamp()
            state = self.store.state()
            if self.follow and state.migration.phase == MOVED:
                self._switch_store(state.migration)
                return
            self.cache.sync_generation(state.generation, stamp)
            if state != self.state:
                # another process may have written decisions
                self.guard.forget()
                self.keeps_history = self._read_history(self.store) > 0
            self.state = state
            self.clocks.compare()

    def refresh_if_due(self) -> None:
        """Refreshes the store's state if the interval has passed.

        A session that does not follow keeps the epoch that it has, so that its steps fail if a
        migration begins. No other process can use a memory store, so that its state is known.
        """
        since = self.clock() - self._refreshed_at
        if 0 <= since < REFRESH_SECONDS or self.store.url == MEMORY_URL:
            return
        migration = self.state.migration
        self.refresh()
        if not self.follow:
            self.state = self.state._replace(migration=migration)

    def _switch_store(self, migration: MigrationState) -> None:
        """Switches to the store that the index has moved to, while no step is under way."""
        settings = without_fixed_settings(self.settings)
        settings = without_inapplicable_bound(settings, migration.urls)
        urls = with_passwords(migration.urls, self.urls)
        with target_of_move(" ".join(self.public_urls())):
            opened = open_index(urls, settings, follow=True, must_exist=True)
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            previous = self.searcher
            try:
                self._use_store(opened, self.resources)
            except BaseException:
                opened.store.close()
                raise
            self.cache.clear()
        # queries that are under way hold the searcher, so that they end in the previous store
        finalize(previous, previous.store.close)

    def __reduce__(self) -> str:
        """Refuses to pickle or copy an index, which contains its session."""
        if self.store.url == MEMORY_URL:
            raise UsageError(
                f"an index in {MEMORY_URL} cannot be pickled or copied, because its documents are "
                "in the memory of this process; use a store that processes share, for example "
                "sqlite:///index.db, and open it in each of them with nearkin.Index.open"
            )
        raise UsageError(
            f"the index {self.store.url} cannot be pickled or copied, because it holds a "
            "connection to its store; open it in each process with nearkin.Index.open(url)"
        )

    def _wait_until_writable(self) -> None:
        """Blocks while a migration copies its last documents."""
        until = time.monotonic() + MAX_PAUSE_SECONDS
        while self.follow and self.state.migration.phase in (CLOSING, FILLING):
            self.refresh()
            _, phase, urls = self.state.migration
            timed_out = phase == CLOSING and time.monotonic() > until
            if phase == FILLING or timed_out:
                reason = f"has been closed for {MAX_PAUSE_SECONDS:.0f} s, for a cutover"
                if phase == FILLING:
                    reason = f"is being filled from {' '.join(urls)}"
                elif urls:
                    reason += f" to {' '.join(urls)}"
                raise StoreError(
                    f"{self.store.url} {reason}; try again later, or, if that migration was "
                    "interrupted, open the store as it is with nearkin index rebuild --cut-back"
                )
            time.sleep(POLL_SECONDS)

    def run_step(self, scope: str, action: Callable[[], R]) -> R:
        """Runs a step under its scope's lock. Repeats it after a conflict or a migration."""
        # no error is kept in a variable: its traceback holds this frame, and both would live until
        # the garbage collector runs
        attempts = 0
        races = 0
        until = time.monotonic() + MAX_RACE_SECONDS
        while True:
            self.refresh_if_due()
            self._wait_until_writable()
            has_moved = False
            large_cluster: LargeClusterError | None = None
            try:
                # one writer of a scope at a time within this process
                with self._locks[hash(require_scope(scope)) % LOCK_STRIPES]:
                    return action()
            except MovedError:
                attempts += 1
                is_late = races >= MIN_RACES and time.monotonic() > until
                if not self.follow or attempts == MAX_ATTEMPTS or is_late:
                    raise
                has_moved = True
            except RacedError:
                races += 1
                if races >= MIN_RACES and time.monotonic() > until:
                    raise
            except LargeClusterError as error:
                attempts += 1
                if attempts == MAX_ATTEMPTS or self.drain_cluster is None:
                    raise
                # a copy, which has no traceback
                large_cluster = LargeClusterError(error.leader, error.into, inherits=error.inherits)
            if large_cluster is not None and self.drain_cluster is not None:
                self.drain_cluster(scope, large_cluster)
            elif has_moved:
                self.refresh()
                if self.state.migration.phase == OPEN:
                    # another process wrote decisions, which is no more than a conflict
                    attempts -= 1
                    races += 1
            else:
                self.cache.clear()
                # a random pause, so that two steps that met do not meet again
                longest = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** min(races - 1, 16))
                time.sleep(random() * longest)

    def apply(self, changes: Changes) -> None:
        """Applies the changes of a step to the store, and forgets what they make wrong."""
        migration = self.state.migration
        if self.follow and migration.phase == CLOSING:
            raise MovedError(f"{self.store.url} is being moved")
        changes.epoch = migration.epoch
        # what observers add is never cached
        changes.invalidates_caches = bool(
            changes.dropped or changes.posted or changes.unposted or changes.expected
        )
        observers = OBSERVERS.get()
        for before in observers.before:
            before(changes)
        if self.follow:
            stage_counts(self, changes)
        if migration.phase == COPYING:
            now = self.clock()
            changes.events += [
                Event(TOUCHED, keyed.entry.scope, keyed.entry.id, "", now)
                for keyed in (*changes.dropped, *changes.new)
            ]
        self.stage_passages(changes)
        self.stage_history(changes)
        is_done = False
        step = object()
        try:
            if changes.invalidates_caches:
                self.cache.begin_step(step)
            self.store.apply(changes)
            for after in observers.after:
                after(changes)
            for entry in changes.changed:
                self.cache.forget(entry.scope, entry.id)
            for keyed in changes.dropped:
                self.cache.forget(keyed.entry.scope, keyed.entry.id)
            is_done = True
        finally:
            if changes.invalidates_caches:
                self.cache.end_step(step, done=is_done)

    def stage_passages(self, changes: Changes) -> None:
        """Adds the fingerprints of passages to a step, if the index has them.

        `apply` does this, too. So it is for steps that are applied to the store directly.
        """
        if self.searcher.passages is not None:
            self.searcher.passages.postings.stage(changes, self.store)

    def stage_history(self, changes: Changes) -> None:
        """Adds the lines of the history to a step, if the index keeps one, as `apply` does."""
        if self.state.migration.phase == FILLING:
            # a copy takes over the lines of its source
            changes.events = []
        elif self.keeps_history:
            from nearkin.index.history import lines_of

            changes.events = lines_of(changes, self.clock())
            changes.keeps_log = True

    def set_history(self, seconds: float) -> None:
        """Stores how long lines of the history are kept, for all processes."""
        from nearkin.index.history import HISTORY_SCOPE, stage_setting

        if self._read_history(self.store) != seconds:
            self.run_step(
                HISTORY_SCOPE,
                lambda: self.apply(stage_setting(self.store, seconds, self.clock())),
            )
            self.fence()

    def fence(self) -> None:
        """Raises the epoch, so that no process makes another step without what was stored.

        The epoch of an index that is being copied belongs to the migration. Other processes then
        read what was stored at their next refresh.
        """
        searcher = self.searcher
        migration = searcher.store.state().migration
        if migration.phase == OPEN:
            # if another process has raised it, all processes read what was stored, too
            with suppress(RacedError):
                searcher.store.redirect(migration._replace(epoch=migration.epoch + 1))
        self.refresh()

    def confirm_state(self) -> StoreState:
        """Returns the store's state if the index is still in this store.

        A caller that answers from what was read, and writes nothing, calls this after reading. A
        step that writes is refused if the index has moved, and such an answer must be refused, too.
        """
        state = self.store.state()
        if state.migration.epoch != self.state.migration.epoch:
            raise MovedError(f"{self.store.url} is being moved")
        return state

    def entry_of(self, scope: str, id: str) -> Entry | None:
        """Returns the entry of a document, or None if it does not exist."""
        # it keeps the store open if the index moves meanwhile
        searcher = self.searcher
        return searcher.store.entries(require_scope(scope), [require_id(id)])[0]

    def entry_or_confirmed_absence(self, scope: str, id: str) -> Entry | None:
        """Returns the entry of a document for a step. Only the current store returns None."""
        entry = self.entry_of(scope, id)
        if entry is None:
            self.confirm_state()
        return entry


def _configuration_salt(spec: Spec, banding: "Banding") -> bytes:
    """Returns the salt that gives a configuration buckets of its own."""
    return f"{spec.fingerprint}:{banding.bands}:{banding.rows}:{banding.probes}".encode()


def _vector_preparer(settings: IndexSettings, resources: "SpecResources") -> "Preparer | None":
    """Returns the preparer of the vectors of an index of texts and vectors, or None."""
    from nearkin.index.preparation import Preparer
    from nearkin.stages.measures import BandingRequest, measure_of

    vector = settings.vector
    if vector is None:
        return None
    assert vector.threshold is not None
    measure = measure_of(vector.spec, resources)
    request = BandingRequest(
        threshold=vector.threshold,
        recall=vector.recall,
        bands=vector.bands,
        rows=vector.rows,
        tables=1,
        probes=0,
        documents=settings.documents,
    )
    banding = measure.banding(request)
    salt = _configuration_salt(vector.spec, banding)
    return Preparer(measure, banding, resources, salt, settings.max_document_bytes)
