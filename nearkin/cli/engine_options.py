"""The options that decide what executes a run: this process, or Spark."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated

import typer

from nearkin.cli.given_options import RUN
from nearkin.cli.imports import file_imports
from nearkin.runtime.loading import paused_collector
from nearkin.runtime.setting_names import name_setting

LOCAL = "local"
SPARK = "spark"


@dataclass(frozen=True)
class EngineOptions:
    """The options that decide what executes the run."""

    engine: Annotated[
        str,
        typer.Option(
            help="Engine: local, or spark (which requires the extra `spark`).", rich_help_panel=RUN
        ),
    ] = LOCAL
    master: Annotated[
        str | None,
        typer.Option(
            help="Master of Spark, for example spark://HOST:7077, yarn or k8s://URL.  [default: "
            "local[*]]",
            metavar="URL",
            rich_help_panel=RUN,
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            help="Setting of Spark, for example spark.executor.memory=8g. May be repeated.",
            metavar="KEY=VALUE",
            rich_help_panel=RUN,
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
