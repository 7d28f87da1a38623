"""The outputs of a run over files. Tasks write them, except for the rejected rows."""

import json
from pathlib import Path

import orjson
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.cluster_columns import ClusterColumns
from nearkin.engine.spark.cluster_columns import with_cluster_columns
from nearkin.engine.spark.rereading import WRITTEN, Writing, WrittenFacts
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.sources import FileSource
from nearkin.engine.spark.task_functions import collect_facts
from nearkin.errors import RunError
from nearkin.runtime.files import disk_errors
from nearkin.setting_names import name_flag


def write_kept_files(run: SparkRun, folder: Path, added: ClusterColumns, *, annotate: bool) -> None:
    """Writes the input files again, without the removed rows.

    Args:
        run: Finished run over files.
        folder: New folder.
        added: Columns about clusters that are added.
        annotate: Whether all rows are written, with the cluster columns.

    Raises:
        RunError: If the inputs have changed.
    """
    assert isinstance(run.source, FileSource)
    with disk_errors(folder.parent):
        folder.mkdir(parents=True)
    rows = run.source.interleave_with_files(with_cluster_columns(run, run.rows, added))
    writing = Writing(run.request, str(folder.absolute()), annotate=annotate, added=added)
    written = collect_facts(rows.mapInArrow(writing.files, WRITTEN), WrittenFacts)
    documents = run.sketch_stats.documents + run.document_tables.further_parts
    now = sum(task["documents"] for task in written)
    if now != documents:
        raise RunError(
            f"the inputs have {now} documents now and had {documents}; run again with "
            f"{name_flag('overwrite')}"
        )


def write_clusters(run: SparkRun, folder: Path) -> None:
    """Writes the clusters table in corpus order, in files whose names ascend.

    Args:
        run: Finished run.
        folder: New folder.
    """
    run.clusters.orderBy("doc").drop("doc").write.option("compression", "zstd").parquet(
        str(folder.absolute())
    )


def write_removed_ids(run: SparkRun, folder: Path) -> None:
    """Writes the ids of the removed documents in corpus order.

    Args:
        run: Finished run.
        folder: New folder.
    """
    removed = run.clusters.where("NOT kept").orderBy("doc").select("id")
    removed.write.option("compression", "zstd").parquet(str(folder.absolute()))


def write_pairs(run: SparkRun, folder: Path) -> None:
    """Writes the pairs table, in the order of the documents.

    Args:
        run: Finished run.
        folder: New folder.
    """
    ordered = run.scorer.pair_table.orderBy("a", "b").drop("a", "b")
    ordered.write.option("compression", "zstd").parquet(str(folder.absolute()))


def write_related(run: SparkRun, folder: Path) -> None:
    """Writes the table of related documents, if they were asked for, in the order of the documents.

    The documents of a reference come last, the most similar ones of a document first.

    Args:
        run: Finished run.
        folder: New folder.
    """
    if run.related is not None:
        order = (f.col("b").isNotNull().desc(), "a", "b", f.desc("similarity"), "id_b")
        ordered = run.related.orderBy(*order).drop("a", "b")
        ordered.write.option("compression", "zstd").parquet(str(folder.absolute()))


def write_rejected(rejected: DataFrame, path: Path) -> None:
    """Writes rejected.jsonl as the local engine does. The driver reads a partition at a time.

    Args:
        rejected: Rejected rows of files: doc, place, reason and raw.
        path: New file.

    Raises:
        RunError: If the disk is full or cannot be written.
    """
    with disk_errors(path.parent), path.open("wb") as file:
        for row in rejected.orderBy(f.col("doc")).toLocalIterator():
            place = {
                name: value for name, value in json.loads(row.place).items() if value is not None
            }
            file.write(orjson.dumps({**place, "reason": row.reason, "raw": row.raw}) + b"\n")
