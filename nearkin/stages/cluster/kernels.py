"""Kernels of clustering: from scored pairs to the leader of each document."""

from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import kernel

U64 = np.uint64
U32 = np.uint32


class Graph(NamedTuple):
    """A graph of the pairs among some documents, which are numbered in keep order."""

    firsts: np.ndarray
    """int64 (n + 1,): The neighbours of document d are those from firsts[d] to firsts[d + 1]."""
    neighbours: np.ndarray
    """int64 (2m,): The neighbours of all documents."""


@kernel
def elect_pair(
    d: np.uint32, e: np.uint32, s: np.float64, leader: np.ndarray, best: np.ndarray
) -> None:
    """Lets a document join an earlier one if that is kept and the most similar one so far.

    Args:
        d: Rank of the later document.
        e: Rank of the earlier document.
        s: Similarity of the two.
        leader: Leader of each document, uint32 (n,). It is changed.
        best: Similarity to the leader of each document, float64 (n,). It is changed.
    """
    if leader[e] == e:
        joined = leader[d] != d
        if not joined or s > best[d] or (s == best[d] and e < leader[d]):
            leader[d] = e
            best[d] = s


@kernel
def joins_apart(
    d: np.uint32, e: np.uint32, later: np.ndarray, earlier: np.ndarray, leader: np.ndarray
) -> np.bool_:
    """Returns whether a leader has a document that must be kept apart from another document.

    Args:
        d: Rank of the document.
        e: Rank of the leader.
        later: Rank of the later document of each pair kept apart, uint32 (m,), ascending.
        earlier: Rank of the earlier document of each pair, uint32 (m,).
        leader: Leader of each document, uint32 (n,), final for those before d.
    """
    for p in range(np.searchsorted(later, d), later.shape[0]):
        if later[p] != d:
            return False
        if leader[earlier[p]] == e:
            return True
    return False


@kernel
def elect_leaders(
    later: np.ndarray,
    earlier: np.ndarray,
    similarity: np.ndarray,
    apart_later: np.ndarray,
    apart_earlier: np.ndarray,
    leader: np.ndarray,
    best: np.ndarray,
) -> None:
    """Elects leaders from pairs of ranks that are sorted by the later document.

    leader[d] == d marks a kept document, so `leader` is initially np.arange. A document with kept
    documents among its earlier neighbours joins the most similar one whose cluster has no document
    that it must be kept apart from; of equally similar ones, it joins the first. All pairs of
    earlier documents are processed before those of a later one.

    Args:
        later: Rank of the later document of each pair, uint32 (m,), in ascending order.
        earlier: Rank of the earlier document of each pair, uint32 (m,).
        similarity: Similarity of each pair, float (m,).
        apart_later: Rank of the later document of each pair kept apart, uint32 (d,), ascending.
        apart_earlier: Rank of the earlier document of each pair kept apart, uint32 (d,).
        leader: Leader of each document, uint32 (n,). It is changed.
        best: Similarity to the leader of each document, float64 (n,). It is changed.
    """
    for p in range(later.shape[0]):
        if not joins_apart(later[p], earlier[p], apart_later, apart_earlier, leader):
            elect_pair(later[p], earlier[p], similarity[p], leader, best)


@kernel
def find_root(parent: np.ndarray, x: np.uint32) -> np.uint32:
    """Returns the root of x, with path halving.

    Args:
        parent: Parent of each document, uint32 (n,). It is changed.
        x: Document to start from.
    """
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


@kernel
def unite(a: np.ndarray, b: np.ndarray, parent: np.ndarray) -> None:
    """Unites the components of pairs of ranks. The root of a component is its first member.

    Args:
        a: One document of each pair, uint32 (m,).
        b: The other document of each pair, uint32 (m,).
        parent: Parent of each document, uint32 (n,). It is changed.
    """
    for p in range(a.shape[0]):
        x, y = find_root(parent, a[p]), find_root(parent, b[p])
        if x < y:
            parent[y] = x
        elif y < x:
            parent[x] = y


@kernel
def flatten(parent: np.ndarray) -> None:
    """Replaces the parent of every document by its root."""
    for x in range(parent.shape[0]):
        parent[x] = find_root(parent, U32(x))


@kernel
def fill_groups(
    order: np.ndarray,
    sizes: np.ndarray,
    selected: np.ndarray,
    lacking: np.ndarray,
    groups: np.ndarray,
) -> None:
    """Assigns clusters to their selected groups as long as these lack as many documents.

    A cluster that does not fit is assigned to the group that lacks most, the first one of several.

    Args:
        order: Clusters in the order of their assignment, int64 (clusters,).
        sizes: Number of documents of each cluster, int64 (clusters,).
        selected: Selected group of each cluster, int64 (clusters,).
        lacking: Number of documents that each group lacks, int64 (groups,). It is changed.
        groups: Array for the group of each cluster, int64 (clusters,).
    """
    for position in range(order.shape[0]):
        cluster = order[position]
        group = selected[cluster]
        if lacking[group] < sizes[cluster]:
            group = np.argmax(lacking)
        lacking[group] -= sizes[cluster]
        groups[cluster] = group


