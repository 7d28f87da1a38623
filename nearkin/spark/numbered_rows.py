"""Numbers rows in an order, in parallel."""

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import LongType, StructField, StructType


def number_rows(rows: DataFrame, order: str | Column, *names: str) -> DataFrame:
    """Returns rows with their numbers."""
    chosen = rows.orderBy(order).select(*names)
    number = StructField("number", LongType(), nullable=False)
    schema = StructType([number, *chosen.schema.fields])
    numbered = chosen.rdd.zipWithIndex().map(lambda pair: (pair[1], *pair[0]))
    return rows.sparkSession.createDataFrame(numbered, schema, verifySchema=False)
