"""The check of an index's integrity, and the merge of clusters that have become similar."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.cluster_ids import SharedClusterIds, is_being_removed, still_sharing
from nearkin.index.entry import REF_SHIFT, Entry, batches_by_scope
from nearkin.index.index import Index
from nearkin.index.spare_buckets import all_keys_of
from nearkin.index.stores.base import Store
from nearkin.stages.packed_pairs import pack_pairs

NOT_IN_BUCKET = "not in a bucket"
NO_FINGERPRINT = "a fingerprint of its passages is missing"
LOOKS = 3
"""The number of times that documents with problems are read again."""
CONFIRMED_AT_ONCE = 500
"""The number of documents that are read again at once."""
SHARED_CLUSTER_ID = "another representative has the same cluster id; run compact"
"""The message about a cluster that inherited an id twice, which is not a fault."""


class IntegrityProblem(NamedTuple):
    """A fault that a check found."""

    what: str
    """What is wrong, for people."""
    scope: str
    id: str


@dataclass(frozen=True)
class IntegrityReport:
    """The result of a check.

    Attributes:
        records: Number of documents that were checked.
        postings: Number of postings that belong to them.
        stray: Number of postings of the store beyond those.
        was_written: True if other processes wrote meanwhile, so that the counts of the store and
            stray postings were not verified.
        unfinished_removals: Number of clusters whose id another cluster has, too, because the
            removal of a representative is under way or was interrupted. Remove it again, or run
            `compact`.
        shared_cluster_ids: Number of clusters that have the id of another one, because an id that
            was deleted came again and was deleted again. Each document is found, and has the right
            representative; `compact` gives such clusters ids of their own.
        sharing: The first representatives of such clusters.
        problems: The first problems.
        found: Number of all problems.
    """

    records: int
    postings: int
    stray: int
    problems: tuple[IntegrityProblem, ...]
    found: int
    unfinished_removals: int = 0
    shared_cluster_ids: int = 0
    sharing: tuple[IntegrityProblem, ...] = ()
    was_written: bool = False

    @property
    def sound(self) -> bool:
        """True if nothing is wrong."""
        return not self.found and not self.stray

    def to_dict(self) -> dict[str, object]:
        """Returns the report as values that JSON can hold."""
        lists = {
            "problems": [problem._asdict() for problem in self.problems],
            "sharing": [representative._asdict() for representative in self.sharing],
        }
        return {**asdict(self), **lists, "sound": self.sound}


def check_index(index: Index, limit: int = 100) -> IntegrityReport:
    """Verifies every document, every bucket and every count of an index.

    Each document must be resolved to an existing representative, at or above the threshold. The
    similarity is not verified if the content of either is not stored. Buckets must hold exactly the
    postings of their documents. Clusters of a scope that have the same id are counted apart: it
    happens while a representative is removed, and if an id that was deleted came again.
    """
    found = _check_all(index, limit)
    if found.miscounted:
        # A step that had its numbers before the check began shows in none of the readings.
        found = _check_all(index, limit)
    return found.report


class _Finding(NamedTuple):
    """The result of one reading of all documents."""

    report: IntegrityReport
    miscounted: bool
    """True if the counts of the store and what was read differ."""


def _check_all(index: Index, limit: int) -> _Finding:
    """Reads all documents, and verifies them and the counts of the store."""
    store = index._session.store
    records = 0
    leaders = 0
    postings = 0
    problems: list[IntegrityProblem] = []
    shared_ids = SharedClusterIds()
    # The numbers are read outside of the counts, so that no step comes between them unseen.
    last_number = store.last_number()
    counts = _read_counts(store)
    for scope, entries in batches_by_scope(store.scan()):
        records += len(entries)
        shared_ids.add(entries)
        leaders += sum(entry.is_leader for entry in entries)
        checked = _check_documents(index, scope, entries)
        postings += checked.postings
        problems += _confirm_problems(index, scope, checked.problems)
    stray = 0
    miscounts: list[IntegrityProblem] = []
    was_written = _read_counts(store) != counts or store.last_number() != last_number
    if not was_written:
        # otherwise the counts are of different moments
        miscounts += _count_problems("documents", records, counts["records"])
        miscounts += _count_problems("representatives", leaders, counts["leaders"])
        stray = max(0, counts["postings"] - postings)
    problems += miscounts
    report = _report(store, records, postings, stray, problems, shared_ids, limit)
    return _Finding(replace(report, was_written=was_written), bool(miscounts or stray))


def _read_counts(store: Store) -> dict[str, int]:
    """Reads the counts of a store that change when documents are written."""
    counts = store.counts()
    return {name: counts[name] for name in ("records", "leaders", "postings", "evicted")}


class _BucketsCheck(NamedTuple):
    """The postings of some documents in the buckets of their keys."""

    postings: int
    """The number of their postings."""
    problems: list[IntegrityProblem]


def _check_documents(index: Index, scope: str, entries: list[Entry]) -> _BucketsCheck:
    """Verifies the resolutions, buckets and fingerprints of documents of a scope."""
    session = index._session
    problems = list(_cluster_problems(index, scope, entries))
    postings = 0
    posted = [entry for entry in entries if entry.posted]
    if posted:
        keys = session.documents.keys_of(scope, posted)
        buckets = _check_buckets(session.store, posted, keys, NOT_IN_BUCKET)
        postings += buckets.postings
        problems += buckets.problems
        spares = [
            all_keys_of(entry, own)[len(own) :] for entry, own in zip(posted, keys, strict=True)
        ]
        refs = np.repeat([entry.ref for entry in posted], [len(own) for own in spares])
        postings += int(_count_own_postings(session.store, np.concatenate(spares), refs).sum())
    passages = session.searcher.passages
    if passages is not None:
        keys = [passages.postings.keys_of_entry(entry) for entry in entries]
        fingerprints = _check_buckets(session.store, entries, keys, NO_FINGERPRINT)
        postings += fingerprints.postings
        problems += fingerprints.problems
    return _BucketsCheck(postings, problems)


def _confirm_problems(
    index: Index, scope: str, problems: list[IntegrityProblem]
) -> list[IntegrityProblem]:
    """Looks again at documents with problems, and returns the problems that they still have.

    Another process may have written while the documents, their representatives and their buckets
    were read one after the other. Most stores cannot show one state of all of them, so that the
    documents are read several times.
    """
    store = index._session.store
    for _ in range(LOOKS):
        if not problems:
            break
        names = list(dict.fromkeys(problem.id for problem in problems))
        problems = []
        for start in range(0, len(names), CONFIRMED_AT_ONCE):
            with store.snapshot():
                stored = store.entries(scope, names[start : start + CONFIRMED_AT_ONCE])
                entries = [entry for entry in stored if entry is not None]
                problems += _check_documents(index, scope, entries).problems
    return problems


def check_resolutions(store: Store, limit: int = 100) -> IntegrityReport:
    """Verifies the part of an index that needs no Spec resources.

    Each document must be resolved to an existing representative, and the number of documents must
    be the one that the store counts.
    """
    records = 0
    problems: list[IntegrityProblem] = []
    shared_ids = SharedClusterIds()
    for scope, entries in batches_by_scope(store.scan(content=False)):
        records += len(entries)
        shared_ids.add(entries)
        problems += _resolution_problems(store, scope, entries)[0]
    counts = store.counts()
    problems += _count_problems("documents", records, counts["records"])
    return _report(store, records, counts["postings"], 0, problems, shared_ids, limit)


def _report(
    store: Store,
    records: int,
    postings: int,
    stray: int,
    problems: list[IntegrityProblem],
    shared_ids: SharedClusterIds,
    limit: int,
) -> IntegrityReport:
    """Returns the report of a check, with the problems of shared cluster ids."""
    unfinished = 0
    sharing: list[IntegrityProblem] = []
    for group in shared_ids.groups(store):
        with store.snapshot():
            # another process may have completed a removal meanwhile
            remaining = still_sharing(store, group)
            if len(remaining) < 2:
                continue
            if is_being_removed(store, remaining):
                unfinished += 1
                continue
        sharing += [
            IntegrityProblem(SHARED_CLUSTER_ID, entry.scope, entry.id) for entry in remaining[1:]
        ]
    return IntegrityReport(
        records=records,
        postings=postings,
        stray=stray,
        problems=tuple(problems[:limit]),
        found=len(problems),
        unfinished_removals=unfinished,
        shared_cluster_ids=len(sharing),
        sharing=tuple(sharing[:limit]),
    )


def _count_problems(what: str, existing: int, counted: int) -> list[IntegrityProblem]:
    """Returns the problem that the store's count is wrong, if it is."""
    if existing == counted:
        return []
    return [IntegrityProblem(f"{existing:,} {what} exist, {counted:,} are counted", "", "")]


