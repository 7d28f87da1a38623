"""The comparison of a run's documents with those of a reference, over Spark.

One run over both sides finds the pairs between them: the side of a document is its source, and only
documents of different sources are compared. Ids of the two sides may be equal, so those of the run
over both begin with the side.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import zip_longest

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.corpus import Columns, FileCorpus
from nearkin.engine.acceptance import accepts_all_copies
from nearkin.engine.options import RunOptions
from nearkin.engine.result_schema import EXACT, KINDS, NEAR, SAME
from nearkin.engine.spark.document_tables import (
    DocumentTables,
    UniqueDocuments,
    count_rejected,
)
from nearkin.engine.spark.exact_groups import has_block, has_shingles
from nearkin.engine.spark.frame_columns import read_column
from nearkin.engine.spark.id_order import id_order
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.run import (
    ReferenceMatchTable,
    SparkRun,
    count_kinds,
    counts_of_kinds,
)
from nearkin.engine.spark.sketching import ACROSS, FILE_SHIFT, GROUP, TaskRequest
from nearkin.engine.spark.sources import FileSource, FrameSource, unused_name
from nearkin.engine.stats import ReferenceStats, Stage
from nearkin.runtime.progress import Progress, Silent
from nearkin.settings.choices import EmptyDocuments
from nearkin.stages.cluster.keep import DEFAULT_ORDER

OURS = "n"
THEIRS = "r"
"""The first letters of the ids of the run's documents, and of those of the reference."""


class JointReference(ABC):
    """A comparison by one run over the documents of both sides."""

    @abstractmethod
    def _run_over_both(self, run: SparkRun) -> SparkRun:
        """Returns a run over the documents of both sides, whose ids begin with a letter."""

    @abstractmethod
    def _select_values(self, run: SparkRun, both: SparkRun) -> DataFrame:
        """Returns (id, fp0, fp1, block, value0, ...) of the documents of the reference."""

    @abstractmethod
    def _count_rejected(self, both: SparkRun) -> int:
        """Returns the number of rejected rows of the reference."""

    @property
    @abstractmethod
    def only_reference(self) -> bool:
        """True if the documents of the run are not compared with each other."""

    @property
    def references(self) -> int:
        """The number of references."""
        return 1

    def _number_references(self, both: SparkRun) -> Column:
        """Returns the number of the reference of its documents, from the column `doc`."""
        return f.lit(0)

    def match(self, run: SparkRun) -> ReferenceMatchTable:
        """Finds the documents that repeat one of the reference, each with its best match.

        With the option `related`, those that repeat none and are related to some are found, too.
        """
        both = self._run_over_both(run)
        both.to_pairs()
        found = _match_pairs(both, both.scored).drop("other")
        if accepts_all_copies(run.options.acceptance):
            found = found.unionByName(_match_copies(both))
        if run.options.groups_by_value:
            found = found.unionByName(self._match_values(run, both))
        kind = f.col("match_kind")
        place = f.when(kind == KINDS[EXACT], 0).when(kind == KINDS[SAME], 1).otherwise(2)
        order = f.struct(place, -f.col("match_similarity"), id_order(f.col("duplicate_of")))
        values = ("duplicate_of", "match_similarity", "match_kind", "shared", "size")
        chosen = found.groupBy("own").agg(f.min_by(f.struct(*values), order).alias("best"))
        ids = chosen.select(f.substring("own", 2, 1 << 30).alias("id"), "best.*")
        numbered = ids.join(run.documents.select("doc", "id"), "id").drop("id")
        table, counts = run.tables.counted(numbered, "matches", **count_kinds("match_kind"))
        theirs = both.documents.where(_is_theirs("id")).count()
        stats = ReferenceStats(
            references=self.references,
            documents=theirs,
            rejected=self._count_rejected(both),
            compared=theirs,
            hot_buckets=both.hot_buckets,
            hot_shingles=both.recorded(Stage.CANDIDATES).get("hot_shingles"),
            **counts_of_kinds(counts),
        )
        related = None
        if run.options.related is not None:
            related = self._find_related(run, both, table)
        return ReferenceMatchTable(table, related, stats)

    def _match_values(self, run: SparkRun, both: SparkRun) -> DataFrame:
        """Returns (own, duplicate_of, match_similarity, match_kind, shared, size), equal values."""
        theirs = self._select_values(run, both)
        drops_empty = run.options.empty == EmptyDocuments.DROP
        matches = []
        for name in run.request.value_keys:
            is_grouped = f.col(name).isNotNull() & has_block()
            if drops_empty:
                is_grouped &= has_shingles()
            own_id = f.concat(f.lit(OURS), "id").alias("own")
            ours = run.documents.where(is_grouped).select(own_id, name, "block")
            others = theirs.where(is_grouped).select(f.col("id").alias("other"), name, "block")
            joined = ours.join(others, [name, "block"])
            matches.append(_name_matches(joined, SAME, f.lit(None).cast("double")))
        return reduce(DataFrame.unionByName, matches)

    def _find_related(self, run: SparkRun, both: SparkRun, matches: DataFrame) -> DataFrame:
        """Returns (doc, related_to, similarity) of the documents that repeat none of the reference.

        One document represents a group of exact duplicates: the first one of the run, unless all of
        them are kept, and the one of a reference with the smallest id.
        """
        theirs = both.documents.where(_is_theirs("id"))
        number = self._number_references(both).alias("reference")
        group = (number, *(f.col(name) for name in _columns_of_copies(run.options)))
        own_id = f.substring("id", 2, 1 << 30)
        first = f.struct(id_order(own_id), "doc")
        heads = theirs.groupBy(*group).agg(f.min_by("doc", first).alias("other"))
        related = _match_pairs(both, both.scorer.related)
        pairs = related.join(heads.select("other"), "other")
        named = pairs.select(
            f.substring("own", 2, 1 << 30).alias("id"),
            f.col("duplicate_of").alias("related_to"),
            f.col("match_similarity").alias("similarity"),
        )
        own = run.documents.select("doc", "id").join(matches, "doc", "left_anti")
        if not self.only_reference and not run.has_mixed_groups:
            own = own.join(run.exact_duplicates.copies, "doc", "left_anti")
        return named.join(own, "id").select("doc", "related_to", "similarity")


