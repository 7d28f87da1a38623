"""Tests of the documents that an audit draws: their chances, and how often they are drawn."""

import numpy as np
import pyarrow as pa
import pytest

from nearkin.quality.evaluate.sampling import CLUSTER_SHARE, PAIRS_SHARE, SamplingFrame

KINDS = ["kept", "near", "near", "unique", "empty", "exact", "unique"]
CLUSTERS = pa.table(
    {
        "id": [f"d{number}" for number in range(7)],
        "cluster": ["d0", "d0", "d0", "d3", "d4", "d0", "d6"],
        "kind": KINDS,
    }
)
PAIRS = pa.table({"id_a": ["d0", "d0"], "id_b": ["d1", "d2"]})
NO_PAIRS = PAIRS.slice(0, 0)


def test_chances_follow_the_sizes_of_clusters_and_the_numbers_of_pairs() -> None:
    frame = SamplingFrame.create(CLUSTERS, PAIRS)
    assert frame.ordinals.tolist() == [0, 1, 2, 3, 5, 6]
    assert frame.documents == 7
    relatives = np.array([3, 3, 3, 0, 3, 0]) / 12
    pairs = np.array([2, 1, 1, 0, 0, 0]) / 4
    uniform = (1 - CLUSTER_SHARE - PAIRS_SHARE) / 6
    np.testing.assert_allclose(
        frame.chances, uniform + CLUSTER_SHARE * relatives + PAIRS_SHARE * pairs
    )
    assert frame.chances.sum() == pytest.approx(1)


def test_without_clusters_and_pairs_all_chances_are_equal() -> None:
    alone = CLUSTERS.set_column(1, "cluster", CLUSTERS["id"])
    frame = SamplingFrame.create(alone, NO_PAIRS)
    np.testing.assert_allclose(frame.chances, 1 / 6)


@pytest.mark.parametrize("table", [CLUSTERS.slice(0, 0), CLUSTERS.slice(4, 1)])
def test_nothing_is_drawn_if_no_document_can_have_pairs(table: pa.Table) -> None:
    frame = SamplingFrame.create(table, NO_PAIRS)
    drawn = frame.draw(5, 1)
    assert drawn.tolist() == []
    assert frame.inclusion(drawn).tolist() == []


def test_sample_has_each_document_once_and_is_the_beginning_of_larger_samples() -> None:
    frame = SamplingFrame(np.arange(0, 100, 2), np.linspace(1, 9, 50) / 250, 100)
    all_documents = frame.draw(1000, 7)
    assert sorted(all_documents.tolist()) == list(range(50))
    for size in (0, 1, 20, 50):
        assert frame.draw(size, 7).tolist() == all_documents[:size].tolist()
    assert frame.draw(20, 8).tolist() != all_documents[:20].tolist()


@pytest.mark.parametrize("size", [60, 150])
def test_documents_are_drawn_with_their_probabilities(size: int) -> None:
    """Compares the shares of many draws with the probabilities.

    The bound is five standard errors and the bias of sequential Poisson sampling, which is of the
    order of 1/size (Ohlsson 1998).
    """
    chances = np.repeat([1.0, 2.0, 4.0], 100) / 700
    frame = SamplingFrame(np.arange(300), chances, 300)
    trials = 1000
    counts = np.zeros(300)
    for seed in range(trials):
        counts[frame.draw(size, seed)] += 1
    inclusion = np.minimum(1, size * chances)
    np.testing.assert_allclose(frame.inclusion(np.arange(size)), inclusion[:size])
    errors = 5 * np.sqrt(inclusion * (1 - inclusion) / trials)
    assert (np.abs(counts / trials - inclusion) <= errors + 1 / size).all()


def test_probabilities_add_up_to_the_size_of_the_sample() -> None:
    chances = np.random.default_rng(1).dirichlet(np.full(30, 0.3)) + 1e-6
    frame = SamplingFrame(np.arange(30), chances / chances.sum(), 30)
    for size in range(30):
        factor = frame._scale_for(size)
        assert np.minimum(1, factor * frame.chances).sum() == pytest.approx(size)
    assert (frame.inclusion(np.arange(30)) == 1).all()
