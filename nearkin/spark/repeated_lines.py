"""The repeated lines of the documents that a deduplication over Spark keeps, and their cuts.

Tasks compute the places of all lines. Spark counts the documents with each line, and orders the
places of those that occur often enough. Tasks then cut the documents.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.engine.spark.run import SparkRun
from nearkin.reports.model import LinesReport
from nearkin.reports.repeated_lines import LINES_LISTED, list_line
from nearkin.runs.passage_cuts import lines_options_of
from nearkin.settings.spec import Spec
from nearkin.spark.kept_texts import store_kept_texts
from nearkin.spark.text_cuts import CUT_TEXTS, CUT_TEXTS_ARROW, SparkTextCuts, describe_cuts
from nearkin.texts.passages.cutting.run import NO_KEEPER, DocumentCuts
from nearkin.texts.passages.documents import BYTES
from nearkin.texts.passages.lines.frequencies import HALF
from nearkin.texts.passages.lines.request import Counted, LinesAction, LinesRequest
from nearkin.texts.passages.lines.run import QUOTED_BYTES, LineCounts, LineHasher, locate_lines
from nearkin.texts.passages.tables import divide_rows

PLACES = "hash long,check long,number long,start long,end long"
PLACE_COLUMNS = [column.split()[0] for column in PLACES.split(",")]
LINE = ("hash", "check")
"""The columns that are equal for equal lines alone."""
CUT_LINES = f"{CUT_TEXTS},quotes array<struct<start:long,quote:string>>"
"""The table CUT_TEXTS, with the beginnings of the lines whose first place is in the document."""
CUT_LINES_ARROW = pa.schema(
    [
        *CUT_TEXTS_ARROW,
        ("quotes", pa.list_(pa.struct([("start", pa.int64()), ("quote", pa.string())]))),
    ]
)
SOURCES = "array<struct<source:string,documents:long>>"


@dataclass(frozen=True)
class LineTasks:
    """The tasks that find lines, and cut them.

    Attributes:
        spec: Spec of the words of lines.
        request: What is found.
    """

    spec: Spec
    request: LinesRequest

    def locate(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields PLACES of all lines.

        Args:
            batches: Documents (number, bytes, text).
        """
        hasher = LineHasher.for_spec(self.spec)
        for batch in batches:
            for rows in divide_rows(batch[BYTES].to_numpy()):
                documents = batch.slice(rows.start, rows.stop - rows.start)
                texts = documents["text"].cast(pa.large_string())
                places = locate_lines(texts, 0, self.request, hasher)
                numbers = documents["number"].to_numpy()
                columns = [
                    places[:, 0].view(np.int64),
                    places[:, 1].view(np.int64),
                    numbers[(places[:, 2] >> HALF).astype(np.int64)],
                    (places[:, 2] & np.uint64(0xFFFFFFFF)).astype(np.int64),
                    places[:, 3].astype(np.int64),
                ]
                yield pa.record_batch(
                    [pa.array(np.ascontiguousarray(column)) for column in columns], PLACE_COLUMNS
                )

    def cut(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields CUT_LINES.

        Args:
            batches: Documents (number, doc, id, bytes, text), with `planned` (start, end and keeper
                of each place that is cut) and `quoted` (start and end of each first place).
        """
        for batch in batches:
            for rows in divide_rows(batch[BYTES].to_numpy()):
                documents = batch.slice(rows.start, rows.stop - rows.start).to_pylist()
                cut = [_cut_document(document) for document in documents]
                yield pa.RecordBatch.from_pylist(cut, schema=CUT_LINES_ARROW)


def _cut_document(row: dict[str, object]) -> dict[str, object]:
    content = str(row["text"]).encode()
    planned: list[dict[str, int]] = row["planned"] or []  # type: ignore[assignment]
    quoted: list[dict[str, int]] = row["quoted"] or []  # type: ignore[assignment]
    cuts = DocumentCuts(
        document=0,
        text=content,
        spans=[(place["start"], place["end"]) for place in planned],
        keepers=[place["keeper"] for place in planned],
        is_removed=False,
    )
    quotes = []
    for place in quoted:
        end = min(place["end"], place["start"] + QUOTED_BYTES)
        quote = content[place["start"] : end].decode(errors="ignore")
        quotes.append({"start": place["start"], "quote": quote})
    document = {name: row[name] for name in ("number", "doc", "id")}
    return {**document, **describe_cuts(cuts), "quotes": quotes}


class SparkRepeatedLines:
    """The repeated lines of the kept documents of a run, and what is cut."""

    def __init__(self, run: SparkRun, request: LinesRequest) -> None:
        self._request = request
        self._tables = run.tables
        self._has_sources = run.options.source is not None
        self._tasks = LineTasks(lines_options_of().spec, request)
        self._texts = store_kept_texts(run)
        places = self._texts.select("number", BYTES, "text").mapInArrow(self._tasks.locate, PLACES)
        located = self._tables.keep(places, "line-places")
        self._places = self._find_repeated(located)
        self._lines = self._tables.keep(self._list_lines(), "repeated-lines")
        self._cut_lines = self._tables.keep(self._cut(), "cut-texts")

    def _find_repeated(self, located: DataFrame) -> DataFrame:
        """Returns PLACES of the repeated lines, with the rank of each place's document."""
        counted = located.groupBy(*LINE).agg(
            f.countDistinct("number").alias("documents"), f.count("*").alias("places")
        )
        is_by_document = self._request.counted == Counted.DOCUMENTS
        count = f.col("documents" if is_by_document else "places")
        repeated = counted.where(count >= self._request.least).select(*LINE)
        ranks = self._texts.select("number", "rank")
        places = located.join(repeated, list(LINE), "left_semi").join(ranks, "number")
        return self._tables.keep(places, "repeated-places")

    def _list_lines(self) -> DataFrame:
        """Returns each line: hash, check, first place in keep order, documents and places."""
        place = f.struct("rank", "start", "number", "end")
        return self._places.groupBy(*LINE).agg(
            f.min(place).alias("first"),
            f.countDistinct("number").alias("documents"),
            f.count("*").alias("places"),
        )

    def _cut(self) -> DataFrame:
        """Returns CUT_LINES of the documents that have something to cut or to quote."""
        quoted = self._lines.groupBy(f.col("first.number").alias("number")).agg(
            f.sort_array(f.collect_list(f.struct("first.start", "first.end"))).alias("quoted")
        )
        keeper: Column = f.lit(NO_KEEPER).cast("long")
        places = self._places.join(self._lines.select(*LINE, "first"), list(LINE))
        if self._request.action == LinesAction.KEEP_ONE:
            keeper = f.col("first.number")
            is_first = (f.col("number") == f.col("first.number")) & (
                f.col("start") == f.col("first.start")
            )
            places = places.where(~is_first)
        span = f.struct("start", "end", keeper.alias("keeper"))
        planned = places.groupBy("number").agg(f.sort_array(f.collect_list(span)).alias("planned"))
        documents = self._texts.select("number", "doc", "id", BYTES, "text")
        rows = planned.join(quoted, "number", "full").join(documents, "number")
        return rows.mapInArrow(self._tasks.cut, CUT_LINES)

    @property
    def cuts(self) -> SparkTextCuts:
        """The parts that are cut."""
        return SparkTextCuts(
            self._cut_lines.drop("quotes").where(f.size("cut_spans") > 0),
            self._texts.select("number", "id"),
        )

    @property
    def lines(self) -> DataFrame:
        """The table of repeated lines, as a local run writes it, in its order."""
        return self._described.orderBy("number", "start").drop("number")

    @property
    def _described(self) -> DataFrame:
        """The table of repeated lines, with the number of the document of the first place."""
        quotes = self._cut_lines.select("number", "id", f.explode("quotes").alias("quote"))
        quotes = quotes.select("number", "id", "quote.start", f.col("quote.quote").alias("text"))
        lines = self._lines.select(
            *LINE,
            f.col("first.number").alias("number"),
            f.col("first.start").alias("start"),
            f.col("first.end").alias("end"),
            "documents",
            "places",
        )
        described = lines.join(quotes, ["number", "start"])
        sources: Column = f.lit(None).cast(SOURCES).alias("sources")
        if self._has_sources:
            described = described.join(self._count_sources(), list(LINE))
            sources = f.col("sources")
        columns = ("documents", "places", "id", "start", "end", "text")
        return described.select("number", *columns, sources)

    def _count_sources(self) -> DataFrame:
        """Returns the sources of each line, those with most documents first, and null last."""
        documents = self._places.select(*LINE, "number").distinct()
        counted = (
            documents.join(self._texts.select("number", "source"), "number")
            .groupBy(*LINE, "source")
            .agg(f.count("*").alias("documents"))
        )
        order = (-f.col("documents")).alias("order")
        entry = f.struct(order, f.isnull("source").alias("has_none"), "source")
        entries = f.sort_array(f.collect_list(entry))
        sources = f.transform(
            entries,
            lambda each: f.struct(
                each["source"].alias("source"), (-each["order"]).alias("documents")
            ),
        )
        return counted.groupBy(*LINE).agg(sources.alias("sources"))

    @cached_property
    def counts(self) -> LineCounts:
        """The counts of repeated lines."""
        row = self._lines.agg(f.count("*").alias("lines"), f.sum("places").alias("places")).first()
        assert row is not None
        return LineCounts(int(row.lines), int(row.places or 0))

    def describe(self) -> LinesReport:
        """Returns the counts of the lines, and the lines in most documents, for a report."""
        request = self._request
        order = (f.desc("documents"), f.desc("places"), "number", "start")
        listed = self._described.orderBy(*order).limit(LINES_LISTED).collect()
        sizes: dict[str | None, int] = {}
        if self._has_sources:
            by_source = self._texts.groupBy("source").count().collect()
            sizes = {row.source: row[1] for row in by_source}
        return LinesReport(
            unit=str(request.unit),
            least=request.least,
            counted=str(request.counted),
            action=str(request.action),
            repeated_lines=self.counts.repeated_lines,
            repeated_places=self.counts.repeated_places,
            counts=self.cuts.counts,
            listed=tuple(list_line(row.asDict(recursive=True), sizes) for row in listed),
        )
