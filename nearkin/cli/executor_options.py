"""The options that decide what does the tasks of a run: threads of this process, or Spark."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from nearkin.cli.imports import file_imports
from nearkin.runtime.loading import paused_collector
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.setting import RUN, Need, Setting

if TYPE_CHECKING:
    from nearkin.runtime.executor import Executor

THREADS = "threads"
SPARK = "spark"
EXECUTORS = (THREADS, SPARK)
OF_SPARK = Need("executor", (SPARK,))
"""The need of options that only Spark has."""


@dataclass(frozen=True)
class ExecutorOptions:
    """The options that decide what does the tasks of the run."""

    executor: Annotated[
        str,
        Setting(
            "What does the tasks: threads of this process, or spark (which requires the extra "
            "`spark`, and inputs and an output that all workers see under the same paths).",
            RUN,
            values=EXECUTORS,
        ),
    ] = THREADS
    master: Annotated[
        str | None,
        Setting(
            "Master of Spark, for example spark://HOST:7077, yarn or k8s://URL.  [default: "
            "local[*]]",
            RUN,
            metavar="URL",
            need=OF_SPARK,
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        Setting(
            "Setting of Spark, for example spark.executor.memory=8g. May be repeated.",
            RUN,
            metavar="KEY=VALUE",
            need=OF_SPARK,
        ),
    ] = None

    @contextmanager
    def open(self) -> "Iterator[Executor | None]":
        """Yields what does the tasks, or None for threads of this process."""
        from nearkin.errors import UsageError
        from nearkin.runtime.suggestions import did_you_mean

        if self.executor not in EXECUTORS:
            raise UsageError(
                f"{name_setting('executor', self.executor)} is not one of {', '.join(EXECUTORS)}"
                f"{did_you_mean(self.executor, EXECUTORS)}"
            )
        if self.executor == THREADS:
            yield None
            return
        from nearkin.spark import SparkExecutor
        from nearkin.spark.session import parse_conf, running_session, translate_spark_errors

        conf = parse_conf(self.conf or [])
        with running_session(self.master, conf) as spark, translate_spark_errors():
            yield SparkExecutor(spark)

    def imports(self) -> AbstractContextManager[None]:
        """Returns the context in which a command imports its modules.

        PySpark looks for pandas and SciPy, which other commands hide from their process.
        """
        if self.executor == SPARK:
            return paused_collector()
        return file_imports()
