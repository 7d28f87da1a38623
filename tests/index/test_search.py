"""Tests of the search for similar documents: recall, full buckets and outdated postings."""

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.changes import Changes
from tests.index.conftest import (
    NEAR,
    TEXT,
    Opener,
    assert_integrity,
    jaccard,
    near,
    store_of,
    words,
)


def test_an_index_that_posts_all_documents_finds_every_neighbour(opened: Opener) -> None:
    rng = np.random.Generator(np.random.PCG64(9))
    base = words(rng)
    texts = [" ".join(near(base, rng, i % 3)) for i in range(8)]
    index = opened(postings="all", threshold=0.6, recall=0.999)
    outcomes = index.upsert_many("a", texts, [f"d{i}" for i in range(8)])
    assert sum(o.kind == "new" for o in outcomes) == 1
    matches = index.query("a", texts[0], top=20)
    wanted = {
        f"d{i}": jaccard(text, texts[0])
        for i, text in enumerate(texts)
        if jaccard(text, texts[0]) >= 0.6
    }
    assert {match.id: pytest.approx(match.similarity) for match in matches} == wanted
    assert [match.similarity for match in matches] == sorted(
        (match.similarity for match in matches), reverse=True
    )
    assert len(index.query("a", texts[0], top=2)) == 2
    assert_integrity(index)


def test_a_full_bucket_evicts_its_oldest_posting_and_counts_it(opened: Opener) -> None:
    rng = np.random.Generator(np.random.PCG64(4))
    shared = words(rng, 30)
    index = opened(threshold=0.95, bands=20, rows=1, bucket_capacity=5)
    for i in range(12):
        index.upsert("a", " ".join([*shared, *words(rng, 12)]), f"d{i}")
    assert index.stats()["evicted"] > 0
    names = [f"d{i}" for i in range(12)]
    texts = [entry.text for entry in index.get_many("a", names) if entry is not None]
    assert index.query("a", texts[-1])[0].id == "d11"
    batch = (
        opened(threshold=0.95, bands=20, rows=1, bucket_capacity=5)
        if index.url != "memory://"
        else index
    )
    single = [o.kind for o in batch.upsert_many("b", texts, names)]
    assert single == ["new"] * 12


def test_a_posting_of_a_document_that_left_its_buckets_is_ignored(opened: Opener) -> None:
    """Another process changes the index between the reads of the buckets and the documents."""
    index = opened()
    index.upsert("a", TEXT, "x")
    entry = index.get("a", "x")
    assert entry is not None
    store_of(index).apply(Changes(changed=[entry._replace(posted=False, signature=b"")]))
    assert index.query("a", NEAR) == []
    assert index.upsert("a", NEAR, "y").kind == "new"


def clustered_vectors(clusters: int, each: int, seed: int = 5) -> np.ndarray:
    """Returns vectors around random directions, float32 (clusters, each, 64).

    The cosine is about 0.86 to the centre, and about 0.74 to each other.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, 64))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    noise = rng.standard_normal((clusters, each, 64))
    noise /= np.linalg.norm(noise, axis=2, keepdims=True)
    return np.asarray(centres[:, None] + 0.6 * noise, np.float32)


@pytest.mark.parametrize(
    ("clusters", "most", "least"), [(20, 100, 1.00), (100, 50, 0.97), (200, 20, 0.97)]
)
def test_ranking_keeps_recall_when_buckets_overflow(clusters: int, most: int, least: float) -> None:
    """Vectors at cosine 0.5, 40 bands of 5: each of 32 buckets holds several representatives."""
    made = clustered_vectors(clusters, 6)
    spec = nk.Spec(measure="cosine", unit="vector", n=64)
    settings = {"threshold": 0.5, "bands": 40, "rows": 5, "max_candidates": most}
    with nk.Index.open("memory://", spec, **settings) as index:
        index.upsert_many("a", list(made[:, 0]), [f"c{i}" for i in range(clusters)])
        unit = made / np.linalg.norm(made, axis=2, keepdims=True)
        heads = [index.get("a", f"c{i}") for i in range(clusters)]
        leaders = [i for i, head in enumerate(heads) if head is not None and head.is_leader]
        matched, wanted = 0, 0
        for i in range(clusters):
            for j in range(1, 6):
                near = bool((unit[leaders, 0] @ unit[i, j] >= 0.5).any())
                wanted += near
                matched += near and bool(index.query("a", made[i, j]))
        assert wanted > 3 * clusters
        assert matched / wanted >= least


def test_texts_with_a_common_banner_keep_recall() -> None:
    """The common banner puts all documents into one bucket.

    The number of shared bands still ranks the right one first.
    """
    banner = " ".join(f"b{i}" for i in range(14))
    own = [" ".join(f"w{i}x{j}" for j in range(30)) for i in range(400)]
    settings = {"threshold": 0.8, "bands": 60, "rows": 2}
    recall = {}
    for most in (100, 10_000):
        with nk.Index.open("memory://", max_candidates=most, **settings) as index:
            index.upsert_many(
                "a", [f"{banner} {text}" for text in own], [f"d{i}" for i in range(400)]
            )
            sizes = store_of(index).table.sizes()
            assert sizes.max() > 100
            matches = [index.query("a", f"{banner} {text} more") for text in own]
            recall[most] = sum(bool(m) and m[0].id == f"d{i}" for i, m in enumerate(matches)) / 400
    assert recall[10_000] == 1.0
    assert recall[100] >= recall[10_000] - 0.01
