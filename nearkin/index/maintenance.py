"""What an index needs beside upserts: its integrity checked, clusters merged that now verify, copies made, bulk loads."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from nearkin.errors import UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import REF_SHIFT, Entry, batches_by_scope
from nearkin.index.index import Index
from nearkin.index.stores.base import Store
from nearkin.measures.base import as_stored
from nearkin.packed_pairs import pack_pairs


class Problem(NamedTuple):
    """Something that should not be."""

    what: str
    scope: str
    id: str


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Attributes:
        records: Documents looked at.
        postings: Postings that belong to them.
        stray: Postings of the store beyond those.
        problems: The first of them.
        found: How many there are.
    """

    records: int
    postings: int
    stray: int
    problems: tuple[Problem, ...]
    found: int

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.found and not self.stray

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "problems": [problem._asdict() for problem in self.problems], "sound": self.sound}


def check(index: Index, most: int = 100) -> Checked:
    """Whether every document is resolved to one that is there, is a representative, and resembles it as much as was asked for;
    and whether buckets hold what they should.

    Args:
        index: To look through.
        most: Problems to list.
    """
    records, leaders, postings, problems = 0, 0, 0, list[Problem]()
    before = index.store.counts()
    for scope, entries in batches_by_scope(index.store.scan()):
        records += len(entries)
        leaders += sum(entry.is_leader for entry in entries)
        problems += _of_clusters(index, scope, entries)
        posted = [entry for entry in entries if entry.posted]
        if posted:
            keys = index.preparer.keys_of(scope, posted)
            postings += keys.size
            problems += _of_buckets(index, posted, keys)
    counts = index.store.counts()
    if all(counts[name] == before[name] for name in ("records", "leaders", "postings")):
        # else something writes, and what was counted is of several moments
        problems += _miscounted("documents", records, counts["records"])
        problems += _miscounted("representatives", leaders, counts["leaders"])
    stray = max(0, counts["postings"] - postings + sum(problem.what == "not in a bucket" for problem in problems))
    return Checked(records, postings, stray, tuple(problems[:most]), len(problems))


def check_quickly(store: Store, most: int = 100) -> Checked:
    """The part of `check` that compares nothing, so needs neither key nor tables.

    Every document is resolved to a representative that is there, and there are as many documents as the store counts.
    """
    records, problems = 0, list[Problem]()
    for scope, entries in batches_by_scope(store.scan(content=False)):
        records += len(entries)
        problems += _resolved(store, scope, entries)[0]
    counts = store.counts()
    problems += _miscounted("documents", records, counts["records"])
    return Checked(records, counts["postings"], 0, tuple(problems[:most]), len(problems))


def _miscounted(what: str, there: int, counted: int) -> list[Problem]:
    """Returns the problem that the store keeps a wrong count, if it does."""
    return [] if there == counted else [Problem(f"{there:,} {what} are there, {counted:,} are counted", "", "")]


def _resolved(store: Store, scope: str, entries: list[Entry]) -> tuple[list[Problem], list[tuple[Entry, Entry]]]:
    """Documents that are resolved to something wrong, and the others with their representatives."""
    members = [entry for entry in entries if not entry.is_leader]
    names = sorted({entry.leader for entry in members})
    leaders = {name: entry for name, entry in zip(names, store.entries(scope, names), strict=True) if entry is not None}
    wrong, known = list[Problem](), list[tuple[Entry, Entry]]()
    for entry in members:
        leader = leaders.get(entry.leader)
        if leader is None:
            wrong.append(Problem("its representative is not there", scope, entry.id))
        elif not leader.is_leader:
            wrong.append(Problem("its representative is none", scope, entry.id))
        elif leader.cluster != entry.cluster:
            wrong.append(Problem("its cluster is not its representative's", scope, entry.id))
        else:
            known.append((entry, leader))
    return wrong, known


