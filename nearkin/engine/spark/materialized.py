"""Intermediate tables: parquet files in a folder that the driver and the workers share.

A written table ends the plan behind it; plans of cached tables are printed whole at each use, which
grows without bound. It survives the loss of a worker. It is read by column, and most stages read a
few bytes of each row.
"""

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from nearkin.engine.spark.task_progress import TaskProgress


@dataclass
class IntermediateTables:
    """Numbered tables in a folder.

    Attributes:
        spark: Session.
        folder: Path or URL that the driver and all workers can write.
        task_progress: Receives a step for each table, while a stage is under way.
    """

    spark: SparkSession
    folder: str
    task_progress: TaskProgress | None = None
    _written: list[str] = field(default_factory=list)

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        """Writes a table, and returns it as it is read from disk."""
        return self.counted(frame, name)[0]

    def counted(
        self, frame: DataFrame, name: str, **metrics: Column
    ) -> tuple[DataFrame, dict[str, int]]:
        """Writes a table, and counts its rows while it is written."""
        observation = Observation()
        observed = {"rows": f.count(f.lit(1)), **metrics}
        columns = [metric.alias(label) for label, metric in observed.items()]
        read = self._write(frame.observe(observation, *columns), name)
        # Spark removes an empty plan, and the observation with it.
        counts = observation.get
        return read, {label: int(counts.get(label) or 0) for label in observed}

    def _write(self, frame: DataFrame, name: str) -> DataFrame:
        path = f"{self.folder}/{len(self._written):03d}-{name}"
        self._written.append(path)
        # Signatures and payloads are hashes, which dictionaries do not make smaller.
        plain = {
            f"parquet.enable.dictionary#{column}": "false"
            for column in ("signature", "keys", "docs", "sort")
        }
        frame.write.mode("overwrite").option("compression", "lz4_raw").options(**plain).parquet(
            path
        )
        self.finish_step()
        return self.spark.read.schema(frame.schema).parquet(path)

    def finish_step(self) -> None:
        """Counts a step of the stage that is under way, for example a written table."""
        if self.task_progress is not None:
            self.task_progress.finish_step()

    def remove(self) -> None:
        """Deletes the folder."""
        remove(self.spark, self.folder)


def remove(spark: SparkSession, folder: str) -> None:
    """Deletes a folder on any file system that Hadoop supports."""
    system, path = _on(spark, folder)
    system.delete(path, True)  # noqa: FBT003  (a Java method has no keywords)


def names_in(spark: SparkSession, folder: str) -> list[str]:
    """Returns the names of a folder's entries, or none if it does not exist."""
    system, path = _on(spark, folder)
    return (
        [entry.getPath().getName() for entry in system.listStatus(path)]
        if system.exists(path)
        else []
    )


def _on(spark: SparkSession, folder: str) -> tuple[Any, Any]:
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(folder)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path
