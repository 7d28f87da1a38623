"""The copy of documents from one index to another, of the same Spec or of another one."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, takewhile
from typing import NamedTuple, Self, TypedDict, TypeVar

import numpy as np

from nearkin.errors import UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.decision_records import is_decisions_scope, parse_entry, scopes_with_decisions
from nearkin.index.documents import CheckedDocument, CheckedPair, ShingledDocument
from nearkin.index.entry import (
    PROGRESS_PREFIX,
    SCOPES_PLACE,
    VERSIONS_PREFIX,
    Entry,
    Outcome,
    batches_by_scope,
)
from nearkin.index.handovers import is_handovers_scope
from nearkin.index.history import HISTORY_SCOPE, HistoryCopy
from nearkin.index.index import Index
from nearkin.index.migration.state import FILLING, MOVED, OPEN, MigrationState
from nearkin.index.parts import document_of_part, is_parts_scope, listed_parts
from nearkin.index.removal import similarity_bound
from nearkin.index.scope_settings import ScopeRecord, require_findable
from nearkin.index.stores.base import PORTION, Store
from nearkin.runtime.setting_names import name_setting
from nearkin.stages.sketch.resources import shingle_facts

T = TypeVar("T")
RESOLVED_AT_ONCE = 200
"""The number of documents without content that are copied in one step."""
DOCUMENTS_AT_ONCE = 1000
"""The number of documents that are copied at once."""
UNLIMITED_SIZE = 1 << 40
"""The maximum size of a document of a copy: stored documents were accepted before."""


class CopyCounts(NamedTuple):
    """The numbers of documents that were changed in a copy."""

    written: int
    removed: int

    def add(self, other: "CopyCounts") -> "CopyCounts":
        """Returns the sums of two counts."""
        return CopyCounts(self.written + other.written, self.removed + other.removed)


NOTHING_COPIED = CopyCounts(0, 0)


class CopyComparison(TypedDict):
    """The comparison of a copy with its source, as commands print it."""

    documents: int
    """The number of documents of the copy."""
    clusters_before: int
    """The number of clusters of the source."""
    clusters_after: int
    """The number of clusters of the copy."""
    same_role: int
    """The number of documents that are representatives in both, or members in both."""
    same_cluster: int
    """The number of documents whose cluster has the same id in both."""


class Copier:
    """Copies the documents of a store into an open index, of the same Spec or of another one.

    Attributes:
        left_out: The scopes and ids of documents that were left out.
    """

    def __init__(
        self,
        source: Store,
        source_urls: tuple[str, ...],
        target: Index,
        *,
        same_shingles: bool,
        leaves_out: Callable[[Entry], bool] = lambda _: False,
    ) -> None:
        self.source = source
        self.source_urls = source_urls
        """The URLs of the source, without passwords."""
        self.target = target
        self.copy = target._session.store
        """The store of the target."""
        self._same_shingles = same_shingles
        """True if shingles can be copied if texts are not stored."""
        self._leaves_out = leaves_out
        self.left_out: set[tuple[str, str]] = set()
        self.history = HistoryCopy(source, self.copy)

    @classmethod
    def between(cls, source: Index, target: Index) -> Self:
        """Returns the copier from one open index to another one."""
        facts = [
            (index._session.preparer.takes_shingles, shingle_facts(index.spec), index.spec.cut)
            for index in (source, target)
        ]
        store = source._session.store
        return cls(store, source.public_urls, target, same_shingles=facts[0] == facts[1])

    def claim(self, *excluded_urls: str) -> None:
        """Marks the target as being filled, so that no other process writes to it."""
        copy = self.copy
        migration = copy.state().migration
        if self.source_urls == self.target.public_urls or copy.url in excluded_urls:
            raise UsageError(
                f"an index at {self.source.url} cannot move to {copy.url}; give the URL of "
                "another store"
            )
        # the store that the index came from refers to the source until it is released
        if (migration.phase, migration.urls) != (MOVED, self.source_urls):
            is_unfinished_copy = (migration.phase, migration.urls) == (FILLING, self.source_urls)
            if copy.counts()["records"] and not is_unfinished_copy:
                raise UsageError(f"{copy.url} already has documents; rebuild into an empty store")
            copy.redirect(MigrationState(migration.epoch + 1, FILLING, self.source_urls))
        if self.source.is_protected():
            # a copy of a protected index must not be served without tokens
            copy.protect()
        self.target.refresh()

    def exclude_other_fillers(self) -> None:
        """Raises the epoch of the copy, so that only this process can fill it."""
        migration = self.copy.state().migration
        self.copy.redirect(migration._replace(epoch=migration.epoch + 1))
        self.target.refresh()

    def release(self) -> None:
        """Opens the filled copy, which is an index like any other from then on."""
        self.history.copy_new()
        self.copy.redirect(MigrationState(self.copy.state().migration.epoch + 1, OPEN))
        self.target.refresh()

    def is_finished(self, left_out: Collection[tuple[str, str]] = ()) -> bool:
        """Returns True if the target holds the documents already, and is open.

        A command that was killed when everything was done is then complete.
        """
        if self.copy.state().migration.phase != OPEN or not self.copy.counts()["records"]:
            return False
        return self.count_differences(left_out) == 0

    def count_differences(self, left_out: Collection[tuple[str, str]]) -> int:
        """Returns the number of documents that only one side has, or whose contents differ."""
        contents = {
            (entry.scope, entry.id): entry.digest for entry in self.copy.scan(content=False)
        }
        differing = 0
        for entry in self.source.scan(content=False):
            name = (entry.scope, entry.id)
            if name not in left_out:
                differing += contents.pop(name, b"") != entry.digest
        return differing + len(contents)

    def copy_missing(self, keep_going: Callable[[], bool] = lambda: True) -> CopyCounts:
        """Makes the copy equal to its source. Documents that agree already are not written."""
        scans = [self.source.scan(content=False)]
        if self.copy.counts()["records"]:
            scans.append(self.copy.scan(content=False))
        total = NOTHING_COPIED
        # documents follow decisions when they are copied
        self._copy_decisions()
        batches = batches_by_scope(chain(*scans))
        for scope, entries in takewhile(lambda _: keep_going(), batches):
            total = total.add(self._copy_ids(scope, [entry.id for entry in entries]))
        # documents without content were copied as they are resolved, without a search
        self._copy_decisions()
        self.follow_given_decisions()
        return total

    def copy_documents(self, names: Iterable[tuple[str, str]]) -> CopyCounts:
        """Makes some documents of the copy equal to those of the source."""
        ids_by_scope: dict[str, list[str]] = {}
        for scope, id in names:
            ids_by_scope.setdefault(scope, []).append(id)
        total = NOTHING_COPIED
        for scope, ids in ids_by_scope.items():
            for portion in _portions(ids, DOCUMENTS_AT_ONCE):
                total = total.add(self._copy_ids(scope, portion))
        return total

    def follow_given_decisions(self) -> None:
        """Moves documents until the decisions that the target was opened with are followed."""
        for scope, given in self.target._session.guard.given.items():
            self.target._decisions.follow(scope, given.of_pairs)

    def _copy_ids(self, scope: str, ids: Sequence[str]) -> CopyCounts:
        """Makes documents of one scope of the copy equal to those of the source."""
        wanted = dict(zip(ids, self.source.entries(scope, ids), strict=True))
        for id, entry in wanted.items():
            if entry is not None and self._leaves_out(entry):
                self.left_out.add((scope, id))
                # an earlier version of it, whose text was stored, may have been copied
                wanted[id] = None
        return self._copy_entries(scope, wanted)

    def _copy_entries(self, scope: str, wanted: Mapping[str, Entry | None]) -> CopyCounts:
        """Makes documents of one scope of the copy equal to given ones.

        A document without content cannot be searched for. It is resolved to the copy of its
        representative.
        """
        target = self.target
        existing = dict(zip(wanted, target.get_many(scope, list(wanted)), strict=True))
        if is_parts_scope(scope):
            heads = [*wanted.values(), *existing.values()]
            names = {part.name for head in heads for part in listed_parts(head)}
            missing = sorted(names - set(wanted))
            parts = dict(zip(missing, self.source.entries(scope, missing), strict=True))
            wanted = parts | dict(wanted)
            existing = dict(zip(wanted, target.get_many(scope, list(wanted)), strict=True))
            if not self._same_shingles:
                _require_no_parts(wanted)
            return self._copy_unchanged(scope, wanted, existing)
        unchanged = (VERSIONS_PREFIX, PROGRESS_PREFIX, HISTORY_SCOPE)
        if is_handovers_scope(scope) or scope.startswith(unchanged):
            return self._copy_unchanged(scope, wanted, existing)
        if scope == SCOPES_PLACE:
            for entry in wanted.values():
                threshold = None if entry is None else ScopeRecord.of(entry).settings.threshold
                if entry is not None and threshold is not None:
                    name = ScopeRecord.of(entry).scope
                    require_findable(target._session, name, threshold)
            counts = self._copy_unchanged(scope, wanted, existing)
            target._session.guard.forget()
            return counts
        if is_decisions_scope(scope):
            counts = self._copy_unchanged(scope, wanted, existing)
            self._follow_decisions([entry for entry in wanted.values() if entry is not None])
            return counts
        differing = [
            entry
            for entry in wanted.values()
            if entry is not None and not _has_same_content(entry, existing[entry.id])
        ]
        self.upsert(scope, differing)
        surplus = [id for id, entry in wanted.items() if entry is None and existing[id] is not None]
        # parts of an unfinished document of the same id are copied by themselves
        removed = sum(target._removals.remove(scope, id) for id in surplus)
        return CopyCounts(len(differing), removed)

    def _copy_decisions(self) -> None:
        """Copies the decisions and the settings of scopes, which the copy then follows."""
        for scope in (SCOPES_PLACE, *scopes_with_decisions(self.source)):
            for _, entries in batches_by_scope(self.source.scan(scope)):
                self._copy_entries(scope, {entry.id: entry for entry in entries})

    def _follow_decisions(self, entries: Sequence[Entry]) -> None:
        """Moves the documents of the copy until copied decisions about them are followed."""
        self.target._session.guard.forget()
        for entry in entries:
            stored = parse_entry(entry)
            if stored is not None:
                self.target._decisions.follow(stored.scope, [stored.decision.pair])

    def upsert(self, scope: str, entries: Sequence[Entry]) -> list[Outcome]:
        """Upserts documents of the source, and returns the outcomes of those with content.

        Documents without content keep their resolution.
        """
        known, resolved = self._partition_by_content(entries)
        outcomes = self._upsert_known(scope, known)
        for portion in _portions(resolved, RESOLVED_AT_ONCE):
            # representatives may have a higher number than their members
            names = sorted({entry.leader for entry in portion})
            stored = self.target.get_many(scope, names)
            missing = [name for name, entry in zip(names, stored, strict=True) if entry is None]
            leaders = [entry for entry in self.source.entries(scope, missing) if entry is not None]
            known, unknown = self._partition_by_content(leaders)
            self._upsert_known(scope, known)
            self._write_resolved(scope, unknown)
            copied = {entry.id for entry in unknown}
            self._write_resolved(scope, [entry for entry in portion if entry.id not in copied])
        return outcomes

    def _partition_by_content(self, entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Returns the documents that can be upserted, and those that keep their resolution."""
        # without equal shingles, `_text_of` explains that a text is missing
        keeps_resolutions = self.target.holds_vectors or self._same_shingles
        known: list[Entry] = []
        resolved: list[Entry] = []
        for entry in entries:
            is_known = entry.has_content or not keeps_resolutions
            (known if is_known else resolved).append(entry)
        return known, resolved

    def _upsert_known(self, scope: str, entries: Sequence[Entry]) -> list[Outcome]:
        """Upserts documents with content, and returns the outcomes."""
        outcomes: list[Outcome] = []
        for portion in _portions(entries, self.target.settings.max_batch):
            documents = [self._document_of(entry) for entry in portion]
            outcomes += self.target.upsert_many(scope, documents, [entry.id for entry in portion])
        return outcomes

    def _document_of(self, entry: Entry) -> CheckedDocument:
        """Returns the content of a stored document as the target can upsert it."""
        if self.target.holds_vectors:
            return np.frombuffer(entry.payload, np.float32)
        documents = self.target._session.documents
        if self.target.holds_both:
            text = None
            if entry.text is not None or entry.size:
                text = self._text_of(documents.split([entry])[0][0])
            return CheckedPair(text, documents.vector_of(entry), entry.digest)
        return self._text_of(entry)

    def _text_of(self, entry: Entry) -> str | ShingledDocument:
        """Returns the text of a document, or its shingles if both sides make the same ones."""
        if entry.text is not None:
            return entry.text
        if self._same_shingles and self.target._session.preparer.takes_shingles:
            return ShingledDocument(np.frombuffer(entry.payload, np.uint64), digest=entry.digest)
        raise UsageError(
            f"the text of {entry.id!r} is not stored ({name_setting('store_text', value=False)}); "
            "an index with other shingles needs it"
        )

    def _write_resolved(self, scope: str, entries: Sequence[Entry]) -> None:
        """Writes documents without content, whose representatives the copy has."""
        if not entries:
            return
        target = self.target
        session = target._session
        existing = target.get_many(scope, [entry.id for entry in entries])
        new: list[Entry] = []
        for entry, old in zip(entries, existing, strict=True):
            if not _has_same_content(entry, old):
                new.append(entry)
                if old is not None:
                    target._removals.remove(scope, entry.id)

        def write() -> None:
            names = sorted({entry.leader for entry in new})
            leaders = dict(zip(names, session.store.entries(scope, names), strict=True))
            copies: list[KeyedEntry] = []
            changes = Changes(new=copies)
            for entry in new:
                copy, leader = _resolved_copy(entry, leaders[entry.leader], target)
                copies.append(KeyedEntry(copy, None))
                if leader is not None:
                    changes.required_leaders.append(leader)
            session.apply(changes)

        session.run_step(scope, write)

    def _copy_unchanged(
        self,
        scope: str,
        wanted: Mapping[str, Entry | None],
        existing: Mapping[str, Entry | None],
    ) -> CopyCounts:
        """Copies entries that are compared with nothing: parts, handovers and decisions."""
        total = NOTHING_COPIED
        session = self.target._session
        for id, entry in wanted.items():
            old = existing[id]
            if entry is None and old is None:
                continue
            if entry is not None and _has_same_content(entry, old):
                continue
            changes = Changes()
            if old is not None:
                changes.dropped.append(KeyedEntry(old, None))
            if entry is not None:
                # entries of older versions have a signature, which may be of another kind; it is
                # computed when the document is finished
                is_part = document_of_part(entry) is not None
                signature = entry.signature if is_part else b""
                changes.new = [KeyedEntry(entry._replace(ref=0, signature=signature), None)]
            session.run_step(scope, partial(session.apply, changes))
            total = total.add(CopyCounts(int(entry is not None), int(entry is None)))
        return total


