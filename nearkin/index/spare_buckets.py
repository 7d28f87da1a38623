"""Buckets for documents that come when their own buckets are full.

Searches read the oldest postings of a full bucket only, so a flood of variants of a text that comes
first would hide the text itself. A document that meets as many full buckets is posted in spare
buckets, too: one for each of its buckets, and one of its content. A search that reads a full bucket
reads the spare ones as well.

Variants of a text share full buckets with it as well, but at most half of them if they are too
different to be resolved to it. So they do not fill the spare buckets.
"""

import hashlib

import numpy as np

from nearkin.index.entry import Entry

CROWDED_SHARE = 0.5
"""The share of a document's buckets that must be full for it to be posted in spare buckets."""
SPARE_BITS = np.uint64(0x9E3779B97F4A7C15)
"""The bits in which the key of a spare bucket differs from that of its bucket."""


def spare_keys(keys: np.ndarray) -> np.ndarray:
    """Returns the keys of the spare buckets of some buckets, uint64 of the shape of `keys`.

    Examples:
        >>> keys = np.array([1, 2], np.uint64)
        >>> bool((spare_keys(spare_keys(keys)) == keys).all())
        True
    """
    return keys ^ SPARE_BITS


def content_key(scope: str, digest: bytes) -> int:
    """Returns the key of the spare bucket of all documents with the same content."""
    hashed = hashlib.sha256(b"content\0" + scope.encode() + b"\0" + digest).digest()
    return int.from_bytes(hashed[:8], "little")


def with_spare_keys(scope: str, digest: bytes, keys: np.ndarray) -> np.ndarray:
    """Returns the keys of a document's buckets, then those of its spare ones, uint64 (2 b + 1,).

    Args:
        keys: Keys of its buckets, uint64 (b,).
    """
    content = np.array([content_key(scope, digest)], np.uint64)
    return np.concatenate([keys, spare_keys(keys), content])


def all_keys_of(entry: Entry, keys: np.ndarray) -> np.ndarray:
    """Returns the keys of all buckets that a stored document may be in, uint64 (2 b + 1,).

    Args:
        keys: Keys of its buckets, uint64 (b,).
    """
    return with_spare_keys(entry.scope, entry.digest, keys)


def is_crowded(full: np.ndarray) -> bool:
    """Returns True if a document is posted in spare buckets."""
    return len(full) > 0 and int(np.count_nonzero(full)) >= CROWDED_SHARE * len(full)
