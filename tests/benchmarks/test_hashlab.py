"""Tests of the comparison of hash families."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import hash_kernels as kernels
from benchmarks.hashlab import (
    AFFINE,
    KINDS,
    PRIME,
    SHA,
    draw_trial_sets,
    main,
    measure_accuracy,
    measure_avalanche,
    measure_throughput,
    read_words,
)
from nearkin.settings.spec import FAMILIES
from nearkin.stages.sketch.minhash import SCHEMES

below = st.integers(0, PRIME - 1)


@given(below, below, below)
def test_affine_functions_do_not_wrap_around(a: int, x: int, b: int) -> None:
    assert int(kernels.affine_61(np.uint64(a), np.uint64(x), np.uint64(b))) == (a * x + b) % PRIME


def test_minima_of_affine_functions_match_python() -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(0, PRIME, 50, np.uint64)
    a = rng.integers(0, PRIME, 7, np.uint64)
    b = rng.integers(0, PRIME, 7, np.uint64)
    out = np.empty(7, np.uint64)
    kernels.affine_minhash(values, a, b, out)
    assert out.tolist() == [
        min((m * x + s) % PRIME for x in values.tolist())
        for m, s in zip(a.tolist(), b.tolist(), strict=True)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_generated_sets_have_the_planned_similarity(kind: str) -> None:
    a, b, similarity = draw_trial_sets(kind, 3, read_words())
    assert len(set(a) & set(b)) / len(set(a) | set(b)) == similarity


def test_strong_families_match_random_hashing_and_affine_ones_do_not(full: bool) -> None:
    rows = list(measure_accuracy(400 if full else 60))
    assert {(row.family, row.scheme) for row in rows} == {
        *((family, scheme) for family in (*FAMILIES, SHA) for scheme in SCHEMES),
        (AFFINE, "classic"),
    }
    for row in rows:
        if row.family != AFFINE:
            assert abs(row.bias) < 5 * row.bias_error, row
            assert row.variance < 1.8, row
    structured = [row for row in rows if row.family == AFFINE and row.sets != "words"]
    assert all(row.bias < -8 * row.bias_error for row in structured)


def test_avalanche_detects_weak_mixing() -> None:
    found = {row.family: row for row in measure_avalanche(500)}
    for family in ("xxh3", "murmur3", "siphash", SHA):
        assert abs(found[family].mean - 0.5) < 0.01
        assert found[family].worst < 0.12
    assert found["fnv1a"].worst > 0.4
    assert found[AFFINE].worst > 0.3


def test_throughput_is_measured_for_every_family() -> None:
    rates = {row.family: row for row in measure_throughput(2)}
    assert set(rates) == {*FAMILIES, SHA, AFFINE}
    assert all(row.words > 0 for row in rates.values())


def test_comparison_is_printed_as_tables_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--trials", "3", "--samples", "20", "--runs", "2"]
    main([*few, "--json"])
    assert set(json.loads(capsys.readouterr().out)) == {"throughput", "accuracy", "avalanche"}
    main(few)
    assert "Avalanche" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--trials", "1"])
