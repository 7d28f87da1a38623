"""Tests of the reads of every store: they read only what they return, in portions."""

import itertools
from typing import Any

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.stores.base import SCAN_ROUNDS
from tests.index.conftest import (
    Clock,
    Opener,
    ReadMeter,
    corpus,
    count_shards,
    has_indexes,
    store_of,
)

pytestmark = pytest.mark.all_stores


def test_a_scan_without_content_reads_one_scope_and_no_content(
    opened: Opener, url: Any, meter: ReadMeter, small_portions: int
) -> None:
    index = opened()
    index.upsert_many("a", corpus(40, seed=1), [f"d{i}" for i in range(40)])
    index.upsert_many("b", corpus(90, seed=2), [f"d{i}" for i in range(90)])
    meter.reset()
    listed = list(index.scan("a", content=False))
    assert [entry.id for entry in listed] == [f"d{i}" for i in range(40)]
    assert all(entry.text is None and not entry.payload and not entry.signature for entry in listed)
    if has_indexes(url):
        # memory:// unpacks an entry twice to leave its content out
        assert meter.entries <= 40 * 2
        assert meter.content == 0
    whole = list(index.scan("a"))
    assert [entry._replace(signature=b"", text=None, payload=b"") for entry in whole] == listed
    meter.reset()
    next(index.scan("b", content=False))
    if has_indexes(url):
        assert meter.entries <= small_portions * count_shards(url)


def test_scopes_are_listed_without_reading_documents(
    opened: Opener, url: Any, meter: ReadMeter, small_portions: int
) -> None:
    index = opened()
    names = ["", *(f"scope {number:02d}" for number in range(20)), "é", "z z"]
    for name in names:
        index.upsert_many(name, corpus(3), ["x", "y", "z"])
    meter.reset()
    assert index.scopes() == sorted(names)
    if has_indexes(url):
        assert meter.entries == 0
    for name in ("x", "y", "z"):
        index.remove("scope 03", name)
    assert index.scopes() == sorted(set(names) - {"scope 03"})


@pytest.mark.parametrize("posted", [False, True])
def test_due_documents_come_oldest_first_in_portions(
    opened: Opener, url: Any, clock: Clock, meter: ReadMeter, small_portions: int, posted: bool
) -> None:
    index = opened(record_ttl=1e6)
    texts = corpus(60)
    for start in range(0, 60, 20):
        # twenty documents of the same time are more than a portion
        index.upsert_many(
            "a", texts[start : start + 20], [f"d{i}" for i in range(start, start + 20)]
        )
        clock.now += 100.0
    everything = list(index.scan("a", content=False))
    wanted = sorted((entry.seen, entry.ref) for entry in everything if entry.posted or not posted)
    due = store_of(index).due(np.inf, posted=posted)
    assert [(entry.seen, entry.ref) for entry in due] == wanted
    until = clock.now - 150.0
    early = [pair for pair in wanted if pair[0] < until]
    assert 0 < len(early) < len(wanted)
    meter.reset()
    due = list(store_of(index).due(until, posted=posted))
    assert [(entry.seen, entry.ref) for entry in due] == early
    if has_indexes(url):
        assert meter.content == 0
    meter.reset()
    list(itertools.islice(store_of(index).due(np.inf, posted=posted), 3))
    if has_indexes(url):
        assert meter.entries <= 2 * small_portions * count_shards(url)


def test_a_scan_with_texts_reads_portions_bounded_in_bytes(
    opened: Opener, url: Any, meter: ReadMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_indexes(url) or url == "memory://":
        pytest.skip("memory:// holds every text anyhow")
    monkeypatch.setattr("nearkin.index.stores.base.FIRST_PORTION", 2)
    monkeypatch.setattr("nearkin.index.stores.base.PORTION_BYTES", 20_000)
    index = opened()
    texts = [f"{text} {'x' * 8_000}" for text in corpus(60, share=0.0)]
    index.upsert_many("a", texts, [f"d{i}" for i in range(60)])
    meter.reset()
    most, before = 0, 0
    for number, _ in enumerate(index.scan(), 1):
        most, before = max(most, meter.entries - number), meter.entries
    assert before == number == 60
    assert most <= 6 * count_shards(url)


def test_a_scan_of_an_index_that_is_always_written_to_ends() -> None:
    """The memory store lists later documents a bounded number of times."""
    with nk.Index.open("memory://") as index:
        index.upsert_many("a", corpus(3))
        seen = 0
        for _ in itertools.islice(index.scan("a"), 100):
            index.upsert("a", f"a text that was written after {seen} others")
            seen += 1
    assert seen == 3 * SCAN_ROUNDS
