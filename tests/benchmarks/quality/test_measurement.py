"""Tests of the measurement of methods, at tiny sizes."""

import json
from pathlib import Path

import pyarrow as pa

from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.measurement import (
    Halves,
    measure_asked,
    measure_default,
    measure_fitted,
    measure_preset,
    search_halves,
)
from benchmarks.quality.sets import Places, make_set
from benchmarks.quality.tables import RECORD, QualityRecord, quality_section
from benchmarks.quality.tools import join_pairs, tools_for


def make_small(name: str, scale: float) -> LabelledSet:
    """Returns a set of a part of its size."""
    labelled = make_set(name, Places(), scale)
    assert labelled is not None
    return labelled


def test_presets_and_labels_find_duplicates_that_the_default_misses(full: bool) -> None:
    halves = Halves.of(make_small("people, few errors", 0.3 if full else 0.15))
    default = measure_default(halves).scores
    preset = measure_preset(halves).scores
    fitted = measure_fitted(halves).scores
    assert default is not None
    assert preset is not None
    assert fitted is not None
    assert default.f1 < 0.1
    assert preset.f1 > 0.8
    assert fitted.f1 > 0.9


def test_answers_about_a_half_find_duplicates_that_the_default_misses() -> None:
    asked = measure_asked(Halves.of(make_small("people, few errors", 0.15))).scores
    assert asked is not None
    assert asked.f1 > 0.8


def test_searches_are_kept_in_a_folder(tmp_path: Path) -> None:
    halves = Halves.of(make_small("paper titles", 0.08))
    first = search_halves(halves, tmp_path, has_containment=False)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(written) == 2
    assert search_halves(halves, tmp_path, has_containment=False) == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written
    assert first.transferred <= first.best


def test_copies_are_counted_by_their_level() -> None:
    default = measure_default(Halves.of(make_small("plagiarism", 0.3)))
    verbatim, light, _heavy, paraphrase = default.levels
    assert verbatim == 1.0
    assert light < 1.0
    assert paraphrase == 0.0


def test_tools_for_records_need_fields() -> None:
    names = {peer.name for peer in tools_for(make_small("people, few errors", 0.1))}
    assert names - {peer.name for peer in tools_for(make_small("headlines", 0.1))} == {
        "splink",
        "dedupe",
        "recordlinkage",
    }


def test_pairs_of_tools_are_joined_to_components() -> None:
    pairs = pa.table({"id_a": ["a", "c", "d"], "id_b": ["b", "b", "e"]})
    labels = join_pairs(["a", "b", "c", "d", "e", "f"], pairs)
    assert labels[0] == labels[1] == labels[2]
    assert labels[3] == labels[4]
    assert len(set(labels.tolist())) == 3


def test_the_page_shows_each_set_and_names_a_tool_that_failed() -> None:
    scores = dict.fromkeys(
        ("precision", "recall", "f1", "rand", "b_cubed", "lost", "removed", "cpu", "seconds"), 0.5
    )
    record: QualityRecord = {
        "machine": {
            "cores": 2,
            "processor": "x",
            "python": "3",
            "numba": "0",
            "pyarrow": "0",
            "numpy": "0",
        },
        "sets": [
            {
                "name": "licence texts",
                "kind": "web",
                "documents": 1234,
                "clusters": 3,
                "methods": {
                    "fitted": {
                        "scores": scores,
                        "settings": ["words:1 jaccard 0.5"],
                        "levels": [],
                        "failed": "",
                    },
                    "gaoya": {"scores": None, "settings": [], "levels": [], "failed": "no wheel"},
                },
                "search": {"transferred": 0.6, "best": 0.7, "settings": []},
                "search_with_containment": {"transferred": 0.6, "best": 0.75, "settings": []},
                "found_pairs": (95, 100),
            }
        ],
    }
    page = quality_section(record, "Machine: x.\n")
    assert "| licence texts | 1,234 |  |  |  | 0.50 | 0.60 | 0.75 |  |  | fails |" in page
    assert "| licence texts | words:1 jaccard 0.5 | 0.50 |" in page
    assert "95 of the 100 pairs" in page


def test_means_with_a_search_are_over_the_searched_sets_alone() -> None:
    record: QualityRecord = json.loads(RECORD.read_text("utf-8"))
    page = quality_section(record, "Machine: x.\n")
    searched = [labelled for labelled in record["sets"] if labelled["search"]]
    f1_of_fitted = [labelled["methods"]["fitted"]["scores"] for labelled in searched]
    mean = sum(scores["f1"] for scores in f1_of_fitted if scores) / len(searched)
    row = next(line for line in page.splitlines() if line.startswith(f"| mean of {len(searched)}"))
    assert row.split(" | ")[5] == f"**{mean:.2f}**"
