"""The removal of documents, and of representatives that others are resolved to.

When a representative is removed, its members are searched for again. The first one that resembles
no other representative becomes one itself: it is the heir, and inherits the id of the cluster.
"""

from functools import partial

import numpy as np

from nearkin.errors import LargeClusterError
from nearkin.index.changes import Changes, Event, KeyedEntry, LeaderSnapshot
from nearkin.index.entry import Entry, require_id, require_scope
from nearkin.index.session import Session

MAX_REASSIGNED = 256
"""The maximum number of members of a representative that one step resolves to other ones.

A larger cluster is drained first, in portions. Each portion is a step of its own, between which
other requests are served. The representative stays until the last portion.
"""


def leader_snapshot(entry: Entry, members: list[Entry]) -> LeaderSnapshot:
    """Returns the snapshot of a document and of the members that are resolved to it."""
    return LeaderSnapshot(entry, frozenset(member.ref for member in members))


class Removals:
    """The removals and merges of an open index.

    Args:
        session: The open index.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._inherited: set[tuple[str, str, str]] = set()
        """The scope, representative and cluster of clusters whose id went to an heir while the
        representative still exists."""
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
        changes.events.append(Event("erased", scope, id, "", now))
        self._session.apply(changes)
        self._inherited.discard((scope, id, entry.cluster))
        return True

    def stage_removal(self, entry: Entry, changes: Changes, *, inherits_cluster: bool) -> None:
        """Adds the removal of a document to the changes, and the new resolutions of its members.

        Args:
            entry: The document.
            changes: Changes of the step, which are extended.
            inherits_cluster: True if the first member that becomes a representative inherits the
                cluster's id. False if the document comes back at once with another content,
                because the cluster would then be its own.

        Raises:
            LargeClusterError: If the document has too many members for one step.
        """
        keys = None
        if entry.posted:
            keys = self._session.preparer.keys_of(entry.scope, [entry])[0]
        changes.dropped.append(KeyedEntry(entry, keys))
        members: list[Entry] = []
        if entry.is_leader:
            members = self._members_for_step(entry, None, inherits_cluster=inherits_cluster)
        changes.leader_snapshots.append(leader_snapshot(entry, members))
        if members:
            self._reassign_members(entry, members, changes, inherits_cluster=inherits_cluster)

    def _members_for_step(
        self, entry: Entry, into: str | None, *, inherits_cluster: bool
    ) -> list[Entry]:
        """Returns the members of a representative that is removed.

        Raises:
            LargeClusterError: If there are too many for one step. `Session.run_step` then resolves
                some of them, and tries again.
        """
        members = self._session.store.members(entry.scope, entry.id, MAX_REASSIGNED + 1)
        if len(members) > MAX_REASSIGNED:
            raise LargeClusterError(entry.id, into, inherits_cluster)
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
            members = self._move_similar(members, older, changes)
        if members:
            self._reassign_members(entry, members, changes, inherits_cluster=cluster.inherits)
        session.apply(changes)
        if any(moved.is_leader and moved.cluster == entry.cluster for moved in changes.changed):
            self._inherited.add((scope, cluster.leader, entry.cluster))
        return True

    def _move_similar(self, members: list[Entry], older: Entry, changes: Changes) -> list[Entry]:
        """Resolves the members that are similar enough to another representative to that one.

        Returns:
            The other members.
        """
        session = self._session
        stored = session.preparer.comparable_payloads([older, *members])
        scored = session.measure.compare(np.arange(1, len(members) + 1, dtype=np.uint64), stored)
        near = scored.meets_threshold(session.threshold).tolist()
        changes.required_leaders.append(older)
        others: list[Entry] = []
        for member, similarity, is_near in zip(
            members, scored.similarity.tolist(), near, strict=True
        ):
            if not is_near:
                others.append(member)
                continue
            changes.changed.append(
                member._replace(leader=older.id, cluster=older.cluster, similarity=similarity)
            )
        return others

    def _reassign_members(
        self, removed: Entry, members: list[Entry], changes: Changes, *, inherits_cluster: bool
    ) -> None:
        """Searches a representative for each member of a removed one, in order of their numbers."""
        session = self._session
        scope = removed.scope
        posts_members = session.settings.postings == "all"
        prepared = session.preparer.prepare_stored(scope, members)
        excluded = frozenset((removed.ref, *(member.ref for member in members)))
        decisions = session.searcher.decide(prepared, excluded, changes)
        needs_heir = inherits_cluster and any(
            decision.entry is None and decision.position is None for decision in decisions
        )
        # an earlier portion may have chosen the heir, in this process or in one that was killed
        found_heir = any(
            decision.entry is not None and decision.entry.cluster == removed.cluster
            for decision in decisions
        )
        needs_heir = needs_heir and not found_heir and not self._has_heir(removed)
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
            posted = (leader == member.id or posts_members) and not prepared.empty[i]
            moved = member._replace(
                leader=leader,
                cluster=cluster,
                similarity=similarity,
                posted=posted,
                signature=prepared.signatures[i].tobytes() if posted else b"",
            )
            changes.changed.append(moved)
            if posted:
                changes.posted.append(KeyedEntry(moved, prepared.keys[i]))

    def _has_heir(self, removed: Entry) -> bool:
        """Returns True if an earlier portion of members already has an heir of the cluster.

        If another process resolved that portion, the heir is found in the buckets that it shares
        with the removed representative, to which it was resolved.
        """
        if (removed.scope, removed.id, removed.cluster) in self._inherited:
            return True
        searcher = self._session.searcher
        prepared = self._session.preparer.prepare_stored(removed.scope, [removed])
        ranked = searcher.rank(prepared, leaders_only=True, excluded=frozenset((removed.ref,)))
        pool = searcher.fetch(prepared, ranked)
        return any(entry.cluster == removed.cluster for entry in pool.entries)

    def merge_into_older(self, scope: str, id: str) -> int:
        """Resolves a representative to a similar older one, as `Index.merge_into_older` does."""
        members = self._session.store.member_count(require_scope(scope), require_id(id))
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
        changes = self._stage_merge(entry, older[0], older[1])
        self._session.apply(changes)
        return len(changes.changed)

    def _most_similar_older(self, entry: Entry) -> tuple[Entry, float] | None:
        """Returns the most similar representative that was inserted before, and its similarity."""
        searcher = self._session.searcher
        prepared = self._session.preparer.prepare_stored(entry.scope, [entry])
        ranked = searcher.rank(prepared, leaders_only=True, excluded=frozenset((entry.ref,)))
        pool = searcher.fetch(prepared, ranked)
        older = [i for i, candidate in enumerate(pool.entries) if candidate.ref < entry.ref]
        # position 0 of the pool is the entry itself
        positions = np.array(older, np.uint64) + np.uint64(1)
        similarities = searcher.similarity(np.uint64(0), positions, pool).tolist()
        best: tuple[Entry, float] | None = None
        for i, similarity in zip(older, similarities, strict=True):
            candidate = pool.entries[i]
            if similarity < 0:
                continue
            if best is None or (similarity, -candidate.ref) > (best[1], -best[0].ref):
                best = (candidate, similarity)
        return best

    def _stage_merge(self, entry: Entry, older: Entry, similarity: float) -> Changes:
        """Returns the changes by which a representative becomes a member of an older one."""
        session = self._session
        changes = Changes(required_leaders=[older])
        changes.events.append(
            Event("merged", entry.scope, entry.cluster, older.cluster, session.clock())
        )
        keys = session.preparer.keys_of(entry.scope, [entry])[0]
        posts_members = session.settings.postings == "all"
        moved = entry._replace(
            leader=older.id,
            cluster=older.cluster,
            similarity=similarity,
            posted=posts_members,
            signature=entry.signature if posts_members else b"",
        )
        changes.changed.append(moved)
        if posts_members:
            changes.posted.append(KeyedEntry(moved, keys))
        else:
            changes.unposted.append(KeyedEntry(entry, keys))
        members = self._members_for_step(entry, older.id, inherits_cluster=False)
        changes.leader_snapshots.append(leader_snapshot(entry, members))
        if members:
            others = self._move_similar(members, older, changes)
            if others:
                self._reassign_members(entry, others, changes, inherits_cluster=False)
        return changes
