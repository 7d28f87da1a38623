"""The options that decide what does the tasks of a run: threads of this process, or others."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nearkin.cli.imports import file_imports
from nearkin.cli.standard_streams import write_to_stdout
from nearkin.runtime.loading import paused_collector
from nearkin.runtime.number_range import NumberRange
from nearkin.runtime.shell_quoting import quote_argument
from nearkin.runtime.suggestions import require_choice
from nearkin.settings.setting import RUN, Need, setting

if TYPE_CHECKING:
    from nearkin.runtime.executor import Executor

THREADS = "threads"
PROCESSES = "processes"
SPARK = "spark"
RAY = "ray"
JOBS = "jobs"
EXECUTORS = (THREADS, PROCESSES, SPARK, RAY, JOBS)
MOST_JOBS = 8
PRINTED = ("slurm", "k8s", "make")
"""The systems for which files of jobs can be printed."""


@dataclass(frozen=True)
class ExecutorOptions:
    """The options that decide what does the tasks of the run."""

    executor: str = setting(
        THREADS,
        "What does the tasks: threads of this process, other processes of this machine, the "
        "workers of spark or ray (which are extras), or jobs: processes of `nearkin work` on "
        "any machine. All workers see inputs and output under the same paths, or use --exchange.",
        RUN,
        values=EXECUTORS,
    )
    master: str | None = setting(
        None,
        "Master of Spark, for example spark://HOST:7077, yarn or k8s://URL, or address of Ray.",
        RUN,
        metavar="URL",
        shown_default="this machine",
        need=Need("executor", (SPARK, RAY)),
    )
    conf: list[str] | None = setting(
        None,
        "Setting of Spark, for example spark.executor.memory=8g. May be repeated.",
        RUN,
        metavar="KEY=VALUE",
        need=Need("executor", (SPARK,)),
    )
    exchange: str | None = setting(
        None,
        "Folder of an object store (s3://, gs:// or abfs://) through which the run and its workers "
        "exchange files, if they share no folder.",
        RUN,
        metavar="URL",
        need=Need("executor", (SPARK, RAY)),
    )
    jobs: int | None = setting(
        None,
        "Number of processes of `nearkin work` that do tasks at a time.",
        RUN,
        shown_default=str(MOST_JOBS),
        range=NumberRange(1),
        need=Need("executor", (JOBS,)),
    )
    print: str | None = setting(
        None,
        "Print a file that starts the run and its workers, and end: slurm (a script), k8s (Jobs of "
        "Kubernetes) or make (a makefile).",
        RUN,
        values=PRINTED,
        need=Need("executor", (JOBS,)),
    )

    @contextmanager
    def open(self, workers: int) -> "Iterator[Executor | None]":
        """Yields what does the tasks, or None for threads of this process."""
        if self.executor == THREADS:
            yield None
            return
        from nearkin.executors.jobs import JobsExecutor
        from nearkin.executors.object_store import require_object_store
        from nearkin.executors.processes import Processes
        from nearkin.executors.ray import RayExecutor

        require_choice("executor", self.executor, EXECUTORS)
        if self.exchange is not None:
            require_object_store(self.exchange)
        if self.executor == PROCESSES:
            with Processes.start(workers) as processes:
                yield processes
            return
        if self.executor == JOBS:
            yield JobsExecutor(self.jobs or MOST_JOBS)
            return
        if self.executor == RAY:
            yield RayExecutor.connect(self.master, self.exchange)
            return
        from nearkin.spark import SparkExecutor
        from nearkin.spark.session import parse_conf, running_session, translate_spark_errors

        conf = parse_conf(self.conf or [])
        with running_session(self.master, conf) as spark, translate_spark_errors():
            yield SparkExecutor(spark, exchange=self.exchange)

    def print_files(self, work: Path) -> bool:
        """Prints the file that was asked for. Returns False if none was."""
        if self.print is None:
            return False
        from nearkin.cli.job_files import FORMS, JobFiles

        require_choice("print", self.print, PRINTED)
        files = JobFiles.of_command(work, self.jobs or MOST_JOBS)
        write_to_stdout(FORMS[self.print](files).encode("utf-8", "surrogateescape"))
        return True

    def describe_workers(self, work: Path) -> str | None:
        """Returns how workers are started, if the user does that."""
        if self.executor != JOBS:
            return None
        return f"start workers, on any machine: nearkin work {quote_argument(str(work))}"

    def imports(self) -> AbstractContextManager[None]:
        """Returns the context in which a command imports its modules.

        PySpark and Ray look for pandas and SciPy, which other commands hide from their process.
        """
        if self.executor in (SPARK, RAY):
            return paused_collector()
        return file_imports()
