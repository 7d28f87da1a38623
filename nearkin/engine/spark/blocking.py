"""The comparison of the documents of a run over Spark with a blocklist."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.blocklist.given_documents import GivenDocuments
from nearkin.engine.blocklist.search import EntrySearch
from nearkin.engine.spark.arrow_columns import to_numbers
from nearkin.engine.spark.document_tables import DocumentTables
from nearkin.engine.spark.pair_bins import BIN_BYTES
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.task_functions import apply_to_groups
from nearkin.engine.spark.verification import with_payloads
from nearkin.engine.stats import BlocklistStats

BLOCKED_ROWS = "doc long, blocked_by string, block_similarity double"
BYTES_PER_SHINGLE = 8


class BlockedTable(NamedTuple):
    """The documents that are like an entry of a blocklist."""

    blocked: DataFrame
    """(doc, blocked_by, block_similarity) of each such document."""
    stats: BlocklistStats


@dataclass(frozen=True)
class SparkBlocklist:
    """A comparison of the documents of a run with the entries of a blocklist. It misses none.

    Attributes:
        blocklist: The blocklist, of the Spec of the run. Each task receives it.
    """

    blocklist: Blocklist | GivenDocuments

    def match(
        self, document_tables: DocumentTables, compared: DataFrame, copies: DataFrame | None = None
    ) -> BlockedTable:
        """Finds the documents that are like an entry, each with the most similar one."""
        payloads = document_tables.payloads(compared.select("doc"))
        if not len(self.blocklist):
            payloads = payloads.where(f.lit(False))
        task = _BlockingTask(document_tables.request, self.blocklist)
        tables = document_tables.tables
        columns = ("doc", "blocked_by", "block_similarity")
        if document_tables.request.merge_parts:
            # All parts of a document are compared together.
            counted = document_tables.documents.agg(f.sum("shingles")).first()[0] or 0
            bins = max(1, counted * BYTES_PER_SHINGLE // BIN_BYTES)
            in_bins = payloads.withColumn("bin", f.pmod(f.xxhash64("doc"), f.lit(bins)))
            compare = apply_to_groups(task.compare_group)
            blocked = in_bins.groupBy("bin").applyInArrow(compare, BLOCKED_ROWS)
        else:
            blocked = payloads.mapInArrow(task, BLOCKED_ROWS)
        blocked = blocked.select(*columns)
        if copies is not None:
            heads = tables.keep(blocked, "blocked-heads")
            followers = copies.join(heads.withColumnRenamed("doc", "head"), "head")
            blocked = heads.unionByName(followers.select(*columns))
        table, counts = tables.counted(blocked, "blocked")
        stats = BlocklistStats(entries=len(self.blocklist), blocked=counts["rows"])
        return BlockedTable(table, stats)


@dataclass(frozen=True)
class _BlockingTask:
    """The task that compares documents with the entries.

    Attributes:
        request: Request of the run.
        blocklist: The blocklist.
    """

    request: TaskRequest
    blocklist: Blocklist | GivenDocuments

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        search = self._open_search()
        for batch in batches:
            yield self._find(search, pa.Table.from_batches([batch]))

    def compare_group(self, documents: pa.Table) -> pa.Table:
        """Returns BLOCKED_ROWS of some documents, with all parts of each of them."""
        return pa.Table.from_batches([self._find(self._open_search(), documents)])

    def _open_search(self) -> EntrySearch:
        return self.blocklist.search(self.request.measure, truncates_hashes=True)

    def _find(self, search: EntrySearch, rows: pa.Table) -> pa.RecordBatch:
        """Returns BLOCKED_ROWS of documents."""
        documents, payload = with_payloads(rows, self.request)
        docs = to_numbers(documents["doc"])
        matches = search.find(payload, self.request.options.blocking_threshold)
        names = [self.blocklist.ids[entry] for entry in matches.entries.tolist()]
        return pa.record_batch(
            [
                pa.array(docs[matches.documents], pa.int64()),
                pa.array(names, pa.string()),
                pa.array(matches.similarity, pa.float64()),
            ],
            ["doc", "blocked_by", "block_similarity"],
        )
