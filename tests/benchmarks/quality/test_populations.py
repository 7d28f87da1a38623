"""Tests of the generated populations: their truth, their fields, and that a seed decides them."""

import numpy as np
import pytest

from benchmarks.quality.populations.population import POPULATIONS, make_population
from nearkin.engine.settings_file import PRESETS

ROWS = 600
WITH_OTHER_SHARES = {"log lines", "dense people"}


@pytest.mark.parametrize("name", POPULATIONS)
def test_a_population_is_decided_by_its_seed_and_number_of_rows(name: str) -> None:
    population = make_population(name, ROWS, seed=1)
    again = make_population(name, ROWS, seed=1)
    other = make_population(name, ROWS, seed=2)
    assert len(population.clusters) == ROWS
    assert population.documents.equals(again.documents)
    assert population.clusters.tolist() == again.clusters.tolist()
    assert population.texts != other.texts
    assert min(map(len, population.texts)) > 0


@pytest.mark.parametrize("name", POPULATIONS)
def test_rows_have_columns_that_form_their_text(name: str) -> None:
    population = make_population(name, 50, seed=1)
    for row in population.documents.to_pylist():
        values = [row[field] for field in population.fields]
        assert row["text"] == " ".join(value for value in values if value)


@pytest.mark.parametrize("name", sorted(set(POPULATIONS) - WITH_OTHER_SHARES))
def test_a_tenth_of_the_rows_are_copies(name: str) -> None:
    population = make_population(name, 2_000, seed=1)
    sizes = np.bincount(population.clusters)
    assert 0.07 < 1 - len(sizes) / 2_000 < 0.13
    assert sizes.max() <= 3


def test_originals_are_distinct_and_copies_differ_from_them() -> None:
    population = make_population("customers", 2_000, seed=1)
    clusters = dict(zip(population.texts, population.clusters.tolist(), strict=True))
    same = [
        text
        for text, cluster in zip(population.texts, population.clusters.tolist(), strict=True)
        if clusters[text] != cluster
    ]
    assert same == []
    assert len(clusters) > 1_950


def test_people_live_in_households_and_companies_have_branches() -> None:
    people = make_population("people", ROWS, seed=1)
    homes = {(row["surname"], row["street"]) for row in people.documents.to_pylist()}
    assert len(homes) < 0.85 * ROWS
    companies = make_population("companies", ROWS, seed=1)
    assert len(set(companies.documents["name"].to_pylist())) < 0.85 * ROWS


def test_log_lines_are_duplicates_of_their_template() -> None:
    lines = make_population("log lines", ROWS, seed=1)
    assert len(np.unique(lines.clusters)) < ROWS / 2


def test_every_preset_has_a_population() -> None:
    assert {population.kind for population in POPULATIONS.values()} == set(PRESETS)
