"""The Spark engine: the stages of a run as transformations of DataFrames."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.engine.hot_buckets import HotBucketLoop
from nearkin.engine.options import ClusterMethod, EmptyDocuments, RunOptions, Verify
from nearkin.engine.result_schema import EMPTY, EXACT, KEPT, KINDS, NEAR, UNIQUE
from nearkin.engine.run import Run, VerifiedCandidates
from nearkin.engine.spark.arrow_columns import numbers
from nearkin.engine.spark.banding import BUCKETS, HOT, KEYS, BandingTasks
from nearkin.engine.spark.clustering import ELECTED, Election, connected
from nearkin.engine.spark.document_parts import Merging
from nearkin.engine.spark.keep_order import Resolved, keep_order
from nearkin.engine.spark.materialized import Tables
from nearkin.engine.spark.rereading import PayloadRows, Rows
from nearkin.engine.spark.saved import (
    DealtRows,
    Saved,
    require_saved_keys,
    split_known,
    with_verdicts,
)
from nearkin.engine.spark.session import work_of
from nearkin.engine.spark.sketching import FILE_SHIFT, TaskRequest
from nearkin.engine.spark.sources import FileSource, Source
from nearkin.engine.spark.verification import (
    AGREED,
    SCORED,
    Scoring,
    binned,
    needed,
    scored_in_bins,
)
from nearkin.engine.stats import (
    CandidateStats,
    ClusterStats,
    CollapseStats,
    HotBucket,
    SketchStats,
    latency_percentiles,
)
from nearkin.errors import RunError, UsageError
from nearkin.runtime.progress import Progress
from nearkin.sketch.resources import SpecResources

PART_BYTES = 32 << 20
"""Size of the keys and documents in a part of a band, in bytes. A task holds and sorts one part."""
BIN_BYTES = 64 << 20
"""Size of the signatures or payloads that the pairs of a bin are compared by, in bytes."""
BYTES_OF_KEY = 16
PAIRS_IN_ONE_TASK = 4_000_000
"""Number of scored pairs up to which one task clusters all of them. If there are more, connected
components are found first."""
REPEATED_SHOWN = 3
"""Number of repeated ids that an error message shows."""


@dataclass(frozen=True)
class CandidateTables:
    """The candidate pairs of a banding."""

    pairs: DataFrame
    """(a, b, agree): documents that share a bucket and pass the prefilter."""
    count: int
    """The number of these pairs."""
    hot: DataFrame | None
    """(doc): documents of hot buckets, or None if there are none."""
    stats: CandidateStats


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


@dataclass(frozen=True)
class ExactDuplicates:
    """The exact duplicates."""

    copies: DataFrame
    """(doc, head): each exact duplicate, and the first document of its group in keep order."""
    count: int


@dataclass(frozen=True)
class ScoredTables:
    """The pairs that were compared so far."""

    compared: DataFrame | None
    """(a, b, agree): the compared candidate pairs, or None if all pairs were compared."""
    scored: DataFrame
    """SCORED: the pairs that reach the threshold."""
    count: int
    """The number of scored pairs."""


@dataclass(frozen=True)
class ClusterTables:
    """The clusters."""

    removed: DataFrame
    """(doc, leader, similarity, kind, cluster) of each removed document."""
    clusters: DataFrame
    """(doc, id, cluster, kept, similarity, kind) of each document."""


@dataclass
class SparkRun(Run):
    """A run over one corpus in one Spark session.

    Attributes:
        spark: Session.
        source: Documents, which are read again for the verification.
        request: Request that tasks receive.
        progress: Receives progress updates.
        tables: Intermediate tables.
        before: Saved run over earlier documents. The source reads the new documents, and reads all
            documents again.
    """

    spark: SparkSession
    source: Source
    request: TaskRequest
    progress: Progress
    tables: Tables
    before: Saved | None = None
    options: RunOptions = field(init=False)
    resources: SpecResources = field(init=False)
    _stages: dict[str, dict[str, Any]] = field(init=False, default_factory=dict)
    _scored: ScoredTables | None = field(init=False, default=None)
    _clustered: ClusterTables | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.options = self.request.options
        self.resources = self.request.resources

    @property
    def stages(self) -> dict[str, dict[str, Any]]:
        """The records of the finished stages, by name."""
        return self._stages

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Records a stage, with what Spark counted of its tasks."""
        record: dict[str, Any] = {}
        began = time.perf_counter()
        group = f"nearkin {name} {self.tables.folder}"
        self.spark.sparkContext.setJobGroup(group, f"nearkin: {name}")
        yield record
        record["seconds"] = round(time.perf_counter() - began, 3)
        record.update(work_of(self.spark, group))
        self._stages[str(name)] = record

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        """Computes and stores a table that is used more than once.

        Args:
            frame: Table.
            name: Name of its folder.
        """
        return self.tables.keep(frame, name)

    @cached_property
    def table(self) -> DataFrame:
        """The table that sketching makes: documents, rejected rows and facts about tasks."""
        return self.keep(self.source.documents(), "sketched")

    @cached_property
    def rejected(self) -> DataFrame:
        """(doc, place, reason, raw) of rejected rows. `place` is JSON; `doc` is in corpus order."""
        rows = self.table.where(f.col("reason").isNotNull())
        return rows.select("doc", f.col("facts").alias("place"), "reason", "raw")

    @cached_property
    def task_facts(self) -> list[dict[str, Any]]:
        """The facts that each task of the sketch stage recorded."""
        return facts_of(self.table.where(f.col("reason").isNull()))

    @property
    def documents(self) -> DataFrame:
        """The documents, with the bytes that they are sorted by in keep order."""
        return self.unique_documents.documents

    @cached_property
    def unique_documents(self) -> UniqueDocuments:
        """The documents, with unique ids.

        Raises:
            UsageError: If ids of a DataFrame are repeated, or the saved run has other columns.
        """
        documents = self.table.where(f.col("reason").isNull() & f.col("facts").isNull())
        if self.request.merge_parts:
            documents = self.part_tables.merged
        documents = self._with_keep_order(documents.drop("reason", "raw", "facts"))
        if self.before is not None:
            self.before.require(self.request)
            if self.types != self.before.about["types"]:
                raise UsageError(
                    f"the columns of keep={self.options.keep!r} have other types than in "
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
        return self.keep(documents.mapInArrow(sort, schema), "documents")

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
        documents = self.keep(whole.unionByName(merged), "merged")
        return PartTables(parts.select("doc", "head"), counts["rows"], documents)

    def _with_unique_ids(self, documents: DataFrame) -> UniqueDocuments:
        """Appends its place to each repeated id, in the form of the local engine."""
        if self.request.columns.id is None:
            return UniqueDocuments(documents, 0)
        if not isinstance(self.source, FileSource):
            self._require_unique_ids(documents)
            return UniqueDocuments(documents, 0)
        counted = documents.groupBy("id").count().where(f.col("count") > 1)
        repeated = self.keep(counted.select("id", "count"), "repeated")
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
        table = self.keep(unique.select(*documents.columns), "told-apart")
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
                "a document with merge_parts=True"
            )

    def sketch_documents(self) -> SketchStats:
        """Computes signatures, fingerprints, ids and carried columns."""
        tasks = self.task_facts
        unique = self.unique_documents
        is_matchless = f.col("shingles") == 0
        is_empty = is_matchless & (f.col("fp0") == 0) & (f.col("fp1") == 0)
        totals = unique.documents.agg(
            f.count("*").alias("documents"),
            f.sum("shingles").alias("shingles"),
            f.sum("length").alias("text_bytes"),
            f.sum(f.length("signature")).alias("signature_bytes"),
            f.count(f.when(is_matchless, 1)).alias("matchless"),
            f.count(f.when(is_empty, 1)).alias("empty"),
        ).first()
        loading = [task["warm"] for task in tasks]
        shares = np.sum([task["shares"] for task in tasks], axis=0) if tasks else np.zeros(3)
        empty_bins, completed_slots = shares[:2] / shares[2] if shares[2] else (0.0, 0.0)
        latencies = [(seconds, count) for task in tasks for seconds, count in task["latency"]]
        return SketchStats(
            documents=int(totals.documents or 0),
            rejected=sum(task["rejected"] for task in tasks),
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
            kernels_loaded=[round(max(loading, default=0.0), 3), round(sum(loading), 3)],
        )

    def group_exact_duplicates(self) -> CollapseStats:
        """Finds the exact duplicates of other documents."""
        sketched = self.sketch_stats
        empty = sketched.empty or 0
        matchless = sketched.matchless or 0
        exact = self.exact_duplicates.count
        return CollapseStats(exact=exact, empty=empty, all_cut=matchless - empty)

    @cached_property
    def exact_duplicates(self) -> ExactDuplicates:
        """The exact duplicates, and the first document of each one's group in keep order."""
        group = ["fp0", "fp1", "block"]
        has_shingles = (f.col("fp0") != 0) | (f.col("fp1") != 0)
        documents = self.documents.where(has_shingles).select("doc", "sort", *group)
        heads = documents.groupBy(*group).agg(
            f.min(f.struct("sort", "doc")).alias("first"), f.count("*").alias("times")
        )
        heads = heads.where(f.col("times") > 1).select(*group, f.col("first.doc").alias("head"))
        copies = documents.join(heads, group).where(f.col("doc") != f.col("head"))
        table, counts = self.tables.counted(copies.select("doc", "head"), "copies")
        return ExactDuplicates(table, counts["rows"])

    @cached_property
    def banded(self) -> BandingTasks:
        """The tasks that band documents."""
        key_bytes = self.sketch_stats.documents * (1 + self.banding.probes) * BYTES_OF_KEY
        return BandingTasks(self.request, self.banding, max(1, -(-key_bytes // PART_BYTES)))

    @cached_property
    def scoring(self) -> Scoring:
        """The tasks that score pairs."""
        return Scoring(self.request, self.banding, self.banded.limits.margin)

    @cached_property
    def active(self) -> DataFrame:
        """The documents that are compared: the first of each exact group, if it has shingles."""
        copies = self.exact_duplicates.copies
        return self.documents.where(f.col("shingles") > 0).join(copies, "doc", "left_anti")

    def find_candidates(self) -> CandidateStats:
        """Bands the active documents."""
        return self.candidate_tables.stats

    @cached_property
    def candidate_tables(self) -> CandidateTables:
        """The candidate pairs of the active documents."""
        return self.find_pairs_among(self.active)

    def find_pairs_among(self, active: DataFrame) -> CandidateTables:
        """Finds the candidate pairs of some documents.

        Args:
            active: Documents that are banded.
        """
        keys = self._band_keys(active)
        grouped = keys.groupBy("part").applyInArrow(of_table(self.banded.buckets), BUCKETS)
        buckets = self.keep(grouped, "buckets")
        parts = facts_of(buckets)
        sizes: Counter[int] = Counter()
        for part in parts:
            sizes.update(dict(part["sizes"]))
        largest = self.options.hot_bucket_size
        most_pairs = sum(
            count * size * (size - 1) // 2 for size, count in sizes.items() if size <= largest
        )
        cold = buckets.where(f.col("a").isNotNull()).select("a", "b").distinct()
        agreed, counts = self.tables.counted(
            self._prefiltered(cold, most_pairs), "agreed", pairs=f.count("a")
        )
        tasks = facts_of(agreed)
        count = counts["pairs"]
        pairs = agreed.where(f.col("a").isNotNull()).select("a", "b", "agree")
        hot = None
        hot_buckets = sum(part["hot"] for part in parts)
        if hot_buckets:
            members = buckets.where(f.col("doc").isNotNull()).select("band", "key", "doc")
            hot = members.select("doc").distinct()
            clustered = self.keep(self._cluster_hot_buckets(members), "hot-pairs")
            tasks += facts_of(clustered)
            inside = clustered.where(f.col("a").isNotNull()).select("a", "b", "agree")
            both = pairs.unionByName(inside).dropDuplicates(["a", "b"])
            pairs, counts = self.tables.counted(both, "survivors")
            count = counts["rows"]
        no_pairs = np.zeros(self.options.spec.k + 1, np.int64)
        stats = CandidateStats.summarize(
            histogram=np.sum([task["histogram"] for task in tasks] or [no_pairs], axis=0),
            bucket_sizes=sizes,
            hot=[
                HotBucket(band, members, first)
                for task in tasks
                for band, members, first in task.get("hottest", ())
            ],
            hot_buckets=hot_buckets,
            hot_members=sum(part["members"] for part in parts),
            survivors=count,
            key_bytes=self.key_bytes,
        )
        return CandidateTables(pairs, count, hot, stats)

    def _band_keys(self, active: DataFrame) -> DataFrame:
        """KEYS. The keys of documents of the saved run are read, not computed."""
        columns = ("doc", "block", "signature", "keys")
        if self.before is None:
            return active.select(*columns).mapInArrow(self.banded.keys, KEYS)
        stored = self.before.keys(self.banding)
        fresh = active.join(self.before.documents.select("doc"), "doc", "left_anti")
        computed = fresh.select(*columns).mapInArrow(self.banded.keys, KEYS)
        return (
            stored.join(active.select("doc"), "doc", "left_semi")
            .select("band", "key", "doc")
            .mapInArrow(DealtRows(self.banded), KEYS)
            .unionByName(computed)
        )

    def _prefiltered(self, pairs: DataFrame, most_pairs: int) -> DataFrame:
        """AGREED: the pairs whose signatures agree in enough slots."""
        spec = self.options.spec
        signature_bytes = spec.signature_width * np.dtype(spec.signature_type).itemsize
        in_bins = binned(pairs, most_pairs, max(1, BIN_BYTES // (2 * signature_bytes)))
        documents = needed(in_bins).join(self.documents.select("doc", "signature"), "doc")
        return scored_in_bins(in_bins, documents, self.scoring.estimated, AGREED)

    def _cluster_hot_buckets(self, members: DataFrame) -> DataFrame:
        """HOT. A task clusters one bucket after the other and holds the leaders of one bucket."""
        documents = self.documents.select("doc", "sort", "signature")
        grouped = members.join(documents, "doc").repartition("band", "key")
        ordered = grouped.sortWithinPartitions("band", "key", "sort")
        return ordered.mapInArrow(self.banded.hot, HOT)

    def compare_all(self) -> None:
        """Compares all pairs of active documents in one task."""
        documents = self.active.select("doc", "block", "signature")
        payloads = self._payloads(documents.select("doc"))
        joined = documents.join(payloads, "doc").withColumn("bin", f.lit(0))
        scored = joined.groupBy("bin").applyInArrow(of_table(self.scoring.everything), SCORED)
        self.store_scored(None, scored)

    def verify_candidates(self) -> VerifiedCandidates:
        """Compares the candidate pairs."""
        candidates = self.candidate_tables
        scored = self.score_pairs(candidates.pairs, candidates.count)
        stored = self.store_scored(candidates.pairs, scored)
        loop = None
        if candidates.hot is not None:
            loop = SparkHotBucketLoop(self, candidates.hot)
        return VerifiedCandidates(candidates.count, stored.count, loop)

    @property
    def scored_tables(self) -> ScoredTables:
        """The pairs that were compared so far.

        Raises:
            RunError: If the stage verify has not begun.
        """
        if self._scored is None:
            raise RunError("no pairs are scored yet; run the stage verify first")
        return self._scored

    @property
    def scored(self) -> DataFrame:
        """SCORED: the pairs that reach the threshold."""
        return self.scored_tables.scored

    def store_scored(self, compared: DataFrame | None, scored: DataFrame) -> ScoredTables:
        """Stores the scored pairs, in the place of previous ones.

        Args:
            compared: Candidate pairs that were compared (a, b, agree); None for all pairs.
            scored: SCORED.
        """
        table, counts = self.tables.counted(scored, "scored")
        self._scored = ScoredTables(compared, table, counts["rows"])
        return self._scored

    def store_compared(self, compared: DataFrame) -> None:
        """Stores the candidate pairs that were compared so far (a, b, agree)."""
        self._scored = replace(self.scored_tables, compared=compared)

    def score_pairs(self, pairs: DataFrame, count: int) -> DataFrame:
        """Returns SCORED of pairs. Pairs of the saved run are not compared again.

        Args:
            pairs: Candidate pairs (a, b, agree).
            count: Number of pairs.
        """
        if self.before is None:
            return self._compare(pairs, count)
        known, rest = split_known(pairs, self.before.pairs)
        return known.unionByName(self._compare(self.keep(rest, "new-pairs"), count))

    def _compare(self, pairs: DataFrame, count: int) -> DataFrame:
        if self.options.verify != Verify.EXACT:
            return pairs.mapInArrow(of_batches(self.scoring.by_estimate), SCORED)
        in_bins = binned(pairs, count, max(1, BIN_BYTES // (2 * self._payload_bytes)))
        wanted = needed(in_bins)
        payloads = self._payloads(wanted.select("doc").distinct())
        return scored_in_bins(in_bins, wanted.join(payloads, "doc"), self.scoring.exactly, SCORED)

    @property
    def _payload_bytes(self) -> int:
        """The mean size of a document's payload, in bytes."""
        row_bytes = sum(
            np.dtype(kind).itemsize * (width or 1) for kind, width in self.measure.column_types
        )
        if self.options.spec.unit == "vector" or self.options.distance is not None:
            return max(1, row_bytes)
        sketched = self.sketch_stats
        if sketched.shingles <= 1:
            return max(1, sketched.shingles * row_bytes)
        return max(1, sketched.shingles * row_bytes // max(sketched.documents, 1))

    def _payloads(self, docs: DataFrame) -> DataFrame:
        """(doc, payload0, payload1, ...) of some documents."""
        return self.again(docs, PayloadRows(self.request))

    def again(self, docs: DataFrame, rows: Rows) -> DataFrame:
        """Reads some documents again.

        Args:
            docs: (doc), each document once.
            rows: What is made of each document.
        """
        if not isinstance(self.source, FileSource):
            with_ids = docs.join(self.documents.select("doc", "id"), "doc")
            return self.source.again(with_ids, rows)
        if not self.request.merge_parts:
            return self.source.again(docs, rows)
        heads = self.part_tables.parts
        parts = heads.withColumnsRenamed({"doc": "part", "head": "doc"})
        wanted = docs.join(parts, "doc", "left").select(f.coalesce("part", "doc").alias("doc"))
        read = self.source.again(wanted, rows).join(heads, "doc", "left")
        return read.withColumn("doc", f.coalesce("head", "doc")).drop("head")

    def elected(self, *, components: bool) -> DataFrame:
        """Returns ELECTED: the removed documents, exact duplicates apart.

        Args:
            components: Whether components are clustered, not leaders elected.
        """
        columns = self.scored.select("a", "b", "shared", "joint")
        pairs = self._with_components(columns)
        members = needed(pairs)
        needs_signatures = components and not self.is_exact
        compared = ["signature"] if needs_signatures else []
        documents = members.join(self.documents.select("doc", "sort", *compared), "doc")
        if components and self.is_exact:
            payloads = self._payloads(members.select("doc").distinct())
            documents = documents.join(payloads, "doc")
        election = Election(self.scoring, exact=self.is_exact, components=components)
        return self.keep(scored_in_bins(pairs, documents, election.elect, ELECTED), "elected")

    def _with_components(self, pairs: DataFrame) -> DataFrame:
        """Returns pairs with a bin each. No component is in two bins."""
        count = self.scored_tables.count
        if count <= PAIRS_IN_ONE_TASK:
            return pairs.withColumn("bin", f.lit(0))
        found = connected(pairs, lambda edges: self.keep(edges, "edges"))
        cores = self.spark.sparkContext.defaultParallelism
        bins = max(1, -(-count // max(PAIRS_IN_ONE_TASK, 1)), cores)
        bin_number = f.pmod(f.xxhash64("component"), f.lit(bins)).cast("int")
        shares = found.select(f.col("doc").alias("a"), bin_number.alias("bin"))
        return pairs.join(shares, "a")

    def elect_documents(self) -> ClusterStats:
        """Computes the clusters table."""
        by_components = self.options.cluster == ClusterMethod.COMPONENTS
        elected = self.elected(components=by_components)
        removed = self.keep(self._with_exact_duplicates(elected), "removed")
        by_kind = {kind: f.count(f.when(f.col("kind") == kind, 1)) for kind in KINDS}
        clusters, counts = self.tables.counted(
            self._build_clusters(removed),
            "clusters",
            documents_kept=f.count(f.when(f.col("kept"), 1)),
            **by_kind,
        )
        self._clustered = ClusterTables(removed, clusters)
        documents = counts.pop("rows")
        removed_count = documents - counts["documents_kept"]
        return ClusterStats(documents=documents, documents_removed=removed_count, **counts)

    @property
    def cluster_tables(self) -> ClusterTables:
        """The clusters.

        Raises:
            RunError: If the stage cluster has not finished.
        """
        if self._clustered is None:
            raise RunError("there are no clusters yet; run the stage cluster first")
        return self._clustered

    @property
    def removed(self) -> DataFrame:
        """(doc, leader, similarity, kind, cluster) of each removed document."""
        return self.cluster_tables.removed

    @property
    def clusters(self) -> DataFrame:
        """(doc, id, cluster, kept, similarity, kind) of each document."""
        return self.cluster_tables.clusters

    def _with_exact_duplicates(self, elected: DataFrame) -> DataFrame:
        """Adds exact duplicates, which follow the first document of their group."""
        heads = elected.select(
            f.col("doc").alias("head"), f.col("leader").alias("next"), "similarity"
        )
        is_exact = f.col("next").isNull()
        copies = self.exact_duplicates.copies.join(heads, "head", "left").select(
            "doc",
            f.coalesce("next", "head").alias("leader"),
            f.coalesce("similarity", f.lit(1.0)).alias("similarity"),
            f.when(is_exact, KINDS[EXACT]).otherwise(KINDS[NEAR]).alias("kind"),
        )
        both = elected.withColumn("kind", f.lit(KINDS[NEAR])).unionByName(copies)
        names = self.documents.select(f.col("doc").alias("leader"), f.col("id").alias("cluster"))
        joined = both.join(names, "leader")
        return joined.select("doc", "leader", "similarity", "kind", "cluster")

    def _build_clusters(self, removed: DataFrame) -> DataFrame:
        is_empty = (f.col("fp0") == 0) & (f.col("fp1") == 0) & (f.col("shingles") == 0)
        heads = removed.select(f.col("leader").alias("doc")).distinct()
        heads = heads.withColumn("head", f.lit(True))
        documents = self.documents.select("doc", "id", is_empty.alias("empty"))
        joined = documents.join(removed.drop("leader"), "doc", "left").join(heads, "doc", "left")
        is_dropped = f.col("empty") & f.lit(self.options.empty == EmptyDocuments.DROP)
        similarity = f.coalesce("similarity", f.lit(1.0))
        kind_if_not_removed = (
            f.when(f.col("empty"), KINDS[EMPTY])
            .when(f.col("head"), KINDS[KEPT])
            .otherwise(KINDS[UNIQUE])
        )
        return joined.select(
            "doc",
            "id",
            f.coalesce("cluster", "id").alias("cluster"),
            (f.col("cluster").isNull() & ~is_dropped).alias("kept"),
            f.when(is_dropped, f.lit(None)).otherwise(similarity).alias("similarity"),
            f.coalesce("kind", kind_if_not_removed).alias("kind"),
        )

    @property
    def rows(self) -> DataFrame:
        """The clusters table with a row for each input row. The parts of a document are alike."""
        if not self.request.merge_parts:
            return self.clusters
        further = self.part_tables.parts.where(f.col("doc") != f.col("head"))
        further = further.withColumnsRenamed({"doc": "part", "head": "doc"})
        parts = self.clusters.join(further, "doc").withColumn("doc", f.col("part")).drop("part")
        return self.clusters.unionByName(parts.select(*self.clusters.columns))

    @property
    def further_parts(self) -> int:
        """The number of rows that are parts of the document of another row."""
        if not self.request.merge_parts:
            return 0
        return int(self.part_tables.parts.where(f.col("doc") != f.col("head")).count())

    @property
    def pair_table(self) -> DataFrame:
        """The pairs table of the local engine, with the documents a and b of each pair."""
        names = self.documents.select("doc", "id")
        first = names.withColumnsRenamed({"doc": "a", "id": "id_a"})
        second = names.withColumnsRenamed({"doc": "b", "id": "id_b"})
        both = self.scored.join(first, "a").join(second, "b")
        return both.mapInArrow(self.scoring.named, self.scoring.pairs_schema)

    def save(self, folder: str) -> Saved:
        """Saves signatures, band keys and compared pairs, for a run with further documents.

        Args:
            folder: New folder, path or URL.

        Raises:
            UsageError: If all pairs were compared, or keys do not follow from signatures.
        """
        require_saved_keys(self.request)
        tables = self.scored_tables
        if tables.compared is None:
            raise UsageError(
                "the corpus is small and was compared by brute force, so there are no bands to "
                "save; give bands and rows"
            )
        about = {
            "spec": json.loads(self.options.spec.to_json()),
            "parameters": self.options.parameters(),
            "types": self.types,
        }
        pairs = with_verdicts(tables.compared, tables.scored)
        saved = Saved.write(self.spark, folder, about, self.documents, pairs)
        saved.write_keys(self.request, self.banding)
        return saved


class SparkHotBucketLoop(HotBucketLoop):
    """The rounds over scored pairs in tables.

    Args:
        run: Run, with the scored pairs so far.
        hot: Documents of hot buckets (doc).
    """

    def __init__(self, run: SparkRun, hot: DataFrame) -> None:
        self._run = run
        self._documents = run.keep(run.active.join(hot, "doc", "left_semi"), "hot")
        self._selected = self._documents

    def select_kept(self) -> int:
        """Selects the documents of hot buckets that no scored pair removes so far."""
        removed = self._run.elected(components=False).select("doc")
        kept = self._documents.join(removed, "doc", "left_anti")
        self._selected, counts = self._run.tables.counted(kept, "active")
        return counts["rows"]

    def compare_selected(self) -> bool:
        """Bands the selected documents again, and adds the pairs that reach the threshold."""
        run = self._run
        found = run.find_pairs_among(self._selected)
        before = run.scored_tables
        compared = found.pairs
        if before.compared is not None:
            compared = before.compared.unionByName(found.pairs).dropDuplicates(["a", "b"])
        known = before.scored.select("a", "b")
        new_pairs = found.pairs.join(known, ["a", "b"], "left_anti")
        new_scored = run.score_pairs(new_pairs, found.count)
        fresh, counts = run.tables.counted(new_scored, "fresh")
        run.store_compared(compared)
        if not counts["rows"]:
            return False
        run.store_scored(compared, before.scored.unionByName(fresh))
        return True


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
            ids, lengths = batch["id"], numbers(batch["length"])
            sort = keep_order(
                self.request.options.keep_policy, columns, lengths, ids, self.resolved.kinds
            )
            arrays = [
                sort.cast(pa.binary()) if name == "sort" else batch[name] for name in self.names
            ]
            yield pa.record_batch(arrays, list(self.names))


def of_table(work: Callable[[pa.Table], pa.Table]) -> Callable[[pa.Table], pa.Table]:
    """Returns a plain function of one table, because Spark counts the arguments of a function."""

    def group(rows: pa.Table) -> pa.Table:
        return work(rows)

    return group


def of_batches(
    work: Callable[[pa.Table], pa.Table],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a function of batches that applies a function of tables to each of them."""

    def over(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from work(pa.Table.from_batches([batch])).to_batches()

    return over


def facts_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Returns the facts that tasks recorded, one for each task or part."""
    return [
        json.loads(row.facts)
        for row in frame.where(f.col("facts").isNotNull()).select("facts").collect()
    ]
