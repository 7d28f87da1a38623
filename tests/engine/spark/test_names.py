"""Columns of a DataFrame with the names that nearkin uses inside."""

import pyarrow as pa
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
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
            "body": TEXTS,
            "key": ["a", "b", "c"],
            "text": ["2", "10", "3"],
            "id": ["x", "x", "y"],
            "wanted": ["p", "p", "q"],
            "kept": ["r", "s", "t"],
            "doc": [1, 1, 1],
            "sort": [["l"], ["l"], ["m"]],
        }
    )
    frame = spark.createDataFrame(table.to_pandas())
    asked = {
        "text": "body",
        "id": "key",
        "keep": "text asc, wanted desc",
        "source": "id",
        "split": "sort",
        "block_by": "doc",
    }
    local = nk.dedup(table, **asked)
    with nks.dedup(frame, **asked) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        kept = result.kept.toArrow()
        assert sorted(kept["key"].to_pylist()) == ["a", "c"]
        assert kept.column_names == table.column_names
    assert local.kept.tolist() == [True, False, True]
