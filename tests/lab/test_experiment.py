"""Tests of the experiment about bands and rows."""

import json

import pytest

from nearkin.cli.app import run
from nearkin.lab.experiment import (
    BANDINGS,
    compare_bandings,
    find_true_pairs,
    generate_texts,
    measure_growth,
    run_experiment,
)


def test_table_agrees_with_published_figures() -> None:
    found = compare_bandings()
    assert [(row.bands, row.rows) for row in found] == [*BANDINGS, (0, 0)]
    recalls = [row.recall for row in found]
    assert recalls == sorted(recalls)
    assert recalls[0] < 0.2
    assert recalls[-2] == recalls[-1] == 1.0
    assert all(row.precision == 1.0 for row in found)
    assert [row.candidates for row in found] == sorted(row.candidates for row in found)
    assert found[-1].candidates == 4950
    assert found[2].threshold == pytest.approx(0.549, abs=1e-3)
    for row in found:
        assert row.reduction == pytest.approx(1 - row.candidates / 4950)


def test_planted_pairs_are_the_similar_pairs() -> None:
    texts = generate_texts(100, 25, 1)
    assert len(texts) == 100
    assert all(len(text.split()) == 80 for text in texts)
    pairs = find_true_pairs(texts, 0.5)
    assert pairs <= {(i, 75 + i) for i in range(25)}
    assert len(pairs) >= 20


def test_growth_follows_the_similar_pairs() -> None:
    small, large = measure_growth((100, 1000))
    assert large.pairs > 100 * small.pairs
    assert large.candidates < 20 * small.candidates
    assert large.brute is not None


def test_experiment_command_prints_results(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "bands", "--largest", "1000"]) == 0
    assert "every pair" in capfd.readouterr().out
    assert run(["experiment", "bands", "--largest", "100", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["rows"]) == 6
    assert run(["experiment", "rows"]) == 2
    assert run(["experiment", "--largest", "5"]) == 2
    assert run_experiment((100,), 2).rows != run_experiment((100,), 1).rows
