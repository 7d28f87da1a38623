"""The search for items of suites with Spark: tasks read documents and compare candidates.

The driver reads the suites and sends their index to the tasks. A first pass counts the documents
with each word and keeps the texts of candidates. A second one compares these exactly, with the code
of a local run. Only what contaminated documents hold comes to the driver.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.engine.spark.arrow_columns import make_batch
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.sketching import FILE_SHIFT, Read, TaskRequest, read_files, read_rows
from nearkin.engine.spark.sources import map_rows
from nearkin.engine.spark.task_functions import collect_facts
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting, settings_named_as
from nearkin.settings.keys import HashKey, KeyReference
from nearkin.spark.text_cuts import (
    CUT_COLUMNS,
    CUT_FIELDS,
    SPANS,
    describe_cuts,
    flatten_cuts,
    list_cut_parts,
    spans_to_structs,
)
from nearkin.stages.packed_pairs import sorted_unique
from nearkin.stages.shingle.shingler import Shingler
from nearkin.stages.sketch.resources import NO_RESOURCES
from nearkin.stages.winnowing.tokens import TokenReader
from nearkin.texts.decontamination.index import SuiteIndex
from nearkin.texts.decontamination.matching import Hit, Matcher, Weights
from nearkin.texts.decontamination.request import CONTAMINATION, DecontaminationRequest
from nearkin.texts.decontamination.run import HITS, TextBatch, WordCounter, cut_document
from nearkin.texts.decontamination.tables import ContaminationTables
from nearkin.texts.passages.cutting.run import CutBounds, DocumentCuts
from nearkin.texts.passages.documents import BYTES, ID
from nearkin.texts.passages.tables import divide_rows

Batches: TypeAlias = Iterator[pa.RecordBatch]

SCANNED = (
    "doc long,id string,ordinal long,text string,word int,count long,reason string,raw string,"
    "place string,facts string"
)
"""The table of the first pass. A row with a text is a candidate, one with a word is a count of
documents, one with a reason is a rejected row, and one with facts describes a task. `ordinal`
counts the documents of a file."""
MATCHED = (
    "doc long,id string,ordinal long,text string,"
    f"hits array<struct<item:long,field:int,score:double,spans:{SPANS}>>,"
    f"{CUT_COLUMNS}"
)
"""The table of the second pass: the contaminated documents, ordered hits, and what is cut."""
HIT = pa.struct([field for field in HITS if field.name != "document"])
MATCHED_ARROW = pa.schema(
    [
        ("doc", pa.int64()),
        ("id", pa.string()),
        ("ordinal", pa.int64()),
        ("text", pa.string()),
        ("hits", pa.list_(HIT)),
        *CUT_FIELDS,
    ]
)


@dataclass(frozen=True)
class TextReading:
    """The way in which tasks read documents and their words.

    Attributes:
        request: How documents are read.
        key: Reference to the hash key, which each task reads itself, or None.
    """

    request: TaskRequest
    key: KeyReference | None

    @classmethod
    def of(
        cls, columns: Columns, options: RunOptions, key: HashKey | None, on_error: str
    ) -> "TextReading":
        """Returns how tasks read documents. The hash key is not sent to them."""
        reference = None if key is None else key.reference
        if key is not None and reference is None:
            raise UsageError(
                "a hash key is not sent to the tasks of Spark, and they cannot read this "
                f"{name_setting('key')}; read it with HashKey.read from a file or an environment "
                "variable that all workers have"
            )
        return cls(TaskRequest(columns, options, NO_RESOURCES, on_error), reference)

    def make_reader(self, least: int) -> TokenReader:
        """Returns a reader of words, for one task."""
        key = None if self.key is None else self.key.read()
        return TokenReader(Shingler(self.request.options.spec, key), least)


class ScanFacts(TypedDict):
    """The facts that a task of the first pass records."""

    documents: list[tuple[int, int]]
    """The number of documents of each file. Rows of a DataFrame count as one file, 0."""
    rejected: int
    text_bytes: int


@dataclass(frozen=True)
class ScanTasks:
    """The tasks of the first pass.

    Attributes:
        reading: How documents are read.
        reads_files: Whether the documents are in files, not in rows of a DataFrame.
        index: Index of the suites.
    """

    reading: TextReading
    reads_files: bool
    index: Broadcast[SuiteIndex]

    def scan(self, batches: Batches) -> Batches:
        """Yields the table of the first pass."""
        request = self.reading.request
        with settings_named_as(request.setting_form):
            read = read_files if self.reads_files else read_rows
            yield from self._scan(read(batches, request))

    def _scan(self, reads: Iterator[Read]) -> Batches:
        index = self.index.value
        counter = WordCounter(index)
        reader = self.reading.make_reader(index.least)
        documents: Counter[int] = Counter()
        rejected = 0
        text_bytes = 0
        first = 0
        for read in reads:
            if len(read.rejected):
                rejected += read.rejected_rows
                columns = {name: read.rejected[name] for name in ("doc", "reason", "raw")}
                yield make_batch(SCANNED, **columns, place=read.rejected["facts"])
            texts = read.documents[self.reading.request.columns.content]
            found = [counter.scan(piece) for piece in reader.read_pieces(texts, first)]
            candidates = sorted_unique(np.concatenate([np.empty(0, np.int64), *found])) - first
            files = read.docs >> FILE_SHIFT if self.reads_files else np.zeros(len(texts), np.int64)
            ordinals = _count_in_files(files, documents)
            chosen = pa.array(candidates)
            yield make_batch(
                SCANNED,
                doc=read.docs[candidates],
                id=read.ids.take(chosen),
                ordinal=ordinals[candidates],
                text=texts.take(chosen),
            )
            text_bytes += int(pc.sum(pc.binary_length(texts)).as_py() or 0)
            first += len(texts)
        frequencies = counter.frequencies
        words = np.flatnonzero(frequencies)
        yield make_batch(SCANNED, word=words, count=frequencies[words])
        facts: ScanFacts = {
            "documents": sorted(documents.items()),
            "rejected": rejected,
            "text_bytes": text_bytes,
        }
        yield make_batch(SCANNED, facts=[json.dumps(facts)])


def _count_in_files(files: np.ndarray, counts: Counter[int]) -> np.ndarray:
    """Returns the position of each document among those of its file, and counts them, int64 (n,).

    Args:
        files: Number of the file of each document, ascending, int64 (n,).
    """
    ordinals = np.empty(len(files), np.int64)
    for file, count in zip(*np.unique(files, return_counts=True), strict=True):
        low, high = np.searchsorted(files, [file, file + 1])
        ordinals[low:high] = counts[int(file)] + np.arange(count)
        counts[int(file)] += int(count)
    return ordinals


@dataclass(frozen=True)
class MatchTasks:
    """The tasks of the second pass.

    Attributes:
        reading: How documents are read.
        searched: What counts as found, and what is cut.
        index: Index of the suites.
        weights: Weights of the words of the suites in the corpus.
    """

    reading: TextReading
    searched: DecontaminationRequest
    index: Broadcast[SuiteIndex]
    weights: Broadcast[Weights]

    def match(self, batches: Batches) -> Batches:
        """Yields the table of the second pass."""
        reader = self.reading.make_reader(1)
        matcher = Matcher(self.index.value, self.searched, self.weights.value)
        for batch in batches:
            sizes = pc.binary_length(batch["text"]).cast(pa.int64()).to_numpy()
            for rows in divide_rows(sizes):
                candidates = batch.slice(rows.start, rows.stop - rows.start)
                texts = candidates["text"].cast(pa.large_string())
                hits: dict[int, list[Hit]] = {}
                for piece in reader.read_documents(texts, 0):
                    for hit in matcher.find(piece):
                        hits.setdefault(hit.document, []).append(hit)
                found = [
                    self._to_row(candidates.slice(row, 1).to_pylist()[0], hits[row], reader)
                    for row in sorted(hits)
                ]
                yield pa.RecordBatch.from_pylist(found, schema=MATCHED_ARROW)

    def _to_row(
        self, candidate: dict[str, object], hits: list[Hit], reader: TokenReader
    ) -> dict[str, object]:
        text = str(candidate["text"])
        row = {name: candidate[name] for name in ("doc", "id", "ordinal", "text")}
        row["hits"] = [
            {
                "item": hit.item,
                "field": hit.field,
                "score": hit.score,
                "spans": spans_to_structs(hit.spans),
            }
            for hit in hits
        ]
        cuts = DocumentCuts(0, text.encode(), [], [], is_removed=False)
        if self.searched.cut is not None:
            planned = [span for hit in hits for span in hit.spans]
            cuts = cut_document(0, text, planned, self.searched.cut, reader)
        return row | describe_cuts(cuts)


class ScannedDocuments(NamedTuple):
    """The outcome of the first pass."""

    table: DataFrame
    """The table SCANNED."""
    file_counts: dict[int, int]
    """The number of documents of each file."""
    documents: int
    rejected: int
    text_bytes: int

    @property
    def rejected_rows(self) -> DataFrame:
        """The rejected rows: doc (which orders those of files), place, reason and raw."""
        return self.table.where("reason IS NOT NULL").select("doc", "place", "reason", "raw")


class SparkSearch:
    """The passes of a search. The driver starts them."""

    def __init__(
        self,
        spark: SparkSession,
        tables: IntermediateTables,
        reading: TextReading,
        searched: DecontaminationRequest,
        index: SuiteIndex,
    ) -> None:
        self._tables = tables
        self._reading = reading
        self._searched = searched
        self._context = spark.sparkContext
        self.index = index
        index.prepare()
        self._sent_index = self._context.broadcast(index)

    def scan(self, rows: DataFrame, *, reads_files: bool) -> ScannedDocuments:
        """Reads all documents, counts their words, and keeps the texts of candidates."""
        tasks = ScanTasks(self._reading, reads_files, self._sent_index)
        table = self._tables.keep(map_rows(rows, tasks.scan, SCANNED), "scanned")
        facts = collect_facts(table, ScanFacts)
        file_counts = Counter[int]()
        for task in facts:
            file_counts.update(dict(task["documents"]))
        return ScannedDocuments(
            table,
            dict(file_counts),
            sum(file_counts.values()),
            sum(task["rejected"] for task in facts),
            sum(task["text_bytes"] for task in facts),
        )

    def match(self, scanned: ScannedDocuments) -> DataFrame:
        """Returns the table MATCHED of the documents that hold an item, in any order."""
        counted = scanned.table.where("word IS NOT NULL").groupBy("word").agg(f.sum("count"))
        counts = counted.toArrow()
        frequencies = np.zeros(len(self.index.words), np.int64)
        frequencies[counts["word"].to_numpy()] = counts["sum(count)"].to_numpy()
        weights = Weights(self.index, frequencies, scanned.documents)
        tasks = MatchTasks(
            self._reading, self._searched, self._sent_index, self._context.broadcast(weights)
        )
        candidates = scanned.table.where("text IS NOT NULL")
        return candidates.mapInArrow(tasks.match, MATCHED)


class SparkFoundItems:
    """The outcome of a search: hits on the driver, and texts of contaminated documents in a table.

    The column `document` of `hits` numbers the contaminated documents alone, in corpus order.
    """

    def __init__(self, index: SuiteIndex, scanned: ScannedDocuments, found: DataFrame) -> None:
        self.index = index
        self.found = found
        self.documents_read = scanned.documents
        self.rejected = scanned.rejected
        self.text_bytes = scanned.text_bytes
        columns = ("number", "doc", "ordinal", "id", "hits", "cut_spans")
        sizes = f.octet_length("text").cast("long").alias(BYTES)
        rows = found.select(*columns, sizes).orderBy("number").toArrow().combine_chunks()
        self.contaminated = np.arange(len(rows))
        self.rows = rows.select(["doc", "ordinal", "id"])
        """The places of the contaminated documents."""
        self.numbers = rows["number"].to_numpy()
        """The number of each contaminated document in the corpus, int64 (m,)."""
        self.documents = pa.table({ID: rows["id"].cast(pa.large_string()), BYTES: rows[BYTES]})
        self.hits = _flatten_hits(rows["hits"])
        self.cuts = CutBounds(flatten_cuts(rows["cut_spans"]))
        """The parts that are cut from the contaminated documents."""

    def read_candidates(self, numbers: np.ndarray) -> Iterator[TextBatch]:
        """Yields the texts of some contaminated documents.

        Args:
            numbers: Numbers of the documents among the contaminated ones, ascending, int64 (m,).
        """
        chosen = self.found.where(f.col("number").isin(self.numbers[numbers].tolist()))
        texts = chosen.orderBy("number").select("text").toArrow()["text"]
        yield TextBatch(0, texts.cast(pa.large_string()).combine_chunks())

    def cut_parts(self) -> DataFrame:
        """Returns the table of what is cut, as a local run writes it."""
        parts = list_cut_parts(self.found)
        kept_id = f.lit(None).cast("string").alias("kept_id")
        columns = ("id", "start", "end", "text", kept_id, "document")
        return parts.select(*columns).orderBy("document", "start")


def _flatten_hits(lists: pa.ChunkedArray) -> pa.Table:
    """Returns the hits of all documents as a table with the schema HITS."""
    counts = pc.list_value_length(lists).to_numpy()
    hits = pc.list_flatten(lists)
    columns = {name: pc.struct_field(hits, name) for name in HIT.names}
    documents = pa.array(np.repeat(np.arange(len(counts)), counts))
    return pa.table({"document": documents, **columns}).cast(HITS)


class SparkContaminationTables(ContaminationTables):
    """The tables of a search with Spark, with the numbers of documents in the corpus."""

    def __init__(self, found: SparkFoundItems) -> None:
        super().__init__(found)
        self.found = found
        """The outcome of the search."""

    def hit_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the table of hits, as a local run does."""
        return map(self._renumber, super().hit_batches())

    def document_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the contaminated documents, as a local run does."""
        return map(self._renumber, super().document_batches())

    @property
    def contamination_column(self) -> pa.Array:
        """The items that each contaminated document holds, as annotated documents list them."""
        return self.annotation_column(0, len(self.found.numbers))[CONTAMINATION]

    def _renumber(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = pa.array(self.found.numbers[batch["document"].to_numpy()])
        return batch.set_column(batch.schema.get_field_index("document"), "document", numbers)
