"""Tests of the recall that an audit reports, against sums in plain Python."""

import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearkin.engine.options import RunOptions
from nearkin.quality.evaluate.recall import (
    PairCounts,
    bin_edges,
    predict_recall,
    recall_by_similarity,
)
from nearkin.quality.evaluate.scan import ReopenedRun
from nearkin.stages.lsh.slot_bands import fixed_banding
from nearkin.stages.sketch.resources import NO_RESOURCES


@pytest.mark.parametrize("threshold", [0.01, 0.05, 0.1, 0.29, 0.5, 0.55, 0.8, 0.87, 0.95, 0.99])
def test_bins_go_from_the_threshold_to_one_in_steps_of_a_twentieth(threshold: float) -> None:
    edges = bin_edges(threshold)
    assert (edges[0], edges[-1]) == (threshold, 1.0)
    assert edges == sorted(set(edges))
    assert all(round(edge * 20, 6) == round(edge * 20) for edge in edges[1:])
    assert all(high - low <= 0.05 + 1e-9 for low, high in pairwise(edges))


def run_of(bands: int | None, options: dict[str, Any] | None = None) -> ReopenedRun:
    nothing: Any = None
    settings = RunOptions(**(options or {}))
    bandings = () if bands is None else (fixed_banding(settings.threshold, 0.9, 128, bands, 8),)
    return ReopenedRun(Path(), nothing, nothing, settings, NO_RESOURCES, bandings)


def counts_of(inclusion: list[float]) -> PairCounts:
    """Returns the pairs of three documents in two bins, the second of which is empty."""
    true = np.array([[4.0, 0], [2, 0], [0, 0]])
    found = np.array([[3.0, 0], [2, 0], [0, 0]])
    predicted = np.array([[3.6, 0], [1.8, 0], [0, 0]])
    return PairCounts(
        edges=[0.9, 0.95, 1.0],
        true=true,
        found=found,
        predicted=predicted,
        distinct_true=np.array([5, 0]),
        distinct_found=np.array([4, 0]),
        inclusion=np.array(inclusion),
    )


@pytest.mark.parametrize("inclusion", [[1.0, 1, 1], [0.5, 0.25, 0.1]])
def test_recall_weighs_documents_by_their_chance_to_be_drawn(inclusion: list[float]) -> None:
    counts = counts_of(inclusion)
    found = 3 / inclusion[0] + 2 / inclusion[1]
    true = 4 / inclusion[0] + 2 / inclusion[1]
    recall = counts.recall(slice(0, 1))
    assert recall.value == pytest.approx(found / true)
    assert (recall.hits, recall.total) == (4, 5)
    assert recall.low <= recall.value <= recall.high
    assert counts.predicted_recall(0) == pytest.approx(
        (3.6 / inclusion[0] + 1.8 / inclusion[1]) / true
    )


def test_bin_without_pairs_has_the_prediction_of_its_middle() -> None:
    run = run_of(16)
    counts = counts_of([1.0, 1, 1])
    assert math.isnan(counts.predicted_recall(1))
    first, second = recall_by_similarity(counts, run)
    assert (first.low, first.high, second.low, second.high) == (0.9, 0.95, 0.95, 1.0)
    assert first.predicted == 0.9
    assert (second.recall.hits, second.recall.total) == (0, 0)
    assert second.predicted == pytest.approx(predict_recall(0.975, run), abs=1e-6)


@pytest.mark.parametrize("options", [{}, {"verify": "estimate"}])
def test_run_that_compared_all_pairs_finds_every_pair(options: dict[str, Any]) -> None:
    assert predict_recall(0.1, run_of(None, options)) == 1.0


def test_prediction_without_verification_is_the_s_curve() -> None:
    """A pair is found if all slots of a band agree (Leskovec et al., chapter 3)."""
    run = run_of(16, {"verify": "none"})
    for similarity in (0.3, 0.6, 0.9, 1.0):
        assert predict_recall(similarity, run) == pytest.approx(1 - (1 - similarity**8) ** 16)


def test_prediction_counts_the_estimates_that_fail() -> None:
    whole, estimated = run_of(16, {"verify": "none"}), run_of(16, {"verify": "estimate"})
    assert predict_recall(0.8, estimated) < 0.6 < predict_recall(0.8, whole)


def test_hot_buckets_lower_the_prediction_by_the_pairs_that_they_do_not_yield() -> None:
    candidates: Any = SimpleNamespace(
        hot_members=10,
        count_hot_pairs=lambda size: 100,
        share_of_hot_pairs=lambda size: 0.5,
    )
    run = run_of(16)
    hot = ReopenedRun(
        run.folder, run.corpus, run.columns, run.settings, run.resources, run.bandings, candidates
    )
    lost = 0.5 * (1 - 2 * 10 / 100)
    assert predict_recall(0.9, hot) == pytest.approx(predict_recall(0.9, run) * (1 - lost))
