"""Stage 3: from signatures to the candidate pairs that pass the prefilter."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Protocol

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.engine.hot_buckets import GROUPING_LEVELS
from nearkin.engine.options import RunOptions
from nearkin.engine.spark.banding import (
    BUCKETS,
    HOT,
    KEYS,
    SHUFFLED,
    BandingTasks,
    BucketFacts,
    HotBucketFacts,
)
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.pair_bins import apply_to_bins, assign_bins, list_documents_of_bins
from nearkin.engine.spark.saved import DealtRows, Saved
from nearkin.engine.spark.sketching import FIELD_SIGNATURE, TaskRequest
from nearkin.engine.spark.task_functions import apply_to_groups, collect_facts
from nearkin.engine.spark.verification import AGREED, NO_AGREEMENT, HistogramFacts, Scoring
from nearkin.engine.stats import CandidateStats, ClusteredBucket
from nearkin.stages.pair_scope import EVERY_BLOCK


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
    incomplete: int = 0
    """The number of hot buckets whose documents were not all compared with each other."""


class PairSearch(Protocol):
    """A search for candidate pairs."""

    @property
    def tables(self) -> IntermediateTables:
        """The intermediate tables."""

    def find_pairs(self, active: DataFrame, round_number: int = 0) -> CandidateTables:
        """Finds the candidate pairs of some documents."""

    def find_pairs_with(self, sampled: DataFrame, active: DataFrame) -> DataFrame:
        """Finds the pairs (a, b, agree) of sampled documents and others of their hot buckets."""

    def shuffle(self, documents: DataFrame, round_number: int) -> DataFrame:
        """Returns (doc, shuffled): documents with their place in the order of a round."""


@dataclass(frozen=True)
class FieldsSearch:
    """The search for candidate pairs by the signatures of several fields.

    Attributes:
        searches: Search by the signatures of each field.
    """

    searches: tuple["CandidateSearch", ...]

    @property
    def tables(self) -> IntermediateTables:
        """The intermediate tables."""
        return self.searches[0].tables

    def find_pairs(self, active: DataFrame, round_number: int = 0) -> CandidateTables:
        """Finds the candidate pairs of some documents, each once."""
        found = [
            search.find_pairs(with_signatures_of_field(active, number), round_number)
            for number, search in enumerate(self.searches)
        ]
        pairs = reduce(DataFrame.unionByName, [tables.pairs.select("a", "b") for tables in found])
        agree = f.lit(NO_AGREEMENT).cast("int").alias("agree")
        united, counts = self.tables.counted(pairs.distinct().select("a", "b", agree), "united")
        hot = [tables.hot for tables in found if tables.hot is not None]
        stats = found[0].stats
        for tables in found[1:]:
            stats = stats.with_further_field(tables.stats)
        return CandidateTables(
            pairs=united,
            count=counts["rows"],
            hot=reduce(DataFrame.unionByName, hot).distinct() if hot else None,
            stats=replace(stats, survivors=counts["rows"]),
            incomplete=sum(tables.incomplete for tables in found),
        )

    def find_pairs_with(self, sampled: DataFrame, active: DataFrame) -> DataFrame:
        """Finds the pairs (a, b, agree) of sampled documents and others of their hot buckets."""
        found = [
            search.find_pairs_with(sampled, with_signatures_of_field(active, number))
            for number, search in enumerate(self.searches)
        ]
        pairs = reduce(DataFrame.unionByName, [pairs.select("a", "b") for pairs in found])
        return pairs.distinct().withColumn("agree", f.lit(NO_AGREEMENT).cast("int"))

    def shuffle(self, documents: DataFrame, round_number: int) -> DataFrame:
        """Returns (doc, shuffled): documents with their place in the order of a round."""
        first = with_signatures_of_field(documents, 0)
        return self.searches[0].shuffle(first, round_number)


def select_allowed(pairs: DataFrame, documents: DataFrame, options: RunOptions) -> DataFrame:
    """Returns the pairs of documents whose blocks allow it, if the bands do not decide it."""
    if options.bands_by_block:
        return pairs
    blocks = [
        documents.select(f.col("doc").alias(name), f.col("block").alias(f"block_{name}"))
        for name in ("a", "b")
    ]
    joined = pairs.join(blocks[0], "a").join(blocks[1], "b")
    return joined.where(may_share_block("block_a", "block_b")).select(*pairs.columns)


def may_share_block(first: str, second: str) -> Column:
    """Returns whether documents of two blocks are compared, as `PairScope` says."""
    every = int(EVERY_BLOCK)
    is_every = (f.col(first) == every) | (f.col(second) == every)
    return is_every | (f.col(first) == f.col(second))


def with_signatures_of_field(documents: DataFrame, number: int) -> DataFrame:
    """Returns the documents that have a field, with its signatures as theirs."""
    name = f"{FIELD_SIGNATURE}{number}"
    return documents.where(f.col(name).isNotNull()).withColumn("signature", f.col(name))


@dataclass(frozen=True)
class CandidateSearch:
    """The search for candidate pairs.

    Attributes:
        documents: Sketched documents.
        scoring: Tasks that compare signatures.
        banded: Tasks that band documents.
        tables: Intermediate tables.
        key_bytes: Size of the band keys of all documents, in bytes.
        before: Saved run over earlier documents, whose band keys are read.
    """

    documents: DataFrame
    scoring: Scoring
    banded: BandingTasks
    tables: IntermediateTables
    key_bytes: int
    before: Saved | None = None

    @property
    def request(self) -> TaskRequest:
        """The request that tasks receive."""
        return self.banded.request

    def find_pairs(self, active: DataFrame, round_number: int = 0) -> CandidateTables:
        """Finds the candidate pairs of some documents."""
        buckets = self._find_buckets(active)
        parts = collect_facts(buckets, BucketFacts)
        sizes: Counter[int] = Counter()
        for part in parts:
            sizes.update(dict(part["sizes"]))
        largest = self.request.options.complete_bucket_size
        most_pairs = sum(
            count * size * (size - 1) // 2 for size, count in sizes.items() if size <= largest
        )
        cold = buckets.where(f.col("a").isNotNull()).select("a", "b").distinct()
        cold = select_allowed(cold, self.documents, self.request.options)
        agreed, counts = self.tables.counted(
            self._prefilter_pairs(cold, most_pairs), "agreed", pairs=f.count("a")
        )
        histograms = [facts["histogram"] for facts in collect_facts(agreed, HistogramFacts)]
        count = counts["pairs"]
        pairs = agreed.where(f.col("a").isNotNull()).select("a", "b", "agree")
        hot = None
        facts_of_levels: list[list[HotBucketFacts]] = [[]]
        hot_buckets = sum(part["hot"] for part in parts)
        if hot_buckets:
            members = self._list_hot_members(buckets)
            hot = members.select("doc").distinct()
            inside, facts_of_levels = self._cluster_hot_buckets(members, round_number)
            histograms += [facts["histogram"] for level in facts_of_levels for facts in level]
            found = reduce(DataFrame.unionByName, inside)
            allowed = select_allowed(found, self.documents, self.request.options)
            all_pairs = pairs.unionByName(allowed).dropDuplicates(["a", "b"])
            pairs, counts = self.tables.counted(all_pairs, "survivors")
            count = counts["rows"]
        no_pairs = [0] * (self.request.options.spec.k + 1)
        stats = CandidateStats.summarize(
            histogram=np.sum(histograms or [no_pairs], axis=0),
            bucket_sizes=sizes,
            hot=[
                ClusteredBucket(band, members, first)
                for facts in facts_of_levels[0]
                for band, members, first in facts["hottest"]
            ],
            hot_buckets=hot_buckets,
            hot_members=sum(part["members"] for part in parts),
            survivors=count,
            key_bytes=self.key_bytes,
        )
        incomplete = sum(facts["incomplete"] for facts in facts_of_levels[0])
        return CandidateTables(pairs, count, hot, stats, incomplete)

    def find_pairs_with(self, sampled: DataFrame, active: DataFrame) -> DataFrame:
        """Finds the pairs (a, b, agree) of sampled documents and others of their hot buckets."""
        across = self.request.across_columns
        members = self._list_hot_members(self._find_buckets(active))
        if across:
            members = members.join(self.documents.select("doc", *across), "doc")
        of_sample = members.join(sampled.select("doc"), "doc").withColumnRenamed("doc", "other")
        is_pair = f.col("doc") != f.col("other")
        for column in across:
            of_sample = of_sample.withColumnRenamed(column, f"other_{column}")
            is_pair &= f.col(column) != f.col(f"other_{column}")
        pairs = members.join(of_sample, ["band", "key"]).where(is_pair)
        distinct = pairs.select(
            f.least("doc", "other").alias("a"), f.greatest("doc", "other").alias("b")
        ).distinct()
        allowed = select_allowed(distinct, self.documents, self.request.options)
        stored, counts = self.tables.counted(allowed, "sampled-pairs")
        agreed = self.tables.keep(self._prefilter_pairs(stored, counts["rows"]), "agreed")
        return agreed.where(f.col("a").isNotNull()).select("a", "b", "agree")

    def shuffle(self, documents: DataFrame, round_number: int) -> DataFrame:
        """Returns (doc, shuffled): documents with their place in the order of a round."""
        shuffled = partial(self.banded.shuffled, round_number=round_number)
        return documents.select("doc", "signature").mapInArrow(shuffled, SHUFFLED)

    def _find_buckets(self, active: DataFrame) -> DataFrame:
        """BUCKETS of some documents."""
        keys = self._band_keys(active)
        grouped = keys.groupBy("part").applyInArrow(apply_to_groups(self.banded.buckets), BUCKETS)
        return self.tables.keep(grouped, "buckets")

    @staticmethod
    def _list_hot_members(buckets: DataFrame) -> DataFrame:
        """(band, key, doc) of the documents of hot buckets, from BUCKETS or HOT."""
        return buckets.where(f.col("doc").isNotNull()).select("band", "key", "doc")

    def _band_keys(self, active: DataFrame) -> DataFrame:
        """KEYS. The keys of documents of the saved run are read, not computed."""
        across = self.request.across_columns
        columns = ("doc", "block", "signature", "keys", *across)
        if self.before is None:
            return active.select(*columns).mapInArrow(self.banded.keys, KEYS)
        stored = self.before.keys(self.banded.banding)
        fresh = active.join(self.before.documents.select("doc"), "doc", "left_anti")
        computed = fresh.select(*columns).mapInArrow(self.banded.keys, KEYS)
        return (
            stored.join(active.select("doc", *across), "doc")
            .select("band", "key", "doc", *across)
            .mapInArrow(DealtRows(self.banded), KEYS)
            .unionByName(computed)
        )

    def _prefilter_pairs(self, pairs: DataFrame, most_pairs: int) -> DataFrame:
        """AGREED: the pairs whose signatures agree in enough slots."""
        spec = self.request.options.spec
        signature_bytes = spec.signature_width * np.dtype(spec.signature_type).itemsize
        in_bins = assign_bins(pairs, most_pairs, signature_bytes)
        documents = list_documents_of_bins(in_bins).join(
            self.documents.select("doc", "signature"), "doc"
        )
        return apply_to_bins(in_bins, documents, self.scoring.estimated, AGREED)

    def _cluster_hot_buckets(
        self, members: DataFrame, round_number: int
    ) -> tuple[list[DataFrame], list[list[HotBucketFacts]]]:
        """Clusters hot buckets internally, and the groups of documents that are left over.

        A task clusters one bucket after the other and holds the leaders of one bucket.
        """
        order = ["band", "key", "sort"]
        documents = self.documents.select("doc", "sort", "signature", *self.request.across_columns)
        if round_number:
            documents = documents.join(members.select("doc").distinct(), "doc")
            shuffled = self.shuffle(documents, round_number)
            documents = documents.join(shuffled, "doc")
            order.insert(2, "shuffled")
        cluster = partial(self.banded.hot, joins_leaders=not round_number)
        pairs = []
        facts = []
        for _ in range(GROUPING_LEVELS):
            grouped = members.join(documents, "doc").repartition("band", "key")
            ordered = grouped.sortWithinPartitions(*order)
            clustered = self.tables.keep(ordered.mapInArrow(cluster, HOT), "hot-pairs")
            pairs.append(clustered.where(f.col("a").isNotNull()).select("a", "b", "agree"))
            facts.append(collect_facts(clustered, HotBucketFacts))
            if not any(task["incomplete"] for task in facts[-1]):
                break
            members = self._list_hot_members(clustered)
        return pairs, facts
