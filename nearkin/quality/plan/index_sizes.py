"""The sizes of an online index in each kind of store, from the number and shape of its documents.

The constants follow from the layout of the records, and were fitted to measurements with ids of 20
bytes. Tests compare the sizes with stores that are filled.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

NAME_BYTES = 65
"""The size of the names in a record: a scope of 5 bytes, and an id, a leader and a cluster of 20
each."""
OWN_NAME_BYTES = 25
"""The size of the names in the packed record of a representative."""
PACKED_BYTES = 68
"""The size of the fixed part of a packed record."""
SQLITE_PAGE = 4096
SQLITE_PAGE_CACHE = 256 << 20
"""The largest page cache of a process over SQLite."""
POSTGRES_PAGE = 8192


@dataclass(frozen=True)
class IndexShape:
    """The number and the sizes of the documents of an index.

    Attributes:
        documents: Number of documents.
        representatives: Number of documents that are representatives.
        content: Size of the signature and the text or payload of a representative, in bytes.
        member_content: Size of the text or payload of another document, in bytes.
        keys: Number of postings of a representative.
        buckets: Number of buckets that are not empty.
        fingerprints: Number of postings of fingerprints of passages, of all documents.
    """

    documents: int
    representatives: int
    content: float
    member_content: float
    keys: int
    buckets: float
    fingerprints: float = 0.0

    @property
    def members(self) -> int:
        """The number of documents that are not representatives."""
        return self.documents - self.representatives

    @property
    def postings(self) -> float:
        """The number of postings."""
        return self.representatives * self.keys + self.fingerprints


@dataclass(frozen=True)
class IndexSize:
    """The size of an index in a store.

    Attributes:
        records: Size of the records with their indexes, in bytes.
        postings: Size of the postings, in bytes.
        bucket_memory: Size of the buckets that each process keeps in memory, in bytes.
        on_disk: True if records and postings are on a disk; False if they are in memory.
        fixed: Size of an empty store, in bytes.
    """

    records: float
    postings: float
    bucket_memory: float
    on_disk: bool
    fixed: float = 0.0

    @property
    def total(self) -> float:
        """The size of the store, without buckets that processes keep beside it."""
        return self.records + self.postings + self.fixed


def bucket_table_bytes(postings: float, buckets: float) -> float:
    """Returns the memory of buckets in arrays.

    A bucket has a slot of 16 bytes, and a slot in 2.5 is taken. A bucket of several postings has a
    list of 24 bytes besides, and 16 bytes for each posting. Arrays that are full grow by an eighth,
    so that a sixteenth of them is free on average.

    Examples:
        >>> bucket_table_bytes(0, 0), bucket_table_bytes(200_000, 100_000)
        (75776, 10200000.0)
    """
    further_postings = postings - buckets
    lists = min(buckets, further_postings)
    slots = 16 * 2.5 * buckets
    free_share = 1 + 1 / 16
    least_slots = 16 * 4096
    least_lists = (24 + 16) * 256
    return max(least_slots, free_share * slots) + max(
        least_lists, free_share * (24 * lists + 16 * (further_postings + lists))
    )


def memory_size(shape: IndexShape) -> IndexSize:
    """Returns the size of an index in `memory://`."""
    # the object of the packed bytes; its place; numbers in the lists of all, and of a scope
    objects = 33 + 8 + 9 + 9 + 9
    leader = objects + PACKED_BYTES + OWN_NAME_BYTES + shape.content
    member = objects + 10 + PACKED_BYTES + OWN_NAME_BYTES + 20 + shape.member_content
    ids = bucket_table_bytes(shape.documents, shape.documents)
    return IndexSize(
        records=shape.representatives * leader + shape.members * member + ids,
        postings=bucket_table_bytes(shape.postings, shape.buckets),
        bucket_memory=0.0,
        on_disk=False,
    )


def sqlite_size(shape: IndexShape) -> IndexSize:
    """Returns the size of an index in an SQLite file, in whole pages."""
    row = 53 + NAME_BYTES
    indexes = 116
    # an index over leaders has members alone
    leader = _row_in_pages(row + shape.content + 8 * shape.keys, SQLITE_PAGE) + indexes
    member = _row_in_pages(row + shape.member_content, SQLITE_PAGE) + indexes + 22
    return IndexSize(
        records=shape.representatives * leader + shape.members * member,
        # the keys are in the records
        postings=0.0,
        bucket_memory=bucket_table_bytes(shape.postings, shape.buckets),
        on_disk=True,
        fixed=80e3,
    )


def postgres_size(shape: IndexShape) -> IndexSize:
    """Returns the size of an index in PostgreSQL, in whole pages, with its indexes."""
    row = 105 + NAME_BYTES
    leader = _postgres_row(row, shape.content) + 200
    member = _postgres_row(row, shape.member_content) + 230
    return IndexSize(
        records=shape.representatives * leader + shape.members * member,
        # a row of 48 bytes, and its entry in an index that is filled in random order
        postings=86.0 * shape.postings,
        bucket_memory=0.0,
        on_disk=True,
        fixed=250e3,
    )


def redis_size(shape: IndexShape) -> IndexSize:
    """Returns the memory of an index in a Redis server.

    Buckets and ids are fields of hashes, of which there are 65,536 or up to 256 times as many, by
    the documents of the setting `documents`.
    """
    sorted_set_item = 129
    objects = 85
    leader = objects + 1.06 * (PACKED_BYTES + OWN_NAME_BYTES + shape.content) + 3 * sorted_set_item
    member = (
        objects
        + 1.06 * (PACKED_BYTES + OWN_NAME_BYTES + 20 + shape.member_content)
        + 2 * sorted_set_item
        # Redis 7 and 8 need more and less of different records
        + 50
    )
    ids = 25.0 * shape.documents + 70 * _expect_occupied(shape.documents, 1 << 16)
    expected = shape.documents * max(shape.keys, 1)
    hashes = 1 << (16 + min(8, (expected // 64 >> 16).bit_length()))
    bucket_hashes = 85 * _expect_occupied(shape.buckets, hashes)
    return IndexSize(
        records=shape.representatives * leader + shape.members * member + ids,
        postings=12.0 * shape.buckets + 8.0 * shape.postings + bucket_hashes,
        bucket_memory=0.0,
        on_disk=False,
        fixed=200e3,
    )


def aerospike_size(shape: IndexShape) -> IndexSize:
    """Returns the memory of one copy of an index in an Aerospike server, with its indexes.

    A document has a record and a record that leads from its number to it. Postings are in groups,
    of which there are 65,536 or more, so that 16 of the expected postings share a group.
    """
    index_entry = 64
    number = 96 + index_entry
    leader = 155 + NAME_BYTES + shape.content + index_entry + number
    member = 189 + NAME_BYTES + shape.member_content + index_entry + number
    expected = shape.documents * max(shape.keys, 1)
    places = 1 << min(32, max(16, (expected // 16).bit_length()))
    groups = _expect_occupied(shape.buckets, places)
    return IndexSize(
        records=shape.representatives * leader + shape.members * member,
        postings=(77 + index_entry) * groups + 18.3 * shape.postings,
        bucket_memory=0.0,
        on_disk=False,
        # each of three secondary indexes begins with 16 MiB
        fixed=3.0 * (16 << 20),
    )


INDEX_SIZES: dict[str, Callable[[IndexShape], IndexSize]] = {
    "memory": memory_size,
    "sqlite": sqlite_size,
    "redis": redis_size,
    "postgres": postgres_size,
    "aerospike": aerospike_size,
}
"""The sizes by the kind of store."""


def _expect_occupied(items: float, places: int) -> float:
    """Returns the expected number of places that random items occupy."""
    return places * -math.expm1(-items / places)


def _row_in_pages(row: float, page: int) -> float:
    """Returns the share of pages that a row takes. A row beyond a page has pages of its own."""
    usable = page - 24
    if row <= usable:
        return page / (usable // row)
    return page * math.ceil(row / usable)


def _postgres_row(row: float, content: float) -> float:
    """Returns the size of a row, whose content is in another table if the row is large."""
    if row + content <= 2000:
        return _row_in_pages(row + content, POSTGRES_PAGE)
    # chunks of 1,996 bytes with a header, four to a page, and an index over them
    return _row_in_pages(row + 40, POSTGRES_PAGE) + 1.06 * content + 60
