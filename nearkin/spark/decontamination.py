"""Finds the items of benchmark suites in the rows of a DataFrame."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.corpus import Columns
from nearkin.corpus.arrow_conversion import type_name
from nearkin.engine.options import RunOptions
from nearkin.engine.parameters import columns_of
from nearkin.engine.spark.frame_columns import quote_column, read_column
from nearkin.engine.spark.id_order import id_order
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.session import require_classic_session, translate_spark_errors
from nearkin.engine.spark.sources import unused_name
from nearkin.errors import UsageError
from nearkin.reports.run_warnings import log_warnings
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.sizes import parse_size
from nearkin.settings.keys import HashKey
from nearkin.spark.contamination_search import (
    SparkContaminationTables,
    SparkFoundItems,
    SparkSearch,
    TextReading,
)
from nearkin.spark.driver_tables import to_frame
from nearkin.spark.frames import SparkFrame, make_work_tables, require_columns
from nearkin.spark.numbered_rows import number_rows
from nearkin.spark.passages import require_unique_ids
from nearkin.spark.result import select_rows_of_ids
from nearkin.spark.text_cuts import replace_texts, require_new_columns, require_own_column
from nearkin.texts.decontamination.index import SuiteIndex
from nearkin.texts.decontamination.request import (
    CONTAMINATION,
    DEFAULT_POINT,
    SUITE_FIELDS,
    ContaminationAction,
    DecontaminationRequest,
)
from nearkin.texts.decontamination.run import require_memory
from nearkin.texts.decontamination.suite_inputs import SuiteColumns, read_suites_of
from nearkin.texts.decontamination.tables import CONTAMINATED, CONTAMINATIONS
from nearkin.texts.passages.cutting.run import require_rewritable
from nearkin.texts.passages.documents import ID
from nearkin.texts.passages.run import PassageOptions


@dataclass(frozen=True, repr=False)
class SparkDecontamination:
    """The items of suites that the rows of a DataFrame hold.

    The rows of its tables are those of `nearkin.DecontaminationResult`. Some are in a work folder.
    `close`, or leaving `with`, deletes the folder; `kept` and `cuts` cannot be computed then.

    Attributes:
        hits: A table with a row for each field of an item that a document holds.
        items: A table with a row for each item that documents hold.
        suites: A table with a row for each suite.
        documents: A table with a row for each contaminated document.
        kept: The input rows after the action: all rows with the column `contamination`, the rows
            with rewritten texts and the column `cut_spans`, or the rows that hold no item. The
            input rows if no action was given. Rejected rows are left out.
        cuts: A table with a row for each part that was cut.
        rejected: The rejected rows: id, reason, and the beginning of the raw value.
        statistics: The counts of documents, items and hits.
        warnings: Sentences about suites.
    """

    hits: DataFrame
    items: DataFrame
    suites: DataFrame
    documents: DataFrame
    kept: DataFrame
    cuts: DataFrame
    rejected: DataFrame
    statistics: Mapping[str, int]
    warnings: tuple[str, ...]
    _tables: IntermediateTables

    def __enter__(self) -> "SparkDecontamination":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the intermediate tables. DataFrames of this result cannot be computed then."""
        self._tables.remove()

    def __repr__(self) -> str:
        counts = self.statistics
        return (
            f"<SparkDecontamination: {counts['contaminated_items']:,} of {counts['items']:,} "
            f"items in {counts['contaminated_documents']:,} of {counts['documents']:,} documents>"
        )


