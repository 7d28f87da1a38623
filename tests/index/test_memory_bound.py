"""Tests of the setting `max_memory`: the memory that a process keeps for an index is bounded."""

import gc
import tracemalloc
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.errors import IndexFullError, UsageError
from nearkin.index.maintenance import check_index
from nearkin.index.stores.sqlite import SqliteStore
from nearkin.service.server.http.middleware import problem_from_error
from nearkin.service.server.http.problems import PROBLEM_KINDS
from tests.index.conftest import corpus, store_of
from tests.index.processes import measure_growth, start_process

BOUND = 4_000_000
BATCH = 50


def _fill(index: nk.Index, most: int = 20_000) -> int:
    """Upserts documents until the index is full. Returns how many were accepted."""
    texts = corpus(2000, share=0.3)
    for start in range(0, most, BATCH):
        batch = [f"{texts[(start + at) % 2000]} {start}" for at in range(BATCH)]
        try:
            index.upsert_many("a", batch, [f"d{start + at}" for at in range(BATCH)])
        except IndexFullError:
            return start
    raise AssertionError("the index never was full")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_full_index_refuses_documents_and_keeps_the_others(tmp_path: Path, kind: str) -> None:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/a.db"}[kind]
    bound = {"memory": 2_000_000, "sqlite": 1_500_000}[kind]
    with nk.Index.open(url, threshold=0.7, max_memory=bound) as index:
        accepted = _fill(index)
        assert accepted > 100
        assert index.stats()["records"] == accepted
        with pytest.raises(IndexFullError, match="max_memory"):
            index.upsert_many("a", corpus(200, seed=9, share=0.0))
        assert index.query("a", f"{corpus(2000, share=0.3)[0]} 0")
        assert index.upsert("a", f"{corpus(2000, share=0.3)[0]} 0", "d0").kind in (
            "exact",
            "resolved",
        )
        assert check_index(index).sound
        for number in range(accepted // 2):
            assert index.remove("a", f"d{number}")
        assert index.upsert("a", "a new text of its own in the room of the others", "new")
        assert check_index(index).sound


def test_memory_of_an_index_stays_below_its_bound() -> None:
    with nk.Index.open("memory://", threshold=0.7) as index:
        index.upsert_many("a", corpus(200))
    tracemalloc.start()
    try:
        with nk.Index.open("memory://", threshold=0.7, max_memory=BOUND) as index:
            # buffers of comparisons are allocated here: they do not grow with the index
            for suffix in ("", " again"):
                index.upsert_many("b", [text + suffix for text in corpus(BATCH)])
            gc.collect()
            start = tracemalloc.get_traced_memory()[0]
            held = store_of(index).counts()["bytes"] + index.stats()["cached_bytes"]
            assert _fill(index) > 500
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - start
            assert held + grown <= BOUND
            assert held + grown > BOUND / 3, "the bound is not much larger than what is held"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_process_of_a_bounded_index_does_not_outgrow_the_bound(
    tmp_path: Path, kind: str
) -> None:
    """A process without the bound grows by more, with the same documents."""
    bound = 4_000_000
    grown: list[int] = []
    for limit in (bound, 0):
        url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/a{limit}.db"}[kind]
        worker = start_process(measure_growth, url, limit, 10_000)
        size, records = worker.pipe.recv()
        worker.end()
        assert (records < 10_200) == bool(limit)
        grown.append(size)
    # the allocators of Python and of the kernels keep some freed memory
    assert grown[0] < bound + 4_000_000
    assert grown[1] > 2 * bound


def test_a_full_index_is_answered_with_507() -> None:
    problem = problem_from_error(IndexFullError("full"))
    assert (problem.code, PROBLEM_KINDS[problem.code].status) == ("index-full", 507)
    # a consumer of events waits until there is room
    assert nk.ServiceError("index-full", "full", status=507).transient


def test_a_file_whose_buckets_are_larger_than_the_bound_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with nk.Index.open(f"sqlite:///{path}", threshold=0.7) as index:
        index.upsert_many("a", corpus(2000, share=0.0))
        needed = store_of(index).counts()["bucket_bytes"]
    with pytest.raises(IndexFullError, match="max_memory"):
        nk.Index.open(f"sqlite:///{path}", max_memory=needed)
    with nk.Index.open(f"sqlite:///{path}") as index:
        assert index.stats()["records"] == 2000


def test_pages_of_a_bounded_file_take_a_quarter_of_the_bound(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db", 10, max_memory=8 << 20)
    try:
        assert store._fetch_rows("PRAGMA cache_size")[0][0] == -2048
    finally:
        store.close()


def test_cached_resolutions_take_an_eighth_of_the_bound() -> None:
    settings = nk.index_types.IndexSettings(max_memory=8_000_000)
    assert (settings.max_cache_bytes, settings.max_store_memory) == (1_000_000, 7_000_000)
    with nk.Index.open("memory://", threshold=0.7, max_memory=8_000_000) as index:
        for start in range(0, 6000, 500):
            texts = [f"one of many equal texts with a number {start + n}" for n in range(500)]
            index.upsert_many("a", texts)
        assert index.stats()["cached_bytes"] <= 1_000_000


@pytest.mark.parametrize(
    ("url", "value"),
    [
        ("redis://127.0.0.1:1/0", 2_000_000),
        ("postgresql://127.0.0.1:1/x", 2_000_000),
        (["sqlite:///never1.db", "sqlite:///never2.db"], 2_000_000),
        ("memory://", 1000),
    ],
)
def test_a_bound_that_cannot_hold_is_refused(url: "str | list[str]", value: int) -> None:
    with pytest.raises(UsageError, match="max_memory"):
        nk.Index.open(url, max_memory=value)
