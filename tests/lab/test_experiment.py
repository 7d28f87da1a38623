"""Tests of the experiment about bands and rows."""

import json
from itertools import combinations

import pyarrow as pa
import pytest

from nearkin.cli.app import run
from nearkin.lab.experiment import (
    BANDINGS,
    DOCUMENTS,
    PLANTED,
    SPEC,
    compare_bandings,
    find_true_pairs,
    generate_texts,
    measure_growth,
    run_experiment,
)
from nearkin.measures import measure_of
from nearkin.packed_pairs import unpack_pairs


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_candidates_agree_with_the_published_case_study(seed: int) -> None:
    """The texts of the case study are not published, so that only magnitudes can agree."""
    found = {(row.bands, row.rows): row for row in compare_bandings(seed)}
    assert found[5, 20].candidates <= 10
    assert found[10, 10].candidates == pytest.approx(12, abs=20)
    assert found[20, 5].candidates == pytest.approx(775, rel=0.25)
    assert found[25, 4].candidates == pytest.approx(2187, rel=0.15)
    assert found[50, 2].candidates == pytest.approx(4947, rel=0.01)
    assert [found[banding].published for banding in BANDINGS] == [0, 12, 775, 2187, 4947]


def test_scores_agree_with_counting_the_pairs() -> None:
    """Precision, recall and F1 are those of the candidates whose estimates reach the threshold."""
    texts = generate_texts(DOCUMENTS, PLANTED, 1)
    sets = [{text[i : i + 3] for i in range(len(text) - 2)} for text in texts]
    all_pairs = list(combinations(range(DOCUMENTS), 2))
    true = {(a, b) for a, b in all_pairs if 2 * len(sets[a] & sets[b]) >= len(sets[a] | sets[b])}
    slots = measure_of(SPEC).sketcher().sketch(pa.array(texts, pa.large_string())).signatures
    for row in compare_bandings(1)[:-1]:
        bands = [slots[:, i * row.rows : (i + 1) * row.rows] for i in range(row.bands)]
        candidates = {
            (a, b) for a, b in all_pairs if any((band[a] == band[b]).all() for band in bands)
        }
        reported = {(a, b) for a, b in candidates if 2 * (slots[a] == slots[b]).sum() >= SPEC.k}
        assert row.candidates == len(candidates)
        assert row.reduction == pytest.approx(1 - len(candidates) / 4950)
        assert row.candidate_precision == pytest.approx(len(candidates & true) / len(candidates))
        assert row.precision == pytest.approx(len(reported & true) / len(reported))
        assert row.recall == pytest.approx(len(reported & true) / len(true))
        assert row.f1 == pytest.approx(2 * len(reported & true) / (len(reported) + len(true)))


def test_optimum_has_the_highest_f1() -> None:
    rows = run_experiment((100,), 1)
    bandings = rows.rows[:-1]
    assert rows.optimum.f1 == max(row.f1 for row in bandings)
    assert (rows.optimum.bands, rows.optimum.rows) in ((10, 10), (20, 5))
    assert rows.rows[-1].candidates == 4950
    assert rows.rows[-1].precision == rows.rows[-1].recall == 1.0


def test_planted_pairs_are_the_similar_pairs() -> None:
    texts = generate_texts(100, 25, 1)
    assert len(texts) == 100
    assert all(len(text.split()) == 80 for text in texts)
    first, second = unpack_pairs(find_true_pairs(texts, 0.5))
    planted = (second - first == 75).sum()
    assert planted >= 20
    assert planted >= 0.8 * len(first)


def test_growth_is_measured_and_then_projected() -> None:
    small, large, projected = measure_growth((100, 1000, 1_000_000))
    assert large.candidates / large.pairs == pytest.approx(small.candidates / small.pairs, rel=0.2)
    assert large.brute is not None
    assert not large.is_projected
    assert projected.is_projected
    assert projected.seconds is None
    assert projected.pairs == 499_999_500_000
    assert projected.candidates == round(projected.pairs * large.candidates / large.pairs)


def test_experiment_command_prints_results(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "bands", "--largest", "1000"]) == 0
    printed = capfd.readouterr().out
    assert "every pair" in printed
    assert "Highest F1" in printed
    assert run(["experiment", "bands", "--largest", "100", "--json"]) == 0
    written = json.loads(capfd.readouterr().out)
    assert len(written["rows"]) == 6
    assert written["optimum"] in written["rows"]
    assert run(["experiment", "bands", "--largest", "1000000"]) == 0
    assert "499,999,500,000" in capfd.readouterr().out
    assert run(["experiment", "rows"]) == 2
    assert run(["experiment", "--largest", "5"]) == 2
    assert run_experiment((100,), 2).rows != run_experiment((100,), 1).rows
