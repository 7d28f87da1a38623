"""The decisions of people and the settings of scopes, which every step of this process follows.

Decisions join and separate groups: documents that are decided to be the same are a group, and two
groups are separate if a document of one is decided to be different from one of the other. They are
given to the process, or stored in the index.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearkin.index.decision_records import read_head, read_stored
from nearkin.index.entry import RESERVED, Entry, require_scope
from nearkin.index.scope_settings import ScopeRecord, read_record_entry
from nearkin.index.stores.base import Store

if TYPE_CHECKING:
    from nearkin.settings.decisions import Decisions


MAX_KNOWN_SCOPES = 10_000
"""The number of scopes whose decisions a process keeps in memory."""


class ScopeDecisions:
    """The decisions about the documents of one scope.

    Decisions that several people wrote can contradict each other through a chain. Then a pair that
    is decided to be different counts, and a link `same` that would join it does not.
    """

    def __init__(self, decisions: "Decisions") -> None:
        # Few indexes have decisions, and every process with an index imports this module.
        from nearkin.stages.cluster.decided_pairs import ConstrainedGroups
        from nearkin.stages.cluster.id_order import list_in_order

        ids = list_in_order({id for decision in decisions for id in decision.pair})
        numbers = {id: number for number, id in enumerate(ids)}
        separate = [[numbers[first], numbers[second]] for first, second in decisions.different]
        groups = ConstrainedGroups(np.array(separate, np.int64).reshape(-1, 2))
        for first, second in decisions.same:
            groups.unite(numbers[first], numbers[second])
        self._group_of = {id: groups.group_of(number) for id, number in numbers.items()}
        self._members: dict[int, list[str]] = {}
        for id, group in self._group_of.items():
            self._members.setdefault(group, []).append(id)
        self._separate: dict[int, set[int]] = {}
        for first, second in decisions.different:
            a = self._group_of[first]
            b = self._group_of[second]
            self._separate.setdefault(a, set()).add(b)
            self._separate.setdefault(b, set()).add(a)

    def concerns(self, id: str) -> bool:
        """Returns whether a decision is about a document."""
        return id in self._group_of

    def settles(self, first: str, second: str) -> bool:
        """Returns whether decisions say, through others too, if two documents are the same."""
        a = self._group_of.get(first)
        b = self._group_of.get(second)
        if a is None or b is None:
            return False
        return a == b or b in self._separate.get(a, ())

    def same_as(self, id: str) -> list[str]:
        """Returns the other documents of the group of a document, in ascending order."""
        members = self._members.get(self._group_of.get(id, -1), [])
        return [other for other in members if other != id]

    def separate_from(self, id: str) -> list[str]:
        """Returns the documents that are never in one cluster with a document, in order."""
        groups = self._separate.get(self._group_of.get(id, -1), ())
        return sorted(other for group in groups for other in self._members[group])


class Representative(NamedTuple):
    """A representative that is stored, or in a batch."""

    id: str
    entry: Entry | None
    """The stored entry, or None if it is in the batch."""


class GuardedBatch(NamedTuple):
    """The decisions about the documents of a batch."""

    positions: frozenset[int]
    """The positions of the documents in the batch."""
    partners: Mapping[str, Entry]
    """The stored documents that decisions are about, as they are before the step."""
    leaders: Mapping[str, Entry]
    """The stored representatives of documents that are decided to be the same as one of these."""
    scope_decisions: ScopeDecisions
    placed: dict[str, Representative]
    """The representative of each document of the batch that was decided about so far."""

    def forbidden_of(self, id: str) -> frozenset[str]:
        """Returns the representatives and the clusters that a document must not join."""
        forbidden: set[str] = set()
        for other in self.scope_decisions.separate_from(id):
            if other in self.placed:
                placed = self.placed[other]
                forbidden.add(placed.id)
                if placed.entry is not None:
                    forbidden.add(placed.entry.cluster)
            elif other in self.partners:
                entry = self.partners[other]
                forbidden |= {entry.leader, entry.cluster}
        return frozenset(forbidden)

    def representative_of(self, id: str) -> Representative | None:
        """Returns the representative that a document must be resolved to, or None.

        Of several, it is that of the smallest id. One that the document must not join is left out.
        """
        forbidden = self.forbidden_of(id)
        for other in self.scope_decisions.same_as(id):
            placed = self.placed.get(other)
            if placed is None and other in self.partners:
                leader = self.leaders.get(self.partners[other].leader)
                placed = None if leader is None else Representative(leader.id, leader)
            if placed is not None and placed.id not in forbidden:
                return placed
        return None


class _KnownScope(NamedTuple):
    """The decisions about a scope, and its settings, as a process has read them."""

    mark: bytes | None
    """The digest of the head of the stored decisions, or None if there are none."""
    decisions: ScopeDecisions | None
    """The decisions, or None if there are none."""
    record: ScopeRecord | None
    """The settings of the scope as they were stored, or None if it has those of the index."""


class PairGuard:
    """The decisions about the documents of an index, and the settings of its scopes.

    Safe for threads.
    """

    def __init__(self, decisions: "Mapping[str, Decisions] | None" = None) -> None:
        self.given = {
            require_scope(scope): of_scope for scope, of_scope in (decisions or {}).items()
        }
        """The decisions of each scope that are given to the process."""
        self._known: dict[str, _KnownScope] = {}
        self._previous: dict[str, _KnownScope] = {}

    def forget(self) -> None:
        """Forgets what is stored, which is read again when it is needed."""
        self._previous = {**self._previous, **self._known}
        if len(self._previous) > MAX_KNOWN_SCOPES:
            self._previous = {}
        self._known = {}

    def of_scope(self, store: Store, scope: str) -> ScopeDecisions | None:
        """Returns the decisions about the documents of a scope, or None if there are none."""
        return self._know(store, scope).decisions

    def record_of(self, store: Store, scope: str) -> ScopeRecord | None:
        """Returns the record of a scope, or None if it has the settings of the index.

        Its counts are those of the time when it was read.
        """
        return self._know(store, scope).record

    def _know(self, store: Store, scope: str) -> _KnownScope:
        # a thread that reads while another one forgets keeps its result in the replaced table
        table = self._known
        known = table.get(scope)
        if known is None:
            known = self._read(store, scope)
            if len(table) >= MAX_KNOWN_SCOPES:
                table.clear()
            table[scope] = known
        return known

    def _read(self, store: Store, scope: str) -> _KnownScope:
        if scope.startswith(RESERVED):
            return _KnownScope(None, None, None)
        stored_record = read_record_entry(store, scope)
        record = None if stored_record is None else ScopeRecord.of(stored_record)
        given = self.given.get(scope)
        head = read_head(store, scope)
        mark = None if head is None else head.digest
        previous = self._previous.get(scope)
        if previous is not None and previous.mark == mark:
            return previous._replace(record=record)
        if head is None:
            decided = None if given is None else ScopeDecisions(given)
            return _KnownScope(None, decided, record)
        stored = read_stored(store, scope)
        decisions = stored if given is None else given.updated(stored)
        return _KnownScope(mark, ScopeDecisions(decisions), record)

    def guard_batch(
        self,
        store: Store,
        scope: str,
        ids: Sequence[str],
        excluded: frozenset[int],
        changed: Sequence[Entry],
    ) -> GuardedBatch | None:
        """Returns what decisions say about a batch, or None if they are about none of it."""
        scope_decisions = self.of_scope(store, scope)
        if scope_decisions is None:
            return None
        positions = frozenset(i for i, id in enumerate(ids) if scope_decisions.concerns(id))
        if not positions:
            return None
        wanted: set[str] = set()
        for position in positions:
            wanted.update(scope_decisions.same_as(ids[position]))
            wanted.update(scope_decisions.separate_from(ids[position]))
        stored = store.entries(scope, sorted(wanted - set(ids)))
        partners = {entry.id: entry for entry in stored if entry is not None}
        partners = {id: entry for id, entry in partners.items() if entry.ref not in excluded}
        partners.update({entry.id: entry for entry in changed if entry.id in partners})
        leader_ids = {
            partners[id].leader
            for position in positions
            for id in scope_decisions.same_as(ids[position])
            if id in partners
        }
        leaders = {
            entry.id: entry
            for entry in store.entries(scope, sorted(leader_ids))
            if entry is not None
        }
        leaders.update({entry.id: entry for entry in changed if entry.id in leaders})
        leaders = {
            id: entry
            for id, entry in leaders.items()
            if entry.is_leader and entry.ref not in excluded
        }
        return GuardedBatch(positions, partners, leaders, scope_decisions, {})

    def joins(self, store: Store, scope: str, id: str) -> bool:
        """Returns whether a document is decided to be the same as another one.

        It can be resolved to a representative that it does not resemble.
        """
        scope_decisions = self.of_scope(store, scope)
        return scope_decisions is not None and bool(scope_decisions.same_as(id))

    def separates(self, store: Store, entry: Entry, older: Entry) -> bool:
        """Returns whether documents of two clusters are decided to be different."""
        scope_decisions = self.of_scope(store, entry.scope)
        if scope_decisions is None:
            return False
        count = store.member_count(entry.scope, entry.id)
        members = store.members(entry.scope, entry.id, max(count, 1))
        others: set[str] = set()
        for id in (entry.id, *(member.id for member in members)):
            others.update(scope_decisions.separate_from(id))
        stored = store.entries(entry.scope, sorted(others))
        return any(other is not None and other.leader == older.id for other in stored)
