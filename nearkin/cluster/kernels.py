"""Clustering kernels: scored pairs to one leader for each document."""

import numpy as np

from nearkin.jit import kernel

U64 = np.uint64
U32 = np.uint32


@kernel
def elect_leaders(later: np.ndarray, earlier: np.ndarray, similarity: np.ndarray, leader: np.ndarray, best: np.ndarray) -> None:
    """Sequential leaders over pairs in rank space, sorted by the later document.

    leader[d] == d marks a kept document (so it starts as arange). A document whose earlier neighbours include kept ones joins
    the most similar of them, ties to the one that ranks first; its own pairs are complete when it is reached.
    """
    for p in range(later.shape[0]):
        d, e = later[p], earlier[p]
        if leader[e] == e:
            s = similarity[p]
            joined = leader[d] != d
            if not joined or s > best[d] or (s == best[d] and e < leader[d]):
                leader[d] = e
                best[d] = s


@kernel
def find_root(parent: np.ndarray, x: np.uint32) -> np.uint32:
    """Root of x with path halving."""
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


@kernel
def unite(a: np.ndarray, b: np.ndarray, parent: np.ndarray) -> None:
    """Union-find over pairs in rank space; the root of a component is its member that ranks first."""
    for p in range(a.shape[0]):
        x, y = find_root(parent, a[p]), find_root(parent, b[p])
        if x < y:
            parent[y] = x
        elif y < x:
            parent[x] = y


@kernel
def flatten(parent: np.ndarray) -> None:
    """Points every document at its root."""
    for x in range(parent.shape[0]):
        parent[x] = find_root(parent, U32(x))