def _require_no_parts(wanted: Mapping[str, Entry | None]) -> None:
    """Requires that no document is unfinished, because the texts of parts are not stored."""
    for id, entry in wanted.items():
        if entry is not None:
            raise UsageError(
                f"the document {id!r} arrives in parts and is not finished; the texts of parts are "
                "not stored, so an index with other shingles cannot copy it; finish it first"
            )


def _portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _resolved_copy(entry: Entry, leader: Entry | None, target: Index) -> tuple[Entry, Entry | None]:
    """Returns a document without content as a copy stores it, and the leader that must exist.

    It is a representative of its own, in no buckets, if its representative is missing, or if their
    similarity is below the threshold of the copy.
    """
    copy = entry._replace(ref=0, posted=False, signature=b"")
    is_below = leader is not None and leader.is_leader and entry.similarity < target.threshold
    if leader is None or leader.id == entry.id or is_below:
        return copy._replace(leader=entry.id, cluster=entry.id, similarity=1.0), None
    if leader.is_leader:
        return copy._replace(leader=leader.id, cluster=leader.cluster), leader
    similarity = similarity_bound(target.spec.measure, entry.similarity, leader.similarity)
    root = target.get(entry.scope, leader.leader)
    copy = copy._replace(leader=leader.leader, cluster=leader.cluster, similarity=similarity)
    return copy, root


