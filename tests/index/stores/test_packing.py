"""Tests of packed entries."""

import struct

import pytest

from nearkin.errors import StoreError
from nearkin.index.entry import Entry
from nearkin.index.stores.packing import pack_entry, unpack_entry

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


@pytest.mark.parametrize("length", [12, 13, 2**31])
def test_a_text_longer_than_the_content_is_damage(length: int) -> None:
    """The payload, which holds the vector, would be missing without notice."""
    packed = pack_entry(ENTRY)
    recorded = struct.pack("<I", 5) + b"hello"
    assert packed.count(recorded) == 1
    damaged = packed.replace(recorded, struct.pack("<I", length) + b"hello")
    with pytest.raises(StoreError, match="the entry 1 of the store is damaged"):
        unpack_entry(1, damaged)
