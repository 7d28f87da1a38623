"""The check of a removal limit in the local engine."""

from collections import Counter

import numpy as np

from nearkin.engine.local.clustering import Clustering
from nearkin.engine.local.documents import take_values
from nearkin.engine.local.run import LocalRun
from nearkin.engine.removal_limit import MOST_BLAMED, BlamedDocument, RemovedShare


def require_removal_limit(run: LocalRun, result: Clustering) -> None:
    """Requires that a run removes no more of each value of a column than it may.

    Args:
        run: The run after its last stage.
        result: Its clusters.

    Raises:
        RunError: If it removes more of a value. The message names the documents that do.
    """
    limit = run.options.removal_limit
    if limit is None:
        return
    documents = run.documents()
    hashes = documents.hash_values(limit.column)
    _, firsts, codes, counts = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    is_removed = ~np.asarray(result.kept)
    removed = np.bincount(codes[is_removed], minlength=len(counts))
    # Of values that lose the same share, the one with most documents is named.
    worst_first = np.lexsort((firsts, -counts, -removed / counts)).tolist()
    if not worst_first:
        return
    worst = worst_first[0]
    if not limit.is_exceeded(int(removed[worst]), int(counts[worst])):
        return
    is_worst = codes == worst
    leaders = np.asarray(result.leader)[result.removed_in_run & is_worst].astype(np.int64)
    # A document that is like a blocked one has no kept document in the run.
    kept, times = np.unique(leaders[np.asarray(result.kept)[leaders]], return_counts=True)
    largest = np.lexsort((kept, -times))[:MOST_BLAMED]
    names = take_values(documents.ids, kept[largest]).to_pylist()
    blamed = list(map(BlamedDocument, names, times[largest].tolist()))
    if result.matches is not None:
        matches = result.matches.select(np.flatnonzero(is_worst[result.matches.documents]))
        for name, count in Counter(sorted(matches.ids.to_pylist())).most_common(MOST_BLAMED):
            blamed.append(BlamedDocument(name, count, in_reference=True))
    values = take_values(documents.carried[limit.column], firsts[worst : worst + 1])
    excess = RemovedShare(values[0].as_py(), int(counts[worst]), int(removed[worst]))
    limit.refuse(excess, blamed)
