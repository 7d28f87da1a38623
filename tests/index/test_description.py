"""Tests of the description of an index: durability and counts."""

from typing import Any

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.maintenance import check_index
from nearkin.index.stores import sqlite
from tests.index.conftest import (
    Clock,
    Opener,
    ReadMeter,
    corpus,
    has_indexes,
    store_of,
)


def test_durability_describes_what_an_acknowledged_step_survives(
    opened: Opener, url: "str | list[str]"
) -> None:
    durability = opened().durability
    if str(url).startswith("sqlite"):
        assert durability == "synced before it is acknowledged: survives a power cut"
    elif str(url).startswith(("memory", "redis")):
        assert "memory" in durability
    elif str(url).startswith("postgres"):
        assert "fsync is off" in durability
    else:
        assert durability


def count_entries(index: nk.Index) -> tuple[int, int]:
    entries = list(index.scan(content=False))
    return len(entries), sum(entry.is_leader for entry in entries)


def test_counts_equal_those_of_a_scan(
    opened: Opener, url: Any, clock: Clock, meter: ReadMeter
) -> None:
    index = opened(threshold=0.6, record_ttl=1_000.0, bucket_capacity=20)
    other = (
        index
        if url == "memory://"
        else opened(threshold=0.6, record_ttl=1_000.0, bucket_capacity=20)
    )
    texts = corpus(120, seed=9, share=0.6)
    rng = np.random.default_rng(4)
    for at, text in enumerate(texts):
        chosen = (index, other)[at % 2]
        chosen.upsert("ab"[at % 2], text, f"d{rng.integers(0, 60)}")
        if at % 7 == 0:
            chosen.remove("ab"[at % 2], f"d{rng.integers(0, 60)}")
        clock.now += 5.0
    index.upsert_many("a", texts[:50], [f"e{at}" for at in range(50)])
    index.expire()
    meter.reset()
    counts = [one.counts() for one in (index, other)]
    if has_indexes(url):
        assert meter.entries == 0
    assert [(one["records"], one["leaders"]) for one in counts] == [count_entries(index)] * 2
    assert check_index(index).stray == 0
    for entry in list(index.scan(content=False)):
        index.remove(entry.scope, entry.id)
    assert [index.counts()[name] for name in ("records", "leaders", "postings")] == [
        0,
        0,
        0,
    ]


def test_counts_do_not_read_the_documents(opened: Opener, url: Any) -> None:
    """No statement counts rows of documents."""
    if (
        url == "memory://"
        or not isinstance(url, str)
        or url.split(":")[0] not in ("sqlite", "postgresql")
    ):
        pytest.skip("of stores that speak SQL")
    index = opened()
    index.upsert_many("a", corpus(30))
    seen: list[str] = []
    store: Any = store_of(index)
    if isinstance(store, sqlite.SqliteStore):
        store._db.set_trace_callback(seen.append)
        store.counts()
        store._db.set_trace_callback(None)
        assert seen
    else:
        explained = store._read_rows(f"EXPLAIN SELECT count(*) FROM {store._s}.tallies")
        assert "entries" not in str(explained)
    assert not any(
        "COUNT(*)" in statement.upper() and "ENTRIES" in statement.upper() for statement in seen
    )
