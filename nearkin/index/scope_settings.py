"""The settings of scopes, over those of the index, and the use of their quotas.

The record of a scope is an entry of a reserved scope. Each step that inserts or deletes documents
of a scope with a quota replaces its record, so that of two such steps at once one fails and is
repeated.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearkin.errors import QuotaError, StoreError, UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import SCOPES_PLACE, Entry, internal_entry, require_scope, reserved_scope
from nearkin.index.settings import IndexSettings, parse_bytes, require_in_ranges
from nearkin.index.stores.base import Store
from nearkin.runtime.argument_types import check_fields
from nearkin.runtime.setting_names import name_setting

if TYPE_CHECKING:
    from nearkin.index.session import Session

COUNTED_AT_ONCE = 1_000
"""The number of documents that are counted in one step."""


@dataclass(frozen=True)
class ScopeSettings:
    """The settings of a scope. None stands for the setting of the index, or for no quota.

    Attributes:
        threshold: Minimum similarity of a document of the scope to the representative it is
            resolved to, in (0, 1].
        record_ttl: Seconds that a document of the scope is kept after it was last seen.
        bucket_ttl: Seconds that a posting of the scope is kept after it was last used.
        max_documents: Maximum number of documents of the scope.
        max_bytes: Maximum size of the ids and contents of these documents, in bytes or as a size
            such as `5GB`.
    """

    threshold: float | None = None
    record_ttl: float | None = None
    bucket_ttl: float | None = None
    max_documents: int | None = None
    max_bytes: int | str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.max_bytes is not None:
            object.__setattr__(self, "max_bytes", parse_bytes(self.max_bytes, "max_bytes"))
        require_in_ranges(self)

    @cached_property
    def search_settings(self) -> tuple[tuple[str, float], ...]:
        """The settings that replace those of the index in a search. Each search reads them."""
        values = {name: getattr(self, name) for name in ("threshold", "record_ttl", "bucket_ttl")}
        return tuple((name, value) for name, value in values.items() if value is not None)

    @property
    def has_quota(self) -> bool:
        """True if the documents of the scope are counted."""
        return (self.max_documents, self.max_bytes) != (None, None)


@dataclass(frozen=True)
class ScopeStatus:
    """The settings of a scope, and the use of its quotas.

    Attributes:
        settings: The settings.
        used_documents: Number of documents of the scope if it has a quota, otherwise None.
        used_bytes: Size of their ids and contents if the scope has a quota, otherwise None.
    """

    settings: ScopeSettings = ScopeSettings()
    used_documents: int | None = None
    used_bytes: int | None = None


class ScopeRecord(NamedTuple):
    """The settings and the counts of a scope, as they are stored.

    Documents up to the number `end` are counted in steps, of which the last one ended at `counted`.
    """

    scope: str
    settings: ScopeSettings
    lowest: float | None = None
    """The lowest threshold that the scope has had, or None if it only had that of the index."""
    documents: int = 0
    bytes: int = 0
    counted: int = 0
    end: int = 0

    @classmethod
    def of(cls, entry: Entry) -> "ScopeRecord":
        """Returns the record that an entry stores."""
        values = json.loads(entry.text or "")
        return cls(**{**values, "settings": ScopeSettings(**values["settings"])})

    def to_entry(self, now: float) -> Entry:
        """Returns the entry that stores the record."""
        text = json.dumps({**self._asdict(), "settings": asdict(self.settings)})
        digest = hashlib.sha256(text.encode()).digest()[:16]
        return internal_entry(SCOPES_PLACE, record_id(self.scope), digest, now, text)

    def includes(self, entry: Entry) -> bool:
        """Returns whether the counts include a stored document."""
        return entry.ref <= self.counted or entry.ref > self.end

    @property
    def status(self) -> ScopeStatus:
        """The record as callers see it."""
        if not self.settings.has_quota:
            return ScopeStatus(self.settings)
        return ScopeStatus(self.settings, self.documents, self.bytes)


def record_id(scope: str) -> str:
    """Returns the id of the entry that stores the record of a scope."""
    return reserved_scope("", require_scope(scope))


def read_record_entry(store: Store, scope: str) -> Entry | None:
    """Returns the entry that stores the record of a scope, or None if it has no settings."""
    return store.entries(SCOPES_PLACE, [record_id(scope)])[0]


def stored_bytes(entry: Entry, settings: IndexSettings) -> int:
    """Returns the size of a document for a quota: its id, its text or shingles, and its vector.

    It does not change when the document becomes a representative or a member.
    """
    content = 8 * entry.size if entry.text is None else len(entry.text.encode())
    specs = (settings.spec, settings.vector and settings.vector.spec)
    numbers = sum(spec.n for spec in specs if spec and spec.unit == "vector")
    return len(entry.id.encode()) + content + 4 * numbers


def require_findable(session: "Session", scope: str, threshold: float) -> None:
    """Requires that the bands of an index find documents at the threshold of a scope."""
    settings = session.settings
    given = f"{name_setting('threshold', threshold)} of the scope {scope!r}"
    if settings.distance is not None:
        raise UsageError(
            f"{given} is for an index with a threshold, and this one has "
            f"{name_setting('distance', settings.distance)}; leave it out"
        )
    if settings.related is not None and threshold <= settings.related:
        raise UsageError(
            f"{given} must be above {name_setting('related', settings.related)} of the index; "
            "give a larger one"
        )
    if threshold >= settings.search_threshold:
        return
    collision = session.measure.estimator.slot_collision_probability(np.array(threshold))
    recall = session.banding.candidate_probability(float(collision))
    if recall < settings.recall:
        raise UsageError(
            f"{given} is below that of the index, {session.threshold:g}, whose bands find "
            f"{recall:.1%} of the pairs at it, and not {settings.recall:.1%}; give a larger one, "
            "or rebuild the index with a lower threshold"
        )


def stage_counts(session: "Session", changes: Changes) -> None:
    """Adds the new counts of scopes with a quota to a step, or refuses the step."""
    keyed = (*changes.new, *changes.dropped)
    for scope in {entry.scope for entry, _ in keyed}:
        known = session.guard.record_of(session.store, scope)
        if known is None or not known.settings.has_quota:
            continue
        stored = read_record_entry(session.store, scope)
        if stored is None:
            continue
        record = ScopeRecord.of(stored)
        added: Counter[str] = Counter()
        for entries, sign in ((changes.new, 1), (changes.dropped, -1)):
            for entry, _ in entries:
                if entry.scope == scope and (sign == 1 or record.includes(entry)):
                    added["documents"] += sign
                    added["bytes"] += sign * stored_bytes(entry, session.settings)
        for unit in ("documents", "bytes"):
            limit = getattr(record.settings, f"max_{unit}")
            count = getattr(record, unit)
            if limit is not None and added[unit] > 0 and count + added[unit] > limit:
                raise QuotaError(
                    f"the quota of the scope {scope!r} is {name_setting(f'max_{unit}', limit)}, "
                    f"{count:,} are stored, and {added[unit]:,} more exceed it; delete documents, "
                    "or raise the quota"
                )
        stage_record(
            session,
            changes,
            stored,
            record._replace(
                documents=record.documents + added["documents"],
                bytes=record.bytes + added["bytes"],
            ),
        )


def stage_record(
    session: "Session", changes: Changes, stored: Entry | None, record: ScopeRecord
) -> None:
    """Adds the replacement of a record to a step. A record without settings is deleted."""
    if stored is not None:
        changes.dropped.append(KeyedEntry(stored, None))
    if record.lowest is not None or record.settings != ScopeSettings():
        changes.new.append(KeyedEntry(record.to_entry(session.clock()), None))


class ScopeConfiguration:
    """The steps that write the settings of scopes, and count their documents."""

    def __init__(self, session: "Session") -> None:
        self._session = session

    def write(self, scope: str, settings: ScopeSettings) -> None:
        """Stores the settings of a scope. Its documents are not counted yet."""

        def replace_settings(record: ScopeRecord) -> ScopeRecord:
            thresholds = [one for one in (record.lowest, settings.threshold) if one is not None]
            return record._replace(settings=settings, lowest=min(thresholds, default=None))

        if settings.threshold is not None:
            require_findable(self._session, scope, settings.threshold)
        self._update(scope, replace_settings)
        self._session.guard.forget()

    def count(self, scope: str) -> None:
        """Counts the documents of a scope, while others insert and delete some.

        It begins at zero. From then on steps count the documents with larger numbers.
        """
        # it keeps the store open if the index moves meanwhile
        searcher = self._session.searcher
        store = searcher.store

        def begin(record: ScopeRecord) -> ScopeRecord:
            return record._replace(documents=0, bytes=0, counted=0, end=store.last_number())

        self._update(scope, begin)
        entries = store.scan(scope, content=False)
        refs = [0] * COUNTED_AT_ONCE
        while len(refs) == COUNTED_AT_ONCE:
            refs = [entry.ref for entry in islice(entries, COUNTED_AT_ONCE)]
            self._update(scope, partial(self._count_portion, store, refs))

    def _count_portion(self, store: Store, refs: list[int], record: ScopeRecord) -> ScopeRecord:
        """Counts the documents of some numbers that are still stored."""
        session = self._session
        if store is not session.store:
            raise StoreError("the index moved while documents were counted; set the quota again")
        entries = store.by_refs([ref for ref in refs if record.counted < ref <= record.end])
        sizes = [stored_bytes(entry, session.settings) for entry in entries if entry is not None]
        is_last = len(refs) < COUNTED_AT_ONCE
        return record._replace(
            documents=record.documents + len(sizes),
            bytes=record.bytes + sum(sizes),
            counted=record.end if is_last else min(refs[-1], record.end),
        )

    def _update(self, scope: str, change: Callable[[ScopeRecord], ScopeRecord]) -> None:
        """Replaces the record of a scope in a step."""
        session = self._session

        def write() -> None:
            stored = read_record_entry(session.store, scope)
            empty = ScopeRecord(scope, ScopeSettings())
            changes = Changes()
            record = change(empty if stored is None else ScopeRecord.of(stored))
            stage_record(session, changes, stored, record)
            if changes:
                session.apply(changes)

        session.run_step(scope, write)
