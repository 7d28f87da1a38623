"""Stage 5: from scored pairs to the clusters of all documents."""

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from nearkin.engine.result_schema import (
    BLOCKED,
    BLOCKED_BY_COLUMN,
    EMPTY,
    EXACT,
    FURTHER,
    KEPT,
    KINDS,
    MATCHED_IN,
    NEAR,
    NEW_OUTCOME,
    OUTCOMES,
    RELATED,
    RELATED_OUTCOME,
    SAME,
    SAME_OUTCOME,
    UNIQUE,
)
from nearkin.engine.spark.clustering import ELECTED, Election, find_components
from nearkin.engine.spark.decisions import list_pairs_apart
from nearkin.engine.spark.document_tables import DocumentTables
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.pair_bins import apply_to_bins, list_documents_of_bins
from nearkin.engine.spark.pair_scoring import PairScorer
from nearkin.engine.stats import ClusterStats
from nearkin.settings.choices import ClusterMethod, EmptyDocuments
from nearkin.stages.cluster.decided_pairs import NO_PAIRS, DecidedPairs

PAIRS_IN_ONE_TASK = 4_000_000
"""Number of scored pairs up to which one task clusters all of them. If there are more, connected
components are found first."""


@dataclass(frozen=True)
class ClusterTables:
    """The clusters."""

    joined: DataFrame
    """(doc, leader, similarity, kind, cluster) of each document that is not its own leader."""
    clusters: DataFrame
    """(doc, id, cluster, kept, similarity, kind) of each document."""
    stats: ClusterStats
    related: DataFrame | None = None
    """(a, b, and the columns of the table of related documents), or None if not asked for. In the
    rows of documents of a reference, b is null."""


