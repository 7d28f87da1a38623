"""Document frequencies over a cluster: tasks sort the distinct hashes of their documents into parts, a task counts a part."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.engine.document_frequencies import count_repeated
from nearkin.engine.spark.arrow_columns import content, signed, table, unsigned
from nearkin.engine.spark.materialized import Tables
from nearkin.engine.spark.sketching import Read, TaskRequest, read_files, read_rows
from nearkin.sketch.resources import DocumentFrequencies
from nearkin.verify.jaccard import SetBuilder

HASHES = "part int,hashes binary,documents long"
COUNTED = "hash long,times long"
PART_BYTES = 64 << 20


@dataclass(frozen=True)
class Hashing:
    """Documents to the hashes of their shingles, by part (the first bits of a hash).

    Attributes:
        request: What is asked; a frequency cut is not made yet.
        parts: How many.
    """

    request: TaskRequest
    parts: int

    def files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of files."""
        return self._parts(read_files(batches, self.request))

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of a DataFrame's rows."""
        return self._parts(read_rows(batches, self.request))

    def _parts(self, reads: Iterator[Read]) -> Iterator[pa.RecordBatch]:
        builder = SetBuilder(self.request.resources.shingler(self.request.options.spec))
        bounds = (
            np.arange(1, self.parts, dtype=np.uint64) * np.uint64(2**32 // self.parts)
        ) << np.uint64(32)
        for read in reads:
            hashes = np.sort(builder.build(read.documents[self.request.columns.content]).hashes)
            pieces = [
                piece.tobytes() for piece in np.split(hashes, np.searchsorted(hashes, bounds))
            ]
            counts = [len(read.docs), *[0] * (self.parts - 1)]
            yield table(
                HASHES,
                part=np.arange(self.parts),
                hashes=pa.array(pieces, pa.binary()),
                documents=counts,
            )


def count_over_spark(
    spark: SparkSession,
    read: Callable[[Hashing], DataFrame],
    request: TaskRequest,
    tables: Tables,
    size: int,
    share: float = 0.0,
) -> DocumentFrequencies:
    """In how many documents each shingle occurs, of those in two or more and in more than a share of them.

    Args:
        spark: The session.
        read: Reads the documents.
        request: What is asked.
        tables: Where counts go on their way.
        size: Bytes of all documents, about.
        share: Of the documents.
    """
    parts = max(spark.sparkContext.defaultParallelism, -(-2 * size // PART_BYTES))
    hashed, seen = tables.counted(
        read(Hashing(request, parts)), "hashes", documents=f.sum("documents")
    )
    counted = hashed.groupBy("part").applyInArrow(counting(share * seen["documents"]), COUNTED)
    found = counted.toArrow()
    order = np.argsort(unsigned(found["hash"]))
    return DocumentFrequencies(
        seen["documents"],
        unsigned(found["hash"])[order],
        found["times"].to_numpy().astype(np.uint32)[order],
    )


def counting(times: float) -> Callable[[pa.Table], pa.Table]:
    """Counts the hashes of a part that occur more than so many times."""

    def count(part: pa.Table) -> pa.Table:
        hashes, often = count_repeated(content(part["hashes"])[0].view(np.uint64), times)
        return pa.Table.from_batches(
            [table(COUNTED, hash=signed(hashes), times=often.astype(np.int64))]
        )

    return count
