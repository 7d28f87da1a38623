"""The comparison of the documents of a run with a blocklist."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.blocklist.given_documents import GivenDocuments
from nearkin.engine.blocklist.search import BlockedMatches, EntrySearch
from nearkin.engine.options import RunOptions
from nearkin.engine.payload_batches import map_payloads
from nearkin.engine.reference_matches import ReferenceMatches, expand_groups
from nearkin.engine.result_schema import BLOCKED
from nearkin.engine.run import Run
from nearkin.engine.stats import BlocklistStats
from nearkin.runtime.setting_names import name_setting
from nearkin.stages.measures import Payload


def require_blockable(options: RunOptions, blocklist: Blocklist) -> None:
    """Requires that the documents of a run can be compared with a blocklist."""
    require_one_measure(options)
    one_column = "the entries are documents of one column; run twice, first with the blocklist"
    options.require_defaults(name_setting("blocklist"), {"fields": one_column})
    blocklist.require_spec(
        options.spec,
        "the run",
        "give the run the Spec of the list, or create a list with the options of the run",
    )


def require_one_measure(options: RunOptions) -> None:
    """Requires that a run has no second measure, by which blocked documents are not compared."""
    one_measure = "entries are compared by one measure; run twice, first with the blocklist"
    options.require_defaults(name_setting("blocklist"), {"second_measure": one_measure})


@dataclass(frozen=True)
class FindBlocked:
    """A search for the most similar entry of each document."""

    search: EntrySearch
    threshold: float

    def __call__(self, payload: Payload) -> tuple[int, BlockedMatches]:
        """Returns the number of documents, and those of them that are like an entry."""
        return len(payload.sizes), self.search.find(payload, self.threshold)


@dataclass(frozen=True)
class BlocklistMatcher:
    """A comparison of the documents of a run with the entries of a blocklist. It misses none.

    Attributes:
        blocklist: The blocklist, of the Spec of the run, or given documents.
    """

    blocklist: Blocklist | GivenDocuments

    def match(self, run: Run) -> tuple[ReferenceMatches, BlocklistStats]:
        """Finds the documents that are like an entry, each with the most similar one."""
        documents = run.documents()
        representative = np.arange(len(documents), dtype=np.uint32)
        is_compared = ~documents.matchless
        if not run.has_mixed_groups:
            representative = np.asarray(run.work.load("representative"))
            is_compared = is_compared & run.first_of_groups()
        wanted = np.flatnonzero(is_compared)
        parts = []
        if len(self.blocklist):
            parts = list(self._find(run, wanted))
        no_numbers = np.empty(0, np.int64)
        entries = np.concatenate([no_numbers, *(part.entries for part in parts)])
        matched = np.concatenate([no_numbers, *(part.documents for part in parts)])
        names = pa.array(self.blocklist.ids, pa.large_string())
        matches = ReferenceMatches.without_shingles(
            documents=matched,
            similarity=np.concatenate([np.empty(0), *(part.similarity for part in parts)]),
            kind=BLOCKED,
            ids=names.take(pa.array(entries)),
        )
        blocked = expand_groups(matches, representative)
        return blocked, BlocklistStats(entries=len(self.blocklist), blocked=len(blocked))

    def _find(self, run: Run, wanted: np.ndarray) -> Iterator[BlockedMatches]:
        """Yields the matches of some documents, in order.

        Args:
            wanted: Numbers of the documents, sorted, int64 (m,).
        """
        search = self.blocklist.search(run.measure, truncates_hashes=True)
        find = FindBlocked(search, run.options.blocking_threshold)
        first = 0
        for documents, found in map_payloads(run.payload_source(), find, wanted, run.executor):
            yield found._replace(documents=wanted[first + found.documents])
            first += documents
