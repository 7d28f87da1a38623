"""Ids of clusters that last while a collection grows, and the clusters that merged or split.

A cluster of a run that extends another one continues the cluster with which it shares most
documents, and has its id. Each id is continued by one cluster. Other clusters get the id of their
kept document, with a number if a cluster has or had it.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HISTORY = pa.schema(
    [
        ("step", pa.int32()),
        ("change", pa.large_string()),
        ("cluster", pa.large_string()),
        ("into", pa.large_string()),
    ]
)
"""The schema of the changes of clusters of at least two documents. A step is a run that extended
another one. `cluster` is the id that a cluster had; `into` is the id of the cluster that some or
all of its documents are in now, or null if all were withdrawn or replaced."""
MERGED = "merged"
SPLIT = "split"
DISSOLVED = "dissolved"


class PersistentClusters(NamedTuple):
    """The clusters of a run by their persistent ids."""

    ids: pa.Array
    """The id of the cluster of each document, large_string (n,)."""
    history: pa.Table
    """The changes of clusters so far, of the schema HISTORY."""


def continue_clusters(
    before: pa.Array,
    left: np.ndarray,
    leader: np.ndarray,
    ids: pa.ChunkedArray,
    history: pa.Table,
) -> PersistentClusters:
    """Returns the persistent ids of the clusters of a run that extends another one.

    Args:
        before: Persistent id of the cluster of each document of the extended run, large_string.
        left: Which of its documents are left, bool. They are the first ones of the new run.
        leader: Number of the kept document of each document of the new run, integers (n,).
        ids: Ids of the documents of the new run, large_string (n,).
        history: Changes of clusters before.

    Examples:
        >>> before = pa.array(["a", "a", "a", "x"], pa.large_string())
        >>> ids = pa.chunked_array([["a", "b", "c", "x"]], pa.large_string())
        >>> everything = np.ones(4, bool)
        >>> new = continue_clusters(before, everything, np.array([0, 1, 1, 1]), ids, NO_HISTORY)
        >>> new.ids.to_pylist()
        ['a#2', 'a', 'a', 'a']
        >>> new.history.select(["change", "cluster", "into"]).to_pylist()
        [{'change': 'split', 'cluster': 'a', 'into': 'a#2'}]
    """
    encoded = before.dictionary_encode()
    names = encoded.dictionary
    old = encoded.indices.to_numpy()
    sizes = np.bincount(old, minlength=len(names))
    leaders, new = np.unique(leader, return_inverse=True)
    joined = old[left].astype(np.int64) * len(leaders) + new[: int(np.count_nonzero(left))]
    links, shared = np.unique(joined, return_counts=True)
    link_old, link_new = links // max(len(leaders), 1), links % max(len(leaders), 1)
    ranks = np.empty(len(names), np.int64)
    ranks[pc.sort_indices(names).to_numpy()] = np.arange(len(names))
    continued = _match(link_old, link_new, shared, ranks, len(leaders))
    new_names = _name_clusters(
        names, continued, ids.take(pa.array(leaders)).combine_chunks(), history["cluster"]
    )
    step = 1 + (pc.max(history["step"]).as_py() or 0)
    changes = _list_changes(names, new_names, link_old, link_new, continued, sizes=sizes, step=step)
    return PersistentClusters(
        new_names.take(pa.array(new)), pa.concat_tables([history, changes]).combine_chunks()
    )


NO_HISTORY = HISTORY.empty_table()


def _match(
    old: np.ndarray, new: np.ndarray, shared: np.ndarray, ranks: np.ndarray, clusters: int
) -> np.ndarray:
    """Returns the old cluster that each new one continues, or -1, int64 (clusters,).

    Pairs that share most documents come first, then those of the smaller old id.
    """
    continued = np.full(clusters, -1, np.int64)
    is_single = (np.bincount(old)[old] == 1) & (np.bincount(new)[new] == 1)
    continued[new[is_single]] = old[is_single]
    others = np.flatnonzero(~is_single)
    others = others[np.lexsort((new[others], ranks[old[others]], -shared[others]))]
    taken: set[int] = set()
    for a, b in zip(old[others].tolist(), new[others].tolist(), strict=True):
        if continued[b] < 0 and a not in taken:
            continued[b] = a
            taken.add(a)
    return continued


def _name_clusters(
    names: pa.Array, continued: np.ndarray, kept: pa.Array, retired: pa.ChunkedArray
) -> pa.Array:
    """Returns the id of each new cluster: the one that it continues, or one of its own."""
    is_new = continued < 0
    own = kept.filter(pa.array(is_new))
    used = pa.chunked_array([names, *retired.chunks], pa.large_string())
    repeated = np.flatnonzero(pc.is_in(own, used).to_numpy(zero_copy_only=False))
    if len(repeated):
        taken = {*used.to_pylist(), *own.to_pylist()}
        values = own.to_pylist()
        for place in repeated.tolist():
            number = 2
            while f"{values[place]}#{number}" in taken:
                number += 1
            values[place] = f"{values[place]}#{number}"
            taken.add(values[place])
        own = pa.array(values, pa.large_string())
    former = names.take(pa.array(continued, mask=is_new))
    return pc.replace_with_mask(former, pa.array(is_new), own)


def _list_changes(
    names: pa.Array,
    new_names: pa.Array,
    old: np.ndarray,
    new: np.ndarray,
    continued: np.ndarray,
    *,
    sizes: np.ndarray,
    step: int,
) -> pa.Table:
    """Returns the clusters of at least two documents that merged, split or dissolved."""
    is_other = (continued[new] != old) & (sizes[old] > 1)
    old, new = old[is_other], new[is_other]
    is_kept = np.zeros(len(names), bool)
    is_kept[continued[continued >= 0]] = True
    parts = np.bincount(old, minlength=len(names)) + is_kept
    has_split = parts[old] > 1
    linked = np.zeros(len(names), bool)
    linked[old] = True
    dissolved = np.flatnonzero(~linked & ~is_kept & (sizes > 1))
    changes = [SPLIT if one else MERGED for one in has_split.tolist()]
    changes += [DISSOLVED] * len(dissolved)
    into = [*new_names.take(pa.array(new)).to_pylist(), *[None] * len(dissolved)]
    return pa.table(
        [
            pa.array([step] * len(changes), pa.int32()),
            pa.array(changes, pa.large_string()),
            names.take(pa.array(np.concatenate([old, dissolved]))),
            pa.array(into, pa.large_string()),
        ],
        schema=HISTORY,
    )
