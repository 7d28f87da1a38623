"""Buckets in memory: an open-addressing table of keys, each with a linked list of postings, oldest first."""

import numpy as np

from nearkin.hashing.kernels import mix64
from nearkin.jit import kernel

U64 = np.uint64
UNUSED, END = np.int64(-2), np.int64(-1)
"""Head of a slot that no key has taken, and end of a list."""
REF_SHIFT = 24


@kernel
def slot_of(key: np.uint64, keys: np.ndarray, heads: np.ndarray) -> np.int64:
    """Where a key is, or would go: linear probing."""
    mask = U64(keys.shape[0] - 1)
    at = mix64(key) & mask
    while heads[at] != UNUSED and keys[at] != key:
        at = (at + U64(1)) & mask
    return np.int64(at)


@kernel
def bucket_sizes(queries: np.ndarray, keys: np.ndarray, heads: np.ndarray, lengths: np.ndarray, offsets: np.ndarray) -> None:
    """Where the postings of each queried key begin, int64 (m + 1,)."""
    offsets[0] = 0
    for q in range(queries.shape[0]):
        at = slot_of(queries[q], keys, heads)
        offsets[q + 1] = offsets[q] + (lengths[at] if heads[at] != UNUSED else 0)


@kernel
def fill_postings(
    queries: np.ndarray,
    keys: np.ndarray,
    heads: np.ndarray,
    nexts: np.ndarray,
    words: np.ndarray,
    offsets: np.ndarray,
    out: np.ndarray,
) -> None:
    """The postings of each queried key."""
    for q in range(queries.shape[0]):
        if offsets[q] == offsets[q + 1]:
            continue
        node = heads[slot_of(queries[q], keys, heads)]
        for i in range(offsets[q], offsets[q + 1]):
            out[i] = words[node]
            node = nexts[node]


@kernel
def append_postings(
    queries: np.ndarray,
    word: np.int64,
    most: np.int64,
    keys: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
    lengths: np.ndarray,
    nexts: np.ndarray,
    words: np.ndarray,
    state: np.ndarray,
) -> None:
    """One posting into the bucket of each key; a bucket that holds `most` loses its oldest one.

    `state` is (slots taken, nodes used, first free node, evicted): updated. There is room for one more node a key.
    """
    for q in range(queries.shape[0]):
        at = slot_of(queries[q], keys, heads)
        if heads[at] == UNUSED:
            keys[at], heads[at], lengths[at] = queries[q], END, 0
            state[0] += 1
        node = state[2]
        if node != END:
            state[2] = nexts[node]
        else:
            node = state[1]
            state[1] += 1
        words[node], nexts[node] = word, END
        if heads[at] == END:
            heads[at] = node
        else:
            nexts[tails[at]] = node
        tails[at] = node
        lengths[at] += 1
        if lengths[at] > most:
            oldest = heads[at]
            heads[at] = nexts[oldest]
            nexts[oldest] = state[2]
            state[2] = oldest
            lengths[at] -= 1
            state[3] += 1


@kernel
def remove_postings(
    queries: np.ndarray,
    ref: np.int64,
    keys: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
    lengths: np.ndarray,
    nexts: np.ndarray,
    words: np.ndarray,
    state: np.ndarray,
) -> int:
    """Takes a document out of the buckets of keys; returns how many postings went."""
    gone = 0
    for q in range(queries.shape[0]):
        at = slot_of(queries[q], keys, heads)
        if heads[at] == UNUSED:
            continue
        before, node = END, heads[at]
        while node != END:
            after = nexts[node]
            if words[node] >> REF_SHIFT == ref:
                if before == END:
                    heads[at] = after
                else:
                    nexts[before] = after
                if after == END:
                    tails[at] = before
                nexts[node] = state[2]
                state[2] = node
                lengths[at] -= 1
                gone += 1
            else:
                before = node
            node = after
    return gone


@kernel
def rehash(
    keys: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
    lengths: np.ndarray,
    new_keys: np.ndarray,
    new_heads: np.ndarray,
    new_tails: np.ndarray,
    new_lengths: np.ndarray,
) -> int:
    """Into a larger table, empty buckets left behind; returns how many slots are taken."""
    taken = 0
    for at in range(keys.shape[0]):
        if heads[at] >= 0:
            to = slot_of(keys[at], new_keys, new_heads)
            new_keys[to], new_heads[to], new_tails[to], new_lengths[to] = keys[at], heads[at], tails[at], lengths[at]
            taken += 1
    return taken
