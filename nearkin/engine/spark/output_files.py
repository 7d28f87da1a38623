"""The outputs of a run over files. Tasks write them, except for the rejected rows."""

import shutil
from pathlib import Path

import orjson
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.spark.rereading import (
    ATTEMPT_PREFIX,
    WRITTEN,
    FileCopying,
    FileEditor,
    WrittenFacts,
)
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.sources import FileSource
from nearkin.engine.spark.task_functions import collect_facts
from nearkin.errors import RunError
from nearkin.runtime.files import disk_errors
from nearkin.runtime.setting_names import name_flag


def copy_files(
    source: FileSource, rows: DataFrame, folder: Path, edit: FileEditor, documents: int
) -> None:
    """Writes copies of the input files."""
    with disk_errors(folder.parent):
        folder.mkdir(parents=True)
    copying = FileCopying(source.request, str(folder.absolute()), edit)
    files = source.interleave_with_files(rows)
    written = collect_facts(files.mapInArrow(copying.copy, WRITTEN), WrittenFacts)
    # Tasks that failed, or were lost with their worker, leave incomplete copies.
    for incomplete in folder.glob(f"{ATTEMPT_PREFIX}*"):
        shutil.rmtree(incomplete, ignore_errors=True)
    now = sum(task["documents"] for task in written)
    if now != documents:
        raise RunError(
            f"the inputs have {now} documents now and had {documents}; run again with "
            f"{name_flag('overwrite')}"
        )


def write_table(rows: DataFrame, folder: Path) -> None:
    """Writes a table as Parquet files whose names ascend in the order of the rows."""
    rows.write.option("compression", "zstd").parquet(str(folder.absolute()))


def write_clusters(run: SparkRun, folder: Path) -> None:
    """Writes the clusters table in corpus order, in files whose names ascend."""
    write_table(run.clusters.orderBy("doc").drop("doc"), folder)


def write_removed_ids(run: SparkRun, folder: Path) -> None:
    """Writes the ids of the removed documents in corpus order."""
    removed = run.clusters.where("NOT kept").orderBy("doc").select("id")
    write_table(removed, folder)


def write_pairs(run: SparkRun, folder: Path) -> None:
    """Writes the pairs table, in the order of the documents."""
    ordered = run.scorer.pair_table.orderBy("a", "b").drop("a", "b")
    write_table(ordered, folder)


def write_related(run: SparkRun, folder: Path) -> None:
    """Writes the table of related documents, if they were asked for, in the order of the documents.

    The documents of a reference come last, the most similar ones of a document first.
    """
    if run.related is not None:
        order = (f.col("b").isNotNull().desc(), "a", "b", f.desc("similarity"), "id_b")
        write_table(run.related.orderBy(*order).drop("a", "b"), folder)


def write_rejected(rejected: DataFrame, path: Path) -> None:
    """Writes rejected.jsonl as the local engine does. The driver reads a partition at a time."""
    with disk_errors(path.parent), path.open("wb") as file:
        for row in rejected.orderBy(f.col("doc")).toLocalIterator():
            facts = {**orjson.loads(row.place), "reason": row.reason, "raw": row.raw}
            file.write(orjson.dumps(facts) + b"\n")
