"""The change log of an index that is being copied, and the documents that its steps touched."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from nearkin.index.changes import TOUCHED
from nearkin.index.migration.copy import DOCUMENTS_AT_ONCE, NOTHING_COPIED, Copier, CopyCounts

MAX_ROUNDS = 10
"""The maximum number of times that a copy follows the log before the index is closed."""
FEW_DOCUMENTS = 1000
"""The number of touched documents below which the index is closed for the last of them. To copy
this many takes well under a second."""


class LogFollower:
    """Copies the documents that were touched since it was created.

    Each reading begins where the log ended before the previous reading, so that only new lines are
    read while the index is closed. To read a line twice does no harm.
    """

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self._store = copier.source
        self._place = self._store.log_end()
        self._counted: Counter[tuple[str, str]] = Counter()
        if self._place is None:
            self._counted = Counter(self._touched())

    def _touched(self) -> Iterator[tuple[str, str]]:
        for event in self._store.events(self._place):
            if event.kind == TOUCHED:
                yield event.scope, event.id

    def copy_touched(self) -> CopyCounts:
        """Copies the documents that were touched since the last call."""
        if self._place is None:
            # the store's log has no places and no order, so its lines are counted
            touched = Counter(self._touched())
            new = touched - self._counted
            self._counted = touched
            return self._copier.copy_documents(new)
        end = self._store.log_end()
        names = self._touched()
        total = NOTHING_COPIED
        while portion := dict.fromkeys(islice(names, DOCUMENTS_AT_ONCE)):
            total = total.add(self._copier.copy_documents(portion))
        self._place = end
        return total

    def copy_until_few(self) -> CopyCounts:
        """Copies touched documents until few are touched while others are copied."""
        total = NOTHING_COPIED
        for _ in range(MAX_ROUNDS):
            copied = self.copy_touched()
            total = total.add(copied)
            if sum(copied) < FEW_DOCUMENTS:
                break
        return total
