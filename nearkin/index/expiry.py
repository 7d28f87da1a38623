"""The deletion of documents and postings whose time to live is over."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from nearkin.errors import RacedError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import SCOPES_PLACE, Entry, batches_by_scope
from nearkin.index.handovers import Handover, is_handovers_scope, standing_heir
from nearkin.index.history import is_kept_forever, read_setting, trim_history
from nearkin.index.parts import document_of_part
from nearkin.index.removal import leader_snapshot
from nearkin.index.scope_settings import ScopeRecord
from nearkin.index.session import Session
from nearkin.index.spare_buckets import all_keys_of
from nearkin.index.stores.base import Store
from nearkin.index.stores.sharded import ShardedStore

UNPOSTED_AT_ONCE = 200
"""The number of documents that leave their buckets in one step."""
TURN_FACTOR = 1.5
"""The number of intervals without a sweep after which another process takes over."""


class _DueEntries(NamedTuple):
    """Documents that were last seen before a time, after which they are kept."""

    before: float
    """The time, in seconds of the clock."""
    entries: Iterator[Entry]
    """The documents without their content."""


class Expiry:
    """The sweeps of an open index."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def expire(self, *, trust_clock: bool) -> dict[str, int]:
        """Deletes expired documents and postings, as `Index.expire` does."""
        session = self._session
        session.refresh_if_due()
        # it keeps the store open if the index moves during a step
        searcher = session.searcher
        store = searcher.store
        if isinstance(store, ShardedStore):
            store.sweep_strays()
        self._require_plausible_clock(trusted=trust_clock)
        now = session.clock()
        records = 0
        postings = 0
        for portion in self._due(store, now, "bucket_ttl"):
            for scope, entries in batches_by_scope(portion.entries, UNPOSTED_AT_ONCE):
                postings += session.run_step(
                    scope, partial(self.remove_postings, store, scope, entries)
                )
        # members first: a representative stays while others are resolved to it
        for expires_leaders in (False, True):
            for portion in self._due(store, now, "record_ttl"):
                for entry in portion.entries:
                    if entry.is_leader == expires_leaders:
                        step = partial(self._expire_document, entry, portion.before)
                        records += session.run_step(entry.scope, step)
        if session.keeps_history:
            trim_history(store, now - read_setting(store))
        return {"records": records, "postings": postings}

    def _due(self, store: Store, now: float, name: str) -> Iterator[_DueEntries]:
        """Yields the documents whose time to live is over: first those without one of their scope.

        Args:
            name: `record_ttl` or `bucket_ttl`.
        """
        posted = name == "bucket_ttl"
        records = [ScopeRecord.of(entry) for entry in store.scan(SCOPES_PLACE)]
        times = {record.scope: getattr(record.settings, name) for record in records}
        times = {scope: now - ttl for scope, ttl in times.items() if ttl is not None}
        ttl = getattr(self._session.settings, name)
        if ttl is not None:
            due = store.due(now - ttl, posted=posted)
            yield _DueEntries(now - ttl, (entry for entry in due if entry.scope not in times))
        for scope, before in times.items():
            entries = store.scan(scope, content=False)
            yield _DueEntries(
                before, (e for e in entries if e.seen < before and e.posted >= posted)
            )

    def sweep(self, every: float) -> dict[str, int]:
        """Expires documents if it is this process's turn, as `Index.sweep` does."""
        session = self._session
        # before the turn is taken: a process with a wrong clock must not keep others from sweeping
        self._require_plausible_clock(trusted=False)
        # it keeps the store open if the index moves meanwhile
        searcher = session.searcher
        if searcher.store.take_turn("sweep", session.process_name, TURN_FACTOR * every):
            return self.expire(trust_clock=False)
        return {"records": 0, "postings": 0}

    def _require_plausible_clock(self, *, trusted: bool) -> None:
        settings = self._session.settings
        if settings.bucket_ttl is not None or settings.record_ttl is not None:
            self._session.clocks.require_plausible(
                settings.bucket_ttl, settings.record_ttl, trusted=trusted
            )

    def _expire_document(self, due: Entry, before: float) -> bool:
        """Deletes a document if it is still due and no other document is resolved to it."""
        session = self._session
        entry = session.entry_of(due.scope, due.id)
        if entry is None or entry.seen >= before or is_kept_forever(entry.scope):
            return False
        document = document_of_part(entry)
        if document is not None:
            head = session.entry_of(entry.scope, document)
            # parts live as long as their document, whose time each part renews
            if head is not None and head.seen >= before:
                return False
        if entry.is_leader and session.store.members(entry.scope, entry.id, 1, content=False):
            return False
        if is_handovers_scope(entry.scope) and standing_heir(session.store, Handover.of(entry)):
            return False
        keys = None
        if entry.posted:
            keys = all_keys_of(entry, session.documents.keys_of(entry.scope, [entry])[0])
        session.apply(
            Changes(
                dropped=[KeyedEntry(entry, keys)], leader_snapshots=[leader_snapshot(entry, [])]
            )
        )
        return True

    def remove_postings(self, store: Store, scope: str, due: list[Entry]) -> int:
        """Takes documents out of their buckets. They stay, but nothing new is resolved to them."""
        session = self._session
        if store is not session.store:
            # numbers of documents have no meaning in the store that the index has moved to
            return 0
        seen = {entry.ref: entry.seen for entry in due}
        entries = [
            entry
            for entry in store.by_refs(list(seen))
            if entry is not None
            and entry.posted
            and entry.scope == scope
            and entry.seen == seen[entry.ref]
        ]
        if not entries:
            return 0
        keys = session.documents.keys_of(scope, entries)
        leaders = {entry.id: entry for entry in entries if entry.is_leader}
        missing = sorted({entry.leader for entry in entries} - set(leaders))
        for leader in store.entries(scope, missing):
            if leader is not None and leader.is_leader:
                leaders[leader.id] = leader
        changes = Changes(
            unposted=[
                KeyedEntry(entry, all_keys_of(entry, keys[i])) for i, entry in enumerate(entries)
            ],
            changed=[entry._replace(posted=False) for entry in entries],
            required_leaders=list(leaders.values()),
        )
        try:
            session.apply(changes)
        except RacedError:
            # another process changed one of them, so that the next sweep tries again
            return 0
        return len(entries)
