"""Spark compares several fields as the local engine does, and finds the same pairs."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.cli.app import run
from nearkin.errors import UsageError
from tests.engine.spark.conftest import rows_of
from tests.engine.test_fields_of_all_kinds import (
    clumps,
    fields_of,
    fulfils,
    listed,
    options_of,
    similar_pairs,
    table_of,
)
from tests.engine.test_given_fingerprints import SCANS

SCHEMA = (
    "id string, title string, body string, tags array<string>, image string, "
    "embedding array<double>"
)
BANDED: dict[str, Any] = {"shingle": "words:1", "bands": 6, "rows": 1, "k": 16}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "candidates of two fields": ("body or title and tags", BANDED),
    "candidates of two kinds": ("body or image and tags", BANDED),
    "candidates of one field": ("title and (body or tags)", BANDED),
    "every pair compared": ("title or image or tags and embedding", {"shingle": "words:1"}),
    "hot buckets": (
        "title or image",
        {**BANDED, "hot_bucket_size": 3, "pair_budget": 3, "fanout": 4},
    ),
}
QUICK = "candidates of two fields"


def rows_for_spark(documents: list[Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table_of(documents).to_pylist()
    for row in rows:
        row["image"] = None if row["image"] is None else f"{row['image']:016x}"
    return rows


@pytest.mark.parametrize(
    "case",
    [pytest.param(name, marks=() if name == QUICK else pytest.mark.full) for name in CASES],
)
def test_the_result_is_that_of_the_local_engine(case: str, spark: SparkSession) -> None:
    condition, options = CASES[case]
    documents = clumps(21, 90)
    asked = {"id": "id", "fields": fields_of(condition), "accept": condition, **options}
    frame = spark.createDataFrame(rows_for_spark(documents), SCHEMA).repartition(2)
    local = nk.dedup(table_of(documents), **asked)
    expected = nk.pairs(table_of(documents), **asked).pairs.arrow
    with nks.dedup(frame, **asked) as result:
        clusters = result.clusters.toArrow()
        pairs = result.pairs.toArrow()
    if case == "hot buckets":
        for row in clusters.to_pylist():
            document, leader = (documents[int(row[name][1:])] for name in ("id", "cluster"))
            assert row["kept"] or row["kind"] == "exact" or fulfils(condition, document, leader)
        return
    assert rows_of(clusters) == rows_of(local.clusters.arrow)
    assert 10 < local.kept.sum() < 80
    found = {(min(pair), max(pair)) for pair in listed(pairs)}
    assert found <= similar_pairs(condition, documents)
    assert found == {(min(pair), max(pair)) for pair in listed(expected)}
    if "of two" in case:
        assert pairs["estimate"].null_count == len(pairs) > 10


@pytest.mark.parametrize(
    "condition",
    ["body or title and tags", pytest.param("image or title", marks=pytest.mark.full)],
)
def test_repeated_documents_of_a_reference_are_those_of_the_local_engine(
    condition: str, spark: SparkSession
) -> None:
    documents = clumps(24, 90)
    table = table_of(documents)
    asked = {"id": "id", "fields": fields_of(condition), "accept": condition, "shingle": "words:1"}
    local = nk.dedup(table.slice(0, 40), against=table.slice(40), **asked)
    frames = [
        spark.createDataFrame(rows, SCHEMA)
        for rows in (rows_for_spark(documents)[:40], rows_for_spark(documents)[40:])
    ]
    with nks.dedup(frames[0], against=frames[1], **asked) as result:
        clusters = result.clusters.toArrow()
    assert rows_of(clusters) == rows_of(local.clusters.arrow)
    assert {"reference", "this run"} <= set(clusters["matched_in"].to_pylist())


@pytest.mark.full
@pytest.mark.parametrize("has_reference", [False, True])
def test_files_are_compared_over_spark_too(
    has_reference: bool, tmp_path: Path, spark: SparkSession
) -> None:
    condition = "title and tags or image"
    source = tmp_path / "docs.parquet"
    table = table_of(clumps(22, 90))
    pq.write_table(table.slice(0, 50), source)
    given = ["dedup", str(source), *options_of(condition)]
    if has_reference:
        pq.write_table(table.slice(50), tmp_path / "old.parquet")
        given += ["--against", str(tmp_path / "old.parquet")]
    assert run([*given, "--engine", "spark", "--out", str(tmp_path / "spark")]) == 0
    assert run([*given, "--out", str(tmp_path / "local")]) == 0
    over_spark = pq.read_table(tmp_path / "spark" / "clusters.parquet")
    local = pq.read_table(tmp_path / "local" / "clusters.parquet")
    assert rows_of(over_spark) == rows_of(local)
    if has_reference:
        assert {"reference", "this run"} <= set(local["matched_in"].to_pylist())


def test_growth_and_parts_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame(rows_for_spark(clumps(23, 5)), SCHEMA)
    for parameters in ({"extend": "saved"}, {"merge_parts": True}):
        with pytest.raises(UsageError, match="cannot be combined with fields"):
            nks.dedup(frame, id="id", fields=["title:jaccard>=0.5"], **parameters)
    with pytest.raises(UsageError, match="'title' is string, not an array"):
        nks.dedup(frame, id="id", fields=["title:cosine>=0.5"])
    with pytest.raises(UsageError, match="no column 'other'"):
        nks.dedup(frame, id="id", fields=["other:jaccard>=0.5"])


@pytest.mark.parametrize("ignored", [None, ["0" * 16, "f" * 16]])
def test_constant_fingerprints_count_as_in_the_local_engine(
    spark: SparkSession, ignored: list[str] | None
) -> None:
    options: dict[str, Any] = {"id": "id", "fingerprint": "hash", "distance": 2}
    local = nk.dedup(SCANS, ignore_fingerprint=ignored, **options)
    rows = list(zip(SCANS["id"], SCANS["hash"], strict=True))
    frame = spark.createDataFrame(rows, "id string, hash string")
    with nks.dedup(frame, ignore_fingerprint=ignored, **options) as result:
        kinds = {row["id"]: row["kind"] for row in result.clusters.collect()}
        assert kinds == {row["id"]: row["kind"] for row in local.clusters.to_pylist()}
        assert result.statistics["empty"] == local.statistics["empty"]
        assert set(result.warnings) == set(local.warnings)
