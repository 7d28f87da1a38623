from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import UsageError
from tests.engine.reference_oracle import make_texts, share_texts


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    """New documents and a reference, whose ids collide."""
    old = make_texts(31, 60)
    new = share_texts(31, old, 45)
    return make_table(new), make_table(old)


def make_table(texts: list[str]) -> pa.Table:
    names = ["é", "#", "a#b:1", "n1", "r1", *(f"d{number}" for number in range(len(texts)))]
    blocks = [f"b{number % 3}" for number in range(len(texts))]
    return pa.table({"id": names[: len(texts)], "text": texts, "block": blocks})


def to_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table.to_pandas())


@pytest.mark.parametrize(
    "options",
    [
        {"block_by": "block"},
        pytest.param({"only_against": True}, marks=pytest.mark.full),
        pytest.param({"bands": 16, "rows": 3, "keep": "central"}, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_rows_are_those_of_the_local_engine(
    spark: SparkSession, tables: tuple[pa.Table, pa.Table], options: dict[str, Any]
) -> None:
    new, old = tables
    local = nk.dedup(new, id="id", against=old, threshold=0.6, **options)
    want = {row["id"]: row for row in local.clusters.arrow.to_pylist()}
    with nks.dedup(
        to_frame(spark, new), id="id", against=to_frame(spark, old), threshold=0.6, **options
    ) as result:
        rows = {row["id"]: row.asDict() for row in result.clusters.collect()}
        assert rows == want
        assert result.statistics == local.statistics
        assert {row["id"] for row in result.kept.collect()} == {
            id for id, row in want.items() if row["kept"]
        }
        recorded = result.stages["against"]
        assert recorded["documents"] == old.num_rows
        with pytest.raises(UsageError, match="ids of clusters can be those of the reference"):
            result.cluster_columns()
    assert {"reference"} <= {row["matched_in"] for row in want.values()}


def test_contradictory_references_are_refused(
    spark: SparkSession, tables: tuple[pa.Table, pa.Table]
) -> None:
    frame = to_frame(spark, tables[0])
    refused: list[tuple[dict[str, Any], str]] = [
        ({"only_against": True}, "no effect without against="),
        ({"against": frame, "extend": "saved"}, "cannot be combined with extend="),
        ({"against": frame, "merge_parts": True}, "cannot be combined with extend="),
        ({"against": frame, "across": "block"}, "whatever their source is"),
        ({"against": frame.drop("text")}, "has no column 'text'"),
        ({"against": tables[1]}, "not a Spark DataFrame"),
    ]
    for options, message in refused:
        with pytest.raises(UsageError, match=message):
            nks.dedup(frame, id="id", **options)