def _resolution_problems(
    store: Store, scope: str, entries: list[Entry]
) -> tuple[list[IntegrityProblem], list[tuple[Entry, Entry]]]:
    """Returns the problems of resolutions, and the sound members with their representatives."""
    members = [entry for entry in entries if not entry.is_leader]
    names = sorted({entry.leader for entry in members})
    leaders = dict(zip(names, store.entries(scope, names), strict=True))
    problems: list[IntegrityProblem] = []
    sound: list[tuple[Entry, Entry]] = []
    for entry in members:
        leader = leaders[entry.leader]
        if leader is None:
            problems.append(IntegrityProblem("its representative does not exist", scope, entry.id))
        elif not leader.is_leader:
            problems.append(
                IntegrityProblem(
                    "it is resolved to a document that is not a representative", scope, entry.id
                )
            )
        elif leader.cluster != entry.cluster:
            problems.append(
                IntegrityProblem("its cluster differs from its representative's", scope, entry.id)
            )
        else:
            sound.append((entry, leader))
    return problems, sound


def _cluster_problems(index: Index, scope: str, entries: list[Entry]) -> Iterator[IntegrityProblem]:
    """Yields the problems of resolutions, similarities included."""
    session = index._session
    problems, resolved = _resolution_problems(session.store, scope, entries)
    yield from problems
    sound = [pair for pair in resolved if all(entry.has_content for entry in pair)]
    if not sound:
        return
    positions = np.arange(len(sound), dtype=np.uint64) * np.uint64(2)
    searcher = session.searcher
    record = session.guard.record_of(session.store, scope)
    if record is not None and record.lowest is not None:
        # documents stay where they were resolved to at an earlier threshold
        lowest = min(record.lowest, session.threshold)
        searcher = searcher.with_settings((("threshold", lowest),))
    compared = searcher.comparer.compare_entries(
        [entry for pair in sound for entry in pair],
        pack_pairs(positions, positions + np.uint64(1)),
    )
    for (entry, _), is_near in zip(sound, compared.reached.tolist(), strict=True):
        if not is_near and not session.guard.joins(session.store, scope, entry.id):
            yield IntegrityProblem(
                "less similar to its representative than the threshold", scope, entry.id
            )


