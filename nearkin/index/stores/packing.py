"""An entry as bytes, for stores that keep it as one value."""

import struct

from nearkin.errors import StoreError
from nearkin.index.entry import Entry

VERSION = 1
HEAD = struct.Struct("<BB16sdIdd")
LENGTH = struct.Struct("<I")
POSTED, LEADS, OWN_CLUSTER, TEXT = 1, 2, 4, 8


def pack_entry(entry: Entry) -> bytes:
    """Everything but the number: head, then length and bytes of each text; what follows from the id is left out.

    Examples:
        >>> entry = Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, 1.0, 2.0, True, b"sig", None, b"pay")
        >>> unpack_entry(7, pack_entry(entry)) == entry
        True
    """
    flags = POSTED * entry.posted | LEADS * entry.is_leader | OWN_CLUSTER * (entry.cluster == entry.leader)
    flags |= TEXT * (entry.text is not None)
    parts = [entry.scope.encode(), entry.id.encode()]
    if not entry.is_leader:
        parts.append(entry.leader.encode())
    if entry.cluster != entry.leader:
        parts.append(entry.cluster.encode())
    parts += [entry.signature, entry.payload if entry.text is None else entry.text.encode()]
    head = HEAD.pack(VERSION, flags, entry.digest, entry.similarity, entry.size, entry.created, entry.seen)
    return head + b"".join(LENGTH.pack(len(part)) + part for part in parts)


def unpack_entry(ref: int, packed: bytes) -> Entry:
    """Back.

    Raises:
        StoreError: It is of another version, or cut off.
    """
    try:
        version, flags, digest, similarity, size, created, seen = HEAD.unpack_from(packed)
        parts, at = [], HEAD.size
        while at < len(packed):
            (length,) = LENGTH.unpack_from(packed, at)
            parts.append(packed[at + LENGTH.size : at + LENGTH.size + length])
            at += LENGTH.size + length
        if version != VERSION or at != len(packed):
            raise ValueError(f"version {version}")
        rest = iter(parts)
        scope, name = next(rest).decode(), next(rest).decode()
        leader = name if flags & LEADS else next(rest).decode()
        cluster = leader if flags & OWN_CLUSTER else next(rest).decode()
        signature, content = next(rest), next(rest)
    except (struct.error, ValueError, StopIteration) as error:
        raise StoreError(f"the entry {ref} of the store is damaged ({error})") from error
    text, payload = (content.decode(), b"") if flags & TEXT else (None, content)
    about = (scope, name, ref, digest, leader, cluster, similarity, size, created, seen, bool(flags & POSTED))
    return Entry(*about, signature, text, payload)
