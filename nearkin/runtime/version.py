"""The version of nearkin, which the build derives from the tags of Git, and those beside it."""

try:
    from nearkin._version import VERSION as BUILT  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # sources that were not built
    BUILT = "0+unknown"

VERSION = str(BUILT)


def list_versions() -> dict[str, str]:
    """Returns the versions of Python and of the libraries that the results of a run are from."""
    # Help pages need none of these modules, which load many others.
    import platform

    import numba
    import numpy
    import pyarrow

    libraries = {module.__name__: module.__version__ for module in (numba, pyarrow, numpy)}
    return {"python": platform.python_version(), **libraries}
