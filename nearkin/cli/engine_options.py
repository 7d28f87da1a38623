"""The options that decide what executes a run: this process, or Spark."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated

from nearkin.cli.imports import file_imports
from nearkin.runtime.loading import paused_collector
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.setting import RUN, Need, Setting

LOCAL = "local"
SPARK = "spark"
OF_SPARK = Need("engine", (SPARK,))
"""The need of options that only Spark has."""


@dataclass(frozen=True)
class EngineOptions:
    """The options that decide what executes the run."""

    engine: Annotated[
        str,
        Setting(
            "Engine: local, or spark (which requires the extra `spark`).",
            RUN,
            values=(LOCAL, SPARK),
        ),
    ] = LOCAL
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

    @property
    def uses_spark(self) -> bool:
        """True if Spark executes the run."""
        from nearkin.errors import UsageError
        from nearkin.runtime.suggestions import did_you_mean

        if self.engine not in (LOCAL, SPARK):
            raise UsageError(
                f"{name_setting('engine', self.engine)} is not one of local, spark"
                f"{did_you_mean(self.engine, (LOCAL, SPARK))}"
            )
        return self.engine == SPARK

    def imports(self) -> AbstractContextManager[None]:
        """Returns the context in which a command imports its modules.

        PySpark looks for pandas and SciPy, which other commands hide from their process.
        """
        if self.engine == SPARK:
            return paused_collector()
        return file_imports()
