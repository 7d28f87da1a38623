"""The version of nearkin, which the build derives from the tags of Git."""

try:
    from nearkin._version import VERSION
except ImportError:  # sources that were not built
    VERSION = "0+unknown"
