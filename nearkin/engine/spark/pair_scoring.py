"""Stage 4: the scored pairs, and what compares further pairs."""

from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.spark.document_tables import DocumentTables
from nearkin.engine.spark.pair_bins import (
    apply_to_bins,
    assign_bins,
    assign_bins_of_all_pairs,
    list_documents_of_bins,
)
from nearkin.engine.spark.saved import split_known
from nearkin.engine.spark.task_functions import apply_to_batches, apply_to_groups
from nearkin.engine.spark.verification import ACCEPTANCE_COLUMNS, SCORED, SHARED, Scoring
from nearkin.errors import RunError
from nearkin.settings.choices import Verify

SHINGLES_PER_TASK = 1 << 25
"""The number of shingles whose documents one task compares with each other, in its memory."""


@dataclass(frozen=True)
class ScoredTables:
    """The pairs that were compared so far."""

    compared: DataFrame | None
    """(a, b, agree): the compared candidate pairs, or None if all pairs were compared."""
    scored: DataFrame
    """SCORED: the pairs of duplicates, and those of related documents if there are any."""
    count: int
    """The number of pairs of duplicates."""


@dataclass
class PairScorer:
    """Compares pairs, and holds the scored pairs so far.

    Attributes:
        document_tables: Tables of documents.
        scoring: Tasks that score pairs.
        payload_bytes: Mean size of a document's payload, in bytes.
    """

    document_tables: DocumentTables
    scoring: Scoring
    payload_bytes: int
    _scored: ScoredTables | None = field(init=False, default=None)

    @property
    def scored_tables(self) -> ScoredTables:
        """The pairs that were compared so far."""
        if self._scored is None:
            raise RunError("no pairs are scored yet; run the stage verify first")
        return self._scored

    @property
    def scored(self) -> DataFrame:
        """SCORED: the pairs of duplicates, which reach the threshold and are accepted."""
        return self.scored_tables.scored.where("accepted")

    @property
    def related(self) -> DataFrame:
        """SCORED: the other pairs, whose documents are similar without being duplicates."""
        return self.scored_tables.scored.where("NOT accepted")

    def store_scored(self, compared: DataFrame | None, scored: DataFrame) -> ScoredTables:
        """Stores the scored pairs, in the place of previous ones."""
        table, counts = self.document_tables.tables.counted(
            scored, "scored", accepted=f.count(f.when(f.col("accepted"), 1))
        )
        self._scored = ScoredTables(compared, table, counts["accepted"])
        return self._scored

    def store_compared(self, compared: DataFrame) -> None:
        """Stores the candidate pairs that were compared so far (a, b, agree)."""
        self._scored = replace(self.scored_tables, compared=compared)

    def score_pairs(self, pairs: DataFrame, count: int) -> DataFrame:
        """Returns SCORED of pairs. Pairs of the saved run are not compared again."""
        if self.document_tables.before is None:
            return self._compare(pairs, count)
        known, rest = split_known(pairs, self.document_tables.before.pairs)
        return known.unionByName(
            self._compare(self.document_tables.tables.keep(rest, "new-pairs"), count)
        )

    @property
    def _acceptance_columns(self) -> tuple[str, ...]:
        """The columns of documents that the acceptance of the run reads, if it has one."""
        is_accepting = self.scoring.request.options.acceptance is not None
        return ACCEPTANCE_COLUMNS if is_accepting else ()

    def _compare(self, pairs: DataFrame, count: int) -> DataFrame:
        if self.scoring.request.options.verify != Verify.EXACT:
            return pairs.mapInArrow(apply_to_batches(self.scoring.by_estimate), SCORED)
        in_bins = assign_bins(pairs, count, self.payload_bytes)
        documents_of_bins = list_documents_of_bins(in_bins)
        payloads = self.document_tables.payloads(documents_of_bins.select("doc").distinct())
        if self._acceptance_columns:
            facts = self.document_tables.documents.select("doc", *self._acceptance_columns)
            payloads = payloads.join(facts, "doc")
        return apply_to_bins(
            in_bins, documents_of_bins.join(payloads, "doc"), self.scoring.exactly, SCORED
        )

    def count_shared(self, pairs: DataFrame) -> DataFrame:
        """Returns SHARED of pairs, however similar they are."""
        stored, counts = self.document_tables.tables.counted(pairs, "unscored")
        in_bins = assign_bins(stored, counts["rows"], self.payload_bytes)
        documents_of_bins = list_documents_of_bins(in_bins)
        payloads = self.document_tables.payloads(documents_of_bins.select("doc").distinct())
        documents = documents_of_bins.join(payloads, "doc")
        return apply_to_bins(in_bins, documents, self.scoring.count_shared, SHARED)

    def compare_all(self, active: DataFrame, shingles: int) -> None:
        """Compares all pairs of some documents, and stores the scored pairs.

        One task compares them if their payloads fit into its memory. Otherwise the documents are
        divided into portions, and a task compares the documents of two portions.
        """
        across = self.scoring.request.across_columns
        documents = active.select("doc", "block", "signature", *across, *self._acceptance_columns)
        payloads = self.document_tables.payloads(documents.select("doc"))
        portions = 1 if shingles <= SHINGLES_PER_TASK else -(-2 * shingles // SHINGLES_PER_TASK)
        in_bins = assign_bins_of_all_pairs(documents.join(payloads, "doc"), portions)
        scored = in_bins.groupBy("bin").applyInArrow(
            apply_to_groups(self.scoring.compare_all), SCORED
        )
        if portions > 1:
            scored = scored.dropDuplicates(["a", "b"])
        self.store_scored(None, scored)

    @property
    def pair_table(self) -> DataFrame:
        """The pairs table of the local engine, with the documents a and b of each pair."""
        return self._name_pairs(self.scored)

    @property
    def linkable_pairs(self) -> DataFrame:
        """The table of all scored pairs, those of related documents included."""
        return self._name_pairs(self.scored_tables.scored)

    def _name_pairs(self, scored: DataFrame) -> DataFrame:
        names = self.document_tables.documents.select("doc", "id")
        first = names.withColumnsRenamed({"doc": "a", "id": "id_a"})
        second = names.withColumnsRenamed({"doc": "b", "id": "id_b"})
        both = scored.join(first, "a").join(second, "b")
        return both.mapInArrow(self.scoring.named, self.scoring.pairs_schema)
