"""The cuts of repeated passages in the documents that a deduplication over Spark keeps.

Tasks find the windows of words that occur twice, and the driver decides from them which passages
stay. Tasks then find the boundaries in each document, and cut it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from nearkin.engine.spark.run import SparkRun
from nearkin.runs.passage_cuts import options_of
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.settings.spec import Spec
from nearkin.spark.driver_tables import read_packed, to_frame
from nearkin.spark.kept_texts import store_kept_texts
from nearkin.spark.repeated_windows import (
    PassageTasks,
    RepeatedWindows,
    collect_repeated_windows,
)
from nearkin.spark.text_cuts import CUT_TEXTS, CUT_TEXTS_ARROW, SparkTextCuts, describe_cuts
from nearkin.stages.shingle.shingler import Shingler
from nearkin.stages.winnowing.tokens import TokenReader
from nearkin.texts.passages.cutting.plan import CutPlan, PlannedCuts, plan_cuts
from nearkin.texts.passages.cutting.request import CutRequest, PassageRequest
from nearkin.texts.passages.cutting.run import cut_planned_document
from nearkin.texts.passages.documents import BYTES
from nearkin.texts.passages.tables import divide_rows

PLANNED_RUN = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("keeper", pa.int64())])


def cut_passages(run: SparkRun, request: PassageRequest) -> SparkTextCuts:
    """Cuts the passages of the documents that a run keeps."""
    spec = options_of(request).spec
    texts = store_kept_texts(run)
    with TemporaryFolder() as folder:
        tasks = PassageTasks(spec, request.least)
        windows = collect_repeated_windows(run.spark, run.tables, texts, tasks, folder)
        windows.files.write_sources()
        plan = _plan_cuts(run.spark, windows, texts, request, folder)
    planned = _list_planned(run.spark, plan, windows.numbers)
    rows = planned.join(texts.select("number", "doc", "id", BYTES, "text"), "number")
    cut = rows.mapInArrow(CutTasks(spec, request.cut).cut, CUT_TEXTS)
    return SparkTextCuts(run.tables.keep(cut, "cut-texts"), texts.select("number", "id"))


def _plan_cuts(
    spark: SparkSession,
    windows: RepeatedWindows,
    texts: DataFrame,
    request: PassageRequest,
    folder: Path,
) -> CutPlan:
    """Decides which passages stay. Documents have the numbers of the windows."""
    numbers = spark.createDataFrame(pa.table({"number": windows.numbers}))
    facts = texts.join(numbers, "number", "left_semi").select("number", "rank", BYTES)
    parts = [np.empty((3, 0), np.int64), *read_packed(facts.orderBy("number"))]
    ranks, sizes = np.concatenate(parts, axis=1)[1:]
    order = np.argsort(ranks).astype(np.uint32)
    return plan_cuts(windows.files, order, request.least, sizes, request.cut, folder)


def _list_planned(spark: SparkSession, plan: CutPlan, numbers: np.ndarray) -> DataFrame:
    """Returns what a plan says about the documents from which something is cut.

    Args:
        numbers: Number that each document of the plan has in the corpus, int64 (n,).
    """
    changed = plan.changed
    offsets = np.searchsorted(plan.runs[:, 0], np.append(changed, len(numbers)))
    columns = [
        pa.array(plan.runs[:, 1].astype(np.int64)),
        pa.array(plan.runs[:, 2].astype(np.int64)),
        pa.array(numbers[plan.runs[:, 3]]),
    ]
    spans = pa.StructArray.from_arrays(columns, fields=list(PLANNED_RUN))
    table = pa.table(
        {
            "number": numbers[changed],
            "planned": pa.ListArray.from_arrays(offsets.astype(np.int32), spans),
            "holds_passage": plan.holds[changed],
            "is_removed": plan.removed[changed],
        }
    )
    return to_frame(spark, iter(table.to_batches()), table.schema)


@dataclass(frozen=True)
class CutTasks:
    """The tasks that cut documents.

    Attributes:
        spec: Spec of the words.
        request: What is cut.
    """

    spec: Spec
    request: CutRequest

    def cut(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields CUT_TEXTS."""
        reader = TokenReader(Shingler(self.spec), 1)
        for batch in batches:
            for rows in divide_rows(batch[BYTES].to_numpy()):
                documents = batch.slice(rows.start, rows.stop - rows.start).to_pylist()
                cut = [self._cut_document(document, reader) for document in documents]
                yield pa.RecordBatch.from_pylist(cut, schema=CUT_TEXTS_ARROW)

    def _cut_document(self, row: dict[str, object], reader: TokenReader) -> dict[str, object]:
        runs = [
            (0, run["start"], run["end"], run["keeper"])
            for run in row["planned"]  # type: ignore[attr-defined]
        ]
        planned = PlannedCuts(
            runs=np.array(runs, np.int64).reshape(-1, 4),
            holds_passage=bool(row["holds_passage"]),
            is_removed=bool(row["is_removed"]),
        )
        cuts = cut_planned_document(0, str(row["text"]), planned, self.request, reader)
        return {**{name: row[name] for name in ("number", "doc", "id")}, **describe_cuts(cuts)}
