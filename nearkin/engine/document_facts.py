"""Facts about batches of documents that both engines record: lengths, hashes of ids and blocks."""

import hashlib

import numpy as np
import pyarrow as pa

from nearkin.hashing import kernels as hashing
from nearkin.hashing.families import key_of
from nearkin.shingle import text_buffers

NULL_VALUE = 0x6E756C6C
"""The block, or the source, of documents without a value."""


def text_lengths(documents: pa.Array) -> np.ndarray:
    """Returns the size of each document's text, or of all its tokens, in bytes, int64 (n,).

    Args:
        documents: Texts (large_string), lists of tokens (large_list) or vectors, whose size is 0.
    """
    if pa.types.is_fixed_size_list(documents.type):
        return np.zeros(len(documents), np.int64)
    first, last = documents.offset, documents.offset + len(documents) + 1
    offsets = np.frombuffer(documents.buffers()[1], np.int64)[first:last]
    if pa.types.is_large_list(documents.type):
        tokens = documents.values
        token_offsets = np.frombuffer(tokens.buffers()[1], np.int64)[tokens.offset :]
        return np.diff(token_offsets[offsets])
    return np.diff(offsets)


def id_hashes(ids: pa.Array) -> np.ndarray:
    """Returns a 64-bit hash of each id, uint64 (n,).

    Args:
        ids: Ids, large_string (n,).
    """
    data, offsets = text_buffers(ids)
    out = np.empty(len(ids), np.uint64)
    hashing.hash_each(data, offsets, key_of("xxh3", 0), out)
    return out


def value_hashes(values: pa.Array) -> np.ndarray:
    """Returns a hash of each value of a column of blocks or sources, as text, uint64 (n,).

    Args:
        values: Values, (n,). All nulls are one block, or one source.
    """
    encoded = values.cast(pa.large_string()).dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    digests = [hashlib.sha256(value.as_py().encode()).digest() for value in encoded.dictionary]
    hashes = [int.from_bytes(digest[:8], "little") for digest in digests]
    return np.array([*hashes, NULL_VALUE], np.uint64)[codes]
