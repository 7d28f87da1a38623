"""Document frequencies with Spark: tasks split hashes into parts, and a task counts each part."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.engine.document_frequencies import count_repeated
from nearkin.engine.spark.arrow_columns import (
    make_batch,
    read_binary_column,
    to_signed,
    to_unsigned,
)
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.sketching import Read, TaskRequest, read_files, read_rows
from nearkin.stages.sketch.resources import DocumentFrequencies
from nearkin.stages.verify.jaccard import SetBuilder

HASHES = "part int,hashes binary,documents long"
"""The columns of hashed documents: sorted hashes of one part, and the documents that were read."""
COUNTED = "hash long,times long"
"""The columns of counted hashes. Spark has no unsigned integers, so hashes are signed."""
PART_BYTES = 64 << 20
"""Approximate size of the hashes that a task counts, in bytes."""


@dataclass(frozen=True)
class Hashing:
    """The tasks that hash the shingles of documents.

    Attributes:
        request: Request of the run, without a frequency cut.
        parts: Number of parts. The first bits of a hash select the part.
    """

    request: TaskRequest
    parts: int

    def files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields HASHES of a task's files."""
        return self._parts(read_files(batches, self.request))

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields HASHES of the rows of a DataFrame."""
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
            yield make_batch(
                HASHES,
                part=np.arange(self.parts),
                hashes=pa.array(pieces, pa.binary()),
                documents=counts,
            )


def count_over_spark(
    spark: SparkSession,
    read: Callable[[Hashing], DataFrame],
    request: TaskRequest,
    tables: IntermediateTables,
    size: int,
    share: float = 0.0,
) -> DocumentFrequencies:
    """Counts the documents that contain each shingle.

    Args:
        size: Approximate size of all documents, in bytes.
    """
    parts = max(spark.sparkContext.defaultParallelism, -(-2 * size // PART_BYTES))
    hashed, seen = tables.counted(
        read(Hashing(request, parts)), "hashes", documents=f.sum("documents")
    )
    counted = hashed.groupBy("part").applyInArrow(counting(share * seen["documents"]), COUNTED)
    frequent = counted.toArrow()
    order = np.argsort(to_unsigned(frequent["hash"]))
    return DocumentFrequencies(
        seen["documents"],
        to_unsigned(frequent["hash"])[order],
        frequent["times"].to_numpy().astype(np.uint32)[order],
    )


def counting(times: float) -> Callable[[pa.Table], pa.Table]:
    """Returns a function that counts the hashes of a part which occur more often than a limit."""

    def count(part: pa.Table) -> pa.Table:
        hashes, often = count_repeated(read_binary_column(part["hashes"])[0].view(np.uint64), times)
        return pa.Table.from_batches(
            [make_batch(COUNTED, hash=to_signed(hashes), times=often.astype(np.int64))]
        )

    return count