@dataclass(frozen=True)
class SparkReference(JointReference):
    """A comparison of the rows of a DataFrame with those of a reference.

    Attributes:
        frame: Rows of the run.
        reference: Rows of the reference, with the same columns.
        only_reference: Whether the documents of the run are not compared with each other.
    """

    frame: DataFrame
    reference: DataFrame
    only_reference: bool = False

    def _select_values(self, run: SparkRun, both: SparkRun) -> DataFrame:
        # The rows of both sides are sketched as one DataFrame, without the keys of their values.
        request = run.request.without_order()
        keys = FrameSource(self.reference, request).value_keys()
        named = keys.withColumn("id", f.concat(f.lit(THEIRS), "id"))
        return both.documents.select("id", "fp0", "fp1", "block").join(named, "id")

    def _count_rejected(self, both: SparkRun) -> int:
        place = f.get_json_object("place", "$.id")
        return count_rejected(both.document_tables.rejected.where(place.startswith(THEIRS)))

    def _run_over_both(self, run: SparkRun) -> SparkRun:
        tables = IntermediateTables(run.spark, f"{run.tables.folder}/against")
        return run_over_both(run.spark, self.frame, self.reference, run.request, tables, Silent())


def run_over_both(
    spark: SparkSession,
    first: DataFrame,
    second: DataFrame,
    request: TaskRequest,
    tables: IntermediateTables,
    progress: Progress,
) -> SparkRun:
    """Returns a run over two DataFrames, of which only rows of different ones are compared."""
    id_name = unused_name("id", first.columns)
    side = unused_name("side", first.columns)
    options = _options_of_sides(request.options, side)
    if options.acceptance is not None:
        # It is about the later document in keep order, which is one of the first DataFrame.
        options = replace(options, keep=f"{side} desc")
    columns = replace(request.columns, id=id_name, carried_columns=options.carried_columns)
    copied = [name for name in columns.all if name not in (id_name, side)]

    def select(frame: DataFrame, letter: str) -> DataFrame:
        names = (read_column(frame, name) for name in copied)
        own_id = read_column(frame, str(request.columns.id)).cast("string")
        named = f.concat(f.lit(letter), own_id).alias(id_name)
        return frame.select(*names, named, f.lit(letter).alias(side))

    both = select(first, OURS).unionByName(select(second, THEIRS))
    joint = TaskRequest(columns, options, request.resources, request.on_error)
    return SparkRun(spark, FrameSource(both, joint), joint, progress, tables)


