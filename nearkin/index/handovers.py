"""The handover of a cluster's id from a representative that is removed to another document.

The removal of a representative may take several steps. The first member that becomes a
representative itself is the heir: it inherits the id of the cluster, while the removed
representative still has it. A handover is stored in the same step as the heir. So whoever completes
the removal, in any process, knows that the id has an heir already.

A handover is an entry of a reserved scope. Its id is the id of the cluster, the id of its cluster
is that of the heir, and its text is a JSON list of the scope and of `Handover.removed`.
"""

import hashlib
import json
from dataclasses import dataclass, replace

from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import HANDOVERS_PREFIX, Entry, internal_entry, reserved_scope
from nearkin.index.stores.base import Store


def is_handovers_scope(scope: str) -> bool:
    """Returns True if a scope holds handovers."""
    return scope.startswith(HANDOVERS_PREFIX)


def handovers_scope(scope: str) -> str:
    """Returns the scope that holds the handovers of a scope. Callers cannot name it.

    Examples:
        >>> handovers_scope("a") == handovers_scope("a"), is_handovers_scope(handovers_scope("a"))
        (True, True)
    """
    return reserved_scope(HANDOVERS_PREFIX, scope)


@dataclass(frozen=True)
class Handover:
    """The fact that a document inherits the id of a cluster.

    Attributes:
        scope: Scope of the documents.
        cluster: Id of the cluster.
        heir: Id of the document that inherits it.
        removed: Ids of the representatives whose removal has begun and is not complete.
        stored: The entry by which the handover is stored; None if it is new.
    """

    scope: str
    cluster: str
    heir: str
    removed: frozenset[str] = frozenset()
    stored: Entry | None = None

    @classmethod
    def of(cls, entry: Entry) -> "Handover":
        """Returns the handover that an entry of a reserved scope stores."""
        scope, *removed = json.loads(entry.text or "")
        return cls(scope, entry.id, entry.cluster, frozenset(removed), entry)

    def began(self, id: str) -> "Handover":
        """Returns the handover with one more representative whose removal has begun."""
        return replace(self, removed=self.removed | {id})

    def completed(self, id: str) -> "Handover":
        """Returns the handover without a representative whose removal is complete."""
        return replace(self, removed=self.removed - {id})

    def stage(self, changes: Changes, now: float) -> None:
        """Adds to the changes of a step what stores the handover as it is now.

        A handover that no removal needs any more is deleted.

        Args:
            now: Time of the step, in seconds of the clock.
        """
        if self.removed:
            entry = self._entry(now)
            if self.stored is None:
                changes.new.append(KeyedEntry(entry, None))
            elif Handover.of(self.stored) != self:
                changes.changed.append(entry)
        elif self.stored is not None:
            changes.dropped.append(KeyedEntry(self.stored, None))

    def _entry(self, now: float) -> Entry:
        """Returns the entry that stores the handover."""
        entry = internal_entry(
            handovers_scope(self.scope),
            self.cluster,
            hashlib.sha256(self.heir.encode()).digest()[:16],
            now,
            json.dumps([self.scope, *sorted(self.removed)]),
        )._replace(cluster=self.heir)
        if self.stored is None:
            return entry
        return entry._replace(ref=self.stored.ref, created=self.stored.created)


def read_handover(store: Store, scope: str, cluster: str) -> Handover | None:
    """Returns the handover of a cluster's id, or None if none is stored."""
    entry = store.entries(handovers_scope(scope), [cluster])[0]
    return None if entry is None else Handover.of(entry)


def standing_heir(store: Store, handover: Handover) -> Entry | None:
    """Returns the heir if it is a representative that has the id of the cluster, else None.

    The handover of a step that failed over shards may be stored without its heir.
    """
    heir = store.entries(handover.scope, [handover.heir])[0]
    if heir is None or not heir.is_leader or heir.cluster != handover.cluster:
        return None
    return heir
