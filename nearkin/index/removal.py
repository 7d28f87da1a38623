"""The removal of documents, and of representatives that others are resolved to.

When a representative is removed, its members are searched for again. The first one that resembles
no other representative becomes one itself: it is the heir, and inherits the id of the cluster.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from nearkin.errors import LargeClusterError, StoreError
from nearkin.index.changes import ERASED, Changes, Event, KeyedEntry, LeaderSnapshot, Promotion
from nearkin.index.entry import Entry, require_id, require_scope
from nearkin.index.handovers import (
    Handover,
    is_handovers_scope,
    read_handover,
    standing_heir,
)
from nearkin.index.session import Session
from nearkin.index.spare_buckets import all_keys_of
from nearkin.index.stores.sharded import ShardedStore
from nearkin.settings.spec import SLOT_MEASURES

MAX_REASSIGNED = 256
"""The maximum number of members of a representative that one step resolves to other ones.

A larger cluster is drained first, in portions. Each portion is a step of its own, between which
other requests are served. The representative stays until the last portion.
"""


MAX_REMOVED = 256
"""The maximum number of documents that one step deletes, between which others are served."""


def leader_snapshot(entry: Entry, members: list[Entry]) -> LeaderSnapshot:
    """Returns the snapshot of a document and of the members that are resolved to it."""
    return LeaderSnapshot(entry, frozenset(member.ref for member in members))


class Removals:
    """The removals and merges of an open index."""

    def __init__(self, session: Session) -> None:
        self._session = session
        session.drain_cluster = self._drain_cluster

    def remove(self, scope: str, id: str) -> bool:
        """Deletes a document, as `Index.remove` does."""
        return self._session.run_step(scope, lambda: self._remove(scope, id))

    def _remove(self, scope: str, id: str) -> bool:
        entry = self._session.entry_or_confirmed_absence(scope, id)
        if entry is None:
            return False
        changes = Changes()
        now = self._session.clock()
        self.stage_removal(entry, changes, inherits_cluster=True)
        changes.events.append(Event(ERASED, scope, id, "", now))
        self._session.apply(changes)
        if isinstance(self._session.store, ShardedStore):
            self._complete_handover(entry)
        return True

    def remove_many(self, scope: str, ids: Sequence[str]) -> set[str]:
        """Deletes documents, as `Index.remove_many` does, and returns the ids of those."""
        removed: set[str] = set()
        left = list(dict.fromkeys(map(require_id, ids)))
        # representatives come after all members, so that few have to elect another one
        for _ in range(2):
            portions = [left[at : at + MAX_REMOVED] for at in range(0, len(left), MAX_REMOVED)]
            left = []
            for portion in portions:
                step = partial(self._remove_portion, scope, portion)
                alone, others = self._session.run_step(scope, step)
                removed.update(alone)
                left += others
        removed.update(id for id in left if self.remove(scope, id))
        return removed

    def remove_scope(self, scope: str, limit: float) -> int:
        """Deletes the documents of a scope, as `Index.remove_scope` does."""
        removed = 0
        # representatives come after all members, as in `remove_many`
        for has_leaders in (False, True):
            # it keeps the store open if the index moves meanwhile
            searcher = self._session.searcher
            ids: list[str] = []
            for entry in searcher.store.scan(require_scope(scope), content=False):
                if has_leaders or not entry.is_leader:
                    ids.append(entry.id)
                if len(ids) >= min(MAX_REMOVED, limit - removed):
                    removed += len(self.remove_many(scope, ids))
                    ids = []
                if removed >= limit:
                    return removed
            removed += len(self.remove_many(scope, ids))
        return removed

    def _remove_portion(self, scope: str, ids: list[str]) -> tuple[list[str], list[str]]:
        """Deletes the documents without members in one step.

        Returns:
            The ids of these documents, and of those that have members.
        """
        session = self._session
        # it keeps the store open if the index moves meanwhile
        searcher = session.searcher
        store = searcher.store
        stored = store.entries(require_scope(scope), ids)
        entries = [entry for entry in stored if entry is not None]
        if len(entries) < len(ids):
            session.confirm_state()
        alone: list[Entry] = []
        others: list[str] = []
        for entry in entries:
            if entry.is_leader and store.members(scope, entry.id, 1, content=False):
                others.append(entry.id)
            else:
                alone.append(entry)
        changes = Changes()
        now = session.clock()
        self._stage_drops(alone, changes)
        for entry in alone:
            changes.leader_snapshots.append(leader_snapshot(entry, []))
            changes.events.append(Event(ERASED, scope, entry.id, "", now))
        if alone:
            session.apply(changes)
        return [entry.id for entry in alone], others

    def _stage_drops(self, entries: list[Entry], changes: Changes) -> None:
        """Adds the deletion of documents of a scope and of their postings to the changes."""
        posted = [entry for entry in entries if entry.posted]
        own_keys = self._session.documents.keys_of(posted[0].scope, posted) if posted else []
        keys = {
            entry.ref: all_keys_of(entry, own) for entry, own in zip(posted, own_keys, strict=True)
        }
        changes.dropped += [KeyedEntry(entry, keys.get(entry.ref)) for entry in entries]

    def stage_removal(self, entry: Entry, changes: Changes, *, inherits_cluster: bool) -> None:
        """Adds the removal of a document to the changes, and the new resolutions of its members."""
        self._stage_drops([entry], changes)
        members: list[Entry] = []
        if entry.is_leader:
            members = self._members_for_step(entry, None, inherits_cluster=inherits_cluster)
        changes.leader_snapshots.append(leader_snapshot(entry, members))
        if members:
            handover = self._handover_of(entry) if inherits_cluster else None
            self._reassign_members(entry, members, changes, handover)
            if handover is not None:
                self._stage_handover(entry, handover, changes, completes=True)

    def _members_for_step(
        self, entry: Entry, into: str | None, *, inherits_cluster: bool
    ) -> list[Entry]:
        """Returns the members of a representative that is removed."""
        members = self._session.store.members(entry.scope, entry.id, MAX_REASSIGNED + 1)
        if len(members) > MAX_REASSIGNED:
            raise LargeClusterError(entry.id, into, inherits=inherits_cluster)
        return members

    def _drain_cluster(self, scope: str, cluster: LargeClusterError) -> None:
        """Resolves members of a representative in portions, until one step can do the rest.

        The index is consistent after each portion, because the representative still stands for the
        other members. So a process that is killed in between leaves nothing to repair, and a
        repeated request continues where it stopped.
        """
        while self._session.run_step(scope, partial(self._drain_portion, scope, cluster)):
            pass

    def _drain_portion(self, scope: str, cluster: LargeClusterError) -> bool:
        """Resolves one portion of members. Returns False if few enough members are left."""
        session = self._session
        entry = session.entry_of(scope, cluster.leader)
        if entry is None or not entry.is_leader:
            return False
        members = session.store.members(scope, cluster.leader, MAX_REASSIGNED + 1)
        if len(members) <= MAX_REASSIGNED:
            return False
        members = members[:MAX_REASSIGNED]
        changes = Changes(required_leaders=[entry], expected=members)
        if cluster.into is not None:
            older = session.entry_of(scope, cluster.into)
            if older is None or not older.is_leader:
                return False
            members = self._move_similar(entry, members, older, changes)
        if members:
            handover = self._handover_of(entry) if cluster.inherits else None
            self._reassign_members(entry, members, changes, handover)
            if handover is not None:
                self._stage_handover(entry, handover, changes, completes=False)
        session.apply(changes)
        return True

    def _move_similar(
        self, entry: Entry, members: list[Entry], older: Entry, changes: Changes
    ) -> list[Entry]:
        """Resolves the members that are similar enough to another representative to that one.

        Members without content follow their representative, because they cannot be compared.
        """
        session = self._session
        known = [entry, *(member for member in members if member.has_content)]
        pairs = np.arange(1, len(known) + 1, dtype=np.uint64)
        compared = session.searcher.of_scope(entry.scope).comparer.compare_entries(
            [older, *known], pairs
        )
        near = compared.reached.tolist()
        similarities = compared.similarity.tolist()
        changes.required_leaders.append(older)
        dissimilar: list[Entry] = []
        for member, similarity, is_near in zip(known[1:], similarities[1:], near[1:], strict=True):
            if not is_near:
                dissimilar.append(member)
                continue
            changes.changed.append(
                member._replace(leader=older.id, cluster=older.cluster, similarity=similarity)
            )
        for member in members:
            if not member.has_content:
                changes.changed.append(self._resolve_to(member, similarities[0], older))
        return dissimilar

    def _resolve_to(self, member: Entry, similarity: float, other: Entry) -> Entry:
        """Returns a member without content as it is resolved to another representative."""
        bound = similarity_bound(self._session.spec.measure, member.similarity, similarity)
        return member._replace(leader=other.leader, cluster=other.cluster, similarity=bound)

    def _reassign_members(
        self, removed: Entry, members: list[Entry], changes: Changes, handover: Handover | None
    ) -> None:
        """Searches a representative for each member of a removed one, in order of their numbers.

        Members without content cannot be searched for. They are resolved to the heir, or follow a
        member that is decided to be the same.
        """
        known = [member for member in members if member.has_content]
        unknown = [member for member in members if not member.has_content]
        if known:
            self.search_for_members(removed, known, changes, handover)
        unknown = self._follow_decided(unknown, known, changes)
        if unknown:
            self._resolve_to_heir(removed, unknown, known, changes, handover)

    def _follow_decided(
        self, members: list[Entry], known: list[Entry], changes: Changes
    ) -> list[Entry]:
        """Resolves members without content as those that are decided to be the same."""
        session = self._session
        similarities = {member.id: member.similarity for member in known}
        placed = {entry.id: entry for entry in changes.changed if entry.id in similarities}
        rest: list[Entry] = []
        for member in members:
            decisions = session.guard.of_scope(session.store, member.scope)
            same = decisions.same_as(member.id) if decisions is not None else []
            other = next((placed[id] for id in same if id in placed), None)
            if other is None:
                rest.append(member)
            else:
                similarity = similarities.get(other.leader, 0.0)
                changes.changed.append(self._resolve_to(member, similarity, other))
        return rest

    def _resolve_to_heir(
        self,
        removed: Entry,
        members: list[Entry],
        known: list[Entry],
        changes: Changes,
        handover: Handover | None,
    ) -> None:
        """Resolves members without content to the heir of their representative.

        Without an heir the first of them becomes the representative. It is in no buckets, because
        nothing can be compared with it.
        """
        similarities = {member.id: member.similarity for member in known}
        heirs = [
            entry
            for entry in changes.changed
            if entry.id in similarities
            and entry.is_leader
            and (handover is None or entry.cluster == removed.cluster)
        ]
        heir: Entry | None = heirs[0] if heirs else None
        similarity = similarities[heirs[0].id] if heirs else 0.0
        if heir is None and handover is not None and self._has_heir(removed, handover, changes):
            # the similarity of an heir from an earlier step to the removed document is not known
            heir = changes.required_leaders[-1]
        if heir is None:
            first = members[0]
            members = members[1:]
            cluster = first.id if handover is None else removed.cluster
            heir = first._replace(leader=first.id, cluster=cluster, similarity=1.0, posted=False)
            similarity = first.similarity
            changes.changed.append(heir)
            changes.promoted.append(Promotion(heir, removed.id))
        for member in members:
            changes.changed.append(self._resolve_to(member, similarity, heir))

    def search_for_members(
        self, removed: Entry, members: list[Entry], changes: Changes, handover: Handover | None
    ) -> None:
        """Searches a representative for each of some members that have content."""
        session = self._session
        scope = removed.scope
        posts_members = session.settings.postings == "all"
        prepared = session.documents.prepare_stored(scope, members)
        excluded = frozenset((removed.ref, *(member.ref for member in members)))
        empty = prepared.empty
        ids = [member.id for member in members]
        decisions = session.searcher.of_scope(scope).decide(prepared, ids, excluded, changes)
        needs_heir = handover is not None and not self._has_heir(removed, handover, changes)
        clusters: dict[int, str] = {}
        for i, (member, decision) in enumerate(zip(members, decisions, strict=True)):
            if decision.entry is not None:
                changes.required_leaders.append(decision.entry)
                leader = decision.entry.id
                cluster = decision.entry.cluster
                similarity = decision.similarity
            elif decision.position is not None:
                leader = members[decision.position].id
                cluster = clusters[decision.position]
                similarity = decision.similarity
            else:
                leader = member.id
                cluster = removed.cluster if needs_heir else member.id
                similarity = 1.0
                clusters[i] = cluster
                needs_heir = False
            posted = (leader == member.id or posts_members) and not empty[i]
            moved = member._replace(
                leader=leader,
                cluster=cluster,
                similarity=similarity,
                posted=posted,
                signature=prepared.signature(i) if posted else b"",
            )
            changes.changed.append(moved)
            if moved.is_leader:
                changes.promoted.append(Promotion(moved, removed.id))
            if posted:
                keys = prepared.keys(i)
                if decision.crowded:
                    keys = all_keys_of(moved, keys)
                changes.posted.append(KeyedEntry(moved, keys))

    def _handover_of(self, removed: Entry) -> Handover:
        """Returns the handover of a cluster's id. The removed one is its heir if none is stored."""
        stored = read_handover(self._session.store, removed.scope, removed.cluster)
        return stored or Handover(removed.scope, removed.cluster, removed.id)

    def _has_heir(self, removed: Entry, handover: Handover, changes: Changes) -> bool:
        """Returns True if an earlier step has chosen the heir of a cluster, in any process.

        The changes of the step then depend on the heir.
        """
        if handover.heir == removed.id:
            return False
        heir = standing_heir(self._session.store, handover)
        if heir is None:
            return False
        changes.required_leaders.append(heir)
        return True

    def _stage_handover(
        self, removed: Entry, handover: Handover, changes: Changes, *, completes: bool
    ) -> None:
        """Adds the handover of a cluster's id to the step that chooses the heir.

        A step that chooses the heir and removes the representative needs none. Shards may do a part
        of such a step, so it is stored over shards, and `_complete_handover` deletes it.
        """
        session = self._session
        heirs = [
            entry.id
            for entry in changes.changed
            if entry.is_leader and entry.cluster == removed.cluster
        ]
        if heirs:
            handover = replace(handover, heir=heirs[0])
        if completes and not (heirs and isinstance(session.store, ShardedStore)):
            handover = handover.completed(removed.id)
        elif heirs:
            handover = handover.began(removed.id)
        handover.stage(changes, session.clock())

    def _complete_handover(self, removed: Entry) -> None:
        """Deletes the handover of a removal that is complete, on shards."""
        session = self._session
        handover = read_handover(session.store, removed.scope, removed.cluster)
        if handover is None or removed.id not in handover.removed:
            return
        changes = Changes()
        handover.completed(removed.id).stage(changes, session.clock())
        # the document is removed; a handover that stays is harmless, and `compact` deletes it
        with suppress(StoreError):
            session.apply(changes)

    def merge_into_older(self, scope: str, id: str) -> int:
        """Resolves a representative to a similar older one, as `Index.merge_into_older` does."""
        # it keeps the store open if the index moves meanwhile
        searcher = self._session.searcher
        members = searcher.store.member_count(require_scope(scope), require_id(id))
        moved = self._session.run_step(scope, lambda: self._merge(scope, id))
        # the count includes members that moved in portions before the last step
        return max(moved, 1 + members) if moved else 0

    def _merge(self, scope: str, id: str) -> int:
        entry = self._session.entry_of(scope, id)
        if entry is None or not entry.is_leader or not entry.posted:
            return 0
        older = self._most_similar_older(entry)
        if older is None:
            return 0
        if self._session.guard.separates(self._session.store, entry, older[0]):
            return 0
        changes = self._stage_merge(entry, older[0], older[1])
        self._session.apply(changes)
        return len(changes.changed)

    def _most_similar_older(self, entry: Entry) -> tuple[Entry, float] | None:
        """Returns the most similar representative that was inserted before, and its similarity."""
        searcher = self._session.searcher.of_scope(entry.scope)
        prepared = self._session.documents.prepare_stored(entry.scope, [entry])
        return searcher.most_similar_older(prepared, entry.ref)

    def _stage_merge(self, entry: Entry, older: Entry, similarity: float) -> Changes:
        """Returns the changes by which a representative becomes a member of an older one."""
        changes = self._stage_demotion(entry, older, similarity)
        members = self._members_for_step(entry, older.id, inherits_cluster=False)
        changes.leader_snapshots.append(leader_snapshot(entry, members))
        if members:
            dissimilar = self._move_similar(entry, members, older, changes)
            if dissimilar:
                self._reassign_members(entry, dissimilar, changes, None)
        return changes

    def stage_decided_merge(self, entry: Entry, leader: Entry, similarity: float) -> Changes:
        """Returns the changes by which a representative becomes a member of a decided one.

        The two need not be similar, so each member is searched for again.
        """
        changes = self._stage_demotion(entry, leader, similarity)
        members = self._members_for_step(entry, None, inherits_cluster=False)
        changes.leader_snapshots.append(leader_snapshot(entry, members))
        if members:
            self._reassign_members(entry, members, changes, None)
        return changes

    def _stage_demotion(self, entry: Entry, leader: Entry, similarity: float) -> Changes:
        """Returns the changes by which a representative alone becomes a member of another one."""
        session = self._session
        changes = Changes(required_leaders=[leader])
        if entry.cluster != leader.cluster:
            changes.events.append(
                Event("merged", entry.scope, entry.cluster, leader.cluster, session.clock())
            )
        stays_posted = entry.posted and session.settings.postings == "all"
        moved = entry._replace(
            leader=leader.id,
            cluster=leader.cluster,
            similarity=similarity,
            posted=stays_posted,
            signature=entry.signature if stays_posted else b"",
        )
        changes.changed.append(moved)
        if entry.posted:
            keys = session.documents.keys_of(entry.scope, [entry])[0]
            if stays_posted:
                if session.store.overflowed(keys).any():
                    # it may be in spare buckets, too
                    keys = all_keys_of(moved, keys)
                changes.posted.append(KeyedEntry(moved, keys))
            else:
                changes.unposted.append(KeyedEntry(entry, all_keys_of(entry, keys)))
        return changes

    def separate_cluster_ids(self, scope: str, id: str, older_id: str) -> int:
        """Ends that two representatives have the same cluster id.

        If they are similar, the younger one and its members are resolved to the older one.
        Otherwise the younger cluster gets the id of its representative.
        """
        session = self._session
        entry = session.entry_of(scope, id)
        searcher = session.searcher
        members = searcher.store.member_count(scope, id)
        moved = session.run_step(scope, partial(self._merge_pair, scope, id, older_id))
        if moved is None:
            self._rename_cluster(scope, id)
        if entry is not None:
            handover = Handover(scope, entry.cluster, id)
            session.run_step(scope, partial(self._delete_if_finished, handover))
        # the count includes members that moved in portions before the last step
        return max(moved, 1 + members) if moved else 0

    def _merge_pair(self, scope: str, id: str, older_id: str) -> int | None:
        """Merges a representative into an older one that has the same cluster id."""
        session = self._session
        entry, older = session.store.entries(scope, [id, older_id])
        if entry is None or older is None or not (entry.is_leader and older.is_leader):
            return 0
        if entry.cluster != older.cluster:
            return 0
        if not (entry.has_content and older.has_content):
            return None
        pairs = np.array([1], np.uint64)
        comparer = session.searcher.of_scope(scope).comparer
        compared = comparer.compare_entries([older, entry], pairs)
        if not compared.reached[0] or session.guard.separates(session.store, entry, older):
            return None
        changes = self._stage_merge(entry, older, float(compared.similarity[0]))
        session.apply(changes)
        return len(changes.changed)

    def _rename_cluster(self, scope: str, id: str) -> None:
        """Gives a cluster the id of its representative, in portions.

        The representative comes last, so that an interrupted renaming is found again. Documents
        that were resolved to it meanwhile have the previous id, so the members are read twice.
        """
        self._rename_members(scope, id)
        self._session.run_step(scope, partial(self._rename_representative, scope, id))
        self._rename_members(scope, id)

    def _rename_members(self, scope: str, id: str) -> None:
        after: int | None = 0
        while after is not None:
            after = self._session.run_step(scope, partial(self._rename_portion, scope, id, after))

    def _rename_representative(self, scope: str, id: str) -> None:
        session = self._session
        entry = session.entry_of(scope, id)
        if entry is not None and entry.is_leader and entry.cluster != id:
            session.apply(Changes(changed=[entry._replace(cluster=id)], expected=[entry]))

    def _rename_portion(self, scope: str, id: str, after: int) -> int | None:
        """Renames the cluster of some members. Returns the last number; None after the last one."""
        session = self._session
        leader = session.entry_of(scope, id)
        page = session.store.members(scope, id, MAX_REASSIGNED, after=after, content=False)
        if leader is None or not page:
            return None
        # members of a page come without content, so they are read again
        refs = [member.ref for member in page if member.cluster != id]
        members = [entry for entry in session.store.by_refs(refs) if entry is not None]
        if members:
            changed = [member._replace(cluster=id) for member in members]
            session.apply(Changes(changed=changed, expected=members, required_leaders=[leader]))
        return page[-1].ref

    def delete_finished_handovers(self) -> None:
        """Deletes the handovers that no removal needs any more."""
        session = self._session
        # it keeps the store open if the index moves during a step
        searcher = session.searcher
        store = searcher.store
        scopes = [scope for scope in store.scopes() if is_handovers_scope(scope)]
        for scope in scopes:
            for entry in store.scan(scope):
                session.run_step(scope, partial(self._delete_if_finished, Handover.of(entry)))

    def _delete_if_finished(self, handover: Handover) -> None:
        session = self._session
        current = read_handover(session.store, handover.scope, handover.cluster)
        if current is None:
            return
        removed = session.store.entries(current.scope, sorted(current.removed - {current.heir}))
        is_needed = standing_heir(session.store, current) is not None and any(
            entry is not None and entry.is_leader and entry.cluster == current.cluster
            for entry in removed
        )
        if not is_needed:
            changes = Changes()
            replace(current, removed=frozenset()).stage(changes, session.clock())
            session.apply(changes)


def similarity_bound(measure: str, first: float, second: float) -> float:
    """Returns the least similarity of two documents whose similarities to a third one are known.

    Jaccard distances (1 − J, also of weighted sets) and angles are metrics, so the triangle
    inequality applies to them. Source: Lipkus, *A proof of the triangle inequality for the Tanimoto
    distance* (1999).

    Examples:
        >>> round(similarity_bound("jaccard", 0.9, 0.8), 3)
        0.7
        >>> round(similarity_bound("cosine", 0.9, 0.8), 3)
        0.458
    """
    if measure in SLOT_MEASURES:
        return max(0.0, first + second - 1)
    angle = math.acos(min(1.0, first)) + math.acos(min(1.0, second))
    return max(0.0, math.cos(min(angle, math.pi)))
