"""Corpora made to hurt: one document or one bucket must not stop the others."""

import numpy as np
import pytest

import nearkin as nk

WORDS = nk.Spec(unit="words", n=1)


def test_one_giant_document_among_many(full: bool) -> None:
    giant = " ".join(f"u{i}" for i in range(10_000_000 if full else 500_000))
    texts = [f"a short document, number {i} of many" for i in range(6_000)]
    # the choice of settings for short texts takes longer than the run
    options = {} if full else {"threshold": 0.8}
    result = nk.dedup([*texts[:3_000], giant, *texts[3_000:]], **options)
    assert result.statistics["kept"] == 6_001
    assert bool(result.kept[3_000])


def test_copies_of_one_text_cost_no_pairs(full: bool) -> None:
    count = 1_000_000 if full else 50_000
    result = nk.dedup(["the same text again and again"] * count)
    assert result.statistics["kept"] == 1
    assert len(result.pairs) == 0


def test_empty_documents_never_match(full: bool) -> None:
    count = 1_000_000 if full else 50_000
    assert nk.dedup([""] * count).statistics["kept"] == count


def test_one_shingle_in_every_document_is_bounded_by_the_fanout(full: bool) -> None:
    """A bucket that holds everything yields as many candidates as its members have leaders, not
    all its pairs."""
    count = 60_000 if full else 8_000
    texts = [f"common a{i} b{i} c{i}" for i in range(count)]
    result = nk.dedup(texts, threshold=0.1, recall=0.5, spec=WORDS, hot_bucket_size=100, fanout=20)
    run = result._open[0].run
    facts = run.work.done("candidates")
    assert facts is not None
    assert facts["hot_buckets"] > 0
    assert facts["candidates"] <= run.banding.bands * count * 20


@pytest.mark.parametrize("cluster", ["leaders", "components"])
def test_a_long_chain_of_documents(cluster: str, full: bool) -> None:
    """Each document resembles the next ones alone.

    No removed document is less similar than the floor to the kept one.
    """
    count = 40_000 if full else 6_000
    words = [f"w{i}" for i in range(count + 60)]
    texts = [" ".join(words[i : i + 60]) for i in range(count)]
    result = nk.dedup(texts, threshold=0.8, cluster=cluster, spec=WORDS)
    assert result.statistics["kept"] < count / 5
    similarity = np.asarray(result.clusters["similarity"].to_numpy())
    assert similarity.min() >= (0.8 if cluster == "leaders" else 0.6)