def _check_buckets(
    store: Store, entries: list[Entry], keys: list[np.ndarray], missing: str
) -> _BucketsCheck:
    """Verifies that documents are in the buckets of their keys, unless these have overflowed.

    Args:
        keys: Keys of the buckets of each document, uint64 (b,).
    """
    all_keys = np.concatenate([np.empty(0, np.uint64), *keys])
    owners = np.repeat(np.arange(len(keys)), [len(own_keys) for own_keys in keys])
    counts = _count_own_postings(store, all_keys, np.array([e.ref for e in entries])[owners])
    problems = [
        IntegrityProblem("twice in a bucket", entries[i].scope, entries[i].id)
        for i in owners[counts > 1].tolist()
    ]
    absent = np.flatnonzero(counts == 0)
    if len(absent):
        absent = absent[~store.overflowed(all_keys[absent])]
        problems += [
            IntegrityProblem(missing, entries[i].scope, entries[i].id)
            for i in owners[absent].tolist()
        ]
    return _BucketsCheck(int(counts.sum()), problems)


def _count_own_postings(store: Store, keys: np.ndarray, refs: np.ndarray) -> np.ndarray:
    """Returns the number of postings of one document in each bucket, int64 (m,).

    Args:
        keys: Keys of the buckets, uint64 (m,).
        refs: Number of the document of each bucket, int64 (m,).
    """
    postings = store.postings(keys)
    buckets = np.repeat(np.arange(len(keys)), np.diff(postings.offsets))
    is_own = postings.words >> REF_SHIFT == refs[buckets]
    return np.bincount(buckets[is_own], minlength=len(keys))


