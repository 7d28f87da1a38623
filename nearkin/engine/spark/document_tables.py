"""Stage 1: the tables of documents, rejected rows and parts that sketching makes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.corpus.rejects import list_top_reasons
from nearkin.engine.options import RunOptions
from nearkin.engine.short_documents import fewest_robust_shingles
from nearkin.engine.spark.arrow_columns import to_numbers
from nearkin.engine.spark.document_parts import Merging
from nearkin.engine.spark.keep_order import Resolved, keep_order
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.pair_bins import BIN_BYTES
from nearkin.engine.spark.rereading import PayloadRows, Rows
from nearkin.engine.spark.saved import Saved
from nearkin.engine.spark.sketching import FILE_SHIFT, SketchFacts, TaskRequest
from nearkin.engine.spark.sources import FileSource, Source
from nearkin.engine.spark.task_functions import collect_facts
from nearkin.engine.stats import SketchStats, latency_percentiles
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_flag, name_setting

REPEATED_SHOWN = 3
"""Number of repeated ids that an error message shows."""


@dataclass(frozen=True)
class PartTables:
    """The rows that are parts of documents."""

    parts: DataFrame
    """(doc, head): the parts, and the document that they belong to."""
    count: int
    merged: DataFrame
    """All documents, those in parts merged into one row each."""


@dataclass(frozen=True)
class UniqueDocuments:
    """The documents, with unique ids."""

    documents: DataFrame
    repeated: int
    """The number of documents whose id occurred more than once."""


@dataclass
class DocumentTables:
    """The tables of documents. Each is computed and stored at its first use.

    Attributes:
        source: Documents, which are read again for the verification.
        request: Request that tasks receive.
        tables: Intermediate tables.
        before: Saved run over earlier documents. The source reads the new documents, and reads all
            documents again.
    """

    source: Source
    request: TaskRequest
    tables: IntermediateTables
    before: Saved | None = None

    @property
    def options(self) -> RunOptions:
        """The options of the run."""
        return self.request.options

    @cached_property
    def table(self) -> DataFrame:
        """The table that sketching makes: documents, rejected rows and facts about tasks."""
        return self.tables.keep(self.source.documents(), "sketched")

    def count_reasons(self) -> dict[str, int]:
        """Returns the number of rejected rows for each reason, without details behind a colon."""
        reason = f.substring_index("reason", ":", 1).alias("reason")
        reasons = self.rejected.groupBy(reason).agg(f.sum(rejected_rows()))
        return {row[0]: row[1] for row in reasons.collect()}

    @cached_property
    def rejected(self) -> DataFrame:
        """(doc, place, reason, raw) of rejected rows. `place` is JSON; `doc` is in corpus order."""
        rows = self.table.where(f.col("reason").isNotNull())
        return rows.select("doc", f.col("facts").alias("place"), "reason", "raw")

    @cached_property
    def task_facts(self) -> list[SketchFacts]:
        """The facts that each task of the sketch stage recorded."""
        return collect_facts(self.table.where(f.col("reason").isNull()), SketchFacts)

    @property
    def documents(self) -> DataFrame:
        """The documents, with the bytes that they are sorted by in keep order."""
        return self.unique_documents.documents

    @cached_property
    def unique_documents(self) -> UniqueDocuments:
        """The documents, with unique ids."""
        documents = self.table.where(f.col("reason").isNull() & f.col("facts").isNull())
        if self.request.merge_parts:
            documents = self.part_tables.merged
        documents = self._with_keep_order(documents.drop("reason", "raw", "facts"))
        if self.before is not None:
            self.before.require(self.request)
            if self.types != self.before.about["types"]:
                raise UsageError(
                    f"the columns of {name_setting('keep', self.options.keep)} have other types "
                    f"than in "
                    f"{self.before.folder}; run over all documents"
                )
            earlier = self.before.documents.select(*documents.columns)
            documents = earlier.unionByName(documents)
        if self.request.merge_parts:
            return UniqueDocuments(documents, 0)
        return self._with_unique_ids(documents)

    @cached_property
    def resolved(self) -> Resolved:
        """The types by which the columns of the keep policy are sorted."""
        unfit = frozenset((name, kind) for task in self.task_facts for name, kind in task["unfit"])
        return Resolved.of(self.request.carried, unfit)

    @property
    def types(self) -> str:
        """The types of the keep policy's columns as text, which saved runs are compared by."""
        kinds = self.resolved.kinds
        names = [str(pa.large_string() if kind is None else kind) for kind in kinds.values()]
        numeric = sorted(name for name, kind in kinds.items() if kind is not None)
        return f"{names} {numeric}"

    def _with_keep_order(self, documents: DataFrame) -> DataFrame:
        if not self.request.carried:
            return documents
        names = [name for name in documents.columns if not name.startswith("riding")]
        sort = SortRows(self.request, self.resolved, tuple(names))
        fields = self.request.schema.split(",")
        schema = ",".join(part for part in fields if part.split()[0] in names)
        return self.tables.keep(documents.mapInArrow(sort, schema), "documents")

    @cached_property
    def part_tables(self) -> PartTables:
        """The rows of one id, merged into one document each."""
        rows = self.table.where(f.col("reason").isNull() & f.col("facts").isNull())
        heads = rows.groupBy("id").agg(f.min("doc").alias("head"), f.count("*").alias("times"))
        heads = heads.where(f.col("times") > 1).drop("times")
        parts, counts = self.tables.counted(rows.select("id", "doc").join(heads, "id"), "parts")
        bins = max(1, counts["rows"] * self.options.spec.k * 4 // BIN_BYTES)
        merging = Merging(self.request)
        in_parts = rows.join(parts.select("id", "head").distinct(), "id")
        in_parts = in_parts.withColumn("bin", f.pmod(f.xxhash64("id"), f.lit(bins)))
        merged = in_parts.groupBy("bin").applyInArrow(merging.group(), merging.schema)
        whole = rows.join(parts.select("id").distinct(), "id", "left_anti").select(*rows.columns)
        documents = self.tables.keep(whole.unionByName(merged), "merged")
        return PartTables(parts.select("doc", "head"), counts["rows"], documents)

    def _with_unique_ids(self, documents: DataFrame) -> UniqueDocuments:
        """Appends its place to each repeated id, in the form of the local engine."""
        if self.request.columns.id is None:
            return UniqueDocuments(documents, 0)
        if not isinstance(self.source, FileSource):
            self._require_unique_ids(documents)
            return UniqueDocuments(documents, 0)
        counted = documents.groupBy("id").count().where(f.col("count") > 1)
        repeated = self.tables.keep(counted.select("id", "count"), "repeated")
        count = repeated.agg(f.sum("count")).first()[0]
        if count is None:
            return UniqueDocuments(documents, 0)
        names = self.source.files().select("number", "name")
        marked = documents.join(repeated.withColumnRenamed("count", "times"), "id", "left")
        number = f.shiftright("doc", FILE_SHIFT).cast("int")
        marked = marked.withColumn("number", number).join(f.broadcast(names), "number")
        row_number = f.col("doc").bitwiseAND(f.lit((1 << FILE_SHIFT) - 1)).cast("string")
        place = f.concat(f.lit("#"), "name", f.lit(":"), f.lpad(row_number, 10, "0"))
        is_repeated = f.col("times").isNotNull()
        unique_sort = f.concat(f.col("sort"), place.cast("binary"))
        sort = f.when(is_repeated, unique_sort).otherwise(f.col("sort"))
        unique_id = f.when(is_repeated, f.concat("id", place)).otherwise(f.col("id"))
        unique = marked.withColumn("sort", sort).withColumn("id", unique_id)
        table = self.tables.keep(unique.select(*documents.columns), "told-apart")
        return UniqueDocuments(table, int(count))

    def _require_unique_ids(self, documents: DataFrame) -> None:
        counted = documents.groupBy("doc").agg(
            f.count("*").alias("times"), f.min("id").alias("id"), f.max("id").alias("other")
        )
        repeated = counted.where(f.col("times") > 1).orderBy("id").limit(REPEATED_SHOWN).collect()
        if repeated:
            ids = sorted({repr(row[name]) for row in repeated for name in ("id", "other")})
            raise UsageError(
                f"ids occur more than once in column {self.request.columns.id!r} "
                f"({', '.join(ids)}); make ids unique, or declare that rows of one id are parts of "
                f"a document with {name_flag('merge_parts')}"
            )

    @property
    def further_parts(self) -> int:
        """The number of rows that are parts of the document of another row."""
        if not self.request.merge_parts:
            return 0
        return int(self.part_tables.parts.where(f.col("doc") != f.col("head")).count())

    def payloads(self, docs: DataFrame) -> DataFrame:
        """Reads some documents again for an exact comparison."""
        return self.read_again(docs, PayloadRows(self.request))

    def read_again(self, docs: DataFrame, rows: Rows) -> DataFrame:
        """Reads some documents again."""
        if not isinstance(self.source, FileSource):
            with_ids = docs.join(self.documents.select("doc", "id"), "doc")
            return self.source.again(with_ids, rows)
        if not self.request.merge_parts:
            return self.source.again(docs, rows)
        heads = self.part_tables.parts
        parts = heads.withColumnsRenamed({"doc": "part", "head": "doc"})
        parts_to_read = docs.join(parts, "doc", "left").select(
            f.coalesce("part", "doc").alias("doc")
        )
        read = self.source.again(parts_to_read, rows).join(heads, "doc", "left")
        return read.withColumn("doc", f.coalesce("head", "doc")).drop("head")

    def summarize_sketches(self) -> SketchStats:
        """Returns the statistics of the sketch stage, which computes all tables of documents."""
        tasks = self.task_facts
        unique = self.unique_documents
        is_matchless = f.col("shingles") == 0
        is_empty = is_matchless & (f.col("fp0") == 0) & (f.col("fp1") == 0)
        options = self.request.options
        is_robust = f.lit(True)
        if options.spec.has_shingles:
            fewest = fewest_robust_shingles(options.spec, options.threshold)
            is_robust = f.col("shingles") >= fewest
        totals = unique.documents.agg(
            f.count("*").alias("documents"),
            f.sum("shingles").alias("shingles"),
            f.sum("length").alias("text_bytes"),
            f.sum(f.length("signature")).alias("signature_bytes"),
            f.count(f.when(is_matchless, 1)).alias("matchless"),
            f.count(f.when(is_empty, 1)).alias("empty"),
            f.count(f.when(~is_robust & (f.col("shingles") == 1), 1)).alias("single"),
            f.count(f.when(~is_robust & ~is_matchless, 1)).alias("fragile"),
        ).first()
        loading = [task["warm"] for task in tasks]
        shares = np.sum([task["shares"] for task in tasks], axis=0) if tasks else np.zeros(3)
        empty_bins, completed_slots = shares[:2] / shares[2] if shares[2] else (0.0, 0.0)
        latencies = [(seconds, count) for task in tasks for seconds, count in task["latency"]]
        rejected = sum(task["rejected"] for task in tasks)
        return SketchStats(
            documents=int(totals.documents or 0),
            rejected=rejected,
            rejected_reasons=list_top_reasons(self.count_reasons()) if rejected else None,
            shingles=int(totals.shingles or 0),
            text_bytes=int(totals.text_bytes or 0),
            signature_bytes=int(totals.signature_bytes or 0),
            empty_bin_rate=round(float(empty_bins), 6),
            completed_slot_rate=round(float(completed_slots), 6),
            repeated_ids=unique.repeated,
            build_latency=latency_percentiles(latencies),
            document_limit=self.request.columns.document_limit,
            parts=self.part_tables.count if self.request.merge_parts else None,
            matchless=int(totals.matchless or 0),
            empty=int(totals.empty or 0),
            single=int(totals.single or 0),
            fragile=int(totals.fragile or 0),
            kernels_loaded=[round(max(loading, default=0.0), 3), round(sum(loading), 3)],
        )


def rejected_rows() -> Column:
    """Returns the number of rows that a row of `DocumentTables.rejected` stands for."""
    rows = f.get_json_object("place", "$.rows").cast("long")
    return f.coalesce(rows, f.lit(1))


def count_rejected(rejected: DataFrame) -> int:
    """Returns the number of rejected rows."""
    return int(rejected.agg(f.sum(rejected_rows())).first()[0] or 0)


@dataclass(frozen=True)
class SortRows:
    """A task that computes the keep order, once the types of the keep policy's columns are known.

    Attributes:
        request: TaskRequest of the run.
        resolved: Types by which the columns are sorted.
        names: Columns of the result.
    """

    request: TaskRequest
    resolved: Resolved
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        carried = self.request.carried
        for batch in batches:
            columns = pa.table(
                {
                    name: batch[f"riding{i}"].cast(pa.large_string())
                    for i, name in enumerate(carried)
                }
            )
            ids, lengths = batch["id"], to_numbers(batch["length"])
            sort = keep_order(
                self.request.options.keep_policy, columns, lengths, ids, self.resolved.kinds
            )
            arrays = [
                sort.cast(pa.binary()) if name == "sort" else batch[name] for name in self.names
            ]
            yield pa.record_batch(arrays, list(self.names))
