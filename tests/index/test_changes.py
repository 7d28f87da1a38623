"""Tests of new documents: their postings, and what a step adds to the counts of a store."""

import numpy as np

from nearkin.index.changes import Changes, KeyedEntry, count_leaders
from nearkin.index.entry import HANDOVERS_PREFIX, REF_SHIFT, Entry
from nearkin.index.stores.bucket_table import BucketTable, enter_new
from nearkin.index.stores.memory_bound import growing_keys
from nearkin.index.stores.packing import pack_entry, unpack_entry

NUMBERS = [7, 8, 9, 30]


def new_document(id: str, leader: str, cluster: str, size: int, *keys: int) -> KeyedEntry:
    entry = Entry(
        scope="scöpe",
        id=id,
        ref=0,
        digest=bytes(range(16)),
        leader=leader,
        cluster=cluster,
        similarity=0.9,
        size=size,
        created=12.5,
        seen=12.5,
        posted=bool(keys),
        signature=b"signature" if keys else b"",
        text="ünicode" if size else None,
        payload=b"payload",
    )
    return KeyedEntry(entry, np.array(keys, np.uint64) if keys else None)


ENTRIES = [
    new_document("one", "one", "one", 3, 5, 6, 7),
    new_document("two", "one", "one", 2**23),
    new_document("drei€", "drei€", "an older one", 0, 6, 7),
    new_document("four", "other", "another", 7, 7),
]


def test_packed_entries_hold_every_field() -> None:
    entries = [entry for entry, _ in ENTRIES]
    assert [unpack_entry(0, pack_entry(entry)) for entry in entries] == entries


def test_postings_are_entered_under_their_keys() -> None:
    table = BucketTable(10)
    enter_new(table, ENTRIES, NUMBERS)
    postings = table.look_up(np.array([5, 6, 7, 8], np.uint64))
    assert np.diff(postings.offsets).tolist() == [1, 2, 3, 0]
    assert (postings.words >> REF_SHIFT).tolist() == [7, 7, 9, 7, 9, 30]
    expected = {
        entry._replace(ref=ref).posting
        for ref, (entry, _) in zip(NUMBERS, ENTRIES, strict=True)
        if entry.posted
    }
    assert set(postings.words.tolist()) == expected


def test_no_documents_enter_no_buckets() -> None:
    table = BucketTable(10)
    enter_new(table, [], [])
    assert table.postings == 0


def test_representatives_and_growing_keys_are_counted() -> None:
    posted = KeyedEntry(ENTRIES[0].entry, np.array([1, 2], np.uint64))
    assert count_leaders(ENTRIES) == 2
    assert growing_keys(Changes(new=ENTRIES, posted=[posted])) == 8
    assert growing_keys(Changes(posted=[posted])) is None


def test_handovers_never_meet_the_bound_of_the_memory() -> None:
    handovers = [
        KeyedEntry(entry._replace(scope=f"{HANDOVERS_PREFIX}x"), keys) for entry, keys in ENTRIES
    ]
    assert growing_keys(Changes(new=handovers)) is None