def merge_clusters(index: Index) -> dict[str, int]:
    """Merges clusters whose representatives are similar.

    Documents are posted again in buckets that were full and have room now.

    The younger representative and its members are resolved to the older one. A member that is not
    similar to the older one is searched for again. Each merge is in the change log.

    Clusters that have the same id are merged, too, whatever their buckets. If they are not similar,
    the younger one gets the id of its representative.
    """
    merged = 0
    moved = 0
    shared_ids = SharedClusterIds()
    index._removals.delete_finished_handovers()
    posted = _post_evicted(index)
    # documents come in the order of their numbers, so the older representative is met first
    for entry in index.scan(content=False):
        shared_ids.add([entry])
        if entry.is_leader and entry.posted:
            documents = index.merge_into_older(entry.scope, entry.id)
            merged += documents > 0
            moved += documents
    for oldest, *others in list(shared_ids.groups(index._session.store)):
        for entry in others:
            documents = index._removals.separate_cluster_ids(entry.scope, entry.id, oldest.id)
            merged += documents > 0
            moved += documents
    return {"merged": merged, "moved": moved, "posted": posted}


def _post_evicted(index: Index) -> int:
    """Posts documents again in buckets that evicted them and have room. Returns their number.

    Most stores keep the postings beyond the capacity of a bucket, so that nothing is to be done.
    """
    session = index._session
    posted = 0
    if not session.store.counts()["evicted"]:
        return posted
    for scope, entries in batches_by_scope(index.scan()):
        searched = [entry for entry in entries if entry.posted]
        for id in _list_evicted(index, scope, searched):
            posted += session.run_step(scope, partial(_post_again, index, scope, id))
    return posted


def _list_evicted(index: Index, scope: str, entries: list[Entry]) -> list[str]:
    """Returns the ids of documents that are missing in a bucket that has room."""
    session = index._session
    if not entries:
        return []
    own_keys = session.documents.keys_of(scope, entries)
    keys = np.concatenate(own_keys)
    owners = np.repeat(np.arange(len(entries)), [len(own) for own in own_keys])
    refs = np.array([entry.ref for entry in entries])
    absent = np.flatnonzero(_count_own_postings(session.store, keys, refs[owners]) == 0)
    sizes = np.diff(session.store.postings(keys[absent]).offsets)
    has_room = absent[sizes < session.settings.bucket_capacity]
    return [entries[owner].id for owner in np.unique(owners[has_room]).tolist()]


def _post_again(index: Index, scope: str, id: str) -> bool:
    """Posts a document in all of its buckets, in one step."""
    session = index._session
    entry = session.entry_of(scope, id)
    if entry is None or not entry.posted:
        return False
    keys = session.documents.keys_of(scope, [entry])[0]
    all_keys = all_keys_of(entry, keys)
    spare = all_keys[len(keys) :]
    if _count_own_postings(session.store, spare, np.full(len(spare), entry.ref)).any():
        keys = all_keys
    changes = Changes(changed=[entry], expected=[entry], posted=[KeyedEntry(entry, keys)])
    session.apply(changes)
    return True
