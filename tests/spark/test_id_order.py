"""Tests of the order of ids in Spark, which is that of the local engine."""

import random

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import nearkin as nk
import nearkin.spark as nks
from nearkin.spark.id_order import id_order
from nearkin.stages.cluster.id_order import list_in_order
from tests.stages.cluster.test_id_order import IDS


def test_expression_orders_ids_as_the_local_engine_does(spark: SparkSession) -> None:
    names = random.Random(2).sample(IDS, len(IDS))
    frame = spark.createDataFrame([(name,) for name in names], "id string")
    ordered = frame.orderBy(id_order(f.col("id"))).collect()
    assert [row["id"] for row in ordered] == list_in_order(names)


def test_smallest_number_of_equal_documents_is_kept(spark: SparkSession) -> None:
    rows = [(100, "a b c d e"), (20, "a b c d e"), (3, "a b c d e"), (10, "x y z"), (9, "x y z")]
    frame = spark.createDataFrame(rows, "id long, text string")
    table = {"id": [id for id, _ in rows], "text": [text for _, text in rows]}
    new = spark.createDataFrame([(7, "a b c d e")], "id long, text string")
    with nks.dedup(frame, id="id") as result, nks.dedup(new, id="id", against=frame) as matched:
        kept = {row["id"] for row in result.clusters.where("kept").collect()}
        assert kept == {"3", "9"}
        local = nk.dedup(table, id="id").clusters.to_pylist()
        assert kept == {row["id"] for row in local if row["kept"]}
        assert matched.clusters.first()["duplicate_of"] == "3"
