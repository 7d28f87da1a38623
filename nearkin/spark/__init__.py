"""The Spark API: deduplicates DataFrames, or files with several machines.

The result is the same as on one machine. It needs Java 17 or 21, and the extra `spark`.
"""

from nearkin.spark.decontamination import SparkDecontamination, decontaminate
from nearkin.spark.files import dedup_files, prepare_files
from nearkin.spark.frames import check, dedup, split
from nearkin.spark.incremental import backfill, save
from nearkin.spark.passages import SparkPassages, passages
from nearkin.spark.result import SparkCheckResult, SparkResult, SparkSplitResult
from nearkin.spark.streaming import StreamUpserts

__all__ = [
    "SparkCheckResult",
    "SparkDecontamination",
    "SparkPassages",
    "SparkResult",
    "SparkSplitResult",
    "StreamUpserts",
    "backfill",
    "check",
    "decontaminate",
    "dedup",
    "dedup_files",
    "passages",
    "prepare_files",
    "save",
    "split",
]
