"""Kernels of the bucket table: an open-addressing hash table with a linked list of postings a key.

A slot is a row of four words (key, first node, last node, number of postings). A node is a row of
two words (posting, next node). Values that are read together share a cache line, because a table of
millions does not fit into the cache.
"""

import numpy as np

from nearkin.hashing.kernels import mix64
from nearkin.runtime.jit import kernel

U64, I64 = np.uint64, np.int64
UNUSED, END = I64(0), I64(-1)
"""The first node of a slot without a key, and the end of a list.

New memory is zero, so a slot is not touched before it is used. Nodes are numbered from 1.
"""
KEY = 0
FIRST = 1
LAST = 2
SIZE = 3
"""Columns of a slot."""
WORD = 0
NEXT = 1
"""Columns of a node."""
TAKEN = 0
NODES = 1
FREE = 2
EVICTED = 3
HELD = 4
"""Places of the state: taken slots, used nodes, first free node, evicted and present postings."""
REF_SHIFT = 24


@kernel
def slot_of(key: np.uint64, slots: np.ndarray) -> np.int64:
    """Returns the slot of a key, or the free slot where it belongs, by linear probing."""
    mask = U64(slots.shape[0] - 1)
    at = mix64(key) & mask
    while slots[at, FIRST] != UNUSED and slots[at, KEY] != I64(key):
        at = (at + U64(1)) & mask
    return I64(at)


@kernel
def bucket_sizes(
    queries: np.ndarray, slots: np.ndarray, offsets: np.ndarray, places: np.ndarray
) -> None:
    """Computes where the postings of each query begin, and the slot of each query.

    Args:
        queries: Band keys, uint64 of shape (m,).
        slots: Slots of the table, int64 of shape (n, 4) with n a power of two.
        offsets: Receives the begin of each query's postings, int64 of shape (m + 1,).
        places: Receives the slot of each query, int64 of shape (m,).
    """
    offsets[0] = 0
    for q in range(queries.shape[0]):
        at = slot_of(queries[q], slots)
        places[q] = at
        offsets[q + 1] = offsets[q] + (slots[at, SIZE] if slots[at, FIRST] != UNUSED else 0)


@kernel
def fill_postings(
    places: np.ndarray, slots: np.ndarray, nodes: np.ndarray, offsets: np.ndarray, out: np.ndarray
) -> None:
    """Copies the postings of each slot of `places` to `out`.

    Args:
        places: Slots of the queries, int64 of shape (m,), as `bucket_sizes` returns them.
        slots: Slots of the table, int64 of shape (n, 4).
        nodes: Nodes of the table, int64 of shape (nodes, 2).
        offsets: Begin of each query's postings in `out`, int64 of shape (m + 1,).
        out: Receives the postings, int64 of shape (offsets[m],).
    """
    for q in range(places.shape[0]):
        if offsets[q] == offsets[q + 1]:
            continue
        node = slots[places[q], FIRST]
        for i in range(offsets[q], offsets[q + 1]):
            out[i] = nodes[node, WORD]
            node = nodes[node, NEXT]


@kernel
def append_postings(
    keys: np.ndarray,
    words: np.ndarray,
    most: np.int64,
    slots: np.ndarray,
    nodes: np.ndarray,
    state: np.ndarray,
) -> None:
    """Appends a posting to the buckets of each row of keys.

    A bucket that holds `most` postings loses its oldest one. The caller has made room for one more
    node a key.

    Args:
        keys: Band keys of m documents, uint64 of shape (m, b).
        words: Posting of each document, int64 of shape (m,).
        most: Maximum number of postings of a bucket, at least 1.
        slots: Slots of the table, int64 of shape (n, 4). They are changed.
        nodes: Nodes of the table, int64 of shape (nodes, 2). They are changed.
        state: Counts of the table, int64 of shape (5,). They are changed.
    """
    for d in range(keys.shape[0]):
        for q in range(keys.shape[1]):
            at = slot_of(keys[d, q], slots)
            if slots[at, FIRST] == UNUSED:
                slots[at, KEY] = I64(keys[d, q])
                slots[at, FIRST] = END
                slots[at, SIZE] = 0
                state[TAKEN] += 1
            node = state[FREE]
            if node != END:
                state[FREE] = nodes[node, NEXT]
            else:
                node = state[NODES]
                state[NODES] += 1
            nodes[node, WORD], nodes[node, NEXT] = words[d], END
            if slots[at, FIRST] == END:
                slots[at, FIRST] = node
            else:
                nodes[slots[at, LAST], NEXT] = node
            slots[at, LAST] = node
            slots[at, SIZE] += 1
            state[HELD] += 1
            if slots[at, SIZE] > most:
                oldest = slots[at, FIRST]
                slots[at, FIRST] = nodes[oldest, NEXT]
                nodes[oldest, NEXT] = state[FREE]
                state[FREE] = oldest
                slots[at, SIZE] -= 1
                state[HELD] -= 1
                state[EVICTED] += 1


@kernel
def remove_postings(
    keys: np.ndarray, ref: np.int64, slots: np.ndarray, nodes: np.ndarray, state: np.ndarray
) -> int:
    """Deletes the postings of a document from the buckets of its keys.

    Args:
        keys: Band keys of the document, uint64 of shape (b,).
        ref: Number of the document.
        slots: Slots of the table, int64 of shape (n, 4). They are changed.
        nodes: Nodes of the table, int64 of shape (nodes, 2). They are changed.
        state: Counts of the table, int64 of shape (5,). They are changed.

    Returns:
        The number of deleted postings.
    """
    gone = 0
    for q in range(keys.shape[0]):
        at = slot_of(keys[q], slots)
        if slots[at, FIRST] == UNUSED:
            continue
        before, node = END, slots[at, FIRST]
        while node != END:
            after = nodes[node, NEXT]
            if nodes[node, WORD] >> REF_SHIFT == ref:
                if before == END:
                    slots[at, FIRST] = after
                else:
                    nodes[before, NEXT] = after
                if after == END:
                    slots[at, LAST] = before
                nodes[node, NEXT] = state[FREE]
                state[FREE] = node
                slots[at, SIZE] -= 1
                gone += 1
            else:
                before = node
            node = after
    state[HELD] -= gone
    return gone


@kernel
def rehash(slots: np.ndarray, larger: np.ndarray) -> int:
    """Copies the buckets that are not empty to a larger table.

    Returns the number of taken slots.
    """
    taken = 0
    for at in range(slots.shape[0]):
        if slots[at, FIRST] > 0:
            larger[slot_of(U64(slots[at, KEY]), larger)] = slots[at]
            taken += 1
    return taken
