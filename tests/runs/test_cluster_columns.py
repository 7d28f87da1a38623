"""Tests of the columns about clusters in kept documents: sizes, sources and weights."""

import csv
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.cluster_columns import DocumentWeights
from nearkin.errors import UsageError

WORDS: dict[str, Any] = {"text": "text", "id": "id", "shingle": "words:1", "threshold": 0.5}
FLAGS = ["--text", "text", "--id", "id", "--shingle", "words:1", "--threshold", "0.5"]
SOURCES = ("web", 'a "b", c', "büch", None, "", "(none)")


def make_copies(seed: int = 1, documents: int = 80) -> pa.Table:
    """Returns texts with copies and edited copies, of several sources."""
    rng = random.Random(seed)
    texts: list[str] = []
    for _ in range(documents):
        if texts and rng.random() < 0.7:
            words = rng.choice(texts).split()
            words[rng.randrange(len(words))] = f"new{rng.randrange(9)}"
            texts.append(" ".join(words))
        else:
            texts.append(" ".join(f"w{rng.randrange(999)}" for _ in range(rng.randint(3, 9))))
    return pa.table(
        {
            "id": [f"d{at:02}" for at in range(documents)],
            "text": texts,
            "source": [rng.choice(SOURCES) for _ in texts],
        }
    )


def count_by_oracle(
    clusters: list[dict[str, Any]], table: pa.Table
) -> tuple[dict[str, int], dict[str, Counter[str]]]:
    """Returns the size and the sources of each cluster, from the clusters table alone."""
    source_of = dict(zip(table["id"].to_pylist(), table["source"].to_pylist(), strict=True))
    sizes = Counter(row["cluster"] for row in clusters)
    sources: dict[str, Counter[str]] = {name: Counter() for name in sizes}
    for row in clusters:
        source = source_of[row["id"]]
        sources[row["cluster"]]["(none)" if source is None else source] += 1
    return dict(sizes), sources


