"""Tests of the precision of presets by the number of rows, and of what they state about it."""

import json
from pathlib import Path

import pytest

from benchmarks.pages import PRESETS_PAGE, ROOT
from benchmarks.quality import preset_sizes
from benchmarks.quality.nearkin_runs import describe_settings
from benchmarks.quality.populations.population import make_population
from benchmarks.quality.preset_sizes import (
    MEASURED,
    find_precision,
    list_claims,
    measure_size,
    merge_sizes,
    score_settings,
    write_sizes,
)
from benchmarks.quality.size_tables import (
    SIZES_RECORD,
    SizeRecord,
    SizesRecord,
    precision_table,
    sizes_section,
    summarize_sizes,
)
from nearkin.engine.settings_file import Settings
from nearkin.settings.presets import PRESETS, Preset

LEAST_PRECISION = 0.9


def read_record() -> SizesRecord:
    record: SizesRecord = json.loads(SIZES_RECORD.read_text("utf-8"))
    return record


@pytest.mark.parametrize("name", ["dense people", "customers", "members"])
def test_records_removes_few_distinct_people(name: str) -> None:
    rows = 3_590 if name == "dense people" else 3_000
    scores = score_settings(make_population(name, rows, 1), Settings.of_preset("records").values)
    assert scores.precision >= LEAST_PRECISION
    assert scores.recall >= 0.85


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_was_measured_as_it_is_over_all_its_populations(preset: str) -> None:
    record = read_record()["presets"][preset]
    settings = describe_settings(Settings.of_preset(preset).values)
    assert {one["settings"] for one in record} == {settings}, "run make bench-presets"
    sizes = {(one["population"], one["rows"]) for one in record}
    assert sizes == {(each.name, rows) for each in MEASURED[preset] for rows in each.rows}


@pytest.mark.parametrize("preset", PRESETS)
def test_removals_are_right_at_every_size_that_a_preset_states(preset: str) -> None:
    for one in read_record()["presets"][preset]:
        if one["population"] in list_claims(preset):
            assert one["scores"]["precision"] >= LEAST_PRECISION, one


@pytest.mark.parametrize("preset", PRESETS)
def test_the_file_of_a_preset_states_the_recorded_precision(preset: str) -> None:
    stated = Preset.read(preset)
    precision = find_precision(preset, read_record()["presets"][preset])
    assert dict(zip(stated.rows, stated.precision, strict=True)) == precision
    for name in list_claims(preset):
        assert name in stated.data


def test_pages_have_the_recorded_precision() -> None:
    record = read_record()
    hint = "run python -m benchmarks.pages"
    assert precision_table(record) in PRESETS_PAGE.read_text("utf-8"), hint
    assert summarize_sizes(record) in (ROOT / "README.md").read_text("utf-8"), hint
    page = (ROOT / "docs/contributing/benchmarks.md").read_text("utf-8")
    assert sizes_section(record, "").partition("A removal is right")[0] in page, hint


def make_size(rows: int, precision: float) -> SizeRecord:
    names = ("removed", "precision", "recall", "pair_precision", "pair_recall", "cpu")
    scores = {**dict.fromkeys(names, 0.5), "precision": precision}
    return {"population": "pages", "rows": rows, "seeds": 1, "settings": "", "scores": scores}


def test_a_repeated_measurement_replaces_that_of_its_size_only() -> None:
    merged = merge_sizes([make_size(1_000, 0.9), make_size(8_000, 0.8)], [make_size(8_000, 0.7)])
    assert [(one["rows"], one["scores"]["precision"]) for one in merged] == [
        (1_000, 0.9),
        (8_000, 0.7),
    ]


def test_measurements_are_written_into_the_record_and_the_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preset_sizes, "SIZES_RECORD", tmp_path / "sizes.json")
    monkeypatch.setattr(preset_sizes, "FOLDER", tmp_path)
    path = tmp_path / "web.toml"
    path.write_text('# Pages.\n\nshingle = "words:5"\n\n[measured]\nrows = [1]\n')
    write_sizes({"web": [make_size(1_000, 0.98)]})
    write_sizes({"web": [make_size(8_000, 0.97)]})
    assert path.read_text() == (
        '# Pages.\n\nshingle = "words:5"\n\n[measured]\n'
        "# Written by `python -m benchmarks.quality.preset_sizes --write`.\n"
        'data = "pages"\nrows = [1000, 8000]\nprecision = [0.98, 0.97]\n'
    )
    record = json.loads((tmp_path / "sizes.json").read_text())
    assert [one["rows"] for one in record["presets"]["web"]] == [1_000, 8_000]


def test_seeds_are_measured_and_their_median_is_taken() -> None:
    measured = measure_size("customers", 200, 2, Settings.of_preset("records").values)
    assert measured["seeds"] == 2
    assert 0 <= measured["scores"]["removed"] <= measured["scores"]["precision"] <= 1
