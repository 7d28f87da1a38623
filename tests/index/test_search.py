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


def test_a_full_bucket_leaves_out_its_newest_postings_and_counts_them(opened: Opener) -> None:
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


def test_texts_with_a_common_banner_keep_recall(full: bool) -> None:
    """The common banner puts all documents into one bucket.

    The number of shared bands still ranks the right one first.
    """
    count = 400 if full else 200
    banner = " ".join(f"b{i}" for i in range(14))
    own = [" ".join(f"w{i}x{j}" for j in range(30)) for i in range(count)]
    settings = {"threshold": 0.8, "bands": 60, "rows": 2}
    recall = {}
    for most in (100, 10_000):
        with nk.Index.open("memory://", max_candidates=most, **settings) as index:
            index.upsert_many(
                "a", [f"{banner} {text}" for text in own], [f"d{i}" for i in range(count)]
            )
            sizes = store_of(index).table.sizes()
            assert sizes.max() > 100
            matches = [index.query("a", f"{banner} {text} more") for text in own]
            recall[most] = (
                sum(bool(m) and m[0].id == f"d{i}" for i, m in enumerate(matches)) / count
            )
    assert recall[10_000] == 1.0
    assert recall[100] >= recall[10_000] - 0.01


def edited(base: list[str], rng: np.random.Generator, count: int) -> list[str]:
    """Returns words of which some at random positions are replaced by random ones."""
    made = list(base)
    for place, word in zip(rng.permutation(len(base))[:count], words(rng, count), strict=True):
        made[place] = word
    return made


@pytest.mark.promise("Variants that share bands by chance do not hide a true duplicate.")
@pytest.mark.parametrize("in_batch", [False, True])
def test_documents_that_share_bands_by_chance_do_not_hide_a_true_duplicate(in_batch: bool) -> None:
    """Variants of a copy, too different to match it, share as many bands with it as its source."""
    rng = np.random.Generator(np.random.PCG64(17))
    with nk.Index.open(
        "memory://", nk.Spec(n=1), threshold=0.8, recall=0.999, max_candidates=4
    ) as index:
        found = 0
        for i in range(6):
            source = words(rng, 100)
            copy = edited(source, rng, 9)
            flood = [" ".join(edited(copy, rng, 18)) for _ in range(60)]
            texts = [*flood, " ".join(source)]
            names = [*(f"v{j}" for j in range(60)), "source"]
            scope = f"s{i}"
            if in_batch:
                outcome = index.upsert_many(scope, [*texts, " ".join(copy)], [*names, "copy"])[-1]
            else:
                index.upsert_many(scope, texts, names)
                outcome = index.upsert(scope, " ".join(copy), "copy")
                matches = index.query(scope, " ".join(copy))
                assert [match.id for match in matches if match.id == "source"] == ["source"]
            found += outcome.representative == "source"
        assert found == 6


@pytest.mark.promise("Variants that nearly match a copy do not hide its source.")
@pytest.mark.parametrize("in_batch", [False, True])
def test_variants_that_nearly_match_do_not_hide_a_true_duplicate(in_batch: bool) -> None:
    """The estimates of variants just below the threshold are often above that of the source."""
    rng = np.random.Generator(np.random.PCG64(20))
    with nk.Index.open(
        "memory://", nk.Spec(n=1), threshold=0.8, recall=0.999, max_candidates=4
    ) as index:
        for i in range(6):
            source = words(rng, 100)
            copy = edited(source, rng, 11)
            variants = [" ".join(edited(copy, rng, 12)) for _ in range(60)]
            texts = [*variants, " ".join(source)]
            names = [*(f"v{j}" for j in range(60)), "source"]
            scope = f"s{i}"
            if in_batch:
                outcome = index.upsert_many(scope, [*texts, " ".join(copy)], [*names, "copy"])[-1]
            else:
                index.upsert_many(scope, texts, names)
                outcome = index.upsert(scope, " ".join(copy), "copy")
            assert outcome.representative == "source"
            assert outcome.candidates <= 20 * 4


@pytest.mark.promise("Searches that leave out candidates among equal ones are counted.")
def test_a_cut_among_equal_candidates_is_counted() -> None:
    rng = np.random.Generator(np.random.PCG64(18))
    base = words(rng, 40)
    with nk.Index.open("memory://", threshold=0.95, bands=40, rows=1, max_candidates=1) as index:
        texts = [" ".join(edited(base, rng, 12)) for _ in range(60)]
        index.upsert_many("a", texts, [f"d{i}" for i in range(60)])
        before = index.search_stats.ties
        index.query("a", " ".join(base))
        assert index.search_stats.ties == before + 1


def test_a_batch_decides_as_single_documents_do_if_candidates_are_cut() -> None:
    rng = np.random.Generator(np.random.PCG64(19))
    base = words(rng, 60)
    texts = [" ".join(edited(base, rng, 3 + i % 12)) for i in range(120)]
    names = [f"d{i}" for i in range(120)]
    settings = {"threshold": 0.75, "bands": 30, "rows": 2, "max_candidates": 1}
    with nk.Index.open("memory://", nk.Spec(n=1), **settings) as index:
        batch = index.upsert_many("a", texts[:60], names[:60])
        batch += index.upsert_many("a", texts[60:], names[60:])
        single = [index.upsert("b", text, id) for text, id in zip(texts, names, strict=True)]
    for one, other in zip(batch, single, strict=True):
        assert (one.representative, one.candidates) == (other.representative, other.candidates)
    assert len({one.representative for one in single}) > 20
    # one at a time, until one is similar
    assert min(one.candidates for one in single if one.kind == "match") == 1
    assert 1 < max(one.candidates for one in single) <= 20
