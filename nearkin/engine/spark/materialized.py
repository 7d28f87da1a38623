"""Intermediate tables: Parquet in a folder that driver and workers share.

A table that is written cuts the plan behind it (plans of cached tables are printed whole at each use, which grows without
bound), outlives the loss of a worker, and is read by column: of a document's row, most stages want a few bytes.
"""

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f


@dataclass
class Tables:
    """Numbered tables in a folder.

    Attributes:
        spark: The session.
        folder: Path or URL that the driver and all workers can write.
    """

    spark: SparkSession
    folder: str
    _written: list[str] = field(default_factory=list)

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        """Writes a table and reads it back."""
        return self.counted(frame, name)[0]

    def counted(self, frame: DataFrame, name: str, **metrics: Column) -> tuple[DataFrame, dict[str, int]]:
        """The same, and its `rows` and other whole numbers observed while it was written, which takes no pass of its own."""
        seen, observed = Observation(), {"rows": f.count(f.lit(1)), **metrics}
        read = self._write(frame.observe(seen, *(metric.alias(name) for name, metric in observed.items())), name)
        # Spark prunes a plan that it finds to be empty, and what was to be observed with it.
        return read, {name: int(seen.get.get(name) or 0) for name in observed}

    def _write(self, frame: DataFrame, name: str) -> DataFrame:
        path = f"{self.folder}/{len(self._written):03d}-{name}"
        self._written.append(path)
        # Signatures and payloads are hashes: a dictionary of them, or compressing them, gains nothing.
        plain = {f"parquet.enable.dictionary#{column}": "false" for column in ("signature", "keys", "docs", "sort")}
        frame.write.mode("overwrite").option("compression", "lz4_raw").options(**plain).parquet(path)
        return self.spark.read.schema(frame.schema).parquet(path)

    def remove(self) -> None:
        """Takes the folder away."""
        remove(self.spark, self.folder)


def remove(spark: SparkSession, folder: str) -> None:
    """Deletes a folder through Hadoop's file systems, whichever it is on."""
    system, path = _on(spark, folder)
    system.delete(path, True)


def names_in(spark: SparkSession, folder: str) -> list[str]:
    """What a folder holds; nothing of one that does not exist."""
    system, path = _on(spark, folder)
    return [entry.getPath().getName() for entry in system.listStatus(path)] if system.exists(path) else []


def _on(spark: SparkSession, folder: str) -> tuple[Any, Any]:
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(folder)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path
