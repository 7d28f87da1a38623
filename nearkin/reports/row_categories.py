"""The categories of the rows that a run read: kept, removed for some reason, or rejected."""

from typing import NamedTuple

from nearkin.reports.model import ReportData
from nearkin.settings.spec import HAMMING

ALWAYS_SHOWN = ("kept", "exact", "near")
"""The categories that are shown even if they have no rows."""


class RowCategory(NamedTuple):
    """The rows of one category: its key and name, the reason, and the number and share of rows."""

    key: str
    name: str
    why: str
    rows: int
    share: float


def categorize_rows(data: ReportData) -> list[RowCategory]:
    """Returns the categories of the rows of a run. Most categories without rows are omitted."""
    counts = data.counts
    parameters = data.parameters
    contents = {"cosine": "vector", HAMMING: "fingerprint"}
    same = contents.get(parameters.measure, "words and symbols in the same order")
    without = "without words and symbols"
    if parameters.measure == HAMMING:
        without = "whose fingerprint is ignored"
    if parameters.verify == "none":
        near = "a band in common with a kept document, not verified"
    elif parameters.accept is not None:
        near = f"{parameters.accept}, for a removed and a kept document"
    else:
        near = (
            f"similarity of at least {parameters.threshold} to a kept document, by "
            f"{parameters.verify} comparison"
        )
    rows = [
        ("kept", "Kept", "unique documents, and one document of each cluster", counts.kept),
        (
            "exact",
            "Exact duplicates",
            f"the same {same} as a kept document",
            counts.removed_exact,
        ),
        ("near", "Near-duplicates", near, counts.removed_near),
        (
            "vector",
            "Near-duplicates by second measure",
            f"similar to a kept document by {parameters.then}",
            counts.removed_vector,
        ),
        (
            "reference",
            "Duplicates of the reference",
            "exact or near-duplicates of a document of the reference",
            None
            if counts.removed_reference is None
            else counts.removed_reference - (counts.removed_reference_same or 0),
        ),
        (
            "reference-same",
            "Equal values in the reference",
            "the same value in a column as a document of the reference; texts not compared",
            counts.removed_reference_same,
        ),
        (
            "same",
            "Equal values or decisions",
            "the same value in a column as another document of the cluster, or decided to be the "
            "same; texts not compared",
            counts.removed_same,
        ),
        (
            "blocked",
            "Blocked",
            "like an entry of the blocklist",
            counts.removed_blocked,
        ),
        (
            "empty",
            "Empty",
            f"documents {without}, which the run was asked to remove",
            counts.removed_empty,
        ),
        (
            "rejected",
            "Rejected",
            "rows that could not be read; they are in the quarantine",
            counts.rejected,
        ),
    ]
    total = counts.read or 1
    return [
        RowCategory(key, name, why, number or 0, (number or 0) / total)
        for key, name, why, number in rows
        if number or key in ALWAYS_SHOWN or (key == "reference" and number is not None)
    ]
