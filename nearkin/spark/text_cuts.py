"""The parts that are cut from the texts of documents over Spark, and the texts without them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.corpus import Columns
from nearkin.engine.spark.frame_columns import quote_column
from nearkin.engine.spark.rereading import ClusterEdits, FileEdits
from nearkin.engine.spark.sources import unused_name
from nearkin.errors import UsageError
from nearkin.runs.document_output import join_columns
from nearkin.texts.passages.cutting.request import CUT_SPANS, CutCounts
from nearkin.texts.passages.cutting.run import (
    NO_KEEPER,
    SPAN,
    CutBounds,
    DocumentCuts,
    remove_spans,
)

SPANS = "array<struct<start:long,end:long>>"
CUT_COLUMNS = (
    f"{CUT_SPANS} {SPANS},cut_texts array<string>,keepers array<long>,rewritten string,"
    "is_removed boolean"
)
"""The columns of what is cut from a document: the parts, their texts, the numbers of the documents
that hold their contents (or NO_KEEPER), the text that is left, and whether the whole document is
removed."""
CUT_FIELDS = (
    pa.field(CUT_SPANS, pa.list_(SPAN)),
    pa.field("cut_texts", pa.list_(pa.string())),
    pa.field("keepers", pa.list_(pa.int64())),
    pa.field("rewritten", pa.string()),
    pa.field("is_removed", pa.bool_()),
)
CUT_TEXTS = f"number long,doc long,id string,{CUT_COLUMNS}"
"""The table of documents from which something is cut."""
CUT_TEXTS_ARROW = pa.schema(
    [("number", pa.int64()), ("doc", pa.int64()), ("id", pa.string()), *CUT_FIELDS]
)


def describe_cuts(cuts: DocumentCuts) -> dict[str, object]:
    """Returns what is cut from a document, as CUT_COLUMNS."""
    return {
        CUT_SPANS: spans_to_structs(cuts.spans),
        "cut_texts": [cuts.text[start:end].decode() for start, end in cuts.spans],
        "keepers": cuts.keepers,
        "rewritten": remove_spans(cuts.text, cuts.spans).decode(),
        "is_removed": cuts.is_removed,
    }


def spans_to_structs(spans: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    """Returns spans in the form of the column `cut_spans`."""
    return [{"start": start, "end": end} for start, end in spans]


def list_cut_parts(texts: DataFrame) -> DataFrame:
    """Returns the parts that are cut from documents."""
    parts = texts.select(
        "number", "id", f.explode(f.arrays_zip(CUT_SPANS, "cut_texts", "keepers")).alias("part")
    )
    return parts.select(
        "id",
        f.col(f"part.{CUT_SPANS}.start").alias("start"),
        f.col(f"part.{CUT_SPANS}.end").alias("end"),
        f.col("part.cut_texts").alias("text"),
        f.col("part.keepers").alias("keeper"),
        f.col("number").alias("document"),
    )


class SparkTextCuts:
    """The parts that are cut from the kept documents of a run over Spark."""

    def __init__(self, texts: DataFrame, documents: DataFrame) -> None:
        self.texts = texts
        self._documents = documents

    @property
    def parts(self) -> DataFrame:
        """The table of what is cut, as a local run writes it, in its order."""
        keepers = self._documents.select(
            f.col("number").alias("keeper"), f.col("id").alias("kept_id")
        )
        parts = list_cut_parts(self.texts).join(keepers, "keeper", "left")
        columns = ("id", "start", "end", "text", "kept_id", "document")
        return parts.select(*columns).orderBy("document", "start")

    @cached_property
    def counts(self) -> CutCounts:
        """The counts of the cut."""
        sizes = f.transform(CUT_SPANS, lambda span: span["end"] - span["start"])
        total = f.aggregate(sizes, f.lit(0).cast("long"), lambda sum_, size: sum_ + size)
        is_removed = f.col("is_removed")
        is_cut = ~is_removed & (f.size(CUT_SPANS) > 0)
        row = self.texts.agg(
            f.sum(f.when(is_cut, f.size(CUT_SPANS))).alias("cuts"),
            f.sum(f.when(is_cut, total)).alias("cut_bytes"),
            f.count(f.when(is_cut, 1)).alias("documents_cut"),
            f.count(f.when(is_removed, 1)).alias("documents_removed"),
            f.sum(f.when(is_removed, total)).alias("removed_bytes"),
        ).first()
        assert row is not None
        return CutCounts(**{name: int(value or 0) for name, value in row.asDict().items()})

    def with_spans(self, rows: DataFrame) -> DataFrame:
        """Returns rows with what is cut from their documents, as `CutEdits` takes them."""
        cuts = self.texts.select("doc", CUT_SPANS, "is_removed")
        spans = f.coalesce(CUT_SPANS, f.array().cast(cuts.schema[CUT_SPANS].dataType))
        is_removed = f.coalesce("is_removed", f.lit(False))
        joined = rows.join(cuts, "doc", "left")
        return joined.withColumns({CUT_SPANS: spans, "is_removed": is_removed})

    def cut(self, rows: DataFrame, own_id: Column, text: str) -> DataFrame:
        """Returns the rows of documents without what is cut, and without removed documents."""
        removed_id = unused_name("removed", rows.columns)
        removed = self.texts.where("is_removed").select(f.col("id").alias(removed_id))
        left = rows.join(removed, own_id == f.col(removed_id), "left_anti")
        return replace_texts(left, own_id, text, self.texts.where("NOT is_removed"))


def replace_texts(rows: DataFrame, own_id: Column, text: str, texts: DataFrame) -> DataFrame:
    """Returns rows with new texts, and with the column `cut_spans`. It is empty for the others."""
    changed_id = unused_name("changed", rows.columns)
    rewritten = unused_name("rewritten", rows.columns)
    changes = texts.select(
        f.col("id").alias(changed_id), f.col("rewritten").alias(rewritten), CUT_SPANS
    )
    empty = f.array().cast(changes.schema[CUT_SPANS].dataType)
    new_text = f.coalesce(f.col(rewritten), f.col(quote_column(text)))
    columns = [
        (new_text if name == text else f.col(quote_column(name))).alias(name)
        for name in rows.columns
    ]
    columns.append(f.coalesce(CUT_SPANS, empty).alias(CUT_SPANS))
    return rows.join(changes, own_id == f.col(changed_id), "left").select(columns)


def flatten_cuts(lists: pa.ChunkedArray) -> np.ndarray:
    """Returns the parts that are cut, in the form of `CutBounds`, int64 (n, 4)."""
    counts = pc.list_value_length(lists).to_numpy()
    spans = pc.list_flatten(lists)
    rows = np.empty((int(counts.sum()), 4), np.int64)
    rows[:, 0] = np.repeat(np.arange(len(counts)), counts)
    rows[:, 1] = NO_KEEPER
    rows[:, 2] = pc.struct_field(spans, "start").to_numpy()
    rows[:, 3] = pc.struct_field(spans, "end").to_numpy()
    return rows


@dataclass(frozen=True)
class CutEdits:
    """The differences of copies without the removed documents and without what is cut.

    Attributes:
        clusters: The differences without the cuts.
    """

    clusters: ClusterEdits

    def __call__(self, number: int, rows: pa.Table) -> FileEdits:
        """Returns the differences of a copy."""
        edits = self.clusters(number, rows)
        cuts = CutBounds(flatten_cuts(rows[CUT_SPANS]))
        return FileEdits(
            kept=edits.kept & ~rows["is_removed"].to_numpy(),
            columns=join_columns(edits.columns, cuts.span_column),
            rewrite=cuts.rewrite,
        )


def require_own_column(frame: DataFrame, columns: Columns) -> None:
    """Requires that the texts are a column of their own, so that they can be replaced."""
    if columns.source not in frame.columns:
        raise UsageError(
            f"the texts cannot be rewritten, because {columns.source!r} is inside another column; "
            "select them as a column of their own first"
        )


def require_new_columns(frame: DataFrame, names: Sequence[str]) -> None:
    """Requires that a frame has no columns of these names. Spark does not distinguish case."""
    existing = {name.lower() for name in frame.columns}
    for name in names:
        if name in existing:
            raise UsageError(
                f"column {name!r} cannot be added, because the DataFrame has a column of this "
                "name; rename that column"
            )
