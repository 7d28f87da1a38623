"""Kernels of the index of signatures: a hash table of band keys whose chains are postings.

Posting `row * b + band` belongs to one band key of one row. A chain begins in `heads`, at the
highest bits of its keys, and continues in `following`. Both contain postings plus one, and 0 at the
end of a chain.
"""

import numpy as np

from nearkin.runtime.jit import inlined, kernel

U64 = np.uint64
U32 = np.uint32


@inlined
def slot_of(key: np.uint64, heads: np.ndarray) -> np.uint64:
    """Returns the place of a band key among the heads, whose number is a power of two."""
    return (key >> U64(32)) & U64(heads.shape[0] - 1)


@kernel
def link_postings(
    keys: np.ndarray,
    comparable: np.ndarray,
    first: int,
    heads: np.ndarray,
    following: np.ndarray,
) -> None:
    """Puts the postings of the rows from `first` on at the beginnings of their chains.

    Args:
        keys: Band keys, uint64 (n, b).
        comparable: Whether a row can match, bool (n,). Other rows have no postings.
        first: First row to add.
        heads: First posting of each chain, uint32 (slots,). It is changed.
        following: Next posting of each posting, uint32 (n · b,) or more. It is changed.
    """
    bands = keys.shape[1]
    for row in range(first, keys.shape[0]):
        if not comparable[row]:
            continue
        for band in range(bands):
            slot = slot_of(keys[row, band], heads)
            posting = U64(row) * U64(bands) + U64(band)
            following[posting] = heads[slot]
            heads[slot] = U32(posting + U64(1))


@kernel
def collect_candidates(
    query_keys: np.ndarray,
    query_comparable: np.ndarray,
    keys: np.ndarray,
    alive: np.ndarray,
    heads: np.ndarray,
    following: np.ndarray,
    seen: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Counts the rows that share a band key with each query, and writes them if there is room.

    Args:
        query_keys: Band keys of the queries, uint64 (q, b).
        query_comparable: Whether a query can match, bool (q,).
        keys: Band keys of the rows, uint64 (n, b).
        alive: Whether a row was not removed, bool (n,).
        heads: First posting of each chain, uint32 (slots,).
        following: Next posting of each posting, uint32.
        seen: Zeros, uint32 (n,). It is changed.
        starts: Place of the first row of each query, int64 (q,) or more.
        rows: Rows, uint32. They are written, unless the array is empty.
        counts: Number of rows of each query, int64 (q,). It is written.
    """
    bands = U64(keys.shape[1])
    for query in range(query_keys.shape[0]):
        counts[query] = 0
        if not query_comparable[query]:
            continue
        mark = U32(query + 1)
        place = starts[query]
        for band in range(query_keys.shape[1]):
            key = query_keys[query, band]
            posting = heads[slot_of(key, heads)]
            while posting != 0:
                at = U64(posting - U32(1))
                row = at // bands
                if keys[row, at % bands] == key and alive[row] and seen[row] != mark:
                    seen[row] = mark
                    if rows.shape[0]:
                        rows[place] = U32(row)
                    place += 1
                posting = following[at]
        counts[query] = place - starts[query]
