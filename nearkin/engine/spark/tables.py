"""Intermediate tables: Parquet in a folder that driver and workers share.

A table that is written cuts the plan behind it (plans of cached tables are printed whole at each use, which grows without
bound), outlives the loss of a worker, and is read by column: of a document's row, most stages want a few bytes.
"""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession


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
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(folder)
    path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).delete(path, True)
