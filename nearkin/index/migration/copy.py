"""The copy of documents from one index to another, of the same Spec or of another one."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, takewhile
from typing import NamedTuple, TypedDict, TypeVar

import numpy as np

from nearkin.errors import UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.decision_records import is_decisions_scope, parse_entry, scopes_with_decisions
from nearkin.index.documents import CheckedDocument, CheckedPair, ShingledDocument
from nearkin.index.entry import Entry, Outcome, batches_by_scope
from nearkin.index.handovers import is_handovers_scope
from nearkin.index.index import Index
from nearkin.index.migration.state import FILLING, MOVED, OPEN, MigrationState
from nearkin.index.parts import document_of_part, is_parts_scope, listed_parts
from nearkin.index.removal import similarity_bound
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


class CopySource(NamedTuple):
    """The store that documents are copied from. Its index need not be opened with its key."""

    store: Store
    public_urls: tuple[str, ...]
    """The URLs of the store, without passwords."""

    @classmethod
    def of(cls, index: Index) -> "CopySource":
        """Returns the store of an open index as a source."""
        return cls(index._session.store, index.public_urls)


def claim_target(source: CopySource, target: Index, *excluded_urls: str) -> None:
    """Marks a store as being filled, so that no other process writes to it."""
    store = target._session.store
    migration = store.state().migration
    if source.public_urls == target.public_urls or store.url in excluded_urls:
        raise UsageError(
            f"an index at {source.store.url} cannot move to {store.url}; give the URL of "
            "another store"
        )
    if (migration.phase, migration.urls) == (MOVED, source.public_urls):
        # the store that the index came from: it refers to the source until it is released
        _copy_protection(source, store)
        return
    is_unfinished_copy = (migration.phase, migration.urls) == (FILLING, source.public_urls)
    if store.counts()["records"] and not is_unfinished_copy:
        raise UsageError(f"{store.url} already has documents; rebuild into an empty store")
    store.redirect(MigrationState(migration.epoch + 1, FILLING, source.public_urls))
    _copy_protection(source, store)
    target.refresh()


def _copy_protection(source: CopySource, target: Store) -> None:
    """Protects a copy from being served without tokens if its source is protected."""
    if source.store.is_protected():
        target.protect()


def is_finished_copy(
    source: Store, target: Index, left_out: Collection[tuple[str, str]] = ()
) -> bool:
    """Returns True if an open index holds the documents of another one already.

    A command that was killed when everything was done is then complete.
    """
    copy = target._session.store
    if copy.state().migration.phase != OPEN or not copy.counts()["records"]:
        return False
    return count_differences(source, copy, left_out) == 0


def count_differences(source: Store, copy: Store, left_out: Collection[tuple[str, str]]) -> int:
    """Returns the number of documents that only one of two stores has, or whose contents differ."""
    contents = {(entry.scope, entry.id): entry.digest for entry in copy.scan(content=False)}
    differing = 0
    for entry in source.scan(content=False):
        name = (entry.scope, entry.id)
        if name not in left_out:
            differing += contents.pop(name, b"") != entry.digest
    return differing + len(contents)


def exclude_other_fillers(target: Index) -> None:
    """Raises the epoch of a copy, so that only this process can fill it."""
    store = target._session.store
    migration = store.state().migration
    store.redirect(migration._replace(epoch=migration.epoch + 1))
    target.refresh()


def release_target(target: Index) -> None:
    """Opens a filled copy, which is an index like any other from then on."""
    store = target._session.store
    store.redirect(MigrationState(store.state().migration.epoch + 1, OPEN))
    target.refresh()


def shares_shingles(source: Index, target: Index) -> bool:
    """Returns True if two indexes make the same shingles of a text.

    The shingles of one can then be copied to the other if texts are not stored.
    """
    facts = [
        (index._session.preparer.takes_shingles, shingle_facts(index.spec), index.spec.cut)
        for index in (source, target)
    ]
    return facts[0] == facts[1]


def document_of(entry: Entry, target: Index, *, same_shingles: bool) -> CheckedDocument:
    """Returns the content of a stored document as another index can upsert it."""
    if target.holds_vectors:
        return np.frombuffer(entry.payload, np.float32)
    if target.holds_both:
        text_entry = target._session.documents.split([entry])[0][0]
        text = None
        if entry.text is not None or entry.size:
            text = _text_of(text_entry, target, same_shingles=same_shingles)
        return CheckedPair(text, target._session.documents.vector_of(entry), entry.digest)
    return _text_of(entry, target, same_shingles=same_shingles)


def _text_of(entry: Entry, target: Index, *, same_shingles: bool) -> str | ShingledDocument:
    """Returns the text of a stored document, or its shingles if both indexes make the same ones."""
    if entry.text is not None:
        return entry.text
    if same_shingles and target._session.preparer.takes_shingles:
        return ShingledDocument(np.frombuffer(entry.payload, np.uint64), digest=entry.digest)
    raise UsageError(
        f"the text of {entry.id!r} is not stored ({name_setting('store_text', value=False)}); an "
        f"index with other "
        "shingles needs it"
    )


def _portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def copy_documents(source: Index, target: Index, names: Iterable[tuple[str, str]]) -> CopyCounts:
    """Makes some documents of a copy equal to those of the source."""
    ids_by_scope: dict[str, list[str]] = {}
    for scope, id in names:
        ids_by_scope.setdefault(scope, []).append(id)
    same_shingles = shares_shingles(source, target)
    store = source._session.store
    total = NOTHING_COPIED
    for scope, ids in ids_by_scope.items():
        for portion in _portions(ids, DOCUMENTS_AT_ONCE):
            entries_by_id = dict(zip(portion, store.entries(scope, portion), strict=True))
            total = total.add(
                copy_entries(store, target, scope, entries_by_id, same_shingles=same_shingles)
            )
    return total


def copy_missing(
    source: Index, target: Index, keep_going: Callable[[], bool] = lambda: True
) -> CopyCounts:
    """Makes a copy equal to its source. Documents that agree already are not written."""
    store = source._session.store
    copy = target._session.store
    same_shingles = shares_shingles(source, target)
    scans = [store.scan(content=False)]
    if copy.counts()["records"]:
        scans.append(copy.scan(content=False))
    total = NOTHING_COPIED
    # documents follow decisions when they are copied
    copy_decisions(store, target)
    batches = batches_by_scope(chain(*scans))
    for scope, entries in takewhile(lambda _: keep_going(), batches):
        ids = [entry.id for entry in entries]
        entries_by_id = dict(zip(ids, store.entries(scope, ids), strict=True))
        total = total.add(
            copy_entries(store, target, scope, entries_by_id, same_shingles=same_shingles)
        )
    # documents without content were copied as they are resolved, without a search
    copy_decisions(store, target)
    follow_given_decisions(target)
    return total


def follow_given_decisions(target: Index) -> None:
    """Moves the documents of a copy until the decisions that it was opened with are followed."""
    for scope, given in target._session.guard.given.items():
        target._decisions.follow(scope, given.of_pairs)


def copy_entries(
    source: Store,
    target: Index,
    scope: str,
    wanted: Mapping[str, Entry | None],
    *,
    same_shingles: bool,
) -> CopyCounts:
    """Makes documents of one scope of a copy equal to given ones.

    A document without content cannot be searched for. It is resolved to the copy of its
    representative.
    """
    existing = dict(zip(wanted, target.get_many(scope, list(wanted)), strict=True))
    if is_parts_scope(scope):
        heads = [*wanted.values(), *existing.values()]
        names = {part.name for head in heads for part in listed_parts(head)}
        missing = sorted(names - set(wanted))
        wanted = dict(zip(missing, source.entries(scope, missing), strict=True)) | dict(wanted)
        existing = dict(zip(wanted, target.get_many(scope, list(wanted)), strict=True))
        return _copy_unchanged(target, scope, wanted, existing, same_shingles=same_shingles)
    if is_handovers_scope(scope):
        return _copy_unchanged(target, scope, wanted, existing, same_shingles=True)
    if is_decisions_scope(scope):
        counts = _copy_unchanged(target, scope, wanted, existing, same_shingles=True)
        _follow_decisions(target, [entry for entry in wanted.values() if entry is not None])
        return counts
    differing = [
        entry
        for entry in wanted.values()
        if entry is not None and not _has_same_content(entry, existing[entry.id])
    ]
    known, resolved = partition_by_content(differing, target, same_shingles=same_shingles)
    upsert_copies(target, scope, known, same_shingles=same_shingles)
    copy_resolved(source, target, scope, resolved, same_shingles=same_shingles)
    surplus = [id for id, entry in wanted.items() if entry is None and existing[id] is not None]
    # parts of an unfinished document of the same id are copied by themselves
    return CopyCounts(len(differing), sum(target._removals.remove(scope, id) for id in surplus))


def copy_decisions(source: Store, target: Index) -> None:
    """Copies the decisions that an index stores, and follows them in the copy."""
    for scope in scopes_with_decisions(source):
        for _, entries in batches_by_scope(source.scan(scope)):
            wanted = {entry.id: entry for entry in entries}
            copy_entries(source, target, scope, wanted, same_shingles=True)


def _follow_decisions(target: Index, entries: Sequence[Entry]) -> None:
    """Moves the documents of a copy until copied decisions about them are followed."""
    target._session.guard.forget()
    for entry in entries:
        stored = parse_entry(entry)
        if stored is not None:
            target._decisions.follow(stored.scope, [stored.decision.pair])


def partition_by_content(
    entries: Iterable[Entry], target: Index, *, same_shingles: bool
) -> tuple[list[Entry], list[Entry]]:
    """Returns the documents that a copy can upsert, and those that keep their resolution."""
    # without equal shingles, `document_of` explains that a text is missing
    keeps_resolutions = target.holds_vectors or same_shingles
    known: list[Entry] = []
    resolved: list[Entry] = []
    for entry in entries:
        is_known = entry.has_content or not keeps_resolutions
        (known if is_known else resolved).append(entry)
    return known, resolved


def upsert_copies(
    target: Index, scope: str, entries: Sequence[Entry], *, same_shingles: bool
) -> list[Outcome]:
    """Upserts documents with content, and returns the outcomes."""
    outcomes: list[Outcome] = []
    for portion in _portions(entries, target.settings.max_batch):
        documents = [document_of(entry, target, same_shingles=same_shingles) for entry in portion]
        outcomes += target.upsert_many(scope, documents, [entry.id for entry in portion])
    return outcomes


def copy_resolved(
    source: Store, target: Index, scope: str, entries: Sequence[Entry], *, same_shingles: bool
) -> None:
    """Copies documents without content, each resolved to the copy of its representative."""
    for portion in _portions(entries, RESOLVED_AT_ONCE):
        # representatives may have a higher number than their members
        missing = _missing_leaders(target, scope, portion)
        leaders = [entry for entry in source.entries(scope, missing) if entry is not None]
        known, unknown = partition_by_content(leaders, target, same_shingles=same_shingles)
        upsert_copies(target, scope, known, same_shingles=same_shingles)
        _write_resolved(target, scope, unknown)
        copied = {entry.id for entry in unknown}
        _write_resolved(target, scope, [entry for entry in portion if entry.id not in copied])


def _missing_leaders(target: Index, scope: str, members: Sequence[Entry]) -> list[str]:
    """Returns the ids of the members' representatives that a copy does not have."""
    names = sorted({entry.leader for entry in members})
    stored = target.get_many(scope, names)
    return [name for name, entry in zip(names, stored, strict=True) if entry is None]


