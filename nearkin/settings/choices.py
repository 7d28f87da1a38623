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


class MergeRule(StrEnum):
    """The rules by which the value of a kept row is taken from the rows of its cluster."""

    FIRST_NON_EMPTY = "first-non-empty"
    MOST_FREQUENT = "most-frequent"
    LONGEST = "longest"
    MIN = "min"
    MAX = "max"
    UNION = "union"


class EmptyDocuments(StrEnum):
    """The treatment of documents without shingles."""

    KEEP = "keep"
    DROP = "drop"


class MissingBlock(StrEnum):
    """The documents that a document without a value of `block_by` is compared with."""

    NONE = "none"
    ALL = "all"
