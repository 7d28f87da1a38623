"""The Spark engine, which needs the extra `spark`."""

from nearkin.errors import MissingExtraError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingExtraError.for_extra("the engine spark requires pyspark", "spark") from error
