"""Runs that extend an earlier run by new documents."""

from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.engine.spark.saved import Saved
from nearkin.engine.spark.session import require_classic_session, translate_spark_errors
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_arguments
from nearkin.settings.choices import Verify
from nearkin.spark.result import SparkResult
from nearkin.stages.sketch.resources import SpecResources

AnySession: TypeAlias = "SparkSession"
"""A session. Its class is not checked, because one of Spark Connect has another one."""


@check_arguments
def save(result: SparkResult, folder: str) -> None:
    """Saves signatures, band keys and compared pairs of a result.

    A later `dedup(..., extend=folder)` does not sketch or compare these documents again. Band keys
    are partitioned by band.

    Args:
        result: Result of `dedup`.
        folder: New folder, path or URL.

    Raises:
        UsageError: If the result cannot be continued: all pairs were compared, slots were
            truncated, or slots were probed.
    """
    with translate_spark_errors():
        result._run.save(folder)


@check_arguments
def backfill(spark: "AnySession", folder: str, bands: int, rows: int) -> None:
    """Computes band keys for other bands and rows, from saved signatures. No text is read.

    Args:
        spark: Session.
        folder: Folder that `save` wrote.
        bands: Number of bands.
        rows: Number of rows of a band.

    Raises:
        UsageError: If the folder holds no saved run, the bands and rows are not valid, or the
            session is one of Spark Connect.
    """
    require_classic_session(spark)
    with translate_spark_errors():
        saved = Saved.open(spark, folder)
        parameters = saved.about["parameters"]
        options = RunOptions.from_parameters(parameters, saved.spec, bands=bands, rows=rows)
        request = TaskRequest(Columns(), options, SpecResources())
        banding = options.banding(request.measure, saved.documents.count())
        saved.write_keys(request, banding)


def open_saved_run(
    spark: SparkSession, folder: str, before: DataFrame | None, request: TaskRequest
) -> Saved:
    """Opens the saved run that a request continues."""
    if before is None and request.options.verify == Verify.EXACT:
        raise UsageError(
            f"give the rows of the documents in {folder} with before=; an exact comparison reads "
            "some of them again"
        )
    if request.merge_parts or request.options.bands is None:
        raise UsageError("extend= needs bands and rows, and cannot be combined with merge_parts")
    return Saved.open(spark, folder)
