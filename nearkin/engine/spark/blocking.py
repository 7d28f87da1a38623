"""The comparison of the documents of a run over Spark with a blocklist."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.blocklist.blocklist import Blocklist
from nearkin.engine.spark.arrow_columns import to_numbers
from nearkin.engine.spark.document_tables import DocumentTables
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.verification import with_payloads
from nearkin.engine.stats import BlocklistStats

BLOCKED_ROWS = "doc long, blocked_by string, block_similarity double"


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

    blocklist: Blocklist

    def match(
        self, document_tables: DocumentTables, first: DataFrame, copies: DataFrame
    ) -> BlockedTable:
        """Finds the documents that are like an entry, each with the most similar one.

        Args:
            document_tables: Tables of the documents.
            first: (doc) of the documents that are compared: the first of each exact group.
            copies: (doc, head, ...): the documents that another one represents.
        """
        payloads = document_tables.payloads(first.select("doc"))
        if not len(self.blocklist):
            payloads = payloads.where(f.lit(False))
        task = _BlockingTask(document_tables.request, self.blocklist)
        tables = document_tables.tables
        heads = tables.keep(payloads.mapInArrow(task, BLOCKED_ROWS), "blocked-heads")
        followers = copies.join(heads.withColumnRenamed("doc", "head"), "head")
        columns = ("doc", "blocked_by", "block_similarity")
        blocked = heads.select(*columns).unionByName(followers.select(*columns))
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
    blocklist: Blocklist

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        search = self.blocklist.search(self.request.measure, truncates_hashes=True)
        threshold = self.request.options.threshold
        for batch in batches:
            documents, payload = with_payloads(pa.Table.from_batches([batch]), self.request)
            docs = to_numbers(documents["doc"])
            matches = search.find(payload, threshold)
            names = [self.blocklist.ids[entry] for entry in matches.entries.tolist()]
            yield pa.record_batch(
                [
                    pa.array(docs[matches.documents], pa.int64()),
                    pa.array(names, pa.string()),
                    pa.array(matches.similarity, pa.float64()),
                ],
                ["doc", "blocked_by", "block_similarity"],
            )
