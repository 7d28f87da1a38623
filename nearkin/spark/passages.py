"""The passages of a DataFrame: tasks read the texts, and the driver joins what is repeated.

Tasks compute fingerprints and windows, and Spark finds those that occur twice. Only these windows
come to the driver, which writes them to temporary files and finds the runs that they form, as a
local run does. So the result is that of a local run, row for row.
"""

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.corpus.arrow_conversion import type_name
from nearkin.engine.spark.frame_columns import read_column
from nearkin.engine.spark.id_order import id_order
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.session import require_classic_session, translate_spark_errors
from nearkin.engine.spark.sketching import require_no_key
from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.spark.frames import SparkFrame, make_work_tables
from nearkin.spark.numbered_rows import number_rows
from nearkin.spark.repeated_windows import PassageTasks, collect_repeated_windows
from nearkin.texts.passages.run import PassageOptions
from nearkin.texts.passages.windows import Passages, find_passages


@dataclass(frozen=True)
class SparkPassages:
    """The passages of a DataFrame.

    Its tables are in a work folder. `close`, or leaving `with`, deletes the folder; the DataFrame
    cannot be computed any more then.

    Attributes:
        passages: A row for each passage, with the columns of `nearkin.PassagesResult.passages`,
            ordered by document and first byte.
        documents: Number of documents.
        rejected: Number of rows without a text, which are left out.
    """

    passages: DataFrame
    documents: int
    rejected: int
    _tables: IntermediateTables

    def __enter__(self) -> "SparkPassages":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the intermediate tables. The DataFrame cannot be computed then."""
        self._tables.remove()


@check_arguments
def passages(
    frame: "SparkFrame",
    *,
    id: str,
    text: str = "text",
    min_tokens: int = 50,
    spec: Spec | None = None,
    key: HashKey | None = None,
    work: str | None = None,
) -> SparkPassages:
    """Finds the passages that occur at two or more places of the texts of a DataFrame.

    The result is that of `nearkin.passages` over the rows in the order of their ids, row for row.
    The windows of words that occur twice are joined on the driver, whose disk needs room for them:
    about 80 bytes for each word of repeated text.

    Args:
        frame: Rows with a text and an id. They may be computed more than once and must be the same
            each time.
        id: Column of unique ids, text or whole numbers.
        text: Column of texts. Rows without one are left out.
        min_tokens: Smallest number of words of a passage, at least 2.
        spec: Spec of the words, as for `nearkin.passages`.
        key: Refused. A hash key is secret, and is not sent to tasks.
        work: Folder for intermediate tables, path or URL, which the driver and all workers can
            write. The default is a temporary folder, which works on one machine only.

    Returns:
        The passages. Close the result to delete its intermediate tables.

    Raises:
        UsageError: If the frame is not one of Spark, an argument is not valid, a column is missing,
            an id is null or repeated, or a hash key is given.
        KeyRequiredError: If the Spec is keyed.
        RunError: If a task failed.
    """
    if not hasattr(frame, "sparkSession"):
        raise UsageError(
            f"{type_name(frame)} is not a Spark DataFrame; nearkin.passages takes tables in memory"
        )
    own_id = read_column(frame, id).cast("string")
    own_text = read_column(frame, text).cast("string")
    options = PassageOptions(spec or Spec(n=1), min_tokens)
    require_no_key(key)
    options.spec.require_key(None)
    spark = require_classic_session(frame.sparkSession)
    tasks = PassageTasks(options.spec, min_tokens)
    with translate_spark_errors(), ExitStack() as on_failure:
        tables = make_work_tables(spark, work)
        on_failure.callback(tables.remove)
        rows = frame.select(
            own_id.alias("id"),
            own_text.alias("text"),
        )
        read, counts = tables.counted(
            rows, "rows", rejected=f.count(f.when(f.col("text").isNull(), 1))
        )
        require_unique_ids(read, id)
        texts = read.where(f.col("text").isNotNull())
        numbered = number_rows(texts, id_order(f.col("id")), "id").join(texts, "id")
        documents = tables.keep(numbered.select("number", "id", "text"), "documents")
        with TemporaryFolder() as folder:
            repeated = collect_repeated_windows(spark, tables, documents, tasks, folder)
            repeated.files.write_sources()
            parts = list(find_passages(repeated.files, min_tokens))
            found = _to_table(parts, repeated.numbers)
        result = tables.keep(_with_ids(spark.createDataFrame(found), documents), "passages")
        on_failure.pop_all()
    return SparkPassages(
        passages=result.orderBy("document", "start"),
        documents=counts["rows"] - counts["rejected"],
        rejected=counts["rejected"],
        _tables=tables,
    )


def require_unique_ids(rows: DataFrame, column: str) -> None:
    """Requires that each row has an id of its own."""
    repeated = rows.groupBy("id").count().where("id IS NULL OR count > 1").limit(1).collect()
    if repeated and repeated[0].id is None:
        raise UsageError(f"the column {column!r} has a null; give each row an id")
    if repeated:
        raise UsageError(
            f"the id {repeated[0].id!r} of the column {column!r} is repeated; give each row an id "
            "of its own"
        )


def _to_table(parts: list[Passages], numbers: np.ndarray) -> pa.Table:
    """Returns passages as a table, with the numbers of their documents.

    Args:
        numbers: Number of each document in the order of the ids, int64 (documents,).
    """
    columns = {
        "document": [numbers[part.documents] for part in parts],
        "start": [part.starts for part in parts],
        "end": [part.ends for part in parts],
        "tokens": [part.tokens for part in parts],
        "repeats_document": [numbers[part.source_documents] for part in parts],
        "repeats_start": [part.source_starts for part in parts],
        "repeats_end": [part.source_ends for part in parts],
    }
    nothing = np.empty(0, np.int64)
    table = {name: pa.array(np.concatenate([nothing, *arrays])) for name, arrays in columns.items()}
    contents = np.concatenate([np.empty(0, np.uint64), *(part.contents for part in parts)])
    positions, counts = np.unique(contents, return_inverse=True, return_counts=True)[1:]
    return pa.table({**table, "places": pa.array(counts[positions].astype(np.int64))})


def _with_ids(found: DataFrame, documents: DataFrame) -> DataFrame:
    """Returns passages with the ids of their documents, in the columns of a local run."""
    ids = documents.select(f.col("number").alias("document"), "id")
    other_ids = documents.select(
        f.col("number").alias("repeats_document"), f.col("id").alias("repeats_id")
    )
    columns = ("id", "start", "end", "tokens", "repeats_id", "repeats_start", "repeats_end")
    joined = found.join(ids, "document").join(other_ids, "repeats_document")
    return joined.select(*columns, "places", "document", "repeats_document")
