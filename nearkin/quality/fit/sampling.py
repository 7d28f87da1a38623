"""The choice of labelled documents that are compared, if there are too many for all pairs."""

from typing import NamedTuple

import numpy as np

from nearkin.quality.evaluate.golden import GoldenSet, close_transitively

PAIR_DOCUMENTS = 50_000
"""The number of documents of labelled pairs that are read."""
MANY_DUPLICATES = 100_000
"""The number of pairs of duplicates that suffices, beyond `FEW_DOCUMENTS` documents."""
FEW_DOCUMENTS = 2400
"""The number of documents whose pairs are all listed, however many of them are duplicates."""
LARGEST_CLUSTER = 1000
"""The number of documents by which a larger cluster is represented."""


class LabelledSample(NamedTuple):
    """The labelled documents that are compared."""

    chosen: tuple[str, ...]
    """Ids of the documents that are compared, one cluster after the other in random order."""
    left_out: tuple[str, ...]
    """Ids of the labelled documents that are not compared."""
    capped_clusters: int
    """The number of clusters that are represented by some of their documents."""


def sample_labels(golden: GoldenSet, documents: int, seed: int) -> LabelledSample:
    """Draws whole clusters at random, or whole groups of documents that pairs connect."""
    if golden.clusters is None:
        assert golden.duplicates is not None
        groups = close_transitively(golden.duplicates, len(golden.ids))
        most_documents = PAIR_DOCUMENTS
    else:
        groups = golden.clusters
        most_documents = documents
    random = np.random.default_rng(seed)
    _, numbers = np.unique(groups, return_inverse=True)
    sizes = np.bincount(numbers)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(sizes)
    chosen: list[np.ndarray] = []
    drawn = 0
    duplicates = 0
    capped = 0
    for cluster in random.permutation(len(sizes)).tolist():
        is_enough = duplicates >= MANY_DUPLICATES and drawn >= FEW_DOCUMENTS
        if drawn >= most_documents or (golden.clusters is not None and is_enough):
            break
        members = order[ends[cluster] - sizes[cluster] : ends[cluster]]
        if golden.clusters is not None and len(members) > LARGEST_CLUSTER:
            members = random.choice(members, LARGEST_CLUSTER, replace=False)
            capped += 1
        chosen.append(members)
        drawn += len(members)
        duplicates += len(members) * (len(members) - 1) // 2
    is_chosen = np.zeros(len(golden.ids), bool)
    in_order = np.concatenate(chosen)
    is_chosen[in_order] = True
    ids = np.array(golden.ids, object)
    return LabelledSample(tuple(ids[in_order].tolist()), tuple(ids[~is_chosen].tolist()), capped)
