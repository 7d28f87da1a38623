"""The kernel that prepares a batch of texts for an index in one call.

A call of a kernel from Python takes longer than most steps of the preparation of one text.
"""

from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import kernel
from nearkin.stages.lsh.kernels import slot_key
from nearkin.stages.shingle.kernels import word_shingles
from nearkin.stages.shingle.normalization.kernels import CodePointTables
from nearkin.stages.shingle.tokens.kernels import Scratch
from nearkin.stages.sketch.kernels import binned_minhash
from nearkin.stages.verify.kernels import distinct_sets


@kernel
def prepare_words(
    data: np.ndarray,
    offsets: np.ndarray,
    n: int,
    fast: bool,
    tables: CodePointTables,
    scratch: Scratch,
    key: NamedTuple,
    rounds: np.ndarray,
    completion: np.ndarray,
    salt: np.uint64,
    rows: int,
    stream: np.ndarray,
    stream_offsets: np.ndarray,
    symbols: np.ndarray,
    bucket_ends: np.ndarray,
    slots: np.ndarray,
    keys: np.ndarray,
    sizes: np.ndarray,
    sets: np.ndarray,
) -> int:
    """Computes the signatures, the band keys and the shingle sets of texts.

    Args:
        data: UTF-8 bytes of the texts, uint8.
        offsets: First byte of each text, and the end, int64 (documents + 1,).
        n: Number of tokens of a shingle.
        fast: Whether segments of ASCII can take the faster path.
        tables: Properties of all code points.
        scratch: Buffers of one segment. They are overwritten.
        key: Key of the base hash. See `nearkin.stages.hashing.families.key_of`.
        rounds: Odd multipliers of the rounds of `binned`, uint64 (R,).
        completion: Odd multipliers of its completion, uint32 (k,).
        salt: Salt of the band keys.
        rows: Number of slots of a band.
        stream: Buffer for the hashes of the shingles, uint64.
        stream_offsets: Buffer for the first hash of each document, and the end, int64 (documents +
            1,).
        symbols: Buffer for the sums over the symbols of each document, uint64 (documents, 3).
        bucket_ends: Buffer of the bucket sort, int64 (a power of two,).
        slots: Receives the signatures, uint32 (documents, k).
        keys: Receives the band keys, uint64 (documents, b).
        sizes: Receives the number of hashes of each set, int64 (documents,).
        sets: Receives the sorted distinct hashes, one document after the other, uint64, as long as
            `stream`.

    Returns:
        The number of hashes of all sets.
    """
    word_shingles(data, offsets, n, fast, tables, scratch, key, stream, stream_offsets, symbols)
    binned_minhash(stream, stream_offsets, rounds, completion, slots)
    for d in range(keys.shape[0]):
        for band in range(keys.shape[1]):
            keys[d, band] = slot_key(slots, d, band, rows, salt)
    return distinct_sets(stream, stream_offsets, bucket_ends, sizes, sets)
