"""The comparison of the documents of a run with a blocklist."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.blocklist.blocklist import Blocklist
from nearkin.blocklist.search import BlockedMatches
from nearkin.engine.local.payload_batches import PayloadBatch, wanted_rows
from nearkin.engine.local.reference_matches import ReferenceMatches, expand_groups
from nearkin.engine.local.run import LocalRun
from nearkin.engine.options import RunOptions
from nearkin.engine.stats import BlocklistStats
from nearkin.errors import UsageError
from nearkin.setting_names import name_setting


def require_blockable(options: RunOptions, blocklist: Blocklist, *, has_decisions: bool) -> None:
    """Requires that the documents of a run can be compared with a blocklist.

    Args:
        options: Options of the run.
        blocklist: The blocklist.
        has_decisions: Whether the run has decisions about pairs of documents.

    Raises:
        IncompatibleError: If the list has another Spec.
        UsageError: If an option contradicts the list.
    """
    option = name_setting("blocklist")
    if options.groups_by_value:
        name = "url" if options.same is None else "same"
        raise UsageError(
            f"{name_setting(name, options.url or options.same)} cannot be combined with {option}: "
            "documents of equal values count as one, and only some of them may be blocked; run "
            "twice, first with the blocklist"
        )
    if has_decisions:
        raise UsageError(
            f"{name_setting('decisions')} cannot be combined with {option}: documents that are "
            "decided to be the same count as one, and only some of them may be blocked; run twice, "
            "first with the blocklist"
        )
    if options.fields:
        raise UsageError(
            f"{name_setting('fields', list(options.fields))} cannot be combined with {option}, "
            "whose entries are documents of one column; run twice, first with the blocklist"
        )
    if options.second_measure is not None:
        raise UsageError(
            f"{name_setting('second_measure', options.second_measure)} cannot be combined with "
            f"{option}; run twice, first with the blocklist"
        )
    if options.acceptance is not None:
        raise UsageError(
            f"a condition ({options.acceptance}) cannot be combined with {option}: documents are "
            "compared with blocked ones by the threshold alone; leave out "
            f"{name_setting('accept')} and {name_setting('max_lost')}, or {option}"
        )
    blocklist.require_spec(
        options.spec,
        "the run",
        "give the run the Spec of the list, or create a list with the options of the run",
    )


@dataclass(frozen=True)
class BlocklistMatcher:
    """A comparison of the documents of a run with the entries of a blocklist. It misses none.

    Attributes:
        blocklist: The blocklist, of the Spec of the run.
    """

    blocklist: Blocklist

    def match(self, run: LocalRun) -> tuple[ReferenceMatches, BlocklistStats]:
        """Finds the documents that are like an entry, each with the most similar one.

        Args:
            run: Run whose exact duplicates are grouped.
        """
        search = self.blocklist.search(run.measure, truncates_hashes=True)
        wanted = np.flatnonzero(run.first_of_groups() & ~run.documents().matchless)
        threshold = run.options.threshold

        def find(batch: PayloadBatch) -> BlockedMatches:
            found = search.find(batch.payload, threshold)
            rows = wanted_rows(wanted, batch.first, batch.documents)
            return found._replace(documents=rows[found.documents] + batch.first)

        parts = []
        if len(self.blocklist):
            parts = list(run.payload_source().map_batches(find, wanted))
        no_numbers = np.empty(0, np.int64)
        entries = np.concatenate([no_numbers, *(part.entries for part in parts)])
        documents = np.concatenate([no_numbers, *(part.documents for part in parts)])
        names = pa.array(self.blocklist.ids, pa.large_string())
        matches = ReferenceMatches(
            documents=documents,
            similarity=np.concatenate([np.empty(0), *(part.similarity for part in parts)]),
            is_exact=np.zeros(len(documents), bool),
            ids=names.take(pa.array(entries)),
        )
        blocked = expand_groups(matches, np.asarray(run.work.load("representative")))
        return blocked, BlocklistStats(entries=len(self.blocklist), blocked=len(blocked))
