"""The Spark API: deduplicates DataFrames, or files with several machines.

The result is the same as on one machine. It needs Java 17 or 21, and the extra `spark`.
"""

from nearkin.spark.files import dedup_files, prepare_files
from nearkin.spark.frames import dedup
from nearkin.spark.incremental import backfill, save
from nearkin.spark.result import SparkResult
from nearkin.spark.streaming import StreamUpserts

__all__ = [
    "SparkResult",
    "StreamUpserts",
    "backfill",
    "dedup",
    "dedup_files",
    "prepare_files",
    "save",
]
