"""Kernels of the search among blocked entries."""

import numpy as np

from nearkin.runtime.jit import kernel
from nearkin.stages.hashing.kernels import find_sorted

U64 = np.uint64


@kernel
def count_shared_hashes(
    hashes: np.ndarray,
    starts: np.ndarray,
    ordered: np.ndarray,
    first: np.ndarray,
    shift: np.uint64,
    posting_starts: np.ndarray,
    postings: np.ndarray,
    counts: np.ndarray,
    documents_out: np.ndarray,
    entries_out: np.ndarray,
    shared_out: np.ndarray,
) -> int:
    """Writes how many hashes each document shares with each entry that shares one; their number.

    Args:
        hashes: Distinct shingle hashes of the documents, one after the other, uint64 (total,).
        starts: First hash of each document, and the end, int64 (n + 1,).
        ordered: Distinct hashes of all entries, ascending, uint64 (m,).
        first: Position of the first of them of each prefix, and the end. See `PrefixIndex`.
        shift: Number of bits by which a hash is shifted to give its prefix.
        posting_starts: First posting of each of them, and the end, int64 (m + 1,).
        postings: Entries that have each of them, ascending for each hash, uint32 (p,).
        counts: Zeros for each entry, int64 (entries,). They are zeros again afterwards.
        documents_out: Array for the documents, int64 (n * entries,).
        entries_out: Array for the entries, int64 (n * entries,).
        shared_out: Array for the numbers of shared hashes, int64 (n * entries,).
    """
    written = U64(0)
    for document in range(U64(starts.shape[0] - 1)):
        begin = written
        for i in range(U64(starts[document]), U64(starts[document + U64(1)])):
            at = find_sorted(hashes[i], ordered, first, shift)
            if at < 0:
                continue
            place = U64(at)
            for j in range(U64(posting_starts[place]), U64(posting_starts[place + U64(1)])):
                entry = U64(postings[j])
                if counts[entry] == 0:
                    documents_out[written] = document
                    entries_out[written] = entry
                    written += U64(1)
                counts[entry] += 1
        for k in range(begin, written):
            entry = U64(entries_out[k])
            shared_out[k] = counts[entry]
            counts[entry] = 0
    return int(written)
