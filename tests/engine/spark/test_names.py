"""Columns of a DataFrame with the names that nearkin uses inside."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import UsageError
from tests.engine.spark.conftest import rows_of

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "The quick brown fox jumps over the lazy dog",
    "something else entirely",
]


def test_columns_of_a_frame_may_have_any_name(spark: SparkSession) -> None:
    """The clusters, and the rows that stay, are those of the local engine."""
    table = pa.table(
        {
            "the.body": TEXTS,
            "the.key": ["a", "b", "c"],
            "text": ["2", "10", "3"],
            "id": ["x", "x", "y"],
            "wanted": ["p", "p", "q"],
            "kept": ["r", "s", "t"],
            "doc": [1, 1, 1],
            "sort": [["l"], ["l"], ["m"]],
        }
    )
    frame = spark.createDataFrame(table.to_pandas())
    options = {
        "text": "the.body",
        "id": "the.key",
        "keep": "text asc, wanted desc",
        "source": "id",
        "split": "sort",
        "block_by": "doc",
    }
    local = nk.dedup(table, **options)
    with nks.dedup(frame, **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        kept = result.kept.toArrow()
        assert sorted(kept["the.key"].to_pylist()) == ["a", "c"]
        assert kept.column_names == table.column_names
        with pytest.raises(UsageError, match="deduplicate again with related"):
            _ = result.related
    assert local.kept.tolist() == [True, False, True]


def test_joined_columns_are_those_of_the_local_engine(spark: SparkSession) -> None:
    body = "one two three four five six seven eight nine ten"
    rows = [
        ("a", "a title", body),
        ("b", "a title", f"{body} today"),
        ("c", None, body),
        ("d", None, None),
    ]
    frame = spark.createDataFrame(rows, "id string, title string, body string")
    table = {name: [row[at] for row in rows] for at, name in enumerate(("id", "title", "body"))}
    local = nk.dedup(table, id="id", text=["title", "body"])
    with nk.spark.dedup(frame, id="id", text=["title", "body"]) as result:
        clusters = {row.id: (row.cluster, row.kept) for row in result.clusters.collect()}
        reasons = [row.reason for row in result.rejected.collect()]
    expected = local.clusters.arrow.to_pylist()
    assert clusters == {row["id"]: (row["cluster"], row["kept"]) for row in expected}
    assert reasons == local.rejected["reason"].to_pylist() == ["title and body are null"]
