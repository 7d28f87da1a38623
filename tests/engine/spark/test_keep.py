"""Tests of keep policies and sizes over Spark: row for row what the local engine keeps."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.cli.app import run
from nearkin.errors import UsageError
from tests.engine.spark.conftest import rows_of

DATES = ("2024", "2024-05-01T10:30:00+02:00", "1714550000", "20240501083001", "soon", None, "")
SOURCES = ("web", "books", 'a "b", c', None)


def make_versions(documents: int) -> pa.Table:
    """Returns texts in clusters of versions, with exact copies and an empty document."""
    rng = random.Random(11)
    texts: list[str] = []
    for _ in range(documents - 1):
        if texts and rng.random() < 0.7:
            words = rng.choice(texts).split()
            if rng.random() < 0.7:
                words[rng.randrange(len(words)) :] = []
                words += [f"new{rng.randrange(50)}" for _ in range(rng.randrange(2))]
            texts.append(" ".join(words) or "word")
        else:
            texts.append(" ".join(f"w{rng.randrange(1000)}" for _ in range(rng.randint(4, 12))))
    texts.append(" \n")
    columns = {
        "id": [f"d{at:03}" for at in rng.sample(range(1000), documents)],
        "text": texts,
        "date": [rng.choice(DATES) for _ in texts],
        "source": [rng.choice(SOURCES) for _ in texts],
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def versions() -> pa.Table:
    return make_versions(120)


@pytest.fixture(scope="module")
def versions_frame(spark: SparkSession, versions: pa.Table) -> DataFrame:
    return spark.createDataFrame(versions.to_pandas()).repartition(3)


WORDS: dict[str, Any] = {"text": "text", "shingle": "words:1", "threshold": 0.5}


def test_newest_document_is_kept_and_clusters_are_counted_as_by_the_local_engine(
    versions: pa.Table, versions_frame: DataFrame
) -> None:
    options = {**WORDS, "keep": "newest:date, source:books>web", "source": "source"}
    local = nk.dedup(versions, id="id", **options)
    with nks.dedup(versions_frame, id="id", **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        dates = {"date": versions["date"].to_pylist().count("soon")}
        assert result.stages["collapse"]["unreadable_dates"] == dates
        assert local.stages["collapse"]["unreadable_dates"] == dates
        columns = result.cluster_columns("log").toArrow().to_pylist()
    expected = local.cluster_columns("log").to_pylist()
    assert {row["id"]: row for row in columns} == {row["id"]: row for row in expected}


# the quick form has a criterion of clusters in test_files.py
@pytest.mark.full
@pytest.mark.parametrize(
    ("keep", "cluster"),
    [
        ("most-complete, oldest:date", "leaders"),
        ("central", "components"),
    ],
)
def test_criterion_of_clusters_chooses_the_same_documents(
    versions: pa.Table, versions_frame: DataFrame, keep: str, cluster: str
) -> None:
    options = {**WORDS, "keep": keep, "cluster": cluster}
    options["keep_up_to"] = 2 if cluster == "components" else 1
    local = nk.dedup(versions, id="id", **options)
    with nks.dedup(versions_frame, id="id", **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        assert result.statistics == local.statistics
        assert result.report_data.cluster_sizes == local.report_data.cluster_sizes
    by_order = nk.dedup(versions, id="id", **{**options, "keep": "oldest:date"})
    assert by_order.clusters.to_pylist() != local.clusters.to_pylist()


# the quick form writes such columns in test_files.py
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            (
                *("--sizes", "--source", "source", "--keep-up-to", "2"),
                *("--keep", "most-complete, oldest:date"),
            ),
            marks=pytest.mark.full,
        ),
        pytest.param(
            ("--sizes", "--source", "source", "--keep-up-to", "2"), marks=pytest.mark.full
        ),
        pytest.param(
            ("--annotate", "--sizes", "--document-weights", "sqrt"), marks=pytest.mark.full
        ),
    ],
)
def test_kept_files_have_the_columns_of_the_local_engine(
    options: tuple[str, ...], versions: pa.Table, spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(versions.slice(0, 40), folder / "a.parquet")
    pacsv.write_csv(versions.slice(40, 40), folder / "b.csv")
    rows = versions.slice(80).to_pylist()
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["dedup", str(folder), "--id", "id", "--shingle", "words:1", "--threshold", "0.5"]
    engines = ("local", "spark")
    for engine in engines:
        out = ["--engine", engine, "--out", str(tmp_path / engine)]
        assert run([*command, *options, *out]) == 0
    kept = [tmp_path / engine / "kept" for engine in engines]
    assert pq.read_table(kept[0] / "a.parquet").equals(pq.read_table(kept[1] / "a.parquet"))
    for name in ("b.csv", "c.jsonl"):
        assert (kept[0] / name).read_bytes() == (kept[1] / name).read_bytes()
    clusters = [pq.read_table(tmp_path / engine / "clusters.parquet") for engine in engines]
    assert rows_of(clusters[0]) == rows_of(clusters[1])
    reports = [json.loads((tmp_path / engine / "report.json").read_bytes()) for engine in engines]
    for facts in ("counts", "cluster_sizes"):
        assert reports[0][facts] == reports[1][facts]


def test_function_as_keep_policy_is_refused(versions_frame: DataFrame) -> None:
    with pytest.raises(UsageError, match=r"`keep` is a function.*give a keep policy"):
        nks.dedup(versions_frame, id="id", keep=max, **WORDS)
