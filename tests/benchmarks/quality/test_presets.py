"""Tests of the presets over sets whose true clusters are known."""

from typing import Any

import numpy as np
import pytest

from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.nearkin_runs import run_dedup
from benchmarks.quality.scores import score_clusters, score_kept
from benchmarks.quality.sets import Places, make_set
from nearkin.runs.settings_file import Settings

FEWEST_LICENCES = 100
"""The number of licences from which one lost licence is at most 1 %."""


def make_releases() -> LabelledSet:
    releases = make_set("press releases", Places(), 0.4)
    assert releases is not None
    return releases


def run_preset(labelled: LabelledSet, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the cluster of each document, and whether it is kept."""
    settings: dict[str, Any] = dict(Settings.of_preset(name).values)
    clustering = run_dedup(labelled, settings)
    return clustering.labels, clustering.kept


def test_web_keeps_a_document_of_each_press_release() -> None:
    releases = make_releases()
    _, kept = run_preset(releases, "web")
    assert score_kept(releases.clusters, kept).lost == 0


def test_articles_removes_revised_press_releases() -> None:
    releases = make_releases()
    labels, kept = run_preset(releases, "articles")
    assert score_clusters(releases.clusters, labels).f1 >= 0.95
    assert score_kept(releases.clusters, kept).removed >= 0.95


@pytest.mark.full
def test_web_keeps_a_document_of_each_licence_and_removes_most_copies() -> None:
    licences = make_set("licence texts", Places())
    if licences is None or len(np.unique(licences.clusters)) < FEWEST_LICENCES:
        pytest.skip("this machine has too few licence texts")
    _, kept = run_preset(licences, "web")
    scores = score_kept(licences.clusters, kept)
    assert scores.lost <= 0.01
    assert scores.removed >= 0.6
