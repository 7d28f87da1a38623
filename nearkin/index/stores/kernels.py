"""Buckets in memory: an open-addressing table of keys, each with a linked list of postings, oldest first.

A slot is a row of four words (key, first posting, last posting, how many), a posting one of two (word, next): what is looked at
together is in one cache line, for a table of millions is read from memory.
"""

import numpy as np

from nearkin.hashing.kernels import mix64
from nearkin.runtime.jit import kernel

U64, I64 = np.uint64, np.int64
UNUSED, END = I64(0), I64(-1)
"""First posting of a slot that no key has taken (as memory comes: it is not touched before it is used), and end of a list;
postings are numbered from 1."""
KEY, FIRST, LAST, SIZE = 0, 1, 2, 3
WORD, NEXT = 0, 1
TAKEN, NODES, FREE, EVICTED, HELD = 0, 1, 2, 3, 4
REF_SHIFT = 24


@kernel
def slot_of(key: np.uint64, slots: np.ndarray) -> np.int64:
    """Where a key is, or would go: linear probing."""
    mask = U64(slots.shape[0] - 1)
    at = mix64(key) & mask
    while slots[at, FIRST] != UNUSED and slots[at, KEY] != I64(key):
        at = (at + U64(1)) & mask
    return I64(at)


@kernel
def bucket_sizes(queries: np.ndarray, slots: np.ndarray, offsets: np.ndarray, places: np.ndarray) -> None:
    """Where the postings of each queried key begin, int64 (m + 1,), and its slot."""
    offsets[0] = 0
    for q in range(queries.shape[0]):
        at = slot_of(queries[q], slots)
        places[q] = at
        offsets[q + 1] = offsets[q] + (slots[at, SIZE] if slots[at, FIRST] != UNUSED else 0)


@kernel
def fill_postings(places: np.ndarray, slots: np.ndarray, nodes: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """The postings of each place."""
    for q in range(places.shape[0]):
        if offsets[q] == offsets[q + 1]:
            continue
        node = slots[places[q], FIRST]
        for i in range(offsets[q], offsets[q + 1]):
            out[i] = nodes[node, WORD]
            node = nodes[node, NEXT]


@kernel
def append_postings(
    keys: np.ndarray, words: np.ndarray, most: np.int64, slots: np.ndarray, nodes: np.ndarray, state: np.ndarray
) -> None:
    """A posting into the buckets of each row of keys, uint64 (m, b); a bucket that holds `most` loses its oldest one.

    `state` is (slots taken, nodes used, first free node, evicted, held): updated. There is room for one more node a key.
    """
    for d in range(keys.shape[0]):
        for q in range(keys.shape[1]):
            at = slot_of(keys[d, q], slots)
            if slots[at, FIRST] == UNUSED:
                slots[at, KEY], slots[at, FIRST], slots[at, SIZE] = I64(keys[d, q]), END, 0
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
def remove_postings(keys: np.ndarray, ref: np.int64, slots: np.ndarray, nodes: np.ndarray, state: np.ndarray) -> int:
    """Takes a document out of the buckets of keys, uint64 (b,); returns how many postings went."""
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
    """Into a larger table, empty buckets left behind; returns how many slots are taken."""
    taken = 0
    for at in range(slots.shape[0]):
        if slots[at, FIRST] > 0:
            larger[slot_of(U64(slots[at, KEY]), larger)] = slots[at]
            taken += 1
    return taken
