"""The columns about clusters that the Spark engine adds to documents."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.cluster_columns import (
    CLUSTER_SIZE,
    CLUSTER_SOURCES,
    DOCUMENT_WEIGHT,
    ClusterColumns,
)
from nearkin.engine.result_schema import NONE_LABEL
from nearkin.engine.spark.run import SparkRun


def with_cluster_columns(run: SparkRun, rows: DataFrame, added: ClusterColumns) -> DataFrame:
    """Returns rows of the clusters table with what the columns about clusters are made of."""
    if not added.names:
        return rows
    sizes = run.clusters.groupBy("cluster").agg(f.count("*").alias(CLUSTER_SIZE))
    rows = rows.join(sizes, "cluster")
    if not added.sources:
        return rows
    source = f.coalesce("source", f.lit(NONE_LABEL)).alias("source")
    sources = run.documents.select("doc", source)
    counted = run.clusters.join(sources, "doc").groupBy("cluster", "source").count()
    entries = f.array_sort(f.collect_list(f.struct("source", "count"))).alias(CLUSTER_SOURCES)
    return rows.join(counted.groupBy("cluster").agg(entries), "cluster")


@dataclass(frozen=True)
class ColumnsById:
    """A task that makes the columns about clusters, each row with the id of its document.

    Attributes:
        added: Columns about clusters.
    """

    added: ClusterColumns

    @property
    def schema(self) -> str:
        """The schema of the rows."""
        kinds = {
            CLUSTER_SIZE: "long",
            CLUSTER_SOURCES: "map<string,long>",
            DOCUMENT_WEIGHT: "double",
        }
        return ",".join(["id string", *(f"{name} {kinds[name]}" for name in self.added.names)])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = self.added.build_from_rows(batch)
            yield pa.record_batch([batch["id"], *columns.columns], ["id", *columns.schema.names])
