"""Stage 3: from signatures to the candidate pairs that pass the prefilter."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.engine.options import RunOptions
from nearkin.engine.spark.banding import BUCKETS, HOT, KEYS, BandingTasks, BucketFacts
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.pair_bins import apply_to_bins, assign_bins, list_documents_of_bins
from nearkin.engine.spark.saved import DealtRows, Saved
from nearkin.engine.spark.sketching import FIELD_SIGNATURE, TaskRequest
from nearkin.engine.spark.task_functions import apply_to_groups, collect_facts
from nearkin.engine.spark.verification import AGREED, NO_AGREEMENT, HistogramFacts, Scoring
from nearkin.engine.stats import CandidateStats, ClusteredBucket
from nearkin.pair_scope import EVERY_BLOCK


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


class PairSearch(Protocol):
    """A search for candidate pairs."""

    @property
    def tables(self) -> IntermediateTables:
        """The intermediate tables."""

    def find_pairs(self, active: DataFrame) -> CandidateTables:
        """Finds the candidate pairs of some documents.

        Args:
            active: Documents that are banded.
        """


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

    def find_pairs(self, active: DataFrame) -> CandidateTables:
        """Finds the candidate pairs of some documents, each once.

        Args:
            active: Documents that are banded, with the signatures of all fields.
        """
        found = [
            search.find_pairs(with_signatures_of_field(active, number))
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
        )


def select_allowed(pairs: DataFrame, documents: DataFrame, options: RunOptions) -> DataFrame:
    """Returns the pairs of documents whose blocks allow it, if the bands do not decide it.

    Args:
        pairs: Pairs (a, b, ...).
        documents: Documents (doc, block, ...).
        options: Options of the run.
    """
    if options.bands_by_block:
        return pairs
    blocks = [
        documents.select(f.col("doc").alias(name), f.col("block").alias(f"block_{name}"))
        for name in ("a", "b")
    ]
    joined = pairs.join(blocks[0], "a").join(blocks[1], "b")
    return joined.where(may_share_block("block_a", "block_b")).select(*pairs.columns)


def may_share_block(first: str, second: str) -> Column:
    """Returns whether documents of two blocks are compared, as `PairScope` says.

    Args:
        first: Column of blocks, none of which is NO_BLOCK.
        second: Another one.
    """
    every = int(EVERY_BLOCK)
    is_every = (f.col(first) == every) | (f.col(second) == every)
    return is_every | (f.col(first) == f.col(second))


def with_signatures_of_field(documents: DataFrame, number: int) -> DataFrame:
    """Returns the documents that have a field, with its signatures as theirs.

    Args:
        documents: Documents with the signatures of all fields that find candidate pairs.
        number: Number of the field among these.
    """
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

    def find_pairs(self, active: DataFrame) -> CandidateTables:
        """Finds the candidate pairs of some documents.

        Args:
            active: Documents that are banded.
        """
        keys = self._band_keys(active)
        grouped = keys.groupBy("part").applyInArrow(apply_to_groups(self.banded.buckets), BUCKETS)
        buckets = self.tables.keep(grouped, "buckets")
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
        tasks = collect_facts(agreed, HistogramFacts)
        count = counts["pairs"]
        pairs = agreed.where(f.col("a").isNotNull()).select("a", "b", "agree")
        hot = None
        hot_buckets = sum(part["hot"] for part in parts)
        if hot_buckets:
            members = buckets.where(f.col("doc").isNotNull()).select("band", "key", "doc")
            hot = members.select("doc").distinct()
            clustered = self.tables.keep(self._cluster_hot_buckets(members), "hot-pairs")
            tasks += collect_facts(clustered, HistogramFacts)
            inside = clustered.where(f.col("a").isNotNull()).select("a", "b", "agree")
            inside = select_allowed(inside, self.documents, self.request.options)
            all_pairs = pairs.unionByName(inside).dropDuplicates(["a", "b"])
            pairs, counts = self.tables.counted(all_pairs, "survivors")
            count = counts["rows"]
        no_pairs = [0] * (self.request.options.spec.k + 1)
        stats = CandidateStats.summarize(
            histogram=np.sum([task["histogram"] for task in tasks] or [no_pairs], axis=0),
            bucket_sizes=sizes,
            hot=[
                ClusteredBucket(band, members, first)
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

    def _cluster_hot_buckets(self, members: DataFrame) -> DataFrame:
        """HOT. A task clusters one bucket after the other and holds the leaders of one bucket."""
        across = self.request.across_columns
        documents = self.documents.select("doc", "sort", "signature", *across)
        grouped = members.join(documents, "doc").repartition("band", "key")
        ordered = grouped.sortWithinPartitions("band", "key", "sort")
        return ordered.mapInArrow(self.banded.hot, HOT)
