"""Settings that are chosen without labels."""

import json
import random
import string
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.populations.population import make_population
from nearkin.cli.app import run
from nearkin.engine.chosen_settings import TriedSettings
from nearkin.errors import RunError
from nearkin.runs import choose, trial


def find_wrong(rows: LabelledSet, settings: dict[str, object]) -> tuple[float, float]:
    """Returns the share of removals that are wrong, and the share of copies that are removed."""
    result = nk.dedup(rows.documents, id="id", max_removed=1.0, **settings)  # type: ignore[arg-type]
    clusters = dict(zip(rows.documents["id"].to_pylist(), rows.clusters.tolist(), strict=True))
    removed = result.removed.arrow.to_pylist()
    wrong = sum(clusters[row["id"]] != clusters[row["cluster"]] for row in removed)
    copies = len(rows.clusters) - len(np.unique(rows.clusters))
    return wrong / max(len(removed), 1), (len(removed) - wrong) / copies


@pytest.mark.parametrize("population", ["members", "companies", "dense people", "headlines"])
def test_chosen_settings_remove_most_copies_and_few_distinct_rows(
    population: str, full: bool
) -> None:
    count = 1500 if full else 800
    rows = make_population(population, count, 1)
    chosen = nk.choose(rows.documents, id="id")
    wrong, found = find_wrong(rows, dict(chosen.settings))
    assert wrong < 0.15
    assert found > 0.7
    assert chosen.documents == chosen.sampled == count
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
    rows = make_population("members", 400, 2).documents
    order = pa.array(np.random.default_rng(1).permutation(len(rows)))
    first = nk.choose(rows, id="id", workers=1)
    again = nk.choose(rows, id="id", workers=2)
    shuffled = nk.choose(rows.take(order), id="id")
    assert first == again == shuffled


@pytest.mark.parametrize(
    "suffixes",
    [(" small", " large"), ("", " pro"), ("", " part 2"), ("", " not included")],
    ids=" or".join,
)
def test_variants_are_kept(suffixes: tuple[str, ...]) -> None:
    draw = random.Random(4)
    words = ["".join(draw.choices(string.ascii_lowercase, k=7)) for _ in range(400)]
    names = [" ".join(draw.sample(words, 5)) for _ in range(300)]
    variants = [f"{name}{suffix}" for name in names[:100] for suffix in suffixes]
    products = [*variants, *(f"{name} medium" for name in names[100:])]
    copies = [name.replace(" ", " x", 1) for name in draw.sample(products, 60)]
    result = nk.dedup([*products, *copies])
    removed = result.removed.arrow
    unique = len(products)
    pairs = zip(removed["id"].to_pylist(), removed["cluster"].to_pylist(), strict=True)
    wrong = [pair for pair in pairs if int(pair[0]) < unique and int(pair[1]) < unique]
    assert len(wrong) <= 1


def test_sources_are_compared_across() -> None:
    rows = make_population("members", 400, 2).documents
    sources = pa.array([str(row % 2) for row in range(len(rows))])
    chosen = nk.choose(rows.set_column(2, "source", sources), id="id", across="source")
    assert chosen.settings["across"] == "source"


def test_sample_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SAMPLED_DOCUMENTS", 500)
    rows = make_population("members", 800, 2).documents
    chosen = nk.choose(rows, id="id")
    assert "500 of 800 documents were compared" in chosen.warnings[0]
    assert (chosen.sampled, chosen.documents) == (500, 800)


def test_command_writes_settings_that_dedup_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = make_population("companies", 400, 1)
    path = tmp_path / "companies.parquet"
    pq.write_table(rows.documents, path)
    settings = tmp_path / "settings.toml"
    assert run(["fit", str(path), "--id", "id", "--out", str(settings)]) == 0
    printed = capsys.readouterr().out
    assert "400 of 400 documents were compared" in printed
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


def find_kept(rows: pa.Table, **settings: Any) -> list[bool]:
    kept: list[bool] = nk.dedup(rows, id="id", **settings).kept.tolist()
    return kept


