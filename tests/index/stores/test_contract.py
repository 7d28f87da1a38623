"""Tests that each kind of store keeps the contract of stores, and numbers documents once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.stores.base import Store
from nearkin.index.stores.sqlite import SqliteStore
from nearkin.index.stores.urls import open_store
from nearkin.testing import StoreContract, make_entry
from tests.index.conftest import corpus, empty_store

pytestmark = pytest.mark.all_stores

KINDS = ["redis", "postgres", "aerospike", "aerospike-file", "aerospike-strong", "aerospike-server"]
"""The kinds of stores that tests/test_testing.py leaves out. Shards have steps of several parts."""


class TestStores(StoreContract):
    @pytest.fixture(autouse=True, params=KINDS)
    def _kind(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.request = request
        self.folder = tmp_path

    def open_store(self) -> Store:
        url = empty_store(self.request.param, self.request, self.folder)
        assert isinstance(url, str)
        return open_store(url, nk.index_types.IndexSettings())


def test_numbers_of_shards_grow_with_the_documents(tmp_path: Path) -> None:
    """A number encodes the place of its shard, so it must not be taken for the last one given."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second")]
    with nk.Index.open(urls, threshold=0.7) as index:
        texts = corpus(60, share=0)
        for text in texts:
            index.upsert("a", text)
        refs = [entry.ref for entry in index.scan()]
    assert len(refs) == len(texts)
    assert max(refs) <= len(urls) * len(texts) + 1


def test_a_file_of_an_older_version_gives_no_number_again(tmp_path: Path) -> None:
    """Older versions did not record the numbers that steps gave."""
    path = tmp_path / "index.db"
    with closing(SqliteStore(path, 100)) as store:
        new = [KeyedEntry(make_entry(id), None) for id in ("one", "two")]
        numbers = store.apply(Changes(new=new))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE meta SET value = '0' WHERE name = 'reserved'")
    with closing(SqliteStore(path, 100)) as store:
        assert store.last_number() == max(numbers)
        (later,) = store.apply(Changes(new=[KeyedEntry(make_entry("three"), None)]))
        assert later > max(numbers)
        assert store.reserve(1) == [later + 1]
