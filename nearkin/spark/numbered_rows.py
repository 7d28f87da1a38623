"""Numbers rows in an order, in parallel."""

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import LongType, StructField, StructType


def number_rows(rows: DataFrame, order: str | Column, *names: str) -> DataFrame:
    """Returns rows with their numbers.

    Args:
        rows: Rows.
        order: Column or expression that orders the rows.
        *names: Columns of the result.

    Returns:
        The column `number`, which counts the ordered rows from 0, and the named columns.
    """
    chosen = rows.orderBy(order).select(*names)
    number = StructField("number", LongType(), nullable=False)
    schema = StructType([number, *chosen.schema.fields])
    numbered = chosen.rdd.zipWithIndex().map(lambda pair: (pair[1], *pair[0]))
    return rows.sparkSession.createDataFrame(numbered, schema, verifySchema=False)
