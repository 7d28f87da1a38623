"""Tests of operating points."""

import errno
import json
import math
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from nearkin.cli.app import run
from nearkin.corpus import Columns, FileCorpus, TableCorpus
from nearkin.corpus.arrow_conversion import to_table
from nearkin.engine.settings_file import Settings
from nearkin.errors import UsageError
from nearkin.quality.plan.distribution import Distribution
from nearkin.quality.plan.observe import observe_corpus
from nearkin.quality.plan.tune import OperatingPoint, evaluate_point, tune
from nearkin.settings.spec import MEASURES, Spec
from nearkin.stages.lsh.curve import candidate_probability
from nearkin.stages.lsh.solve import find_similarity
from nearkin.stages.measures import measure_of
from tests.quality.plan.unrelated_texts import measured_share

NOBODY = Distribution.assumed(2)


def point(bands: int, rows: int, threshold: float = 0.5, k: int = 1024) -> OperatingPoint:
    return evaluate_point(measure_of(Spec(k=k)), threshold, bands, rows, distribution=NOBODY)


def test_points_agree_with_published_values() -> None:
    assert round(point(42, 3, 0.5).recall, 3) == 0.996
    assert round(point(42, 3, 0.05).recall, 3) == 0.005
    assert [round(point(b, r).classic_threshold, 3) for b, r in ((20, 5), (16, 8), (8, 16))] == [
        0.549,
        0.707,
        0.878,
    ]
    assert [round(point(b, 5).similarities[1], 3) for b in (20, 40)] == [0.509, 0.444]


@pytest.mark.parametrize(("bands", "rows"), [(20, 5), (50, 10), (13, 7), (100, 6)])
def test_probability_and_slope_at_the_classic_threshold(bands: int, rows: int) -> None:
    operating_point = point(bands, rows)
    s = operating_point.classic_threshold
    assert candidate_probability(s, bands, rows) == pytest.approx(1 - 1 / math.e, abs=0.015)
    slope = (
        candidate_probability(s + 1e-6, bands, rows) - candidate_probability(s - 1e-6, bands, rows)
    ) / 2e-6
    assert slope == pytest.approx(rows / (math.e * s), rel=0.05)
    assert operating_point.slope >= slope - 1e-3


def test_doubling_rows_and_squaring_bands_keeps_the_threshold_and_halves_the_width() -> None:
    once, twice = point(9, 4), point(81, 8)
    assert once.classic_threshold == pytest.approx(twice.classic_threshold)
    widths = [1 / found.slope for found in (once, twice)]
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.1)


def test_search_finds_42_by_3_or_better() -> None:
    tuning = tune(0.5, 0.99, at_most={0.05: 0.006})
    best = tuning.best
    assert best.recall >= 0.99
    assert candidate_probability(0.05, best.bands, best.rows) <= 0.006
    assert (
        best.candidates
        <= evaluate_point(
            measure_of(Spec()), 0.5, 42, 3, distribution=tuning.distribution
        ).candidates
    )


def test_fingerprints_have_nothing_to_tune() -> None:
    with pytest.raises(UsageError, match="every pair within the distance is found"):
        tune(0.95, spec=Spec(measure="hamming", unit="fingerprint", n=64, k=64))


@pytest.mark.parametrize("measure", sorted(set(MEASURES) - {"hamming"}))
def test_every_measure_is_tuned(measure: str) -> None:
    spec = (
        Spec(measure="cosine", unit="vector", n=8) if measure == "cosine" else Spec(measure=measure)
    )
    tuning = tune(0.95, 0.9, spec=spec, documents=100_000)
    assert all(one.recall >= 0.9 for one in tuning.points)
    assert [one.candidates for one in tuning.points] == sorted(
        one.candidates for one in tuning.points
    )
    grid = np.linspace(0, 1, 50)
    curve = tuning.curve(tuning.best, grid)
    assert (np.diff(curve) >= -1e-12).all()
    _, middle, high = tuning.best.similarities
    assert not middle > high
    assert tuning.curve(tuning.best, np.array([middle]))[0] == pytest.approx(0.5, abs=1e-6)


def test_tables_and_probes_are_tuned() -> None:
    tuning = tune(0.8, 0.99, tables=(1, 2), probes=(0, 3))
    kinds = {(one.tables, one.probes > 0) for one in tuning.points}
    assert kinds == {(1, False), (2, False), (1, True), (2, True)}
    for one in tuning.points:
        assert one.bands % one.tables == 0
        assert one.keys == one.bands * (1 + one.probes)


