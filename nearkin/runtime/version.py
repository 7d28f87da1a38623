"""The version of nearkin, which the build derives from the tags of Git."""

try:
    from nearkin._version import VERSION as BUILT  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # sources that were not built
    BUILT = "0+unknown"

VERSION = str(BUILT)