def _has_same_content(entry: Entry, other: Entry | None) -> bool:
    return other is not None and other.digest == entry.digest


def keep_cluster_ids_and_compare(source: Store, copy: Store) -> CopyComparison:
    """Gives the clusters of a copy their previous ids, and counts what agrees with the source."""
    _keep_cluster_ids(_clusters_of(source), copy)
    return compare_clusters(source, copy)


def _clusters_of(store: Store) -> dict[tuple[str, str], tuple[str, bool]]:
    """Returns the cluster id of each document, and whether it is a representative."""
    return {
        (entry.scope, entry.id): (entry.cluster, entry.is_leader)
        for entry in store.scan(content=False)
    }


def compare_clusters(source: Store, copy: Store) -> CopyComparison:
    """Counts what agrees in a copy and its source."""
    previous = _clusters_of(source)
    before = source.counts()
    after = copy.counts()
    same_role = 0
    same_cluster = 0
    for entry in copy.scan(content=False):
        cluster, was_leader = previous.get((entry.scope, entry.id), (None, None))
        same_role += was_leader == entry.is_leader
        same_cluster += cluster == entry.cluster
    return CopyComparison(
        documents=after["records"],
        clusters_before=before["leaders"],
        clusters_after=after["leaders"],
        same_role=same_role,
        same_cluster=same_cluster,
    )


