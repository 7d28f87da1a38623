"""Tests of the experiment about bands and rows."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearkin.cli.app import run
from nearkin.errors import UsageError
from nearkin.quality.evaluate.golden import golden_set_from_clusters, golden_set_from_pairs
from nearkin.quality.lab.experiment import (
    BANDINGS,
    LEAST_WORDS,
    BandSettings,
    GeneratedTexts,
    compare_bandings,
    find_similar_pairs,
    generate_texts,
    label_pairs,
    measure_growth,
    number_pairs,
    parse_bandings,
    run_experiment,
)
from nearkin.stages.measures import measure_of

SETTINGS = BandSettings()


def contents_of(texts: GeneratedTexts) -> pa.Array:
    return pa.array(generate_texts(texts), pa.large_string())


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_candidates_agree_with_the_published_case_study(seed: int) -> None:
    """The texts of the case study are not published, so that only magnitudes can agree."""
    result = run_experiment(GeneratedTexts(seed=seed), SETTINGS, (100,))
    found = {(row.bands, row.rows): row for row in result.rows}
    assert found[5, 20].candidates <= 10
    assert found[10, 10].candidates == pytest.approx(12, abs=20)
    assert found[20, 5].candidates == pytest.approx(775, rel=0.25)
    assert found[25, 4].candidates == pytest.approx(2187, rel=0.15)
    assert found[50, 2].candidates == pytest.approx(4947, rel=0.01)
    assert [found[banding].published for banding in BANDINGS] == [0, 12, 775, 2187, 4947]


def test_results_are_verified_exactly() -> None:
    """Estimates of 100 slots would give 20 × 5 a precision of 0.26."""
    found = {
        (row.bands, row.rows): row
        for row in compare_bandings(contents_of(GeneratedTexts()), SETTINGS).rows
    }
    assert all(row.precision == 1.0 for row in found.values())
    assert round(found[20, 5].f1, 3) == 0.964
    assert round(found[25, 4].f1, 3) == 1.0


@pytest.mark.parametrize(
    ("texts", "settings"),
    [
        (GeneratedTexts(), SETTINGS),
        (GeneratedTexts(40, 20, 15, seed=7), BandSettings(((16, 8), (40, 3)), 0.7, ("chars", 4))),
        (GeneratedTexts(30, 12, 10), BandSettings(((3, 1),), 0.3, ("words", 1))),
    ],
)
def test_scores_agree_with_counting_the_pairs(
    texts: GeneratedTexts, settings: BandSettings
) -> None:
    generated = generate_texts(texts)
    unit, n = settings.shingle
    parts = [text if unit == "chars" else text.split() for text in generated]
    sets = [{tuple(part[i : i + n]) for i in range(len(part) - n + 1)} for part in parts]
    all_pairs = list(combinations(range(texts.documents), 2))
    true = {
        (a, b)
        for a, b in all_pairs
        if len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= settings.threshold
    }
    contents = pa.array(generated, pa.large_string())
    slots = measure_of(settings.spec).sketcher().sketch(contents).signatures
    result = compare_bandings(contents, settings)
    assert result.similar_pairs == len(true)
    for row in result.rows[:-1]:
        bands = [slots[:, i * row.rows : (i + 1) * row.rows] for i in range(row.bands)]
        candidates = {
            (a, b) for a, b in all_pairs if any((band[a] == band[b]).all() for band in bands)
        }
        reported = candidates & true
        assert row.candidates == len(candidates)
        assert row.reduction == pytest.approx(1 - len(candidates) / len(all_pairs))
        assert row.candidate_precision == pytest.approx(len(reported) / len(candidates))
        assert row.precision == 1.0
        assert row.recall == pytest.approx(len(reported) / len(true))
        assert row.f1 == pytest.approx(2 * len(reported) / (len(reported) + len(true)))


def test_optimum_has_the_highest_f1() -> None:
    result = run_experiment(GeneratedTexts(), SETTINGS, (100,))
    bandings = result.rows[:-1]
    best = max(row.f1 for row in bandings)
    assert result.optimum.f1 == best
    assert result.optimum.candidates == min(row.candidates for row in bandings if row.f1 == best)
    assert result.rows[-1].candidates == 4950
    assert result.rows[-1].precision == result.rows[-1].recall == 1.0


def test_planted_pairs_are_the_similar_pairs() -> None:
    contents = contents_of(GeneratedTexts())
    assert len(contents) == 100
    assert all(len(text.split()) == 80 for text in contents.to_pylist())
    found = find_similar_pairs(contents, SETTINGS.spec, 0.5)
    planted = number_pairs(np.arange(25), np.arange(75, 100), 100)
    assert np.isin(planted, found).sum() >= 20
    assert np.isin(planted, found).sum() >= 0.8 * len(found)


def test_pairs_are_numbered_in_order() -> None:
    a, b = np.array(list(combinations(range(7), 2))).T
    assert number_pairs(a, b, 7).tolist() == list(range(21))


def test_golden_pairs_decide_what_is_similar() -> None:
    contents = contents_of(GeneratedTexts(20, 40, 5))
    ids = [f"d{i}" for i in range(20)]
    labels = label_pairs(
        golden_set_from_pairs([("d15", "d0"), ("d2", "d9"), ("d1", "d16")], [True, True, False]),
        ids,
    )
    every = compare_bandings(contents, SETTINGS, labels).rows[-1]
    # d0 and d1 have similar copies, and d2 and d9 are not similar.
    assert (every.precision, every.recall) == (0.5, 0.5)
    clusters = {**dict.fromkeys(("d0", "d15"), "x"), "d1": "y", "d16": "z"}
    closed = label_pairs(golden_set_from_clusters(clusters), ids)
    every = compare_bandings(contents, SETTINGS, closed).rows[-1]
    assert (every.precision, every.recall) == (0.5, 1.0)
    with pytest.raises(
        UsageError, match=r"1 of 2 labelled documents are not in the inputs.*'other'"
    ):
        label_pairs(golden_set_from_pairs([("d1", "other")], None), ids)


def test_growth_is_measured_and_then_projected() -> None:
    sizes = (100, 1000, 1_000_000)
    small, large, projected = measure_growth(GeneratedTexts(), SETTINGS, (20, 5), sizes)
    assert large.candidates / large.pairs == pytest.approx(small.candidates / small.pairs, rel=0.2)
    assert large.brute is not None
    assert not large.is_projected
    assert projected.is_projected
    assert projected.seconds is None
    assert projected.pairs == 499_999_500_000
    assert projected.candidates == round(projected.pairs * large.candidates / large.pairs)


def test_bandings_are_parsed() -> None:
    assert parse_bandings("5x20, 10×10,5x20") == ((5, 20), (10, 10))
    for text in ("", "5", "5x", "5x20,", "5x20;10x10", "-5x20"):
        with pytest.raises(UsageError, match="is not of the form 5x20,10x10"):
            parse_bandings(text)
    for text in ("0x5", "5x0", "64x17"):
        with pytest.raises(UsageError, match=f"'{text}' needs .* slots; .* from 1 to 1,024"):
            parse_bandings(text)


def test_generated_texts_are_checked() -> None:
    for settings in (
        {"documents": 1, "similar_pairs": 0},
        {"documents": 10_001},
        {"words": LEAST_WORDS - 1},
        {"similar_pairs": 51},
    ):
        with pytest.raises(UsageError):
            replace(GeneratedTexts(), **settings)
    shortest = GeneratedTexts(50, LEAST_WORDS, 25)
    assert len(generate_texts(shortest)) == 50


def test_lab_command_prints_results(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "bands", "--largest", "1000000"]) == 0
    printed = capfd.readouterr().out
    assert "every pair" in printed
    assert "Highest F1" in printed
    assert "499,999,500,000" in printed
    options = ("--bands-rows", "4x8,8x4", "--documents", "40", "--words", "30")
    other = ("--similar-pairs", "9", "--threshold", "0.6", "--seed", "2", "--largest", "100")
    assert run(["lab", "bands", *options, *other, "--json"]) == 0
    written = json.loads(capfd.readouterr().out)
    assert [(row["bands"], row["rows"]) for row in written["rows"]] == [(4, 8), (8, 4), (0, 0)]
    assert (written["documents"], written["k"], written["threshold"]) == (40, 32, 0.6)
    assert written["optimum"] in written["rows"]
    assert written["rows"][0]["published"] is None
    assert run(["lab", "rows"]) == 2
    assert run(["lab", "--largest", "5"]) == 2


def test_lab_command_reads_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    texts = generate_texts(GeneratedTexts(20, 40, 5))
    corpus = tmp_path / "docs.jsonl"
    lines = [json.dumps({"id": f"d{i}", "body": text}) for i, text in enumerate(texts)]
    corpus.write_text("\n".join(lines) + "\n")
    golden = tmp_path / "labels.csv"
    golden.write_text("id_a,id_b,label\nd0,d15,1\nd3,d4,0\n")
    own = ["lab", "bands", str(corpus), "--text", "body"]
    assert run([*own, "--bands-rows", "10x2", "--json"]) == 0
    written = json.loads(capfd.readouterr().out)
    assert (written["documents"], written["similar_pairs"], written["growth"]) == (20, 5, [])
    assert run([*own, "--id", "id", "--golden", str(golden)]) == 0
    printed = capfd.readouterr().out
    assert "20 documents, 1 similar pair," in printed
    assert "published" not in printed
    for options in (["--words", "9"], ["--vector", "body"]):
        assert run([*own[:3], *options]) == 2
    assert run(["lab", "bands", "--golden", str(golden)]) == 2
    assert run(["lab", "bands", str(tmp_path / "missing.jsonl")]) == 2
    corpus.write_text(lines[0] + "\n")
    assert run(own) == 2
    assert "1 documents have no pair to compare" in capfd.readouterr().err
