"""Weights of columns that a run over a table chooses without labels."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import nearkin as nk
from benchmarks.quality.labelled_set import LabelledSet, build_set
from benchmarks.quality.populations.population import make_population
from benchmarks.quality.records import HEAVY_ERRORS, make_people
from nearkin.cli.app import run
from nearkin.engine.settings_file import Settings


def score(rows: LabelledSet, result: nk.results.DedupResult) -> tuple[float, float]:
    """Returns the precision and the recall of removals."""
    clusters = dict(zip(rows.documents["id"].to_pylist(), rows.clusters.tolist(), strict=True))
    removed = result.removed.arrow.to_pylist()
    right = sum(clusters[row["id"]] == clusters[row["cluster"]] for row in removed)
    copies = len(rows.clusters) - len(np.unique(rows.clusters))
    return right / max(len(removed), 1), right / copies


def make_rows(name: str, full: bool) -> LabelledSet:
    if name == "people, many errors":
        people = make_people(350 if full else 200, 7, HEAVY_ERRORS)
        return build_set(name, "records", people, 7)
    return make_population(name, 2000 if full else 900, 1)


@pytest.mark.parametrize("name", ["people", "people, many errors", "members"])
def test_rows_with_many_errors_are_found_and_households_stay(name: str, full: bool) -> None:
    rows = make_rows(name, full)
    result = nk.dedup(rows.documents, id="id", text=list(rows.fields), max_removed=1.0)
    assert result.chosen is not None
    assert "match_weight(" in str(result.chosen.settings["accept"])
    precision, recall = score(rows, result)
    assert precision > 0.9
    assert recall > 0.75


def test_choice_does_not_depend_on_workers_and_order() -> None:
    rows = make_population("members", 500, 2)
    fields = list(rows.fields)
    order = pa.array(np.random.default_rng(1).permutation(len(rows.documents)))
    first = nk.choose(rows.documents, id="id", text=fields, workers=1)
    again = nk.choose(rows.documents, id="id", text=fields, workers=2)
    shuffled = nk.choose(rows.documents.take(order), id="id", text=fields)
    assert first == again == shuffled
    assert first.tried[-1].accept is not None


def test_written_settings_make_the_same_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = make_population("people", 600, 3)
    path = tmp_path / "people.csv"
    pa.csv.write_csv(rows.documents.select(["id", *rows.fields]), path)
    line = ["dedup", str(path), "--id", "id", "--text", ",".join(rows.fields)]
    out, again = tmp_path / "out", tmp_path / "again"
    assert run([*line, "--out", str(out)]) == 0
    shown = " ".join(capsys.readouterr().err.split())
    assert "accept idf_jaccard >= " in shown
    assert "match_weight(given_name, " in shown
    settings = Settings.read(out / "settings.toml")
    assert set(settings.values) == {"shingle", "measure", "accept"}
    assert run([*line, "--settings", str(out / "settings.toml"), "--out", str(again)]) == 0
    name = "clusters.parquet"
    assert (out / name).read_bytes() == (again / name).read_bytes()


def test_a_kept_document_that_clusters_choose_excludes_weights() -> None:
    rows = make_population("people", 400, 3)
    result = nk.dedup(rows.documents, id="id", text=list(rows.fields), keep="central")
    assert result.chosen is not None
    assert all(tried.accept is None for tried in result.chosen.tried)


def test_a_table_as_described_shows_the_columns_that_decide() -> None:
    rows = make_population("people", 500, 3)
    chosen = nk.choose(rows.documents, id="id", text=list(rows.fields))
    table = chosen.to_arrow().to_pylist()
    assert table[-1]["accept"] == chosen.settings["accept"]
    assert "match_weight(" in repr(chosen)
    assert "1:" not in repr(chosen)


def test_a_table_of_many_columns_or_long_names_has_no_weights() -> None:
    rows = make_population("people", 300, 3)
    named = {name: f"{name} of the person, as entered {'by hand ' * 80}" for name in rows.fields}
    long = rows.documents.rename_columns(
        [named.get(name, name) for name in rows.documents.column_names]
    )
    for data, text in (
        (long, list(named.values())),
        (
            {
                "id": rows.documents["id"],
                **{f"c{number}": rows.documents["street"] for number in range(60)},
            },
            [f"c{number}" for number in range(60)],
        ),
    ):
        chosen = nk.choose(data, id="id", text=text)
        assert chosen.tried[-1].accept is None
        assert "accept" not in chosen.settings


def test_pages_with_a_title_keep_the_default_settings() -> None:
    words = [f"word{number}" for number in range(4000)]
    draw = np.random.default_rng(2)
    pages = [
        {"title": f"page {number}", "body": " ".join(draw.choice(words, 300))}
        for number in range(120)
    ]
    assert nk.dedup(pages, text=["title", "body"]).chosen is None
