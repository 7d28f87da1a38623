"""Statistics of searches: sliding windows, all candidates, and probes left out."""

import random
from pathlib import Path

import numpy as np

from nearkin.index.entry import Postings
from nearkin.index.index import Index
from nearkin.index.stats import SearchStats, uncounted_searches


def read_buckets(stats: SearchStats, sizes: list[int]) -> None:
    """Records a search that read buckets of some sizes."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    postings = Postings(np.zeros(offsets[-1], np.int64), offsets)
    stats.record_buckets(np.arange(len(sizes), dtype=np.uint64), postings, np.array(sizes))


def test_bucket_sizes_are_exact_and_not_capped() -> None:
    stats = SearchStats()
    sizes = [random.Random(1).randrange(1, 50_000) for _ in range(1000)]
    read_buckets(stats, sizes)
    assert stats.recent_counts().metrics().bucket_size_p99 == int(
        np.quantile(sizes, 0.99, method="inverted_cdf")
    )
    assert stats.recent_counts().metrics().bucket_size_max == max(sizes)


def test_uncounted_searches_change_no_metric() -> None:
    with Index.open("memory://", threshold=0.8) as index:
        index.upsert("shop", "the cat sat on the mat and looked at the dog")
        before = (index.metrics(), index.search_stats.recent_counts())
        with uncounted_searches():
            for number in range(60):
                index.upsert("shop", f"something else that is number {number} of its kind")
                index.query("shop", "the cat sat on the mat and looked at the dog")
        after = (index.metrics(), index.search_stats.recent_counts())
        assert after[1] == before[1]
        assert after[0].bucket_size_p99 == before[0].bucket_size_p99


def test_recent_counts_forget_what_total_counts_keep() -> None:
    now = [0.0]
    stats = SearchStats(lambda: now[0])
    slots = np.zeros((0, 4), np.uint32)
    stats.record_batch(documents=10, candidates=1000, slots=slots, seconds=10.0)
    now[0] = 3600.0
    stats.record_batch(documents=10, candidates=20, slots=slots, seconds=0.001)
    recent = stats.recent_counts().metrics()
    assert recent.candidate_pairs_per_doc == 2.0
    assert stats.metrics().candidate_pairs_per_doc == 51.0
    assert recent.signature_build_latency_p99 is not None
    assert recent.signature_build_latency_p99 < 0.001


def test_verify_drop_rate_counts_candidates_that_fail_the_estimate() -> None:
    rng = random.Random(1)
    shared = [f"shared{i}" for i in range(30)]
    with Index.open("memory://", threshold=0.9, bands=20, rows=1) as index:
        # no two of these resemble each other
        for _ in range(50):
            own = [f"own{rng.randrange(10**9)}" for _ in range(30)]
            index.upsert("shop", " ".join(shared + own))
        counts = index.search_stats.recent_counts()
    assert counts.estimated > 500
    assert counts.compared < counts.estimated / 10
    assert counts.metrics().verify_drop_rate == 1.0


def test_drop_rates_agree_with_counting() -> None:
    stats = SearchStats()
    stats.record_comparisons(estimated=100, compared=20, reached=5)
    counts = stats.recent_counts()
    assert counts.metrics().verify_drop_rate == 0.95
    assert counts.exact_drop_rate == 0.75


def test_memory_of_sqlite_is_that_of_buckets_and_cache_and_not_the_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'index.db'}"
    with Index.open(url, threshold=0.8) as index:
        for number in range(200):
            index.upsert("shop", f"a text that is number {number} " * 50)
        counts = index.counts()
        stats = index.stats()
        memory = index.memory_bytes(counts)
        assert memory == counts["bucket_bytes"] + stats["cached_bytes"]
        assert memory != counts["bytes"]
        assert index.metrics().index_memory_bytes == memory


def test_memory_of_memory_store_includes_documents() -> None:
    with Index.open("memory://", threshold=0.8) as index:
        before = index.memory_bytes(index.counts())
        for number in range(100):
            index.upsert("shop", f"{number} " + "x" * 10_000)
        assert index.memory_bytes(index.counts()) - before > 100 * 10_000
