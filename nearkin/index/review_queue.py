"""The review queue of an index: pairs of documents near the threshold, most uncertain first.

Pairs above the threshold are members and their representatives, whose similarity is stored. Pairs
below it are representatives that are related to each other, in an index with the setting `related`.
"""

import time
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from nearkin.errors import UsageError
from nearkin.index.entry import Entry
from nearkin.index.index import Index
from nearkin.settings.decisions.uncertain_pairs import UncertainPair, most_uncertain

SEARCHED_AT_ONCE = 50
"""The number of representatives whose related ones are searched for at a time."""


class IndexReviewQueue(NamedTuple):
    """The pairs to decide about, the most uncertain ones first."""

    pairs: list[UncertainPair]
    documents: int
    """The number of documents whose pairs were looked at."""
    is_complete: bool
    """False if the time was over before all documents were looked at."""


def collect_index_review_queue(
    index: Index, scope: str, limit: int, seconds: float
) -> IndexReviewQueue:
    """Returns the pairs of a scope that are nearest to the threshold and not yet decided.

    Args:
        seconds: Time after which the search ends, in seconds.
    """
    if index.holds_vectors:
        raise UsageError(
            "a review shows texts side by side, and the documents of this index are vectors; "
            "decide about them with nearkin index decide"
        )
    reading = _ScopeReading(index, scope, time.monotonic() + seconds)
    # a pair of two representatives is found from both of them
    pairs = most_uncertain(reading.undecided_pairs(), limit)
    return IndexReviewQueue(pairs, reading.documents, reading.is_complete)


class _ScopeReading:
    """The documents of a scope, which are read until all are read or the time is over."""

    def __init__(self, index: Index, scope: str, deadline: float) -> None:
        self._index = index
        self._scope = scope
        self._deadline = deadline
        self.documents = 0
        self.is_complete = True

    def undecided_pairs(self) -> Iterator[UncertainPair]:
        """Yields the pairs that no decision settles. One may come twice."""
        session = self._index._session
        # it keeps the store open if the index moves meanwhile
        searcher = session.searcher
        decisions = session.guard.of_scope(searcher.store, self._scope)
        for pair in self._pairs():
            if decisions is None or not decisions.settles(pair.id_a, pair.id_b):
                yield pair

    def _pairs(self) -> Iterator[UncertainPair]:
        is_related = self._index.settings.related is not None
        entries = self._documents_in_time(with_content=is_related)
        while batch := list(islice(entries, SEARCHED_AT_ONCE)):
            for entry in batch:
                if not entry.is_leader:
                    yield self._pair(entry.id, entry.leader, entry.similarity)
            if is_related:
                yield from self._related_pairs(batch)

    def _documents_in_time(self, *, with_content: bool) -> Iterator[Entry]:
        for entry in self._index.scan(self._scope, content=with_content):
            if time.monotonic() > self._deadline:
                self.is_complete = False
                return
            self.documents += 1
            yield entry

    def _related_pairs(self, entries: list[Entry]) -> Iterator[UncertainPair]:
        leaders = [entry for entry in entries if entry.is_leader and entry.text is not None]
        texts = [entry.text for entry in leaders if entry.text is not None]
        related = self._index.related_many(self._scope, texts) if texts else []
        for leader, matches in zip(leaders, related, strict=True):
            for match in matches:
                if match.id != leader.id:
                    yield self._pair(leader.id, match.id, match.similarity)

    def _pair(self, id: str, other: str, similarity: float) -> UncertainPair:
        return UncertainPair.of(id, other, similarity, self._index.threshold)
