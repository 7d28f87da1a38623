"""The output folder of a run over files with Spark, and the session of the run."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from pyspark.sql import SparkSession

from nearkin.corpus import FileCorpus, describe_inputs
from nearkin.corpus.input_manifest import InputRecord
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.session import open_session, translate_spark_errors
from nearkin.errors import UsageError
from nearkin.runs.job import Job
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.outputs import MANIFEST, RESULT, Claim, claimed
from nearkin.runtime.setting_names import name_flag


class SparkOutput(NamedTuple):
    """The output of a run that is under way."""

    run_id: str
    claim: Claim
    spark: SparkSession
    memory: PeakMemory
    """Measures the memory of the driver."""
    folder: Path
    """The folder of the result, which is published at the end."""
    inputs: Sequence[InputRecord]
    """The files that the run reads."""
    tables: IntermediateTables


@contextmanager
def open_output(
    master: str | None, conf: dict[str, str], job: Job, corpus: FileCorpus, command: str
) -> Iterator[SparkOutput]:
    """Claims the output of a job, and yields it with a session.

    The work folder is deleted after a failure too, because a run cannot be resumed from it.
    """
    _require_not_resumed(job)
    with (
        claimed(job.out, command, replaces=job.overwrite) as claim,
        running_session(master, conf) as spark,
        PeakMemory() as memory,
        translate_spark_errors(),
    ):
        # Workers that run as another user need --readable-by.
        claim.path.chmod(job.readers.folder_mode)
        # If a driver is killed, its tasks may write for some time after it. Each run has a folder
        # of its own, so that a later run for the same output does not read their files.
        run_id = uuid4().hex
        folder = claim.path / run_id / RESULT
        folder.mkdir(parents=True)
        yield SparkOutput(
            run_id=run_id,
            claim=claim,
            spark=spark,
            memory=memory,
            folder=folder,
            inputs=describe_inputs(corpus, job.hash_inputs),
            tables=IntermediateTables(spark, str((claim.path / run_id / "tables").absolute())),
        )


def _require_not_resumed(job: Job) -> None:
    """Requires that a job whose output is not complete is not resumed."""
    if not job.resume:
        return
    advice = f"leave {name_flag('resume')} out to start it"
    if os.path.lexists(job.out) or os.path.lexists(job.work_folder / MANIFEST):
        advice = f"start it again with {name_flag('overwrite')} in place of {name_flag('resume')}"
    raise UsageError(f"a run with Spark cannot be resumed; {advice}")


@contextmanager
def running_session(master: str | None, conf: dict[str, str]) -> Iterator[SparkSession]:
    """Yields a session. It is stopped at the end, unless it was active before."""
    active = SparkSession.getActiveSession()
    spark = open_session(master, conf)
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()
