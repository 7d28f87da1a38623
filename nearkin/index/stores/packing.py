"""The binary form of an entry, for stores that keep an entry as one value."""

import hashlib
import struct

import numpy as np

from nearkin.errors import StoreError
from nearkin.index.changes import NewDocuments
from nearkin.index.entry import Entry

VERSION = 1
HEAD = struct.Struct("<BB16sdIddHHHHII")
"""The fixed part of a packed entry.

Its fields are the version, the flags, the digest, the similarity, the size, the two times, and the
lengths of scope, id, leader, cluster, signature and content.
"""
HEADS = np.dtype(
    [
        ("version", "<u1"),
        ("flags", "<u1"),
        ("digest", "V16"),
        ("similarity", "<f8"),
        ("size", "<u4"),
        ("created", "<f8"),
        ("seen", "<f8"),
        ("scope_length", "<u2"),
        ("id_length", "<u2"),
        ("leader_length", "<u2"),
        ("cluster_length", "<u2"),
        ("signature_length", "<u4"),
        ("content_length", "<u4"),
    ]
)
"""The fixed parts of several packed entries, which have the fields of HEAD."""
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
    flags = POSTED if entry.posted else 0
    leader = b""
    cluster = b""
    content = entry.payload
    if entry.leader == entry.id:
        flags |= LEADS
    else:
        leader = entry.leader.encode()
    if entry.cluster == entry.leader:
        flags |= OWN_CLUSTER
    else:
        cluster = entry.cluster.encode()
    if entry.text is not None:
        flags |= TEXT
        content = _pack_text(entry.text, entry.payload)
        if entry.payload:
            flags |= TEXT_AND_PAYLOAD
    scope = entry.scope.encode()
    name = entry.id.encode()
    head = HEAD.pack(
        VERSION,
        flags,
        entry.digest,
        entry.similarity,
        entry.size,
        entry.created,
        entry.seen,
        len(scope),
        len(name),
        len(leader),
        len(cluster),
        len(entry.signature),
        len(content),
    )
    return b"".join((head, scope, name, leader, cluster, entry.signature, content))


def pack_new(documents: NewDocuments) -> list[bytes]:
    """Packs new documents together, as `pack_entry` does each.

    Args:
        documents: n new documents.
    """
    columns = zip(documents.ids, documents.leaders, documents.clusters, strict=True)
    scope = documents.scope.encode()
    names: list[tuple[bytes, bytes, bytes]] = []
    for id, leader, cluster in columns:
        leader_name = b"" if leader == id else leader.encode()
        cluster_name = b"" if cluster == leader else cluster.encode()
        names.append((id.encode(), leader_name, cluster_name))
    contents = [
        payload if text is None else _pack_text(text, payload)
        for text, payload in zip(documents.texts, documents.payloads, strict=True)
    ]
    heads = np.zeros(len(names), HEADS)
    lengths = np.array([[len(part) for part in parts] for parts in names])
    heads["version"] = VERSION
    heads["digest"] = np.frombuffer(b"".join(documents.digests), "V16")
    heads["similarity"] = documents.similarities
    heads["size"] = documents.sizes
    heads["created"] = documents.now
    heads["seen"] = documents.now
    heads["scope_length"] = len(scope)
    heads["id_length"] = lengths[:, 0]
    heads["leader_length"] = lengths[:, 1]
    heads["cluster_length"] = lengths[:, 2]
    heads["signature_length"] = [len(signature) for signature in documents.signatures]
    heads["content_length"] = [len(content) for content in contents]
    has_text = np.array([text is not None for text in documents.texts])
    has_payload = np.array([bool(payload) for payload in documents.payloads])
    flags = heads["flags"]
    flags[documents.posted] |= POSTED
    flags[lengths[:, 1] == 0] |= LEADS
    flags[lengths[:, 2] == 0] |= OWN_CLUSTER
    flags[has_text] |= TEXT
    flags[has_text & has_payload] |= TEXT_AND_PAYLOAD
    packed = heads.tobytes()
    return [
        b"".join((packed[i * HEAD.size : (i + 1) * HEAD.size], scope, *parts, signature, content))
        for i, (parts, signature, content) in enumerate(
            zip(names, documents.signatures, contents, strict=True)
        )
    ]


def _pack_text(text: str, payload: bytes) -> bytes:
    """Returns the content of an entry with a text, and with a payload if it is not empty."""
    content = text.encode()
    if not payload:
        return content
    return TEXT_LENGTH.pack(len(content)) + content + payload


def unpack_entry(ref: int, packed: bytes) -> Entry:
    """Unpacks an entry.

    Args:
        ref: Number of the document.
        packed: The result of `pack_entry`.

    Returns:
        The entry.

    Raises:
        StoreError: If the value has another version, or is truncated.
    """
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
    """Returns the text and the payload of a packed entry.

    Args:
        content: The content, which may be missing.
        flags: Flags of the entry.

    Raises:
        ValueError: If the text is longer than the content.
    """
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

    Args:
        ref: Number of the document.
        packed: The result of `pack_entry`, or a prefix of it that ends behind the names.

    Returns:
        The entry, with an empty signature and payload and without a text.

    Raises:
        StoreError: If the value has another version, or is truncated.

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
