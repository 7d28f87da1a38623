"""The decisions that people make about stored documents: they are stored, and then followed.

A decision is first written, in a step of its own. Then the epoch of the index rises, so that every
process reads the decisions before its next step: steps that were made without the decision are
refused. Last, documents that are decided to be different leave their common cluster, and those that
are decided to be the same are joined. An interrupted call is repeated with the same result.
"""

import itertools
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nearkin.errors import UsageError
from nearkin.index.changes import Changes
from nearkin.index.decided_pairs import ScopeDecisions
from nearkin.index.decision_records import (
    DecisionStep,
    read_epoch,
    read_head,
    read_stored,
    stage_decisions,
)
from nearkin.index.entry import Entry, require_id, require_public_name, require_scope
from nearkin.index.removal import Removals
from nearkin.index.session import Session
from nearkin.stages.packed_pairs import pack_pairs

if TYPE_CHECKING:
    from nearkin.settings.decisions import Decision, Decisions

MAX_DECISIONS = 100_000
"""The maximum number of stored decisions about a scope. A step may read all of them."""
DECISIONS_AT_ONCE = 2_000
"""The number of decisions that are written in one step."""


class DecisionSteps:
    """The steps that write and follow decisions about the documents of an open index."""

    def __init__(self, session: Session, removals: Removals) -> None:
        self._session = session
        self._removals = removals

    def read(self, scope: str) -> "Decisions":
        """Returns the stored decisions about a scope, as `Index.decisions` does."""
        self._session.refresh_if_due()
        # it keeps the store open if the index moves meanwhile
        searcher = self._session.searcher
        return read_stored(searcher.store, require_scope(scope))

    def read_version(self, scope: str) -> str:
        """Returns the digest of the stored decisions, as `Index.decisions_version` does."""
        self._session.refresh_if_due()
        searcher = self._session.searcher
        head = read_head(searcher.store, require_scope(scope))
        return "" if head is None else head.digest.hex()

    def add(self, scope: str, decisions: "Sequence[Decision]") -> int:
        """Stores decisions and follows them, as `Index.decide` does."""
        from nearkin.settings.decisions import Decisions

        session = self._session
        if session.follow:
            session.scope_names.require(require_scope(scope))
        for decision in decisions:
            _require_storable(decision)
        # verdicts of which neither is later are refused before times are added to them
        requested = Decisions.resolve(decisions, "the request")
        stored = self.read(scope)
        timed = [
            stored.with_time(decision)
            for decision in requested
            if not _repeats(decision, stored.of_pairs.get(decision.pair))
        ]
        written = 0
        while portion := session.run_step(scope, partial(self._write_portion, scope, timed)):
            written += portion
        if decisions:
            # an earlier call may have been interrupted after it wrote them
            if written or not self._is_fenced(scope):
                # the copy of an index follows the decisions before it is opened
                self._session.fence()
            self.follow(scope, list(requested.of_pairs))
        return written

    def _merge(
        self, scope: str, decisions: "Sequence[Decision]"
    ) -> "tuple[Entry | None, list[Decision]]":
        """Returns the head of the stored decisions, and those of the decisions that are new."""
        from nearkin.settings.decisions import Decisions

        store = self._session.store
        head = read_head(store, scope)
        stored = Decisions() if head is None else read_stored(store, scope)
        source = f"the scope {scope!r}"
        new = [
            decision
            for decision in decisions
            if _replaces(decision, stored.of_pairs.get(decision.pair))
        ]
        merged = Decisions({**stored.of_pairs, **{decision.pair: decision for decision in new}})
        if len(merged) > MAX_DECISIONS:
            raise UsageError(
                f"{source} would have {len(merged):,} decisions, and an index stores at most "
                f"{MAX_DECISIONS:,} of a scope; give the others to the processes that open it"
            )
        if new:
            merged.require_consistent(source)
        return head, new

    def _write_portion(self, scope: str, decisions: "Sequence[Decision]") -> int:
        """Writes some of the decisions that are new in one step. Returns their number."""
        session = self._session
        # all of them are checked before any is written
        head, new = self._merge(scope, decisions)
        portion = new[:DECISIONS_AT_ONCE]
        if portion:
            step = DecisionStep(scope, session.state.migration.epoch, session.clock())
            session.apply(stage_decisions(session.store, step, head, portion))
            session.guard.forget()
        return len(portion)

    def _is_fenced(self, scope: str) -> bool:
        """Returns whether the epoch has risen since the last decisions about a scope were written.

        It is not known of those that older versions wrote.
        """
        # it keeps the store open if the index moves meanwhile
        searcher = self._session.searcher
        head = read_head(searcher.store, scope)
        if head is None:
            return True
        epoch = read_epoch(head)
        return epoch is not None and epoch != searcher.store.state().migration.epoch

    def follow(self, scope: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Moves stored documents into other clusters until decisions about them are followed."""
        for first, second in pairs:
            searcher = self._session.searcher
            decisions = self._session.guard.of_scope(searcher.store, scope)
            if decisions is None:
                continue
            if second in decisions.same_as(first):
                self._join(scope, decisions, first)
            elif second in decisions.separate_from(first):
                self._separate(scope, decisions, first, second)

    def _join(self, scope: str, decisions: ScopeDecisions, id: str) -> None:
        """Resolves all documents that are the same as one to one representative."""
        self._gather(scope, decisions, id)
        # a cluster that is represented by one of the group may have documents to separate
        group = self._stored(scope, [id, *decisions.same_as(id)])
        leaders = {entry.leader for entry in group}
        separate = self._stored(scope, decisions.separate_from(id))
        leaving = [entry.id for entry in separate if entry.leader in leaders]
        for other in leaving:
            self._expel(scope, other)
        for other in leaving:
            self._gather(scope, decisions, other)

    def _gather(self, scope: str, decisions: ScopeDecisions, id: str) -> None:
        """Resolves documents that are decided to be the same to one representative.

        It is one of them, if one is a representative. Otherwise it is that of a cluster without a
        document to separate from them.
        """
        group = self._stored(scope, [id, *decisions.same_as(id)])
        if len({entry.leader for entry in group}) < 2:
            return
        separate = self._stored(scope, decisions.separate_from(id))
        forbidden = {entry.leader for entry in separate}
        ids = {entry.id for entry in group}
        leaders = self._stored(scope, {entry.leader for entry in group})
        choices = [entry for entry in leaders if entry.id in ids or entry.id not in forbidden]
        choices.sort(key=lambda entry: (entry.id not in ids, entry.ref))
        if choices:
            target = choices[0].id
        else:
            self._expel(scope, group[0].id)
            moved = self._session.entry_of(scope, group[0].id)
            target = group[0].id if moved is None else moved.leader
        for entry in group:
            if entry.leader != target:
                self._session.run_step(scope, partial(self._move, scope, entry.id, target))

    def _separate(self, scope: str, decisions: ScopeDecisions, first: str, second: str) -> None:
        """Searches other clusters for two groups: for one of them, if they are in one cluster.

        An earlier decision can have joined them to a representative that they do not resemble.
        """
        groups = [[id, *decisions.same_as(id)] for id in (first, second)]
        for group in groups:
            self._leave_unlike(scope, decisions, group)
        of_first, of_second = (
            {entry.leader for entry in self._stored(scope, group)} for group in groups
        )
        for leader in sorted(of_first & of_second):
            leaving = groups[0] if leader in groups[1] else groups[1]
            for entry in self._stored(scope, leaving):
                if entry.leader == leader:
                    self._expel(scope, entry.id)
            self._gather(scope, decisions, leaving[0])
        self._separate_cluster_ids(scope, groups)

    def _separate_cluster_ids(self, scope: str, groups: Sequence[Sequence[str]]) -> None:
        """Ends that the clusters of two groups have the same id.

        An id that was deleted comes again, while an heir has it as the id of its cluster.
        """
        of_first, of_second = (
            self._stored(scope, {entry.leader for entry in self._stored(scope, group)})
            for group in groups
        )
        for pair in itertools.product(of_first, of_second):
            other, renamed = sorted(pair, key=lambda entry: (entry.id != entry.cluster, entry.ref))
            if other.cluster == renamed.cluster and other.id != renamed.id:
                self._removals.separate_cluster_ids(scope, renamed.id, other.id)

    def _leave_unlike(self, scope: str, decisions: ScopeDecisions, group: Sequence[str]) -> None:
        """Searches another representative for a group of which no document resembles its own."""
        entries = self._stored(scope, group)
        if any(entry.leader in group or not entry.has_content for entry in entries):
            return
        leaders = self._stored(scope, {entry.leader for entry in entries})
        pairs = [(leader, e) for leader in leaders for e in entries if e.leader == leader.id]
        if not pairs or not all(leader.has_content for leader in leaders):
            return
        positions = np.arange(len(pairs), dtype=np.uint64) * np.uint64(2)
        compared = self._session.searcher.of_scope(scope).comparer.compare_entries(
            [entry for pair in pairs for entry in pair],
            pack_pairs(positions, positions + np.uint64(1)),
        )
        if compared.reached.any():
            return
        for entry in entries:
            self._expel(scope, entry.id)
        self._gather(scope, decisions, group[0])

    def _stored(self, scope: str, ids: Iterable[str]) -> list[Entry]:
        """Returns the stored documents among some, in the order of their ids."""
        from nearkin.stages.cluster.id_order import list_in_order

        searcher = self._session.searcher
        entries = searcher.store.entries(scope, list_in_order(ids))
        return [entry for entry in entries if entry is not None]

    def _expel(self, scope: str, id: str) -> None:
        """Searches another representative for a member of a cluster."""
        self._session.run_step(scope, partial(self._expel_member, scope, id))

    def _expel_member(self, scope: str, id: str) -> None:
        session = self._session
        entry = session.entry_of(scope, id)
        if entry is None or entry.is_leader:
            return
        leader = session.entry_of(scope, entry.leader)
        if leader is None:
            return
        changes = Changes(expected=[entry])
        if entry.has_content:
            self._removals.search_for_members(leader, [entry], changes, None)
        else:
            # nothing can be compared with it, so that it is in no buckets
            alone = entry._replace(
                leader=id, cluster=id, similarity=1.0, posted=False, signature=b""
            )
            changes.changed.append(alone)
        session.apply(changes)

    def _move(self, scope: str, id: str, leader_id: str) -> None:
        """Resolves a document to a representative, whatever their similarity is."""
        session = self._session
        entry = session.entry_of(scope, id)
        leader = session.entry_of(scope, leader_id)
        if entry is None or leader is None or not leader.is_leader or entry.leader == leader_id:
            return
        similarity = 0.0
        if entry.has_content and leader.has_content:
            pairs = np.array([1], np.uint64)
            compared = session.searcher.comparer.compare_entries([leader, entry], pairs)
            similarity = float(np.nan_to_num(compared.similarity[0]))
        if entry.is_leader:
            session.apply(self._removals.stage_decided_merge(entry, leader, similarity))
            return
        moved = entry._replace(leader=leader.id, cluster=leader.cluster, similarity=similarity)
        session.apply(Changes(changed=[moved], expected=[entry], required_leaders=[leader]))


def _require_storable(decision: "Decision") -> None:
    """Requires that an index can store a decision."""
    from nearkin.settings.decisions import Decision, Verdict

    if not isinstance(decision, Decision):
        raise UsageError(
            f"{decision!r} is not a decision; give "
            "nearkin.index_types.Decision(id_a, id_b, verdict)"
        )
    if decision.verdict not in list(Verdict):
        raise UsageError(
            f"the verdict {decision.verdict!r} is unknown; give {' or '.join(Verdict)}"
        )
    for id in (decision.id_a, decision.id_b):
        require_id(id)
    if decision.by is not None:
        require_public_name(decision.by, "the name of who decides")


def _repeats(decision: "Decision", stored: "Decision | None") -> bool:
    """Returns whether a decision without a time says what the stored one about its pair says."""
    return decision.at is None and stored is not None and decision.verdict == stored.verdict


def _replaces(decision: "Decision", stored: "Decision | None") -> bool:
    """Returns whether a decision is later than the stored one about its pair."""
    if stored is None:
        return True
    assert decision.at is not None
    assert stored.at is not None
    if decision.at == stored.at and decision.verdict != stored.verdict:
        first, second = decision.pair
        raise UsageError(
            f"the pair {first!r}, {second!r} is stored as {stored.verdict} at the same time "
            f"{stored.at.isoformat()}; give the decision a later time"
        )
    return decision.at > stored.at
