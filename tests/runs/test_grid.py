"""Grids of settings: each cell has the clusters of a run of its own, and work is shared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine import sketching
from nearkin.engine import verification as local_verification
from nearkin.engine.settings_file import VALID_KEYS
from nearkin.errors import UsageError
from nearkin.runs.grid import NAMES, check_grid, parse_grid, run_grid
from nearkin.runtime.progress import Silent


def edited_texts(documents: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    texts: list[list[str]] = []
    for number in range(documents):
        words = [f"Word{x}" for x in rng.integers(0, 900, 14)]
        if number % 3:
            words = list(texts[int(rng.integers(0, number))])
            for place in rng.integers(0, 14, int(rng.integers(0, 4))):
                words[place] = f"edit {number}"
        texts.append(words)
    langs = [
        None if number % 11 == 0 else "de" if number % 4 else "en" for number in range(documents)
    ]
    ids = [f"d{number:04}" for number in range(documents)]
    joined = [" ".join(words) for words in texts]
    return pa.table({"id": ids, "text": joined, "lang": langs})


def grid_clusters(grid: str, table: pa.Table) -> list[tuple[Any, dict[str, str]]]:
    cells = check_grid(grid, {})
    ran = list(run_grid(cells, table, "id", {}, Silent()))
    assert [cell.error for cell in cells] == [None] * len(cells)
    return [(cells[one.position], one.clusters) for one in ran]


def fresh_clusters(values: dict[str, Any], table: pa.Table) -> dict[str, str]:
    clusters = nk.dedup(table, id="id", **values).clusters.arrow
    return dict(zip(clusters["id"].to_pylist(), clusters["cluster"].to_pylist(), strict=True))


GRIDS = [
    "threshold=0.3,0.5,0.8;cluster=leaders,components;floor=none,0.2",
    "shingle=words:1,chars:3;normalise=nfkc+lower,nfkc+lower+digits;threshold=0.5,0.7",
    "unit=words,chars;n=2,3;measure=jaccard,weighted-jaccard,idf-jaccard;threshold=0.4",
    "keep=length desc,length asc;block_by=none,lang;across=none,lang;threshold=0.4",
    "bands=20;rows=3;threshold=0.4,0.6;verify=exact,estimate;recall=0.9,0.95",
    "bands=10;rows=4;probes=0,1;slot_bits=32,4;k=64,128;threshold=0.5",
    "measure=simhash;weights=tf,tfidf;k=64,128;threshold=0.7,0.9",
    "measure=simhash;distance=6,10",
    "max_df=none,0.02;seed=0,7;scheme=binned,classic;threshold=0.5;empty=keep,drop",
    "stem=none,english;base_hash=xxh3,murmur3;threshold=0.6",
    "bands=40;rows=2;threshold=0.4;hot_bucket_size=3,100;pair_budget=0,50;fanout=2,9",
    "block_by=lang;missing_block=none,all;threshold=0.4",
]


QUICK = {0, 3, 5, 10}
"""The grids of the quick form: shared and separate comparisons, sketched keys, hot buckets."""


def require_clusters_of_fresh_runs(grid: str) -> None:
    table = edited_texts(120, 5)
    ran = []
    cells = check_grid(grid, {})
    for one in run_grid(cells, table, "id", {}, Silent()):
        cell = cells[one.position]
        ran.append(one.position)
        assert one.clusters == fresh_clusters(dict(cell.values), table), cell.label
    assert sorted(ran) == [number for number, cell in enumerate(cells) if cell.error is None]


@pytest.mark.parametrize("grid", [GRIDS[number] for number in sorted(QUICK)])
def test_cell_has_the_clusters_of_a_run_of_its_own(grid: str) -> None:
    require_clusters_of_fresh_runs(grid)


@pytest.mark.full
@pytest.mark.parametrize("grid", [g for number, g in enumerate(GRIDS) if number not in QUICK])
def test_cell_of_every_grid_has_the_clusters_of_a_run_of_its_own(grid: str) -> None:
    require_clusters_of_fresh_runs(grid)


def test_grids_vary_every_setting_of_a_run() -> None:
    varied = {name for grid in GRIDS for name in parse_grid(grid)[0]}
    elsewhere = {"relation", "tables", "second_measure", "source", "split", "same", "url", "lines"}
    elsewhere |= {"spec_version"}
    elsewhere |= {"accept", "bits", "expect", "fields", "keep_up_to"}
    elsewhere |= {"max_lost", "max_removed", "related"}
    assert varied | elsewhere == set(NAMES)
    assert set(NAMES) == {*VALID_KEYS, "unit", "n"} - {"text"}


def test_contained_documents_are_clusters_of_a_cell() -> None:
    table = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "text": [
                "one two three four five six",
                "one two three four",
                "three four five six",
                "seven eight nine ten",
            ],
        }
    )
    ran = grid_clusters("relation=containment,similarity;threshold=1.0;shingle=words:2", table)
    contained, similar = (clusters for _, clusters in sorted(ran, key=lambda one: one[0].label))
    assert contained == {"a": "a", "b": "a", "c": "a", "d": "d"}
    assert similar == {name: name for name in "abcd"}
    grid = "relation=containment;accept=contained,containment >= 0.9 and witness >= 5"
    ran = grid_clusters(f"{grid};shingle=words:2", table)
    assert [clusters for _, clusters in ran] == [contained, similar]


def test_lost_share_of_contained_documents_is_refused() -> None:
    with pytest.raises(UsageError, match=r"max_lost=0\.05 decides .* write it as a condition"):
        check_grid("relation=containment;max_lost=0.05", {})


@pytest.mark.parametrize(
    "grid",
    [
        "accept=contained,jaccard >= 0.4 and containment >= 0.7;n=1,2",
        "max_lost=0.05,0.4;threshold=0.3,0.6",
    ],
)
def test_acceptance_of_a_cell_is_that_of_a_run_of_its_own(grid: str) -> None:
    require_clusters_of_fresh_runs(grid)


def test_acceptance_beside_a_threshold_is_refused() -> None:
    with pytest.raises(UsageError, match="accept=contained of the grid is not possible"):
        check_grid("accept=similar,contained;threshold=0.7", {})


def test_second_measure_is_run_for_each_cell() -> None:
    table = pa.table(
        {"id": ["a", "b", "c"], "text": ["one two three", "four five six", "one two three"]}
        | {"v": pa.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]], pa.list_(pa.float32(), 2))}
    )
    for cell, clusters in grid_clusters("second_measure=none,cosine:v:0.9;tables=1", table):
        assert clusters == fresh_clusters(dict(cell.values), table)


def test_cells_share_signatures_and_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    sketched = []
    compared = []
    sketch = sketching.sketch_corpus
    compare = local_verification.compare_all_pairs

    def count_sketches(*arguments: Any, **options: Any) -> Any:
        sketched.append(1)
        return sketch(*arguments, **options)

    def count_comparisons(*arguments: Any) -> None:
        compared.append(1)
        compare(*arguments)

    monkeypatch.setattr(sketching, "sketch_corpus", count_sketches)
    monkeypatch.setattr("nearkin.engine.run.compare_all_pairs", count_comparisons)
    grid = "shingle=words:1,words:2;threshold=0.3,0.5,0.7;cluster=leaders,components"
    assert len(grid_clusters(grid, edited_texts(60, 2))) == 12
    assert (len(sketched), len(compared)) == (2, 2)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("threshold", "is not of the form"),
        ("threshold=", "is not of the form"),
        ("tresh=0.5", r"unknown setting 'tresh' of the grid; did you mean 'threshold'\?; valid"),
        ("threshold=0.5;threshold=0.6", "has the setting 'threshold' twice"),
        ("threshold=0.5,1.5", "threshold=1.5 of the grid is not possible: .* out of range"),
        ("measure=jaccard,simhsh", r"measure=simhsh of the grid is not possible: .*'simhash'"),
        ("shingle=words:2;n=3", "shingle excludes unit and n"),
        ("threshold=0.5;k=many", "no cell of the grid is possible: .*k='many' is of type str"),
        ("normalise=nfkc+loweer", "loweer"),
    ],
)
def test_invalid_grid_is_refused_before_the_first_run(grid: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_grid(grid, {})


def test_contradictory_cells_are_named_and_the_others_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = edited_texts(30, 1)
    pq.write_table(table, tmp_path / "docs.parquet")
    (tmp_path / "labels.csv").write_text("id,cluster\nd0000,1\nd0001,1\nd0002,2\n")
    line = ["eval", str(tmp_path / "docs.parquet"), "--id", "id", "--golden"]
    line += [str(tmp_path / "labels.csv"), "--grid"]
    grid = "measure=jaccard,simhash;weights=none,tf;threshold=0.6"
    assert run([*line, grid, "--json"]) == 0
    output = json.loads(capfd.readouterr().out)
    ran = [(one["settings"]["measure"], one["settings"]["weights"]) for one in output["results"]]
    assert ran == [("jaccard", "none"), ("simhash", "none"), ("simhash", "tf")]
    assert output["left_out"][0]["settings"] == {
        "measure": "jaccard",
        "weights": "tf",
        "threshold": 0.6,
    }
    assert run([*line, grid]) == 0
    printed = capfd.readouterr()
    assert "warning: left out: measure=jaccard, weights=tf, threshold=0.6: " in printed.err
    assert "measure=simhash" in printed.out
    assert run([*line, grid, "--measure", "jaccard"]) == 2
    assert "measure is in the grid and given for all its cells" in capfd.readouterr().err


def test_equal_values_of_a_grid_are_one_and_nan_is_refused() -> None:
    assert parse_grid("threshold=0.8,0.80,0.9") == [{"threshold": 0.8}, {"threshold": 0.9}]
    with pytest.raises(UsageError, match="threshold=nan of the grid is not possible"):
        check_grid("threshold=nan,0.8", {})
