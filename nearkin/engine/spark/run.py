"""The Spark engine: the stages of a run as transformations of DataFrames."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.corpus.document_count import estimate_documents
from nearkin.engine.acceptance import groups_exact_duplicates, token_kinds_of
from nearkin.engine.constant_fingerprints import constant_fingerprints, select_notable
from nearkin.engine.document_facts import NULL_VALUE
from nearkin.engine.removal_limit import LEAST_DOUBTED, NEARLY_AS_CLOSE, SHORT_TEXT
from nearkin.engine.result_schema import EXACT, FURTHER, KINDS, NEAR, SAME
from nearkin.engine.run import Run, VerifiedCandidates
from nearkin.engine.spark.banding import BandingTasks
from nearkin.engine.spark.blocking import SparkBlocklist
from nearkin.engine.spark.candidates import (
    CandidateSearch,
    CandidateTables,
    FieldsSearch,
    PairSearch,
    with_signatures_of_field,
)
from nearkin.engine.spark.cluster_tables import ClusterBuilder, ClusterTables
from nearkin.engine.spark.containment import SparkContainmentSearch
from nearkin.engine.spark.decisions import number_decisions
from nearkin.engine.spark.document_tables import DocumentTables
from nearkin.engine.spark.exact_groups import (
    ExactDuplicateTables,
    find_exact_duplicates,
    has_block,
    join_by_values,
)
from nearkin.engine.spark.hot_buckets import SparkHotBucketLoop
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.pair_scoring import PairScorer
from nearkin.engine.spark.saved import AboutRun, Saved, require_saved_keys, with_verdicts
from nearkin.engine.spark.session import work_of
from nearkin.engine.spark.sketching import ACROSS, GROUP, TaskRequest
from nearkin.engine.spark.sources import FileSource, Source
from nearkin.engine.spark.task_progress import TaskProgress
from nearkin.engine.spark.verification import Scoring
from nearkin.engine.stats import (
    BlocklistStats,
    CandidateStats,
    ClusterStats,
    CollapseStats,
    ReferenceStats,
    SketchStats,
    Stage,
    StageRecord,
    StageRecords,
)
from nearkin.engine.value_keys import value_columns_of
from nearkin.errors import RunError, UsageError
from nearkin.runtime.compilation import Stopwatch
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.choices import EmptyDocuments
from nearkin.settings.decisions import Decisions
from nearkin.stages.cluster.decided_pairs import DecidedPairs
from nearkin.stages.lsh.slot_bands import Banding

PART_BYTES = 32 << 20
"""Size of the keys and documents in a part of a band, in bytes. A task holds and sorts one part."""
BYTES_OF_KEY = 16
STEPS = {
    Stage.SKETCH: 1,
    Stage.COLLAPSE: 1,
    Stage.BLOCKLIST: 1,
    Stage.AGAINST: 1,
    Stage.CANDIDATES: 2,
    Stage.VERIFY: 1,
    Stage.CLUSTER: 3,
    Stage.MISSING_PAIRS: 8,
    Stage.CUT: 4,
    Stage.WRITE: 4,
}
"""The number of tables that each stage writes in most runs, in which progress is counted."""


MATCHES = (
    "doc long,duplicate_of string,match_similarity double,match_kind string,shared double,size long"
)
"""The documents that repeat one of a reference. `shared` is the number of different shingles that
both have, and `size` that of the document. Both are null for exact duplicates and for equal values.
These have no similarity either."""


class ReferenceMatchTable(NamedTuple):
    """The documents that repeat one of a reference, and those that are related to one."""

    matches: DataFrame
    """MATCHES: a row for each document that repeats one."""
    related: DataFrame | None
    """(doc, related_to, similarity) of the other documents, with a row for each document of the
    reference that they are related to. None without the option `related`."""
    stats: ReferenceStats


class ReferenceMatcher(Protocol):
    """A comparison of the documents of a run with those of a reference."""

    @property
    def only_reference(self) -> bool:
        """True if the documents of the run are not compared with each other."""

    def match(self, run: "SparkRun") -> ReferenceMatchTable:
        """Finds the documents that repeat one of the reference."""


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
        matcher: Comparison with a reference, whose duplicates are removed first.
        decisions: Decisions about pairs of documents, or None without decisions.
        blocker: Comparison with a blocklist, whose matches are removed before all others.
    """

    spark: SparkSession
    source: Source
    request: TaskRequest
    progress: Progress
    tables: IntermediateTables
    before: Saved | None = None
    matcher: ReferenceMatcher | None = None
    decisions: Decisions | None = None
    blocker: SparkBlocklist | None = None
    document_tables: DocumentTables = field(init=False)
    _stages: dict[str, StageRecord] = field(init=False, default_factory=dict)
    _clustered: ClusterTables | None = field(init=False, default=None)
    _matches: DataFrame | None = field(init=False, default=None)
    _related_in_reference: DataFrame | None = field(init=False, default=None)
    _blocked: DataFrame | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.options = self.request.options
        self.resources = self.request.resources
        self.document_tables = DocumentTables(self.source, self.request, self.tables, self.before)

    @property
    def stages(self) -> StageRecords:
        """The records of the finished stages, by name."""
        return self._stages

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, object]]:
        """Records a stage, with what Spark counted of its tasks."""
        record: dict[str, object] = {}
        watch = Stopwatch()
        group = f"nearkin {name} {self.tables.folder}"
        self.spark.sparkContext.setJobGroup(group, f"nearkin: {name}")
        stage = Stage(name)
        _, units = self.progress_of(stage)
        with TaskProgress(self.spark, group, self.progress, units, STEPS[stage]) as task_progress:
            self.tables.task_progress = task_progress
            try:
                yield record
            finally:
                self.tables.task_progress = None
        record.update(watch.to_record())
        record.update(work_of(self.spark, group))
        self._stages[str(name)] = record

    def progress_of(self, stage: Stage) -> tuple[str, int | None]:
        """Returns the name of a stage, and its number of documents or pairs.

        The number of documents of a DataFrame is unknown until they are sketched.
        """
        if stage == Stage.SKETCH:
            return str(stage), self._estimated_documents
        if stage == Stage.VERIFY and not self.brute_force:
            return str(stage), self.candidate_tables.count
        return str(stage), self.sketch_stats.documents

    @cached_property
    def _estimated_documents(self) -> int | None:
        if not isinstance(self.source, FileSource):
            return None
        return estimate_documents(self.source.corpus, self.request.columns)

    @property
    def documents(self) -> DataFrame:
        """The documents, with the bytes that they are sorted by in keep order."""
        return self.document_tables.documents

    def sketch_documents(self) -> SketchStats:
        """Computes signatures, fingerprints, ids and carried columns."""
        return self.document_tables.summarize_sketches()

    def group_exact_duplicates(self) -> CollapseStats:
        """Finds the exact duplicates of other documents."""
        sketched = self.sketch_stats
        empty = sketched.empty or 0
        matchless = sketched.matchless or 0
        duplicates = self.exact_duplicates
        without_source = None
        if self.options.across is not None:
            without_source = self.documents.where(f.col(ACROSS) == NULL_VALUE).count()
        without_block = None
        if self.options.block_by is not None:
            missing = int(self.options.block_of_missing)
            without_block = self.documents.where(f.col("block") == missing).count()
        unreadable_dates: Counter[str] = Counter()
        for facts in self.document_tables.task_facts:
            unreadable_dates.update(facts["unreadable_dates"])
        date_columns = self.options.keep_policy.date_columns
        return CollapseStats(
            exact=duplicates.count,
            same=duplicates.same,
            empty=empty,
            all_cut=matchless - empty,
            single=sketched.single or 0,
            fragile=sketched.fragile or 0,
            without_source=without_source,
            without_block=without_block,
            unreadable_dates={name: unreadable_dates[name] for name in date_columns} or None,
            without_values=self._list_columns_without_values() or None,
            decisions=None if self.decided is None else self.decided.count_verdicts(),
            constant_fingerprints=self._count_constant_fingerprints(),
        )

    def _count_constant_fingerprints(self) -> dict[str, int] | None:
        """Returns the number of documents of each constant fingerprint that several have."""
        columns = self.request.signature_columns or ("signature",)
        fingerprints = [
            (columns[number], fingerprint)
            for number, pair in constant_fingerprints(self.options)
            for fingerprint in pair
        ]
        if not fingerprints:
            return None
        with_content = self.documents.where(f.col("shingles") > 0)
        counted = with_content.agg(
            *(
                f.count(f.when(f.col(name) == f.lit(bytearray(fingerprint)), 1))
                for name, fingerprint in fingerprints
            )
        ).first()
        counts: Counter[bytes] = Counter()
        for (_, fingerprint), count in zip(fingerprints, counted, strict=True):
            counts[fingerprint] += count
        return select_notable(counts)

    def _list_columns_without_values(self) -> list[str]:
        """Returns the columns of the options `same` and `url` in which no document has a value."""
        columns = value_columns_of(self.options)
        # Facts of tasks are about new documents alone, and earlier ones may have values.
        if not columns or not self.sketch_stats.documents or self.document_tables.before:
            return []
        facts_of_tasks = self.document_tables.task_facts
        with_values = {name for facts in facts_of_tasks for name in facts["values"]}
        return [column.name for column in columns if column.name not in with_values]

    @cached_property
    def exact_duplicates(self) -> ExactDuplicateTables:
        """The exact duplicates, and the first document of each one's group in keep order."""
        acceptance = self.options.acceptance
        documents = self.documents
        if self.has_mixed_groups:
            documents = self._without_blocked(documents)
            if self.has_reference:
                documents = documents.join(self.matches, "doc", "left_anti")
        exact = find_exact_duplicates(
            documents,
            self.tables,
            ("block",) if acceptance is None else ("block", GROUP),
            has_groups=self.options.across is None and groups_exact_duplicates(acceptance),
        )
        if not self.has_mixed_groups:
            return exact
        return join_by_values(
            exact,
            documents,
            self.request.value_keys,
            self.tables,
            drops_empty=self.options.empty == EmptyDocuments.DROP,
            decided=self.decided,
        )

    @cached_property
    def decided(self) -> DecidedPairs | None:
        """The pairs that people decided about, or None without decisions."""
        if self.decisions is None:
            return None
        return number_decisions(self.decisions, self._without_blocked(self.documents))

    @cached_property
    def _first_of_groups(self) -> DataFrame:
        """The first documents of exact groups that have shingles."""
        copies = self.exact_duplicates.copies
        return self.documents.where(f.col("shingles") > 0).join(copies, "doc", "left_anti")

    @property
    def has_blocklist(self) -> bool:
        """True if the documents are compared with a blocklist."""
        return self.blocker is not None

    def match_blocklist(self) -> BlocklistStats:
        """Finds the documents that are like an entry of the blocklist."""
        assert self.blocker is not None
        if self.has_mixed_groups:
            with_shingles = self.documents.where(f.col("shingles") > 0)
            self._blocked, stats = self.blocker.match(self.document_tables, with_shingles)
        else:
            copies = self.exact_duplicates.copies
            first = self._first_of_groups
            self._blocked, stats = self.blocker.match(self.document_tables, first, copies)
        return stats

    def _without_blocked(self, table: DataFrame) -> DataFrame:
        """Returns the rows of a table whose documents are not like a blocked entry."""
        return table if self._blocked is None else table.join(self._blocked, "doc", "left_anti")

    @cached_property
    def active(self) -> DataFrame:
        """The documents that are compared: the first of each exact group, if it has shingles.

        Documents that repeat one of a reference, or are like a blocked entry, are left out.
        """
        first = self._without_blocked(self._first_of_groups).where(has_block())
        if self.matcher is None:
            return first
        if self.matcher.only_reference:
            return first.where(f.lit(False))
        return first.join(self.matches, "doc", "left_anti")

    @property
    def has_reference(self) -> bool:
        """True if the documents are compared with a reference."""
        return self.matcher is not None

    def match_reference(self) -> ReferenceStats:
        """Finds the documents that repeat a document of the reference, or are related to one."""
        assert self.matcher is not None
        self._matches, related, stats = self.matcher.match(self)
        if related is not None:
            related = self.tables.keep(self._without_blocked(related), "related-in-reference")
        self._related_in_reference = related
        if self._blocked is not None:
            open_matches = self._without_blocked(self._matches)
            self._matches, counts = self.tables.counted(
                open_matches, "open-matches", **count_kinds("match_kind")
            )
            stats = replace(stats, **counts_of_kinds(counts))
        return stats

    @property
    def matches(self) -> DataFrame:
        """MATCHES: the documents that repeat one of a reference."""
        if self._matches is None:
            raise RunError("the reference is not compared yet; run the stage against first")
        return self._matches

    @cached_property
    def banded(self) -> BandingTasks:
        """The tasks that band documents."""
        return self._banding_tasks(self.request, self.banding)

    def _banding_tasks(self, request: TaskRequest, banding: Banding) -> BandingTasks:
        key_bytes = self.sketch_stats.documents * (1 + banding.probes) * BYTES_OF_KEY
        return BandingTasks(request, banding, max(1, -(-key_bytes // PART_BYTES)))

    @cached_property
    def scoring(self) -> Scoring:
        """The tasks that score pairs."""
        return Scoring(self.request, self.banding, self.banded.limits.margin)

    @cached_property
    def candidate_search(self) -> CandidateSearch:
        """The search for candidate pairs."""
        return CandidateSearch(
            documents=self.documents,
            scoring=self.scoring,
            banded=self.banded,
            tables=self.tables,
            key_bytes=self.key_bytes,
            before=self.before,
        )

    @cached_property
    def pair_search(self) -> PairSearch:
        """The search for candidate pairs, by one or several kinds of signatures."""
        if not self.request.signature_columns:
            return self.candidate_search
        searches = []
        for number, banding in enumerate(self.bandings):
            banded = self._banding_tasks(self.request.of_candidate_field(number), banding)
            search = CandidateSearch(
                documents=with_signatures_of_field(self.documents, number),
                scoring=Scoring(banded.request, banding, banded.limits.margin),
                banded=banded,
                tables=self.tables,
                key_bytes=self.key_bytes,
            )
            searches.append(search)
        return FieldsSearch(tuple(searches))

    @cached_property
    def candidate_tables(self) -> CandidateTables:
        """The candidate pairs of the active documents."""
        banded = self.pair_search.find_pairs(self.active)
        threshold = self.options.containment_threshold
        if threshold is None:
            return banded
        search = SparkContainmentSearch(
            document_tables=self.document_tables,
            search=self.candidate_search,
            threshold=threshold,
            payload_bytes=self._payload_bytes,
        )
        return search.add_pairs(banded, self.active)

    def find_candidates(self) -> CandidateStats:
        """Bands the active documents."""
        return self.candidate_tables.stats

    @cached_property
    def scorer(self) -> PairScorer:
        """The scored pairs, and what compares further ones."""
        return PairScorer(self.document_tables, self.scoring, self._payload_bytes)

    @property
    def _payload_bytes(self) -> int:
        """The mean size of a document's payload, in bytes."""
        row_bytes = sum(
            np.dtype(kind).itemsize * (width or 1) for kind, width in self.measure.column_types
        )
        row_bytes += np.dtype(np.uint64).itemsize * len(token_kinds_of(self.options.acceptance))
        if self.options.spec.unit == "vector" or self.options.distance is not None:
            return max(1, row_bytes)
        sketched = self.sketch_stats
        if sketched.shingles <= 1:
            return max(1, sketched.shingles * row_bytes)
        return max(1, sketched.shingles * row_bytes // max(sketched.documents, 1))

    def compare_all(self) -> None:
        """Compares all pairs of active documents."""
        self.scorer.compare_all(self.active, self.sketch_stats.shingles)

    def verify_candidates(self) -> VerifiedCandidates:
        """Compares the candidate pairs."""
        candidates = self.candidate_tables
        scored = self.scorer.score_pairs(candidates.pairs, candidates.count)
        stored = self.scorer.store_scored(candidates.pairs, scored)
        return VerifiedCandidates(candidates.count, stored.count)

    def hot_bucket_loop(self) -> SparkHotBucketLoop | None:
        """Returns the loop over the documents of hot buckets, or None if there are none."""
        if self.candidate_tables.hot is None:
            return None
        hot = self.active.join(self.candidate_tables.hot, "doc", "left_semi")
        return SparkHotBucketLoop(self.pair_search, self.cluster_builder, hot)

    def count_scored_pairs(self) -> int:
        """Returns the number of scored pairs that reach the threshold."""
        return self.scorer.scored_tables.count

    @property
    def scored(self) -> DataFrame:
        """SCORED: the pairs that reach the threshold."""
        return self.scorer.scored

    @cached_property
    def cluster_builder(self) -> ClusterBuilder:
        """The decision about which documents are kept."""
        return ClusterBuilder(self.document_tables, self.scorer, self.is_exact)

    def elect_documents(self) -> ClusterStats:
        """Computes the clusters table."""
        copies = self._without_blocked(self.exact_duplicates.copies)
        matches = None
        if self.matcher is not None:
            matches = self.matches
            copies = copies.join(matches, "doc", "left_anti")
            if self.matcher.only_reference:
                copies = copies.where(f.lit(False))
        related = self._related_in_reference
        if related is not None and self.has_mixed_groups:
            # All documents were compared, because they were not grouped yet.
            related = related.join(copies, "doc", "left_anti")
        self._clustered = self.cluster_builder.build_clusters(
            copies, matches, self._blocked, self.decided, related
        )
        stats = self._clustered.stats
        if stats.near + stats.exact < LEAST_DOUBTED:
            return stats
        counted = self.limited_removals()
        removed = counted.where(f.col("kind").isin(KINDS[NEAR], KINDS[EXACT]))
        return replace(
            stats,
            contents=counted.count(),
            contents_removed=removed.count(),
            between=self._count_between(removed.select("doc", "cluster", "similarity")),
        )

    def limited_removals(self) -> DataFrame:
        """Returns the clusters of the documents that count for the limit of removals.

        Exact copies do not, unless their texts are so short that unique documents share them.
        """
        lengths = self.documents.select("doc", "length")
        copies = self.exact_duplicates.copies.select("doc", f.lit(True).alias("is_copy"))
        is_short = f.lit(self.options.has_short_texts) & (f.col("length") <= SHORT_TEXT)
        is_first = f.col("is_copy").isNull() & (f.col("kind") != KINDS[EXACT])
        rows = self.clusters.join(lengths, "doc").join(copies, "doc", "left")
        return rows.where(is_first | is_short)

    def _count_between(self, removed: DataFrame) -> int:
        """Returns how many documents are about as similar to the kept one of another cluster."""
        distance = (1 - f.col("shared") / f.col("joint")).alias("distance")
        first = self.scored.select(f.col("a").alias("doc"), f.col("b").alias("other"), distance)
        second = self.scored.select(f.col("b").alias("doc"), f.col("a").alias("other"), distance)
        kept = self.clusters.where("kept").select(
            f.col("doc").alias("other"), f.col("cluster").alias("of_other")
        )
        pairs = first.union(second).join(removed, "doc").join(kept, "other")
        is_close = f.col("distance") <= NEARLY_AS_CLOSE * (1 - f.col("similarity"))
        between = pairs.where(is_close & (f.col("cluster") != f.col("of_other")))
        return between.select("doc").distinct().count()

    @property
    def cluster_tables(self) -> ClusterTables:
        """The clusters."""
        if self._clustered is None:
            raise RunError("there are no clusters yet; run the stage cluster first")
        return self._clustered

    @property
    def joined(self) -> DataFrame:
        """(doc, leader, similarity, kind, cluster) of each document that is not its own leader."""
        return self.cluster_tables.joined

    @property
    def removed(self) -> DataFrame:
        """(doc, leader, similarity, kind, cluster) of each removed document."""
        return self.joined.where(f.col("kind") != KINDS[FURTHER])

    @property
    def clusters(self) -> DataFrame:
        """(doc, id, cluster, kept, similarity, kind) of each document."""
        return self.cluster_tables.clusters

    @property
    def related(self) -> DataFrame | None:
        """The table of related documents with a and b, or None if they were not asked for."""
        return self.cluster_tables.related

    @property
    def rows(self) -> DataFrame:
        """The clusters table with a row for each input row. The parts of a document are alike."""
        if not self.request.merge_parts:
            return self.clusters
        further = self.document_tables.part_tables.parts.where(f.col("doc") != f.col("head"))
        further = further.withColumnsRenamed({"doc": "part", "head": "doc"})
        parts = self.clusters.join(further, "doc").withColumn("doc", f.col("part")).drop("part")
        return self.clusters.unionByName(parts.select(*self.clusters.columns))

    def save(self, folder: str) -> Saved:
        """Saves signatures, band keys and compared pairs, for a run with further documents."""
        require_saved_keys(self.request)
        if self.decisions is not None or self.blocker is not None:
            option = name_setting("blocklist" if self.decisions is None else "decisions")
            raise UsageError(
                f"a run with {option} cannot be saved: a run that extends it would not follow it; "
                "save a run without it"
            )
        tables = self.scorer.scored_tables
        if tables.compared is None:
            raise UsageError(
                "the corpus is small and was compared by brute force, so there are no bands to "
                "save; give bands and rows"
            )
        about: AboutRun = {
            "spec": json.loads(self.options.spec.to_json()),
            "parameters": self.options.parameters(),
            "types": self.document_tables.types,
        }
        pairs = with_verdicts(tables.compared, tables.scored)
        saved = Saved.write(self.spark, folder, about, self.documents, pairs)
        saved.write_keys(self.request, self.banding)
        return saved


def count_kinds(column: str) -> dict[str, Column]:
    """Returns the counts of exact duplicates and of equal values, as aggregates by their names."""
    return {KINDS[kind]: f.count(f.when(f.col(column) == KINDS[kind], 1)) for kind in (EXACT, SAME)}


def counts_of_kinds(counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the numbers of documents that repeat one of a reference by their kinds."""
    by_kind = {KINDS[kind]: counts[KINDS[kind]] for kind in (EXACT, SAME)}
    return {**by_kind, KINDS[NEAR]: counts["rows"] - sum(by_kind.values())}
