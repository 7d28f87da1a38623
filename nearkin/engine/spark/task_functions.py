"""Adapts functions of Arrow tables to Spark, and collects the facts that tasks record."""

import json
from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

Facts = TypeVar("Facts")


def apply_to_groups(function: Callable[[pa.Table], pa.Table]) -> Callable[[pa.Table], pa.Table]:
    """Returns a plain function of one table, because Spark counts the arguments of a function."""

    def apply(rows: pa.Table) -> pa.Table:
        return function(rows)

    return apply


def apply_to_batches(
    function: Callable[[pa.Table], pa.Table],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a function of batches that applies a function of tables to each of them."""

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from function(pa.Table.from_batches([batch])).to_batches()

    return apply


def collect_facts(frame: DataFrame, kind: type[Facts]) -> list[Facts]:
    """Returns the facts that tasks recorded, one entry for each task or part."""
    facts: list[Facts] = [
        json.loads(row.facts)
        for row in frame.where(f.col("facts").isNotNull()).select("facts").collect()
    ]
    return facts
