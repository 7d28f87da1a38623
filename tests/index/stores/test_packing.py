"""Tests of packed entries."""

import struct

import numpy as np
import pytest

from nearkin.errors import StoreError
from nearkin.index.changes import NewDocuments
from nearkin.index.entry import Entry
from nearkin.index.stores.packing import pack_entry, pack_new, unpack_entry

ENTRY = Entry(
    scope="s",
    id="one",
    ref=1,
    digest=bytes(16),
    leader="one",
    cluster="one",
    similarity=1.0,
    size=3,
    created=0.0,
    seen=0.0,
    posted=True,
    signature=b"signature",
    text="hello",
    payload=b"payload",
)


def test_entries_with_a_text_and_a_payload_are_restored() -> None:
    assert unpack_entry(1, pack_entry(ENTRY)) == ENTRY


def test_documents_that_are_packed_together_equal_packed_entries() -> None:
    documents = NewDocuments(
        scope="scöpe",
        ids=["one", "two", "drei€", "four", "five"],
        digests=[bytes([i] * 16) for i in range(5)],
        leaders=["one", "one", "drei€", "other", "five"],
        clusters=["one", "one", "an older one", "another", "five"],
        similarities=[1.0, 0.9, 1.0, 0.7, 1.0],
        sizes=[3, 2**23, 0, 7, 9],
        now=12.5,
        posted=[True, False, False, False, True],
        signatures=[b"signature", b"", b"", b"", b"other"],
        texts=["text", None, "", "ünicode", None],
        payloads=[b"", b"payload", b"", b"vector", b""],
        keys=np.arange(6, dtype=np.uint64),
        key_counts=[4, 0, 0, 0, 2],
    )
    assert pack_new(documents) == [pack_entry(entry) for entry, _ in documents]
    assert [keys.tolist() for _, keys in documents if keys is not None] == [[0, 1, 2, 3], [4, 5]]
    assert documents[1:3] == list(documents)[1:3]
    assert [entry.is_leader for entry, _ in documents] == documents.are_leaders


@pytest.mark.parametrize("length", [12, 13, 2**31])
def test_a_text_longer_than_the_content_is_damage(length: int) -> None:
    """The payload, which holds the vector, would be missing without notice."""
    packed = pack_entry(ENTRY)
    recorded = struct.pack("<I", 5) + b"hello"
    assert packed.count(recorded) == 1
    damaged = packed.replace(recorded, struct.pack("<I", length) + b"hello")
    with pytest.raises(StoreError, match="the entry 1 of the store is damaged"):
        unpack_entry(1, damaged)