def _keep_cluster_ids(previous: Mapping[tuple[str, str], tuple[str, bool]], store: Store) -> None:
    """Gives each cluster the previous id of its representative's cluster.

    If several clusters could have an id, the one whose representative was it before gets it.
    """
    leaders = [entry for entry in store.scan(content=False) if entry.is_leader]
    leaders.sort(key=lambda leader: not previous.get((leader.scope, leader.id), ("", False))[1])
    used_ids: set[tuple[str, str]] = set()
    for leader in leaders:
        old_id, _ = previous.get((leader.scope, leader.id), (leader.cluster, False))
        cluster = leader.cluster
        for candidate in (old_id, leader.cluster, leader.id):
            if (leader.scope, candidate) not in used_ids:
                cluster = candidate
                break
        used_ids.add((leader.scope, cluster))
        if cluster != leader.cluster:
            _rename_cluster(store, leader, cluster)


def _rename_cluster(store: Store, leader: Entry, cluster: str) -> None:
    """Gives a cluster another id, in portions.

    The representative is last, so that a repetition does the rest.
    """
    last = 0
    while page := store.members(leader.scope, leader.id, PORTION, after=last, content=False):
        last = page[-1].ref
        _set_cluster(store, [entry.ref for entry in page], cluster)
    _set_cluster(store, [leader.ref], cluster)


def _set_cluster(store: Store, refs: list[int], cluster: str) -> None:
    # members of a page come without content, so they are read again
    entries = [entry for entry in store.by_refs(refs) if entry is not None]
    changed = [entry._replace(cluster=cluster) for entry in entries]
    store.apply(Changes(changed=changed, invalidates_caches=True))
