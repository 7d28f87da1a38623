"""The outputs of a run over files: by tasks, but for the quarantine, of which the driver holds a partition at a time."""

import json
from pathlib import Path

import orjson
from pyspark.sql import functions as f

from nearkin.engine.spark.rereading import WRITTEN, Writing
from nearkin.engine.spark.run import SparkRun, facts_of
from nearkin.engine.spark.sources import FileSource
from nearkin.errors import RunError
from nearkin.runtime.files import disk_errors


def write_kept_files(run: SparkRun, folder: Path, annotate: bool) -> None:
    """The inputs again, in their names and formats, without the removed rows (or with all, annotated).

    Raises:
        RunError: The inputs have changed.
    """
    assert isinstance(run.source, FileSource)
    with disk_errors(folder.parent):
        folder.mkdir(parents=True)
    rows = run.source.interleave_with_files(run.rows)
    written = facts_of(
        rows.mapInArrow(Writing(run.request, str(folder.absolute()), annotate).files, WRITTEN)
    )
    documents, now = (
        run.stages["sketch"]["documents"] + run.further_parts,
        sum(task["documents"] for task in written),
    )
    if now != documents:
        raise RunError(
            f"the inputs have {now} documents now and had {documents}; run again with --overwrite"
        )


def write_clusters(run: SparkRun, folder: Path) -> None:
    """The clusters table in corpus order, over its files in the order of their names."""
    run.clusters.orderBy("doc").drop("doc").write.option("compression", "zstd").parquet(
        str(folder.absolute())
    )


def write_pairs(run: SparkRun, folder: Path) -> None:
    """The verified pairs, in the order of their documents."""
    ordered = run.pair_table.orderBy("a", "b").drop("a", "b")
    ordered.write.option("compression", "zstd").parquet(str(folder.absolute()))


def write_rejected(run: SparkRun, path: Path) -> None:
    """rejected.jsonl, line for line that of the local engine."""
    with disk_errors(path.parent), path.open("wb") as file:
        for row in run.rejected.orderBy(f.col("doc")).toLocalIterator():
            place = {
                name: value for name, value in json.loads(row.place).items() if value is not None
            }
            file.write(orjson.dumps({**place, "reason": row.reason, "raw": row.raw}) + b"\n")
