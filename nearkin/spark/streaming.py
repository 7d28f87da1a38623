"""Structured Streaming into an index, with exactly-once effects.

After a restart, Spark delivers the interrupted micro-batch again. Its rows are ordered by id, and
an upsert of a stored document with the same content changes nothing. Therefore rows that were
upserted before have no second effect.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.errors import UsageError
from nearkin.index.index import Index
from nearkin.settings.keys import HashKey
from nearkin.spark.frame_columns import read_column
from nearkin.spark.id_order import id_order
from nearkin.stages.sketch.resources import SpecResources


@dataclass(frozen=True)
class StreamUpserts:
    """The function that `writeStream.foreachBatch` calls.

    Attributes:
        url: URL of the store of an existing index.
        id: Name of the column of ids.
        text: Name of the column of texts, or of vectors for an index of vectors.
        scope: Scope of the documents.
        rejected: Path or URL of a folder for rows without an id or a text. If it is None, such a
            row is an error.
        key: Hash key of the index, if it has one.
    """

    url: str
    id: str = "id"
    text: str = "text"
    scope: str = "default"
    rejected: str | None = None
    key: HashKey | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Upserts one micro-batch. The driver reads one partition at a time."""
        rows = batch.select(
            read_column(batch, self.id).cast("string").alias("id"),
            read_column(batch, self.text).alias("text"),
        )
        unfit = f.col("id").isNull() | f.col("text").isNull()
        self._set_aside(rows.where(unfit), number)
        with Index.open(self.url, resources=SpecResources(self.key)) as index:
            ordered = self._iterate_by_id(rows.where(~unfit))
            while portion := list(islice(ordered, index.settings.max_batch)):
                index.upsert_many(
                    self.scope, [text for _, text in portion], [name for name, _ in portion]
                )

    def _iterate_by_id(self, rows: DataFrame) -> Iterator[tuple[str, Any]]:
        ordered = rows.orderBy(id_order(f.col("id")))
        return ((row.id, row.text) for row in ordered.toLocalIterator())

    def _set_aside(self, rows: DataFrame, number: int) -> None:
        """Writes the rejected rows of a batch to a file with its number.

        A batch that Spark delivers twice overwrites its file.
        """
        if self.rejected is not None:
            reason = f.when(f.col("id").isNull(), f"the id in {self.id} is null").otherwise(
                f"{self.text} is null"
            )
            rows.select("id", reason.alias("reason")).write.mode("overwrite").parquet(
                f"{self.rejected}/batch={number}"
            )
        elif first_rows := rows.limit(1).collect():
            where = f"document {first_rows[0].id!r}" if first_rows[0].id is not None else "a row"
            what = "id" if first_rows[0].id is None else "text"
            raise UsageError(
                f"{where} of micro-batch {number} has no {what}; name a folder for such rows with "
                f"rejected="
            )