@dataclass(frozen=True)
class ReferenceFiles:
    """The files of a reference.

    Attributes:
        corpus: Files, which have the same path on the driver and on all workers.
        columns: Columns of the files.
    """

    corpus: FileCorpus
    columns: Columns


@dataclass(frozen=True)
class SparkFileReference(JointReference):
    """A comparison of the documents of files with those of references in files.

    Documents of the run are not sketched again.

    Attributes:
        sets_of_files: Files of each reference.
        only_reference: Whether the documents of the run are not compared with each other.
    """

    sets_of_files: tuple[ReferenceFiles, ...]
    only_reference: bool = False

    @property
    def references(self) -> int:
        return len(self.sets_of_files)

    def _run_over_both(self, run: SparkRun) -> SparkRun:
        assert isinstance(run.source, FileSource)
        options = _options_of_sides(run.options, side="side")
        tables = IntermediateTables(run.spark, f"{run.tables.folder}/against")
        sides = [_Side(run.document_tables, OURS, 0)]
        first_file = len(run.source.corpus.files)
        for number, files in enumerate(self.sets_of_files):
            request = replace(run.request.without_order(), columns=files.columns)
            documents = DocumentTables(
                FileSource(run.spark, files.corpus, request),
                request,
                IntermediateTables(run.spark, f"{tables.folder}/reference-{number}"),
            )
            sides.append(_Side(documents, THEIRS, first_file))
            first_file += len(files.corpus.files)
        request = TaskRequest(run.request.columns, options, run.resources, run.request.on_error)
        both = SparkRun(run.spark, run.source, request, Silent(), tables)
        both.document_tables = _TablesOfSides(run.source, request, tables, sides=tuple(sides))
        return both

    def _number_references(self, both: SparkRun) -> Column:
        assert isinstance(both.document_tables, _TablesOfSides)
        first_files = [side.first_file for side in both.document_tables.sides[1:]]
        number = f.lit(0)
        for position, first_file in enumerate(first_files[1:], 1):
            is_later = f.shiftright("doc", FILE_SHIFT) >= first_file
            number = f.when(is_later, position).otherwise(number)
        return number

    def _select_values(self, run: SparkRun, both: SparkRun) -> DataFrame:
        assert isinstance(both.document_tables, _TablesOfSides)
        names = ("id", "fp0", "fp1", "block", *run.request.value_keys)
        theirs = [side.select_documents(names) for side in both.document_tables.sides[1:]]
        return reduce(DataFrame.unionByName, theirs)

    def _count_rejected(self, both: SparkRun) -> int:
        assert isinstance(both.document_tables, _TablesOfSides)
        theirs = both.document_tables.sides[1:]
        return sum(count_rejected(side.tables.rejected) for side in theirs)


@dataclass(frozen=True)
class _Side:
    """The documents of the run, or those of a reference.

    Attributes:
        tables: Tables of its documents.
        letter: First letter of the ids in the run over both sides.
        first_file: Number of its first file in the run over both sides.
    """

    tables: DocumentTables
    letter: str
    first_file: int

    @property
    def shift(self) -> Column:
        """The difference between the numbers of a document in the run over both and in its own."""
        return f.lit(self.first_file << FILE_SHIFT)

    def select_documents(self, names: Sequence[str]) -> DataFrame:
        """Returns the documents, with the numbers and ids that they have in the run over both."""
        documents = self.tables.documents.withColumn("doc", f.col("doc") + self.shift)
        documents = documents.withColumn("id", f.concat(f.lit(self.letter), "id"))
        is_ours = int(self.letter == OURS)
        documents = documents.withColumn(ACROSS, f.lit(is_ours).cast("long"))
        # Documents of references come first, in the order of the corpus.
        place = f.format_string("%d%016x", f.lit(is_ours), "doc").cast("binary")
        return documents.withColumn("sort", place).select(*names)


