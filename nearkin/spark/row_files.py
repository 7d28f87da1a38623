"""The rows of DataFrames as files, which the engine reads, and its files as DataFrames."""

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from nearkin.corpus.arrow_conversion import type_name
from nearkin.corpus.formats.base import make_unused_name
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.spark.frame_columns import read_column
from nearkin.spark.id_order import id_order
from nearkin.spark.session import require_classic_session

GLOB_CHARACTERS = re.compile(r"([*?\[\]{}\\])")
TIMESTAMP_TYPE = "spark.sql.parquet.outputTimestampType"
"""The setting of Spark for the type of timestamps in Parquet files."""
UNREADABLE_TIMESTAMPS = "INT96"
"""The type of timestamps of which Arrow makes nanoseconds, which Spark does not read again."""


@dataclass(frozen=True)
class RowFiles:
    """The rows of a DataFrame as Parquet files.

    Attributes:
        frame: The rows as they are read from the files.
        paths: The files.
    """

    frame: DataFrame
    paths: tuple[Path, ...]

    @classmethod
    def of(cls, frame: DataFrame, folder: Path, order: str | None = None) -> "RowFiles":
        """Returns the files that a DataFrame reads, or writes its rows into a new folder.

        Args:
            order: Column of ids by which the rows are ordered, or None for any order.
        """
        scanned = _list_scanned_files(frame)
        if scanned is not None and order is None:
            return cls(frame, scanned)
        rows = frame
        if order is not None:
            rows = frame.orderBy(id_order(text_id(frame, order)))
        _write_rows(rows, folder)
        paths = tuple(sorted(folder.glob("*.parquet")))
        if not paths:
            raise UsageError(
                f"Spark wrote no file into {folder} that this process sees; give a folder that "
                f"the driver and all workers share with {name_setting('work')}"
            )
        return cls(read_files(frame.sparkSession, folder, frame.schema), paths)


def require_frame(frame: Any, function: str) -> SparkSession:
    """Requires a DataFrame of a classic session, and returns the session."""
    if not hasattr(frame, "sparkSession"):
        raise UsageError(
            f"{type_name(frame)} is not a Spark DataFrame; nearkin.{function} takes tables in "
            "memory"
        )
    return require_classic_session(frame.sparkSession)


def text_id(frame: DataFrame, id: str) -> Column:
    """Returns the ids of rows as texts, as the engine reads them."""
    return read_column(frame, id).cast("string")


def read_files(spark: SparkSession, path: Path, schema: StructType | None = None) -> DataFrame:
    """Returns a Parquet file, or those of a folder, as a DataFrame."""
    if not path.exists():
        raise UsageError(
            f"{path} does not exist, because the result is closed; use its DataFrames before"
        )
    reader = spark.read if schema is None else spark.read.schema(schema)
    return reader.parquet(url_of(path))


def url_of(path: Path) -> str:
    """Returns the URL by which Spark reads a path. Without a scheme, it would be one of HDFS."""
    escaped = GLOB_CHARACTERS.sub(r"\\\1", str(path))
    return f"file://{escaped}"


@contextmanager
def new_run_folder(spark: SparkSession, work: str | Path | None) -> Iterator[Path]:
    """Yields a new folder for the files of a run, which is deleted if the run fails."""
    folder = _make_run_folder(spark, work)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _make_run_folder(spark: SparkSession, work: str | Path | None) -> Path:
    """Makes the folder. A temporary one is possible if all of Spark runs on this machine."""
    if work is None:
        master = spark.sparkContext.master
        if not master.startswith("local"):
            raise UsageError(
                f"the workers of master {master} are on other machines; give a folder that they "
                f"share, for example {name_setting('work', '/mnt/shared/nearkin')}"
            )
        folder = Path(tempfile.mkdtemp(prefix="nearkin-spark-"))
        # DataFrames of a result can outlive it, so that only the process ends their files
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
    scheme, separator, path = str(work).rpartition("://")
    if separator and scheme != "file":
        raise UsageError(
            f"{name_setting('work', str(work))} is not a folder of a file system; give a path that "
            "the driver and all workers see, for example on NFS, Lustre or EFS (the rows "
            "themselves may come from anywhere)"
        )
    folder = Path(path).absolute() / f"nearkin-{uuid4().hex}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"no folder can be created in {name_setting('work', str(work))}: {error.strerror}; "
            "give a folder that can be written"
        ) from error
    return folder


def _write_rows(rows: DataFrame, folder: Path) -> None:
    """Writes rows as Parquet, with timestamps that Arrow and Spark read."""
    settings = rows.sparkSession.conf
    previous = str(settings.get(TIMESTAMP_TYPE))
    settings.set(TIMESTAMP_TYPE, "TIMESTAMP_MICROS")
    try:
        rows.write.parquet(f"file://{folder}")
    finally:
        settings.set(TIMESTAMP_TYPE, previous)


def _list_scanned_files(frame: DataFrame) -> tuple[Path, ...] | None:
    """Returns the files whose rows a DataFrame consists of, or None for other rows.

    Partition columns, buckets and options of the reader change what is read.
    """
    plan: Any = frame._jdf.queryExecution().analyzed()
    if plan.nodeName() != "LogicalRelation":
        return None
    relation = plan.relation()
    if not relation.getClass().getName().endswith(".HadoopFsRelation"):
        return None
    is_plain = (
        relation.fileFormat().getClass().getName().endswith(".ParquetFileFormat")
        and relation.partitionSchema().isEmpty()
        and relation.bucketSpec().isEmpty()
        and relation.options().removed("path").isEmpty()
    )
    urls = [urlsplit(url) for url in frame.inputFiles()]
    if not is_plain or not urls or any(url.scheme != "file" for url in urls):
        return None
    paths = tuple(sorted(Path(unquote(url.path)) for url in urls))
    # rejected rows are found again by the names of their files
    if len({path.name for path in paths}) < len(paths):
        return None
    return paths if all(_has_columns(path, frame.columns) for path in paths) else None


def _has_columns(path: Path, names: list[str]) -> bool:
    """Returns whether a file has these columns alone, and none whose values Arrow changes."""
    try:
        schema = pq.read_metadata(path).schema
    except (OSError, pa.ArrowException):
        # Spark says what is wrong with the file, or reads it
        return False
    types = {schema.column(number).physical_type for number in range(len(schema))}
    return schema.to_arrow_schema().names == names and UNREADABLE_TIMESTAMPS not in types


def select_rows_of_ids(rows: DataFrame, id: str, ids: DataFrame) -> DataFrame:
    """Returns the rows whose ids are in a table with the column `id`."""
    # Spark does not distinguish upper and lower case
    name = make_unused_name("wanted", {column.lower() for column in rows.columns})
    wanted = ids.select(f.col("id").alias(name))
    return rows.join(wanted, text_id(rows, id) == f.col(name), "left_semi")