def write_jsonl(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def read_csv(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row["cluster_size"] = int(row["cluster_size"])
        row["cluster_sources"] = json.loads(row["cluster_sources"])
    return rows


def read_arrow(path: Path) -> list[dict[str, Any]]:
    is_parquet = path.suffix == ".parquet"
    table = pq.read_table(path) if is_parquet else pyarrow.feather.read_table(path)
    assert table.schema.field("cluster_size").type == pa.int64()
    assert table.schema.field("cluster_sources").type == pa.map_(pa.string(), pa.int64())
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        row["cluster_sources"] = dict(row["cluster_sources"])
    return rows


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


Write = Callable[[pa.Table, Path], Any]
Read = Callable[[Path], list[dict[str, Any]]]
FORMATS: dict[str, tuple[Write, Read]] = {
    "jsonl": (write_jsonl, read_json_lines),
    "csv": (pacsv.write_csv, read_csv),
    "parquet": (pq.write_table, read_arrow),
    "arrow": (lambda table, path: pyarrow.feather.write_feather(table, str(path)), read_arrow),
    "json": (
        lambda table, path: path.write_text(json.dumps(table.to_pylist())),
        lambda path: json.loads(path.read_text()),
    ),
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_sizes_are_added_to_kept_documents_of_every_format(suffix: str, tmp_path: Path) -> None:
    table = make_copies()
    write, read = FORMATS[suffix]
    path = tmp_path / f"in.{suffix}"
    write(table, path)
    out = tmp_path / "out"
    assert (
        run(["dedup", str(path), *FLAGS, "--source", "source", "--sizes", "--out", str(out)]) == 0
    )
    clusters = pq.read_table(out / "clusters.parquet").to_pylist()
    # A CSV file has no nulls.
    values = table["source"].to_pylist()
    if suffix == "csv":
        values = ["" if value is None else value for value in values]
    sizes, sources = count_by_oracle(clusters, table.set_column(2, "source", pa.array(values)))
    rows = read(out / "kept" / f"in.{suffix}")
    assert [row["id"] for row in rows] == [row["id"] for row in clusters if row["kept"]]
    assert {row["id"]: row["cluster_size"] for row in rows} == sizes
    assert {row["id"]: row["cluster_sources"] for row in rows} == sources
    assert [list(row["cluster_sources"]) for row in rows] == [
        sorted(row["cluster_sources"]) for row in rows
    ]
    assert json.loads((out / "run.json").read_bytes())["sizes"] is True


def test_library_has_the_columns_of_all_documents(tmp_path: Path) -> None:
    table = make_copies(2)
    result = nk.dedup(table, source="source", **WORDS)
    sizes, sources = count_by_oracle(result.clusters.to_pylist(), table)
    columns = result.cluster_columns("sqrt").to_pylist()
    for row, cluster in zip(columns, result.clusters.to_pylist(), strict=True):
        assert row["id"] == cluster["id"]
        assert row["cluster_size"] == sizes[cluster["cluster"]]
        assert dict(row["cluster_sources"]) == sources[cluster["cluster"]]
        assert row["document_weight"] == pytest.approx(row["cluster_size"] ** -0.5)
    folder = result.write(tmp_path / "out", sizes=True)
    kept = pq.read_table(folder / "kept/documents.parquet")
    assert kept["id"].to_pylist() == table.filter(pa.array(result.kept))["id"].to_pylist()
    assert dict(zip(kept["id"].to_pylist(), kept["cluster_size"].to_pylist(), strict=True)) == sizes
    file = result.write(tmp_path / "all.parquet", document_weights="log")
    weighted = pq.read_table(file)
    assert weighted["id"].to_pylist() == table["id"].to_pylist()
    assert weighted.schema.names == ["id", "text", "source", "document_weight"]


TOTALS: dict[str, Callable[[int], float]] = {
    "one": lambda size: 1.0,
    "sqrt": math.sqrt,
    "log": lambda size: 1 + math.log(size),
    "size,weight\n1,1\n3,2.5\n5,4\n": lambda size: 1 if size < 3 else 2.5 if size < 5 else 4,
}


@pytest.mark.parametrize("weights", TOTALS)
def test_weights_of_a_cluster_add_up_to_the_function_of_its_size(
    weights: str, tmp_path: Path
) -> None:
    table = make_copies(3)
    value = weights
    if "\n" in weights:
        (tmp_path / "table.csv").write_text(weights)
        value = str(tmp_path / "table.csv")
    result = nk.dedup(table, **WORDS)
    total_of: Counter[str] = Counter()
    size_of: Counter[str] = Counter()
    columns = result.cluster_columns(value).to_pylist()
    for row, cluster in zip(columns, result.clusters.to_pylist(), strict=True):
        total_of[cluster["cluster"]] += row["document_weight"]
        size_of[cluster["cluster"]] += 1
    assert max(size_of.values()) >= 5
    for name, size in size_of.items():
        assert total_of[name] == pytest.approx(TOTALS[weights](size))


@pytest.mark.parametrize("annotate", [False, True])
def test_document_weights_keep_all_rows(annotate: bool, tmp_path: Path) -> None:
    table = make_copies(4)
    pq.write_table(table, tmp_path / "in.parquet")
    command = ["dedup", str(tmp_path / "in.parquet"), *FLAGS, "--document-weights", "sqrt"]
    command += ["--annotate", "--sizes"] if annotate else []
    assert run([*command, "--out", str(tmp_path / "out")]) == 0
    rows = pq.read_table(tmp_path / "out/kept/in.parquet")
    clusters = pq.read_table(tmp_path / "out/clusters.parquet")
    sizes = Counter(clusters["cluster"].to_pylist())
    assert rows["id"].to_pylist() == table["id"].to_pylist()
    assert rows["document_weight"].to_pylist() == pytest.approx(
        [sizes[name] ** -0.5 for name in clusters["cluster"].to_pylist()]
    )
    added = ["cluster", "kept", "similarity", "kind", "cluster_size"] if annotate else []
    assert rows.schema.names == [*table.schema.names, *added, "document_weight"]
    assert json.loads((tmp_path / "out/run.json").read_bytes())["document_weights"] == "sqrt"


@pytest.mark.parametrize("texts", [[], ["a b"], ["", " "]])
def test_few_documents_have_sizes(texts: list[str], tmp_path: Path) -> None:
    data = {
        "text": pa.array(texts, pa.string()),
        "source": pa.array([None] * len(texts), pa.string()),
    }
    result = nk.dedup(data, source="source")
    assert result.cluster_columns("log").to_pylist() == [
        {
            "id": f"{at:010}",
            "cluster_size": 1,
            "cluster_sources": [("(none)", 1)],
            "document_weight": 1.0,
        }
        for at in range(len(texts))
    ]


@pytest.mark.parametrize(
    "content",
    [
        *("", "size,weight\n", "size,weight\n2,1\n", "size,weight\n1,1\n1,2\n", "a,b\n1,1\n"),
        *("size,weight\n1,-1\n", "size,weight\n1,nan\n", "size,weight\nx,1\n", "\xff\xfe"),
    ],
)
def test_file_that_is_not_a_table_of_weights_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=r"is not a table of weights.*size,weight"):
        DocumentWeights.parse(str(tmp_path / "table.csv"))


FAULTS = [
    (["--sizes", "--output", "ids"], "--sizes has no effect with --output ids"),
    (["--document-weights", "log", "--output", "none"], "--document-weights has no effect with"),
    (["--document-weights", "linear"], "is not one of none, one, sqrt, log, and not a file"),
    (["--document-weights", "log", "--empty", "drop"], "exclude each other"),
]


@pytest.mark.parametrize(("options", "message"), FAULTS)
def test_options_without_effect_are_refused_before_anything_is_written(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(make_copies(), tmp_path / "in.parquet")
    command = ["dedup", str(tmp_path / "in.parquet"), *FLAGS, "--out", str(tmp_path / "out")]
    assert run([*command, *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("column", ["cluster_size", "cluster_sources", "document_weight"])
def test_input_with_a_column_of_the_same_name_is_refused_before_anything_is_written(
    column: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = make_copies().append_column(column, pa.array(["x"] * 80))
    path = tmp_path / f"in.{suffix}"
    FORMATS[suffix][0](table, path)
    options = ["--sizes", "--source", "source", "--document-weights", "one"]
    assert run(["dedup", str(path), *FLAGS, *options, "--out", str(tmp_path / "out")]) == 2
    assert f"column '{column}' cannot be added" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [path.name]
    if suffix == "parquet":
        result = nk.dedup(table, source="source", **WORDS)
        for target in ("folder", "file.parquet"):
            with pytest.raises(UsageError, match=f"column '{column}' cannot be added"):
                result.write(tmp_path / target, sizes=True, document_weights="one")
        assert [path.name for path in tmp_path.iterdir()] == [path.name]


def test_text_without_columns_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("one two three")
    command = ["dedup", str(tmp_path / "a.txt"), "--out", str(tmp_path / "out"), "--sizes"]
    assert run(command) == 2
    assert "which is a text without columns" in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_one_file_of_kept_documents_has_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = make_copies()
    pq.write_table(table, tmp_path / "in.parquet")
    command = ["dedup", str(tmp_path / "in.parquet"), *FLAGS, "--sizes"]
    assert run([*command, "--out", str(tmp_path / "out.csv")]) == 0
    clusters = pq.read_table(tmp_path / "out.csv.run/clusters.parquet").to_pylist()
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    sizes, _ = count_by_oracle(clusters, table)
    assert {row["id"]: int(row["cluster_size"]) for row in rows} == sizes
    with_sources = [*command, "--source", "source"]
    assert run([*with_sources, "--out", str(tmp_path / "no.csv")]) == 2
    assert "is a map, which .csv cannot hold" in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.glob("no*"))
    assert run([*with_sources, "--out", str(tmp_path / "yes.arrow")]) == 0
    assert len(read_arrow(tmp_path / "yes.arrow")) == len(rows)


def test_run_is_not_resumed_with_other_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(make_copies(), tmp_path / "in.parquet")
    command = ["dedup", str(tmp_path / "in.parquet"), *FLAGS, "--out", str(tmp_path / "out")]
    assert run([*command, "--sizes"]) == 0
    assert run([*command, "--sizes", "--resume"]) == 0
    assert run([*command, "--resume"]) == 2
    assert "made with --sizes, and this run has no --sizes" in capsys.readouterr().err
    assert run([*command, "--sizes", "--document-weights", "log", "--resume"]) == 2
    assert "this run has --document-weights log" in capsys.readouterr().err


def test_weights_and_a_reference_exclude_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(make_copies(), tmp_path / "in.parquet")
    pq.write_table(make_copies(2), tmp_path / "old.parquet")
    command = ["dedup", str(tmp_path / "in.parquet"), "--against", str(tmp_path / "old.parquet")]
    command += [*FLAGS, "--document-weights", "log", "--out", str(tmp_path / "out")]
    assert run(command) == 2
    assert "belongs to no cluster of this run" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
    result = nk.dedup(make_copies(), against=make_copies(2), **WORDS)
    for write in (
        lambda: result.cluster_columns("log"),
        lambda: result.write(tmp_path / "out", document_weights="log"),
        lambda: result.write(tmp_path / "out.jsonl", document_weights="log"),
    ):
        with pytest.raises(UsageError, match="belongs to no cluster of this run"):
            write()
