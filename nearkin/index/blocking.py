"""The comparison of documents with a blocklist, before they are upserted into an index."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nearkin.engine.blocklist.blocklist import BlockedMatch, Blocklist
from nearkin.index.entry import Layer, Outcome, OutcomeKind
from nearkin.index.session import Session

if TYPE_CHECKING:
    from nearkin.engine.blocklist.search import EntrySearch
    from nearkin.index.documents import CheckedDocument
    from nearkin.stages.measures import Measure


class UpsertBlocker:
    """Finds documents that are like an entry of a blocklist. It misses none. Safe for threads."""

    def __init__(self, session: Session, blocklist: Blocklist) -> None:
        self.blocklist = blocklist
        self._session = session
        self._search = self._create_search()

    def _create_search(self) -> "tuple[Measure, EntrySearch]":
        """Returns the measure of the index, and a search among the entries by it."""
        session = self._session
        self.blocklist.require_spec(
            session.spec,
            f"the index {' '.join(session.public_urls())}",
            "create a list with the Spec and the key of the index",
        )
        return session.measure, self.blocklist.search(session.measure)

    def find(
        self, scope: str, documents: "Sequence[CheckedDocument]", digests: list[bytes]
    ) -> dict[int, BlockedMatch]:
        """Returns the entry that each blocked document is like, by the document's position.

        Documents without a text are not blocked.
        """
        if not len(self.blocklist):
            return {}
        session = self._session
        if self._search[0] is not session.measure:
            self._search = self._create_search()
        _, search = self._search
        texts = session.documents.prepare(scope, documents, digests).kinds[0]
        matches = search.find(texts.payload, session.threshold)
        is_text = ~np.asarray(texts.empty)
        return {
            position: match
            for position, match in self.blocklist.name_matches(matches)
            if is_text[position]
        }


def blocked_outcome(id: str, match: BlockedMatch, seconds: float) -> Outcome:
    """Returns the outcome of a document that is not stored, because it is like a blocked one.

    Args:
        seconds: Duration of the comparison, in seconds.
    """
    return Outcome(
        kind=OutcomeKind.BLOCKED,
        layer=Layer.BLOCKLIST,
        id=id,
        cluster="",
        representative="",
        similarity=match.similarity,
        seconds={"look_up": seconds, "search": 0.0, "write": 0.0},
        blocked_by=match.entry,
    )
