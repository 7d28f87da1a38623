"""The Spark engine, which needs the extra `spark`."""

from nearkin.errors import MissingExtraError

LEAST_VERSION = (4, 0)
"""The first version of PySpark that passes Arrow tables to functions over groups."""

try:
    import pyspark
except ImportError as error:
    raise MissingExtraError.for_extra("the engine spark requires pyspark", "spark") from error


def require_supported_version(version: str) -> None:
    """Requires a version of PySpark with which the engine works.

    Examples:
        >>> require_supported_version("4.0.0.dev1")
    """
    major, minor = version.split(".")[:2]
    if (int(major), int(minor)) < LEAST_VERSION:
        raise MissingExtraError.for_extra(
            f"the engine spark requires PySpark 4.0 or newer, because PySpark {version} cannot "
            "pass Arrow tables to functions over groups (applyInArrow)",
            "spark",
        )


require_supported_version(pyspark.__version__)