def test_run_without_settings_chooses_them_for_short_texts() -> None:
    rows = make_population("companies", 400, 1).documents
    chosen = nk.choose(rows, id="id")
    result = nk.dedup(rows, id="id")
    assert result.kept.tolist() == find_kept(rows, settings=chosen.settings)
    assert result.report_data.chosen == chosen.describe()
    assert not any("few shingles" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": 0.8},
        {"shingle": "words:3"},
        {"cluster": "components"},
        {"against": ["no such text"]},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_that_are_given_are_not_replaced(settings: dict[str, Any]) -> None:
    rows = make_population("companies", 500, 1).documents
    if "against" in settings:
        settings = {"against": pa.table({"id": ["a"], "text": settings["against"]})}
    result = nk.dedup(rows, id="id", **settings)
    assert result.report_data.chosen == ""
    assert result.report_data.parameters.shingle == "words:3"


@pytest.mark.parametrize("case", ["long texts", "few texts"])
def test_settings_of_long_and_of_few_texts_stay(case: str) -> None:
    draw = random.Random(3)
    words = ["".join(draw.choices("abcdefgh", k=6)) for _ in range(500)]
    count, length = (200, 60) if case == "long texts" else (90, 8)
    texts = [" ".join(draw.choices(words, k=length)) for _ in range(count)]
    result = nk.dedup([*texts, *(f"{text} more" for text in texts[:9])])
    assert result.report_data.chosen == ""
    assert result.report_data.parameters.threshold == 0.8


def test_settings_stay_if_the_first_texts_alone_are_short() -> None:
    """The sample decides, which also bounds the memory of the choice."""
    short = make_population("companies", 1200, 1).documents["text"].to_pylist()
    draw = random.Random(4)
    words = ["".join(draw.choices("abcdefgh", k=6)) for _ in range(500)]
    long = [" ".join(draw.choices(words, k=60)) for _ in range(2000)]
    assert nk.dedup([*short, *long]).chosen is None
    assert nk.dedup(short).chosen is not None


def test_run_says_why_its_settings_stay() -> None:
    draw = random.Random(2)
    states = ["".join(draw.choices("abcdefghklmnoprst", k=8)) for _ in range(30)]
    elections = [
        f"senate election in {state}, {year}" for state in states for year in range(1980, 2000)
    ]
    result = nk.dedup(elections)
    assert result.kept.all()
    assert any("no settings remove documents without doubt" in each for each in result.warnings)


def test_command_keeps_the_chosen_settings_and_resumes_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "companies.parquet"
    pq.write_table(make_population("companies", 400, 1).documents, path)
    out = tmp_path / "deduped"
    command = ["dedup", str(path), "--id", "id", "--out", str(out)]

    def fail(*_: object) -> None:
        raise RunError("the disk is full")

    with monkeypatch.context() as interrupted:
        interrupted.setattr("nearkin.runs.dedup.collect_report", fail)
        assert run(command) != 0
    assert run([*command, "--resume"]) == 0
    shown = capsys.readouterr().err
    assert "Chosen for these documents: shingle " in shown
    record = json.loads((out / "run.json").read_bytes())
    assert record["chosen"]["settings"]["threshold"] == record["parameters"]["threshold"]
    assert "few shingles" not in shown
    again = tmp_path / "again"
    settings = str(out / "settings.toml")
    assert run(["dedup", str(path), "--id", "id", "--settings", settings, "--out", str(again)]) == 0
    assert pq.read_table(again / "clusters.parquet") == pq.read_table(out / "clusters.parquet")
    assert not (again / "settings.toml").exists()


def make_lines(count: int, template: str) -> list[str]:
    draw = random.Random(5)
    names = ["disk", "fan", "pump", "door", "lamp"]
    times = [f"10:{draw.randrange(60):02d}:{draw.randrange(60):02d}" for _ in range(count)]
    return [
        template.format(time=time, name=draw.choice(names), value=draw.randrange(10**6))
        for time in times
    ]


def test_lines_of_logs_get_the_settings_of_their_preset() -> None:
    lines = make_lines(300, "{time} the {name} reports {value} errors")
    result = nk.dedup(lines)
    assert result.kept.sum() == 5
    assert "100% of the lines equal others but for times" in result.report_data.chosen
    chosen = nk.choose(lines)
    assert result.kept.tolist() == nk.dedup(lines, preset="logs").kept.tolist()
    assert nk.choose(lines[::-1]).settings == chosen.settings
    assert not chosen.is_default


@pytest.mark.parametrize(
    "template",
    [
        "invoice {value} for the {name} is due",
        "ticket {value} of 2026-01-31: the {name} is broken",
        "{time}",
        "https://example.org/{name}/{value}",
    ],
)
def test_forms_and_lists_of_values_are_no_logs(template: str) -> None:
    lines = make_lines(300, template)
    assert nk.choose(lines).reason == ""


def test_lines_of_two_sources_are_no_logs() -> None:
    lines = make_lines(300, "{time} the {name} reports {value} errors")
    rows = pa.table({"text": lines, "source": [str(row % 2) for row in range(300)]})
    assert nk.choose(rows, across="source").reason == ""


def test_rows_of_several_columns_are_no_logs() -> None:
    lines = make_lines(300, "{time} {value}")
    rows = pa.table({"measured": lines, "sensor": ["the door is open"] * 300})
    assert nk.choose(rows, text=["measured", "sensor"]).reason == ""


def test_command_says_why_settings_of_logs_are_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.log"
    path.write_text("\n".join(make_lines(300, "{time} the {name} reports {value} errors")))
    out = tmp_path / "deduped"
    command = ["dedup", str(path), "--lines", "--out", str(out)]
    assert run(command) == 1
    message = " ".join(capsys.readouterr().err.split())
    assert "lines of logs: 100%" in message
    assert "with masked values, more than --max-removed 0.5 allows" in message
    assert run([*command, "--max-removed", "1", "--resume"]) == 0
    assert "These are lines of logs" in (out / "settings.toml").read_text("utf-8")
    assert run(["fit", str(path), "--lines"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "300 of 300 documents were compared" in printed
    assert "without doubt" not in printed


def test_peak_memory_of_a_run_includes_that_of_its_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(make_population("companies", 400, 1).documents, tmp_path / "rows.parquet")
    really_try = choose._try
    size = 512 << 20

    def take_memory(*arguments: Any) -> TriedSettings:
        taken = np.ones(size, np.uint8)
        tried = really_try(*arguments)
        assert taken.all()
        return tried

    monkeypatch.setattr(choose, "_try", take_memory)
    assert run(["dedup", str(tmp_path / "rows.parquet"), "--out", str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out" / "run.json").read_bytes())["peak_memory"] > size