@dataclass(frozen=True)
class ClusterBuilder:
    """Decides which documents are kept, from the scored pairs so far.

    Attributes:
        document_tables: Tables of documents.
        scorer: Scored pairs, and what compares further ones.
        is_exact: Whether the similarities of scored pairs are exact, not estimates.
    """

    document_tables: DocumentTables
    scorer: PairScorer
    is_exact: bool

    @property
    def tables(self) -> IntermediateTables:
        """The intermediate tables."""
        return self.document_tables.tables

    def elect(
        self,
        *,
        components: bool,
        copies: DataFrame | None = None,
        apart: np.ndarray = NO_PAIRS,
    ) -> DataFrame:
        """Returns ELECTED: the removed documents, exact duplicates apart.

        Args:
            apart: Pairs of documents that are never in one cluster, int64 (d, 2).
        """
        criterion = None
        if copies is not None:
            criterion = self.document_tables.options.keep_policy.cluster_criterion
        election = Election(
            self.scorer.scoring,
            exact=self.is_exact,
            components=components,
            criterion=criterion,
            apart=apart,
        )
        columns = self.scorer.scored.select("a", "b", "shared", "joint")
        pairs = self._with_components(columns)
        members = list_documents_of_bins(pairs)
        needs_signatures = components and not election.reads_payloads
        compared = ["signature"] if needs_signatures else []
        sorted_documents = self.document_tables.documents.select("doc", "sort", *compared)
        documents = members.join(sorted_documents, "doc")
        if criterion is not None and copies is not None:
            times = (
                copies.where(~f.col("same"))
                .groupBy("head")
                .count()
                .withColumnsRenamed({"head": "doc"})
            )
            number = (f.coalesce("count", f.lit(0)) + 1).alias("copies")
            documents = documents.join(times, "doc", "left").select(*documents.columns, number)
        if election.reads_payloads:
            payloads = self.document_tables.payloads(members.select("doc").distinct())
            documents = documents.join(payloads, "doc")
        elected = apply_to_bins(pairs, documents, election.elect, ELECTED)
        return self.tables.keep(elected, "elected")

    def _with_components(self, pairs: DataFrame) -> DataFrame:
        """Returns pairs with a bin each. No component is in two bins."""
        count = self.scorer.scored_tables.count
        if count <= PAIRS_IN_ONE_TASK:
            return pairs.withColumn("bin", f.lit(0))
        components = find_components(pairs, lambda edges: self.tables.keep(edges, "edges"))
        cores = self.tables.spark.sparkContext.defaultParallelism
        bins = max(1, -(-count // max(PAIRS_IN_ONE_TASK, 1)), cores)
        bin_number = f.pmod(f.xxhash64("component"), f.lit(bins)).cast("int")
        shares = components.select(f.col("doc").alias("a"), bin_number.alias("bin"))
        return pairs.join(shares, "a")

    def build_clusters(
        self,
        exact_duplicates: DataFrame,
        matches: DataFrame | None = None,
        blocked: DataFrame | None = None,
        decided: DecidedPairs | None = None,
        related_in_reference: DataFrame | None = None,
    ) -> ClusterTables:
        """Computes the clusters of all documents."""
        options = self.document_tables.options
        by_components = options.cluster == ClusterMethod.COMPONENTS
        apart = NO_PAIRS if decided is None else list_pairs_apart(decided, exact_duplicates)
        elected = self.elect(components=by_components, copies=exact_duplicates, apart=apart)
        joined = self._with_exact_duplicates(elected, exact_duplicates)
        if options.keep_up_to > 1:
            joined = self._with_further_copies(joined)
        joined = self.tables.keep(joined, "removed")
        are_counted = {
            SAME: options.groups_by_value or decided is not None,
            FURTHER: options.keep_up_to > 1,
            BLOCKED: blocked is not None,
        }
        kinds = [kind for number, kind in enumerate(KINDS) if are_counted.get(number, True)]
        by_kind = {kind: f.count(f.when(f.col("kind") == kind, 1)) for kind in kinds}
        if options.compares_sets:
            has_same_shingles = (f.col("kind") == KINDS[NEAR]) & (f.col("similarity") == 1.0)
            by_kind["same_shingles"] = f.count(f.when(has_same_shingles, 1))
        rows = self._list_clusters(joined)
        if matches is not None:
            rows = _with_matches(rows, matches)
        if blocked is not None:
            rows = _with_blocked(rows, blocked)
        related = None
        related_counts: dict[str, int] = {}
        if options.related is not None:
            rows = self.tables.keep(rows, "linkable")
            pairs = find_related_pairs(self.scorer.linkable_pairs, rows)
            if related_in_reference is not None:
                pairs = _with_reference(pairs, related_in_reference, rows)
            related, pair_counts = self.tables.counted(pairs, "related")
            rows = with_outcomes(rows, related)
            by_kind["related"] = f.count(f.when(f.col("outcome") == OUTCOMES[RELATED_OUTCOME], 1))
            related_counts["related_pairs"] = pair_counts["rows"]
        if blocked is not None:
            names = [name for name in rows.columns if name != BLOCKED_BY_COLUMN.name]
            rows = rows.select(*names, BLOCKED_BY_COLUMN.name)
        clusters, counts = self.tables.counted(
            rows,
            "clusters",
            documents_kept=f.count(f.when(f.col("kept"), 1)),
            **by_kind,
        )
        documents = counts.pop("rows")
        same_shingles = counts.pop("same_shingles", 0) or None
        removed_count = documents - counts["documents_kept"]
        stats = ClusterStats(
            documents=documents,
            documents_removed=removed_count,
            same_shingles=same_shingles,
            **counts,
            **related_counts,
        )
        return ClusterTables(joined, clusters, stats, related)

    def _with_further_copies(self, joined: DataFrame) -> DataFrame:
        """Names the documents that are kept beside the kept document of their cluster."""
        order = self.document_tables.documents.select("doc", "sort")
        place = f.row_number().over(Window.partitionBy("leader").orderBy("sort"))
        is_further = f.col("place") < self.document_tables.options.keep_up_to
        kind = f.when(is_further, KINDS[FURTHER]).otherwise(f.col("kind"))
        placed = joined.join(order, "doc").withColumn("place", place)
        return placed.withColumn("kind", kind).select(*joined.columns)

    def _with_exact_duplicates(self, elected: DataFrame, copies: DataFrame) -> DataFrame:
        """Adds the documents that follow the first document of their group.

        Those that follow it because of an equal value have no similarity.
        """
        heads = elected.select(
            f.col("doc").alias("head"), f.col("leader").alias("next"), "similarity"
        )
        is_exact = f.col("next").isNull()
        is_same = f.col("same")
        similarity = f.coalesce("similarity", f.lit(1.0))
        copies = copies.join(heads, "head", "left").select(
            "doc",
            f.coalesce("next", "head").alias("leader"),
            f.when(~is_same, similarity).alias("similarity"),
            f.when(is_same, KINDS[SAME])
            .when(is_exact, KINDS[EXACT])
            .otherwise(KINDS[NEAR])
            .alias("kind"),
        )
        documents = self.document_tables.documents
        all_documents = elected.withColumn("kind", f.lit(KINDS[NEAR])).unionByName(copies)
        options = self.document_tables.options
        is_divided = options.across is not None or options.acceptance is not None
        if is_divided or not options.bands_by_block:
            # Documents with the same content need not be in one exact group.
            is_same = f.col("kind") == KINDS[SAME]
            named = _with_kinds(all_documents.where(~is_same).drop("kind"), documents)
            all_documents = named.unionByName(all_documents.where(is_same))
        names = documents.select(f.col("doc").alias("leader"), f.col("id").alias("cluster"))
        joined = all_documents.join(names, "leader")
        return joined.select("doc", "leader", "similarity", "kind", "cluster")

    def _list_clusters(self, joined: DataFrame) -> DataFrame:
        is_empty = (f.col("fp0") == 0) & (f.col("fp1") == 0) & (f.col("shingles") == 0)
        heads = joined.select(f.col("leader").alias("doc")).distinct()
        heads = heads.withColumn("head", f.lit(True))
        documents = self.document_tables.documents.select("doc", "id", is_empty.alias("empty"))
        rows = documents.join(joined.drop("leader"), "doc", "left").join(heads, "doc", "left")
        is_dropped = f.col("empty") & f.lit(
            self.document_tables.options.empty == EmptyDocuments.DROP
        )
        is_own_leader = f.col("cluster").isNull()
        is_further = f.coalesce(f.col("kind") == KINDS[FURTHER], f.lit(False))
        similarity = f.when(is_own_leader, f.lit(1.0)).otherwise(f.col("similarity"))
        kind_if_not_removed = (
            f.when(f.col("head"), KINDS[KEPT])
            .when(f.col("empty"), KINDS[EMPTY])
            .otherwise(KINDS[UNIQUE])
        )
        return rows.select(
            "doc",
            "id",
            f.coalesce("cluster", "id").alias("cluster"),
            ((is_own_leader & ~is_dropped) | is_further).alias("kept"),
            f.when(is_dropped, f.lit(None)).otherwise(similarity).alias("similarity"),
            f.coalesce("kind", kind_if_not_removed).alias("kind"),
        )


def find_related_pairs(pairs: DataFrame, clusters: DataFrame) -> DataFrame:
    """Returns the pairs of different clusters: a, b, and the table of related documents."""
    rows = clusters.select("doc", "cluster", "kept")
    first = rows.withColumnsRenamed({"doc": "a", "cluster": "cluster_a", "kept": "kept_a"})
    second = rows.withColumnsRenamed({"doc": "b", "cluster": "cluster_b", "kept": "kept_b"})
    both = pairs.join(first, "a").join(second, "b")
    related = both.where(f.col("cluster_a") != f.col("cluster_b"))
    return related.select("a", "b", *RELATED.names)


def _with_reference(pairs: DataFrame, in_reference: DataFrame, clusters: DataFrame) -> DataFrame:
    """Adds the documents of a reference to the related pairs, and says where document b is."""
    rows = clusters.select("doc", "id", "cluster", "kept").join(in_reference, "doc")
    linked = rows.select(
        f.col("doc").alias("a"),
        f.lit(None).cast("long").alias("b"),
        f.col("id").alias("id_a"),
        f.col("related_to").alias("id_b"),
        "similarity",
        f.col("kept").alias("kept_a"),
        f.lit(True).alias("kept_b"),
        f.col("cluster").alias("cluster_a"),
        f.col("related_to").alias("cluster_b"),
        f.lit(MATCHED_IN[0]).alias("matched_in"),
    )
    return pairs.withColumn("matched_in", f.lit(MATCHED_IN[1])).unionByName(linked)


def with_outcomes(clusters: DataFrame, related: DataFrame) -> DataFrame:
    """Says of each document what it is: a duplicate, related to others, or new.

    A document that a blocklist removed has no outcome.
    """
    linked = related.select(f.col("a").alias("doc")).union(related.select("b")).distinct()
    linked = linked.where(f.col("doc").isNotNull())
    rows = clusters.join(linked.withColumn("linked", f.lit(True)), "doc", "left")
    duplicates = [KINDS[kind] for kind in (EXACT, NEAR, SAME, FURTHER)]
    outcome = (
        f.when(f.col("kind") == KINDS[BLOCKED], f.lit(None))
        .when(f.col("kind").isin(duplicates), OUTCOMES[SAME_OUTCOME])
        .when(f.col("linked"), OUTCOMES[RELATED_OUTCOME])
        .otherwise(OUTCOMES[NEW_OUTCOME])
    )
    return rows.withColumn("outcome", outcome).drop("linked")


def _with_matches(clusters: DataFrame, matches: DataFrame) -> DataFrame:
    """Removes the documents that repeat one of a reference, and says what removed ones repeat."""
    joined = clusters.join(matches, "doc", "left")
    in_reference = f.col("match_kind").isNotNull()
    in_run = ~in_reference & f.col("kind").isin(KINDS[EXACT], KINDS[NEAR], KINDS[SAME])
    cluster = f.coalesce("duplicate_of", "cluster")
    similarity = f.when(in_reference, f.col("match_similarity")).otherwise(f.col("similarity"))
    return joined.select(
        "doc",
        "id",
        cluster.alias("cluster"),
        (f.col("kept") & ~in_reference).alias("kept"),
        similarity.alias("similarity"),
        f.coalesce("match_kind", "kind").alias("kind"),
        f.when(in_reference | in_run, cluster).alias("duplicate_of"),
        f.when(in_reference, MATCHED_IN[0]).when(in_run, MATCHED_IN[1]).alias("matched_in"),
    )


def _with_blocked(clusters: DataFrame, blocked: DataFrame) -> DataFrame:
    """Removes the documents that are like an entry of a blocklist."""
    joined = clusters.join(blocked, "doc", "left")
    is_blocked = f.col("blocked_by").isNotNull()
    changed = {
        "kept": f.col("kept") & ~is_blocked,
        "similarity": f.coalesce("block_similarity", "similarity"),
        "kind": f.when(is_blocked, KINDS[BLOCKED]).otherwise(f.col("kind")),
    }
    return joined.withColumns(changed).drop("block_similarity")


def _with_kinds(elected: DataFrame, documents: DataFrame) -> DataFrame:
    """Adds the kind of each removed document: `exact` if its leader has the same content."""
    own = documents.select("doc", "fp0", "fp1")
    names = {"doc": "leader", "fp0": "leader_fp0", "fp1": "leader_fp1"}
    joined = elected.join(own, "doc").join(own.withColumnsRenamed(names), "leader")
    is_copy = (f.col("fp0") == f.col("leader_fp0")) & (f.col("fp1") == f.col("leader_fp1"))
    kind = f.when(is_copy, KINDS[EXACT]).otherwise(KINDS[NEAR])
    return joined.withColumn("kind", kind).select("doc", "leader", "similarity", "kind")
