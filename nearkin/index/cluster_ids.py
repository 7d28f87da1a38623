"""Clusters that have the same id.

The id of a cluster is the id of its first representative, and heirs inherit it. Two clusters of a
scope have the same id in three cases:

- A removal is under way, or was interrupted: the removed representative and the heir have it. A
  handover says so (`nearkin.index.handovers`).
- An id that was deleted came again, as a new document. This is intended: the new document is
  younger than the heir, and begins a cluster under its own id.
- Such a document was deleted, too, or the first heir was, and left the id to a younger heir. No
  step can see the other cluster without one more read, so the check counts them and `compact`
  separates them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from nearkin.index.entry import RESERVED, Entry, without_content
from nearkin.index.handovers import read_handover, standing_heir
from nearkin.index.stores.base import PORTION, Store


class SharedClusterIds:
    """Finds clusters that have the same id, while the documents of a store are scanned.

    It keeps the representatives that have inherited the id of their cluster, without content.
    """

    def __init__(self) -> None:
        self._heirs: dict[tuple[str, str], list[Entry]] = defaultdict(list)

    def add(self, entries: Iterable[Entry]) -> None:
        """Adds documents, each of which is scanned once."""
        for entry in entries:
            is_heir = entry.is_leader and entry.cluster != entry.id
            if is_heir and not entry.scope.startswith(RESERVED):
                self._heirs[entry.scope, entry.cluster].append(without_content(entry))

    def groups(self, store: Store) -> Iterator[list[Entry]]:
        """Yields representatives that have the same cluster id, at least two, the oldest first.

        A new document under an id that was deleted is left out.
        """
        names = iter(sorted(self._heirs))
        while batch := list(islice(names, PORTION)):
            for scope in dict.fromkeys(scope for scope, _ in batch):
                clusters = [cluster for named, cluster in batch if named == scope]
                firsts = store.entries(scope, clusters)
                for cluster, first in zip(clusters, firsts, strict=True):
                    group = self._group_of(store, self._heirs[scope, cluster], first)
                    if len(group) > 1:
                        yield group

    def _group_of(self, store: Store, heirs: list[Entry], first: Entry | None) -> list[Entry]:
        """Returns the representatives that have the same cluster id now, the oldest first."""
        cluster = heirs[0].cluster
        refs = sorted({heir.ref for heir in heirs})
        # numbers ascend, so that a document that came again has a larger one than the heir
        is_older = first is not None and _has_id(first, cluster) and first.ref < refs[-1]
        if not is_older and len(refs) == 1:
            return []
        if first is not None and is_older:
            refs.append(first.ref)
        entries = store.by_refs(sorted(refs))
        return [entry for entry in entries if entry is not None and _has_id(entry, cluster)]


def _has_id(entry: Entry, cluster: str) -> bool:
    return entry.is_leader and entry.cluster == cluster


def still_sharing(store: Store, group: list[Entry]) -> list[Entry]:
    """Returns those of some representatives that have the same cluster id now, the oldest first."""
    entries = store.by_refs([entry.ref for entry in group])
    return [entry for entry in entries if entry is not None and _has_id(entry, group[0].cluster)]


def is_being_removed(store: Store, group: list[Entry]) -> bool:
    """Returns True if representatives share a cluster id because a removal is not complete."""
    handover = read_handover(store, group[0].scope, group[0].cluster)
    if handover is None or standing_heir(store, handover) is None:
        return False
    return {entry.id for entry in group} <= handover.removed | {handover.heir}
