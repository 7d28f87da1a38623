"""The rows of entries in SQL stores."""

from collections.abc import Iterator, Sequence
from typing import Any

from nearkin.index.changes import KeyedEntry, NewDocuments
from nearkin.index.entry import Entry

COLUMNS = (
    "ref, scope, id, digest, leader, cluster, similarity, size, created, seen, posted, "
    "signature, text, payload"
)
"""The columns of an entry, in the order of its row."""


def row_of_entry(entry: Entry) -> tuple[Any, ...]:
    """Returns the row of an entry, in the order of COLUMNS.

    Examples:
        >>> times = (1.0, 2.0)
        >>> entry = Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, *times, True, b"s", "t", b"")
        >>> entry_of_row(row_of_entry(entry)) == entry
        True
    """
    return (
        entry.ref,
        entry.scope,
        entry.id,
        entry.digest,
        entry.leader,
        entry.cluster,
        entry.similarity,
        entry.size,
        entry.created,
        entry.seen,
        entry.posted,
        entry.signature,
        entry.text,
        entry.payload,
    )


def keyed_rows(
    new: Sequence[KeyedEntry], numbers: Sequence[int]
) -> Iterator[tuple[tuple[Any, ...], bytes | None]]:
    """Yields the row of each new document, and the bytes of its band keys if it has any."""
    if not isinstance(new, NewDocuments):
        for (entry, keys), number in zip(new, numbers, strict=True):
            row = row_of_entry(entry._replace(ref=number))
            yield row, None if keys is None else keys.tobytes()
        return
    packed_keys = new.keys.tobytes()
    end = 0
    for i, number in enumerate(numbers):
        start = end
        end += new.key_counts[i] * new.keys.itemsize
        row = (
            number,
            new.scope,
            new.ids[i],
            new.digests[i],
            new.leaders[i],
            new.clusters[i],
            new.similarities[i],
            new.sizes[i],
            new.now,
            new.now,
            new.posted[i],
            new.signatures[i],
            new.texts[i],
            new.payloads[i],
        )
        yield row, packed_keys[start:end] if new.posted[i] else None


def entry_of_row(row: tuple[Any, ...]) -> Entry:
    """Returns the entry of a row, which has the columns of COLUMNS.

    Databases may return a posted flag as a number, and binary values as buffers.
    """
    (
        ref,
        scope,
        name,
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
    ) = row
    return Entry(
        scope=scope,
        id=name,
        ref=ref,
        digest=bytes(digest),
        leader=leader,
        cluster=cluster,
        similarity=similarity,
        size=size,
        created=created,
        seen=seen,
        posted=bool(posted),
        signature=bytes(signature),
        text=text,
        payload=bytes(payload),
    )
