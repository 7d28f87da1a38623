"""The Spark API: deduplicates DataFrames. It needs Java 17 or 21, and the extra `spark`.

The rows are files for the engine: those that a DataFrame reads, or new ones that Spark writes. So
each function is the one of the same name of the library, and its result consists of DataFrames over
the files that the engine writes.
"""

from nearkin.errors import MissingExtraError

try:
    import pyspark
except ImportError as error:
    raise MissingExtraError.for_extra("nearkin.spark requires pyspark", "spark") from error

from nearkin.executors.spark import SparkExecutor
from nearkin.spark.frames import check, decontaminate, dedup, passages, split
from nearkin.spark.results import (
    SparkCheckResult,
    SparkDecontamination,
    SparkPassages,
    SparkResult,
    SparkSplitResult,
)
from nearkin.spark.session import require_supported_version
from nearkin.spark.streaming import StreamUpserts

__all__ = [
    "SparkCheckResult",
    "SparkDecontamination",
    "SparkExecutor",
    "SparkPassages",
    "SparkResult",
    "SparkSplitResult",
    "StreamUpserts",
    "check",
    "decontaminate",
    "dedup",
    "passages",
    "split",
]

require_supported_version(pyspark.__version__)
