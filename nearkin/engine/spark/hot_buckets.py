"""The rounds over kept documents of hot buckets, in the Spark engine."""

from pyspark.sql import DataFrame

from nearkin.engine.hot_buckets import HotBucketLoop
from nearkin.engine.spark.candidates import PairSearch
from nearkin.engine.spark.cluster_tables import ClusterBuilder


class SparkHotBucketLoop(HotBucketLoop):
    """The rounds over scored pairs in tables.

    Args:
        search: Finds candidate pairs among documents.
        builder: Elects documents, and holds the scored pairs so far.
        hot: Active documents of hot buckets.
    """

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

    def compare_selected(self) -> bool:
        """Bands the selected documents again, and adds the pairs that reach the threshold."""
        scorer = self._builder.scorer
        candidates = self._search.find_pairs(self._selected)
        before = scorer.scored_tables
        compared = candidates.pairs
        if before.compared is not None:
            compared = before.compared.unionByName(candidates.pairs).dropDuplicates(["a", "b"])
        known = before.scored.select("a", "b")
        new_pairs = candidates.pairs.join(known, ["a", "b"], "left_anti")
        new_scored = scorer.score_pairs(new_pairs, candidates.count)
        fresh, counts = self._tables.counted(new_scored, "fresh")
        scorer.store_compared(compared)
        if not counts["rows"]:
            return False
        scorer.store_scored(compared, before.scored.unionByName(fresh))
        return True
