"""Spark sessions, and the translation of Spark's errors."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nearkin.errors import MissingExtraError, NearkinError, RunError, UsageError
from nearkin.runtime.setting_names import name_setting

LEAST_VERSION = 4
"""The first version of PySpark that is supported."""
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Settings of a new session. `--conf` overrides them."""
ALONE = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings of a session on one machine. Nearly all work is done in Python, so compiling Java code
takes more time than it saves."""
FAILED = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
SHOWN = 400


def require_supported_version(version: str) -> None:
    """Requires a version of PySpark that is supported.

    Examples:
        >>> require_supported_version("4.0.0.dev1")
    """
    if int(version.split(".")[0]) < LEAST_VERSION:
        raise MissingExtraError.for_extra(
            f"nearkin.spark requires PySpark {LEAST_VERSION}.0 or newer, and PySpark {version} is "
            "installed",
            "spark",
        )


def parse_conf(settings: list[str]) -> dict[str, str]:
    """Parses settings of the form `spark.NAME=VALUE`.

    Examples:
        >>> parse_conf(["spark.driver.memory=2g"])
        {'spark.driver.memory': '2g'}
    """
    out = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(f"{name_setting('conf', setting)} is not of the form spark.NAME=VALUE")
        out[name] = value
    return out


def open_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Returns the active session, or starts one."""
    master = master or os.environ.get("MASTER") or "local[*]"
    alone = master.startswith("local")
    if alone:
        # Workers are processes of this machine. They need the Python that has this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("nearkin").master(master)
    for name, value in {**DEFAULTS, **(ALONE if alone else {}), **conf}.items():
        builder = builder.config(name, value)
    try:
        return require_classic_session(builder.getOrCreate())
    except (PySparkException, Py4JError, OSError) as error:
        raise RunError(
            f"Spark did not start with master {master!r}: {one_line(str(error))}. It needs Java "
            "17 or 21 (Debian: apt-get install openjdk-17-jre-headless, or set JAVA_HOME), and a "
            "master that can be reached"
        ) from error


def require_classic_session(session: SparkSession) -> SparkSession:
    """Requires a session whose driver is this process, and returns it."""
    if "connect" in type(session).__module__.split("."):
        raise UsageError(
            "a session of Spark Connect cannot be used, because it has no SparkContext, with which "
            "nearkin sends tasks to the workers; use a classic session (on Databricks: compute "
            "with dedicated access mode, not standard or serverless)"
        )
    return session


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Raises errors of this package in the place of Spark's errors."""
    try:
        yield
    except NearkinError:
        raise
    except (PySparkException, Py4JError) as error:
        raise from_task(str(error)) from error


def from_task(message: str) -> RunError:
    r"""Returns the error that the message of a failed task describes.

    Examples:
        >>> print(str(from_task("x\nModuleNotFoundError: No module named 'numpy'\n"))[:76])
        a Spark task failed: ModuleNotFoundError: No module named 'numpy'; install n
    """
    causes = [f"{name}: {text}" for name, text in FAILED.findall(message)]
    cause = one_line(causes[-1] if causes else message)
    advice = "Spark's log has the whole trace"
    if cause.startswith("ModuleNotFoundError"):
        advice = (
            "install nearkin on the workers, and name their Python in the environment variable "
            "PYSPARK_PYTHON of this process"
        )
    return RunError(f"a Spark task failed: {cause}; {advice}")


def one_line(text: str) -> str:
    """Returns the beginning of a message, on one line."""
    return " ".join(text.split())[:SHOWN]


@contextmanager
def running_session(master: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yields a session. It is stopped at the end, unless it was active before."""
    active = SparkSession.getActiveSession()
    spark = open_session(master, conf)
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()
