"""The rounds over kept documents of hot buckets, in the Spark engine."""

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.hot_buckets import (
    SAMPLE_ROUND,
    SAMPLED_DOCUMENTS,
    HotBucketLoop,
    HotBucketRound,
    MissingCounts,
)
from nearkin.engine.spark.candidates import PairSearch
from nearkin.engine.spark.cluster_tables import ClusterBuilder


class SparkHotBucketLoop(HotBucketLoop):
    """The rounds over scored pairs in tables."""

    def __init__(self, search: PairSearch, builder: ClusterBuilder, hot: DataFrame) -> None:
        self._search = search
        self._builder = builder
        self._tables = search.tables
        self._documents = search.tables.keep(hot, "hot")
        self._selected = self._documents

    def select_kept(self) -> int:
        """Selects the documents of hot buckets that no scored pair removes so far."""
        removed = self._builder.elect(components=False).select("doc")
        kept = self._documents.join(removed, "doc", "left_anti")
        self._selected, counts = self._tables.counted(kept, "active")
        return counts["rows"]

    def compare_selected(self, round_number: int) -> HotBucketRound:
        """Bands the selected documents again, and adds the pairs that reach the threshold."""
        scorer = self._builder.scorer
        candidates = self._search.find_pairs(self._selected, round_number)
        before = scorer.scored_tables
        compared = candidates.pairs
        if before.compared is not None:
            compared = before.compared.unionByName(candidates.pairs).dropDuplicates(["a", "b"])
        known = before.scored.select("a", "b")
        new_pairs = candidates.pairs.join(known, ["a", "b"], "left_anti")
        new_scored = scorer.score_pairs(new_pairs, candidates.count)
        fresh, counts = self._tables.counted(new_scored, "fresh")
        scorer.store_compared(compared)
        has_new_pairs = counts["rows"] > 0
        if has_new_pairs:
            scorer.store_scored(compared, before.scored.unionByName(fresh))
        return HotBucketRound(has_new_pairs, candidates.incomplete)

    def count_missing(self) -> MissingCounts:
        """Counts the pairs of a sample of the kept documents that no round found."""
        self.select_kept()
        shuffled = self._search.shuffle(self._selected, SAMPLE_ROUND)
        placed = self._selected.select("doc", "sort").join(shuffled, "doc")
        ordered, documents = self._tables.counted(placed, "shuffled")
        sample = ordered.orderBy("shuffled", "sort").limit(SAMPLED_DOCUMENTS).select("doc")
        sampled, sample_counts = self._tables.counted(sample, "sampled")
        scorer = self._builder.scorer
        pairs = self._search.find_pairs_with(sampled, self._selected)
        known = scorer.scored.select("a", "b")
        unknown, counts = self._tables.counted(
            pairs.join(known, ["a", "b"], "left_anti"), "unknown"
        )
        missing = scorer.score_pairs(unknown, counts["rows"]).where("accepted")
        missing = self._tables.keep(missing.select("a", "b"), "missing")
        ends = missing.select(f.explode(f.array("a", "b")).alias("doc")).join(sampled, "doc")
        found = [row["count"] for row in ends.groupBy("doc").count().collect()]
        counted = np.zeros(sample_counts["rows"], np.int64)
        counted[: len(found)] = found
        return MissingCounts(counted, documents["rows"])
