"""Tables that go from tasks to the driver, and from the driver to tasks."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

PACKED = "packed binary"


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the columns of whole numbers of each batch, one after the other, as one value."""
    for batch in batches:
        if not len(batch):
            continue
        packed = b"".join(column.to_numpy().tobytes() for column in batch.columns)
        yield pa.record_batch([pa.array([packed], pa.binary())], ["packed"])


def read_packed(rows: DataFrame) -> Iterator[np.ndarray]:
    """Yields the columns of each batch of a table of whole numbers, int64 (columns, n)."""
    columns = len(rows.columns)
    for row in rows.mapInArrow(_pack, PACKED).toLocalIterator():
        yield np.frombuffer(row.packed, np.int64).reshape(columns, -1)


def to_frame(
    spark: SparkSession, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> DataFrame:
    """Returns batches of the driver as a DataFrame."""
    # PySpark cannot convert lists of a table without batches.
    empty = pa.RecordBatch.from_pylist([], schema)
    return spark.createDataFrame(pa.Table.from_batches([empty, *batches], schema))