@check_arguments
def decontaminate(
    frame: "SparkFrame",
    against: str | Path | Sequence[str | Path] | Mapping[str, Any],
    *,
    id: str,
    text: str | Sequence[str] | None = None,
    suite_fields: Sequence[str] = SUITE_FIELDS,
    suite_id: str | None = None,
    operating_point: str = DEFAULT_POINT,
    field_thresholds: Mapping[str, float] | None = None,
    action: str | None = None,
    cut_unit: str | None = None,
    key: HashKey | None = None,
    memory: int | str = "4GB",
    work: str | None = None,
) -> SparkDecontamination:
    """Finds the items of benchmark suites in the rows of a DataFrame.

    The result is that of `nearkin.decontaminate` over the rows in the order of their ids. The
    driver reads the suites, and holds what contaminated documents hold of them.

    Args:
        frame: Rows with a text and an id. They may be computed more than once and must be the same
            each time.
        against: The suites, as for `nearkin.decontaminate`: files that the driver reads, or tables
            in its memory by the names of the suites.
        id: Column of unique ids, text or whole numbers.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        suite_fields: Columns of the texts of an item, of which a suite needs at least one.
        suite_id: Column of the ids of items. The default is the row number.
        operating_point: What counts as a passage: `longest` or `exact`.
        field_thresholds: Smallest score at which a field counts as found, by the names of fields.
        action: What happens to contaminated documents in `kept`: `annotate`, `cut` or `drop`.
        cut_unit: What is cut with a passage: `passage` (the default), `sentence`, `line` or
            `paragraph`.
        key: Hash key of saved suites, which `HashKey.read` read from a file or an environment
            variable. It is not sent to tasks: each task reads it from the same place.
        memory: Bound on the index of the suites, of which each Python worker has a copy: at most
            half of it. It also bounds the size of a document, as in a local run.
        work: Folder for intermediate tables, path or URL, which the driver and all workers can
            write. The default is a temporary folder, which works on one machine only.

    Returns:
        The result. Close it to delete its intermediate tables.

    Raises:
        UsageError: If the frame is not one of Spark, an argument is not valid, a column is missing,
            ids are repeated, or tasks cannot read the hash key.
        KeyRequiredError: If saved suites have hashes under a key that is not given.
        RunError: If a task failed, or a suite cannot be read.
    """
    if not hasattr(frame, "sparkSession"):
        raise UsageError(
            f"{type_name(frame)} is not a Spark DataFrame; nearkin.decontaminate takes tables in "
            "memory"
        )
    searched = DecontaminationRequest.parse(operating_point, field_thresholds, action, cut_unit)
    bound = parse_size(memory)
    suite_columns = SuiteColumns(tuple(suite_fields), suite_id)
    suites = read_suites_of(against, suite_columns, key, bound)
    options = PassageOptions(suites.spec, searched.point.least, memory=bound)
    columns = options.columns_of(columns_of({"text": text}, id))
    searched.require_fields(suites.fields)
    require_memory(len(suites.rarity), bound)
    if searched.action == ContaminationAction.CUT:
        require_rewritable(columns, "action")
    run_options = RunOptions(spec=suites.spec, memory=bound)
    reading = TextReading.of(columns, run_options, key, on_error="quarantine")
    require_columns(frame, columns)
    if searched.action == ContaminationAction.CUT:
        require_own_column(frame, columns)
    require_new_columns(frame, searched.added_columns)
    spark = require_classic_session(frame.sparkSession)
    with translate_spark_errors(), ExitStack() as on_failure:
        tables = make_work_tables(spark, work)
        on_failure.callback(tables.remove)
        own_id = read_column(frame, id).cast("string")
        ids = frame.select(own_id.alias("id")).where("id IS NOT NULL")
        require_unique_ids(ids, id)
        index = SuiteIndex(suites, searched.point.least)
        search = SparkSearch(spark, tables, reading, searched, index)
        rows = frame.select(*(read_column(frame, name) for name in columns.all))
        scanned = search.scan(rows, reads_files=False)
        rejected_id = f.get_json_object("place", "$.id").alias("id")
        rejected_ids = scanned.rejected_rows.select(rejected_id).where("id IS NOT NULL")
        accepted_ids = ids.join(rejected_ids, "id", "left_anti")
        numbered = number_rows(accepted_ids, id_order(f.col("id")), "id")
        matched = search.match(scanned).join(numbered, "id")
        found = SparkFoundItems(index, scanned, tables.keep(matched, "found"))
        contamination_tables = SparkContaminationTables(found)
        documents = select_rows_of_ids(frame, id, numbered)
        kept = _apply_action(documents, own_id, columns, contamination_tables, searched)
        warnings = tuple(contamination_tables.warnings)
        log_warnings(warnings)
        result = SparkDecontamination(
            hits=to_frame(spark, contamination_tables.hit_batches(), CONTAMINATIONS),
            items=spark.createDataFrame(contamination_tables.items),
            suites=spark.createDataFrame(contamination_tables.suites),
            documents=to_frame(spark, contamination_tables.document_batches(), CONTAMINATED),
            kept=kept,
            cuts=found.cut_parts(),
            rejected=scanned.rejected_rows.select(rejected_id, "reason", "raw"),
            statistics=contamination_tables.counts(),
            warnings=warnings,
            _tables=tables,
        )
        on_failure.pop_all()
    return result


def _apply_action(
    documents: DataFrame,
    own_id: Column,
    columns: Columns,
    tables: SparkContaminationTables,
    searched: DecontaminationRequest,
) -> DataFrame:
    """Returns the rows of documents after the action on contaminated ones."""
    changed_id = unused_name("changed", documents.columns)
    is_changed = own_id == f.col(changed_id)
    match searched.action:
        case None:
            return documents
        case ContaminationAction.DROP:
            contaminated = tables.found.found.select(f.col("id").alias(changed_id))
            return documents.join(contaminated, is_changed, "left_anti")
        case ContaminationAction.CUT:
            (text,) = columns.sources
            return replace_texts(documents, own_id, text, tables.found.found)
        case ContaminationAction.ANNOTATE:
            ids = tables.found.documents[ID]
            items = pa.table({changed_id: ids, CONTAMINATION: tables.contamination_column})
            annotated = documents.sparkSession.createDataFrame(items)
    # Locally, documents that hold nothing have an empty list.
    empty = f.array().cast(annotated.schema[CONTAMINATION].dataType)
    own_columns = [f.col(quote_column(name)) for name in documents.columns]
    contamination = f.coalesce(CONTAMINATION, empty).alias(CONTAMINATION)
    return documents.join(annotated, is_changed, "left").select([*own_columns, contamination])
