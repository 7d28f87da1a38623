"""An entry as bytes, for stores that keep it as one value, and the key that it has there."""

import hashlib
import struct

from nearkin.errors import StoreError
from nearkin.index.entry import Entry

VERSION = 1
HEAD = struct.Struct("<BB16sdIddHHHHII")
"""Version, flags, digest, similarity, size, times; lengths of scope, id, leader, cluster, signature, content."""
POSTED, LEADS, OWN_CLUSTER, TEXT = 1, 2, 4, 8
SEEN, SEEN_AT = struct.Struct("<d"), 38
"""The time at which the document was last seen, and its place in the head."""


def pack_entry(entry: Entry) -> bytes:
    """Everything but the number: the head, then texts and bytes; what follows from the id is left out.

    Examples:
        >>> entry = Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, 1.0, 2.0, True, b"sig", None, b"pay")
        >>> unpack_entry(7, pack_entry(entry)) == entry
        True
    """
    scope, name, _, digest, leader, cluster, similarity, size, created, seen, posted, signature, text, payload = entry
    flags = POSTED if posted else 0
    a, b, c, d = scope.encode(), name.encode(), b"", b""
    if leader == name:
        flags |= LEADS
    else:
        c = leader.encode()
    if cluster == leader:
        flags |= OWN_CLUSTER
    else:
        d = cluster.encode()
    if text is not None:
        flags |= TEXT
        payload = text.encode()
    lengths = (len(a), len(b), len(c), len(d), len(signature), len(payload))
    head = HEAD.pack(VERSION, flags, digest, similarity, size, created, seen, *lengths)
    return b"".join((head, a, b, c, d, signature, payload))


def unpack_entry(ref: int, packed: bytes) -> Entry:
    """Back.

    Raises:
        StoreError: It is of another version, or cut off.
    """
    try:
        version, flags, digest, similarity, size, created, seen, a, b, c, d, s, rest = HEAD.unpack_from(packed)
        ends = [HEAD.size, a, b, c, d, s, rest]
        if version != VERSION or sum(ends) != len(packed):
            raise ValueError(f"version {version}, {len(packed)} bytes")
        at = HEAD.size
        scope, at = packed[at : at + a].decode(), at + a
        name, at = packed[at : at + b].decode(), at + b
        leader, at = (name if flags & LEADS else packed[at : at + c].decode()), at + c
        cluster, at = (leader if flags & OWN_CLUSTER else packed[at : at + d].decode()), at + d
        signature, content = packed[at : at + s], packed[at + s :]
        text, payload = (content.decode(), b"") if flags & TEXT else (None, content)
    except (struct.error, ValueError) as error:
        raise StoreError(f"the entry {ref} of the store is damaged ({error})") from error
    about = (scope, name, ref, digest, leader, cluster, similarity, size, created, seen, bool(flags & POSTED))
    return Entry(*about, signature, text, payload)


def unpack_head(ref: int, packed: bytes) -> Entry:
    """Returns an entry without signature, text and payload; `packed` may end where its names do.

    Examples:
        >>> entry = Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, 1.0, 2.0, True, b"sig", "text", b"")
        >>> unpack_head(7, pack_entry(entry)) == entry._replace(signature=b"", text=None)
        True
    """
    try:
        head = HEAD.unpack_from(packed)
    except struct.error as error:
        raise StoreError(f"the entry {ref} of the store is damaged ({error})") from error
    size = HEAD.size + sum(head[7:11])
    return unpack_entry(ref, HEAD.pack(*head[:11], 0, 0) + packed[HEAD.size : size])._replace(text=None)


def sighted(packed: bytes) -> tuple[float, bool]:
    """Returns when a packed entry was last seen, and whether it stands in buckets.

    Examples:
        >>> sighted(pack_entry(Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, 1.0, 2.0, True, b"", "text", b"")))
        (2.0, True)
    """
    return SEEN.unpack_from(packed, SEEN_AT)[0], bool(packed[1] & POSTED)


def id_key(scope: str, name: str) -> bytes:
    """128 bits that stand for an id of a scope."""
    return hashlib.sha256(f"{scope}\0{name}".encode()).digest()[:16]
