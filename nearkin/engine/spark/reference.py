"""The comparison of a run's documents with those of a reference, over Spark.

One run over both sides finds the pairs between them: the side of a document is its source, and only
documents of different sources are compared. Ids of the two sides may be equal, so those of the run
over both begin with the side.
"""

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.cluster.keep import DEFAULT_ORDER
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.run import ReferenceMatchTable, SparkRun
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.sources import FrameSource, quote_column, unused_name
from nearkin.engine.stats import ReferenceStats
from nearkin.runtime.progress import Silent

OURS = "n"
THEIRS = "r"
"""The first letters of the ids of the run's documents, and of those of the reference."""


@dataclass(frozen=True)
class SparkReference:
    """A comparison of the rows of a DataFrame with those of a reference.

    Attributes:
        frame: Rows of the run.
        reference: Rows of the reference, with the same columns.
        only_reference: Whether the documents of the run are not compared with each other.
    """

    frame: DataFrame
    reference: DataFrame
    only_reference: bool = False

    def match(self, run: SparkRun) -> ReferenceMatchTable:
        """Finds the documents that repeat one of the reference, each with its best match.

        Args:
            run: Run whose exact duplicates are grouped.
        """
        both = self._run_over_both(run)
        both.to_pairs()
        exact = _match_copies(both.documents)
        near = _match_pairs(both)
        order = f.struct(~f.col("is_exact"), -f.col("match_similarity"), "duplicate_of")
        best = exact.unionByName(near).groupBy("own")
        chosen = best.agg(
            f.min_by(f.struct("duplicate_of", "match_similarity", "is_exact"), order).alias("best")
        )
        ids = chosen.select(f.substring("own", 2, 1 << 30).alias("id"), "best.*")
        numbered = ids.join(run.documents.select("doc", "id"), "id").drop("id")
        table, counts = run.tables.counted(
            numbered, "matches", exact=f.count(f.when(f.col("is_exact"), 1))
        )
        theirs = both.documents.where(_is_theirs("id")).count()
        place = f.get_json_object("place", "$.id")
        rejected = both.document_tables.rejected.where(place.startswith(THEIRS)).count()
        stats = ReferenceStats(
            references=1,
            documents=theirs,
            rejected=rejected,
            compared=theirs,
            exact=counts["exact"],
            near=counts["rows"] - counts["exact"],
            hot_buckets=both.hot_buckets,
        )
        return ReferenceMatchTable(table, stats)

    def _run_over_both(self, run: SparkRun) -> SparkRun:
        """Returns a run over the documents of both sides."""
        columns = run.request.columns
        id_name = unused_name("id", self.frame.columns)
        side = unused_name("side", self.frame.columns)
        options = replace(
            run.options, across=side, keep=DEFAULT_ORDER, source=None, split=None, max_removed=None
        )
        columns = replace(columns, id=id_name, carried_columns=options.carried_columns)
        copied = [name for name in columns.all if name not in (id_name, side)]
        own_id = f.col(quote_column(str(run.request.columns.id))).cast("string")

        def select(frame: DataFrame, letter: str) -> DataFrame:
            names = (f.col(quote_column(name)) for name in copied)
            named = f.concat(f.lit(letter), own_id).alias(id_name)
            return frame.select(*names, named, f.lit(letter).alias(side))

        both = select(self.frame, OURS).unionByName(select(self.reference, THEIRS))
        request = TaskRequest(columns, options, run.resources, run.request.on_error)
        tables = IntermediateTables(run.spark, f"{run.tables.folder}/against")
        return SparkRun(run.spark, FrameSource(both, request), request, Silent(), tables)


def _is_theirs(name: str) -> Column:
    """Returns whether a column of ids is that of a document of the reference."""
    return f.col(name).startswith(THEIRS)


def _match_copies(documents: DataFrame) -> DataFrame:
    """Returns (own, duplicate_of, match_similarity, is_exact) of exact duplicates.

    Args:
        documents: Documents of both sides.
    """
    has_shingles = (f.col("fp0") != 0) | (f.col("fp1") != 0)
    hashed = documents.where(has_shingles).select("id", "fp0", "fp1", "block")
    ours = hashed.where(~_is_theirs("id")).withColumnRenamed("id", "own")
    theirs = hashed.where(_is_theirs("id")).withColumnRenamed("id", "other")
    joined = ours.join(theirs, ["fp0", "fp1", "block"])
    return joined.select(
        "own", _own_id("other"), f.lit(1.0).alias("match_similarity"), f.lit(True).alias("is_exact")
    )


def _match_pairs(both: SparkRun) -> DataFrame:
    """Returns (own, duplicate_of, match_similarity, is_exact) of scored pairs of both sides."""
    ids = both.documents.select("doc", "id")
    first = ids.withColumnsRenamed({"doc": "a", "id": "id_a"})
    second = ids.withColumnsRenamed({"doc": "b", "id": "id_b"})
    scored = both.scored.select("a", "b", "shared", "joint").join(first, "a").join(second, "b")
    own = f.when(_is_theirs("id_a"), f.col("id_b")).otherwise(f.col("id_a"))
    other = f.when(_is_theirs("id_a"), f.col("id_a")).otherwise(f.col("id_b"))
    similarity = (f.col("shared") / f.col("joint")).alias("match_similarity")
    pairs = scored.select(own.alias("own"), other.alias("other"), similarity)
    return pairs.select("own", _own_id("other"), "match_similarity", f.lit(False).alias("is_exact"))


def _own_id(name: str) -> Column:
    """Returns the ids of a column without the letter of their side, as `duplicate_of`."""
    return f.substring(name, 2, 1 << 30).alias("duplicate_of")
