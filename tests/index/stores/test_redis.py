"""Tests of the store on Redis."""

import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest

import nearkin as nk
from nearkin.errors import StoreError
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index
from tests.index.conftest import (
    Clock,
    corpus,
    store_of,
    words,
)
from tests.services import redis_server


def test_a_prefix_with_wildcards_matches_its_own_keys_only(redis_port: int) -> None:
    """A pattern would match keys of other indexes, or not match its own."""
    names = ["kin[1]", "kinA", "kin?", "kin*", "kin\\1"]
    indexes = [
        nk.Index.open(f"redis://127.0.0.1:{redis_port}/0?{urlencode({'prefix': name})}")
        for name in names
    ]
    for at, index in enumerate(indexes):
        index.upsert_many("a", corpus(at + 1, share=0.0))
    assert [len(list(index.scan())) for index in indexes] == [1, 2, 3, 4, 5]
    for index in indexes:
        index.close()


def test_a_full_redis_deletes_documents(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Deletions free memory, also those of a sweep, in portions."""
    clock = Clock()
    clock.now = time.time()
    with (
        redis_server(tmp_path, "--appendonly", "no", "--maxmemory-policy", "noeviction") as port,
        nk.Index.open(
            f"redis://127.0.0.1:{port}/0", threshold=0.7, record_ttl=600.0, clock=clock
        ) as index,
    ):
        index.upsert_many("a", corpus(200), [f"d{number}" for number in range(200)])
        clock.now -= 1000.0
        index.upsert_many("b", corpus(200), [f"d{number}" for number in range(200)])
        clock.now += 1000.0
        client = store_of(index)._client  # type: ignore[attr-defined]
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreError, match="used memory"):
            index.upsert("a", " ".join(words(np.random.default_rng(5))))
        assert all(index.remove("a", f"d{number}") for number in range(50))
        assert index.sweep(10.0)["records"] == 200
        client.config_set("maxmemory", 0)
        assert check_index(index).sound
        assert index.counts()["records"] == 150


def test_a_document_that_is_replaced_while_it_is_read_is_found(
    redis_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look-up of its number and of its entry it gets another number."""
    with nk.Index.open(f"redis://127.0.0.1:{redis_port}/0?prefix=replaced") as index:
        index.upsert("a", "the first text of the document", "x")
        store = store_of(index)
        by_refs = store.by_refs

        def replace_first(refs: Sequence[int]) -> list[Entry | None]:
            monkeypatch.setattr(store, "by_refs", by_refs)
            index.upsert("a", "quite another text under its id", "x")
            return by_refs(refs)

        monkeypatch.setattr(store, "by_refs", replace_first)
        entry, absent, again = store.entries("a", ["x", "y", "x"])
        assert entry is not None
        assert entry.text == "quite another text under its id"
        assert (absent, again) == (None, entry)


def test_documents_that_are_replaced_during_a_scan_are_found(
    redis_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nk.Index.open(f"redis://127.0.0.1:{redis_port}/0?prefix=scanned") as index:
        index.upsert_many("a", corpus(3), list("xyz"))
        store = store_of(index)
        by_refs = store.by_refs

        def replace_first(refs: Sequence[int]) -> list[Entry | None]:
            monkeypatch.setattr(store, "by_refs", by_refs)
            index.upsert("a", "quite another text under its id", "y")
            return by_refs(refs)

        monkeypatch.setattr(store, "by_refs", replace_first)
        assert [entry.id for entry in store.scan()] == ["x", "z", "y"]
