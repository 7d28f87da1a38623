"""Spark splits a DataFrame into the same groups as the local engine."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import UsageError
from tests.engine.test_value_groups import table_with_values


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Documents with equal values, copies, near-duplicates, empty texts and a null."""
    table = table_with_values(4)
    column = table.schema.get_field_index("text")
    texts = table["text"].to_pylist()
    texts[5:8] = [""] * 3
    texts[8] = None
    texts[9] = texts[10]
    return table.set_column(column, "text", pa.array(texts, pa.string()))


def test_groups_are_those_of_the_local_engine(table: pa.Table, spark: SparkSession) -> None:
    options = {"id": "id", "shingle": "words:1", "threshold": 0.5, "same": "doi", "url": "link"}
    local = nk.split(table, (0.6, 0.4), **options)  # type: ignore[arg-type]
    frame = spark.createDataFrame(
        table.to_pylist(), "id string, text string, doi string, link string"
    )
    with nks.split(frame, (0.6, 0.4), **options) as result:  # type: ignore[arg-type]
        rows = sorted((row.id, row.group, row.cluster) for row in result.groups.collect())
        train = {row.id for row in result.select("train").collect()}
        with pytest.raises(UsageError, match=r"there is no group 'tset'.*test"):
            result.select("tset")
        facts = result.facts
    names = ("id", "group", "cluster")
    assert rows == sorted(
        tuple(row[name] for name in names) for row in local.groups.arrow.to_pylist()
    )
    assert train == {row[0] for row in rows if row[1] == "train"}
    clusters = [row[2] for row in rows]
    largest = max(map(clusters.count, clusters))
    assert facts["pairs"] == local.facts["pairs"] > 10
    assert facts["largest_cluster"]["documents"] == largest > 2  # type: ignore[index]
    same = ("documents", "clusters", "groups", "pairs_of_random_split")
    assert [facts[name] for name in same] == [local.facts[name] for name in same]  # type: ignore[literal-required]


def test_contradictory_splits_are_refused(table: pa.Table, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"not a Spark DataFrame; nearkin\.split takes"):
        nks.split(table, id="id")
    frame = spark.createDataFrame([("a", "text")], "id string, text string")
    with pytest.raises(UsageError, match="which a split would separate"):
        nks.split(frame, id="id", across="text")
    with pytest.raises(UsageError, match="must add up to 1"):
        nks.split(frame, (0.5, 0.6), id="id")
