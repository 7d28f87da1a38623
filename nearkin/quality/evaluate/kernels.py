"""The kernel that compares sampled documents with all documents of a corpus."""

import numpy as np

from nearkin.runtime.jit import kernel
from nearkin.stages.hashing.kernels import find_sorted


@kernel
def find_similar_pairs(
    first: int,
    hashes: np.ndarray,
    starts: np.ndarray,
    keys: np.ndarray,
    index: np.ndarray,
    shift: np.uint64,
    firsts: np.ndarray,
    posted: np.ndarray,
    sampled: np.ndarray,
    sets: np.ndarray,
    set_starts: np.ndarray,
    threshold: float,
) -> np.ndarray:
    """Returns the pairs of a sampled document and a document of a batch that reach the threshold.

    Args:
        first: Ordinal of the first document of the batch.
        hashes: Sorted shingle hashes of each document of the batch, uint64.
        starts: Offsets of the documents in `hashes`, int64 (batch documents + 1,).
        keys: Sorted distinct hashes in the prefixes of the sampled documents, uint64 (q,).
        index: Lookup table of `find_sorted` for the keys.
        shift: Shift of `find_sorted` for the keys.
        firsts: Offsets of the postings of each key, int64 (q + 1,).
        posted: Postings, as positions in `sampled`, int64.
        sampled: Ordinals of the sampled documents, int64.
        sets: Sorted shingle hashes of each sampled document, uint64.
        set_starts: Offsets of the sampled documents in `sets`, int64.
        threshold: Smallest Jaccard similarity of a returned pair.

    Returns:
        Ordinal of the sampled document, ordinal of the document of the batch, size of the
        intersection and size of the union of each pair, int64 (4, m).
    """
    last_compared = np.full(sampled.shape[0], -1, np.int64)
    room = 256
    count = 0
    out = np.empty((4, room), np.int64)
    for d in range(starts.shape[0] - 1):
        b = first + d
        for i in range(starts[d], starts[d + 1]):
            q = find_sorted(hashes[i], keys, index, shift)
            if q < 0:
                continue
            for p in range(firsts[q], firsts[q + 1]):
                row = posted[p]
                if last_compared[row] == b or sampled[row] == b:
                    continue
                last_compared[row] = b
                x = set_starts[row]
                x_end = set_starts[row + 1]
                y = starts[d]
                y_end = starts[d + 1]
                sizes = (x_end - x) + (y_end - y)
                shared = 0
                while x < x_end and y < y_end:
                    left = sets[x]
                    right = hashes[y]
                    shared += np.int64(left == right)
                    x += np.int64(left <= right)
                    y += np.int64(right <= left)
                if shared / (sizes - shared) >= threshold:
                    if count == room:
                        grown = np.empty((4, 2 * room), np.int64)
                        grown[:, :room] = out
                        out = grown
                        room = 2 * room
                    out[0, count] = sampled[row]
                    out[1, count] = b
                    out[2, count] = shared
                    out[3, count] = sizes - shared
                    count += 1
    return out[:, :count].copy()