def test_budget_limits_the_signature() -> None:
    assert tune(budget=300).spec.k == 75
    assert tune(spec=Spec(slot_bits=1), budget=16).spec.k == 128
    assert tune(0.9, 0.5, budget=8).spec.k == 2
    with pytest.raises(UsageError, match="give at least 4 bytes"):
        tune(budget=3)
    with pytest.raises(UsageError, match="give at least 1 bytes"):
        tune(spec=Spec(slot_bits=4), budget=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"documents": 0}, "documents=0 is out of range"),
        ({"documents": float("nan")}, "documents=nan is not a number"),
        ({"tables": []}, r"`tables` \[\] must be numbers of at least 1"),
        ({"tables": [0], "bands": 20, "rows": 5}, r"`tables` \[0\] must be"),
        ({"probes": [-1]}, r"`probes` \[-1\] must be numbers of at least 0"),
        ({"at_most": {2.0: 0.5}}, "the limit 2:0.5 is not a similarity"),
        ({"at_most": {0.5: float("nan")}}, "the limit 0.5:nan is not"),
        ({"bands": 0, "rows": 5}, "bands=0 and rows=5 must both be at least 1"),
    ],
)
def test_arguments_out_of_range_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tune(**wrong)


def test_unreachable_or_invalid_requests_are_rejected() -> None:
    with pytest.raises(UsageError, match="out of reach with signatures of length 8"):
        tune(0.1, 0.99, spec=Spec(k=8))
    with pytest.raises(UsageError, match=r"at most \{0.7: 0.001\}"):
        tune(0.8, 0.95, at_most={0.7: 0.001})
    with pytest.raises(UsageError, match="threshold=0 is out of range"):
        tune(0)
    with pytest.raises(UsageError, match="recall=1 is out of range"):
        tune(0.8, 1)


def test_find_similarity_inverts_the_curve() -> None:
    assert math.isnan(find_similarity(lambda s: 0.4 + s / 10, 0.3))
    assert math.isnan(find_similarity(lambda s: s / 10, 0.3))
    assert find_similarity(lambda s: s, 0.25) == pytest.approx(0.25)


