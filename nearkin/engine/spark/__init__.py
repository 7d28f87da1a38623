"""The Spark engine, which needs the extra `nearkin[spark]`."""

from nearkin.errors import MissingExtraError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        "engine spark needs a package that is not installed: pip install 'nearkin[spark]'"
    ) from error