def _write_resolved(target: Index, scope: str, entries: Sequence[Entry]) -> None:
    """Writes documents without content, whose representatives the copy has."""
    if not entries:
        return
    session = target._session
    existing = target.get_many(scope, [entry.id for entry in entries])
    for entry, old in zip(entries, existing, strict=True):
        if old is not None and not _has_same_content(entry, old):
            target._removals.remove(scope, entry.id)
    new = [
        entry
        for entry, old in zip(entries, existing, strict=True)
        if not _has_same_content(entry, old)
    ]

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


def _copy_unchanged(
    target: Index,
    scope: str,
    wanted: Mapping[str, Entry | None],
    existing: Mapping[str, Entry | None],
    *,
    same_shingles: bool,
) -> CopyCounts:
    """Copies entries that are compared with nothing: parts, handovers and decisions."""
    total = NOTHING_COPIED
    session = target._session
    for id, entry in wanted.items():
        old = existing[id]
        if entry is not None and not same_shingles:
            raise UsageError(
                f"the document {id!r} arrives in parts and is not finished; the texts of parts are "
                "not stored, so an index with other shingles cannot copy it; finish it first"
            )
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


def _has_same_content(entry: Entry, other: Entry | None) -> bool:
    return other is not None and other.digest == entry.digest


def keep_cluster_ids_and_compare(source: Store, target: Index) -> CopyComparison:
    """Gives the clusters of a copy their previous ids, and counts what agrees with the source."""
    copy = target._session.store
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