def _of_clusters(index: Index, scope: str, entries: list[Entry]) -> Iterator[Problem]:
    wrong, known = _resolved(index.store, scope, entries)
    yield from wrong
    if not known:
        return
    stored = as_stored(index.preparer.payload_of([entry for pair in known for entry in pair]))
    places = np.arange(len(known), dtype=np.uint64) * np.uint64(2)
    scored = index.measure.compare(pack_pairs(places, places + np.uint64(1)), stored)
    for (entry, _), near in zip(known, scored.meets_threshold(index.threshold).tolist(), strict=True):
        if not near:
            yield Problem("less similar to its representative than the threshold", scope, entry.id)


def _of_buckets(index: Index, posted: list[Entry], keys: np.ndarray) -> Iterator[Problem]:
    found = index.store.postings(keys.reshape(-1))
    refs = found.words >> REF_SHIFT
    per = keys.shape[1]
    for at, entry in enumerate(posted):
        for key in range(at * per, (at + 1) * per):
            times = int((refs[found.offsets[key] : found.offsets[key + 1]] == entry.ref).sum())
            if times != 1:
                yield Problem("not in a bucket" if not times else "twice in a bucket", entry.scope, entry.id)


def compact(index: Index) -> dict[str, int]:
    """Merges clusters whose representatives verify by now: the younger one, and what it stood for, go to the older one.

    A document that does not verify with the older representative is searched for anew. Each merge is in the log.

    Returns:
        How many clusters were merged, and how many documents moved.
    """
    merged, moved = 0, 0
    # documents come in the order of their numbers: the older representative is there before the younger one
    for entry in index.store.scan(content=False):
        if entry.is_leader and entry.posted:
            done = index.merge_into_older(entry.scope, entry.id)
            merged += done > 0
            moved += done
    return {"merged": merged, "moved": moved}


class Filling:
    """Documents that go into a store in their order; those that an attempt before brought there are passed over.

    Nothing is written while the store may hold anything else: the documents that it has must be the first ones.

    Args:
        index: Of the store.
    """

    def __init__(self, index: Index) -> None:
        self._store = index.store
        self._left = self._store.counts()["records"]

    def missing(self, scope: str, entries: list[Entry]) -> list[Entry]:
        """Those of the next documents that are not there.

        Raises:
            UsageError: The store has others.
        """
        if not self._left:
            return entries
        held = self._store.entries(scope, [entry.id for entry in entries])
        rest = [entry for entry, there in zip(entries, held, strict=True) if there is None]
        self._left -= len(entries) - len(rest)
        same = all(there is None or _standing(there) == _standing(entry) for entry, there in zip(entries, held, strict=True))
        if not same or (rest and self._left):
            self._refuse()
        return rest

    def end(self) -> None:
        """There are no more.

        Raises:
            UsageError: The store has others.
        """
        if self._left:
            self._refuse()

    def _refuse(self) -> None:
        raise UsageError(
            f"{self._store.url} has documents already, and they are not what a part of this load would have left; load into an "
            "empty store, or use nearkin index add"
        )


def _standing(entry: Entry) -> tuple[bytes, str, str, bool]:
    return entry.digest, entry.leader, entry.cluster, entry.posted


def load(index: Index, entries: Iterator[Entry]) -> int:
    """Puts documents of another index of the same Spec and threshold into an empty one, as they are; returns how many.

    A load that was broken off goes on where it stopped.

    Raises:
        UsageError: The index has other documents.
    """
    rows, filling = 0, Filling(index)
    for scope, some in batches_by_scope(entries):
        rest = filling.missing(scope, some)
        posted = [entry for entry in rest if entry.posted]
        keys = dict(zip((entry.id for entry in posted), index.preparer.keys_of(scope, posted) if posted else (), strict=True))
        index.store.apply(Changes(new=[KeyedEntry(entry, keys.get(entry.id)) for entry in rest], may_overflow=True))
        rows += len(some)
    filling.end()
    return rows
