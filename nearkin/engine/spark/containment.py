"""The candidate pairs of which one document may contain the other, over Spark.

The search is that of the local engine: the smallest shingle hashes of each document are looked up
among all shingles of the others. Hashes are rows of tables, which are joined.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.engine.containment_margins import SMALLEST, containment_margins
from nearkin.engine.spark.arrow_columns import (
    make_batch,
    read_binary_column,
    to_numbers,
    to_signed,
)
from nearkin.engine.spark.candidates import CandidateSearch, CandidateTables, may_share_block
from nearkin.engine.spark.document_tables import DocumentTables
from nearkin.engine.spark.pair_bins import apply_to_bins, assign_bins, list_documents_of_bins
from nearkin.engine.spark.sketching import ACROSS

HASHES_AT_ONCE = 1 << 18
"""Number of shingle hashes that a batch of rows has approximately."""
AGREEING = "a long,b long,agree int"


@dataclass(frozen=True)
class ShingleRows:
    """A task that makes a row of each shingle hash of documents.

    Attributes:
        across: Columns of sources: one, or none if all documents are compared.
        most: Largest number of hashes of a document, of which the smallest are taken, or None.
    """

    across: tuple[str, ...]
    most: int | None = None

    @property
    def schema(self) -> str:
        """The schema of the rows."""
        across = [f"{name} long" for name in self.across]
        return ",".join(["doc long", "hash long", "size long", "block long", *across])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            hashes = batch["payload0"].nbytes // np.dtype(np.uint64).itemsize
            parts = max(1, -(-hashes // HASHES_AT_ONCE))
            rows = max(1, -(-len(batch) // parts))
            for start in range(0, len(batch), rows):
                yield self._list_hashes(batch.slice(start, rows))

    def _list_hashes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        data, lengths = read_binary_column(batch["payload0"])
        hashes = data.view(np.uint64)
        sizes = lengths // hashes.itemsize
        counts = sizes if self.most is None else np.minimum(sizes, self.most)
        # The hashes of a document are sorted.
        first = np.cumsum(sizes) - sizes
        positions = np.arange(counts.sum()) + np.repeat(
            first - (np.cumsum(counts) - counts), counts
        )
        columns = {
            name: np.repeat(to_numbers(batch[name]), counts)
            for name in ("doc", "block", *self.across)
        }
        return make_batch(
            self.schema,
            hash=to_signed(hashes[positions]),
            size=np.repeat(sizes, counts),
            **columns,
        )


@dataclass(frozen=True)
class SparkContainmentSearch:
    """The search for pairs of which one document may contain the other.

    Attributes:
        document_tables: Tables of documents.
        search: Search by bands, whose tasks compare signatures.
        threshold: Smallest containment of one document of a pair in the other, in (0, 1].
        payload_bytes: Mean size of a document's payload, in bytes.
    """

    document_tables: DocumentTables
    search: CandidateSearch
    threshold: float
    payload_bytes: int

    def add_pairs(self, banded: CandidateTables, active: DataFrame) -> CandidateTables:
        """Returns candidate pairs with those that are found by containment."""
        tables = self.document_tables.tables
        across = self.document_tables.request.across_columns
        payloads = self.document_tables.payloads(active.select("doc"))
        sets = payloads.join(active.select("doc", "block", *across), "doc")
        sets = tables.keep(sets.select("doc", "payload0", "block", *across), "shingle-sets")
        smallest = ShingleRows(across, SMALLEST)
        looked_up = tables.keep(sets.mapInArrow(smallest, smallest.schema), "smallest-hashes")
        crowded, counts = tables.counted(self._find_crowded(looked_up), "crowded-hashes")
        contained = self._look_up(looked_up.join(crowded, "hash", "left_anti"), sets)
        further = contained.join(banded.pairs.select("a", "b"), ["a", "b"], "left_anti")
        further, further_counts = tables.counted(further, "contained")
        agreeing = self._count_agreements(further, further_counts["rows"])
        pairs, pair_counts = tables.counted(
            banded.pairs.unionByName(agreeing), "candidates-with-contained"
        )
        stats = replace(banded.stats, survivors=pair_counts["rows"], hot_shingles=counts["rows"])
        return CandidateTables(pairs, pair_counts["rows"], banded.hot, stats)

    def _find_crowded(self, looked_up: DataFrame) -> DataFrame:
        """Returns (hash): those that too many documents have to be looked up."""
        request = self.document_tables.request
        counted = looked_up.groupBy("hash", *request.across_columns).count()
        documents = f.sum("count")
        size: Column = documents
        if request.across_columns:
            # Pairs of one source do not count: the size is that of a bucket with as many pairs.
            pairs = (documents * documents - f.sum(f.col("count") * f.col("count"))) / 2
            size = f.floor((1 + f.sqrt(1 + 8 * pairs)) / 2)
        sizes = counted.groupBy("hash").agg(size.alias("documents"))
        return sizes.where(f.col("documents") > request.options.complete_bucket_size).select("hash")

    def _look_up(self, looked_up: DataFrame, sets: DataFrame) -> DataFrame:
        """Returns (a, b): documents with enough hits of one in the other, each pair once."""
        request = self.document_tables.request
        across = request.across_columns
        rows = ShingleRows(across)
        shingles = sets.mapInArrow(rows, rows.schema)
        margins = containment_margins(self.threshold, request.options.recall, SMALLEST).tolist()
        needed = looked_up.groupBy("doc").agg(f.count("*").cast("int").alias("hashes"))
        margin = f.element_at(f.array(*map(f.lit, margins)), f.col("hashes") + 1)
        needed = needed.select("doc", margin.alias("margin"))
        names = {"doc": "other", "size": "other_size", ACROSS: "other_source"}
        others = shingles.withColumnsRenamed(names)
        if request.options.bands_by_block:
            joined = looked_up.join(others, ["hash", "block"])
        else:
            others = others.withColumnRenamed("block", "other_block")
            joined = looked_up.join(others, "hash").where(may_share_block("block", "other_block"))
        is_larger = (f.col("other_size") > f.col("size")) | (
            (f.col("other_size") == f.col("size")) & (f.col("other") > f.col("doc"))
        )
        joined = joined.where(is_larger)
        if across:
            joined = joined.where(f.col(ACROSS) != f.col("other_source"))
        hits = joined.groupBy("doc", "other").agg(f.count("*").alias("hits"))
        enough = hits.join(needed, "doc").where(f.col("hits") >= f.col("margin"))
        return enough.select(
            f.least("doc", "other").alias("a"), f.greatest("doc", "other").alias("b")
        )

    def _count_agreements(self, pairs: DataFrame, count: int) -> DataFrame:
        """Returns (a, b, agree) of pairs."""
        in_bins = assign_bins(pairs, count, self.payload_bytes)
        signatures = self.search.documents.select("doc", "signature")
        documents = list_documents_of_bins(in_bins).join(signatures, "doc")
        return apply_to_bins(in_bins, documents, self.search.scoring.agreeing, AGREEING)
