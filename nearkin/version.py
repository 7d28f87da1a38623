"""The version of nearkin."""

VERSION = "0.1.0"