class Search(NamedTuple):
    """The state of searches through a graph of n documents; all arrays are int64 (n,).

    The number of a search is that of the document where it started.
    """

    owner: np.ndarray
    """The search that has found a document, or −1. Between calls, all elements are −1."""
    parent: np.ndarray
    """The search that a search was merged into, or the search itself."""
    open_first: np.ndarray
    """The first document that a search has found but not visited, or −1."""
    open_last: np.ndarray
    done_first: np.ndarray
    """The first document that a search has visited, or −1."""
    done_last: np.ndarray
    following: np.ndarray
    """The successor of a document in its list (open or done), or −1 at the end."""
    found: np.ndarray
    """The documents that have an owner."""
    active: np.ndarray
    """The searches that may not have ended."""


@kernel
def find_search(parent: np.ndarray, s: np.int64) -> np.int64:
    """Returns the search that a search was merged into, with path halving.

    Args:
        parent: Search that each search was merged into, or the search itself, int64 (n,). It is
            changed.
        s: Number of a search.
    """
    while parent[s] != s:
        parent[s] = parent[parent[s]]
        s = parent[s]
    return s


@kernel
def append_list(
    first: np.ndarray,
    last: np.ndarray,
    following: np.ndarray,
    s: np.int64,
    head: np.int64,
    tail: np.int64,
) -> None:
    """Appends the list from head to tail to the list of search s. An empty list has head −1.

    Args:
        first: First document of the list of each search, or −1, int64 (n,). It is changed.
        last: Last document of the list of each search, int64 (n,). It is changed.
        following: Successor of each document in its list, or −1, int64 (n,). It is changed.
        s: Number of the search.
        head: First document of the list to append, or −1.
        tail: Last document of the list to append.
    """
    if head < 0:
        return
    if first[s] < 0:
        first[s] = head
    else:
        following[last[s]] = head
    last[s] = tail


@kernel
def begin_search(search: Search, d: np.int64) -> None:
    """Starts a search that has found one document.

    Args:
        search: State of the searches. It is changed.
        d: Document where the search starts.
    """
    search.owner[d] = d
    search.parent[d] = d
    search.following[d] = -1
    search.open_first[d], search.open_last[d] = d, d
    search.done_first[d], search.done_last[d] = -1, -1


@kernel
def visit_next(
    search: Search, s: np.int64, graph: Graph, component: np.ndarray, number: int, total: int
) -> tuple[int, int]:
    """Visits the next document of a search.

    Args:
        search: State of the searches. It is changed.
        s: Number of the search.
        graph: Graph of the pairs.
        component: Number of the component of each document, int64 (n,).
        number: Number of the component that is searched.
        total: Number of documents that were found before.

    Returns:
        The number of documents that are found now, and the number of searches that were merged.
    """
    d = search.open_first[s]
    search.open_first[s] = search.following[d]
    search.following[d] = -1
    append_list(search.done_first, search.done_last, search.following, s, d, d)
    met = 0
    for at in range(graph.firsts[d], graph.firsts[d + 1]):
        e = graph.neighbours[at]
        if component[e] != number:
            continue
        if search.owner[e] < 0:
            search.owner[e], search.following[e] = s, -1
            search.found[total] = e
            total += 1
            append_list(search.open_first, search.open_last, search.following, s, e, e)
            continue
        t = find_search(search.parent, search.owner[e])
        if t != s:
            search.parent[t] = s
            append_list(
                search.open_first,
                search.open_last,
                search.following,
                s,
                search.open_first[t],
                search.open_last[t],
            )
            append_list(
                search.done_first,
                search.done_last,
                search.following,
                s,
                search.done_first[t],
                search.done_last[t],
            )
            met += 1
    return total, met


@kernel
def split_component(
    gone: np.ndarray,
    graph: Graph,
    component: np.ndarray,
    number: int,
    search: Search,
    parts: np.ndarray,
) -> np.ndarray:
    """Splits the rest of a connected component after some documents were removed from it.

    Searches start at the neighbours of the removed documents and visit one document each in turn.
    Searches that meet are merged. When a single search is left, the part that it is in keeps the
    number of the component. So this part is never visited completely.

    Args:
        gone: Documents that were removed, int64 (m,).
        graph: Graph of the pairs.
        component: Number of the component of each document, int64 (n,).
        number: Number of the component.
        search: State of the searches. It is changed.
        parts: Array for the members of the parts, int64 (n,). It is overwritten.

    Returns:
        The end of each other part in `parts`, which contains the members, int64.
    """
    total: int = np.int64(0)
    alive = 0
    for i in range(gone.shape[0]):
        for at in range(graph.firsts[gone[i]], graph.firsts[gone[i] + 1]):
            d = graph.neighbours[at]
            if component[d] == number and search.owner[d] < 0:
                begin_search(search, d)
                search.found[total] = d
                search.active[alive] = d
                total += 1
                alive += 1
    ends = np.empty(alive, np.int64)
    count = 0
    written = 0
    listed = alive
    while alive > 1:
        i = 0
        while i < listed and alive > 1:
            s = search.active[i]
            ended = search.open_first[s] < 0
            if search.parent[s] != s or ended:
                if search.parent[s] == s:
                    d = search.done_first[s]
                    while d >= 0:
                        parts[written] = d
                        written += 1
                        d = search.following[d]
                    ends[count] = written
                    count += 1
                    alive -= 1
                listed -= 1
                search.active[i] = search.active[listed]
                continue
            total, met = visit_next(search, s, graph, component, number, total)
            alive -= met
            i += 1
    for i in range(total):
        search.owner[search.found[i]] = -1
    return ends[:count]
