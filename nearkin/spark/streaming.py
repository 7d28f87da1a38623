"""Structured Streaming into an index: micro-batches upserted, with exactly-once effects.

After a restart Spark hands over the micro-batch again that was being worked on. Its rows come in
the order of their ids, and an upsert of a document that is there under its id with the same content
changes nothing, so what was done is not done twice and what was not is done.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.errors import UsageError
from nearkin.index.index import Index
from nearkin.keys import HashKey
from nearkin.sketch.resources import SpecResources


@dataclass(frozen=True)
class StreamUpserts:
    """What `writeStream.foreachBatch` calls.

    Attributes:
        url: Of the index's store, which exists.
        id: Column of ids.
        text: Column of texts (or of vectors, for an index of vectors).
        scope: That documents belong to.
        rejected: Folder for rows without an id or a text, path or URL; without one such a row is an
            error.
        key: That a keyed Spec names.
    """

    url: str
    id: str = "id"
    text: str = "text"
    scope: str = "default"
    rejected: str | None = None
    key: HashKey | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Upserts one micro-batch; the driver holds a partition of it at a time.

        Raises:
            UsageError: A row has no id or no text, and there is no folder for such rows.
        """
        rows = batch.select(
            f.col(self.id).cast("string").alias("id"), f.col(self.text).alias("text")
        )
        unfit = f.col("id").isNull() | f.col("text").isNull()
        self._set_aside(rows.where(unfit), number)
        with Index.open(self.url, resources=SpecResources(self.key)) as index:
            ordered = self._ordered(rows.where(~unfit))
            while some := list(islice(ordered, index.settings.max_batch)):
                index.upsert_many(
                    self.scope, [text for _, text in some], [name for name, _ in some]
                )

    def _ordered(self, rows: DataFrame) -> Iterator[tuple[str, Any]]:
        return ((row.id, row.text) for row in rows.orderBy("id").toLocalIterator())

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
        elif found := rows.limit(1).collect():
            where = f"document {found[0].id!r}" if found[0].id is not None else "a row"
            what = "text" if found[0].id else "id"
            raise UsageError(
                f"{where} of micro-batch {number} has no {what}; name a folder for such rows with "
                f"rejected="
            )