@dataclass
class _TablesOfSides(DocumentTables):
    """The documents of the run and of references, which are sketched already.

    Attributes:
        sides: Sides, in the order of their files.
    """

    sides: tuple[_Side, ...] = ()

    @cached_property
    def table(self) -> DataFrame:
        tables = [side.tables.table for side in self.sides]
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), tables)

    @cached_property
    def unique_documents(self) -> UniqueDocuments:
        absent = ("reason", "raw", "facts", "source", "split")
        names = [part.split()[0] for part in self.request.schema.split(",")]
        names = [name for name in names if name not in absent]
        documents = [side.select_documents(names) for side in self.sides]
        return UniqueDocuments(reduce(DataFrame.unionByName, documents), 0)

    def payloads(self, docs: DataFrame) -> DataFrame:
        payloads = []
        ends = [side.first_file for side in self.sides[1:]]
        for side, end in zip_longest(self.sides, ends):
            file = f.shiftright("doc", FILE_SHIFT)
            is_own = file >= side.first_file
            if end is not None:
                is_own &= file < end
            own = docs.where(is_own).select((f.col("doc") - side.shift).alias("doc"))
            read = side.tables.payloads(own)
            payloads.append(read.withColumn("doc", f.col("doc") + side.shift))
        return reduce(DataFrame.unionByName, payloads)


def _options_of_sides(options: RunOptions, side: str) -> RunOptions:
    """Returns the options of the run over both sides."""
    return replace(
        options,
        across=side,
        keep=DEFAULT_ORDER,
        same=None,
        url=None,
        source=None,
        split=None,
        max_removed=None,
    )


def _is_theirs(name: str) -> Column:
    """Returns whether a column of ids is that of a document of the reference."""
    return f.col(name).startswith(THEIRS)


def _columns_of_copies(options: RunOptions) -> list[str]:
    """Returns the columns of documents that are equal in exact duplicates."""
    columns = ["fp0", "fp1", "block"]
    return columns if options.acceptance is None else [*columns, GROUP]


def _match_copies(both: SparkRun) -> DataFrame:
    """Returns (own, duplicate_of, match_similarity, match_kind, shared, size), exact pairs."""
    columns = _columns_of_copies(both.options)
    hashed = both.documents.where(has_shingles() & has_block()).select("id", *columns)
    ours = hashed.where(~_is_theirs("id")).withColumnRenamed("id", "own")
    theirs = hashed.where(_is_theirs("id")).withColumnRenamed("id", "other")
    return _name_matches(ours.join(theirs, columns), EXACT, f.lit(1.0))


def _name_matches(pairs: DataFrame, kind: int, similarity: Column) -> DataFrame:
    """Returns (own, duplicate_of, match_similarity, match_kind, shared, size), one kind."""
    return pairs.select(
        "own",
        _own_id("other"),
        similarity.alias("match_similarity"),
        f.lit(KINDS[kind]).alias("match_kind"),
        f.lit(None).cast("double").alias("shared"),
        f.lit(None).cast("long").alias("size"),
    )


def _match_pairs(both: SparkRun, scored: DataFrame) -> DataFrame:
    """Returns (own, other, duplicate_of, match_similarity, match_kind, shared, size) of pairs."""
    documents = both.documents.select("doc", "id", f.struct("fp0", "fp1").alias("content"))
    first = documents.withColumnsRenamed({"doc": "a", "id": "id_a", "content": "content_a"})
    second = documents.withColumnsRenamed({"doc": "b", "id": "id_b", "content": "content_b"})
    named = scored.drop("agree", "accepted").join(first, "a").join(second, "b")
    is_first_theirs = _is_theirs("id_a")
    own = f.when(is_first_theirs, f.col("id_b")).otherwise(f.col("id_a"))
    other = f.when(is_first_theirs, f.col("a")).otherwise(f.col("b"))
    other_id = f.when(is_first_theirs, f.col("id_a")).otherwise(f.col("id_b"))
    size = f.when(is_first_theirs, f.col("size_b")).otherwise(f.col("size_a"))
    similarity = f.col("shared") / f.col("joint")
    is_copy = f.lit(False)
    if both.options.acceptance is not None:
        # Copies are compared as pairs if further facts decide.
        is_copy = f.col("content_a") == f.col("content_b")
    pairs = named.select(
        own.alias("own"),
        other.alias("other"),
        other_id.alias("other_id"),
        similarity.alias("match_similarity"),
        f.when(is_copy, KINDS[EXACT]).otherwise(KINDS[NEAR]).alias("match_kind"),
        "shared",
        size.alias("size"),
    )
    return pairs.withColumn("duplicate_of", _own_id("other_id")).drop("other_id")


def _own_id(name: str) -> Column:
    """Returns the ids of a column without the letter of their side, as `duplicate_of`."""
    return f.substring(name, 2, 1 << 30).alias("duplicate_of")
