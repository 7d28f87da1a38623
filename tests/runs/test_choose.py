"""Settings that are chosen without labels."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.populations.population import make_population
from nearkin.cli.app import run
from nearkin.runs import choose as choosing


def find_wrong(rows: LabelledSet, settings: dict[str, object]) -> tuple[float, float]:
    """Returns the share of removals that are wrong, and the share of copies that are removed."""
    result = nk.dedup(rows.documents, id="id", max_removed=1.0, **settings)  # type: ignore[arg-type]
    clusters = dict(zip(rows.documents["id"].to_pylist(), rows.clusters.tolist(), strict=True))
    removed = result.removed.arrow.to_pylist()
    wrong = sum(clusters[row["id"]] != clusters[row["cluster"]] for row in removed)
    copies = len(rows.clusters) - len(np.unique(rows.clusters))
    return wrong / max(len(removed), 1), (len(removed) - wrong) / copies


@pytest.mark.parametrize("population", ["members", "companies", "dense people", "headlines"])
def test_chosen_settings_remove_most_copies_and_few_distinct_rows(population: str) -> None:
    rows = make_population(population, 1500, 1)
    chosen = nk.choose(rows.documents, id="id")
    wrong, found = find_wrong(rows, dict(chosen.settings))
    assert wrong < 0.15
    assert found > 0.7
    assert chosen.documents == chosen.sampled == 1500
    best = max(chosen.tried, key=lambda tried: tried.undoubted)
    assert best.undoubted <= best.removed


def test_defaults_stay_if_no_definition_separates_copies() -> None:
    draw = random.Random(2)
    states = ["".join(draw.choices("abcdefghklmnoprst", k=8)) for _ in range(60)]
    elections = [
        f"senate election in {state}, {year}" for state in states for year in range(1980, 2000)
    ]
    chosen = nk.choose(elections)
    assert "no settings remove documents without doubt" in chosen.warnings[0]
    assert chosen.settings == {"shingle": "words:3", "measure": "jaccard", "threshold": 0.8}
    assert all(tried.threshold is None for tried in chosen.tried)


def test_choice_does_not_depend_on_workers_and_order() -> None:
    rows = make_population("members", 800, 2).documents
    order = pa.array(np.random.default_rng(1).permutation(len(rows)))
    first = nk.choose(rows, id="id", workers=1)
    again = nk.choose(rows, id="id", workers=2)
    shuffled = nk.choose(rows.take(order), id="id")
    assert first == again == shuffled


def test_sources_are_compared_across() -> None:
    rows = make_population("members", 800, 2).documents
    sources = pa.array([str(row % 2) for row in range(len(rows))])
    chosen = nk.choose(rows.set_column(2, "source", sources), id="id", across="source")
    assert chosen.settings["across"] == "source"


def test_sample_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "SAMPLED_DOCUMENTS", 500)
    rows = make_population("members", 800, 2).documents
    chosen = nk.choose(rows, id="id")
    assert "500 of 800 documents were compared" in chosen.warnings[0]
    assert (chosen.sampled, chosen.documents) == (500, 800)


def test_command_writes_settings_that_dedup_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = make_population("companies", 1000, 1)
    path = tmp_path / "companies.parquet"
    pq.write_table(rows.documents, path)
    settings = tmp_path / "settings.toml"
    assert run(["fit", str(path), "--id", "id", "--out", str(settings)]) == 0
    printed = capsys.readouterr().out
    assert "1,000 of 1,000 documents were compared" in printed
    assert f"--settings {settings}" in " ".join(printed.split())
    written = settings.read_text("utf-8")
    assert "without labels" in written
    arguments = ["dedup", str(path), "--id", "id", "--settings", str(settings)]
    assert run([*arguments, "--out", str(tmp_path / "out")]) == 0
    assert run(["fit", str(path), "--id", "id", "--json", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--page", "fit.html"], "--page has no effect without --labels and --ask"),
        (["--objective", "f1"], "--objective has no effect without --labels and --ask"),
        (["--vector", "text"], "for texts only"),
    ],
)
def test_options_that_need_labels_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    vectors = pa.array([[1.0, 0.0], [0.0, 1.0]], pa.list_(pa.float32(), 2))
    texts = pa.array(["one two", "three four"])
    content = vectors if "--vector" in options else texts
    pq.write_table(pa.table({"text": content}), "texts.parquet")
    assert run(["fit", "texts.parquet", *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
