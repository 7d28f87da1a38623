"""Tests of new documents in columns: stores write the same as from entries, one by one."""

from dataclasses import replace

import numpy as np
import pytest

from nearkin.index.changes import Changes, KeyedEntry, NewDocuments, count_leaders
from nearkin.index.entry import HANDOVERS_PREFIX, REF_SHIFT
from nearkin.index.stores.bucket_table import BucketTable, enter_new
from nearkin.index.stores.entry_rows import entry_of_row, keyed_rows
from nearkin.index.stores.memory_bound import growing_keys

NUMBERS = [7, 8, 9, 30]
COLUMNS = NewDocuments(
    scope="scöpe",
    ids=["one", "two", "drei€", "four"],
    digests=[bytes([i] * 16) for i in range(4)],
    leaders=["one", "one", "drei€", "other"],
    clusters=["one", "one", "an older one", "another"],
    similarities=[1.0, 0.9, 1.0, 0.7],
    sizes=[3, 2**23, 0, 7],
    now=12.5,
    posted=[True, False, True, True],
    signatures=[b"signature", b"", b"other", b"third"],
    texts=["text", None, "", "ünicode"],
    payloads=[b"", b"payload", b"", b"vector"],
    keys=np.array([5, 6, 7, 6, 7, 7], np.uint64),
    key_counts=[3, 0, 2, 1],
)
ENTRIES = list(COLUMNS)
DOCUMENTS = pytest.mark.parametrize("new", [COLUMNS, ENTRIES], ids=["columns", "entries"])


@DOCUMENTS
def test_rows_hold_every_field_and_the_band_keys(new: list[KeyedEntry]) -> None:
    rows = list(keyed_rows(new, NUMBERS))
    expected = [entry._replace(ref=ref) for ref, (entry, _) in zip(NUMBERS, ENTRIES, strict=True)]
    assert [entry_of_row(row) for row, _ in rows] == expected
    assert [None if keys is None else np.frombuffer(keys, "<u8").tolist() for _, keys in rows] == [
        [5, 6, 7],
        None,
        [6, 7],
        [7],
    ]


@DOCUMENTS
def test_postings_are_entered_under_their_keys(new: list[KeyedEntry]) -> None:
    table = BucketTable(10)
    enter_new(table, new, NUMBERS)
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


@DOCUMENTS
def test_representatives_and_growing_keys_are_counted(new: list[KeyedEntry]) -> None:
    posted = KeyedEntry(ENTRIES[0].entry, np.array([1, 2], np.uint64))
    assert count_leaders(new) == 2
    assert growing_keys(Changes(new=new, posted=[posted])) == 8
    assert growing_keys(Changes(posted=[posted])) is None


def test_handovers_never_meet_the_bound_of_the_memory() -> None:
    columns = replace(COLUMNS, scope=f"{HANDOVERS_PREFIX}x")
    assert growing_keys(Changes(new=list(columns))) is None
    assert growing_keys(Changes(new=columns)) is None
