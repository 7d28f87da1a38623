"""The binary form of an entry, for stores that keep an entry as one value."""

import hashlib
import struct

from nearkin.errors import StoreError
from nearkin.index.entry import Entry

VERSION = 1
HEAD = struct.Struct("<BB16sdIddHHHHII")
"""The fixed part of a packed entry.

Its fields are the version, the flags, the digest, the similarity, the size, the two times, and the
lengths of scope, id, leader, cluster, signature and content.
"""
NUMBERS = 11
"""The number of fields of HEAD before the lengths of signature and content."""
POSTED = 1
LEADS = 2
OWN_CLUSTER = 4
TEXT = 8
TEXT_AND_PAYLOAD = 16
"""The flag of an entry with a text and a payload: the length of the text comes before the text.

Only entries of an index of texts and vectors have both.
"""
TEXT_LENGTH = struct.Struct("<I")
SEEN = struct.Struct("<d")
NAME_LENGTHS = struct.Struct("<HH")
NAME_LENGTHS_AT = 46
"""The offset of the lengths of scope and id, in bytes."""
SEEN_AT = 38
"""The offset of the time at which the document was last seen, in bytes."""


def pack_entry(entry: Entry) -> bytes:
    """Packs an entry without its number. Names that equal the id are left out.

    Examples:
        >>> times = (1.0, 2.0)
        >>> entry = Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, *times, True, b"s", None, b"p")
        >>> unpack_entry(7, pack_entry(entry)) == entry
        True
    """
    (
        scope,
        id,
        _,
        digest,
        leader,
        cluster,
        similarity,
        size,
        created,
        seen,
        posted,
        signature,
        text,
        payload,
    ) = entry
    flags = POSTED if posted else 0
    scope_name = scope.encode()
    name = id.encode()
    leader_name = b""
    cluster_name = b""
    content = payload
    if leader == id:
        flags |= LEADS
    else:
        leader_name = leader.encode()
    if cluster == leader:
        flags |= OWN_CLUSTER
    else:
        cluster_name = cluster.encode()
    if text is not None:
        flags |= TEXT
        content = _pack_text(text, payload)
        if payload:
            flags |= TEXT_AND_PAYLOAD
    head = HEAD.pack(
        VERSION,
        flags,
        digest,
        similarity,
        size,
        created,
        seen,
        len(scope_name),
        len(name),
        len(leader_name),
        len(cluster_name),
        len(signature),
        len(content),
    )
    return b"".join((head, scope_name, name, leader_name, cluster_name, signature, content))


def _pack_text(text: str, payload: bytes) -> bytes:
    """Returns the content of an entry with a text, and with a payload if it is not empty."""
    content = text.encode()
    if not payload:
        return content
    return TEXT_LENGTH.pack(len(content)) + content + payload


def unpack_entry(ref: int, packed: bytes) -> Entry:
    """Unpacks an entry."""
    try:
        (
            version,
            flags,
            digest,
            similarity,
            size,
            created,
            seen,
            scope_length,
            id_length,
            leader_length,
            cluster_length,
            signature_length,
            content_length,
        ) = HEAD.unpack_from(packed)
        id_start = HEAD.size + scope_length
        leader_start = id_start + id_length
        cluster_start = leader_start + leader_length
        signature_start = cluster_start + cluster_length
        content_start = signature_start + signature_length
        if version != VERSION or content_start + content_length != len(packed):
            raise ValueError(f"version {version}, {len(packed)} bytes")
        name = packed[id_start:leader_start].decode()
        leader = name if flags & LEADS else packed[leader_start:cluster_start].decode()
        cluster = leader if flags & OWN_CLUSTER else packed[cluster_start:signature_start].decode()
        scope = packed[HEAD.size : id_start].decode()
        text, payload = _unpack_content(packed[content_start:], flags)
    except (struct.error, ValueError) as error:
        raise StoreError(f"the entry {ref} of the store is damaged ({error})") from error
    return Entry(
        scope=scope,
        id=name,
        ref=ref,
        digest=digest,
        leader=leader,
        cluster=cluster,
        similarity=similarity,
        size=size,
        created=created,
        seen=seen,
        posted=bool(flags & POSTED),
        signature=packed[signature_start:content_start],
        text=text,
        payload=payload,
    )


def _unpack_content(content: bytes, flags: int) -> tuple[str | None, bytes]:
    """Returns the text and the payload of a packed entry."""
    if not flags & TEXT:
        return None, content
    if not flags & TEXT_AND_PAYLOAD or not content:
        return content.decode(), b""
    (length,) = TEXT_LENGTH.unpack_from(content)
    end = TEXT_LENGTH.size + length
    if end >= len(content):
        raise ValueError(f"a text of {length} bytes and a payload in {len(content)} bytes")
    return content[TEXT_LENGTH.size : end].decode(), content[end:]


def unpack_head(ref: int, packed: bytes) -> Entry:
    """Unpacks an entry without its signature, text and payload.

    Examples:
        >>> times = (1.0, 2.0)
        >>> entry = Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, *times, True, b"s", "text", b"")
        >>> unpack_head(7, pack_entry(entry)) == entry._replace(signature=b"", text=None)
        True
    """
    try:
        head = HEAD.unpack_from(packed)
    except struct.error as error:
        raise StoreError(f"the entry {ref} of the store is damaged ({error})") from error
    end = HEAD.size + sum(head[7:NUMBERS])
    without_content = HEAD.pack(*head[:NUMBERS], 0, 0) + packed[HEAD.size : end]
    return unpack_entry(ref, without_content)._replace(text=None)


def unpack_names(packed: bytes) -> tuple[str, str]:
    """Returns the scope and the id of a packed entry.

    Examples:
        >>> times = (1.0, 2.0)
        >>> entry = Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, *times, True, b"s", "text", b"")
        >>> unpack_names(pack_entry(entry))
        ('a', 'x')
    """
    scope_length, id_length = NAME_LENGTHS.unpack_from(packed, NAME_LENGTHS_AT)
    id_start = HEAD.size + scope_length
    return packed[HEAD.size : id_start].decode(), packed[id_start : id_start + id_length].decode()


def unpack_sighting(packed: bytes) -> tuple[float, bool]:
    """Returns the time at which a packed entry was last seen, and whether it has postings.

    Examples:
        >>> times = (1.0, 2.0)
        >>> entry = Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, *times, True, b"s", "text", b"")
        >>> unpack_sighting(pack_entry(entry))
        (2.0, True)
    """
    return SEEN.unpack_from(packed, SEEN_AT)[0], bool(packed[1] & POSTED)


def id_key(scope: str, name: str) -> bytes:
    """Returns a hash of 128 bits that stands for an id of a scope."""
    return hashlib.sha256(f"{scope}\0{name}".encode()).digest()[:16]