def texts(count: int) -> list[str]:
    rng = np.random.default_rng(2)
    out = [" ".join(f"w{x}" for x in rng.integers(0, 60, 50)) for _ in range(count // 2)]
    return out + [text + " more words here" for text in out]


def test_sampled_corpus_decides_the_expected_candidates() -> None:
    corpus, measure = TableCorpus(to_table(texts(400))), measure_of(Spec(n=1))
    observed = observe_corpus(corpus, Columns(), measure, sample=1000)
    assert observed.documents == 400
    assert observed.pairs.sum() == pytest.approx(399)
    assert 0.9 < observed.pairs[observed.similarities > 0.85].sum() < 1.1
    smaller = observe_corpus(corpus, Columns(), measure, sample=100)
    assert smaller.pairs.sum() == pytest.approx(399)
    again = observe_corpus(corpus, Columns(), measure, sample=100)
    assert (smaller.pairs == again.pairs).all()
    best = tune(0.9, 0.9, spec=Spec(n=1), distribution=observed).best
    assert best.candidates >= 0.8
    with pytest.raises(UsageError, match="1 documents have no pair to compare"):
        observe_corpus(TableCorpus(to_table(["alone"])), Columns(), measure)


def test_exact_duplicates_are_folded_before_candidates_are_counted() -> None:
    """A run compares one document of each group, so copies must not count as candidates."""
    measure = measure_of(Spec(n=1))
    distinct = texts(100)
    copied = [*distinct, *(text.upper() for text in distinct[:10] for _ in range(40))]

    def observe(corpus: list[str], sample: int, seed: int = 1) -> Distribution:
        return observe_corpus(
            TableCorpus(to_table(corpus)), Columns(), measure, sample=sample, seed=seed
        )

    whole, folded = observe(distinct, 1000), observe(copied, 1000)
    assert folded.documents == 500
    assert folded.pairs == pytest.approx(whole.pairs)
    assert "400 exact duplicates folded" in folded.source
    similar = whole.similarities > 0.85
    drawn = [observe(copied, 60, seed).pairs[similar].sum() for seed in range(60)]
    standard_error = np.std(drawn, ddof=1) / math.sqrt(len(drawn))
    assert abs(np.mean(drawn) - whole.pairs[similar].sum()) < 4 * standard_error


def test_tune_command_prints_and_draws_points(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["tune", "--threshold", "0.8", "--json"]) == 0
    output = json.loads(capfd.readouterr().out)
    assert output["points"][0]["bands"] * output["points"][0]["rows"] <= 128
    assert (
        run(["tune", "--threshold", "0.7", "--plot", str(tmp_path / "a.svg"), "--probes", "0,2"])
        == 0
    )
    shown = capfd.readouterr().out
    assert "100 %" in shown
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert run(["tune", "--plot", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "docs.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts(200))
    )
    capfd.readouterr()
    assert run(["tune", str(tmp_path / "docs.jsonl"), "--shingle", "words:1", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["documents"] == 200
    assert (
        run(
            ["tune", "--measure", "cosine", "--threshold", "0.9", "--documents", "100000", "--json"]
        )
        == 0
    )
    for wrong in (
        ["--plot", "a.pdf"],
        ["--at-most", "x"],
        ["--tables", "a"],
        ["--budget", "1"],
        ["--threshold", "2"],
    ):
        assert run(["tune", *wrong]) == 2
        assert "Traceback" not in capfd.readouterr().err


def test_previous_picture_stays_if_the_disk_is_full(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(figure: Figure, file: IO[bytes], **_: object) -> None:
        file.write(b"<svg")
        raise OSError(errno.ENOSPC, "No space left on device")

    picture = tmp_path / "a.svg"
    picture.write_text("<svg></svg>")
    monkeypatch.setattr(Figure, "savefig", fail)
    assert run(["tune", "--plot", str(picture)]) == 1
    assert f"cannot write in {tmp_path}: No space left" in capfd.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["<svg></svg>"]


@pytest.mark.parametrize(("bands", "rows"), [(20, 5), (42, 3), (50, 4), (16, 8)])
def test_given_bands_and_rows_are_evaluated(bands: int, rows: int) -> None:
    tuning = tune(0.5, bands=bands, rows=rows, documents=1000)
    assert len(tuning.points) == 1
    assert tuning.is_given
    point = tuning.best
    assert (point.bands, point.rows, point.keys) == (bands, rows, bands)
    assert tuning.spec.k == max(128, bands * rows)
    for probability, similarity in zip((0.001, 0.5, 0.99), point.similarities, strict=True):
        exact = (1 - (1 - probability) ** (1 / bands)) ** (1 / rows)
        assert similarity == pytest.approx(exact, abs=1e-9)
    assert point.recall == pytest.approx(1 - (1 - 0.5**rows) ** bands)
    assert point.candidates == pytest.approx(999 * measured_share(bands, rows), rel=0.02)


def test_given_bands_with_tables_and_probes_are_each_evaluated() -> None:
    tuning = tune(0.8, bands=10, rows=4, tables=(1, 2), probes=(0, 3))
    choices = {(point.bands, point.tables, point.probes) for point in tuning.points}
    assert choices == {(10, 1, 0), (10, 1, 3), (20, 2, 0), (20, 2, 3)}
    assert {point.bands_of_table for point in tuning.points} == {10}
    assert "10 bands of 4 rows in each of 2 tables" in repr(tune(0.8, bands=10, rows=4, tables=[2]))
    signs = tune(0.9, spec=Spec(measure="simhash"), bands=4, rows=16)
    assert (signs.best.bands, signs.best.rows) == (4, 16)


def test_contradictory_bands_and_rows_are_rejected() -> None:
    with pytest.raises(UsageError, match="bands=20 is given without rows, but"):
        tune(0.5, bands=20)
    with pytest.raises(UsageError, match="need 200 slots"):
        tune(0.5, spec=Spec(), bands=20, rows=10)
    with pytest.raises(UsageError, match="omit bands and rows"):
        tune(0.5, bands=20, rows=5, at_most={0.1: 0.1})


def test_tune_command_evaluates_given_bands_and_rows(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "curve.svg"
    assert run(["tune", "--bands", "20", "--rows", "5", "--plot", str(picture)]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    assert "given bands and rows" in printed
    assert "20 × 5" in printed
    assert "<svg" in picture.read_text()
    assert run(["tune", "--bands", "50", "--rows", "4", "--json"]) == 0
    written = json.loads(capfd.readouterr().out)
    assert written["k"] == 200
    assert set(written["points"][0]["similarities"]) == {"0.001", "0.5", "0.99"}
    assert run(["tune", "--bands", "20"]) == 2


@pytest.fixture
def two_shops(tmp_path: Path) -> Path:
    """Texts with vectors. Each text of shop b is one of shop a with a changed word."""
    rng = np.random.default_rng(8)
    lines = []
    for _number in range(60):
        words = [f"w{value}" for value in rng.integers(0, 5000, 30)]
        vector = rng.normal(size=6)
        for shop in "ab":
            words[7] = shop
            row = {"text": " ".join(words), "shop": shop, "v": vector.tolist()}
            lines.append(json.dumps(row))
    # copies within one shop, which are not compared
    lines += [json.dumps({**json.loads(lines[0]), "v": None, "text": f"{i} x y z"}) for i in "12"]
    path = tmp_path / "shops.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_texts_and_vectors_are_tuned_one_after_the_other(
    two_shops: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    both = ["tune", str(two_shops), "--text", "text", "--vector", "v", "--json"]
    assert run([*both, "--vector-threshold", "0.9"]) == 0
    tuned = json.loads(capfd.readouterr().out)
    assert (tuned["text"]["measure"], tuned["text"]["threshold"]) == ("jaccard", 0.8)
    assert (tuned["vector"]["measure"], tuned["vector"]["threshold"]) == ("cosine", 0.9)
    for kind in ("text", "vector"):
        column = {"text": "text", "vector": "v"}[kind]
        threshold = str(tuned[kind]["threshold"])
        alone = ["tune", str(two_shops), f"--{kind}", column, "--threshold", threshold, "--json"]
        assert run(alone) == 0
        assert json.loads(capfd.readouterr().out) == tuned[kind]
    assert run(both[:-1]) == 0
    assert run([*both, "--plot", "a.svg"]) == 2
    assert "--plot draws the curves of one kind" in capfd.readouterr().err
    assert run([*both, "--measure", "cosine"]) == 2
    assert run(["tune", str(two_shops), "--vector-threshold", "0.9"]) == 2


def test_similarities_of_different_sources_are_those_of_a_plain_count(
    two_shops: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["tune", str(two_shops), "--across", "shop", "--shingle", "words:1", "--json"]
    assert run(command) == 0
    across = json.loads(capfd.readouterr().out)
    rows = [json.loads(line) for line in two_shops.read_text().splitlines()]
    sets = [set(row["text"].split()) for row in rows]
    near = sum(
        2 * (len(first & second) >= 0.9 * len(first | second))
        for i, first in enumerate(sets)
        for j, second in enumerate(sets[:i])
        if rows[i]["shop"] != rows[j]["shop"]
    )
    assert across["data"]["pairs"]["0.9"] == pytest.approx(near / len(rows))
    assert near == 120
    assert "of different sources by column 'shop'" in across["distribution"]
    columns = Columns(text="text")
    measure = measure_of(Spec(unit="words", n=1))
    corpus = FileCorpus.open([str(two_shops)])
    distribution = observe_corpus(corpus, columns, measure, across="shop")
    of_a = sum(row["shop"] == "a" for row in rows)
    comparable = 2 * of_a * (len(rows) - of_a) / len(rows)
    assert distribution.pairs.sum() == pytest.approx(comparable)
    assert run(["tune", "--across", "shop"]) == 2
    assert "--across shop needs a corpus" in capfd.readouterr().err


def test_preset_sets_the_options_of_tune_and_plan(
    two_shops: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["tune", str(two_shops), "--preset", "logs", "--json"]) == 0
    by_preset = json.loads(capfd.readouterr().out)
    logs = Settings.of_preset("logs").values
    options = ["--shingle", str(logs["shingle"]), "--threshold", str(logs["threshold"])]
    options += ["--normalise", ",".join(logs["normalise"]), "--measure", str(logs["measure"])]
    assert run(["tune", str(two_shops), *options, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == by_preset
    assert run(["tune", "--preset", "records", "--json"]) == 0
    tuned = json.loads(capfd.readouterr().out)
    records = Settings.of_preset("records").values
    assert (tuned["measure"], tuned["threshold"]) == (records["measure"], records["threshold"])
    assert run(["plan", "--docs", "1M", "--preset", "records", "--recall", "0.9", "--json"]) == 0
    settings = json.loads(capfd.readouterr().out)["settings"]
    planned = (settings["measure"], settings["threshold"])
    assert planned == (records["measure"], records["threshold"])
    assert settings["recall"] == 0.9
    assert run(["plan", "--docs", "1M", "--across", "shop"]) == 2
    refused = "--across is not an option of nearkin plan: memory, disk and time are those of a run"
    assert refused in capfd.readouterr().err
