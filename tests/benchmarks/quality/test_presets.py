"""Tests of the presets over sets whose true clusters are known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.nearkin_runs import run_dedup
from benchmarks.quality.scores import score_clusters, score_kept
from benchmarks.quality.sets import Places, make_set
from benchmarks.quality.tables import RECORD, QualityRecord, SetRecord
from nearkin.engine.settings_file import PRESETS, Settings

PAGE = Path(__file__).parents[3] / "docs/contributing/measured-presets.md"
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


def list_f1(sets: list[SetRecord], method: str) -> str:
    """Returns the F1 of a method over some sets, as the page writes it."""
    scores = [labelled["methods"][method]["scores"] for labelled in sets]
    return ", ".join(f"{one['f1']:.2f}" for one in scores if one is not None)


@pytest.mark.parametrize("preset", PRESETS)
def test_page_of_presets_has_the_measured_f1(preset: str) -> None:
    record: QualityRecord = json.loads(RECORD.read_text("utf-8"))
    sets = [labelled for labelled in record["sets"] if labelled["kind"] == preset]
    lines = PAGE.read_text("utf-8").splitlines()
    row = next(line for line in lines if line.startswith(f"| `{preset}` |"))
    assert row.endswith(f"| {list_f1(sets, 'preset')} | {list_f1(sets, 'default')} |")
