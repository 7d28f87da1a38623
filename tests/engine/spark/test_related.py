"""Spark links the same related documents as the local engine, row for row."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.cli.app import run
from nearkin.engine.spark.cluster_tables import with_outcomes
from tests.engine.local.test_related_documents import FLAGS, WORDS, make_versions
from tests.engine.spark.conftest import ordered_pairs, rows_of


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_versions(11)


def test_a_blocked_document_is_neither_the_same_nor_related_nor_new(spark: SparkSession) -> None:
    kinds = ["unique", "unique", "near", "blocked"]
    clusters = spark.createDataFrame(list(enumerate(kinds)), "doc long, kind string").coalesce(1)
    related = spark.createDataFrame([(0, 3)], "a long, b long").coalesce(1)
    rows = with_outcomes(clusters, related).collect()
    assert {row.doc: row.outcome for row in rows} == {0: "related", 1: "new", 2: "same", 3: None}


# the quick form relates fingerprints, in test_equality.py
@pytest.mark.full
def test_the_same_documents_are_related_as_by_the_local_engine(
    table: pa.Table, spark: SparkSession
) -> None:
    options = {**WORDS, "related": 0.3, "bands": 40, "rows": 2}
    local = nk.dedup(table, **options)
    frame = spark.createDataFrame(table.to_pylist(), "id string, text string")
    with nks.dedup(frame.repartition(3), **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        assert ordered_pairs(result.related.toArrow()) == ordered_pairs(local.related.arrow)
        assert len(local.related) > 50
        assert result.pairs.count() == len(local.pairs)
        assert result.statistics == local.statistics


@pytest.mark.full
def test_files_have_the_tables_of_the_local_engine(
    table: pa.Table, spark: SparkSession, tmp_path: Path
) -> None:
    folder = str(tmp_path)
    pq.write_table(table, f"{folder}/in.parquet")
    for engine in ("local", "spark"):
        out = ["--engine", engine, "--annotate", "--out", f"{folder}/{engine}"]
        assert run(["dedup", f"{folder}/in.parquet", *FLAGS, "--related", "0.4", *out]) == 0
    for name in ("related.parquet", "clusters.parquet", "kept/in.parquet"):
        tables = [pq.read_table(f"{folder}/{engine}/{name}") for engine in ("local", "spark")]
        assert tables[0].to_pylist() == tables[1].to_pylist()


@pytest.mark.full
def test_documents_beyond_the_distance_are_related(spark: SparkSession) -> None:
    hashes = [f"{value:016x}" for value in (0, 1, 0b11111, 0b1111111, 2**63, 2**40 - 1)]
    table = pa.table({"id": [f"d{number}" for number in range(len(hashes))], "hash": hashes})
    options: dict[str, Any] = {"fingerprint": "hash", "distance": 3, "related": 0.9, "id": "id"}
    local = nk.dedup(table, **options)
    frame = spark.createDataFrame(table.to_pylist(), "id string, hash string")
    with nks.dedup(frame, **options) as result:
        assert ordered_pairs(result.related.toArrow()) == ordered_pairs(local.related.arrow)
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
    assert set(local.clusters["outcome"].to_pylist()) == {"same", "related", "new"}
