"""The values of settings with a closed set of values."""

from enum import StrEnum


class Verify(StrEnum):
    """The ways in which candidate pairs are verified."""

    EXACT = "exact"
    ESTIMATE = "estimate"
    NONE = "none"


class ClusterMethod(StrEnum):
    """The ways in which verified pairs become clusters."""

    LEADERS = "leaders"
    COMPONENTS = "components"


class EmptyDocuments(StrEnum):
    """The treatment of documents without shingles."""

    KEEP = "keep"
    DROP = "drop"


class MissingBlock(StrEnum):
    """The documents that a document without a value of `block_by` is compared with."""

    NONE = "none"
    ALL = "all"
